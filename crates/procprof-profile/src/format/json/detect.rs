//! The format of a text of JSON, by its first keys.

use super::Json;
use crate::format::Detect;
use crate::{Error, Result};

/// Whether a text is an object of a format, by its keys: the first has to be one of `keys`, and `is_mine` has to agree
/// to one of them, which it is given with the value.
pub(in crate::format) fn detect_object(
    bytes: &[u8],
    keys: &[&str],
    mut is_mine: impl FnMut(&str, Json<'_>) -> bool,
) -> Detect {
    let mut json = Json::new("json", bytes);
    match json.peek() {
        None => return Detect::NeedMore,
        Some(b'{') => json.at += 1,
        Some(_) => return Detect::No,
    }
    let mut is_first = true;
    let mut next = |json: &mut Json<'_>| -> Result<Option<Detect>> {
        let key = json.key()?;
        if std::mem::take(&mut is_first) && !keys.contains(&&*key) {
            return Ok(Some(Detect::No));
        }
        if is_mine(&key, *json) {
            return Ok(Some(Detect::Yes));
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

/// The first element of an array there.
pub(in crate::format) fn first_element(mut json: Json<'_>) -> Option<Json<'_>> {
    let mut elements = json.elements().ok()?;
    elements.next(&mut json).ok()?.then_some(json)
}
