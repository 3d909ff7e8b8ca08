//! Hosts and their services, recorded by a host agent (`procprof node`) that sends what it records.

use procprof_collect::Offer;
use procprof_profile::ProfileType;

use super::{KindRow, KindSource, Role};

/// What an agent reports decides which of these a node has, and which others.
const OFFERS: &[Offer] = &[
    Offer::sampled(ProfileType::Cpu).seconds(60).continuous().on(),
    Offer::sampled(ProfileType::OffCpu),
    Offer::sampled(ProfileType::Wall),
];

pub(super) static HOST: KindRow = KindRow {
    remark: "cut every minute; the host agent sends it",
    default_role: Role::Host,
    is_configurable: false,
    ..KindRow::new(
        "host",
        "a host with a host agent, and what belongs to none of its services",
        KindSource::Pushed(OFFERS),
    )
};

pub(super) static PROCESS: KindRow = KindRow {
    remark: "cut every minute; the host agent sends it",
    is_configurable: false,
    ..KindRow::new(
        "process",
        "the processes of a service on a host with a host agent: of a systemd unit, a container, or of one name",
        KindSource::Pushed(OFFERS),
    )
};
