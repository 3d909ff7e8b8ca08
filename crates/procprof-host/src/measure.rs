//! The time that a recording is of.

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
