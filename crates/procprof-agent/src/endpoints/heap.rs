//! Heap endpoints: a dump, and the profiler's switches.

use super::profile::proto;
use super::query::{Form, Query};
use super::refused;
use crate::agent::Agent;
use crate::heap::{Heap, HeapStatus, environment};
use crate::modules::Modules;
use crate::moment::utc_text;
use crate::request::{Method, Response};
use procprof_profile::{Profile, ProfileType};
use std::time::SystemTime;

/// The largest power of two bytes between samples that `reset` takes.
const MAX_LG_SAMPLE: u64 = 40;

/// jemalloc's text form, or the same as pprof.
pub(super) fn dump(agent: &Agent, query: &Query, default: Form, method: Method) -> Result<Response, Response> {
    // Clients send the seconds of a CPU profile along; a heap is always that of this moment.
    query.number("seconds", 0..=u64::MAX, 0)?;
    let (form, symbolize) = (query.form(default)?, query.switch("symbolize", true)?);
    let heap = heap(agent)?;
    if method == Method::Head {
        return Ok(Response::ok("application/octet-stream", Vec::new()));
    }
    let text = heap.text().map_err(|error| refused(&error))?;
    match form {
        Form::Legacy => Ok(Response::ok("text/plain; charset=utf-8", text).with_file_name("profile.heap")),
        Form::Proto => proto(profile(heap, &text)?, symbolize),
    }
}

/// The heap profile with what was allocated in all as the view to begin with.
pub(super) fn allocs(agent: &Agent, query: &Query, method: Method) -> Result<Response, Response> {
    let heap = heap(agent)?;
    heap.require_totals().map_err(|error| refused(&error))?;
    if query.form(Form::Proto)? == Form::Legacy || method == Method::Head {
        return dump(agent, query, Form::Proto, method);
    }
    query.number("seconds", 0..=u64::MAX, 0)?;
    let symbolize = query.switch("symbolize", true)?;
    let text = heap.text().map_err(|error| refused(&error))?;
    let profile = profile(heap, &text)?;
    let shown = profile.sample_type_index("alloc_space").map(|index| profile.sample_types()[index].kind);
    let mut parts = profile.into_parts();
    parts.default_sample_type = shown.unwrap_or_default();
    proto(parts.finish().map_err(|error| refused(&error.into()))?, symbolize)
}

/// The text as a profile with what is known about it.
fn profile(heap: Heap<'_>, text: &[u8]) -> Result<Profile, Response> {
    let modules = Modules::of_this_process();
    let mut meta = crate::meta::known_facts(ProfileType::Heap, "", &modules);
    heap.describe(&mut meta);
    crate::meta::decode_dump(text, &modules)
        .and_then(|profile| heap.name_unknown(profile))
        .and_then(|profile| crate::meta::add(profile, &meta))
        .map_err(|error| refused(&error))
}

/// The text of a file that jemalloc has written as a profile.
pub(super) fn profile_of_file(text: &[u8]) -> Result<Profile, Response> {
    let modules = Modules::of_this_process();
    let meta = crate::meta::known_facts(ProfileType::Heap, "jemalloc", &modules);
    crate::meta::decode_dump(text, &modules)
        .and_then(|profile| crate::meta::add(profile, &meta))
        .map_err(|error| refused(&error))
}

/// `{"allocator":"jemalloc","compiled_in":true,"available":true,"active":true,"lg_sample":19,"until":null,"variable":"MALLOC_CONF",…}`
pub(super) fn status(agent: &Agent) -> Result<Response, Response> {
    let heap = heap(agent)?;
    let HeapStatus { compiled_in, available, active, lg_sample } = heap.status();
    let variable = heap.variable().map_or_else(|| "null".to_owned(), json_text);
    let lg_sample = lg_sample.map_or_else(|| "null".to_owned(), |number| number.to_string());
    let since_epoch = |moment: SystemTime| moment.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let until = agent
        .heap_switch()
        .until()
        .map_or_else(|| "null".to_owned(), |moment| format!("\"{}\"", utc_text(since_epoch(moment))));
    let set: Vec<String> =
        environment::found().iter().map(|(name, value)| format!("\"{name}\":{}", json_text(value))).collect();
    let body = format!(
        "{{\"allocator\":\"{}\",\"compiled_in\":{compiled_in},\"available\":{available},\"active\":{active},\"lg_sample\":{lg_sample},\
         \"until\":{until},\"variable\":{variable},\"environment\":{{{}}}}}\n",
        heap.allocator(),
        set.join(","),
    );
    Ok(Response::ok("application/json", body.into_bytes()))
}

/// A JSON string.
pub(super) fn json_text(text: &str) -> String {
    let mut quoted = String::from("\"");
    for character in text.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            control if control < ' ' => quoted.push_str(&format!("\\u{:04x}", control as u32)),
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    quoted
}

/// Switches sampling, for good or `?for=30m`, and answers with the status.
pub(super) fn switch(agent: &Agent, query: &Query, active: bool) -> Result<Response, Response> {
    let length = query.length("for")?;
    agent.set_heap(active, length).map_err(|error| refused(&error))?;
    status(agent)
}

/// Forgets samples and answers with the status.
pub(super) fn reset(agent: &Agent, query: &Query) -> Result<Response, Response> {
    let lg_sample = match query.get("lg_sample") {
        Some(_) => Some(query.number("lg_sample", 0..=MAX_LG_SAMPLE, 0)? as usize),
        None => None,
    };
    heap(agent)?.reset(lg_sample).map_err(|error| refused(&error))?;
    status(agent)
}

fn heap(agent: &Agent) -> Result<Heap<'_>, Response> {
    agent.heap().map_err(|error| refused(&error))
}
