//! Options of a capture, and their limits.

use std::time::SystemTime;

/// The highest sampling rate, samples per second of CPU time and thread. The kernel's tick (usually 4 ms) bounds what
/// timers deliver, not what [`CpuEngine::Perf`] does; weights stay true.
pub const MAX_HZ: u32 = 4000;

/// The default rate: out of step with events every 10 ms.
pub const DEFAULT_HZ: u32 = 99;

/// The largest heap dump that is read: 1 GiB.
pub const MAX_DUMP_BYTES: u64 = 1 << 30;

/// How to sample, and for whom.
#[derive(Clone, Debug)]
pub struct CpuOptions {
    /// Samples per second of CPU time and thread, 1 to [`MAX_HZ`].
    pub hz: u32,
    /// The engine. [`CpuEngine::Auto`] also joins any running one.
    pub engine: CpuEngine,
    /// The client of the capture, named in the errors of others that are refused.
    pub owner: String,
    /// When the capture is expected to end, named likewise; `None` for a continuous one.
    pub until: Option<SystemTime>,
}

impl Default for CpuOptions {
    fn default() -> Self {
        Self { hz: DEFAULT_HZ, engine: CpuEngine::Auto, owner: "this program".into(), until: None }
    }
}

/// How CPU samples are made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CpuEngine {
    /// For each thread by itself: the tick where it sees the thread's work, perf events where it does not and the
    /// kernel permits them.
    #[default]
    Auto,
    /// Perf events of the kernel: exact also for short bursts and for rates above the kernel's tick; dearer, and
    /// refused in some containers.
    Perf,
    /// Timers on the kernel's tick: the cheapest.
    Tick,
}

impl CpuEngine {
    /// Its name: `auto`, `perf`, `tick`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Perf => "perf",
            Self::Tick => "tick",
        }
    }

    /// The engine of that name.
    pub fn of_name(name: &str) -> Option<Self> {
        [Self::Auto, Self::Perf, Self::Tick].into_iter().find(|engine| engine.name() == name)
    }
}
