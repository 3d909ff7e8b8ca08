use super::*;
use crate::LabelValue;
use crate::format::fixtures::{check, decoded};

fn names(profile: &Profile, sample: usize) -> Vec<&str> {
    profile
        .sample(sample)
        .stack
        .iter()
        .map(|id| profile.string(profile.function(profile.lines(*id)[0].function).name))
        .collect()
}

#[test]
fn what_go_prints_is_read() {
    let profile = check("goroutines/work.txt", NAME).profile;
    assert_eq!((profile.sample_type(0), profile.total(0)), (("goroutine", "count"), 6));
    let waiting = (0..profile.sample_count()).find(|index| names(&profile, *index) == ["main.wait"]).unwrap();
    assert_eq!(profile.sample(waiting).values, [3]);
    assert!((0..profile.sample_count()).any(|index| names(&profile, index).contains(&"internal/sync.(*Mutex).Lock")));
    let line = profile.lines(profile.sample(waiting).stack[0])[0];
    assert_eq!((profile.string(profile.function(line.function).filename), line.line), ("goroutines/main.go", 10));
}

#[test]
fn crashes_are_read() {
    let text = "panic: it broke\n\ngoroutine 1 gp=0x1 m=0 mp=0x2 [select (no cases), 12 minutes, locked to thread]:\nmain.(*T).f(0x1?, {0x2, 0x3})\n\
        \t/src/main.go:7 +0x5 fp=0x1 sp=0x2 pc=0x3\n...12 frames elided...\nmain.main(...)\n\t/src/a b.go:9\nexit status 2\n";
    let decoded = decoded(text.as_bytes());
    let profile = &decoded.profile;
    assert_eq!((decoded.format, names(profile, 0)), (NAME, vec!["main.(*T).f", "12 frames elided", "main.main"]));
    let labels = profile.sample(0).labels;
    assert!(labels.iter().any(|label| matches!(label.value, LabelValue::Number(12, _))));
    assert_eq!(
        decoded.warnings,
        ["goroutines: line 9: passed over 1 line not understood, the first \"exit status 2\""]
    );
}

#[test]
fn labels_of_goroutines_are_kept() {
    let text = "goroutine 7 [select (leaked)] {tenant: \"a\"}:\nmain.f()\n\t/m.go:7 +0x5\n\ngoroutine 8 [running]:\nmain.g()\n\t/m.go:8 +0x5\n";
    let profile = decoded(text.as_bytes()).profile;
    let texts = |index| {
        let labels = profile.sample(index).labels.iter().filter_map(|label| match label.value {
            LabelValue::Text(value) => Some((profile.string(label.key), profile.string(value))),
            LabelValue::Number(..) => None,
        });
        labels.collect::<Vec<_>>()
    };
    assert_eq!((names(&profile, 0), names(&profile, 1)), (vec!["main.f"], vec!["main.g"]));
    assert_eq!(texts(0), [("state", "select"), ("leaked", "true"), ("tenant", "a")]);
    assert_eq!(texts(1), [("state", "running")]);
}

#[test]
fn other_texts_are_not_claimed() {
    for (text, expected) in [
        ("goroutine 1 [running]:\n", Detect::Yes),
        ("goroutine 1 [run", Detect::NeedMore),
        ("panic: x\n", Detect::NeedMore),
        ("", Detect::NeedMore),
        ("goroutine profile: total 7\n", Detect::No),
        ("goroutines are light\n", Detect::No),
        ("panicked\n", Detect::No),
    ] {
        assert_eq!(detect(text.as_bytes()), expected, "{text:?}");
    }
}
