use super::*;
use crate::LocationId;
use crate::format::fixtures::{check, complaint, decoded};

/// The costs of a function itself, and with all below, of one event.
fn costs(profile: &Profile, name: &str, event: usize) -> (i64, i64) {
    let is_it = |id: &LocationId| profile.string(profile.function(profile.lines(*id)[0].function).name) == name;
    let sum = |wanted: &dyn Fn(&[LocationId]) -> bool| {
        profile.samples().filter(|sample| wanted(sample.stack)).map(|sample| sample.values[event]).sum()
    };
    (sum(&|stack| stack.first().is_some_and(is_it)), sum(&|stack| stack.iter().any(is_it)))
}

#[test]
fn the_numbers_are_those_of_callgrind_annotate() {
    let profile = check("callgrind/calls.out", NAME).profile;
    assert_eq!((profile.sample_type(0), profile.total(0)), (("Ir", "count"), 16_009_576));
    assert_eq!(costs(&profile, "hot", 0), (11_200_010, 11_200_010));
    assert_eq!(costs(&profile, "cold", 0), (4_800_010, 4_800_010));
    // `callgrind_annotate --inclusive=yes`: all of it, but for what calls of less than a millionth use.
    assert!((16_009_500..=16_009_576).contains(&costs(&profile, "main", 0).1), "{:?}", costs(&profile, "main", 0));
}

const GRAPH: &str = "events: Ir Dr\nfl=(1) a.c\nfn=(1) main\n1 10 1\ncfn=(2) left\ncalls=1 5\n2 300 30\ncfn=(3) right\ncalls=1 6\n+1 100 10\n\n\
    fn=(2)\n5 0\ncfn=(4) shared\ncalls=3 7\n* 300 30\n\nfn=(3)\n6 0\ncfn=(4)\ncalls=1 7\n6 100 10\n\nfn=(4)\n7 399 40\njcnd=1/2 8\n7\n8 1 0\n";

#[test]
fn costs_are_divided_among_callers() {
    let profile = decoded(GRAPH.as_bytes()).profile;
    assert_eq!((profile.total(0), profile.total(1)), (410, 41));
    assert_eq!(costs(&profile, "main", 0), (10, 410));
    assert_eq!((costs(&profile, "left", 0), costs(&profile, "right", 0)), ((0, 300), (0, 100)));
    assert_eq!((costs(&profile, "shared", 0), costs(&profile, "shared", 1)), ((400, 400), (40, 40)));
}

/// Names and units, and totals.
fn totals(text: &str) -> Vec<((String, String), i64)> {
    let profile = decoded(text.as_bytes()).profile;
    let kind = |index: usize| profile.sample_type(index);
    let owned = |(name, unit): (&str, &str)| (name.to_owned(), unit.to_owned());
    (0..profile.sample_types().len()).map(|index| (owned(kind(index)), profile.total(index))).collect()
}

fn total(name: &str, unit: &str, total: i64) -> ((String, String), i64) {
    ((name.to_owned(), unit.to_owned()), total)
}

#[test]
fn events_have_the_units_that_the_file_states() {
    let xdebug = "events: Time_(10ns) Memory_(bytes)\nfl=(1) a.php\nfn=(1) leaf\n2 7 32\n";
    assert_eq!(totals(xdebug), [total("Time", "nanoseconds", 70), total("Memory", "bytes", 32)]);
    // Costs of calls have the unit, too: one stack holds all of it.
    let called = "events: Time_(10ns)\nfn=(1) leaf\n2 7\nfn=(2) main\n1 3\ncfn=(1)\ncalls=1 0\n1 7\n";
    let profile = decoded(called.as_bytes()).profile;
    assert_eq!((costs(&profile, "main", 0), costs(&profile, "leaf", 0)), ((30, 100), (70, 70)));
    let callgrind = "event: sysTime : sysTime (elapsed us)\nevents: Ir sysTime\nfn=main\n1 5 3\n";
    assert_eq!(totals(callgrind), [total("Ir", "count", 5), total("sysTime", "nanoseconds", 3_000)]);
}

#[test]
fn a_callee_without_a_file_is_in_the_current_one() {
    let text = "events: Ir\nfl=(1) main.c\nfn=(1) main\n1 5\nfi=(2) inl.h\ncfn=(2) helper\ncalls=1 3\n2 40\nfe=(1)\n\
        cfi=(3) other.c\ncfn=(3) other\ncalls=1 5\n1 60\nfl=(2)\nfn=(2)\n3 40\nfl=(3)\nfn=(3)\n5 60\n";
    let profile = decoded(text.as_bytes()).profile;
    assert_eq!(costs(&profile, "main", 0), (5, 105));
    assert!(profile.samples().all(|sample| sample.stack.len() == 2 || sample.values[0] == 5));
}

#[test]
fn lines_of_jumps_name_numbers() {
    let text = "events: Ir\nfl=(1) a.c\nfn=(1) main\njfi=(2) inl.h\njfn=(2) next\njump=4 +1\n\
        fi=(2)\n1 7\njcnd=1/2 3\n2\n3 1\ncfn=(2)\ncalls=1 1\n1 9\nfn=(2)\n1 9\n";
    let profile = decoded(text.as_bytes()).profile;
    assert_eq!((costs(&profile, "main", 0), costs(&profile, "next", 0)), ((8, 17), (9, 9)));
}

#[test]
fn all_events_of_callgrind_are_read() {
    let names: Vec<String> = (0..EVENTS_MAX).map(|index| format!("E{index}")).collect();
    let text = format!("events: {}\nfn=main\n1 1 2\n", names.join(" "));
    let profile = decoded(text.as_bytes()).profile;
    assert_eq!((profile.total(0), profile.total(1), profile.sample_types().len()), (1, 2, EVENTS_MAX));
    let error = complaint(text.replace("E0", "E0 more").as_bytes());
    assert!(error.contains("the number of events passes the limit of 64"), "{error}");
}

#[test]
fn calls_in_a_circle_end() {
    let text =
        "events: Ir\nfn=a\n1 5\ncfn=b\ncalls=1 1\n1 50\nfn=b\n1 45\ncfn=a\ncalls=1 1\n1 40\ncfn=b\ncalls=1 1\n1 9\n";
    let profile = decoded(text.as_bytes()).profile;
    assert_eq!(profile.total(0), 50);
    assert_eq!((costs(&profile, "a", 0).0, costs(&profile, "b", 0).0), (5, 45));
}

#[test]
fn what_is_wrong_is_an_error_with_its_line() {
    for (text, expected) in [
        ("events: Ir\nfn=(7)\n1 2\n", "line 2: numbers without a name are used 1 times, the first (7)"),
        ("events: Ir\n1 2\n", "line 2: expected \"fn=\" before costs"),
        ("events: Ir\nfn=a\n1 2 3\n", "line 3: expected positions and as many costs as events"),
        ("events: Ir\nfn=a\ncalls=1 2\n", "line 3: expected \"cfn=\" before \"calls=\""),
        ("events: Ir\nnonsense\n", "line 2: expected costs, a name, or a line of the header"),
    ] {
        let complaint = complaint(text.as_bytes());
        assert!(complaint.contains(expected), "{complaint}");
    }
}
