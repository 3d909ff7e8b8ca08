//! The answers for lock contention in a build that does not record it.

use super::query::{Form, Query};
use crate::agent::Agent;
use crate::request::{Request, Response};

type Answer = Result<Response, Response>;

fn refusal() -> Answer {
    Err(Response::text(
        501,
        "waits for locks are not recorded by this build of procprof-agent (feature contention, on Linux)",
    ))
}

pub(super) fn waits(_: &Agent, _: &Query, _: Form, _: &Request<'_>) -> Answer {
    refusal()
}

pub(super) fn holders(_: &Agent, _: &Query, _: &Request<'_>) -> Answer {
    refusal()
}

pub(super) fn status() -> Answer {
    refusal()
}

pub(super) fn switch(_: bool) -> Answer {
    refusal()
}
