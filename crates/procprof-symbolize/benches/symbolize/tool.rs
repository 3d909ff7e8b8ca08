//! The tools, each asked by a process of its own.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};

use procprof_profile::SymbolAddr;
use procprof_symbolize::{Image, ImageOptions, Resolved};

use crate::vitals::{Run, observe};

/// What is measured.
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

/// What the process of a library does: prints two lines a frame, as the programs do.
pub(crate) fn ask(tool: &str, program: &Path, addresses: &Path) {
    let text = fs::read_to_string(addresses).unwrap();
    let addresses: Vec<u64> = text.lines().map(|line| u64::from_str_radix(&line[2..], 16).unwrap()).collect();
    let frames = match tool {
        "procprof-symbolize" => ours(program, &addresses),
        _ => blazesym(program, &addresses),
    };
    print!("{}", "\n".repeat(2 * frames));
}

fn ours(program: &Path, addresses: &[u64]) -> usize {
    let addresses: Vec<SymbolAddr> = addresses.iter().copied().map(SymbolAddr).collect();
    let image = Image::open(program, &ImageOptions::default()).unwrap();
    let resolved = image.resolve(&addresses);
    let frames = resolved.iter().map(|resolved| match resolved {
        Resolved::Frames(frames) => frames.len(),
        Resolved::Unknown(_) => 1,
    });
    frames.sum()
}

fn blazesym(program: &Path, addresses: &[u64]) -> usize {
    use blazesym::symbolize::source::{Elf, Source};
    use blazesym::symbolize::{Input, Symbolized, Symbolizer};
    let symbolizer = Symbolizer::new();
    let symbolized = symbolizer.symbolize(&Source::Elf(Elf::new(program)), Input::VirtOffset(addresses)).unwrap();
    let frames = symbolized.iter().map(|symbolized| match symbolized {
        Symbolized::Sym(symbol) => 1 + symbol.inlined.len(),
        Symbolized::Unknown(_) => 1,
    });
    frames.sum()
}
