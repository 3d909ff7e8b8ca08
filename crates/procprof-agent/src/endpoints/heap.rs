//! Heap endpoints: a dump, and jemalloc's switches.

use super::profile::proto;
use super::query::{Form, Query, bad};
use super::refused;
use crate::agent::Agent;
use crate::jemalloc::{Dumper, HeapStatus};
use crate::modules::Modules;
use crate::request::Response;
use procprof_profile::format::{Limits, decode};
use procprof_profile::{Profile, ProfileType};

/// The largest power of two bytes between samples that `reset` takes.
const MAX_LG_SAMPLE: u64 = 40;

/// jemalloc's own text, or the same as pprof.
pub(super) fn dump(agent: &Agent, query: &Query, default: Form) -> Result<Response, Response> {
    // Clients send the seconds of a CPU profile along; a heap is always that of this moment.
    query.number("seconds", 0..=u64::MAX, 0)?;
    let (form, symbolize) = (query.form(default)?, query.switch("symbolize", true)?);
    let text = dumper(agent)?.dump().map_err(|error| refused(&error))?;
    match form {
        Form::Legacy => Ok(Response::ok("text/plain; charset=utf-8", text).with_file_name("profile.heap")),
        Form::Proto => {
            let profile = decode(&text, &Limits::default()).map_err(|error| refused(&error.into()))?.profile;
            proto(with_facts(profile)?, symbolize)
        }
    }
}

fn with_facts(profile: Profile) -> Result<Profile, Response> {
    let meta = crate::meta::of(ProfileType::Heap, "jemalloc", &Modules::of_this_process());
    crate::meta::add(profile, &meta).map_err(|error| refused(&error))
}

/// `{"allocator":"jemalloc","compiled_in":true,"available":true,"active":true,"lg_sample":19}`
pub(super) fn status(agent: &Agent) -> Result<Response, Response> {
    Ok(status_of(dumper(agent)?.jemalloc.status()))
}

fn status_of(status: HeapStatus) -> Response {
    let HeapStatus { compiled_in, available, active, lg_sample } = status;
    let lg_sample = lg_sample.map_or_else(|| "null".to_owned(), |number| number.to_string());
    let body = format!(
        "{{\"allocator\":\"jemalloc\",\"compiled_in\":{compiled_in},\"available\":{available},\"active\":{active},\"lg_sample\":{lg_sample}}}\n"
    );
    Response::ok("application/json", body.into_bytes())
}

/// Switches sampling and answers with the status.
pub(super) fn switch(agent: &Agent, query: &Query, active: bool) -> Result<Response, Response> {
    if let Some(time) = query.get("for") {
        return Err(bad(format!("for={time}: switching for a time is not offered; switch back by hand")));
    }
    let jemalloc = dumper(agent)?.jemalloc;
    jemalloc.set_active(active).map_err(|error| refused(&error))?;
    Ok(status_of(jemalloc.status()))
}

/// Forgets samples and answers with the status.
pub(super) fn reset(agent: &Agent, query: &Query) -> Result<Response, Response> {
    let jemalloc = dumper(agent)?.jemalloc;
    let lg_sample = match query.get("lg_sample") {
        Some(_) => Some(query.number("lg_sample", 0..=MAX_LG_SAMPLE, 0)? as usize),
        None => None,
    };
    jemalloc.reset(lg_sample).map_err(|error| refused(&error))?;
    Ok(status_of(jemalloc.status()))
}

fn dumper(agent: &Agent) -> Result<&Dumper, Response> {
    agent.dumper().map_err(|error| refused(&error))
}
