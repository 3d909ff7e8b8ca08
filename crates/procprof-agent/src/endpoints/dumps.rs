//! The dump files that jemalloc writes by itself: a list, one of them as a profile, and cleaning up.

use super::heap::{json_text, profile_of_file};
use super::profile::proto;
use super::query::{Form, Query};
use super::refused;
use crate::agent::Agent;
use crate::error::Error;
use crate::heap::{DumpFile, DumpFileLimits, DumpFiles, Jemalloc};
use crate::moment::utc_text;
use crate::request::Response;
use std::time::SystemTime;

/// All files, newest first, or the one with a `name`.
pub(super) fn answer(agent: &Agent, query: &Query) -> Result<Response, Response> {
    let jemalloc = agent.jemalloc().map_err(|error| refused(&error))?;
    let files = DumpFiles::from_jemalloc(jemalloc).ok_or_else(|| refused(&Error::NoDumpFiles))?;
    let Some(name) = query.get("name") else { return list(agent, jemalloc, &files) };
    let (form, symbolize) = (query.form(Form::Proto)?, query.switch("symbolize", true)?);
    let text = files.read(name).map_err(|error| refused(&error))?;
    match form {
        Form::Legacy => Ok(Response::ok("text/plain; charset=utf-8", text).with_file_name("profile.heap")),
        Form::Proto => proto(profile_of_file(&text)?, symbolize),
    }
}

/// Deletes all but the newest `keep` files, and answers with the list.
pub(super) fn clean(agent: &Agent, query: &Query) -> Result<Response, Response> {
    let jemalloc = agent.jemalloc().map_err(|error| refused(&error))?;
    let files = DumpFiles::from_jemalloc(jemalloc).ok_or_else(|| refused(&Error::NoDumpFiles))?;
    let limits = agent.dump_file_limits();
    let keep = query.number("keep", 0..=1_000_000, limits.unwrap_or_default().files as u64)? as usize;
    files.clean(DumpFileLimits { files: keep, bytes: u64::MAX }).map_err(|error| refused(&error))?;
    list(agent, jemalloc, &files)
}

/// `{"folder":"/data","prefix":"jeprof","lg_prof_interval":30,"prof_gdump":false,"keep_files":16,"keep_bytes":268435456,"files":[…]}`
fn list(agent: &Agent, jemalloc: &Jemalloc, files: &DumpFiles) -> Result<Response, Response> {
    let rows: Vec<String> = files.list().map_err(|error| refused(&error))?.iter().map(row).collect();
    let number = |number: Option<u64>| number.map_or_else(|| "null".to_owned(), |number| number.to_string());
    let limits = agent.dump_file_limits();
    let body = format!(
        "{{\"folder\":{},\"prefix\":{},\"lg_prof_interval\":{},\"prof_gdump\":{},\"keep_files\":{},\"keep_bytes\":{},\"files\":[{}]}}\n",
        json_text(&files.full_path().to_string_lossy()),
        json_text(&files.prefix),
        number(jemalloc.lg_dump_interval()),
        jemalloc.dumps_at_peaks(),
        number(limits.map(|limits| limits.files as u64)),
        number(limits.map(|limits| limits.bytes)),
        rows.join(","),
    );
    Ok(Response::ok("application/json", body.into_bytes()))
}

fn row(file: &DumpFile) -> String {
    let written = file.written.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    format!(
        "{{\"name\":{},\"pid\":{},\"number\":{},\"cause\":\"{}\",\"bytes\":{},\"written\":\"{}\"}}",
        json_text(&file.name),
        file.pid,
        file.number,
        file.cause.name(),
        file.bytes,
        utc_text(written),
    )
}
