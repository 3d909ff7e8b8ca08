//! The kernel's own symbols: `/proc/kallsyms`, or a copy of it from the profiled machine.
//!
//! ```text
//! ffffffff81000000 T _text
//! ffffffffc03b1230 t nf_hook      [nf_tables]
//! ```
//!
//! Address, type and name, and the module, if any. Addresses change with each boot, so this machine's are read only for
//! a process that runs on it, or a profile taken since it was started. For users from whom the kernel hides them
//! (`kernel.kptr_restrict`), they are all zero.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::thread::{self, JoinHandle};

use procprof_process::open_regular;

use super::Sources;
use super::inquiry::{Inquiries, Inquiry, Memory};
use super::text_symbols::{hexadecimal, read};
use crate::outcome::{Proof, Source, UsedFile};
use crate::{Frame, Reason, Resolved};

/// This machine's kernel's.
const OWN: &str = "/proc/kallsyms";
/// Largest extent of a symbol, in bytes: addresses far behind the last one of a module do not belong to it.
const SYMBOL_BYTES_MAX: u64 = 1 << 20;

/// Symbols of the kernel that a thread reads: `/proc/kallsyms` takes the kernel some 40 ms.
#[derive(Debug)]
pub(crate) struct Reading {
    path: PathBuf,
    proof: Proof,
    /// `None` where no thread could be started: then it is read when it is needed.
    text: Option<JoinHandle<io::Result<String>>>,
}

/// Begins to read the symbols of the kernel, if there are addresses in it.
pub(crate) fn begin(inquiries: &mut Inquiries<'_>, sources: &Sources<'_>) {
    if inquiries.unknown_in(Memory::Kernel).next().is_none() {
        return;
    }
    let is_own = sources.this_boot || inquiries.live.is_some();
    let (path, proof) = match &sources.kallsyms {
        Some(path) => (path.clone(), Proof::Unverified),
        None if is_own => (PathBuf::from(OWN), Proof::Verified),
        None => return,
    };
    let read_path = path.clone();
    let text = thread::Builder::new().name("kallsyms".to_owned()).spawn(move || read_symbols(&read_path)).ok();
    inquiries.kernel_symbols = Some(Reading { path, proof, text });
}

/// Looks up kernel addresses.
pub(super) fn ask(inquiries: &mut Inquiries<'_>, _sources: &mut Sources<'_>) {
    let Some(Reading { path, proof, text }) = inquiries.kernel_symbols.take() else { return };
    // Others may have known all addresses meanwhile.
    if inquiries.unknown_in(Memory::Kernel).next().is_none() {
        return;
    }
    let joined = text.map(|thread| thread.join().unwrap_or_else(|_| Err(io::Error::other("not read to its end"))));
    let text = match joined.unwrap_or_else(|| read_symbols(&path)) {
        Ok(text) => text,
        Err(error) => return inquiries.fail(Source::Kallsyms, format!("{}: {error}", path.display())),
    };
    if !text.lines().filter_map(Symbol::parse).any(|symbol| symbol.start != 0) {
        inquiries.unknown_in(Memory::Kernel).for_each(|inquiry| inquiry.give_up(Reason::KernelHidden));
        return inquiries
            .fail(Source::Kallsyms, format!("{}: all addresses are hidden (kernel.kptr_restrict)", path.display()));
    }
    for inquiry in inquiries.unknown_in(Memory::Kernel) {
        answer(inquiry, &text);
        inquiry.used.push(UsedFile {
            source: Source::Kallsyms,
            path: path.clone(),
            build_id: None,
            debug_file: None,
            proof,
        });
    }
}

fn read_symbols(path: &Path) -> io::Result<String> {
    open(path).and_then(|file| read(file, path))
}

fn open(path: &Path) -> io::Result<File> {
    if path == Path::new(OWN) { File::open(path) } else { open_regular(path) }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Symbol<'a> {
    start: u64,
    kind: u8,
    name: &'a str,
}

impl<'a> Symbol<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let mut words = line.split_ascii_whitespace();
        let start = hexadecimal(words.next()?)?;
        let [kind] = words.next()?.as_bytes() else {
            return None;
        };
        Some(Self { start, kind: *kind, name: words.next()? })
    }

    fn is_code(&self) -> bool {
        matches!(self.kind, b't' | b'T' | b'w' | b'W')
    }

    /// Of symbols with one address, the one with the least rank is used: code before data, then global
    /// before local before weak, then by fewer leading underscores and name.
    fn rank(&self) -> (bool, u8, usize, &'a str) {
        let binding = match self.kind {
            b'T' => 0,
            b't' => 1,
            _ => 2,
        };
        let underscores = self.name.bytes().take_while(|byte| *byte == b'_').count();
        (!self.is_code(), binding, underscores, self.name)
    }
}

fn answer(inquiry: &mut Inquiry<'_>, text: &str) {
    let mut unknown = inquiry.unknown();
    unknown.sort_unstable_by_key(|(_, address)| *address);
    // Before each address the last symbol that is not before the address in front of it.
    let mut before: Vec<Option<Symbol<'_>>> = vec![None; unknown.len()];
    for symbol in text.lines().filter_map(Symbol::parse) {
        let place = unknown.partition_point(|(_, address)| address.0 < symbol.start);
        let Some(last) = before.get_mut(place) else {
            continue;
        };
        let is_better = |last: &Symbol<'_>| {
            (last.start, std::cmp::Reverse(last.rank())) < (symbol.start, std::cmp::Reverse(symbol.rank()))
        };
        if last.as_ref().is_none_or(is_better) {
            *last = Some(symbol);
        }
    }
    let mut last = None;
    for ((position, address), before) in unknown.into_iter().zip(before) {
        last = before.or(last);
        let covers = |symbol: &Symbol<'_>| symbol.is_code() && address.0 - symbol.start < SYMBOL_BYTES_MAX;
        let resolved = match last.filter(covers) {
            Some(symbol) => Resolved::Frames(vec![frame(symbol.name)]),
            None => Resolved::Unknown(Reason::NotCovered),
        };
        inquiry.answer(position, Source::Kallsyms, resolved);
    }
}

fn frame(name: &str) -> Frame {
    Frame { name: name.into(), system_name: name.into(), start_line: None, file: None, line: None, column: None }
}
