//! The CPU and wall-clock endpoints, and profiles as bytes.

use super::query::{Form, MAX_SECONDS, Query, bad};
use super::refused;
use crate::agent::Agent;
use crate::cpu::{CpuCapture, DEFAULT_WALL_HZ, MAX_WALL_HZ, wall_profile};
use crate::error::Result;
use crate::options::{CpuOptions, DEFAULT_HZ, MAX_HZ};
use crate::request::{Method, Request, Response};
use crate::{legacy, symbols};
use procprof_profile::{Grammar, Profile};
use std::time::{Duration, SystemTime};

const DEFAULT_SECONDS: u64 = 30;

/// Samples for the requested seconds, and answers in the requested form.
pub(super) fn cpu(
    agent: &Agent,
    query: &Query,
    default: Form,
    request: &Request<'_>,
) -> std::result::Result<Response, Response> {
    let seconds = query.number("seconds", 1..=MAX_SECONDS, DEFAULT_SECONDS)?;
    let hz = query.number("frequency", 1..=u64::from(MAX_HZ), u64::from(DEFAULT_HZ))? as u32;
    let engine = query.engine(agent.engine())?;
    let (form, symbolize) = (query.form(default)?, query.switch("symbolize", true)?);
    if request.method == Method::Head {
        return Ok(Response::ok("application/octet-stream", Vec::new()));
    }
    let (length, is_of_all) = (Duration::from_secs(seconds), form == Form::Proto && of_all_processes(query)?);
    let options =
        CpuOptions { hz, engine, owner: request.client.to_owned(), until: SystemTime::now().checked_add(length) };
    let profile = if is_of_all {
        capture_tree(agent, &options, length, request)
    } else {
        capture(agent, &options, length, request)
    };
    let profile = profile.map_err(|error| refused(&error))?;
    in_form(profile, form, symbolize)
}

/// Samples where threads are for the requested seconds, and answers in the requested form.
pub(super) fn wall(
    agent: &Agent,
    query: &Query,
    default: Form,
    request: &Request<'_>,
) -> std::result::Result<Response, Response> {
    let seconds = query.number("seconds", 1..=MAX_SECONDS, DEFAULT_SECONDS)?;
    let hz = query.number("frequency", 1..=u64::from(MAX_WALL_HZ), u64::from(DEFAULT_WALL_HZ))? as u32;
    let (form, symbolize) = (query.form(default)?, query.switch("symbolize", true)?);
    if request.method == Method::Head {
        return Ok(Response::ok("application/octet-stream", Vec::new()));
    }
    let profile = wall_profile(hz, Duration::from_secs(seconds), request.client, |length| {
        agent.wait(length, request.waits).map(|()| false)
    });
    in_form(profile.map_err(|error| refused(&error))?, form, symbolize)
}

fn in_form(profile: Profile, form: Form, symbolize: bool) -> std::result::Result<Response, Response> {
    match form {
        Form::Proto => proto(profile, symbolize),
        Form::Legacy => {
            let bytes = legacy::encode(&profile).map_err(|error| refused(&error))?;
            Ok(Response::ok("application/octet-stream", bytes).with_file_name("profile.prof"))
        }
    }
}

/// `processes=all|own`: whether forked processes are sampled, too.
fn of_all_processes(query: &Query) -> std::result::Result<bool, Response> {
    match query.get("processes") {
        None | Some("all") => Ok(true),
        Some("own") => Ok(false),
        Some(other) => Err(bad(format!("processes={other}: expected all or own"))),
    }
}

fn capture(agent: &Agent, options: &CpuOptions, length: Duration, request: &Request<'_>) -> Result<Profile> {
    let capture = CpuCapture::start(options)?;
    agent.wait(length, request.waits)?;
    capture.finish()
}

/// This process with all that were forked from it, where it is their root.
#[cfg(target_os = "linux")]
fn capture_tree(agent: &Agent, options: &CpuOptions, length: Duration, request: &Request<'_>) -> Result<Profile> {
    // First the own one: where that is refused, others need not begin.
    let own = CpuCapture::start(options)?;
    let order = crate::tree::Order::give(options.hz, options.engine, length)?;
    agent.wait(length, request.waits)?;
    let profile = own.finish()?;
    match order {
        Some(order) => order.collect(profile),
        None => Ok(profile),
    }
}

#[cfg(not(target_os = "linux"))]
use capture as capture_tree;

/// The profile as gzip'd pprof, with names if `symbolize` and as far as available.
pub(super) fn proto(profile: Profile, symbolize: bool) -> std::result::Result<Response, Response> {
    let encode = || -> Result<Vec<u8>> {
        let profile = profile.adjusted(Grammar::Pprof)?;
        let profile = if symbolize { symbols::name_all(profile)? } else { profile };
        Ok(procprof_profile::format::pprof::encode_gzip(&profile)?)
    };
    let bytes = encode().map_err(|error| refused(&error))?;
    Ok(Response::ok("application/octet-stream", bytes).with_file_name("profile.pb.gz"))
}
