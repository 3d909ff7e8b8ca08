//! Interpreters and virtual machines: programs that run others, whose functions have no names in the files of code that
//! a process has; how they are recognized, and what names these functions.

use std::fs::File;
use std::path::PathBuf;

use object::elf::{FileHeader64, SHT_DYNSYM, Sym64};
use object::read::elf::{FileHeader, SectionHeader, Sym};
use object::{Endianness, ReadCache, ReadRef, SectionIndex};

use crate::{Pid, Process};

/// Bytes of each table of an executable's dynamic symbols; one with a larger table is taken for no interpreter.
const TABLE_MAX: u64 = 64 << 20;

/// A program that runs others.
#[derive(Debug)]
pub struct Interpreter {
    /// Its name in sentences: `process 7 is Ruby`.
    pub name: &'static str,
    /// Beginnings of the names of files with its code, before a version.
    files: &'static [&'static str],
    /// A symbol that only its executable exports, whatever that is called; empty where a library is always mapped.
    symbol: &'static str,
    /// The mark by which functions of its programs are told from its own.
    pub functions: Functions,
    /// The arguments and variables that make it write a perf map of its functions.
    switches: &'static [&'static str],
    /// A way to name them; `PID` stands for the process.
    advice: &'static str,
}

/// How the functions of an interpreter's programs stand in a profile that has their names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Functions {
    /// Under names that begin so.
    Prefixed(&'static str),
    /// As code generated at run time, which has no name otherwise.
    Generated,
    /// Not at all: they are data that the interpreter reads.
    Absent,
}

const PYTHON_ADVICE: &str = "start it with python3 -X perf (3.12 and later), which names its functions";
const OLD_PYTHON_ADVICE: &str = "py-spy record --pid PID --format speedscope names them, and its file can be read here";

/// Every interpreter that is known.
pub const INTERPRETERS: &[Interpreter] = &[
    Interpreter {
        name: "Python",
        files: &["python", "libpython"],
        symbol: "Py_BytesMain",
        functions: Functions::Prefixed("py::"),
        switches: &["-Xperf", "perf", "perf_jit", "PYTHONPERFSUPPORT=1", "PYTHON_PERF_JIT_SUPPORT=1"],
        advice: PYTHON_ADVICE,
    },
    Interpreter {
        name: "Node.js",
        files: &["node", "libnode.so"],
        symbol: "node_module_register",
        functions: Functions::Generated,
        switches: &["--perf-basic-prof", "--perf_basic_prof", "--perf-basic-prof-only-functions"],
        advice: "start it with node --perf-basic-prof, which names its functions",
    },
    Interpreter {
        name: "a JVM",
        files: &["java", "libjvm.so"],
        symbol: "",
        functions: Functions::Generated,
        switches: &[],
        advice: "record it with procprof collect --pid PID",
    },
    Interpreter {
        name: "Ruby",
        files: &["ruby", "libruby-", "libruby.so"],
        symbol: "ruby_run_node",
        functions: Functions::Absent,
        switches: &[],
        advice: "rbspy record --pid PID --format speedscope names them, and its file can be read here",
    },
    Interpreter {
        name: "PHP",
        files: &["php", "php-fpm", "php-cgi", "libphp"],
        symbol: "php_request_startup",
        functions: Functions::Absent,
        switches: &[],
        advice: "phpspy --pid=PID prints their stacks, which stackcollapse-phpspy.pl collapses to a file that can be \
                 read here",
    },
    Interpreter {
        name: "Perl",
        files: &["perl", "libperl.so"],
        symbol: "Perl_runops_standard",
        functions: Functions::Absent,
        switches: &[],
        advice: "start it with perl -d:NYTProf, whose nytprofcalls makes a file that can be read here",
    },
    Interpreter {
        name: ".NET",
        files: &["dotnet", "libcoreclr.so"],
        symbol: "",
        functions: Functions::Generated,
        switches: &["DOTNET_PerfMapEnabled=1", "COMPlus_PerfMapEnabled=1"],
        advice: "start it with DOTNET_PerfMapEnabled=1 in its environment, which names its functions",
    },
    Interpreter {
        name: "Erlang",
        files: &["beam.smp"],
        symbol: "",
        functions: Functions::Generated,
        switches: &["+JPperf"],
        advice: "start it with erl +JPperf true (OTP 24 and later), which names its functions",
    },
];

impl Interpreter {
    /// The interpreter whose code a file has, by the name of the file, without folders.
    pub fn of_file(name: &str) -> Option<&'static Interpreter> {
        INTERPRETERS.iter().find(|interpreter| interpreter.has_file(name))
    }

    /// Whether a file has its code, by the name of the file.
    pub fn has_file(&self, name: &str) -> bool {
        self.files.iter().any(|start| is_version_of(name, start))
    }

    /// The interpreter that a process runs: by the name of its executable and the libraries it has mapped, else by the
    /// symbols of its executable, which may have any name.
    pub fn of_process(process: &Process) -> Option<&'static Interpreter> {
        let executable = process.executable().ok()?;
        let file = executable.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let mapped = || {
            let maps = process.maps().ok()?;
            let mut code = maps.iter().filter(|mapping| mapping.is_file_code());
            code.find_map(|mapping| Interpreter::of_file(mapping.name().rsplit('/').next().unwrap_or_default()))
        };
        Interpreter::of_file(&file).or_else(mapped).or_else(|| by_symbols(process.pid()))
    }

    /// What names the functions of a program that this process runs, `None` if they have names by now; without a
    /// process, what does so in general. `PID` stands for the process.
    pub fn advice(&self, process: Option<&Process>) -> Option<String> {
        let Some(process) = process else { return Some(self.advice.to_owned()) };
        if perf_map(process).is_some_and(|map| map.exists()) {
            return None;
        }
        if let Some(switch) = self.switch_of(process) {
            return Some(format!("it was started with {switch}, but its /tmp has no map of its functions"));
        }
        let is_old = self.name == "Python" && version_of(process).is_some_and(|minor| minor < 12);
        Some(if is_old { OLD_PYTHON_ADVICE } else { self.advice }.to_owned())
    }

    /// The argument or variable of a process that makes it write a perf map.
    fn switch_of(&self, process: &Process) -> Option<&'static str> {
        let arguments = process.command_line().unwrap_or_default().arguments;
        // A program's own arguments come behind its name.
        let is_option = |argument: &&String| argument.starts_with(['-', '+']) || argument.starts_with("perf");
        let options: Vec<&String> = arguments.iter().skip(1).take_while(is_option).collect();
        let is_set = |switch: &&str| match switch.split_once('=') {
            Some((variable, value)) => process.environment(variable).ok().flatten().as_deref() == Some(value),
            None => options.iter().any(|option| option == switch),
        };
        self.switches.iter().copied().find(|switch| is_set(switch))
    }
}

/// Where a process writes names of code that it generates, as seen from here; it may not be there.
pub fn perf_map(process: &Process) -> Option<PathBuf> {
    let own = process.status().ok()?.namespace_pids.last()?.0;
    Some(PathBuf::from(format!("/proc/{}/root/tmp/perf-{own}.map", process.pid().0)))
}

/// The minor version of a Python 3, by the names of its files.
fn version_of(process: &Process) -> Option<u32> {
    let maps = process.maps().ok()?;
    maps.iter().filter(|mapping| mapping.is_file_code()).find_map(|mapping| {
        let name = mapping.name();
        let file = name.rsplit('/').next()?;
        let version = file.strip_prefix("libpython3.").or_else(|| file.strip_prefix("python3."))?;
        version.split(|letter: char| !letter.is_ascii_digit()).next()?.parse().ok()
    })
}

fn by_symbols(pid: Pid) -> Option<&'static Interpreter> {
    let executable = ReadCache::new(File::open(format!("/proc/{}/exe", pid.0)).ok()?);
    let symbols_of_file = DynamicSymbols::of_file(&executable)?;
    let mut with_symbol = INTERPRETERS.iter().filter(|interpreter| !interpreter.symbol.is_empty());
    with_symbol.find(|interpreter| symbols_of_file.has(interpreter.symbol))
}

/// The dynamic symbols of a file of 64 bits.
struct DynamicSymbols<'data> {
    endian: Endianness,
    symbols: &'data [Sym64<Endianness>],
    names: &'data [u8],
}

impl<'data> DynamicSymbols<'data> {
    /// `None` for a file without them, or with tables beyond [`TABLE_MAX`].
    fn of_file<R: ReadRef<'data>>(file: R) -> Option<Self> {
        let header = FileHeader64::<Endianness>::parse(file).ok()?;
        let endian = header.endian().ok()?;
        let sections = header.sections(endian, file).ok()?;
        let table = sections.iter().find(|section| section.sh_type(endian) == SHT_DYNSYM)?;
        let names = sections.section(SectionIndex(table.sh_link(endian) as usize)).ok()?;
        if table.sh_size(endian).max(names.sh_size(endian)) > TABLE_MAX {
            return None;
        }
        let symbols = table.data_as_array(endian, file).ok()?;
        Some(Self { endian, symbols, names: names.data(endian, file).ok()? })
    }

    /// Whether a symbol of that name is defined, and not only used, by the file.
    fn has(&self, name: &str) -> bool {
        let with_end = [name.as_bytes(), b"\0"].concat();
        memchr::memmem::find_iter(self.names, &with_end).any(|at| self.defines(at))
    }

    fn defines(&self, name_at: usize) -> bool {
        let is_it = |symbol: &Sym64<Endianness>| symbol.st_name(self.endian) as usize == name_at;
        self.symbols.iter().any(|symbol| is_it(symbol) && !symbol.is_undefined(self.endian))
    }
}

/// Whether a file's name is this one, but for a version behind it.
fn is_version_of(file: &str, name: &str) -> bool {
    let is_version =
        |rest: &str| rest.is_empty() || rest.starts_with(|first: char| first == '.' || first.is_ascii_digit());
    file.strip_prefix(name).is_some_and(is_version)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::process::{Command, Stdio};
    use std::time::{Duration, Instant};

    use object::elf::{SymbolInfo, SymbolOther, SymbolSection};
    use object::{U16, U32, U64};

    use super::*;

    #[test]
    fn files_are_those_of_interpreters_in_any_version() {
        for (file, name) in [
            ("python3.12", Some("Python")),
            ("python3", Some("Python")),
            ("libpython3.11.so.1.0", Some("Python")),
            ("node", Some("Node.js")),
            ("libruby-3.1.so.3.1.2", Some("Ruby")),
            ("ruby3.1", Some("Ruby")),
            ("php-fpm8.2", Some("PHP")),
            ("php8.2", Some("PHP")),
            ("libphp8.2.so", Some("PHP")),
            ("perl", Some("Perl")),
            ("libjvm.so", Some("a JVM")),
            ("beam.smp", Some("Erlang")),
            ("node_exporter-1", None),
            ("nodejs-app", None),
            ("rubyist", None),
            ("javac", None),
            ("", None),
        ] {
            assert_eq!(Interpreter::of_file(file).map(|known| known.name), name, "{file}");
        }
    }

    #[test]
    fn names_are_given_once() {
        let names: BTreeSet<&str> = INTERPRETERS.iter().map(|known| known.name).collect();
        assert_eq!(names.len(), INTERPRETERS.len());
    }

    #[test]
    fn symbols_are_whole_names_that_the_file_defines() {
        let symbol = |st_name: u32, section: u16| Sym64 {
            st_name: U32::new(Endianness::Little, st_name),
            st_info: SymbolInfo(0),
            st_other: SymbolOther(0),
            st_shndx: U16::new(Endianness::Little, SymbolSection(section)),
            st_value: U64::new(Endianness::Little, 0),
            st_size: U64::new(Endianness::Little, 0),
        };
        let symbols = [symbol(1, 7), symbol(6, 7), symbol(20, 0), symbol(34, 7)];
        let names = b"\0main\0X_loop_of_code\0ruby_run_node\0perl_run2\0";
        let symbols_of_file = DynamicSymbols { endian: Endianness::Little, symbols: &symbols, names };
        assert!(symbols_of_file.has("main") && symbols_of_file.has("X_loop_of_code"));
        assert!(!symbols_of_file.has("loop_of_code"), "an end of a name");
        assert!(!symbols_of_file.has("ruby_run_node"), "used, not defined");
        assert!(!symbols_of_file.has("perl_run"), "a beginning of a name");
    }

    /// A process of a command, ended when dropped.
    struct Running(std::process::Child);

    impl Drop for Running {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    /// Until the process executes the program: before that, it is a copy of this one.
    fn started(command: &mut Command) -> (Running, Process) {
        let own = Process::current().unwrap().executable().unwrap().path;
        let child = Running(command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap());
        let begun = Instant::now();
        loop {
            let process = Process::open(Pid(child.0.id())).unwrap();
            let is_started = process.executable().is_ok_and(|executable| executable.path != own);
            if is_started && Interpreter::of_process(&process).is_some() || begun.elapsed() > Duration::from_secs(60) {
                return (child, process);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn an_interpreter_is_known_under_another_name_and_its_switches_by_its_arguments() {
        let folder = tempfile::tempdir().unwrap();
        let renamed = folder.path().join("app");
        let perl = std::fs::canonicalize("/usr/bin/perl").expect("this test needs perl");
        std::fs::copy(perl, &renamed).unwrap();
        let (_running, process) = started(Command::new(&renamed).args(["-e", "<STDIN>"]));
        let found = Interpreter::of_process(&process).expect("it is Perl");
        assert_eq!(found.name, "Perl");
        assert!(found.advice(Some(&process)).unwrap().contains("NYTProf"));
        let python = Interpreter::of_file("python3").unwrap();
        let arguments = |words: &[&str]| {
            let (_running, process) = started(Command::new(&renamed).args(words));
            python.switch_of(&process)
        };
        assert_eq!(arguments(&["-e", "<STDIN>", "--", "perf"]), None, "an argument of the program");
    }

    #[test]
    fn this_process_runs_none() {
        assert!(Interpreter::of_process(&Process::current().unwrap()).is_none());
    }
}
