//! Recordings that are made here byte by byte, and one of a real JVM.

use std::fmt::Write;

use super::super::fixtures;
use super::*;
use crate::format::{decode, decode_events};
use crate::{Addr, LabelValue};

fn number(mut number: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while bytes.len() < 8 && number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
    bytes
}

fn numbers(all: &[u64]) -> Vec<u8> {
    all.iter().flat_map(|one| number(*one)).collect()
}

/// A text in UTF-8, or in UTF-16 if its length is odd.
fn text(text: &str) -> Vec<u8> {
    if text.len() % 2 == 1 {
        let units: Vec<u64> = text.encode_utf16().map(u64::from).collect();
        return [vec![4], number(units.len() as u64), numbers(&units)].concat();
    }
    [vec![3], number(text.len() as u64), text.as_bytes().to_vec()].concat()
}

/// An event with its size in front, which takes one byte or two.
fn event(content: &[u8]) -> Vec<u8> {
    let width = if content.len() < 126 { 1 } else { 2 };
    [number((content.len() + width) as u64), content.to_vec()].concat()
}

/// An element of the metadata: a name, attributes, children.
struct Element(&'static str, Vec<(&'static str, String)>, Vec<Element>);

fn class(id: u64, name: &str, fields: Vec<Element>) -> Element {
    Element("class", vec![("id", id.to_string()), ("name", name.to_owned())], fields)
}

fn field(name: &str, class: u64) -> Element {
    Element("field", vec![("name", name.to_owned()), ("class", class.to_string())], Vec::new())
}

fn constant(name: &str, class: u64) -> Element {
    let Element(kind, mut attributes, children) = field(name, class);
    attributes.push(("constantPool", "true".to_owned()));
    Element(kind, attributes, children)
}

fn array(name: &str, class: u64) -> Element {
    let Element(kind, mut attributes, children) = field(name, class);
    attributes.push(("dimension", "1".to_owned()));
    Element(kind, attributes, children)
}

const LONG: u64 = 1;
const TEXT: u64 = 2;
const BOOL: u64 = 3;
const SYMBOL: u64 = 10;
const CLASS: u64 = 11;
const METHOD: u64 = 12;
const FRAME: u64 = 13;
const STACK: u64 = 14;
const KIND: u64 = 15;
const THREAD: u64 = 16;
const OTHER: u64 = 17;
const SAMPLE: u64 = 100;
const ALLOCATION: u64 = 101;
const PARK: u64 = 102;
const ALLOCATED: u64 = 103;
const NAME_OF_RECORDING: u64 = 104;

fn classes() -> Vec<Element> {
    let sample = |id, name: &str, thread: &str, more: Vec<Element>| {
        let mut fields = vec![field("startTime", LONG), constant(thread, THREAD), constant("stackTrace", STACK)];
        fields.extend(more);
        class(id, name, fields)
    };
    vec![
        class(LONG, "long", vec![]),
        class(TEXT, "java.lang.String", vec![]),
        class(BOOL, "boolean", vec![]),
        class(SYMBOL, "jdk.types.Symbol", vec![field("string", TEXT)]),
        class(CLASS, "java.lang.Class", vec![constant("classLoader", OTHER), constant("name", SYMBOL)]),
        class(
            METHOD,
            "jdk.types.Method",
            vec![constant("type", CLASS), constant("name", SYMBOL), field("hidden", BOOL)],
        ),
        class(
            FRAME,
            "jdk.types.StackFrame",
            vec![constant("method", METHOD), field("lineNumber", LONG), constant("type", KIND)],
        ),
        class(STACK, "jdk.types.StackTrace", vec![field("truncated", BOOL), array("frames", FRAME)]),
        class(KIND, "jdk.types.FrameType", vec![field("description", TEXT)]),
        class(
            THREAD,
            "java.lang.Thread",
            vec![field("osName", TEXT), field("osThreadId", LONG), field("javaName", TEXT)],
        ),
        class(OTHER, "jdk.types.ClassLoader", vec![array("names", TEXT), field("size", LONG)]),
        sample(SAMPLE, "jdk.ExecutionSample", "sampledThread", vec![]),
        sample(
            ALLOCATION,
            "jdk.ObjectAllocationSample",
            "eventThread",
            vec![constant("objectClass", CLASS), field("weight", LONG)],
        ),
        class(
            PARK,
            "jdk.ThreadPark",
            vec![
                field("startTime", LONG),
                field("duration", LONG),
                constant("eventThread", THREAD),
                constant("stackTrace", STACK),
            ],
        ),
        class(
            ALLOCATED,
            "jdk.ThreadAllocationStatistics",
            vec![field("startTime", LONG), field("allocated", LONG), constant("thread", THREAD)],
        ),
        class(
            NAME_OF_RECORDING,
            "jdk.ActiveRecording",
            vec![field("startTime", LONG), field("id", LONG), field("name", TEXT)],
        ),
    ]
}

fn metadata(classes: Vec<Element>) -> Vec<u8> {
    let root = Element("root", vec![], vec![Element("metadata", vec![], classes)]);
    let (mut texts, mut elements) = (Vec::new(), Vec::new());
    push_element(&root, &mut texts, &mut elements);
    let mut content = numbers(&[0, 5, 0, 1, texts.len() as u64]);
    texts.iter().for_each(|one| content.extend(text(one)));
    event(&[content, elements].concat())
}

fn push_element(element: &Element, texts: &mut Vec<String>, bytes: &mut Vec<u8>) {
    let mut id = |text: &str| match texts.iter().position(|known| known == text) {
        Some(id) => id as u64,
        None => {
            texts.push(text.to_owned());
            texts.len() as u64 - 1
        }
    };
    bytes.extend(numbers(&[id(element.0), element.1.len() as u64]));
    for (key, value) in &element.1 {
        bytes.extend(numbers(&[id(key), id(value)]));
    }
    bytes.extend(number(element.2.len() as u64));
    element.2.iter().for_each(|child| push_element(child, texts, bytes));
}

/// Constants: two stacks, `App.run` <- `App.main` and `App.main` alone, of two threads.
fn checkpoint() -> Vec<u8> {
    let symbols = ["App", "run", "main", "[Ljava/lang/String;"];
    let mut content = numbers(&[1, 6, 0, 0]);
    content.push(0);
    content.extend(number(7));
    let mut pool = |class: u64, entries: Vec<Vec<u8>>| {
        content.extend(numbers(&[class, entries.len() as u64]));
        for (index, entry) in entries.into_iter().enumerate() {
            content.extend(number(index as u64 + 1));
            content.extend(entry);
        }
    };
    // Nothing needs it, so it is passed over.
    pool(OTHER, vec![[number(2), text("app"), text("boot"), number(9)].concat()]);
    pool(SYMBOL, symbols.iter().map(|name| text(name)).collect());
    pool(CLASS, vec![numbers(&[1, 1]), numbers(&[1, 4])]);
    pool(METHOD, vec![[numbers(&[1, 2]), vec![0]].concat(), [numbers(&[1, 3]), vec![1]].concat()]);
    let stack = |is_cut: u8, frames: &[[u64; 3]]| {
        [vec![is_cut], number(frames.len() as u64), numbers(frames.as_flattened())].concat()
    };
    pool(STACK, vec![stack(0, &[[1, 7, 1], [2, 300, 1]]), stack(1, &[[2, 301, 1]])]);
    pool(KIND, vec![text("JIT compiled")]);
    pool(THREAD, vec![[vec![0], number(41), text("worker")].concat(), [text("os"), number(42), vec![0]].concat()]);
    event(&content)
}

/// A chunk of that second with these events behind its metadata and constants.
fn chunk(second: i64, events: &[Vec<u8>]) -> Vec<u8> {
    chunk_with(second, &metadata(classes()), events)
}

fn chunk_with(second: i64, metadata: &[u8], events: &[Vec<u8>]) -> Vec<u8> {
    let body = [metadata.to_vec(), checkpoint(), events.concat()].concat();
    let mut bytes = [chunk::MAGIC, &[0, 2, 0, 1]].concat();
    let header =
        [(chunk::HEADER + body.len()) as i64, 0, chunk::HEADER as i64, second * 1_000_000_000, 1_000_000_000, 0, 1_000];
    header.iter().for_each(|field| bytes.extend(field.to_be_bytes()));
    bytes.extend([0, 0, 0, 1]);
    bytes.extend(body);
    bytes
}

fn sample(thread: u64, stack: u64) -> Vec<u8> {
    event(&numbers(&[SAMPLE, 1 << 40, thread, stack]))
}

fn some_events() -> Vec<Vec<u8>> {
    vec![
        sample(1, 1),
        sample(1, 1),
        sample(2, 2),
        // Of a type that is nowhere.
        event(&numbers(&[999, 1, 2, 3])),
        event(&numbers(&[ALLOCATION, 1, 1, 2, 2, 4096])),
        event(&numbers(&[PARK, 1, 25, 2, 1])),
        // Without a stack.
        event(&numbers(&[PARK, 1, 25, 2, 0])),
    ]
}

/// Stacks, leaf first, with values and labels.
fn described(profile: &Profile) -> Vec<String> {
    let samples = profile.samples().map(|sample| {
        let mut line = String::new();
        for id in sample.stack {
            let location = profile.location(*id);
            assert_eq!(location.address, Addr(0));
            let at = &profile.lines(*id)[0];
            let mapping = location.mapping.map_or("", |id| profile.string(profile.mapping(id).filename));
            write!(line, "{}:{}@{mapping} ", profile.string(profile.function(at.function).name), at.line).unwrap();
        }
        write!(line, "{:?}", sample.values).unwrap();
        for label in sample.labels {
            match label.value {
                LabelValue::Text(text) => {
                    write!(line, " {}={}", profile.string(label.key), profile.string(text)).unwrap()
                }
                LabelValue::Number(number, _) => write!(line, " {}={number}", profile.string(label.key)).unwrap(),
            }
        }
        line
    });
    samples.collect()
}

fn events(bytes: &[u8]) -> Vec<(String, Vec<String>)> {
    let all = decode_events(bytes, &Limits::default()).unwrap();
    all.iter().map(|decoded| (decoded.event.clone(), described(&decoded.profile))).collect()
}

#[test]
fn a_recording_is_a_profile_for_each_kind_of_event() {
    let bytes = chunk(1_700_000_000, &some_events());
    let cpu = [
        "App.run:7@[jvm] App.main:300@[jvm] [2, 40000000] thread=worker tid=41",
        "App.main:301@[jvm] [1, 20000000] thread=os tid=42",
    ];
    let alloc = ["java.lang.String[]:0@[jvm] App.main:301@[jvm] [1, 4096] thread=worker tid=41"];
    let lock = [
        "[no stack]:0@ [1, 25000000] wait=wait thread=os tid=42",
        "App.run:7@[jvm] App.main:300@[jvm] [1, 25000000] wait=wait thread=os tid=42",
    ];
    let expected = [("cpu", &cpu[..]), ("alloc", &alloc[..]), ("lock", &lock[..])];
    let expected = expected
        .map(|(name, lines)| (name.to_owned(), lines.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>()));
    assert_eq!(events(&bytes), expected);
    let decoded = decode(&bytes, &Limits::default()).unwrap();
    assert_eq!((decoded.format, described(&decoded.profile)), (NAME, expected[0].1.clone()));
    assert_eq!(decoded.profile.time().0, 1_700_000_000_000_000_000);
    assert_eq!(decoded.profile.meta().truncated, Some(1));
    let lock = decode_events(&bytes, &Limits::default()).unwrap().remove(2).profile;
    assert_eq!(lock.meta().more.get("samples-without-stack").map(String::as_str), Some("1"));
}

const SETTING: u64 = 105;
const METHOD_TRACE: u64 = 106;

/// A chunk whose metadata have these classes, too.
fn chunk_of(more: Vec<Element>, events: &[Vec<u8>]) -> Vec<u8> {
    let mut all = classes();
    all.extend(more);
    chunk_with(1, &metadata(all), events)
}

#[test]
fn the_setting_of_async_profiler_decides_what_its_samples_are_of() {
    let setting =
        |class: u64, name: &str, value: &str| event(&[numbers(&[SETTING, class]), text(name), text(value)].concat());
    let recorded = |version: &str, event: &str, wall: &str| {
        let fields = vec![field("id", LONG), field("name", TEXT), field("value", TEXT)];
        let classes = vec![
            class(SETTING, "jdk.ActiveSetting", fields),
            class(107, "profiler.Log", vec![field("startTime", LONG)]),
        ];
        let own = NAME_OF_RECORDING;
        let settings = [("version", version, own), ("event", event, own), ("interval", "10000000", SAMPLE)];
        let mut all: Vec<_> = settings.iter().map(|(name, value, class)| setting(*class, name, value)).collect();
        all.extend([setting(SAMPLE, "wall", wall), sample(1, 1), sample(1, 1)]);
        let all = decode_events(&chunk_of(classes, &all), &Limits::default()).unwrap();
        assert_eq!(all[0].profile.meta().counts(), None, "async-profiler samples CPU time");
        (all[0].event.clone(), all[0].profile.total(0), all[0].profile.total(1))
    };
    // None of the samples has a state.
    for (version, event, wall, expected) in [
        ("2.9", "cpu", "-1", "cpu"),
        ("2.9", "itimer", "-1", "cpu"),
        ("2.9", "", "-1", "cpu"),
        ("2.9", "wall", "-1", "wall"),
        ("4.1", "cpu", "-1", "cpu"),
        ("4.1", "cpu", "10000000", "wall"),
        ("4.1", "wall", "-1", "wall"),
    ] {
        assert_eq!(recorded(version, event, wall), (expected.to_owned(), 2, 20_000_000), "{version} {event} {wall}");
    }
}

#[test]
fn traced_methods_are_called_by_their_stacks() {
    let fields = |method: Vec<Element>| {
        let all = [field("startTime", LONG), field("duration", LONG), constant("eventThread", THREAD)];
        all.into_iter().chain([constant("stackTrace", STACK)]).chain(method).collect()
    };
    let of_jdk = class(METHOD_TRACE, "jdk.MethodTrace", fields(vec![constant("method", METHOD)]));
    let events_of_jdk = [event(&numbers(&[METHOD_TRACE, 1, 25, 2, 2, 1]))];
    let expected = ["App.run:0@[jvm] App.main:301@[jvm] [1, 25000000] thread=os tid=42".to_owned()];
    assert_eq!(events(&chunk_of(vec![of_jdk], &events_of_jdk)), [("trace".to_owned(), expected.to_vec())]);
    // async-profiler has it in the stack.
    let in_stack = class(METHOD_TRACE, "jdk.MethodTrace", fields(vec![]));
    let events_in_stack = [event(&numbers(&[METHOD_TRACE, 1, 25, 2, 1]))];
    let expected = ["App.run:7@[jvm] App.main:300@[jvm] [1, 25000000] thread=os tid=42".to_owned()];
    assert_eq!(events(&chunk_of(vec![in_stack], &events_in_stack)), [("trace".to_owned(), expected.to_vec())]);
}

const MONITOR: u64 = 108;
const PARK_ON: u64 = 109;

#[test]
fn monitors_are_locks_and_parks_of_async_profiler_too() {
    let fields = |class_field: &str| {
        let all = [field("startTime", LONG), field("duration", LONG), constant("eventThread", THREAD)];
        all.into_iter().chain([constant("stackTrace", STACK), constant(class_field, CLASS)]).collect::<Vec<_>>()
    };
    let of_jdk = || {
        let without_park = classes().into_iter().filter(|class| class.1[1].1 != "jdk.ThreadPark");
        let mut all: Vec<_> = without_park.collect();
        all.push(class(MONITOR, "jdk.JavaMonitorEnter", fields("monitorClass")));
        all.push(class(PARK_ON, "jdk.ThreadPark", fields("parkedClass")));
        all
    };
    let of_async_profiler = || {
        let mut all = of_jdk();
        all.push(class(107, "profiler.Log", vec![field("startTime", LONG)]));
        all
    };
    // The monitor of an `App`, and parks on an `App` and on nothing.
    let waits = [(MONITOR, 1), (PARK_ON, 1), (PARK_ON, 0)];
    let events_of = |classes: Vec<Element>| {
        let waits = waits.map(|(kind, class)| event(&numbers(&[kind, 1, 25, 1, 1, class])));
        events(&chunk_with(1, &metadata(classes), &waits)).remove(0).1
    };
    let stack = "App.run:7@[jvm] App.main:300@[jvm] [1, 25000000]";
    let expected = |[on_class, on_nothing]: [&str; 2]| {
        let worker = "thread=worker tid=41";
        [
            format!("App:0@[jvm] {stack} wait=lock {worker}"),
            format!("{stack} wait={on_nothing} {worker}"),
            format!("App:0@[jvm] {stack} wait={on_class} {worker}"),
        ]
    };
    assert_eq!(events_of(of_jdk()), expected(["wait", "wait"]));
    assert_eq!(events_of(of_async_profiler()), expected(["wait", "lock"]));
}

fn allocation(at: u64, thread: u64, stack: u64, bytes: u64) -> Vec<u8> {
    event(&numbers(&[ALLOCATION, at, thread, stack, 1, bytes]))
}

fn allocated(at: u64, thread: u64, bytes: u64) -> Vec<u8> {
    event(&numbers(&[ALLOCATED, at, bytes, thread]))
}

/// The first chunk of a recording of that name: thread 1 has allocated 9000 bytes, thread 2 has 500.
fn baseline(name: &str) -> Vec<u8> {
    let name = event(&[numbers(&[NAME_OF_RECORDING, 1, 1]), text(name)].concat());
    let before = [allocated(1, 1, 8000), allocated(5, 1, 9000), allocated(5, 2, 500), allocation(4, 1, 1, 9000)];
    chunk(10, &[vec![name], before.to_vec(), vec![sample(1, 1)]].concat())
}

fn allocations(bytes: &[u8]) -> Vec<i64> {
    let all = decode_events(bytes, &Limits::default()).unwrap();
    let profile = &all.iter().find(|decoded| decoded.event == "alloc").unwrap().profile;
    profile.samples().map(|sample| sample.values[1]).collect()
}

#[test]
fn what_was_allocated_before_a_baseline_is_left_out() {
    let ours = baseline("x-procprof-baseline");
    // Later in the file, but sampled earlier: the first sample has all that thread 1 has ever allocated.
    let events = [allocation(12, 1, 1, 300), allocation(11, 1, 2, 9100), allocated(13, 1, 9500)];
    let whole = [ours.clone(), chunk(20, &events)].concat();
    assert_eq!(allocations(&whole), [300, 200], "500 since, 300 of them by the second sample");
    let decoded = decode_events(&whole, &Limits::default()).unwrap();
    assert_eq!(decoded.len(), 1, "nothing else of a baseline is read");
    assert_eq!(decoded[0].profile.duration().0, 1_000_000_000);
    assert_eq!(decoded[0].profile.meta().more["bytes-allocated-before"], "8900");
    // Anywhere else, and of another name, it is a chunk like others.
    let second = [chunk(20, &events), ours].concat();
    assert_eq!(allocations(&second).iter().sum::<i64>(), 18_400);
    let foreign = [baseline("baseline"), chunk(20, &events)].concat();
    assert_eq!(allocations(&foreign).iter().sum::<i64>(), 18_400);
}

#[test]
fn threads_that_continue_begin_or_end_count_what_they_allocate() {
    /// A name, the events of each chunk, and the bytes that are counted.
    type Case<'a> = (&'a str, &'a [&'a [Vec<u8>]], i64);
    let cases: [Case<'_>; 9] = [
        ("sampled before, in a recording of ours", &[&[allocation(30, 1, 1, 70), allocated(31, 1, 9900)]], 70),
        ("not sampled before", &[&[allocation(30, 1, 1, 9900), allocated(31, 1, 9900)]], 900),
        ("sampled by others, 5000 bytes ago", &[&[allocation(30, 1, 1, 5000), allocated(31, 1, 9900)]], 900),
        ("started since", &[&[allocation(30, 3, 1, 7000), allocated(31, 3, 7000), allocated(31, 1, 9900)]], 7000),
        ("ended", &[&[allocated(20, 1, 9100), allocation(30, 1, 1, 9200)]], 200),
        ("virtual, carried by one with a history", &[&[allocation(30, 3, 1, 9100), allocated(31, 1, 9400)]], 400),
        ("virtual, carried by one that was sampled before", &[&[allocation(30, 3, 1, 70), allocated(31, 1, 9900)]], 70),
        (
            "virtual, on two that carry it, one of which is sampled",
            &[&[
                allocation(28, 1, 1, 9300),
                allocation(29, 3, 1, 40),
                allocation(30, 3, 2, 500),
                allocated(31, 1, 9400),
                allocated(31, 2, 540),
            ]],
            // 400 of thread 1, whose samples count them all, and 40 of thread 2.
            440,
        ),
        (
            "over two chunks",
            &[
                &[allocation(30, 1, 1, 9300), allocated(31, 1, 9400)],
                &[allocation(40, 1, 1, 200), allocated(41, 1, 9600)],
            ],
            600,
        ),
    ];
    for (case, chunks, expected) in cases {
        let mut bytes = baseline("x-procprof-baseline");
        chunks.iter().for_each(|events| bytes.extend(chunk(20, events)));
        assert_eq!(allocations(&bytes).iter().sum::<i64>(), expected, "{case}");
    }
}

#[test]
fn chunks_are_added_up_and_gaps_between_them_are_no_time() {
    let bytes = [
        chunk(10, &[sample(1, 1)]),
        chunk(11, &[sample(1, 1), sample(2, 2)]),
        chunk(90, &[sample(1, 1)]),
        chunk(90, &[]),
    ]
    .concat();
    let decoded = decode(&bytes, &Limits::default()).unwrap();
    assert_eq!((decoded.profile.total(0), decoded.profile.sample_count()), (4, 2));
    assert_eq!((decoded.profile.time().0, decoded.profile.duration().0), (10_000_000_000, 3_000_000_000));
    let empty = decode(&chunk(1, &[]), &Limits::default()).unwrap().profile;
    assert_eq!((empty.sample_count(), empty.sample_type(1).0), (0, "cpu"));
}

#[test]
fn whole_chunks_are_kept_wherever_a_recording_ends() {
    let (first, second) = (chunk(10, &some_events()), chunk(11, &some_events()));
    let both = [first.clone(), second].concat();
    for end in 1..both.len() {
        match decode(&both[..end], &Limits::default()) {
            Ok(decoded) if end > first.len() => {
                assert_eq!(decoded.profile.total(0), 3, "{end}");
                assert!(
                    decoded.warnings[0].contains(&format!("offset {}: input ends inside a chunk", first.len())),
                    "{:?}",
                    decoded.warnings
                );
            }
            Ok(decoded) => assert_eq!((end, decoded.profile.total(0)), (first.len(), 3)),
            Err(Error::Truncated { what: "a chunk", .. }) => assert!(end < first.len(), "{end}"),
            Err(Error::Unrecognized { .. }) => assert!(end < 4, "{end}"),
            Err(error) => panic!("{end}: {error}"),
        }
    }
}

#[test]
fn a_broken_chunk_costs_only_itself() {
    let mut broken = chunk(11, &some_events());
    let last = broken.len() - some_events().concat().len();
    broken[last] = 0x7f;
    let error = fixtures::error(&broken);
    assert_eq!(error, format!("jfr: offset {last}: an event of 127 bytes"));
    let decoded = fixtures::decoded(&[chunk(10, &some_events()), broken, chunk(12, &[sample(1, 1)])].concat());
    assert_eq!(
        (decoded.profile.total(0), decoded.warnings[0].contains("an event of 127 bytes; this chunk is left out")),
        (4, true)
    );
    for (place, byte, message) in
        [(5, 1, "offset 4: version 1.1; only 2.x is read"), (67, 0, "offset 64: numbers are not packed")]
    {
        let mut bytes = chunk(1, &[]);
        bytes[place] = byte;
        assert_eq!(fixtures::error(&bytes), format!("jfr: {message}"));
    }
}

#[test]
fn classes_that_hold_themselves_or_ever_more_are_refused() {
    let mut looped = classes();
    looped.push(class(OTHER, "jdk.types.ClassLoader", vec![field("self", OTHER)]));
    let mut wide = classes();
    wide.push(class(OTHER, "jdk.types.ClassLoader", (0..9).map(|_| field("x", 50)).collect()));
    for id in 50..56 {
        wide.push(class(id, "x", (0..9).map(|_| field("x", id + 1)).collect()));
    }
    wide.push(class(56, "x", vec![]));
    for classes in [looped, wide] {
        let error = fixtures::error(&chunk_with(1, &metadata(classes), &[]));
        assert!(error.contains("constants of class 17, which cannot be read"), "{error}");
    }
}

#[test]
fn the_recording_that_the_fuzzer_starts_from_is_that_of_these_tests() {
    let events = [some_events(), vec![allocation(30, 1, 1, 9900), allocated(31, 1, 9900)]].concat();
    let made = [baseline("x-procprof-baseline"), chunk(20, &events)].concat();
    let path = fixtures::path("jfr/made.jfr");
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        std::fs::write(&path, &made).unwrap();
    }
    assert!(std::fs::read(&path).unwrap_or_default() == made, "{}: run with UPDATE_EXPECT=1", path.display());
}

#[test]
fn what_is_cut_or_changed_decodes_or_errs() {
    let bytes = chunk(1, &some_events());
    fixtures::check_hostile(&bytes);
    let bytes = [baseline("x-procprof-baseline"), bytes].concat();
    for at in 0..bytes.len() {
        for bit in 0..8 {
            let mut changed = bytes.clone();
            changed[at] ^= 1 << bit;
            let _ = decode_events(&changed, &Limits::default());
        }
    }
}

#[test]
fn stacks_past_the_limit_are_refused() {
    let limits = Limits { depth: 1, ..Limits::default() };
    let error = decode(&chunk(1, &some_events()), &limits).unwrap_err().to_string();
    assert_eq!(error, "jfr: frames of a stack passes the limit of 1");
}

#[test]
fn many_threads_in_one_deep_stack_are_left_out() {
    let mut content = numbers(&[1, 6, 0, 0]);
    content.push(0);
    content.extend(numbers(&[2, THREAD, 500]));
    (1..=500).for_each(|thread| content.extend([number(thread), vec![0], number(thread), vec![0]].concat()));
    content.extend(numbers(&[STACK, 1, 3, 0, 20_000]));
    content.extend(numbers(&[[1, 7, 1]; 20_000].concat()));
    let size = content.len() + 3;
    let stack = [vec![size as u8 | 0x80, (size >> 7) as u8 | 0x80, (size >> 14) as u8], content].concat();
    let samples: Vec<Vec<u8>> = (1..=500).map(|thread| sample(thread, 3)).collect();
    let decoded = decode(&chunk(1, &[vec![stack], samples].concat()), &Limits::default()).unwrap();
    assert!(decoded.warnings.iter().any(|warning| warning.contains("threads are left out")), "{:?}", decoded.warnings);
    assert_eq!((decoded.profile.sample_count(), decoded.profile.total(0)), (1, 500));
}

#[test]
fn a_recording_of_jdk_17_has_the_methods_threads_and_locks_of_its_program() {
    let all = decode_events(&fixtures::bytes("jfr/work.jfr"), &Limits::default()).unwrap();
    let named = |event: &str| described(&all.iter().find(|decoded| decoded.event == event).unwrap().profile);
    let has = |event: &str, parts: &[&str]| {
        let lines = named(event);
        assert!(
            lines.iter().any(|line| parts.iter().all(|part| line.contains(part))),
            "{event}: {parts:?} in {lines:#?}"
        );
    };
    assert_eq!(all.iter().map(|decoded| decoded.event.as_str()).collect::<Vec<_>>(), ["cpu", "alloc", "lock"]);
    has("cpu", &["java.util.DualPivotQuicksort.", "Work.sort:", "java.lang.Thread.run:", "thread=sorter"]);
    has("alloc", &["byte[]:0@[jvm] Work.allocate:", "thread=allocator"]);
    has("lock", &["java.lang.Object:0@[jvm] Work.holdMonitor:", "wait=lock thread=monitor-"]);
    has(
        "lock",
        &[
            "java.util.concurrent.locks.ReentrantLock$NonfairSync:0@[jvm] jdk.internal.misc.Unsafe.park:",
            "wait=lock thread=lock-",
        ],
    );
    has("lock", &["java.util.concurrent.ThreadPoolExecutor.getTask:", "wait=idle thread=worker"]);
    has("lock", &["java.util.concurrent.FutureTask:0@[jvm]", "Work.waitForWorker:", "wait=wait thread=client"]);
    let kinds = named("lock").iter().filter(|line| !line.contains(" wait=")).count();
    assert_eq!(kinds, 0, "every wait has its kind");
    let cpu = &all[0].profile;
    assert_eq!(cpu.total(1), 20_000_000 * cpu.total(0));
    assert_eq!(cpu.meta().counts(), Some("time of Java code"));
    assert!(cpu.duration().0 > 1_000_000_000 && cpu.meta().instance_version.contains("17."), "{:?}", cpu.meta());
    assert!(all[0].warnings.is_empty(), "{:?}", all[0].warnings);
}
