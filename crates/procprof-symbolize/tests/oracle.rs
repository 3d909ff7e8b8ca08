//! The output of `addr2line` and `llvm-symbolizer` for addresses.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::process::Command;

use procprof_profile::SymbolAddr;

use crate::programs::run;

/// A frame as a tool prints it: `None` where it prints `??` or `?`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Printed {
    pub(crate) name: Option<String>,
    pub(crate) file: Option<String>,
    pub(crate) line: Option<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tool {
    Addr2line,
    LlvmSymbolizer,
}

impl Tool {
    /// The frames of each address, innermost first.
    pub(crate) fn ask(self, program: &Path, addresses: &[SymbolAddr]) -> Vec<Vec<Printed>> {
        let mut input = tempfile::NamedTempFile::new().unwrap();
        for address in addresses {
            writeln!(input, "{address:#x}").unwrap();
        }
        let mut command = match self {
            Self::Addr2line => Command::new("addr2line"),
            Self::LlvmSymbolizer => {
                let mut command = Command::new("llvm-symbolizer");
                command.arg("--output-style=GNU");
                command
            }
        };
        command.args(["-a", "-f", "-C", "-i", "-e"]).arg(program);
        let output = run(command.stdin(File::open(input.path()).unwrap()));
        let answers = parse(&String::from_utf8(output).unwrap());
        assert_eq!(answers.len(), addresses.len(), "{self:?}");
        answers
    }
}

/// An address line, then pairs of a name and a `file:line`.
fn parse(text: &str) -> Vec<Vec<Printed>> {
    let mut answers: Vec<Vec<Printed>> = Vec::new();
    let mut lines = text.lines().filter(|line| !line.is_empty());
    while let Some(line) = lines.next() {
        if line.starts_with("0x") {
            answers.push(Vec::new());
            continue;
        }
        let place = lines.next().unwrap();
        let place = place.split(" (discriminator").next().unwrap();
        let (file, line_number) = place.rsplit_once(':').unwrap();
        answers.last_mut().unwrap().push(Printed {
            name: Some(line.to_owned()).filter(|name| name != "??"),
            file: Some(file.to_owned()).filter(|file| file != "??"),
            line: line_number.parse().ok().filter(|number| *number != 0),
        });
    }
    answers
}
