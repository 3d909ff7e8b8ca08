//! `--list` and `--disasm` of a program, as jeprof prints them.

use std::path::Path;

use anyhow::{Context, Result};
use procprof_report::jeprof::{Settings, View, libraries};
use procprof_symbolize::binutils::Detail;
use regex::Regex;

use super::load::{Loaded, absolute};
use super::names::{Places, procedures};
use super::request::Request;

/// Largest source file that is read, in bytes.
const SOURCE_BYTES_MAX: u64 = 64 << 20;

/// Which of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Listed {
    Sources,
    Code,
}

/// The text of one.
pub(super) fn text(listed: Listed, program: &str, request: &Request, loaded: &Loaded, settings: &Settings) -> Result<String> {
    let pattern = request.symbol.as_deref().unwrap_or_default();
    let pattern = Regex::new(pattern).with_context(|| pattern.to_owned())?;
    let program = absolute(program)?;
    let libraries = libraries::parse(&loaded.map, &program.to_string_lossy());
    let places = Places {
        program: &program,
        add_lib: request.add_lib.as_deref(),
        prefixes: &request.prefixes,
        copies: request.copies,
        detail: Detail::NamesAndPlaces,
        cache: request.cache.as_ref(),
    };
    let view = View::new(&loaded.stacks, &loaded.pcs, &loaded.symbols, loaded.kind, settings);
    view.messages().iter().for_each(|message| eprintln!("{message}"));
    let procedures = procedures(&libraries, &places, &view, &pattern);
    if listed == Listed::Code {
        return Ok(view.disassembly(&procedures, &source));
    }
    let (text, messages) = view.listing(&procedures, &source);
    messages.iter().for_each(|message| eprintln!("{message}"));
    Ok(text)
}

fn source(path: &str) -> Option<String> {
    let metadata = Path::new(path).metadata().ok()?;
    if !metadata.is_file() || metadata.len() > SOURCE_BYTES_MAX {
        return None;
    }
    Some(String::from_utf8_lossy(&std::fs::read(path).ok()?).replace('\r', ""))
}
