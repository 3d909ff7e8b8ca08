//! Lock contention: profiles of waits, and the switch.

use super::profile::proto;
use super::query::{Form, MAX_SECONDS, Query};
use super::refused;
use crate::agent::Agent;
use crate::contention::{Capture, Contention, Sums, View, build, encode_text, since_start};
use crate::error::Result;
use crate::request::{Method, Request, Response};
use std::time::Duration;

type Answer = std::result::Result<Response, Response>;

/// Waits, charged to who waited.
pub(super) fn waits(agent: &Agent, query: &Query, default: Form, request: &Request<'_>) -> Answer {
    answer(agent, query, default, request, View::Waiter)
}

/// Waits, charged to who held the locks.
pub(super) fn holders(agent: &Agent, query: &Query, request: &Request<'_>) -> Answer {
    answer(agent, query, Form::Proto, request, View::Holder)
}

fn answer(agent: &Agent, query: &Query, default: Form, request: &Request<'_>, view: View) -> Answer {
    let seconds = query.number("seconds", 0..=MAX_SECONDS, 0)?;
    let (form, symbolize) = (query.form(default)?, query.switch("symbolize", true)?);
    if request.method == Method::Head {
        return Ok(Response::ok("application/octet-stream", Vec::new()));
    }
    let sums = record(agent, seconds, request).map_err(|error| refused(&error))?;
    match form {
        Form::Proto => proto(build(&sums, view).map_err(|error| refused(&error))?, symbolize),
        Form::Legacy => {
            let text = encode_text(&sums, view).map_err(|error| refused(&error))?;
            Ok(Response::ok("text/plain; charset=utf-8", text).with_file_name("profile.contention"))
        }
    }
}

/// The sums since the start, or of the requested seconds, for which the recording is switched on if need be.
fn record(agent: &Agent, seconds: u64, request: &Request<'_>) -> Result<Sums> {
    agent.wait(Duration::ZERO, None)?;
    if seconds == 0 {
        return since_start();
    }
    let capture = Capture::start()?;
    agent.wait(Duration::from_secs(seconds), request.waits)?;
    Ok(capture.finish())
}

/// `{"active":true}`
pub(super) fn status() -> Answer {
    let body = format!("{{\"active\":{}}}\n", Contention::is_active());
    Ok(Response::ok("application/json", body.into_bytes()))
}

/// Switches the recording, and answers with the status.
pub(super) fn switch(on: bool) -> Answer {
    if on {
        Contention::enable().map_err(|error| refused(&error))?;
    } else {
        Contention::disable();
    }
    status()
}
