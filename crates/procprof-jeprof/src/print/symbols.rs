//! `--symbols`: short names for the addresses of a text.

use std::collections::BTreeMap;
use std::io::{self, Read};

use crate::command_line::Request;
use crate::environment::Environment;
use crate::error::{Error, Result};
use crate::load::resolve_path;
use crate::naming::{self, Binaries};
use crate::read::libraries;
use crate::symbols::Symbol;

/// The short name of each address in the text `input`, a line each; lines without an address are the memory map.
///
/// # Errors
/// A program that cannot be opened, or input that cannot be read.
pub fn print_symbols(
    program: &str,
    input: &mut dyn Read,
    request: &Request,
    environment: &Environment,
) -> Result<String> {
    let program = resolve_path(program)?;
    let text = io::read_to_string(input).map_err(Error::Input)?.replace('\r', "");
    let (mut map, mut addresses) = (String::new(), Vec::new());
    for line in text.lines() {
        match address(line) {
            Some(address) => addresses.push(address),
            None => map.extend([line, "\n"]),
        }
    }
    let libraries = libraries::parse(&map, &program.to_string_lossy());
    let binaries = Binaries::new(&program, request, environment);
    let named: BTreeMap<u64, Vec<Symbol>> = naming::name_addresses(&libraries, &binaries, &addresses);
    let name =
        |address: &u64| named.get(address).and_then(|symbols| symbols.first()).map_or("??", |symbol| &symbol.short);
    Ok(addresses.iter().flat_map(|address| [name(address), "\n"]).collect())
}

/// The first number of a line that begins with `0x`.
fn address(line: &str) -> Option<u64> {
    let start = line.find("0x")? + "0x".len();
    let digits = line[start..].bytes().take_while(u8::is_ascii_hexdigit).count();
    u64::from_str_radix(line.get(start..start + digits)?, 16).ok()
}
