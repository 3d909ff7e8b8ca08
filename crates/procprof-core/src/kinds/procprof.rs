//! Processes with our agent.

use procprof_collect::endpoints;

use super::{HeapControl, KindRow};

pub(super) static ROW: KindRow = KindRow {
    remark: "heap where the process has it; contention by who waited, mutex by who held the lock",
    heap: HeapControl::Agent,
    ..KindRow::over_http("process with the agent of this project", &endpoints::PROCPROF)
};
