//! Growth: what the memory in use has more at the end of some seconds than at their beginning.

use super::profile::proto;
use super::query::{Form, MAX_SECONDS, Query};
use super::refused;
use crate::agent::Agent;
use crate::error::Result;
use crate::heap::{Heap, InUse};
use crate::modules::Modules;
use crate::request::{Method, Request, Response};
use procprof_profile::{Nanos, Profile, ProfileType};
use std::time::{Duration, SystemTime};

/// Default length: clients of this path send no seconds.
const DEFAULT_SECONDS: u64 = 10;

const MEANS: &str = "bytes in use at the end that were not in use at the beginning, by stack, estimated; stacks that \
                     have fewer are left out";

/// Compares two moments; in gperftools' form by default.
pub(super) fn answer(agent: &Agent, query: &Query, request: &Request<'_>) -> std::result::Result<Response, Response> {
    let seconds = query.number("seconds", 1..=MAX_SECONDS, DEFAULT_SECONDS)?;
    let (form, symbolize) = (query.form(Form::Legacy)?, query.switch("symbolize", true)?);
    let heap = agent.heap().map_err(|error| refused(&error))?;
    if request.method == Method::Head {
        return Ok(Response::ok("application/octet-stream", Vec::new()));
    }
    let (began, length) = (SystemTime::now(), Duration::from_secs(seconds));
    let text = measure(agent, heap, length, request).map_err(|error| refused(&error))?;
    match form {
        Form::Legacy => Ok(Response::ok("text/plain; charset=utf-8", text).with_file_name("profile.growth")),
        Form::Proto => proto(profile(heap, &text, began, length).map_err(|error| refused(&error))?, symbolize),
    }
}

fn measure(agent: &Agent, heap: Heap<'_>, length: Duration, request: &Request<'_>) -> Result<Vec<u8>> {
    let _turn = agent.growth_turns().take(request.client, SystemTime::now() + length)?;
    let before = InUse::from_text(&heap.text()?)?;
    agent.wait(length, request.waits)?;
    InUse::from_text(&heap.text()?)?.growth_text(&before)
}

fn profile(heap: Heap<'_>, text: &[u8], began: SystemTime, length: Duration) -> Result<Profile> {
    let modules = Modules::of_this_process();
    let mut meta = crate::meta::known_facts(ProfileType::Other("growth".into()), "", &modules);
    heap.describe(&mut meta);
    meta.means = MEANS.into();
    let profile = heap.name_unknown(crate::meta::decode_dump(text, &modules)?)?;
    let mut parts = crate::meta::add(profile, &meta)?.into_parts();
    let since_epoch = began.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    parts.time = nanos(since_epoch);
    parts.duration = nanos(length);
    Ok(parts.finish()?)
}

fn nanos(length: Duration) -> Nanos {
    Nanos(i64::try_from(length.as_nanos()).unwrap_or(i64::MAX))
}
