//! What a sum says besides samples, and in which order its sample types are.

use std::collections::BTreeSet;

use super::Term;
use crate::{Addresses, Error, Meta, Nanos, Profile, ProfileBuilder, Result};

/// Everything of a sum but its samples and tables.
pub(super) struct Header {
    sample_types: Vec<(String, String)>,
    default_sample_type: String,
    period_type: (String, String),
    period: i64,
    time: Nanos,
    duration: Nanos,
    drop_frames: String,
    keep_frames: String,
    doc_url: String,
    comments: Vec<String>,
    pub(super) captured: Addresses,
}

impl Header {
    pub(super) fn merge(terms: &[Term]) -> Result<Header> {
        let profiles: Vec<&Profile> = terms.iter().map(|term| &term.profile).collect();
        let orders = profiles.iter().map(|profile| sample_types(profile));
        let Some(sample_types) = orders.min() else {
            return Err(Error::Incompatible("there is none to add up".to_owned()));
        };
        let text = |text: fn(&Profile) -> &str| common(profiles.iter().map(|profile| text(profile).to_owned()));
        let period_types = profiles.iter().map(|profile| {
            let kind = profile.period_type();
            (profile.string(kind.kind).to_owned(), profile.string(kind.unit).to_owned())
        });
        let times = profiles.iter().map(|profile| profile.time()).filter(|time| time.0 != 0);
        Ok(Header {
            sample_types,
            default_sample_type: default_sample_type(&profiles),
            period_type: common(period_types),
            period: profiles.iter().map(|profile| profile.period()).max().unwrap_or(0),
            time: times.min().unwrap_or_default(),
            duration: Nanos(profiles.iter().fold(0, |sum, profile| sum.saturating_add(profile.duration().0))),
            drop_frames: either(&profiles, |profile| profile.string(profile.parts().drop_frames)),
            keep_frames: either(&profiles, |profile| profile.string(profile.parts().keep_frames)),
            doc_url: text(|profile| profile.string(profile.parts().doc_url)),
            comments: comments(&profiles),
            captured: common(profiles.iter().map(|profile| profile.parts().captured)),
        })
    }

    pub(super) fn sample_types(&self) -> Vec<(&str, &str)> {
        self.sample_types.iter().map(|(kind, unit)| (kind.as_str(), unit.as_str())).collect()
    }

    /// For each sample type of the sum, its position in that profile.
    pub(super) fn columns(&self, profile: &Profile) -> Result<Vec<usize>> {
        let have = sample_types(profile);
        let mut columns: Vec<usize> = Vec::new();
        for wanted in &self.sample_types {
            let found = (0..have.len()).find(|index| have[*index] == *wanted && !columns.contains(index));
            columns.extend(found);
        }
        if columns.len() != have.len() || columns.len() != self.sample_types.len() {
            return Err(Error::Incompatible(format!(
                "sample types {} and {}",
                listed(&self.sample_types),
                listed(&have)
            )));
        }
        Ok(columns)
    }

    pub(super) fn add_to(&self, builder: &mut ProfileBuilder) {
        builder.default_sample_type(&self.default_sample_type);
        builder.period(&self.period_type.0, &self.period_type.1, self.period);
        builder.time(self.time, self.duration);
        for comment in &self.comments {
            builder.comment(comment);
        }
        let [drop_frames, keep_frames, doc_url] =
            [&self.drop_frames, &self.keep_frames, &self.doc_url].map(|text| builder.intern(text));
        let parts = builder.parts_mut();
        (parts.drop_frames, parts.keep_frames, parts.doc_url) = (drop_frames, keep_frames, doc_url);
        parts.captured = self.captured;
    }
}

fn sample_types(profile: &Profile) -> Vec<(String, String)> {
    let kinds = profile.sample_types().iter();
    kinds.map(|kind| (profile.string(kind.kind).to_owned(), profile.string(kind.unit).to_owned())).collect()
}

fn listed(kinds: &[(String, String)]) -> String {
    kinds.iter().map(|(kind, unit)| format!("{kind}/{unit}")).collect::<Vec<_>>().join(" ")
}

/// The default that those profiles agree on which name one.
fn default_sample_type(profiles: &[&Profile]) -> String {
    let named = profiles.iter().map(|profile| profile.string(profile.parts().default_sample_type));
    common(named.filter(|name| !name.is_empty()).map(str::to_owned))
}

/// What all say, or nothing.
fn common<T: Default + PartialEq>(mut all: impl Iterator<Item = T>) -> T {
    match all.next() {
        Some(first) if all.all(|other| other == first) => first,
        _ => T::default(),
    }
}

/// A regular expression for what any of them matches.
fn either(profiles: &[&Profile], text: fn(&Profile) -> &str) -> String {
    let texts: BTreeSet<&str> = profiles.iter().map(|profile| text(profile)).filter(|text| !text.is_empty()).collect();
    texts.into_iter().collect::<Vec<_>>().join("|")
}

/// The facts of ours, then all other comments in alphabetical order.
fn comments(profiles: &[&Profile]) -> Vec<String> {
    let metas: Vec<Meta> = profiles.iter().map(|profile| profile.meta()).collect();
    let mut comments = Meta::merged(&metas).to_comments();
    let others: BTreeSet<&str> =
        profiles.iter().flat_map(|profile| profile.comments()).filter(|text| !Meta::is_fact(text)).collect();
    comments.extend(others.into_iter().map(str::to_owned));
    comments
}
