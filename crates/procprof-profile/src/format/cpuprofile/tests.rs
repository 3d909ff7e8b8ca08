use super::*;
use crate::format::fixtures::{bytes, check, complaint, decoded, error};
use crate::format::json::DEPTH_MAX;

/// What functions of that name used themselves.
fn flat(profile: &Profile, name: &str, index: usize) -> i64 {
    let is_it = |id: &crate::LocationId| profile.string(profile.function(profile.lines(*id)[0].function).name) == name;
    profile.samples().filter(|sample| sample.stack.first().is_some_and(is_it)).map(|sample| sample.values[index]).sum()
}

#[test]
fn a_profile_of_node_is_read() {
    let profile = check("cpuprofile/node.cpuprofile", NAME).profile;
    assert_eq!(profile.total(0), 47);
    assert_eq!(profile.total(1), 349_590_000);
    assert!(flat(&profile, "inner", 1) > profile.total(1) / 2);
}

#[test]
fn a_sample_stands_for_the_time_until_the_next() {
    let frame = |name: &str| {
        format!(
            r#""callFrame":{{"functionName":"{name}","scriptId":"1","url":"file:///w.js","lineNumber":4,"columnNumber":0}}"#
        )
    };
    let text = format!(
        r#"{{"nodes":[{{"id":1,"callFrame":{{"functionName":"(root)","url":""}},"children":[2,3]}},{{"id":2,{},"hitCount":2}},{{"id":3,{}}}],
        "startTime":1000,"endTime":1100,"samples":[2,3,2],"timeDeltas":[10,20,30]}}"#,
        frame("a"),
        frame("")
    );
    let profile = decoded(text.as_bytes()).profile;
    assert_eq!((flat(&profile, "a", 0), flat(&profile, "a", 1)), (2, 60_000));
    assert_eq!((flat(&profile, "(anonymous)", 0), flat(&profile, "(anonymous)", 1)), (1, 30_000));
    let function = profile.function(profile.lines(profile.sample(0).stack[0])[0].function);
    assert_eq!((profile.string(function.filename), function.start_line), ("/w.js", 5));
    let without = text.replace(r#","samples":[2,3,2],"timeDeltas":[10,20,30]"#, "");
    let profile = decoded(without.as_bytes()).profile;
    assert_eq!((profile.total(0), profile.total(1)), (2, 100_000));
}

#[test]
fn a_clock_that_goes_back_gives_no_negative_time() {
    let text = r#"{"nodes":[{"id":1,"callFrame":{"functionName":"a"}},{"id":2,"callFrame":{"functionName":"b"}}],
        "samples":[1,2,1],"timeDeltas":[0,100,-50],"startTime":1000,"endTime":1200}"#;
    let profile = decoded(text.as_bytes()).profile;
    assert_eq!((flat(&profile, "a", 0), flat(&profile, "b", 0)), (2, 1));
    // In order of time: `a` at 0 and 50, `b` from 100 to the end at 200.
    assert_eq!((flat(&profile, "a", 1), flat(&profile, "b", 1)), (100_000, 100_000));
    // A sample that is left out keeps its time.
    let profile = decoded(text.replace("[1,2,1]", "[1,2,9]").as_bytes()).profile;
    assert_eq!((flat(&profile, "a", 1), flat(&profile, "b", 1)), (50_000, 100_000));
}

/// Written by hand after the protocol of that time: a tree, seconds, and the time of each sample.
const NESTED: &str = r#"{"typeId":"CPU","uid":"1","title":"w","head":{"functionName":"(root)","scriptId":"0","url":"",
    "lineNumber":0,"columnNumber":0,"hitCount":0,"callUID":1,"children":[{"functionName":"hot","scriptId":"30",
    "url":"file:///w.js","lineNumber":5,"columnNumber":11,"hitCount":2,"children":[{"functionName":"","url":"",
    "lineNumber":7,"columnNumber":1,"hitCount":1,"children":[],"id":3}],"deoptReason":"","id":2,
    "positionTicks":[{"line":6,"ticks":2}]}],"id":1},"startTime":10.5,"endTime":10.6,"samples":[2,3,2],
    "timestamps":[10500010,10500030,10500060]}"#;

#[test]
fn nodes_within_each_other_are_read() {
    let profile = decoded(NESTED.as_bytes()).profile;
    assert_eq!((profile.total(0), profile.total(1), profile.duration().0), (3, 99_990_000, 100_000_000));
    assert_eq!((flat(&profile, "hot", 0), flat(&profile, "(anonymous)", 1)), (2, 30_000));
    let place = profile.lines(*profile.sample(0).stack.last().unwrap())[0];
    assert_eq!((place.line, place.column, profile.string(profile.function(place.function).filename)), (5, 11, "/w.js"));
    let without = NESTED.replace("\"timestamps\"", "\"others\"");
    let profile = decoded(without.as_bytes()).profile;
    assert_eq!((profile.total(0), flat(&profile, "(anonymous)", 0)), (3, 1), "by hits");
    let mut warnings = Vec::new();
    let flat = NESTED.replace("\"head\"", "\"nodes\"");
    let refused = decode(flat.as_bytes(), &Limits::default(), &mut warnings).unwrap_err().to_string();
    assert!(refused.contains("expected an array"), "{refused}");
    for (text, expected) in [
        (NESTED.replace("\"id\":3", "\"id\":2"), "a second node 2"),
        (NESTED.replace(",\"id\":3", ""), "a node without \"id\""),
    ] {
        let complaint = complaint(text.as_bytes());
        assert!(complaint.contains("left out 2 records") && complaint.contains(expected), "{complaint}");
    }
    let fewer = complaint(NESTED.replace("10500010,", "").as_bytes());
    assert!(fewer.contains("left out 1 record that cannot be read"), "{fewer}");
    crate::format::fixtures::check_hostile(NESTED.as_bytes());
    let deep = format!("{{\"head\":{}", r#"{"functionName":"a","children":["#.repeat(DEPTH_MAX));
    assert!(error(deep.as_bytes()).contains("the nesting"), "{}", error(deep.as_bytes()));
}

#[test]
fn what_is_wrong_is_an_error_with_its_place() {
    let text = |samples: &str, children: &str| {
        format!(
            r#"{{"nodes":[{{"id":1,"callFrame":{{"functionName":"a"}},"children":[{children}]}}],"samples":[{samples}],"timeDeltas":[1]}}"#
        )
    };
    for (text, expected) in [
        (text("2", ""), "a sample of the node 2, which does not exist"),
        (text("1,1", ""), "left out 1 record that cannot be read, the first: offset 80: a sample without a time"),
        (text("", ""), "a time without a sample"),
        (text("1", "1"), "each other's parents"),
    ] {
        let complaint = complaint(text.as_bytes());
        assert!(complaint.contains(expected), "{complaint}");
    }
}

#[test]
fn what_is_encoded_is_decoded() {
    for name in ["cpuprofile/node.cpuprofile", "perf-script/stacks.txt", "collapsed/work.txt", "speedscope/py-spy.json"]
    {
        let profile = decoded(&bytes(name)).profile;
        let again = decoded(&encode(&profile).unwrap());
        assert_eq!(again.format, NAME);
        let index = profile.default_sample_type();
        // A unit of something else is a microsecond; times are whole microseconds.
        let is_time = profile.sample_type(index).1 == "nanoseconds";
        let expected = if is_time { (profile.total(index) + 500) / 1000 * 1000 } else { profile.total(index) * 1000 };
        assert_eq!(again.profile.total(1), expected, "{name}");
        assert_eq!(
            again.profile.samples().filter(|sample| sample.values[0] > 0).map(|sample| sample.stack.len()).max(),
            profile.samples().map(|sample| sample.stack.len()).max(),
            "{name}"
        );
    }
}
