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

/// A row of the table `profiles`. Times are in microseconds; what is finer is cut off.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// Which profile it is.
    pub identity: Identity,
    /// Its metadata, with everything that the columns have.
    pub meta: Meta,
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
