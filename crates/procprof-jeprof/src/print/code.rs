//! `--list` and `--disasm` of a program, as jeprof prints them.

use std::path::Path;

use regex::Regex;

use crate::command_line::{Output, Request};
use crate::environment::Environment;
use crate::error::{Error, Result};
use crate::load::{Loaded, resolve_path};
use crate::naming::{Binaries, disassemble_matching};
use crate::read::libraries;
use crate::settings::Settings;
use crate::view::View;

/// Largest source file that is read, in bytes.
const SOURCE_BYTES_MAX: u64 = 64 << 20;

/// Source lines, or with [`Output::Disassembly`] machine code, of the functions of `program` that match.
///
/// # Errors
/// A regular expression that cannot be read, or a program that cannot be opened.
pub fn print_code(
    program: &str,
    request: &Request,
    loaded: &Loaded,
    settings: &Settings,
    environment: &Environment,
) -> Result<String> {
    let pattern = request.symbol.as_deref().unwrap_or_default();
    let pattern = Regex::new(pattern).map_err(|error| Error::Pattern { pattern: pattern.to_owned(), error })?;
    let program = resolve_path(program)?;
    let libraries = libraries::parse(&loaded.map, &program.to_string_lossy());
    let binaries = Binaries::new(&program, request, environment);
    let view = View::new(&loaded.stacks, &loaded.pcs, &loaded.symbols, loaded.kind, settings);
    view.messages().iter().for_each(|message| (environment.log)(message));
    let procedures = disassemble_matching(&libraries, &binaries, &view, &pattern);
    if request.output == Output::Disassembly {
        return Ok(view.disassembly(&procedures, &read_source));
    }
    let (text, messages) = view.listing(&procedures, &read_source);
    messages.iter().for_each(|message| (environment.log)(message));
    Ok(text)
}

fn read_source(path: &str) -> Option<String> {
    let metadata = Path::new(path).metadata().ok()?;
    if !metadata.is_file() || metadata.len() > SOURCE_BYTES_MAX {
        return None;
    }
    Some(String::from_utf8_lossy(&std::fs::read(path).ok()?).replace('\r', ""))
}
