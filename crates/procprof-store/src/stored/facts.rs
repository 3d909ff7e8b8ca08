//! The metadata of one stored file, as in the file's header and in the catalog.
//!
//! ```text
//! {"meta":["#procprof:id=01930c5e-…","#procprof:node=10001",…],"start":1,"duration":2,"summary":{…}}
//! ```

use std::collections::BTreeMap;
use std::io::{self, BufRead};

use procprof_profile::{Meta, Nanos, ProfileId};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::comments;
use super::file_name::FileName;
use crate::{Error, Format, Result, Summary, TopFunction};

/// The facts of one profile.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Facts {
    pub(crate) meta: Meta,
    pub(crate) start: Nanos,
    pub(crate) duration: Nanos,
    pub(crate) summary: Summary,
}

#[derive(Serialize, Deserialize)]
struct Json {
    meta: Vec<String>,
    start: i64,
    duration: i64,
    summary: Summary,
}

/// A part of [`Json`].
#[derive(Deserialize)]
struct Comments {
    meta: Vec<String>,
}

/// Another part of [`Json`].
#[derive(Deserialize)]
struct TopFunctions {
    summary: SummaryTop,
}

#[derive(Deserialize)]
struct SummaryTop {
    top: Vec<TopFunction>,
}

impl Facts {
    /// The facts as JSON, without the thumbnail.
    pub(crate) fn to_json(&self) -> Result<String> {
        let json = Json {
            meta: self.meta.to_comments(),
            start: self.start.0,
            duration: self.duration.0,
            summary: self.summary.clone(),
        };
        serde_json::to_string(&json).map_err(|error| Error::malformed("facts", error.to_string()))
    }

    /// Reads what [`Facts::to_json`] wrote.
    pub(crate) fn from_json(json: &[u8], thumbnail: &[u8]) -> Result<Facts> {
        let json: Json = serde_json::from_slice(json).map_err(|error| Error::malformed("facts", error.to_string()))?;
        let meta = Meta::from_comments(json.meta.iter().map(String::as_str));
        let summary = Summary { thumbnail: thumbnail.to_vec(), ..json.summary };
        Ok(Facts { meta, start: Nanos(json.start), duration: Nanos(json.duration), summary })
    }

    /// The facts of `meta` in what [`Facts::to_json`] wrote, as a JSON object of texts. `None` if it cannot be read.
    pub(crate) fn meta_object(json: &str) -> Option<String> {
        let comments = serde_json::from_str::<Comments>(json).ok()?.meta;
        let facts = comments.iter().filter_map(|comment| comment.split_once(':')?.1.split_once('='));
        serde_json::to_string(&facts.collect::<BTreeMap<_, _>>()).ok()
    }

    /// The leaf of the first top function in what [`Facts::to_json`] wrote. `None` if it has none, or it cannot be read.
    pub(crate) fn top_leaf(json: &str) -> Option<String> {
        let top = serde_json::from_str::<TopFunctions>(json).ok()?.summary.top;
        top.into_iter().next().map(|function| function.leaf).filter(|leaf| !leaf.is_empty())
    }

    /// The facts of a pprof file without any in its header: its comments and its own times. `None` when they name no
    /// id.
    ///
    /// # Errors
    /// When the file is damaged.
    pub(crate) fn from_comments(gzip: impl BufRead, unpacked_max: u64) -> io::Result<Option<Facts>> {
        let comments = comments::read(gzip, unpacked_max)?;
        Ok(comments.meta.id.is_some().then_some(Facts {
            meta: comments.meta,
            start: comments.start,
            duration: comments.duration,
            summary: Summary::default(),
        }))
    }

    /// The facts of a file without any: from folder, name (whose time is UTC) and content.
    pub(crate) fn of_foreign(node: u64, name: &FileName, id: ProfileId) -> Facts {
        let start = name.moment(&jiff::tz::TimeZone::UTC).unwrap_or_default();
        let meta = Meta {
            id: Some(id),
            node: Some(node),
            profile_type: Some(name.profile_type.clone()),
            // A recording is kept beside the profiles that were made of it.
            trigger: if name.format == Format::Recording { "kept" } else { "import" }.to_owned(),
            ..Meta::default()
        };
        Facts { meta, start, duration: Nanos(0), summary: Summary::default() }
    }

    /// The facts of a page as a rebuild will read them, from its name in the store.
    pub(crate) fn of_stored_page(node: u64, file: &str, id: ProfileId) -> Result<Facts> {
        let file_name = FileName::parse(file).ok_or_else(|| Error::malformed(file, "not a profile's file name"))?;
        Ok(Facts::of_foreign(node, &file_name, id))
    }

    /// The time when the collection was complete.
    pub(crate) fn completed(&self) -> Nanos {
        self.meta.end.unwrap_or(Nanos(self.start.0.saturating_add(self.duration.0)))
    }
}

#[cfg(test)]
mod tests {
    use super::Facts;

    #[test]
    fn facts_of_an_earlier_version_are_read() {
        let json =
            r##"{"meta":["#procprof:node=7"],"start":1,"duration":2,"summary":{"totals":[],"samples":3,"top":[]}}"##;
        let facts = Facts::from_json(json.as_bytes(), &[9]).unwrap();
        assert_eq!((facts.meta.node, facts.summary.samples, facts.summary.threads), (Some(7), 3, 0));
        assert_eq!(facts.to_json().unwrap(), json);
    }
}

/// The id of a file made elsewhere: a UUID (version 8) of the first 16 bytes of its content's SHA-256.
pub fn content_id(bytes: &[u8]) -> ProfileId {
    let mut hasher = ContentHash::default();
    hasher.update(bytes);
    hasher.id()
}

/// [`content_id`] piece by piece.
#[derive(Default)]
pub(crate) struct ContentHash(Sha256);

impl ContentHash {
    pub(crate) fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    pub(crate) fn id(self) -> ProfileId {
        let digest: [u8; 32] = self.0.finalize().into();
        let mut first = [0; 16];
        first.copy_from_slice(&digest[..16]);
        ProfileId(uuid::Builder::from_custom_bytes(first).into_uuid().as_u128())
    }
}
