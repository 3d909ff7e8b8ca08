//! The format of a text of JSON, by the keys that it has.
//!
//! Writers and tools such as `jq` order keys as they like, and add their own: no key has to come first. A row of
//! [`SIGNS`] is a key of the outermost object that no other format has in this form.

use super::{Json, Kind};
use crate::format::Detect;
use crate::{Error, Result};

/// A kind of file that is one object of JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::format) enum Form {
    Otlp,
    Speedscope,
    Cpuprofile,
    Heapprofile,
    ChromeTrace,
    Firefox,
    Stackprof,
    Dhat,
    /// V8's heap snapshot, which is no profile.
    HeapSnapshot,
    /// V8's log of ticks after `--prof-process --preprocess`, which is not read.
    V8Log,
    /// GHC's profile, which is not read.
    Ghc,
}

/// The form, the key, and whether its value is of that form.
type Sign = (Form, &'static str, fn(Json<'_>) -> bool);

const SIGNS: &[Sign] = &[
    (Form::Otlp, "dictionary", |value| {
        ["stringTable", "string_table", "stackTable", "locationTable"].iter().any(|key| has_key(value, key))
    }),
    (Form::Otlp, "resourceProfiles", |value| any_has_key(value, "scopeProfiles")),
    (Form::Otlp, "resource_profiles", |value| any_has_key(value, "scope_profiles")),
    (Form::Speedscope, "$schema", |mut value| value.text().is_ok_and(|schema| schema.contains("speedscope"))),
    (Form::Speedscope, "shared", |value| has_key(value, "frames")),
    (Form::Speedscope, "profiles", |value| any_has_key(value, "startValue")),
    (Form::Cpuprofile, "nodes", |value| any_has_key(value, "callFrame")),
    (Form::Cpuprofile, "head", |value| has_key(value, "functionName")),
    (Form::Heapprofile, "head", |value| has_key(value, "callFrame") && has_key(value, "selfSize")),
    (Form::ChromeTrace, "traceEvents", |value| any_has_key(value, "ph")),
    (Form::ChromeTrace, "samples", |value| any_has_key(value, "sf")),
    (Form::Firefox, "meta", |value| {
        has_key(value, "interval") && (has_key(value, "processType") || has_key(value, "preprocessedProfileVersion"))
    }),
    (Form::Stackprof, "gc_samples", is_number),
    (Form::Stackprof, "missed_samples", is_number),
    (Form::Dhat, "dhatFileVersion", is_number),
    (Form::V8Log, "code", |value| value.kind() == Ok(Kind::Array)),
    (Form::Ghc, "rts_arguments", |value| value.kind() == Ok(Kind::Array)),
    (Form::HeapSnapshot, "snapshot", |value| has_key(value, "meta")),
];

/// Most elements of an array that are looked at for a key: a first one may be odd.
const ELEMENTS_MAX: usize = 20;

/// Whether a text is an object of a form. The whole is read only if it is an object without any of the signs.
pub(in crate::format) fn detect(bytes: &[u8], form: Form) -> Detect {
    let mut json = Json::new("json", bytes);
    match json.peek() {
        None => return Detect::NeedMore,
        Some(b'{') => json.at += 1,
        Some(_) => return Detect::No,
    }
    let next = |json: &mut Json<'_>| -> Result<Option<Detect>> {
        let key = json.key()?;
        if let Some((known, ..)) = SIGNS.iter().find(|(_, sign, is_it)| *sign == key && is_it(*json)) {
            return Ok(Some(if *known == form { Detect::Yes } else { Detect::No }));
        }
        json.skip()?;
        Ok(json.is_last(b'}', "\",\" or \"}\"")?.then_some(Detect::No))
    };
    loop {
        match next(&mut json) {
            Ok(Some(known)) => return known,
            Ok(None) => {}
            Err(Error::Truncated { .. }) => return Detect::NeedMore,
            Err(_) => return Detect::No,
        }
    }
}

/// Whether the text of `json` has an object there with this key.
pub(in crate::format) fn has_key(mut json: Json<'_>, wanted: &str) -> bool {
    let Ok(mut members) = json.members() else { return false };
    while let Ok(Some(key)) = members.next(&mut json) {
        if key == wanted {
            return true;
        }
        if json.skip().is_err() {
            return false;
        }
    }
    false
}

/// Whether one of the first elements of an array there is an object with this key.
pub(in crate::format) fn any_has_key(mut json: Json<'_>, wanted: &str) -> bool {
    let Ok(mut elements) = json.elements() else { return false };
    for _ in 0..ELEMENTS_MAX {
        if !matches!(elements.next(&mut json), Ok(true)) {
            return false;
        }
        if has_key(json, wanted) {
            return true;
        }
        if json.skip().is_err() {
            return false;
        }
    }
    false
}

fn is_number(value: Json<'_>) -> bool {
    value.kind() == Ok(Kind::Number)
}
