//! The time that a recording is of, and what measures it.

/// The time that is recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Measure {
    /// CPU time: samples in count, cpu in nanoseconds.
    #[default]
    Cpu,
    /// Time in which threads wait or are ready to run, but don't: waits in count, `off_cpu` in nanoseconds. A label
    /// `state` tells `blocked` from `preempted`.
    OffCpu,
    /// Both: samples (of CPU time, and waits) in count, wall in nanoseconds; `state` also is `running`.
    Wall,
}

/// What measures waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Engine {
    /// BPF programs where the kernel runs them, otherwise perf events.
    #[default]
    Auto,
    /// Perf events: the kernel writes a record of each switch.
    Perf,
    /// BPF programs: they add up waits in the kernel, and choose those that are sampled.
    Bpf,
}
