use super::*;
use crate::format::Detect;

fn json(text: &str) -> Json<'_> {
    Json::new("test", text.as_bytes())
}

#[test]
fn values_are_read() {
    let mut read = Vec::new();
    let text = "\u{feff} {\"a\" : [1, -2.5, 1e3, []], \"b\\u0041\": {\"c\": \"d\\\"\\n\\ud83d\\ude00\\u00e9\"}, \"e\": null, \"f\": true } ";
    let mut whole = json(text);
    let object = whole.object(|json, key| {
        match key {
            "a" => json.array(|json| {
                match json.kind()? {
                    Kind::Number => read.push(json.number()?.to_string()),
                    _ => json.skip()?,
                }
                Ok(())
            })?,
            "bA" => {
                let [c] = json.fields(["c"])?;
                read.push(c.unwrap().text()?.into_owned());
            }
            "e" => assert_eq!(json.index()?, None),
            other => {
                read.push(other.to_owned());
                json.skip()?;
            }
        }
        Ok(())
    });
    object.unwrap();
    let mut warnings = Vec::new();
    whole.end(&mut warnings);
    assert_eq!(warnings, [""; 0]);
    assert_eq!(read, ["1", "-2.5", "1000", "d\"\n😀é", "f"]);
}

#[test]
fn whole_numbers_are_exact() {
    let cases = [
        ("9223372036854775807", Some(i64::MAX)),
        ("-3", Some(-3)),
        ("2.5e3", Some(2500)),
        ("1.6", Some(2)),
        ("1e40", None),
        ("--1", None),
    ];
    for (text, expected) in cases {
        assert_eq!(json(text).integer().ok(), expected, "{text}");
    }
}

#[test]
fn what_is_wrong_is_told_with_its_place() {
    let cases = [
        ("", "test: offset 0: input ends inside a value"),
        ("[1, 2", "test: offset 5: input ends inside \",\" or the end of an object or array"),
        ("{\"a\" 1}", "test: offset 5: expected \":\", found \"1}\""),
        ("{a: 1}", "test: offset 1: expected a key, found \"a: 1}\""),
        ("[1 2]", "test: offset 3: expected \",\" or the end of an object or array, found \"2]\""),
        ("[1}", "test: offset 2: expected \",\" or the end of an object or array, found \"}\""),
        ("\"abc", "test: offset 1: input ends inside a string"),
        ("\"a\\x\"", "test: offset 1: an unknown escape 'x' in a string"),
        ("\"\\u12\"", "test: offset 1: an escape \\u without four hexadecimal digits"),
        ("nil", "test: offset 0: expected true, false or null, found \"nil\""),
        ("1-2", "test: offset 0: \"1-2\" is no number"),
    ];
    for (text, expected) in cases {
        assert_eq!(json(text).skip().unwrap_err().to_string(), expected, "{text}");
    }
}

#[test]
fn nesting_is_bounded() {
    let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
    assert!(json(&nested(DEPTH_MAX + 1)).skip().is_ok());
    assert!(matches!(json(&nested(DEPTH_MAX + 2)).skip(), Err(Error::TooLarge { .. })));
    assert!(json(&"{\"a\":".repeat(100_000)).skip().is_err());
}

#[test]
fn an_object_is_known_by_its_keys() {
    for (text, expected) in [
        ("", Detect::NeedMore),
        ("  {\"a\": 1, \"shared\": {\"frames\": ", Detect::Yes),
        ("{\"a\": [1, 2", Detect::NeedMore),
        ("{\"a", Detect::NeedMore),
        ("{\"a\": [1 2", Detect::No),
        ("{\"profiles\": [7, {\"startValue\": 1}]}", Detect::Yes),
        ("{\"shared\": {\"other\": 1}}", Detect::No),
        ("{\"traceEvents\": [{\"ph\": \"X\"}], \"shared\": {\"frames\": []}}", Detect::No),
        ("[1]", Detect::No),
    ] {
        assert_eq!(detect(text.as_bytes(), Form::Speedscope), expected, "{text:?}");
    }
}
