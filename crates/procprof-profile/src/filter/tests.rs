use std::borrow::Cow;

use super::*;
use crate::{Function, Line, Location, Mapping, ProfileBuilder};

/// Stacks are written root first, `;` between frames, `>` between a frame and what is inlined into it, then `=` and
/// labels.
fn profile(stacks: &[&str]) -> Profile {
    let mut builder = ProfileBuilder::new(&[("samples", "count")]);
    let filename = builder.intern("/usr/lib/libdemo.so");
    let mapping = builder.mapping(Mapping { filename, ..Mapping::default() });
    for stack in stacks {
        let (stack, labels) = stack.split_once('=').unwrap_or((stack, ""));
        let mut frames = Vec::new();
        for frame in stack.split(';').filter(|frame| !frame.is_empty()).rev() {
            let mut lines = Vec::new();
            for name in frame.split('>').rev() {
                let name = builder.intern(name);
                let function = builder.function(Function { name, ..Function::default() });
                lines.push(Line { function, ..Line::default() });
            }
            let mapping = frame.starts_with("lib_").then_some(mapping);
            frames.push(builder.location(Location { mapping, ..Location::default() }, &lines));
        }
        let mut kept = Vec::new();
        for label in labels.split(' ').filter(|label| !label.is_empty()) {
            let (key, value) = label.split_once(':').unwrap();
            kept.push(match value.parse() {
                Ok(number) => builder.number_label(key, number, ""),
                Err(_) => builder.text_label(key, value),
            });
        }
        builder.sample(&frames, &[1], &kept);
    }
    builder.finish().unwrap()
}

fn written(profile: &Profile) -> Vec<String> {
    let frame = |id: &crate::LocationId| {
        let names = profile.lines(*id).iter().rev().map(|line| profile.string(profile.function(line.function).name));
        names.collect::<Vec<_>>().join(">")
    };
    profile.samples().map(|sample| sample.stack.iter().rev().map(frame).collect::<Vec<_>>().join(";")).collect()
}

fn check(change: impl Fn(&mut FilterOptions), stacks: &[&str], expected: &[&str]) -> Matches {
    let mut options = FilterOptions::default();
    change(&mut options);
    let (filtered, matches) = Filter::parse(&options).unwrap().apply(profile(stacks)).unwrap();
    assert_eq!(written(&filtered), expected, "{options:?}");
    matches
}

#[test]
fn samples_are_kept_and_dropped_by_name() {
    let stacks = &["main;a;b", "main;c", "main;lib_x;b", ""];
    assert_eq!(check(|o| o.focus = "^b$".into(), stacks, &["main;a;b", "main;lib_x;b"]).focus, Some(2));
    assert_eq!(check(|o| o.ignore = "^b$".into(), stacks, &["main;c"]).ignore, Some(2));
    check(|o| (o.focus, o.ignore) = ("b".into(), "a$".into()), stacks, &["main;lib_x;b"]);
    assert_eq!(check(|o| o.focus = "libdemo".into(), stacks, &["main;lib_x;b"]).focus, Some(1));
    assert_eq!(check(|o| o.focus = "nothing".into(), stacks, &[]).focus, Some(0));
    assert_eq!(check(|_| {}, stacks, &["main;a;b", "main;c", "main;lib_x;b", ""]), Matches::default());
}

#[test]
fn frames_are_hidden_and_shown_by_name() {
    let stacks = &["main;a;b", "main;c>inlined;b", "main;lib_x>y;b"];
    assert_eq!(check(|o| o.hide = "^b$".into(), stacks, &["main;a", "main;c>inlined", "main;lib_x>y"]).hide, Some(3));
    check(|o| o.hide = "inlined".into(), stacks, &["main;a;b", "main;c;b", "main;lib_x>y;b"]);
    check(|o| o.hide = "libdemo".into(), stacks, &["main;a;b", "main;c>inlined;b", "main;b"]);
    check(|o| o.show = "^[cy]$".into(), stacks, &["c", "y"]);
    check(|o| o.show = "libdemo".into(), stacks, &["lib_x>y"]);
    check(|o| (o.hide, o.show) = ("^c$".into(), "main|c|inlined".into()), stacks, &["main", "main;inlined", "main"]);
}

#[test]
fn callers_are_cut_by_show_from_and_callees_by_prune_from() {
    let stacks = &["a;b;c;b", "a;x>b>y;z", "q"];
    assert_eq!(check(|o| o.show_from = "b".into(), stacks, &["b;c;b", "b>y;z"]).show_from, Some(2));
    check(|o| o.show_from = "c".into(), stacks, &["c;b"]);
    assert_eq!(check(|o| o.prune_from = "^b$".into(), stacks, &["a;b;c;b", "a;x>b", "q"]).prune_from, Some(2));
    check(|o| o.prune_from = "^a$".into(), stacks, &["a", "a", "q"]);
}

#[test]
fn samples_are_kept_and_dropped_by_label() {
    let stacks = &["a=thread:main bytes:4096", "b=thread:pool bytes:65536", "c=kind:main", "d"];
    assert_eq!(check(|o| o.tagfocus = "main".into(), stacks, &["a", "c"]).tagfocus, Some(2));
    check(|o| o.tagfocus = "thread=main".into(), stacks, &["a"]);
    check(|o| o.tagfocus = "thread:,pool".into(), stacks, &["b"]);
    check(|o| o.tagfocus = "thread=main,pool".into(), stacks, &["a", "b"]);
    check(|o| o.tagignore = "thread".into(), stacks, &["c", "d"]);
    check(|o| o.tagfocus = "4kb".into(), stacks, &["a"]);
    check(|o| o.tagfocus = "8kb:".into(), stacks, &["b"]);
    check(|o| o.tagfocus = ":4096b".into(), stacks, &["a"]);
    check(|o| o.tagfocus = "bytes=1kb:1mb".into(), stacks, &["a", "b"]);
    check(|o| o.tagfocus = "other=1kb:1mb".into(), stacks, &[]);
}

#[test]
fn labels_are_kept_and_dropped_by_key() {
    let options = FilterOptions { tagshow: "thread|bytes".into(), taghide: "bytes".into(), ..FilterOptions::default() };
    let (filtered, matches) =
        Filter::parse(&options).unwrap().apply(profile(&["a=thread:x bytes:1 k:v", "b=k:v"])).unwrap();
    let keys: Vec<_> =
        filtered.samples().flat_map(|sample| sample.labels).map(|label| filtered.string(label.key)).collect();
    assert_eq!(keys, ["thread"]);
    assert_eq!((matches.tagshow, matches.taghide), (Some(2), Some(1)));
    assert!(!filtered.parts().strings.iter().any(|text| text == "bytes"), "what is not needed is gone");
}

#[test]
fn frames_the_profile_calls_uninteresting_are_cut() {
    let stacks = [
        "main;malloc(int);inner",
        "main;keep_malloc;x",
        "malloc;b>malloc;y",
        "main;b>malloc;y",
        "main;operator()(int)",
    ];
    let mut parts = profile(&stacks).into_parts();
    parts.drop_frames = parts.intern("malloc|keep_malloc|operator\\(\\)").unwrap();
    parts.keep_frames = parts.intern("keep_.*").unwrap();
    let whole = parts.finish().unwrap();
    let (kept, samples) =
        remove_uninteresting(Cow::Borrowed(&whole), &Uninteresting::from_profile(&whole).unwrap().unwrap()).unwrap();
    assert_eq!(written(&kept), ["main", "main;keep_malloc;x", "malloc;b;y", "main;b", "main"]);
    assert_eq!(samples, 4);
}

#[test]
fn a_profile_with_nothing_to_cut_is_not_copied() {
    let mut parts = profile(&["main;work", "malloc;inner"]).into_parts();
    parts.drop_frames = parts.intern("malloc|inner").unwrap();
    let whole = parts.finish().unwrap();
    let (kept, samples) =
        remove_uninteresting(Cow::Borrowed(&whole), &Uninteresting::from_profile(&whole).unwrap().unwrap()).unwrap();
    assert!(matches!(kept, Cow::Borrowed(_)) && samples == 0, "a stack of nothing else stays");
    let mut parts = whole.into_parts();
    parts.drop_frames = parts.intern("malloc(").unwrap();
    assert!(Uninteresting::from_profile(&parts.finish().unwrap()).is_err());
}

/// A profile of one sample type, its stacks as in [`profile`] but for frames `jemalloc`, which have no name.
fn with_library(kind: &str, file: &str, stacks: &[&[&str]]) -> Profile {
    let mut builder = ProfileBuilder::new(&[(kind, "bytes")]);
    let filename = builder.intern(file);
    let mapping = builder.mapping(Mapping { filename, ..Mapping::default() });
    let unnamed = builder.address(Some(mapping), crate::Addr(0x1234));
    for stack in stacks {
        let frames: Vec<_> =
            stack.iter().rev().map(|name| if *name == "jemalloc" { unnamed } else { builder.frame(name) }).collect();
        builder.sample(&frames, &[1], &[]);
    }
    builder.finish().unwrap()
}

#[test]
fn unnamed_frames_of_an_allocator_are_cut_at_the_leaf() {
    let stacks: &[&[&str]] = &[&["main", "grow", "jemalloc", "jemalloc"], &["main", "jemalloc", "hook"], &["jemalloc"]];
    let cut = |kind, file| {
        let (profile, samples) = remove_unnamed_allocators(Cow::Owned(with_library(kind, file, stacks))).unwrap();
        (written(&profile), samples)
    };
    let expected = vec!["main;grow".to_owned(), "main;;hook".to_owned(), String::new()];
    assert_eq!(cut("inuse_space", "/usr/lib/libjemalloc.so.2"), (expected.clone(), 1));
    assert_eq!(cut("space", "libtcmalloc_minimal.so.4"), (expected, 1));
    for (kind, file) in [
        ("cpu", "/usr/lib/libjemalloc.so.2"),
        ("space", "/usr/lib/libc.so.6"),
        ("space", "/opt/libjemalloc-tools/serve"),
    ] {
        assert_eq!(cut(kind, file).1, 0, "{kind} {file}");
    }
}

#[test]
fn what_cannot_be_read_is_named() {
    let error = |tagfocus: &str, focus: &str| {
        let options = FilterOptions { tagfocus: tagfocus.into(), focus: focus.into(), ..FilterOptions::default() };
        Filter::parse(&options).unwrap_err().to_string()
    };
    assert_eq!(error("", "a("), "argument \"a(\": error: unclosed group");
    assert_eq!(error("99999999999999999999kb", ""), "argument \"99999999999999999999kb\": a number past 64 bits");
    assert!(error("", "(a{1000}){1000}").contains("a regular expression past"));
    assert!(error("", &"a".repeat(LONGEST + 1)).ends_with("longer than 16384 bytes"));
}
