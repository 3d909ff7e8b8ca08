//! What a user without privileges runs to cost the host agent as much as possible.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{FileExt, MetadataExt, fchown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, ensure};

use crate::product::Running;

/// The user and group of the neighbours: nobody.
const NOBODY: u32 = 65534;
/// Programs that are services of their own.
const SERVICES: usize = 200;
/// A function that is everywhere, as a line of a perf map.
const EVERYWHERE: &[u8] = b"0 ffffffffffffff a\n";

/// An attack.
pub(super) struct Attack {
    pub(super) name: &'static str,
    /// CPU time of the agent, in per cent of a core, that is allowed meanwhile.
    pub(super) cpu_max: f64,
    pub(super) start: fn(&Programs) -> Result<Neighbours>,
}

/// All attacks, each in its turn.
pub(super) const ATTACKS: &[Attack] = &[
    Attack { name: "none", cpu_max: 1.0, start: |_| Ok(Neighbours::default()) },
    Attack { name: "a command line of 63 MiB", cpu_max: 1.0, start: |programs| programs.texts("cmdline") },
    Attack { name: "an environment of 63 MiB", cpu_max: 1.0, start: |programs| programs.texts("environ") },
    Attack { name: "a perf map of 500 MiB", cpu_max: 1.0, start: |programs| programs.generated(500) },
    Attack { name: "a perf map of 63 MiB", cpu_max: 1.0, start: |programs| programs.generated(63) },
    Attack { name: "an .eh_frame of 500 MiB", cpu_max: 1.0, start: Programs::hole },
    Attack { name: "a JVM that answers nobody", cpu_max: 1.0, start: Programs::jvm },
    Attack { name: "two that map all the time", cpu_max: 1.0, start: |programs| programs.two("mappings") },
    Attack { name: "two that change their names", cpu_max: 1.0, start: |programs| programs.two("names") },
    Attack { name: "two that start threads", cpu_max: 1.0, start: |programs| programs.two("births") },
    Attack { name: "two that start processes", cpu_max: 2.0, start: |programs| programs.two("forks") },
    Attack { name: "10,000 threads", cpu_max: 1.0, start: |programs| programs.neighbour(&["threads"]) },
    Attack { name: "200 services", cpu_max: 1.0, start: Programs::services },
    Attack { name: "100 starts a second", cpu_max: 2.0, start: |programs| programs.neighbour(&["starts"]) },
];

/// Programs that attack, until they are dropped, with the files they leave.
#[derive(Default)]
pub(super) struct Neighbours {
    running: Vec<Running>,
    files: Vec<PathBuf>,
}

impl Neighbours {
    /// Whether one of them has ended by itself.
    pub(super) fn ended(&mut self) -> Result<bool> {
        self.running.iter_mut().try_fold(false, |ended, running| Ok(ended || running.ended()?.is_some()))
    }
}

impl Drop for Neighbours {
    fn drop(&mut self) {
        self.running.clear();
        for file in &self.files {
            // One that is not there is not left either.
            let _ = std::fs::remove_file(file);
        }
    }
}

/// The compiled programs.
pub(super) struct Programs {
    folder: PathBuf,
}

impl Programs {
    pub(super) fn build(folder: &Path) -> Result<Programs> {
        let folder = folder.join("neighbours");
        std::fs::create_dir(&folder).context("make a folder")?;
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../testdata/record");
        for name in ["neighbour", "texts", "generated", "pace"] {
            let (mut gcc, source) = (Command::new("gcc"), sources.join(format!("{name}.c")));
            let built = gcc.args(["-O2", "-g", "-pthread", "-o"]).arg(folder.join(name)).arg(source).status();
            ensure!(built.context("run gcc")?.success(), "gcc fails for {name}");
        }
        std::fs::copy(folder.join("texts"), folder.join("hole")).context("copy a program")?;
        widen_eh_frame(&folder.join("hole"), 500 << 20)?;
        std::fs::write(folder.join("libjvm.so"), [0; 4096]).context("write a library")?;
        for number in 0..SERVICES {
            let of_service = folder.join(format!("service-{number:03}"));
            std::fs::hard_link(folder.join("pace"), of_service).context("link a program")?;
        }
        Ok(Programs { folder })
    }

    /// Starts a program as the user without privileges.
    fn start(&self, name: &str, change: impl FnOnce(&mut Command)) -> Result<Child> {
        let mut command = Command::new("setpriv");
        command.args([&format!("--reuid={NOBODY}"), &format!("--regid={NOBODY}"), "--clear-groups"]);
        command.args(["--pdeathsig", "KILL"]).arg(self.folder.join(name));
        change(&mut command);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().with_context(|| format!("start {name}"))
    }

    fn one(&self, name: &str, change: impl FnOnce(&mut Command)) -> Result<Neighbours> {
        Ok(Neighbours { running: vec![Running::new(self.start(name, change)?)], files: Vec::new() })
    }

    fn neighbour(&self, arguments: &[&str]) -> Result<Neighbours> {
        self.one("neighbour", |command| {
            command.args(arguments);
        })
    }

    fn texts(&self, text: &str) -> Result<Neighbours> {
        self.one("texts", |command| {
            command.env("TEXTS", text).env("TEXTS_MIB", "63");
        })
    }

    fn hole(&self) -> Result<Neighbours> {
        self.one("hole", |_| {})
    }

    fn jvm(&self) -> Result<Neighbours> {
        let library = self.folder.join("libjvm.so");
        let mut jvm = self.one("neighbour", |command| {
            command.arg("jvm").arg(library);
        })?;
        jvm.files.extend(jvm.running.iter().map(|jvm| PathBuf::from(format!("/tmp/.java_pid{}", jvm.pid()))));
        Ok(jvm)
    }

    fn two(&self, kind: &str) -> Result<Neighbours> {
        let mut two = self.neighbour(&[kind])?;
        two.running.append(&mut self.neighbour(&[kind])?.running);
        Ok(two)
    }

    fn services(&self) -> Result<Neighbours> {
        let mut services = Neighbours::default();
        for number in 0..SERVICES {
            let service = self.start(&format!("service-{number:03}"), |command| {
                command.args(["tick", "36000"]);
            })?;
            services.running.push(Running::new(service));
        }
        Ok(services)
    }

    /// Generated code with a perf map of that many MiB.
    fn generated(&self, mib: usize) -> Result<Neighbours> {
        let mut child = self.start("generated", |command| {
            command.arg("20000");
        })?;
        let output = child.stdout.take().context("read what a program prints")?;
        let map = PathBuf::from(format!("/tmp/perf-{}.map", child.id()));
        let generated = Neighbours { running: vec![Running::new(child)], files: vec![map.clone()] };
        // It has made its code when it prints where.
        BufReader::new(output).read_line(&mut String::new()).context("read what a program prints")?;
        let mut file = File::create_new(&map).with_context(|| format!("create {}", map.display()))?;
        let piece = EVERYWHERE.repeat((1 << 20) / EVERYWHERE.len());
        for _ in 0..mib {
            file.write_all(&piece).context("write a perf map")?;
        }
        fchown(&file, Some(NOBODY), Some(NOBODY)).context("give a perf map away")?;
        Ok(generated)
    }
}

/// Gives an ELF file an `.eh_frame` of so many bytes, a hole at its end, without a search table.
fn widen_eh_frame(path: &Path, bytes: u64) -> Result<()> {
    let file = File::options().read(true).write(true).open(path).context("open a program")?;
    let number = |at: u64, length: usize| -> Result<u64> {
        let mut word = [0; 8];
        file.read_exact_at(&mut word[..length], at).context("read a program")?;
        Ok(u64::from_le_bytes(word))
    };
    let (segments, sections) = (number(0x20, 8)?, number(0x28, 8)?);
    for segment in 0..number(0x38, 2)? {
        // PT_GNU_EH_FRAME
        if number(segments + segment * 56, 4)? == 0x6474_e550 {
            file.write_all_at(&[0; 4], segments + segment * 56).context("write a program")?;
        }
    }
    let names = number(sections + number(0x3e, 2)? * 64 + 24, 8)?;
    let end = file.metadata().context("measure a program")?.size().next_multiple_of(4096);
    for section in 0..number(0x3c, 2)? {
        let (at, mut name) = (sections + section * 64, [0; 10]);
        // The last name may be shorter.
        let _ = file.read_exact_at(&mut name, names + number(at, 4)?);
        if &name == b".eh_frame\0" {
            let place = [end.to_le_bytes(), bytes.to_le_bytes()].concat();
            file.write_all_at(&place, at + 24).context("write a program")?;
        }
    }
    file.set_len(end + bytes).context("widen a program")
}
