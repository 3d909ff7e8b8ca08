//! [`Header`]: what is known of an archived profile beside its samples.

use procprof_profile::{Meta, Nanos, Profile, ProfileId, ProfileType};

/// Which profile it is, of which node, and when it was complete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Its id.
    pub id: ProfileId,
    /// The id of its node.
    pub node: u64,
    /// Its type.
    pub profile_type: ProfileType,
    /// When it began.
    pub start: Nanos,
    /// How long it took.
    pub duration: Nanos,
    /// When it was complete; its hour is that of this moment.
    pub completed: Nanos,
}

/// A sum of one kind of values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Total {
    /// The kind: `cpu`, `inuse_space`, …
    pub kind: String,
    /// Its unit.
    pub unit: String,
    /// The sum.
    pub value: i64,
}

/// What a pprof file says about its frames as a whole. Each text may be empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FrameFacts {
    /// The regular expression of frames that reports leave out with what they call.
    pub drop_frames: String,
    /// The regular expression of those that they keep nonetheless.
    pub keep_frames: String,
    /// The file of the first mapping, which is the main binary.
    pub main: String,
    /// Its build id.
    pub main_build_id: String,
}

impl FrameFacts {
    fn of(profile: &Profile) -> FrameFacts {
        let main = profile.mappings().first().copied().unwrap_or_default();
        let parts = profile.parts();
        let [drop_frames, keep_frames, main, main_build_id] =
            [parts.drop_frames, parts.keep_frames, main.filename, main.build_id]
                .map(|text| profile.string(text).to_owned());
        FrameFacts { drop_frames, keep_frames, main, main_build_id }
    }

    /// Those among the facts of a profile, which are then without them.
    pub(crate) fn take(facts: &mut Vec<(String, String)>) -> FrameFacts {
        let mut found = FrameFacts::default();
        facts.retain_mut(|(key, value)| match FRAME_FACTS.iter().position(|known| known == key) {
            Some(at) => {
                *found.texts_mut()[at] = std::mem::take(value);
                false
            }
            None => true,
        });
        found
    }

    fn texts(&self) -> [&String; 4] {
        [&self.drop_frames, &self.keep_frames, &self.main, &self.main_build_id]
    }

    fn texts_mut(&mut self) -> [&mut String; 4] {
        [&mut self.drop_frames, &mut self.keep_frames, &mut self.main, &mut self.main_build_id]
    }
}

/// The keys of [`FrameFacts`] among the facts of a profile. No other fact has a colon in its key.
const FRAME_FACTS: [&str; 4] = ["pprof:drop-frames", "pprof:keep-frames", "pprof:main", "pprof:main-build-id"];

/// A row of the table `profiles`. Times are in microseconds; what is finer is cut off.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// Which profile it is.
    pub identity: Identity,
    /// Its metadata, with everything that the columns have.
    pub meta: Meta,
    /// What its file says about its frames.
    pub frames: FrameFacts,
    /// The sum of each sample type, in their order; two of the same kind have different names.
    pub totals: Vec<Total>,
    /// The kind that is shown first.
    pub shown_kind: String,
    /// The quantity that the period counts, and its unit.
    pub period_type: (String, String),
    /// The sampling period.
    pub period: i64,
    /// Number of samples in the file.
    pub samples: u64,
    /// The number of profiles that it is of: one, but for an hour of a node.
    pub profiles: u64,
}

impl Header {
    /// The header of a profile whose values are estimates already.
    pub(crate) fn new(identity: Identity, profile: &Profile) -> Header {
        let mut totals: Vec<Total> = Vec::new();
        for at in 0..profile.sample_types().len() {
            let (kind, unit) = profile.sample_type(at);
            let is_taken = |name: &str| totals.iter().any(|total| total.kind == name);
            let numbered = (2..).map(|number| format!("{kind}#{number}"));
            let name = std::iter::once(kind.to_owned()).chain(numbered).find(|name| !is_taken(name));
            let kind = name.unwrap_or_default();
            totals.push(Total { kind, unit: unit.to_owned(), value: profile.total(at) });
        }
        let period = profile.period_type();
        Header {
            meta: profile.meta(),
            frames: FrameFacts::of(profile),
            shown_kind: totals[profile.default_sample_type()].kind.clone(),
            period_type: (profile.string(period.kind).to_owned(), profile.string(period.unit).to_owned()),
            period: profile.period(),
            samples: profile.sample_count() as u64,
            profiles: 1,
            identity,
            totals,
        }
    }

    /// The facts that have no column of their own, by key.
    pub(crate) fn other_facts(&self) -> Vec<(String, String)> {
        let rest = Meta {
            id: None,
            node: None,
            node_name: String::new(),
            role: String::new(),
            kind: String::new(),
            cluster: String::new(),
            labels: Default::default(),
            profile_type: None,
            trigger: String::new(),
            engine: String::new(),
            end: None,
            lost: None,
            truncated: None,
            unsampled: None,
            ..self.meta.clone()
        };
        let comments = rest.to_comments();
        let facts = comments.iter().filter_map(|comment| comment.strip_prefix(FACT)?.split_once('='));
        let facts = facts.filter(|(key, _)| !FRAME_FACTS.contains(key));
        let of_frames = FRAME_FACTS.into_iter().zip(self.frames.texts().map(String::as_str));
        let facts = facts.chain(of_frames.filter(|(_, text)| !text.is_empty()));
        facts.map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
    }

    /// Metadata from facts of [`Header::other_facts`].
    pub(crate) fn meta_of<'a>(facts: impl Iterator<Item = (&'a str, &'a str)>) -> Meta {
        let comments: Vec<String> = facts.map(|(key, value)| format!("{FACT}{key}={value}")).collect();
        Meta::from_comments(comments.iter().map(String::as_str))
    }
}

/// Begins a comment with a fact.
const FACT: &str = "#procprof:";
