//! Ages across settings of the clock.

use super::*;
use crate::DATA_FORMAT;
use crate::law::{Contents, Row, check, line};

const HOUR: i64 = 3600 * SECOND;
const DAY: i64 = 24 * HOUR;
const BEGIN: i64 = 1_700_000_000 * SECOND;

/// A machine whose clock can be set.
struct Machine {
    uptime: i64,
    ahead: i64,
    boot: &'static str,
    timeline: Timeline,
}

impl Machine {
    fn new() -> Machine {
        let mut machine = Machine { uptime: HOUR, ahead: 0, boot: "a", timeline: Timeline::default() };
        machine.after(0);
        machine
    }

    fn clock(&self) -> Nanos {
        Nanos(BEGIN + self.uptime + self.ahead)
    }

    /// Lets time pass and reads the clock; returns by how much it was detected to have been set.
    fn after(&mut self, passed: i64) -> i64 {
        self.uptime += passed;
        let clock = Clock { now: self.clock(), boot: self.boot.to_owned(), uptime: Nanos(self.uptime) };
        self.timeline.look(&clock)
    }

    /// Age in hours of a profile completed at that time of the clock.
    fn age(&self, completed: Nanos) -> f64 {
        (self.timeline.now().0 - self.timeline.place(completed, None).0) as f64 / HOUR as f64
    }
}

#[test]
fn without_a_setting_it_is_the_clock() {
    let mut machine = Machine::new();
    let (old, new) = (Nanos(BEGIN - 30 * DAY), machine.clock());
    assert_eq!(machine.after(5 * HOUR), 0);
    // As ntpd slews it, a second at a time.
    machine.ahead = 30 * SECOND;
    assert_eq!(machine.after(HOUR), 0);
    assert_eq!(machine.timeline.now(), machine.clock());
    assert_eq!((machine.age(new) * 100.0).round(), 601.0);
    assert_eq!(machine.timeline.place(old, None), old);
    let soon = Nanos(machine.clock().0 + 60 * SECOND);
    assert_eq!(machine.timeline.place(soon, None), soon, "a source's clock may be a little ahead");
}

#[test]
fn a_clock_set_ahead_and_back_makes_nothing_older_or_younger() {
    let mut machine = Machine::new();
    let before = machine.clock();
    machine.after(HOUR);
    machine.ahead = 2 * DAY;
    assert_eq!(machine.after(60 * SECOND), 2 * DAY);
    assert!((machine.age(before) - 1.0).abs() < 0.1, "{}", machine.age(before));
    let meanwhile = machine.clock();
    machine.after(HOUR);
    assert!((machine.age(meanwhile) - 1.0).abs() < 0.1);
    let skipped = Nanos(meanwhile.0 - DAY);
    assert!((machine.age(skipped) - 1.0).abs() < 0.1, "a time that never was is that of the setting");
    machine.ahead = 0;
    assert_eq!(machine.after(60 * SECOND), -2 * DAY);
    let after = machine.clock();
    machine.after(HOUR);
    for (moment, age) in [(before, 3.0), (meanwhile, 2.0), (after, 1.0)] {
        assert!((machine.age(moment) - age).abs() < 0.1, "{} instead of {age}", machine.age(moment));
    }
    machine.after(30 * HOUR);
    assert!((machine.age(meanwhile) - 32.0).abs() < 0.1, "what was taken ahead of time grows old like the rest");
}

#[test]
fn what_claims_to_be_from_the_future_goes_by_its_arrival_or_the_first_look() {
    let mut machine = Machine::new();
    machine.after(10 * HOUR);
    let far = Nanos(i64::MAX);
    assert!((machine.age(far) - 10.0).abs() < 0.1);
    let millis = u128::try_from((machine.clock().0 - 3 * HOUR) / 1_000_000).unwrap();
    let id = ProfileId(millis << 80 | 7 << 76);
    let lived = machine.timeline.place(far, Some(id));
    assert_eq!((machine.timeline.now().0 - lived.0 + HOUR / 2) / HOUR, 3);
    assert_eq!(
        machine.timeline.place(far, Some(ProfileId(millis << 80 | 4 << 76))),
        machine.timeline.place(far, None),
        "no time in it"
    );
}

#[test]
fn a_stop_counts_by_uptime_and_a_reboot_for_an_hour_at_most() {
    let mut machine = Machine::new();
    let before = machine.clock();
    let kept = serde_json::to_vec(&machine.timeline).unwrap();
    machine.timeline = serde_json::from_slice(&kept).unwrap();
    assert_eq!(machine.after(5 * DAY), 0, "stopped for days on a machine that ran");
    assert!((machine.age(before) - 120.0).abs() < 0.1);
    (machine.boot, machine.uptime, machine.ahead) = ("b", 30 * SECOND, 6 * DAY);
    assert!(machine.after(0) > 0);
    assert!((machine.age(before) - 121.0).abs() < 0.1, "{}", machine.age(before));
    machine.after(HOUR);
    assert!((machine.age(before) - 122.0).abs() < 0.1);
}

#[test]
fn it_is_kept_in_a_file_and_a_broken_one_begins_anew() {
    let data = tempfile::tempdir().unwrap();
    assert_eq!(Timeline::open(data.path()), Timeline::default());
    let mut machine = Machine::new();
    machine.ahead = DAY;
    machine.after(HOUR);
    machine.timeline.keep(data.path()).unwrap();
    assert_eq!(Timeline::open(data.path()), machine.timeline);
    for broken in ["{", "{\"spans\":[{\"from\":2,\"to\":1,\"lived\":0}],\"boot\":\"\",\"uptime\":0}"] {
        std::fs::write(file(data.path()), broken).unwrap();
        assert_eq!(Timeline::open(data.path()), Timeline::default());
    }
}

#[test]
fn spans_are_bounded() {
    let mut machine = Machine::new();
    for number in 0..200 {
        machine.ahead = number * DAY;
        machine.after(60 * SECOND);
    }
    assert_eq!(machine.timeline.spans.len(), SPANS_MAX);
    assert!(serde_json::to_vec(&machine.timeline).unwrap().len() < FILE_MAX as usize);
}

#[test]
fn every_version_of_its_file_is_read() {
    check(&Row { name: "clock", version: DATA_FORMAT.version, make: make_file, read: read_file, mark: None });
}

fn make_file(data: &Path) {
    let clock = |now: i64, uptime: i64| Clock { now: Nanos(now), boot: "4f0c".to_owned(), uptime: Nanos(uptime) };
    let mut timeline = Timeline::default();
    timeline.look(&clock(1_700_000_000 * SECOND, SECOND));
    timeline.look(&clock(1_700_000_100 * SECOND, 101 * SECOND));
    assert_ne!(timeline.look(&clock(1_700_900_000 * SECOND, 201 * SECOND)), 0);
    timeline.keep(data).unwrap();
}

fn read_file(data: &Path) -> Contents {
    let mut text = String::new();
    line(&mut text, Timeline::open(data));
    Ok(text)
}
