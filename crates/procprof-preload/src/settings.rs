//! The environment variables, one row each: parser, documentation and the page `docs/preload.md` come from here.
//!
//! A bad value is reported in one line and leaves its default in place: a typing error must not keep the program from
//! running.

use procprof_agent::{CpuEngine, DumpFileLimits};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// The settings in the environment.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// The address of the listener; nothing is started without it.
    pub(crate) listen: Option<SocketAddr>,
    /// The way in which connections are accepted there.
    pub(crate) listener: ListenerKind,
    /// The file whose making starts it all; without one it starts at once.
    pub(crate) start_file: Option<PathBuf>,
    /// Names of the programs that are meant; empty for all.
    only: Vec<String>,
    /// Engine for CPU samples of requests that name none.
    pub(crate) engine: CpuEngine,
    /// The bearer token every request must carry.
    pub(crate) token: Option<String>,
    /// The folder through which jemalloc's dumps pass.
    pub(crate) dump_folder: Option<PathBuf>,
    /// How many of the files stay that jemalloc dumps by itself.
    pub(crate) dump_files: Option<DumpFileLimits>,
    /// Whether the heap is sampled from the start.
    pub(crate) heap: bool,
    /// Mean bytes between heap samples.
    pub(crate) heap_sample_bytes: u64,
    /// Whether waits for locks are recorded from the start.
    pub(crate) contention: bool,
}

/// The part of the library that accepts connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ListenerKind {
    /// The program's threads look for clients, and a thread is started for one.
    OnDemand,
    /// A thread, from the start to the end.
    Thread,
}

/// A variable.
struct Setting {
    variable: &'static str,
    expected: &'static str,
    /// Takes the value; `None` where it is none of the expected ones.
    set: fn(&mut Settings, &str) -> Option<()>,
}

const SETTINGS: &[Setting] = &[
    Setting {
        variable: "PROCPROF_LISTEN",
        expected: "ADDRESS:PORT such as 127.0.0.1:6060 (port 0 takes a free one, which is reported)",
        set: |settings, value| put(&mut settings.listen, value.parse().ok().map(Some)),
    },
    Setting {
        variable: "PROCPROF_LISTENER",
        expected: "on-demand or thread",
        set: |settings, value| {
            let kind = match value {
                "on-demand" => Some(ListenerKind::OnDemand),
                "thread" => Some(ListenerKind::Thread),
                _ => None,
            };
            put(&mut settings.listener, kind)
        },
    },
    Setting {
        variable: "PROCPROF_ONLY",
        expected: "names of programs, separated by commas",
        set: |settings, value| {
            put(&mut settings.only, Some(value.split(',').map(|name| name.trim().to_owned()).collect()))
        },
    },
    Setting {
        variable: "PROCPROF_START_FILE",
        expected: "a path",
        set: |settings, value| put(&mut settings.start_file, (!value.is_empty()).then(|| Some(value.into()))),
    },
    Setting {
        variable: "PROCPROF_ENGINE",
        expected: "auto, perf or tick",
        set: |settings, value| put(&mut settings.engine, CpuEngine::of_name(value)),
    },
    Setting {
        variable: "PROCPROF_TOKEN",
        expected: "at least one character",
        set: |settings, value| put(&mut settings.token, (!value.is_empty()).then(|| Some(value.to_owned()))),
    },
    Setting {
        variable: "PROCPROF_DUMP_FOLDER",
        expected: "a folder",
        set: |settings, value| put(&mut settings.dump_folder, Path::new(value).is_dir().then(|| Some(value.into()))),
    },
    Setting {
        variable: "PROCPROF_DUMP_FILES",
        expected: "a number of files from 1",
        set: |settings, value| {
            let files = value.parse::<usize>().ok().filter(|files| *files > 0)?;
            put(&mut settings.dump_files, Some(Some(DumpFileLimits { files, ..DumpFileLimits::default() })))
        },
    },
    Setting {
        variable: "PROCPROF_HEAP",
        expected: "on or off",
        set: |settings, value| put(&mut settings.heap, switch(value)),
    },
    Setting {
        variable: "PROCPROF_HEAP_SAMPLE_BYTES",
        expected: "a number of bytes from 1",
        set: |settings, value| put(&mut settings.heap_sample_bytes, value.parse().ok().filter(|bytes| *bytes > 0)),
    },
    Setting {
        variable: "PROCPROF_CONTENTION",
        expected: "on or off",
        set: |settings, value| put(&mut settings.contention, switch(value)),
    },
];

impl Default for Settings {
    fn default() -> Self {
        Self {
            listen: None,
            listener: ListenerKind::OnDemand,
            start_file: None,
            only: Vec::new(),
            engine: CpuEngine::Auto,
            token: None,
            dump_folder: None,
            dump_files: None,
            heap: true,
            heap_sample_bytes: procprof_agent::DEFAULT_SAMPLE_BYTES,
            contention: false,
        }
    }
}

impl Settings {
    /// The settings of the environment, and a line for each bad value.
    pub(crate) fn of_environment() -> (Self, Vec<String>) {
        let (mut settings, mut bad) = (Self::default(), Vec::new());
        for setting in SETTINGS {
            let Some(value) = std::env::var_os(setting.variable) else { continue };
            let value = value.to_string_lossy();
            if (setting.set)(&mut settings, &value).is_none() {
                bad.push(format!("{}={value}: expected {}", setting.variable, setting.expected));
            }
        }
        (settings, bad)
    }

    /// Whether this program is among those that are meant: by the name of its file, or by the name it was called.
    pub(crate) fn is_for_this_program(&self) -> bool {
        let file = std::env::current_exe().ok();
        let called = std::env::args_os().next().map(PathBuf::from);
        let names: Vec<_> = [file, called]
            .into_iter()
            .flatten()
            .filter_map(|path| Some(path.file_name()?.to_string_lossy().into_owned()))
            .collect();
        self.only.is_empty() || self.only.iter().any(|only| names.contains(only))
    }
}

/// Sets a setting to what was meant, if that is known.
fn put<T>(setting: &mut T, meant: Option<T>) -> Option<()> {
    *setting = meant?;
    Some(())
}

fn switch(value: &str) -> Option<bool> {
    match value {
        "on" | "1" | "yes" | "true" => Some(true),
        "off" | "0" | "no" | "false" => Some(false),
        _ => None,
    }
}
