//! Go programs with `net/http/pprof`.

use procprof_collect::endpoints;
use procprof_profile::ProfileType;

use super::KindRow;

pub(super) static ROW: KindRow = KindRow {
    remark: "Go's own names `allocs` and `block` are accepted, too; mutex has samples if the program calls \
             `runtime.SetMutexProfileFraction`, and contention if it calls `runtime.SetBlockProfileRate`",
    type_names: &[("allocs", ProfileType::Alloc), ("block", ProfileType::Contention)],
    engines: &[("", "go")],
    ..KindRow::over_http("Go program with `net/http/pprof`", &endpoints::GO)
};
