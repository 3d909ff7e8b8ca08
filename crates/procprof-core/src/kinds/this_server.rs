//! The server itself, recorded by the agent inside it.

use std::sync::Arc;

use procprof_collect::Offer;
use procprof_profile::ProfileType;

use super::this_server_source::ThisServerSource;
use super::{HeapControl, Interval, KindRow, KindSource, Role};

/// Whether there is a heap profiler is checked at each capture.
const OFFERS: &[Offer] =
    &[Offer::sampled(ProfileType::Cpu).seconds(60).continuous().on(), Offer::moment(ProfileType::Heap).on()];

pub(super) static ROW: KindRow = KindRow {
    remark: "cut every `self_interval_seconds`; heap where the server has it",
    default_role: Role::ThisServer,
    is_configurable: false,
    interval: Interval::Cut("self_interval_seconds"),
    asks_freely: true,
    heap: HeapControl::ThisServer,
    ..KindRow::new(
        "self",
        "the server itself",
        KindSource::Custom { offers: OFFERS, make: |context| Ok(Arc::new(ThisServerSource(context.agent.clone()))) },
    )
};
