//! Databend's query and meta processes, by their admin service.

use procprof_collect::endpoints;

use super::{HeapControl, KindRow};

pub(super) static ROW: KindRow = KindRow {
    remark: "one CPU profile of a node at a time: a second one is answered with an error, and repeated",
    heap: HeapControl::Environment,
    engines: &[("pprof", "pprof-rs")],
    ..KindRow::over_http("Databend's admin service", &endpoints::DATABEND)
};
