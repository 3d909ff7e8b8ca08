//! `procprof symbols push`: file to index to server.

use std::collections::HashMap;
use std::io::Cursor;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use indicatif::{ProgressBar, ProgressStyle};
use procprof_symbolize::{Image, ImageOptions, SplitUnits, SymbolIndex};
use reqwest::{Body, Method, header};
use serde_json::Value;
use tokio_util::io::{InspectReader, ReaderStream};

use super::files::{self, Input};
use super::packed::{self, Unpacked};
use super::table::size;
use crate::remote::Remote;

/// Longest time for sending one index; the server has its own limits.
const SEND_MAX: Duration = Duration::from_secs(3600);

/// A file's index, ready to be sent.
pub(crate) struct Made {
    pub(crate) bytes: Vec<u8>,
    pub(crate) key: String,
    functions: u64,
    pub(crate) has_lines: bool,
}

/// The result for a file.
enum Done {
    /// The line for its file.
    Report(String),
    /// It has no symbols.
    Nameless,
}

/// Sends the symbols of all files that are meant, one after the other.
pub(super) async fn run(remote: &Remote, named: &[PathBuf]) -> Result<ExitCode> {
    let (inputs, notes) = files::meant(named)?;
    notes.iter().for_each(|line| eprintln!("procprof: {line}"));
    let mut sent: HashMap<String, bool> = HashMap::new();
    let (mut nameless, mut failed) = (0, 0);
    for Input { path, is_named } in &inputs {
        match one(remote, path.clone(), &mut sent).await {
            Ok(Done::Report(line)) => println!("{}: {line}", path.display()),
            Ok(Done::Nameless) if *is_named => {
                failed += 1;
                eprintln!(
                    "procprof: {}: it is stripped and no debug file of it was found; give its .debug or .debuginfo \
                     file",
                    path.display()
                );
            }
            Ok(Done::Nameless) => nameless += 1,
            Err(error) => {
                failed += 1;
                eprintln!("procprof: {}: {error:#}", path.display());
            }
        }
    }
    if nameless > 0 {
        eprintln!("procprof: {nameless} stripped files in the folders were left out");
    }
    if sent.is_empty() && failed == 0 {
        bail!("no file with symbols");
    }
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn one(remote: &Remote, path: PathBuf, sent: &mut HashMap<String, bool>) -> Result<Done> {
    let bar = spinner(&path.display().to_string());
    let made = tokio::task::spawn_blocking(move || make(packed::open(&path)?)).await.context("read the file")?;
    bar.finish_and_clear();
    let Some(made) = made? else { return Ok(Done::Nameless) };
    if sent.get(&made.key).is_some_and(|had_lines| *had_lines >= made.has_lines) {
        return Ok(Done::Report(format!("the same symbols were sent already ({})", made.key)));
    }
    sent.insert(made.key.clone(), made.has_lines);
    let (functions, bytes) = (made.functions, made.bytes.len() as u64);
    let answer = send(remote, made).await?;
    let symbols = &answer["symbols"];
    let key = symbols["key"].as_str().unwrap_or("?");
    for gone in answer["evicted"].as_array().into_iter().flatten() {
        let text = |field: &str| gone[field].as_str().unwrap_or("?").to_owned();
        eprintln!("procprof: the symbols of {} ({}) made room for it", text("name"), text("key"));
    }
    let waiting = match symbols["profiles_wanting"].as_u64() {
        Some(0) | None => String::new(),
        Some(1) => "; 1 stored profile gets names when it is opened".to_owned(),
        Some(count) => format!("; {count} stored profiles get names when they are opened"),
    };
    Ok(Done::Report(match answer["outcome"].as_str() {
        Some("added") => format!("{functions} functions, {} sent as {key}{waiting}", size(bytes)),
        Some("replaced") => {
            format!("{functions} functions, {} sent as {key} in the place of older ones{waiting}", size(bytes))
        }
        Some("kept") => {
            let (by, owner) = (symbols["by"].as_str().unwrap_or("?"), symbols["owner"].as_str().unwrap_or("?"));
            format!(
                "not sent: the server has symbols of {key} by {by} ({owner}), which these do not replace; an operator \
                 can remove them"
            )
        }
        _ => bail!("{}: this server knows nothing of symbols", remote.base()),
    }))
}

/// Makes the index of one of the user's own files, so units that were split off are read wherever they are.
fn make(unpacked: Unpacked) -> Result<Option<Made>> {
    index(&unpacked.file, &unpacked.path, SplitUnits::Anywhere)
}

/// Makes the index of a file of any user; `None` if nothing names its code.
pub(crate) fn index_of(file: std::fs::File, path: &std::path::Path) -> Result<Option<Made>> {
    index(&file, path, ImageOptions::default().split_units)
}

fn index(file: &std::fs::File, path: &std::path::Path, split_units: SplitUnits) -> Result<Option<Made>> {
    let options = ImageOptions { split_units, ..ImageOptions::default() };
    let image = Image::from_file(file, path, &options)?;
    if !image.has_symbols() {
        return Ok(None);
    }
    let bytes = SymbolIndex::build(&image)?;
    let index = SymbolIndex::from_bytes(bytes.clone())?;
    let contents = index.contents()?;
    Ok(Some(Made { key: index.key(), functions: contents.functions, has_lines: contents.has_lines, bytes }))
}

/// Sends an index, if the server would take it; returns its answer, or one that it has a better index.
async fn send(remote: &Remote, made: Made) -> Result<Value> {
    let length = made.bytes.len() as u64;
    let detail = if made.has_lines { "lines" } else { "functions" };
    let offer = format!("/api/symbols/offer?key={}&detail={detail}&bytes={length}", made.key.replace('+', "%2B"));
    let offered = remote.ask(remote.request(Method::POST, &offer)).await?;
    if offered["take"] == false {
        return Ok(serde_json::json!({ "outcome": "kept", "symbols": offered["stored"] }));
    }
    let bar = ProgressBar::new(length);
    if let Ok(style) =
        ProgressStyle::with_template("sending [{bar:40}] {bytes} of {total_bytes}, {bytes_per_sec}, {eta}")
    {
        bar.set_style(style.progress_chars("=> "));
    }
    let own = bar.clone();
    let pieces =
        ReaderStream::new(InspectReader::new(Cursor::new(made.bytes), move |piece| own.inc(piece.len() as u64)));
    let request = remote.request(Method::POST, "/api/symbols").timeout(SEND_MAX).header(header::CONTENT_LENGTH, length);
    let answer = remote.ask(request.body(Body::wrap_stream(pieces))).await;
    bar.finish_and_clear();
    answer
}

fn spinner(what: &str) -> ProgressBar {
    let bar = ProgressBar::new_spinner();
    if let Ok(style) = ProgressStyle::with_template("{spinner} reading {msg} ({elapsed})") {
        bar.set_style(style);
    }
    bar.set_message(what.to_owned());
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}
