//! Small programs with symbols of every kind, compiled for the fuzzer to start from.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

/// Flags of the programs; the code is that of `testdata/symbolize`, without libraries, at 0x1000.
const VARIANTS: &[&[&str]] = &[
    &["-gdwarf-2", "-gno-strict-dwarf"],
    &["-gdwarf-3"],
    &["-gdwarf-4"],
    &["-gdwarf-5"],
    &["-gdwarf-5", "-gdwarf64"],
    &["-gdwarf-4", "-fdebug-types-section"],
    &["-gdwarf-5", "-gz=zlib"],
    &["-g0"],
    &["-gdwarf-5", "-m32"],
];

/// Writes the inputs for a part of the target `symbol_file`.
pub(super) fn write(root: &Path, part: &str, folder: &Path) -> Result<()> {
    let work = tempfile::tempdir().context("make a folder")?;
    let builder = Builder { source: root.join("testdata/symbolize/inline.c"), folder: work.path() };
    let inputs = match part {
        "go_table" => vec![go_table()],
        "mini_debug" => vec![builder.mini_debug()?],
        "debug_file" => vec![builder.debug_file()?],
        "shared" => vec![builder.shared()?],
        "package" => vec![builder.split("-gdwarf-4", true)?],
        "split" => vec![builder.split("-gdwarf-4", false)?, builder.split("-gdwarf-5", false)?],
        _ => VARIANTS.iter().map(|flags| builder.file(flags)).collect::<Result<_>>()?,
    };
    for (index, input) in inputs.iter().enumerate() {
        fs::write(folder.join(format!("program{index}")), input).context("write an input")?;
    }
    Ok(())
}

struct Builder<'a> {
    source: PathBuf,
    folder: &'a Path,
}

impl Builder<'_> {
    fn run(&self, program: &str, arguments: &[&str]) -> Result<()> {
        let output = Command::new(program).args(arguments).current_dir(self.folder).output();
        let output = output.with_context(|| format!("run {program}"))?;
        ensure!(output.status.success(), "{program} {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        Ok(())
    }

    fn read(&self, name: &str) -> Result<Vec<u8>> {
        fs::read(self.folder.join(name)).with_context(|| format!("read {name}"))
    }

    /// Compiles to an object file, then links that alone.
    fn link(&self, name: &str, flags: &[&str]) -> Result<()> {
        let source = self.source.to_str().context("the checkout's path is UTF-8")?;
        let whole = ["-c", "-O2", "-fPIC", "-fno-stack-protector", "-fdebug-prefix-map=/=", "-o", "unit.o", source];
        self.run("gcc", &[flags, &whole].concat())?;
        let kind: Vec<&str> =
            flags.iter().copied().filter(|flag| flag.starts_with("-m") || flag.starts_with("-gz")).collect();
        let small = [
            "-shared",
            "-nostdlib",
            "-Wl,--build-id=sha1,-z,max-page-size=4096,-z,noseparate-code",
            "-o",
            name,
            "unit.o",
        ];
        self.run("gcc", &[&kind[..], &["-Wl,-Ttext=0x1000"], &small].concat())
    }

    fn file(&self, flags: &[&str]) -> Result<Vec<u8>> {
        self.link("program", flags)?;
        self.read("program")
    }

    fn mini_debug(&self) -> Result<Vec<u8>> {
        self.link("program", &["-g0"])?;
        self.run("objcopy", &["--only-keep-debug", "program", "mini"])?;
        self.read("mini")
    }

    fn debug_file(&self) -> Result<Vec<u8>> {
        self.link("program", &["-gdwarf-5"])?;
        self.run("objcopy", &["--only-keep-debug", "program", "program.debug"])?;
        self.run("objcopy", &["--strip-all", "program"])?;
        self.pair("program", "program.debug")
    }

    /// Only common parts of two files are shared, so there are two copies of the program.
    fn shared(&self) -> Result<Vec<u8>> {
        self.link("program", &["-gdwarf-4"])?;
        fs::copy(self.folder.join("program"), self.folder.join("twin")).context("copy a file")?;
        self.run("dwz", &["-m", "shared", "-M", "common.debug", "program", "twin"])?;
        self.pair("program", "shared")
    }

    fn split(&self, version: &str, is_packed: bool) -> Result<Vec<u8>> {
        self.link("program", &[version, "-gsplit-dwarf"])?;
        if !is_packed {
            return self.pair("program", "unit.dwo");
        }
        self.run("dwp", &["-o", "program.dwp", "unit.dwo"])?;
        self.pair("program", "program.dwp")
    }

    /// Two files in the form that the target splits.
    fn pair(&self, first: &str, second: &str) -> Result<Vec<u8>> {
        let (first, second) = (self.read(first)?, self.read(second)?);
        let length = u32::try_from(first.len()).context("a small program")?;
        Ok([&length.to_le_bytes()[..], &first, &second].concat())
    }
}

/// Go's table of one function, `main.main` in `a.go`; its layout is described in `procprof_symbolize::elf::go_table`.
fn go_table() -> Vec<u8> {
    const HEAD: u64 = 8 + 8 * 8;
    let names = b"\0main.main\0";
    let (units, files, values) = ([0; 4], b"a.go\0", [0, 4, 0x40, 0, 2, 0x40, 0]);
    let mut places = vec![HEAD];
    for length in [names.len(), units.len(), files.len(), values.len()] {
        places.push(places[places.len() - 1] + length as u64);
    }
    let record = 3 * 4_u32;
    let functions = [0, record, 0x80];
    let fields = [0, 1, 0, 0, 0, 4, 1, 0, 0, 7];
    let mut table = vec![0xf1, 0xff, 0xff, 0xff, 0, 0, 1, 8];
    for word in [1, 1, 0x1000].into_iter().chain(places) {
        table.extend(word.to_le_bytes());
    }
    table.extend([names.as_slice(), &units, files, &values].concat());
    table.extend(functions.into_iter().chain(fields).flat_map(u32::to_le_bytes));
    table
}
