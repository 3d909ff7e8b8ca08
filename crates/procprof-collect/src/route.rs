//! Where each kind of process serves each profile type, and how often it is asked by default: one row each.

use procprof_profile::ProfileType;

/// Which of a process's two HTTP services.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Service {
    /// Its web service ([`Target::http`](crate::Target::http)).
    Http,
    /// Its brpc service ([`Target::brpc`](crate::Target::brpc)).
    Brpc,
}

/// One endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The service that has it.
    pub service: Service,
    /// Path below the service's base address, perhaps with a fixed query.
    pub path: &'static str,
}

/// The span of time a profile is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Window {
    /// The seconds asked for; they must be told.
    Seconds,
    /// The moment of asking; seconds other than 0 are refused.
    Moment,
    /// The moment (or all since the start) without seconds; what came in between with them.
    MomentOrDelta,
}

/// How often a profile is taken unless configured otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// Whether it is collected unless switched off.
    pub on: bool,
    /// Length of a capture; 0 for a moment.
    pub seconds: u32,
    /// Time from one start to the next; equal to `seconds` means without gaps.
    pub interval_seconds: u32,
}

/// One profile type of one kind of process.
#[derive(Clone, Debug)]
pub struct Route {
    /// What is collected.
    pub profile_type: ProfileType,
    /// Where, the first choice first; a later one is asked when an earlier one is unreachable or has no such endpoint.
    /// Empty where only a configured URL tells.
    pub places: &'static [Place],
    /// What is expected there, in words.
    pub expects: &'static str,
    /// What span of time it is about.
    pub window: Window,
    /// Whether the endpoint takes a sampling frequency.
    pub takes_frequency: bool,
    /// The default schedule.
    pub schedule: Schedule,
}

/// A row: the type, where it is, what comes, and on which terms.
const fn row(profile_type: ProfileType, places: &'static [Place], expects: &'static str, terms: Terms) -> Route {
    let Terms { window, takes_frequency, schedule } = terms;
    Route { profile_type, places, expects, window, takes_frequency, schedule }
}

#[derive(Clone, Copy)]
struct Terms {
    window: Window,
    takes_frequency: bool,
    schedule: Schedule,
}

/// 10 s every 60 s, off.
const SAMPLED: Terms =
    Terms { window: Window::Seconds, takes_frequency: false, schedule: Schedule { on: false, seconds: 10, interval_seconds: 60 } };
/// A moment every 60 s, off.
const MOMENT: Terms =
    Terms { window: Window::Moment, takes_frequency: false, schedule: Schedule { on: false, seconds: 0, interval_seconds: 60 } };

impl Terms {
    const fn on(mut self) -> Terms {
        self.schedule.on = true;
        self
    }

    const fn with_frequency(mut self) -> Terms {
        self.takes_frequency = true;
        self
    }

    const fn or_delta(mut self) -> Terms {
        self.window = Window::MomentOrDelta;
        self
    }

    const fn seconds(mut self, seconds: u32) -> Terms {
        self.schedule.seconds = seconds;
        self
    }
}

const fn http(path: &'static str) -> Place {
    Place { service: Service::Http, path }
}

const fn brpc(path: &'static str) -> Place {
    Place { service: Service::Brpc, path }
}

pub(crate) const STARROCKS_BE: &[Route] = &[
    row(ProfileType::Cpu, &[brpc("/pprof/profile")], "gperftools CPU profile", SAMPLED.on()),
    row(ProfileType::Contention, &[brpc("/pprof/contention")], "brpc contention text", SAMPLED),
    row(ProfileType::Heap, &[http("/pprof/heap"), brpc("/pprof/heap")], "jemalloc or tcmalloc heap text", MOMENT),
];

pub(crate) const DATABEND: &[Route] = &[
    row(ProfileType::Cpu, &[http("/debug/pprof/profile")], "pprof protobuf", SAMPLED.on().with_frequency()),
    row(ProfileType::Heap, &[http("/debug/mem/pprof/profile?seconds=0")], "jemalloc heap text", MOMENT),
];

/// `heap`, `allocs`, `mutex` and `block` are totals since the start unless `seconds` asks for the difference.
pub(crate) const GO: &[Route] = &[
    row(ProfileType::Cpu, &[http("/debug/pprof/profile")], "pprof protobuf", SAMPLED.on()),
    row(ProfileType::Heap, &[http("/debug/pprof/heap")], "pprof protobuf", MOMENT.on().or_delta()),
    row(ProfileType::Goroutine, &[http("/debug/pprof/goroutine")], "pprof protobuf", MOMENT.on()),
    row(ProfileType::Alloc, &[http("/debug/pprof/allocs")], "pprof protobuf", SAMPLED.or_delta()),
    row(ProfileType::Mutex, &[http("/debug/pprof/mutex")], "pprof protobuf", SAMPLED.or_delta()),
    row(ProfileType::Contention, &[http("/debug/pprof/block")], "pprof protobuf", SAMPLED.or_delta()),
];

/// The paths that most tools use; a configured URL goes before them.
pub(crate) const PPROF: &[Route] = &[
    row(ProfileType::Cpu, &[http("/debug/pprof/profile")], "any CPU profile", SAMPLED.on().with_frequency()),
    row(ProfileType::Wall, &[], "any wall-clock profile", SAMPLED),
    row(ProfileType::Contention, &[], "any contention profile", SAMPLED),
    row(ProfileType::Heap, &[http("/debug/pprof/heap")], "any heap profile", MOMENT),
];

/// Addresses only: the names are found by who collects, not at the cost of the profiled process.
pub(crate) const PROCPROF: &[Route] = &[
    row(ProfileType::Cpu, &[http("/debug/pprof/profile?symbolize=0")], "pprof protobuf", SAMPLED.on().with_frequency().seconds(60)),
    row(ProfileType::Heap, &[http("/debug/pprof/heap?symbolize=0")], "pprof protobuf", MOMENT.on()),
    row(ProfileType::Alloc, &[http("/debug/pprof/allocs")], "pprof protobuf", SAMPLED),
    row(ProfileType::Contention, &[http("/debug/pprof/contention?symbolize=0")], "pprof protobuf", SAMPLED),
    row(ProfileType::Mutex, &[http("/debug/pprof/mutex?symbolize=0")], "pprof protobuf", SAMPLED),
    row(ProfileType::Wall, &[http("/debug/pprof/wall")], "pprof protobuf", SAMPLED),
];
