//! Requests to responses: the pprof endpoints, whatever server they arrive through.

mod dumps;
mod growth;
mod heap;
mod index;
#[cfg_attr(not(all(feature = "contention", target_os = "linux")), path = "no_locks.rs")]
mod locks;
mod profile;
mod query;
mod symbol;
mod table;

pub use query::MAX_SECONDS;
pub(crate) use symbol::MAX_BODY;
pub use table::{ENDPOINTS, Endpoint};

use crate::agent::{Agent, LOOK_AT_CLIENT};
use crate::aside;
use crate::error::Error;
use crate::request::{Method, Request, Response};
use crate::room;
use query::Query;
use std::sync::atomic::{AtomicBool, Ordering};
use table::Kind;

impl Agent {
    /// Answers a request to one of [`crate::ENDPOINTS`]; a capture blocks the caller for its seconds. Any thread may
    /// call.
    ///
    /// What needs files is done in a thread of the agent's, whose descriptors are not the program's; the caller waits.
    pub fn handle(&self, request: &Request<'_>) -> Response {
        handle(self, request)
    }

    /// As [`Agent::handle`], in a thread of the agent's.
    pub(crate) fn handle_aside(&self, request: &Request<'_>) -> Response {
        let Request { method, path, query, body, authorization, client, waits } = *request;
        let (has_left, is_watched) = (AtomicBool::new(false), waits.is_some());
        let look = || has_left.store(waits.is_some_and(|waits| !waits()), Ordering::Relaxed);
        let answer = || {
            let waits = || !has_left.load(Ordering::Relaxed);
            let waits: Option<&dyn Fn() -> bool> = if is_watched { Some(&waits) } else { None };
            handle(self, &Request { method, path, query, body, authorization, client, waits })
        };
        aside::run(LOOK_AT_CLIENT, look, answer)
            .unwrap_or_else(|error| Response::text(503, format!("start a thread for the answer: {error}")))
    }
}

/// Answers one request; a capture blocks the caller for its seconds.
fn handle(agent: &Agent, request: &Request<'_>) -> Response {
    crate::own_thread::left_out(|| answer(agent, request)).unwrap_or_else(|refusal| refusal)
}

fn answer(agent: &Agent, request: &Request<'_>) -> Result<Response, Response> {
    let endpoint =
        table::find(request.path).ok_or_else(|| Response::text(404, "no such page; /debug/pprof/ lists all"))?;
    agent.admit(request.authorization)?;
    if !endpoint.methods.contains(&request.method) {
        return Err(wrong_method(endpoint));
    }
    if endpoint.kind.needs_files() && request.method != Method::Head && !aside::has_own_table() {
        return Ok(agent.handle_aside(request));
    }
    let query = Query::parse(request.query)?;
    if endpoint.kind.takes_memory() {
        room::check().map_err(|error| refused(&error))?;
    }
    match endpoint.kind {
        Kind::Index => Ok(index::page(request.path)),
        Kind::Cpu(form) => profile::cpu(agent, &query, form, request),
        Kind::Wall(form) => profile::wall(agent, &query, form, request),
        Kind::Heap(form) => heap::dump(agent, &query, form, request.method),
        Kind::Allocs => heap::allocs(agent, &query, request.method),
        Kind::Growth => growth::answer(agent, &query, request),
        Kind::HeapStatus => heap::status(agent),
        Kind::HeapEnable => heap::switch(agent, &query, true),
        Kind::HeapDisable => heap::switch(agent, &query, false),
        Kind::HeapReset => heap::reset(agent, &query),
        Kind::HeapDumps => dumps::answer(agent, &query),
        Kind::HeapDumpsClean => dumps::clean(agent, &query),
        Kind::Waits(form) => locks::waits(agent, &query, form, request),
        Kind::Holders => locks::holders(agent, &query, request),
        Kind::LocksStatus => locks::status(),
        Kind::LocksEnable => locks::switch(true),
        Kind::LocksDisable => locks::switch(false),
        Kind::Cmdline => cmdline(),
        Kind::Symbol => symbol::answer(request),
    }
}

fn wrong_method(endpoint: &Endpoint) -> Response {
    let allowed: Vec<&str> = endpoint.methods.iter().map(|method| method.name()).collect();
    let mut response = Response::text(405, format!("{}: expected {}", endpoint.path, allowed.join(" or ")));
    response.headers.push(("Allow", allowed.join(", ")));
    response
}

/// The command line as the kernel keeps it, as Go's endpoint gives it.
fn cmdline() -> Result<Response, Response> {
    let read = std::fs::read("/proc/self/cmdline");
    let mut bytes = read.map_err(|source| refused(&Error::System { what: "read the command line", source }))?;
    while bytes.last() == Some(&0) {
        bytes.pop();
    }
    Ok(Response::ok("text/plain; charset=utf-8", bytes))
}

/// An error as a status and a sentence.
fn refused(error: &Error) -> Response {
    let status = match error {
        Error::NoSuchDumpFile { .. } => 404,
        Error::Frequency { .. } => 400,
        Error::Busy { .. } | Error::WallBusy { .. } | Error::GrowthBusy { .. } => 409,
        Error::TooManyCaptures { .. } => 429,
        Error::PerfRefused { .. }
        | Error::HeapUnavailable { .. }
        | Error::NoTotals { .. }
        | Error::NoJemalloc
        | Error::NoDumpFiles => 501,
        Error::DumpFileUnfinished { .. } | Error::Stopped | Error::Forked { .. } | Error::ClientLeft => 503,
        Error::NoRoom { .. } | Error::NoRoomForNames { .. } | Error::OutOfMemory => 507,
        Error::NoLockHooks | Error::ContentionOff | Error::Unsupported { .. } => 501,
        _ => 500,
    };
    Response::text(status, error.to_string())
}
