//! StarRocks backends and compute nodes: CPU and contention over brpc, heap over HTTP.

use procprof_collect::endpoints;

use super::{HeapControl, Interval, KindRow, Role};

pub(super) static ROW: KindRow = KindRow {
    remark: "one profile of a node at a time",
    default_role: Role::Be,
    interval: Interval::Every("COLLECT_BE_PROFILE_INTERVAL"),
    // brpc's profilers disturb each other.
    takes_turns: true,
    heap: HeapControl::BrpcFlag,
    engines: &[("contention", "brpc")],
    ..KindRow::over_http("StarRocks backend or compute node", &endpoints::STARROCKS_BE)
};
