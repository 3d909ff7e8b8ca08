//! Whatever answers pprof URLs: the usual paths, or one configured URL per profile type.

use procprof_collect::endpoints;

use super::row::has_address;
use super::{KindRow, NodeConfig};

pub(super) static ROW: KindRow = KindRow {
    remark: "at `/debug/pprof/profile` and `/debug/pprof/heap` of `http`; with `urls`, the types of these instead, on",
    check,
    ..KindRow::over_http("any URLs that answer profiles", &endpoints::PPROF)
};

fn check(node: &NodeConfig) -> Result<(), String> {
    has_address(node)?;
    match node.http.is_empty() && node.urls.is_empty() {
        true => Err("a node of kind pprof needs http, or urls by profile type".to_owned()),
        false => Ok(()),
    }
}
