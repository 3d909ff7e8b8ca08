//! All endpoints, one row each. The index page, the dispatcher and any server's routes come from here.

use super::query::Form;
use crate::request::Method;

/// One path the agent answers.
#[derive(Clone, Copy, Debug)]
pub struct Endpoint {
    /// The exact path.
    pub path: &'static str,
    /// The methods it takes.
    pub methods: &'static [Method],
    /// One line for people.
    pub help: &'static str,
    pub(super) kind: Kind,
}

/// The operation of an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Index,
    /// CPU for some seconds; this form is the default.
    Cpu(Form),
    /// Wall time for some seconds; this form is the default.
    Wall(Form),
    /// The heap at this moment; this form is the default.
    Heap(Form),
    /// As the heap, with all allocations shown first.
    Allocs,
    /// Growth of the heap in some seconds.
    Growth,
    HeapStatus,
    HeapEnable,
    HeapDisable,
    HeapReset,
    /// Waits for locks since the start or for some seconds, charged to the waiting thread; this form is the default.
    Waits(Form),
    /// The same, charged to the holders of the locks.
    Holders,
    LocksStatus,
    LocksEnable,
    LocksDisable,
    HeapDumps,
    HeapDumpsClean,
    Cmdline,
    Symbol,
}

impl Kind {
    /// Whether files or sockets are opened for its answer.
    pub(super) fn needs_files(self) -> bool {
        !matches!(self, Self::Index | Self::LocksStatus | Self::LocksDisable)
    }

    /// Whether its answer takes more memory than its own bytes.
    pub(super) fn takes_memory(self) -> bool {
        use Kind::{Allocs, Cpu, Growth, Heap, HeapDumps, Holders, LocksEnable, Symbol, Waits, Wall};
        matches!(
            self,
            Cpu(_) | Wall(_) | Heap(_) | Allocs | Growth | Waits(_) | Holders | LocksEnable | HeapDumps | Symbol
        )
    }
}

const READ: &[Method] = &[Method::Get, Method::Head];
const WRITE: &[Method] = &[Method::Post];
const BOTH: &[Method] = &[Method::Get, Method::Head, Method::Post];

const CPU: &str = "CPU time: ?seconds=1..300 (30), frequency=1..4000 (99), engine=auto|perf|tick, format=proto|legacy, symbolize=0|1, \
                   processes=all|own (forked ones, too, or not)";
const HEAP: &str = "heap in use, at this moment: ?format=proto|legacy";
const CMDLINE: &str = "the command line, NUL-separated";
const SYMBOL: &str = "names of addresses: POST 0xA+0xB";
const WAITS: &str = "waits for locks, by who waited, so far or for ?seconds=1..300: format=proto|legacy, symbolize=0|1";
const HOLDERS: &str =
    "waits for locks, by who held them, so far or for ?seconds=1..300: format=proto|legacy, symbolize=0|1";
const WALL: &str = "wall time of all threads, also waiting ones: ?seconds=1..300 (30), frequency=1..100 (19), \
                    format=proto|legacy, symbolize=0|1";
const DUMPS: &str =
    "dump files that jemalloc wrote by itself, as JSON; one of them: ?name=FILE, format=proto|legacy, symbolize=0|1";
const GROWTH: &str = "what the memory in use grew by in ?seconds=1..300 (10): format=legacy|proto, symbolize=0|1";

const fn row(path: &'static str, methods: &'static [Method], help: &'static str, kind: Kind) -> Endpoint {
    Endpoint { path, methods, help, kind }
}

/// Every endpoint: proto on `/debug/pprof`, the older forms on `/debug/mem` and `/pprof`.
pub const ENDPOINTS: &[Endpoint] = &[
    row("/debug/pprof/", READ, "this page", Kind::Index),
    row("/debug/pprof/profile", READ, CPU, Kind::Cpu(Form::Proto)),
    row("/debug/pprof/heap", READ, HEAP, Kind::Heap(Form::Proto)),
    row("/debug/pprof/heap/status", READ, "what the heap profiler is doing", Kind::HeapStatus),
    row(
        "/debug/pprof/heap/enable",
        WRITE,
        "sample the heap from now on: ?for=30m goes back by itself",
        Kind::HeapEnable,
    ),
    row(
        "/debug/pprof/heap/disable",
        WRITE,
        "sample the heap no longer: ?for=30m goes back by itself",
        Kind::HeapDisable,
    ),
    row("/debug/pprof/heap/reset", WRITE, "forget the heap's samples: ?lg_sample=0..40 sets the rate", Kind::HeapReset),
    row("/debug/pprof/heap/dumps", READ, DUMPS, Kind::HeapDumps),
    row(
        "/debug/pprof/heap/dumps/clean",
        WRITE,
        "delete such files but the newest: ?keep=0..1000000 (16)",
        Kind::HeapDumpsClean,
    ),
    row("/debug/pprof/cmdline", READ, CMDLINE, Kind::Cmdline),
    row("/debug/pprof/symbol", BOTH, SYMBOL, Kind::Symbol),
    row("/debug/pprof/allocs", READ, "all allocations so far: ?format=proto|legacy", Kind::Allocs),
    row("/debug/pprof/mutex", READ, HOLDERS, Kind::Holders),
    row("/debug/pprof/block", READ, WAITS, Kind::Waits(Form::Proto)),
    row("/debug/pprof/contention", READ, WAITS, Kind::Waits(Form::Proto)),
    row("/debug/pprof/contention/status", READ, "whether waits for locks are recorded", Kind::LocksStatus),
    row("/debug/pprof/contention/enable", WRITE, "record waits for locks from now on", Kind::LocksEnable),
    row("/debug/pprof/contention/disable", WRITE, "record waits for locks no longer", Kind::LocksDisable),
    row("/debug/pprof/wall", READ, WALL, Kind::Wall(Form::Proto)),
    row("/debug/mem", READ, HEAP, Kind::Heap(Form::Legacy)),
    row("/debug/mem/pprof/profile", READ, HEAP, Kind::Heap(Form::Legacy)),
    row("/debug/mem/pprof/heap", READ, HEAP, Kind::Heap(Form::Legacy)),
    row("/debug/mem/pprof/cmdline", READ, CMDLINE, Kind::Cmdline),
    row("/debug/mem/pprof/symbol", BOTH, SYMBOL, Kind::Symbol),
    row("/pprof/profile", READ, CPU, Kind::Cpu(Form::Legacy)),
    row("/pprof/heap", READ, HEAP, Kind::Heap(Form::Legacy)),
    row("/pprof/cmdline", READ, CMDLINE, Kind::Cmdline),
    row("/pprof/symbol", BOTH, SYMBOL, Kind::Symbol),
    row("/pprof/growth", READ, GROWTH, Kind::Growth),
    row("/pprof/contention", READ, WAITS, Kind::Waits(Form::Legacy)),
    row("/pprof/wall", READ, WALL, Kind::Wall(Form::Legacy)),
];

/// The row of a path; `/debug/pprof` means `/debug/pprof/`.
pub(super) fn find(path: &str) -> Option<&'static Endpoint> {
    let path = if path == "/debug/pprof" { "/debug/pprof/" } else { path };
    ENDPOINTS.iter().find(|endpoint| endpoint.path == path)
}
