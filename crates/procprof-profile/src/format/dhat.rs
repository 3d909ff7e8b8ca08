//! Heap profiles of DHAT (Valgrind, dhat-rs), as JSON.
//!
//! ```text
//! {"dhatFileVersion":2,"mode":"heap","verb":"Allocated","bklt":true,"bkacc":false,"cmd":"./work","pid":7,"te":9,
//!  "pps":[{"tb":3000,"tbk":2,"tl":7,"mb":2000,"mbk":1,"gb":2000,"gbk":1,"eb":0,"ebk":0,"fs":[1,2]}],
//!  "ftbl":["[root]","0x109147: fill (work.c:3)","0x109165: main (work.c:9)"]}
//! ```
//! A program point is a sample, its frames leaf first: `alloc_objects` and `alloc_space` in all, where lifetimes are
//! known (`bklt`) `peak_objects` and `peak_space` at the peak of the heap, and `inuse_objects` and `inuse_space` at the
//! end. In the modes `copy` and `ad-hoc` the totals alone are there. Numbers of reads and writes are not read.
//!
//! Format: <https://valgrind.org/docs/manual/dh-manual.html>, `dhat/dh_main.c`.

use foldhash::HashMap;

use super::call_tree::{self, CallTree, UNLABELLED};
use super::json::{self, Json};
use super::left_out::LeftOut;
use super::valgrind_frame::ValgrindFrame;
use super::{Detect, Format, Limits};
use crate::{LocationId, Profile, Result};

/// Name of the format.
pub const NAME: &str = "dhat";

/// The row of the format table.
pub(super) const FORMAT: Format =
    Format { name: NAME, help: "heap profiles of DHAT, JSON", detect, decode, events: None, encode: None };

/// Sample types and the keys of their values.
const HEAP: [(&str, &str, &str); 6] = [
    ("alloc_objects", "count", "tbk"),
    ("alloc_space", "bytes", "tb"),
    ("peak_objects", "count", "gbk"),
    ("peak_space", "bytes", "gb"),
    ("inuse_objects", "count", "ebk"),
    ("inuse_space", "bytes", "eb"),
];

/// Whether the bytes are a profile of DHAT.
pub fn detect(bytes: &[u8]) -> Detect {
    json::detect(bytes, json::Form::Dhat)
}

/// Decodes a profile.
///
/// # Errors
/// [`crate::Error::Malformed`] and [`crate::Error::Truncated`] with the place, [`crate::Error::TooLarge`] past the
/// limits.
pub fn decode(bytes: &[u8], limits: &Limits, warnings: &mut Vec<String>) -> Result<Profile> {
    let mut json = Json::new(NAME, bytes);
    let [lifetimes, mode, points, table] = json.fields(["bklt", "mode", "pps", "ftbl"])?;
    json.end(warnings);
    let (Some(mut points), Some(mut table)) = (points, table) else {
        return Err(json.wrong("no \"pps\" or no \"ftbl\""));
    };
    let mode = mode.map_or(Ok(String::new()), |mut mode| mode.text().map(Into::into))?;
    let has_lifetimes = lifetimes.map_or(Ok(false), |mut json| json.boolean())?;
    let kinds: &[(&str, &str, &str)] = match mode.as_str() {
        "copy" => &[("copies", "count", "tbk"), ("copied_space", "bytes", "tb")],
        "ad-hoc" => &[("events", "count", "tbk"), ("units", "count", "tb")],
        _ if has_lifetimes => &HEAP,
        _ => &HEAP[..2],
    };
    let types: Vec<(&str, &str)> = kinds.iter().map(|(name, unit, _)| (*name, *unit)).collect();
    let mut tree = CallTree::new(NAME, &types, bytes.len(), limits);
    tree.builder.default_sample_type(types[1].0);
    let (mut frames, mut left_out) = (Vec::new(), LeftOut::default());
    table.array(|json| {
        frames.push(json.later()?);
        Ok(())
    })?;
    let mut reader = Reader { tree, frames, known: HashMap::default() };
    points.records(&mut left_out, |json| reader.read(json, kinds))?;
    let profile = reader.tree.finish()?;
    left_out.end(NAME, profile.sample_count() == 0, warnings)?;
    Ok(profile)
}

struct Reader<'a> {
    tree: CallTree,
    /// The texts of frames.
    frames: Vec<Json<'a>>,
    known: HashMap<usize, LocationId>,
}

impl Reader<'_> {
    /// Reads a program point.
    fn read(&mut self, json: &mut Json<'_>, kinds: &[(&str, &str, &str)]) -> Result<()> {
        let (mut values, mut stack) = (vec![0; kinds.len()], None);
        json.object(|json, key| match kinds.iter().position(|(.., wanted)| *wanted == key) {
            Some(kind) => {
                values[kind] = json.integer()?;
                Ok(())
            }
            None if key == "fs" => {
                stack = Some(json.later()?);
                Ok(())
            }
            None => json.skip(),
        })?;
        let Some(mut stack) = stack else { return Err(json.wrong("a program point without \"fs\"")) };
        let mut locations = Vec::new();
        stack.array(|json| {
            locations.push(self.location(json)?);
            Ok(())
        })?;
        self.tree.check_depth(locations.len())?;
        let mut node = call_tree::ROOT;
        for location in locations.into_iter().rev() {
            node = self.tree.child(node, location)?;
        }
        self.tree.add(node, UNLABELLED, &values);
        Ok(())
    }

    fn location(&mut self, json: &mut Json<'_>) -> Result<LocationId> {
        let index = json.index()?.unwrap_or(usize::MAX);
        if let Some(id) = self.known.get(&index) {
            return Ok(*id);
        }
        let Some(text) = self.frames.get(index) else {
            return Err(json.wrong(format!("a frame that the table of {} has not", self.frames.len())));
        };
        let text = text.clone().text()?;
        let id = self.tree.frame(&ValgrindFrame::parse(&text).as_frame());
        self.known.insert(index, id);
        Ok(id)
    }
}

#[cfg(test)]
mod tests {
    use crate::format::fixtures::{check, check_hostile, decoded};

    const FILE: &str = r#"{"dhatFileVersion":2,"mode":"heap","verb":"Allocated","bklt":true,"bkacc":false,"cmd":"./work","pid":7,"te":9,
        "pps":[{"tb":3000,"tbk":2,"tl":7,"mb":2000,"mbk":1,"gb":2000,"gbk":1,"eb":5,"ebk":1,"fs":[1,2]}],
        "ftbl":["[root]","0x109147: fill (work.c:3)","0x109165: main (work.c:9)"]}"#;

    #[test]
    fn program_points_are_samples() {
        let profile = decoded(FILE.as_bytes()).profile;
        let sample = profile.sample(0);
        assert_eq!(sample.values, [2, 3000, 1, 2000, 1, 5]);
        let leaf = profile.lines(sample.stack[0])[0];
        assert_eq!((profile.string(profile.function(leaf.function).name), leaf.line), ("fill", 3));
        assert_eq!(profile.sample_type(profile.default_sample_type()), ("alloc_space", "bytes"));
        let ad_hoc = FILE.replace("\"heap\"", "\"ad-hoc\"");
        assert_eq!(decoded(ad_hoc.as_bytes()).profile.sample_type(1), ("units", "count"));
        check_hostile(FILE.as_bytes());
    }

    #[test]
    fn what_the_tool_wrote_is_read() {
        let profile = check("dhat/heap.dhat", super::NAME).profile;
        // `mem_heap_B` of Massif at the peak of the same program.
        assert_eq!((profile.total(1), profile.total(3)), (8000, 6000));
    }
}
