//! The tools, each run in a process of its own.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use procprof_profile::SymbolAddr;
use procprof_symbolize::{Image, ImageOptions, Resolved};

use crate::vitals::{Run, observe};

/// The measured tool.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Tool {
    Ours,
    Blazesym,
    LlvmSymbolizer,
    Addr2line,
}

impl Tool {
    pub(crate) const ALL: [Self; 4] = [Self::Ours, Self::Blazesym, Self::LlvmSymbolizer, Self::Addr2line];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Ours => "procprof-symbolize",
            Self::Blazesym => "blazesym",
            Self::LlvmSymbolizer => "llvm-symbolizer",
            Self::Addr2line => "addr2line",
        }
    }

    /// Runs the tool once.
    pub(crate) fn run(self, program: &Path, addresses: &Path) -> Run {
        let mut command = match self {
            Self::Ours | Self::Blazesym => Command::new(std::env::current_exe().unwrap()),
            Self::LlvmSymbolizer | Self::Addr2line => Command::new(self.name()),
        };
        match self {
            Self::Ours | Self::Blazesym => command.args(["--ask", self.name()]).arg(program).arg(addresses),
            Self::LlvmSymbolizer => command.args(["-f", "-C", "-i", "--output-style=GNU", "-e"]).arg(program),
            Self::Addr2line => command.args(["-f", "-C", "-i", "-e"]).arg(program),
        };
        let input = match self {
            Self::Ours | Self::Blazesym => Stdio::null(),
            Self::LlvmSymbolizer | Self::Addr2line => Stdio::from(File::open(addresses).unwrap()),
        };
        observe(command.stdin(input))
    }
}

/// The work of a library's process: prints two lines per frame, as the programs do.
pub(crate) fn ask(tool: &str, program: &Path, addresses: &Path) {
    let text = fs::read_to_string(addresses).unwrap();
    let addresses: Vec<u64> = text.lines().map(|line| u64::from_str_radix(&line[2..], 16).unwrap()).collect();
    let mut out = BufWriter::new(std::io::stdout().lock());
    match tool {
        "procprof-symbolize" => ours(program, &addresses, &mut out),
        _ => blazesym(program, &addresses, &mut out),
    }
    out.flush().unwrap();
}

fn print(out: &mut impl Write, name: &str, file: Option<&str>, line: Option<u32>) {
    writeln!(out, "{name}\n{}:{}", file.unwrap_or("??"), line.unwrap_or(0)).unwrap();
}

fn ours(program: &Path, addresses: &[u64], out: &mut impl Write) {
    let addresses: Vec<SymbolAddr> = addresses.iter().copied().map(SymbolAddr).collect();
    let image = Image::open(program, &ImageOptions::default()).unwrap();
    for resolved in image.resolve(&addresses) {
        match resolved {
            Resolved::Frames(frames) => {
                frames.iter().for_each(|frame| print(out, &frame.name, frame.file.as_deref(), frame.line))
            }
            Resolved::Unknown(_) => print(out, "??", None, None),
        }
    }
}

fn blazesym(program: &Path, addresses: &[u64], out: &mut impl Write) {
    use blazesym::symbolize::source::{Elf, Source};
    use blazesym::symbolize::{CodeInfo, Input, Symbolized, Symbolizer};
    let symbolizer = Symbolizer::new();
    let symbolized = symbolizer.symbolize(&Source::Elf(Elf::new(program)), Input::VirtOffset(addresses)).unwrap();
    let mut place = |name: &str, code: Option<&CodeInfo<'_>>| {
        let file = code.map(|code| code.to_path());
        print(out, name, file.as_ref().and_then(|file| file.to_str()), code.and_then(|code| code.line));
    };
    for symbolized in symbolized {
        match symbolized {
            Symbolized::Sym(symbol) => {
                symbol.inlined.iter().rev().for_each(|inlined| place(&inlined.name, inlined.code_info.as_ref()));
                place(&symbol.name, symbol.code_info.as_deref());
            }
            Symbolized::Unknown(_) => place("??", None),
        }
    }
}
