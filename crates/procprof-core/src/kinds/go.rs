//! Go programs with `net/http/pprof`.

use procprof_collect::endpoints;
use procprof_profile::ProfileType;

use super::KindRow;

pub(super) static ROW: KindRow = KindRow {
    remark: "Go's own names `allocs` and `block` are accepted, too",
    type_names: &[("allocs", ProfileType::Alloc), ("block", ProfileType::Contention)],
    engines: &[("", "go")],
    ..KindRow::over_http("Go program with `net/http/pprof`", &endpoints::GO)
};
