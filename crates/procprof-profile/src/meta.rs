//! Facts about a profile besides its samples, kept in the profile as comments `#procprof:key=value`.
//!
//! ```text
//! #procprof:id=01930c5e-7d1a-7000-8000-0123456789ab
//! #procprof:node=10001
//! #procprof:type=cpu
//! #procprof:label.zone=eu-1
//! ```
//! Reports of `go tool pprof`, and ours, do not print comments that begin with `#`, which would be too many; the report
//! `comments` shows them. The former spelling without the `#` is read, too. A value is everything behind the first `=`;
//! line breaks in it are written as a space. Unknown keys are kept in [`Meta::more`].

use std::collections::BTreeMap;

use crate::{Nanos, Profile, ProfileId, ProfileType, Result};

/// The prefix of a fact; `FORMER` in files of older versions.
const PREFIX: &str = "#procprof:";
const FORMER: &str = "procprof:";

/// A fact behind what it begins with.
fn fact(comment: &str) -> Option<&str> {
    comment.strip_prefix(PREFIX).or_else(|| comment.strip_prefix(FORMER))
}

/// Facts about a captured profile. Empty texts and `None` mean unknown and are not written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Meta {
    /// Identity; minted at ingest.
    pub id: Option<ProfileId>,
    /// Id of the node it was captured from.
    pub node: Option<u64>,
    /// Name of that node at the time.
    pub node_name: String,
    /// Role of that node: `FE`, `BE`, `CN`, `service`, `self`.
    pub role: String,
    /// Kind of that node: `starrocks-be`, `go`, …
    pub kind: String,
    /// Cluster of that node.
    pub cluster: String,
    /// Labels of that node.
    pub labels: BTreeMap<String, String>,
    /// The profile's type.
    pub profile_type: Option<ProfileType>,
    /// Why it was captured: `schedule`, `manual`, `import`, `push`, `collect`.
    pub trigger: String,
    /// The sampler: `gperftools`, `brpc`, `pprof-rs`, `go`, `agent-tick`, `jemalloc`, …
    pub engine: String,
    /// The process instance: its start time in UTC nanoseconds, where known.
    pub instance_start: Option<Nanos>,
    /// The process's own version, where known.
    pub instance_version: String,
    /// The build id of its main binary, where known.
    pub instance_build_id: String,
    /// Version of the tool that stored it.
    pub tool: String,
    /// Moment the collection was complete.
    pub end: Option<Nanos>,
    /// Samples the source lost.
    pub lost: Option<u64>,
    /// Samples whose stacks were cut at the depth limit.
    pub truncated: Option<u64>,
    /// CPU time no sample saw, in nanoseconds.
    pub unsampled: Option<u64>,
    /// The meaning of the numbers, in a sentence.
    pub means: String,
    /// Further facts by key.
    pub more: BTreeMap<String, String>,
}

/// The key in [`Meta::more`] of [`Meta::counts`].
const COUNTS: &str = "counts";

impl Meta {
    /// [`Meta::counts`] of Flight Recorder's execution samples: of a JVM's threads that run Java code some are sampled in
    /// turn, so that this is not their CPU time.
    pub const JAVA_CODE: &str = "time of Java code";

    /// What the values of the default sample type count, if it is not what the type's name says.
    pub fn counts(&self) -> Option<&str> {
        self.more.get(COUNTS).map(String::as_str)
    }

    /// Sets [`Meta::counts`].
    pub fn set_counts(&mut self, counts: &str) {
        self.more.insert(COUNTS.to_owned(), counts.to_owned());
    }

    /// Reads the facts from a profile's comments; comments of others are passed over, malformed values of ours go to
    /// [`Meta::more`].
    pub fn from_comments<'a>(comments: impl IntoIterator<Item = &'a str>) -> Meta {
        let mut meta = Meta::default();
        for comment in comments {
            if let Some((key, value)) = fact(comment).and_then(|fact| fact.split_once('=')) {
                meta.set(key, value);
            }
        }
        meta
    }

    /// The comments that contain these facts, in a fixed order.
    pub fn to_comments(&self) -> Vec<String> {
        let mut facts: Vec<(String, String)> = Vec::new();
        let mut add = |key: &str, value: Option<String>| {
            if let Some(value) = value.filter(|value| !value.is_empty()) {
                facts.push((key.to_owned(), value));
            }
        };
        add("id", self.id.map(|id| id.to_string()));
        add("node", self.node.map(|node| node.to_string()));
        add("type", self.profile_type.as_ref().map(|kind| kind.name().to_owned()));
        add("instance-start", self.instance_start.map(|time| time.0.to_string()));
        add("end", self.end.map(|time| time.0.to_string()));
        add("lost", self.lost.map(|count| count.to_string()));
        add("truncated", self.truncated.map(|count| count.to_string()));
        add("unsampled", self.unsampled.map(|nanos| nanos.to_string()));
        for (key, text) in self.texts() {
            add(key, Some(text.clone()));
        }
        for (key, value) in &self.labels {
            add(&format!("label.{key}"), Some(value.clone()));
        }
        for (key, value) in &self.more {
            add(key, Some(value.clone()));
        }
        facts.into_iter().map(|(key, value)| format!("{PREFIX}{key}={}", one_line(&value))).collect()
    }

    /// The common facts of several profiles: those on which all agree; the latest end; lost, truncated and unsampled
    /// amounts added up.
    pub fn merged(metas: &[Meta]) -> Meta {
        Meta {
            id: common(metas, |meta| &meta.id),
            node: common(metas, |meta| &meta.node),
            node_name: common(metas, |meta| &meta.node_name),
            role: common(metas, |meta| &meta.role),
            kind: common(metas, |meta| &meta.kind),
            cluster: common(metas, |meta| &meta.cluster),
            labels: common_entries(metas, |meta| &meta.labels),
            profile_type: common(metas, |meta| &meta.profile_type),
            trigger: common(metas, |meta| &meta.trigger),
            engine: common(metas, |meta| &meta.engine),
            instance_start: common(metas, |meta| &meta.instance_start),
            instance_version: common(metas, |meta| &meta.instance_version),
            instance_build_id: common(metas, |meta| &meta.instance_build_id),
            tool: common(metas, |meta| &meta.tool),
            end: metas.iter().filter_map(|meta| meta.end).max(),
            lost: total(metas, |meta| meta.lost),
            truncated: total(metas, |meta| meta.truncated),
            unsampled: total(metas, |meta| meta.unsampled),
            means: common(metas, |meta| &meta.means),
            more: common_entries(metas, |meta| &meta.more),
        }
    }

    /// Whether a comment is one of ours.
    pub fn is_fact(comment: &str) -> bool {
        fact(comment).is_some()
    }

    fn texts(&self) -> [(&'static str, &String); 10] {
        [
            ("node-name", &self.node_name),
            ("role", &self.role),
            ("kind", &self.kind),
            ("cluster", &self.cluster),
            ("trigger", &self.trigger),
            ("engine", &self.engine),
            ("instance-version", &self.instance_version),
            ("instance-build-id", &self.instance_build_id),
            ("tool", &self.tool),
            ("means", &self.means),
        ]
    }

    fn set(&mut self, key: &str, value: &str) {
        let text = || value.to_owned();
        let known = match key {
            "id" => keep(&mut self.id, value.parse().ok()),
            "node" => keep(&mut self.node, value.parse().ok()),
            "type" => keep(&mut self.profile_type, value.parse().ok()),
            "instance-start" => keep(&mut self.instance_start, value.parse().ok().map(Nanos)),
            "end" => keep(&mut self.end, value.parse().ok().map(Nanos)),
            "lost" => keep(&mut self.lost, value.parse().ok()),
            "truncated" => keep(&mut self.truncated, value.parse().ok()),
            "unsampled" => keep(&mut self.unsampled, value.parse().ok()),
            "node-name" => keep_text(&mut self.node_name, text()),
            "role" => keep_text(&mut self.role, text()),
            "kind" => keep_text(&mut self.kind, text()),
            "cluster" => keep_text(&mut self.cluster, text()),
            "trigger" => keep_text(&mut self.trigger, text()),
            "engine" => keep_text(&mut self.engine, text()),
            "instance-version" => keep_text(&mut self.instance_version, text()),
            "instance-build-id" => keep_text(&mut self.instance_build_id, text()),
            "tool" => keep_text(&mut self.tool, text()),
            "means" => keep_text(&mut self.means, text()),
            _ => false,
        };
        match key.strip_prefix("label.") {
            _ if known => {}
            Some(label) => drop(self.labels.insert(label.to_owned(), text())),
            None => drop(self.more.insert(key.to_owned(), text())),
        }
    }
}

impl Profile {
    /// The facts among the comments.
    pub fn meta(&self) -> Meta {
        Meta::from_comments(self.comments())
    }

    /// The profile with these facts in place of those it had; comments of others stay, behind the facts.
    ///
    /// # Errors
    /// [`Error::Invalid`](crate::Error::Invalid) when the string table is full.
    pub fn with_meta(self, meta: &Meta) -> Result<Profile> {
        let others: Vec<_> =
            self.parts().comments.iter().copied().filter(|id| !Meta::is_fact(self.string(*id))).collect();
        let mut parts = self.into_parts();
        parts.comments.clear();
        for fact in meta.to_comments() {
            let fact = parts.intern(&fact)?;
            parts.comments.push(fact);
        }
        parts.comments.extend(others);
        parts.compact_strings()?;
        parts.finish()
    }
}

fn common<T: Clone + Default + PartialEq>(metas: &[Meta], field: fn(&Meta) -> &T) -> T {
    match metas.split_first() {
        Some((first, others)) if others.iter().all(|other| field(other) == field(first)) => field(first).clone(),
        _ => T::default(),
    }
}

fn common_entries(metas: &[Meta], field: fn(&Meta) -> &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let Some((first, others)) = metas.split_first() else { return BTreeMap::new() };
    let mut entries = field(first).clone();
    entries.retain(|key, value| others.iter().all(|other| field(other).get(key) == Some(value)));
    entries
}

fn total(metas: &[Meta], field: fn(&Meta) -> Option<u64>) -> Option<u64> {
    metas.iter().filter_map(field).reduce(u64::saturating_add)
}

fn keep<T>(slot: &mut Option<T>, value: Option<T>) -> bool {
    let known = value.is_some();
    if known {
        *slot = value;
    }
    known
}

fn keep_text(slot: &mut String, value: String) -> bool {
    *slot = value;
    true
}

fn one_line(value: &str) -> String {
    value.replace(['\n', '\r'], " ")
}
