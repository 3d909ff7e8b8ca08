use super::*;
use crate::format::fixtures::{check, decoded, error};

#[test]
fn a_profile_of_node_is_read() {
    let profile = check("heapprofile/node.heapprofile", NAME).profile;
    assert_eq!(profile.sample_type(0), ("inuse_space", "bytes"));
    assert_eq!(profile.total(0), 1_477_584);
    let has_allocate = profile.functions().iter().any(|function| profile.string(function.name) == "allocate");
    assert!(has_allocate);
}

#[test]
fn children_may_come_before_the_frame() {
    let text = r#"{"head":{"children":[{"selfSize":7,"children":[{"selfSize":5,"callFrame":{"functionName":"b","url":"x"}}],"callFrame":{"functionName":"a"}}],
        "callFrame":{"functionName":"(root)","url":""},"selfSize":0,"other":[1]}}"#;
    let profile = decoded(text.as_bytes()).profile;
    let depths: Vec<_> = profile.samples().map(|sample| (sample.stack.len(), sample.values[0])).collect();
    assert_eq!(depths, [(1, 7), (2, 5)]);
}

#[test]
fn nesting_is_bounded() {
    let deep = |depth: usize| {
        let node = r#"{"callFrame":{"functionName":"f"},"selfSize":0,"children":["#;
        format!(r#"{{"head":{}{}}}"#, node.repeat(depth), "]}".repeat(depth))
    };
    assert_eq!(decoded(deep(4000).as_bytes()).profile.sample_count(), 0);
    let error = error(deep(6000).as_bytes());
    assert!(
        error.contains("heapprofile: the nesting passes the limit of 10000") || error.starts_with("no known"),
        "{error}"
    );
}
