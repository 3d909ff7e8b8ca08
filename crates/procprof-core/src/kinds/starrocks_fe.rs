//! StarRocks frontends: the flame graphs that they make of themselves, fetched over HTTP.

use std::sync::Arc;

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use procprof_collect::frontend::{FrontendOptions, FrontendSource};
use procprof_collect::{CollectError, Offer, endpoints};
use procprof_profile::{Nanos, ProfileType};

use super::{KindRow, KindSource, NodeConfig, NodeOption, OptionType, OptionValue, Role, SourceContext};

const ZONE: &str = "tz";
const PROFILE_SECONDS: &str = "profile_seconds";
/// StarRocks' own `proc_profile_collect_time_s`.
const PROFILE_SECONDS_DEFAULT: u64 = 120;

/// A frontend makes one after the other, so a new one is found soon.
const OFFERS: &[Offer] = &[Offer::moment(ProfileType::Cpu).on(), Offer::moment(ProfileType::Alloc).on()];

const OPTIONS: &[NodeOption] = &[
    NodeOption {
        name: ZONE,
        option_type: OptionType::Text,
        default: "",
        help: "Time zone of its file names (`Europe/Berlin`, `UTC`); by default that of this machine.",
    },
    NodeOption {
        name: PROFILE_SECONDS,
        option_type: OptionType::Count(1, 3600),
        default: "120",
        help: "Length of its profiles, which their names lack: `proc_profile_collect_time_s` of its `fe.conf`.",
    },
];

pub(super) static ROW: KindRow = KindRow {
    remark: "the profiles that the frontend has taken since the last capture, at most 10 of a type; at first its latest \
             10",
    default_role: Role::Fe,
    options: OPTIONS,
    asks_freely: true,
    pages: Some(&endpoints::STARROCKS_FE),
    check,
    ..KindRow::new(
        "starrocks-fe",
        "StarRocks frontend that profiles itself (`proc_profile_cpu_enable`)",
        KindSource::Custom { offers: OFFERS, make: |context| Ok(Arc::new(source(context)?)) },
    )
};

fn check(node: &NodeConfig) -> Result<(), String> {
    if node.http.is_empty() {
        return Err("a frontend is reached over http: give it".to_owned());
    }
    if !node.brpc.is_empty() || !node.urls.is_empty() {
        return Err("a frontend has no brpc and no urls".to_owned());
    }
    zone(node).map(drop)
}

fn source(context: &SourceContext<'_>) -> Result<FrontendSource, CollectError> {
    let value = |why: String| CollectError::Target { what: ZONE, value: context.node.name.clone(), why };
    let zone = zone(context.node).map_err(value)?;
    let seconds = match context.node.options.get(PROFILE_SECONDS) {
        Some(OptionValue::Count(seconds)) => *seconds,
        _ => PROFILE_SECONDS_DEFAULT,
    };
    let length = Nanos(i64::try_from(seconds).unwrap_or(0).saturating_mul(1_000_000_000));
    Ok(FrontendSource::new(FrontendOptions {
        target: context.target.clone(),
        time: Arc::new(move |text| moment(text, &zone)),
        length,
    }))
}

fn zone(node: &NodeConfig) -> Result<TimeZone, String> {
    match node.options.get(ZONE) {
        Some(OptionValue::Text(name)) if !name.is_empty() => {
            TimeZone::get(name).map_err(|_| format!("{ZONE}: {name:?} is not in the time zone database"))
        }
        _ => Ok(TimeZone::system()),
    }
}

/// The moment that a time in a file name is; the first one in an hour that the clocks repeated.
fn moment(text: &str, zone: &TimeZone) -> Option<Nanos> {
    let time = DateTime::strptime("%Y%m%d-%H%M%S", text).ok()?;
    let moment = zone.to_ambiguous_timestamp(time).compatible().ok()?;
    i64::try_from(moment.as_nanosecond()).ok().map(Nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(http: &str, zone: &str) -> NodeConfig {
        let options = [(ZONE, OptionValue::Text(zone.to_owned()))].into();
        NodeConfig { http: http.to_owned(), options, ..NodeConfig::default() }
    }

    #[test]
    fn times_of_names_are_of_the_frontends_zone() {
        let berlin = zone(&node("fe:8030", "Europe/Berlin")).unwrap();
        let second = |text| moment(text, &berlin).map(|moment| moment.0 / 1_000_000_000);
        assert_eq!(second("20251120-232534"), Some(1_763_677_534));
        // 02:30 is there twice on that day.
        assert_eq!(second("20251026-023000"), Some(1_761_438_600));
        assert_eq!((second("20251340-000000"), second("x")), (None, None));
    }

    #[test]
    fn a_frontend_needs_an_address_and_a_zone_that_exists() {
        assert_eq!((ROW.check)(&node("fe:8030", "")), Ok(()));
        assert!((ROW.check)(&node("", "")).unwrap_err().contains("give it"));
        assert!((ROW.check)(&node("fe:8030", "Mars/Base")).unwrap_err().contains("Mars/Base"));
        let with_brpc = NodeConfig { brpc: "fe:8060".to_owned(), ..node("fe:8030", "") };
        assert!((ROW.check)(&with_brpc).is_err());
    }
}
