//! Profiles of Ruby by stackprof, as JSON.
//!
//! ```text
//! {"version":1.2,"mode":"cpu","interval":1000,"samples":28,"gc_samples":0,"missed_samples":0,"metadata":{},
//!  "frames":{"139965964034480":{"name":"Object#inner","file":"/work.rb","line":2,"total_samples":28,"samples":10,"edges":{},"lines":{}}},
//!  "raw":[2,139965964034280,139965964034480,7]}
//! ```
//! `raw` is stacks, root first, each between its length and how often it was seen. Without it (`raw: false`) there are
//! only functions, each a stack by itself, with a warning. Sample types by the mode: `samples`, and the quantity they
//! represent, `cpu` or `wall` (the interval is microseconds) or `alloc_objects`. Format:
//! <https://github.com/tmm1/stackprof>

use foldhash::HashMap;

use super::call_tree::{self, CallTree, UNLABELLED};
use super::json::{self, Json, Kind};
use super::left_out::LeftOut;
use super::{Detect, Format, Limits};
use crate::{LocationId, Profile, Result};

/// Name of the format.
pub const NAME: &str = "stackprof";

/// The row of the format table.
pub(super) const FORMAT: Format =
    Format { name: NAME, help: "stackprof's JSON", detect, decode, events: None, encode: None };

/// Whether the bytes are a profile of stackprof, by keys that no other format has.
pub fn detect(bytes: &[u8]) -> Detect {
    json::detect(bytes, json::Form::Stackprof)
}

/// Decodes a profile.
///
/// # Errors
/// [`crate::Error::Malformed`] and [`crate::Error::Truncated`] with the place, [`crate::Error::TooLarge`] past the
/// limits.
pub fn decode(bytes: &[u8], limits: &Limits, warnings: &mut Vec<String>) -> Result<Profile> {
    let mut json = Json::new(NAME, bytes);
    let [mode, interval, frames, raw, missed] = json.fields(["mode", "interval", "frames", "raw", "missed_samples"])?;
    json.end(warnings);
    let mode = mode.map_or(Ok(String::new()), |mut mode| mode.text().map(Into::into))?;
    let interval = interval.map_or(Ok(0), |mut interval| interval.integer())?;
    let (types, worth): (&[(&str, &str)], i64) = match mode.as_str() {
        "cpu" => (&[("samples", "count"), ("cpu", "nanoseconds")], interval.saturating_mul(1000)),
        "wall" => (&[("samples", "count"), ("wall", "nanoseconds")], interval.saturating_mul(1000)),
        "object" => (&[("samples", "count"), ("alloc_objects", "count")], interval),
        _ => (&[("samples", "count")], 0),
    };
    let mut tree = CallTree::new(NAME, types, bytes.len(), limits);
    if let Some((kind, unit)) = types.get(1) {
        tree.builder.period(kind, unit, worth);
    }
    let mut add = |tree: &mut CallTree, node, count: i64| {
        tree.add(node, UNLABELLED, &[count, count.saturating_mul(worth)][..types.len()])
    };
    let Some(mut frames) = frames else { return Err(json.wrong("no \"frames\"")) };
    let mut known: HashMap<i64, LocationId> = HashMap::default();
    let has_raw = raw.is_some();
    let mut left_out = LeftOut::default();
    frames.object(|json, id| {
        let mut frame = json.later()?;
        let read = (|| {
            let number = id.parse().map_err(|_| json.wrong(format!("the frame {id:?}: expected a number")))?;
            let location = tree.read_frame(&mut frame.clone(), ["name", "file", "line", ""])?;
            known.insert(number, location);
            if !has_raw && let [Some(mut samples)] = frame.fields(["samples"])? {
                let node = tree.child(call_tree::ROOT, location)?;
                add(&mut tree, node, samples.integer()?);
            }
            Ok(())
        })();
        left_out.keep(read).map(drop)
    })?;
    match raw {
        Some(raw) => read_raw(raw, &known, &mut tree, &mut left_out, &mut add)?,
        None => warnings.push(format!("{NAME}: recorded without \"raw\", so that it has functions but no stacks")),
    }
    let missed = missed.map_or(Ok(0), |mut missed| missed.integer())?;
    if missed > 0 {
        warnings.push(format!("{NAME}: {missed} samples were missed"));
    }
    let profile = tree.finish()?;
    left_out.end(NAME, profile.sample_count() == 0, warnings)?;
    Ok(profile)
}

fn read_raw(
    mut json: Json<'_>,
    known: &HashMap<i64, LocationId>,
    tree: &mut CallTree,
    left_out: &mut LeftOut,
    add: &mut impl FnMut(&mut CallTree, call_tree::NodeId, i64),
) -> Result<()> {
    // How many frames of the stack are to come; `None` before its length.
    // The node is `None` in a stack that is left out.
    let (mut left, mut node) = (None, Some(call_tree::ROOT));
    json.array(|json| {
        let number = match json.kind()? {
            Kind::Number => Some(json.integer()?),
            _ => {
                json.skip()?;
                None
            }
        };
        left = match (left, number) {
            (None, None | Some(..0)) => {
                left_out.add(1, json.wrong("expected the length of a stack"));
                None
            }
            (None, Some(length)) => {
                node = Some(call_tree::ROOT);
                Some(length)
            }
            (Some(0), number) => {
                match (node, number) {
                    (Some(node), Some(number)) => add(tree, node, number),
                    (Some(_), None) => left_out.add(1, json.wrong("expected the count of a stack")),
                    (None, _) => {}
                }
                None
            }
            (Some(left), number) => {
                let frame = number.and_then(|number| known.get(&number));
                node = match (node, frame) {
                    (Some(node), Some(frame)) => Some(tree.child(node, *frame)?),
                    (Some(_), None) => {
                        let frame =
                            number.map_or("no number".to_owned(), |number| format!("{number}, which does not exist"));
                        left_out.add(1, json.wrong(format!("a stack with the frame {frame}")));
                        None
                    }
                    (None, _) => None,
                };
                Some(left - 1)
            }
        };
        Ok(())
    })?;
    if left.is_some() {
        left_out.add(1, json.wrong("a stack that is cut off"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::fixtures::{check, decoded, error};

    /// The values of a function itself, and with all it called.
    fn flat_and_total(profile: &Profile, name: &str) -> (i64, i64) {
        let is_it = |id: &LocationId| profile.string(profile.function(profile.lines(*id)[0].function).name) == name;
        let sum = |wanted: &dyn Fn(&[LocationId]) -> bool| {
            profile.samples().filter(|sample| wanted(sample.stack)).map(|sample| sample.values[0]).sum()
        };
        (sum(&|stack| stack.first().is_some_and(is_it)), sum(&|stack| stack.iter().any(is_it)))
    }

    #[test]
    fn the_numbers_are_those_of_stackprof() {
        // `stackprof --text cpu.dump`: 28 samples; Enumerable#sum 28 and 15, Object#inner 28 and 10, Object#cold 7
        // and 0.
        let profile = check("stackprof/cpu.json", NAME).profile;
        assert_eq!((profile.total(0), profile.total(1)), (28, 280_000_000));
        assert_eq!(flat_and_total(&profile, "Enumerable#sum"), (15, 28));
        assert_eq!(flat_and_total(&profile, "Object#inner"), (10, 28));
        assert_eq!(flat_and_total(&profile, "Object#cold"), (0, 7));
        let profile = check("stackprof/object.json", NAME).profile;
        assert_eq!(profile.sample_type(1), ("alloc_objects", "count"));
        assert_eq!(profile.total(1), profile.total(0) * 100);
    }

    #[test]
    fn without_stacks_there_are_functions() {
        let decoded = check("stackprof/flat.json", NAME);
        assert_eq!(decoded.profile.total(0), 62);
        assert_eq!(flat_and_total(&decoded.profile, "Object#inner"), (31, 31));
        assert!(decoded.warnings[0].contains("no stacks"));
    }

    #[test]
    fn what_is_wrong_is_an_error_with_its_place() {
        let text = |raw: &str| {
            format!(
                r#"{{"mode":"custom","gc_samples":0,"frames":{{"7":{{"name":"a"}}}},"raw":[{raw}],"missed_samples":3}}"#
            )
        };
        assert_eq!(decoded(text("1,7,5,0,2").as_bytes()).warnings, ["stackprof: 3 samples were missed"]);
        for (raw, expected) in
            [("1,8,1", "the frame 8, which does not exist"), ("-1", "the length of a stack"), ("2,7", "cut off")]
        {
            let error = error(text(raw).as_bytes());
            assert!(error.starts_with("stackprof: offset ") && error.contains(expected), "{error}");
        }
    }
}
