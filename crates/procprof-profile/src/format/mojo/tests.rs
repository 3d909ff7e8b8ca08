use super::*;
use crate::format::fixtures::{bytes, check, decoded, error};

fn number(number: i64) -> Vec<u8> {
    let (mut rest, sign) = (number.unsigned_abs(), if number < 0 { 0x40 } else { 0 });
    let mut bytes = vec![(rest & 0x3f) as u8 | sign];
    rest >>= 6;
    while rest > 0 {
        *bytes.last_mut().unwrap() |= 0x80;
        bytes.push((rest & 0x7f) as u8);
        rest >>= 7;
    }
    bytes
}

/// An event: its kind, numbers, and a text unless that is empty.
fn event(kind: u8, numbers: &[i64], text: &str) -> Vec<u8> {
    let mut bytes = vec![kind];
    numbers.iter().for_each(|one| bytes.extend(number(*one)));
    if !text.is_empty() {
        bytes.extend([text.as_bytes(), &[0]].concat());
    }
    bytes
}

fn metadata(name: &str, value: &str) -> Vec<u8> {
    [&[1], name.as_bytes(), &[0], value.as_bytes(), &[0]].concat()
}

fn recording(version: u8, mode: &str, events: &[Vec<u8>]) -> Vec<u8> {
    [&[MAGIC, &[version]].concat(), &metadata("mode", mode), &events.concat()].map(Vec::as_slice).concat()
}

/// Two frames, `main` and, in a library, `work`.
fn frames() -> Vec<Vec<u8>> {
    vec![
        event(11, &[70], "/a.py"),
        event(11, &[71], "main"),
        event(11, &[72], "/lib.so"),
        event(11, &[-73], "work"),
        event(3, &[900, 70, 71, 7, 8, 3, 4], ""),
        event(3, &[901, 72, -73, 9, 9, 0, 0], ""),
    ]
}

/// Stacks, root first, with values and labels.
fn lines(bytes: &[u8]) -> Vec<String> {
    let profile = decoded(bytes).profile;
    let name = |id: &LocationId| profile.string(profile.function(profile.lines(*id)[0].function).name).to_owned();
    let samples = profile.samples().map(|sample| {
        let stack: Vec<String> = sample.stack.iter().rev().map(name).collect();
        format!("{} {:?} {}", stack.join(";"), sample.values, sample.labels.len())
    });
    samples.collect()
}

/// Sum of the metric of each line that Austin's own converter has written, and how many there are.
fn oracle(name: &str) -> (i64, i64) {
    let text = String::from_utf8(bytes(name)).unwrap();
    let lines = text.lines().filter(|line| line.starts_with('P'));
    let values = lines.map(|line| line.rsplit_once(' ').unwrap().1.parse::<i64>().unwrap());
    values.fold((0, 0), |(count, sum), value| (count + 1, sum + value))
}

#[test]
fn what_austin_records_is_read() {
    for (name, kind, each) in [("wall", "wall", 1000), ("memory", "space", 1)] {
        let profile = check(&format!("mojo/{name}.mojo"), NAME).profile;
        let (count, sum) = oracle(&format!("mojo/{name}.austin"));
        assert_eq!((profile.total(0), profile.total(1)), (count, sum * each), "{name}");
        assert_eq!(profile.sample_type(1).0, kind);
    }
}

#[test]
fn each_version_has_its_own_samples_and_frames() {
    let frames_of_first: Vec<u8> = event(3, &[900, 70, 71, 7], "");
    let texts = &frames()[..4];
    let rest = [event(5, &[900], ""), event(9, &[5], "")].concat();
    let first =
        recording(1, "wall", &[vec![event(2, &[1], "7")], texts.to_vec(), vec![frames_of_first, rest]].concat());
    assert_eq!(lines(&first), ["main [1, 5000] 2"]);
    let third = recording(
        3,
        "cpu",
        &[vec![event(2, &[1, 2], "7")], frames(), vec![event(5, &[900], ""), event(9, &[-5], "")]].concat(),
    );
    assert_eq!(lines(&third), ["main [1, -5000] 3"]);
    let fifth = recording(5, "cpu", &[]);
    assert_eq!(error(&fifth), "mojo: offset 3: version 5; 1 to 4 are read");
}

#[test]
fn samples_repeat_their_callers_and_tasks_are_left_out() {
    let reference = |number: i64| event(5, &[number], "");
    let start = || event(2, &[1, 0], "7");
    let events = [
        vec![start()],
        frames(),
        vec![reference(900), reference(901), event(9, &[5], "")],
        // The native frame on top is replaced.
        vec![start(), event(6, &[], "sys_read"), event(13, &[], ""), event(9, &[6], "")],
        vec![
            start(),
            event(14, &[3, 70, 2], ""),
            reference(901),
            reference(901),
            event(15, &[3, 4], ""),
            event(16, &[3], ""),
        ],
        vec![reference(900), event(7, &[], ""), event(9, &[7], "")],
        // Another thread has no sample to repeat.
        vec![event(2, &[1, 0], "8"), event(13, &[], ""), event(4, &[], ""), event(9, &[8], "")],
    ];
    let bytes = recording(4, "wall", &events.concat());
    assert_eq!(
        lines(&bytes),
        ["main;work [1, 5000] 2", "main;sys_read [1, 6000] 2", "main;GC [1, 7000] 2", "INVALID [1, 8000] 2"]
    );
    let full =
        [vec![start()], frames(), vec![reference(900), event(8, &[], ""), event(9, &[5], ""), event(10, &[-64], "")]];
    assert_eq!(lines(&recording(4, "full", &full.concat())), ["main [1, 5000, 0, -64] 2"]);
}

#[test]
fn a_recording_that_was_cut_off_has_the_samples_before() {
    let bytes = bytes("mojo/wall.mojo");
    let whole = decoded(&bytes).profile.total(0);
    let cut = decoded(&bytes[..bytes.len() / 2 + 1]);
    assert!((1..whole).contains(&cut.profile.total(0)), "{}", cut.profile.total(0));
    let wrong = [
        (event(5, &[1], ""), "before the first sample"),
        ([event(2, &[1, 0], "7"), event(5, &[1], "")].concat(), "the frame 1, which does not exist"),
        ([event(2, &[1, 0], "7"), event(3, &[1, 9, 9, 1, 1, 1, 1], "")].concat(), "the text 9, which does not exist"),
        (vec![17], "an event of the unknown kind 17"),
        ([event(2, &[1, 0], "7"), vec![9], vec![0xff; 12]].concat(), "a number of more than 63 bits"),
        (event(2, &[1, 0], "")[..2].to_vec(), "input ends inside an event"),
    ];
    for (events, expected) in wrong {
        let message = error(&recording(4, "wall", &[events]));
        assert!(message.contains(expected), "{message}");
    }
    let [largest, negative] = [i64::MAX, -i64::MAX].map(|value| {
        let events = [event(2, &[1, 0], "7"), event(10, &[value], "")];
        decoded(&recording(3, "memory", &events)).profile.total(1)
    });
    assert_eq!((largest, negative), (i64::MAX, -i64::MAX));
}
