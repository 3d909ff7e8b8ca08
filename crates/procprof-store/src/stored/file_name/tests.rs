//! Names in, names out.

use jiff::tz::TimeZone;
use procprof_profile::{Nanos, ProfileType};

use super::{FileName, Format, second_of};

#[test]
fn own_names_are_read_back() {
    let kinds = ["cpu", "alloc", "heap", "contention", "goroutine", "my_type2"]
        .map(|name| name.parse::<ProfileType>().unwrap());
    for kind in kinds {
        for format in Format::ALL {
            for start in [0, 1_763_677_534_999_999_999, -1, i64::MAX, i64::MIN] {
                let moment = second_of(Nanos(start), 0).unwrap();
                let name = FileName::compose(&kind, moment, format);
                let read = FileName::parse(&name).unwrap_or_else(|| panic!("{name}"));
                assert_eq!((&read.profile_type, read.format), (&kind, format), "{name}");
                let second = read.moment(&TimeZone::UTC).map(|moment| moment.0.div_euclid(1_000_000_000));
                // The first second of the range of nanoseconds begins before the range does.
                assert!(second == Some(start.div_euclid(1_000_000_000)) || start == i64::MIN, "{name}");
            }
        }
    }
}

#[test]
fn the_start_is_named_in_utc_to_the_second() {
    let name = |kind: &str, format| {
        FileName::compose(&kind.parse().unwrap(), second_of(Nanos(1_763_677_534_999_999_999), 0).unwrap(), format)
    };
    assert_eq!(name("cpu", Format::Pprof), "cpu-profile-20251120-222534-pprof.gz");
    assert_eq!(name("alloc", Format::Flame), "mem-profile-20251120-222534-flame.html.gz");
    assert_eq!(name("alloc", Format::HtmlArchive), "mem-profile-20251120-222534.html.tar.gz");
}

#[test]
fn only_names_of_profiles_are_read() {
    let refused = [
        "",
        "cpu-profile-20251120-222534",
        "cpu-profile-20251120-222534-pprof.gz.tmp",
        ".cpu-profile-20251120-222534-pprof.gz",
        "cpu-profile-20251120-222534-2-pprof.gz",
        "cpu-profile-20251320-222534-pprof.gz",
        "cpu-profile-20251120-252534-pprof.gz",
        "cpu-profile-2025112--222534-pprof.gz",
        "cpu-profile-+2512120-222534-pprof.gz",
        "../cpu-profile-20251120-222534-pprof.gz",
        "a/cpu-profile-20251120-222534-pprof.gz",
        "CPU-profile-20251120-222534-pprof.gz",
        "-profile-20251120-222534-pprof.gz",
        "cpu-profile-20251120-222534-pprof.gz\n",
        "cpu-profile-20251120-222534-pproƒ.gz",
        "cpu-profile-20251120-222534'$(id)'-pprof.gz",
    ];
    for name in refused {
        assert_eq!(FileName::parse(name), None, "{name:?}");
    }
    let long = format!("{}-profile-20251120-222534-pprof.gz", "x".repeat(33));
    assert_eq!(FileName::parse(&long), None);
}

#[test]
fn foreign_names_may_carry_only_a_date() {
    let moment = |name: &str| {
        FileName::parse_foreign(name)
            .and_then(|read| read.moment(&TimeZone::UTC))
            .map(|moment| moment.0 / 1_000_000_000)
    };
    assert_eq!(moment("cpu-profile-20251120-222534-pprof.gz"), Some(1_763_677_534));
    assert_eq!(moment("cpu-profile-20251120-anything-pprof.gz"), Some(1_763_596_800));
    assert_eq!(moment("contention-profile-20251120-pprof.gz"), Some(1_763_596_800));
    assert_eq!(moment("cpu-profile-20251120-120000-2-pprof.gz"), Some(1_763_596_800));
    assert_eq!(moment("cpu-profile-20251120x-pprof.gz"), None);
    assert_eq!(moment("cpu-profile-20251120-a b-pprof.gz"), None);
    assert_eq!(moment("cpu-profile-20251120-../x-pprof.gz"), None);
}

#[test]
fn an_hour_gone_through_twice_is_the_first_and_a_skipped_one_moves_on() {
    let zone = TimeZone::get("Europe/Berlin").unwrap();
    let moment = |time: &str| {
        let read = FileName::parse(&format!("cpu-profile-{time}-pprof.gz")).unwrap();
        read.moment(&zone).unwrap().0 / 1_000_000_000
    };
    // 2025-10-26 02:30 was at 00:30 UTC (summer time) and at 01:30 UTC.
    assert_eq!(moment("20251026-023000"), 1_761_438_600);
    assert_eq!(moment("20251026-033000") - moment("20251026-023000"), 7200);
    // 2025-03-30 02:30 did not exist; an hour later is 03:30 summer time, 01:30 UTC.
    assert_eq!(moment("20250330-023000"), 1_743_298_200);
}
