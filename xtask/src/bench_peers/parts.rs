//! The parts: each is an input and the shell lines that run on it, procprof's and the peers'.

/// A table of the benchmark.
pub(super) struct Part {
    pub(super) name: &'static str,
    pub(super) what: &'static str,
    /// The input's folder, in which the lines run.
    pub(super) folder: &'static str,
    /// `PROFILE` in the lines.
    pub(super) profile: &'static str,
    /// `PROFILE` in the lines with an index.
    pub(super) second: &'static str,
    /// The dump whose report made that index.
    pub(super) learned: &'static str,
    /// None in the part that is measured over SQL.
    pub(super) rows: &'static [Row],
    /// The goals without an index and with one.
    pub(super) cold: Option<Goal>,
    pub(super) warm: Option<Goal>,
    /// The factor by which procprof should be faster than a line.
    pub(super) times: &'static [(&'static str, f64)],
}

/// Time and memory to stay below.
pub(super) struct Goal {
    pub(super) seconds: f64,
    /// Anonymous memory, bytes.
    pub(super) anonymous: Option<u64>,
}

/// A line to time, run by bash in the input's folder. `PROGRAM` and `PROFILE` are replaced by the names of the files,
/// without extensions such as `.heap`.
#[derive(Clone, Copy)]
pub(super) struct Row {
    pub(super) line: &'static str,
    pub(super) who: Who,
    /// The line of procprof with the same answer.
    pub(super) answer: Answer,
}

/// The owner of a line.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Who {
    /// Another program.
    Peer,
    /// Another program that takes longer than half a minute on one of the inputs.
    SlowPeer,
    /// procprof with an empty cache folder.
    Cold,
    /// procprof with the index that the report of another dump left.
    Warm,
}

/// The grammar of an answer.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    /// By jeprof's grammar and rules.
    Jeprof,
    /// By pprof's.
    Pprof,
    Flamegraph,
    Addresses,
}

impl Part {
    /// Whether it is measured with that folder.
    pub(super) fn needs(&self, folder: &str) -> bool {
        self.folder == folder
    }
}

const fn row(line: &'static str, who: Who, answer: Answer) -> Row {
    Row { line, who, answer }
}

const JEPROF: Row = row("jeprof --dot PROGRAM PROFILE.heap", Who::SlowPeer, Answer::Jeprof);
const GIMLI: Row =
    row("jeprof --tools=addr2line:$GIMLI,/usr/bin/ --dot PROGRAM PROFILE.heap", Who::SlowPeer, Answer::Jeprof);
const GOOGLE_PPROF: Row = row("google-pprof --dot PROGRAM PROFILE.legacy", Who::SlowPeer, Answer::Jeprof);
const GO: Row = row("go tool pprof -dot PROGRAM PROFILE.pb.gz", Who::SlowPeer, Answer::Pprof);
const PPROF: Row = row("pprof -dot PROGRAM PROFILE.pb.gz", Who::Peer, Answer::Pprof);
const COLD_JEPROF: Row = row("procprof jeprof --dot PROGRAM PROFILE.heap", Who::Cold, Answer::Jeprof);
const COLD_REPORT: Row = row("procprof report --dot PROGRAM PROFILE.heap", Who::Cold, Answer::Pprof);
const WARM_JEPROF: Row = row("procprof jeprof --dot PROGRAM PROFILE.heap", Who::Warm, Answer::Jeprof);
const WARM_REPORT: Row = row("procprof report --dot PROGRAM PROFILE.heap", Who::Warm, Answer::Pprof);

/// A large heap dump to a call graph.
const DOT: &[Row] = &[JEPROF, GIMLI, GO, PPROF, COLD_JEPROF, COLD_REPORT, WARM_JEPROF, WARM_REPORT];
/// The same without the lines that would take an hour.
const DOT_BIG: &[Row] = &[JEPROF, PPROF, COLD_JEPROF, COLD_REPORT, WARM_JEPROF, WARM_REPORT];
const DOT_CPP: &[Row] = &[JEPROF, GIMLI, GOOGLE_PPROF, PPROF, COLD_JEPROF, COLD_REPORT, WARM_JEPROF, WARM_REPORT];
const DOT_WITHOUT_JEPROF: &[Row] = &[PPROF, COLD_JEPROF, COLD_REPORT, WARM_JEPROF, WARM_REPORT];

const FLAMEGRAPH: &[Row] = &[
    row("google-pprof --collapsed PROGRAM PROFILE.prof | inferno-flamegraph", Who::SlowPeer, Answer::Flamegraph),
    row("procprof report --flamegraph PROGRAM PROFILE.prof", Who::Cold, Answer::Flamegraph),
    row("procprof report --flamegraph PROGRAM PROFILE.prof", Who::Warm, Answer::Flamegraph),
];

const ADDRESSES: &[Row] = &[
    row("addr2line -f -C -i -e PROGRAM < PROFILE.addresses", Who::SlowPeer, Answer::Addresses),
    row("$GIMLI -f -C -i -e PROGRAM < PROFILE.addresses", Who::Peer, Answer::Addresses),
    row("llvm-symbolizer -f -C -i --output-style=GNU -e PROGRAM < PROFILE.addresses", Who::Peer, Answer::Addresses),
    row("resolve blazesym PROGRAM < PROFILE.addresses", Who::Peer, Answer::Addresses),
    row("resolve wholesym PROGRAM < PROFILE.addresses", Who::Peer, Answer::Addresses),
    row("resolve procprof PROGRAM < PROFILE.addresses", Who::Cold, Answer::Addresses),
];

const MEGABYTES_250: Option<u64> = Some(250_000_000);
const MEGABYTES_120: Option<u64> = Some(120_000_000);

const PART: Part = Part {
    name: "",
    what: "",
    folder: "",
    profile: "a",
    second: "b",
    learned: "a",
    rows: DOT,
    cold: None,
    warm: None,
    times: &[(JEPROF.line, 100.0), (PPROF.line, 10.0)],
};

pub(super) const PARTS: &[Part] = &[
    Part {
        name: "rust",
        what: "a heap dump of an unoptimized Rust program of 0.9 GB",
        folder: "datafusion",
        cold: Some(Goal { seconds: 0.43, anonymous: MEGABYTES_250 }),
        warm: Some(Goal { seconds: 0.12, anonymous: MEGABYTES_120 }),
        ..PART
    },
    Part {
        name: "sql",
        what: "the graph of that program's heap over SQL, by the mariadb client",
        folder: "datafusion",
        rows: &[],
        cold: Some(Goal { seconds: 1.5, anonymous: None }),
        warm: Some(Goal { seconds: 0.5, anonymous: None }),
        ..PART
    },
    Part {
        name: "rust-big",
        what: "a heap dump of 165 MB of the same program",
        folder: "datafusion",
        profile: "big",
        second: "big",
        rows: DOT_BIG,
        cold: Some(Goal { seconds: 1.0, anonymous: MEGABYTES_250 }),
        ..PART
    },
    Part {
        name: "rust-stripped",
        what: "the same program with its debug information in a file of its own",
        folder: "datafusion-stripped",
        rows: DOT_WITHOUT_JEPROF,
        ..PART
    },
    Part {
        name: "rust-lto",
        what: "the same program at opt-level 3 with thin LTO",
        folder: "datafusion-lto",
        rows: DOT_BIG,
        ..PART
    },
    Part {
        name: "cpp",
        what: "a heap dump of an optimized C++ program of 0.3 GB",
        folder: "cpp",
        rows: DOT_CPP,
        cold: Some(Goal { seconds: 0.6, anonymous: MEGABYTES_250 }),
        ..PART
    },
    Part {
        name: "cpp-big",
        what: "a larger heap dump of the same program",
        folder: "cpp",
        profile: "big",
        second: "big",
        rows: DOT_WITHOUT_JEPROF,
        ..PART
    },
    Part {
        name: "cpp-stripped",
        what: "the same program with its debug information in a file of its own",
        folder: "cpp-stripped",
        rows: DOT_WITHOUT_JEPROF,
        ..PART
    },
    Part {
        name: "flamegraph",
        what: "a CPU profile of 50,000 records of the C++ program as a flame graph",
        folder: "cpp",
        second: "a",
        learned: "b",
        rows: FLAMEGRAPH,
        cold: Some(Goal { seconds: 1.0, anonymous: None }),
        warm: Some(Goal { seconds: 0.15, anonymous: None }),
        ..PART
    },
    Part {
        name: "rust-addresses",
        what: "the addresses of the Rust program's dump",
        folder: "datafusion",
        rows: ADDRESSES,
        ..PART
    },
    Part {
        name: "lto-addresses",
        what: "the addresses of a dump of its optimized build",
        folder: "datafusion-lto",
        rows: ADDRESSES,
        ..PART
    },
    Part {
        name: "cpp-addresses",
        what: "the addresses of the C++ program's dump",
        folder: "cpp",
        rows: ADDRESSES,
        ..PART
    },
];
