//! Keeps samples, frames and labels by regular expressions and ranges, as pprof's options of the same names do.
//!
//! Options are applied in a fixed order: `focus`, `ignore`, `hide` and `show` together, then `show_from`, `tagfocus`
//! and `tagignore`, `tagshow` and `taghide`, and `prune_from` last. A name matches when the function, its source file
//! or the mapping's path does (for `prune_from`: the function's name without its arguments).
//!
//! ```
//! use procprof_profile::filter::{Filter, FilterOptions};
//! # use procprof_profile::ProfileBuilder;
//! # let mut builder = ProfileBuilder::new(&[("samples", "count")]);
//! # let (leaf, root) = (builder.frame("leaf"), builder.frame("root"));
//! # builder.sample(&[leaf, root], &[1], &[]);
//! # builder.sample(&[root], &[1], &[]);
//! # let profile = builder.finish().unwrap();
//! let filter = Filter::parse(&FilterOptions { focus: "^leaf$".into(), ..FilterOptions::default() })?;
//! let (focused, matches) = filter.apply(profile)?;
//! assert_eq!((focused.sample_count(), matches.focus), (1, Some(1)));
//! # Ok::<(), procprof_profile::Error>(())
//! ```

mod frames;
mod tags;
mod uninteresting;
mod units;

use regex::{Regex, RegexBuilder};

use crate::{Error, Profile, Result};
use tags::TagFilter;
pub use uninteresting::{Uninteresting, remove_uninteresting, remove_unnamed_allocators};

/// Longest text of an option, in bytes.
const LONGEST: usize = 16 << 10;
/// Largest compiled regular expression, in bytes.
const REGEX_SIZE: usize = 4 << 20;

/// The options as typed; an empty text is an option not given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FilterOptions {
    /// Regular expression: keeps samples with a matching frame.
    pub focus: String,
    /// Regular expression: drops samples with a matching frame.
    pub ignore: String,
    /// Regular expression: takes matching frames out.
    pub hide: String,
    /// Regular expression: takes all other frames out.
    pub show: String,
    /// Regular expression: takes out callers of the matching frame nearest the root, and samples without one.
    pub show_from: String,
    /// Regular expression: takes out what matching functions call.
    pub prune_from: String,
    /// Keeps samples with a matching label: `[key=]regex[,regex…]` for texts, `[key=]range` for numbers: `32kb`,
    /// `:64kb`, `4mb:`, `12kb:64mb`.
    pub tagfocus: String,
    /// Drops samples with a matching label, written as for `tagfocus`.
    pub tagignore: String,
    /// Regular expression: keeps labels with a matching key.
    pub tagshow: String,
    /// Regular expression: drops labels with a matching key.
    pub taghide: String,
}

/// The options as meant.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    focus: Option<Regex>,
    ignore: Option<Regex>,
    hide: Option<Regex>,
    show: Option<Regex>,
    show_from: Option<Regex>,
    prune_from: Option<Regex>,
    tagfocus: Option<TagFilter>,
    tagignore: Option<TagFilter>,
    tagshow: Option<Regex>,
    taghide: Option<Regex>,
}

/// How much each option matched; `None` for options not given. 0 is worth a warning: the option does nothing, or drops
/// everything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Matches {
    /// Samples with a matching frame.
    pub focus: Option<usize>,
    /// Samples with a matching frame.
    pub ignore: Option<usize>,
    /// Locations with a matching frame.
    pub hide: Option<usize>,
    /// Locations with a matching frame.
    pub show: Option<usize>,
    /// Samples with a matching frame.
    pub show_from: Option<usize>,
    /// Samples with a matching frame.
    pub prune_from: Option<usize>,
    /// Samples with a matching label.
    pub tagfocus: Option<usize>,
    /// Samples with a matching label.
    pub tagignore: Option<usize>,
    /// Labels with a matching key.
    pub tagshow: Option<usize>,
    /// Labels with a matching key.
    pub taghide: Option<usize>,
}

impl Filter {
    /// Reads the options.
    ///
    /// # Errors
    /// [`Error::Argument`] with the first text that is no regular expression or range, or is too large.
    pub fn parse(options: &FilterOptions) -> Result<Filter> {
        Ok(Filter {
            focus: optional(&options.focus)?,
            ignore: optional(&options.ignore)?,
            hide: optional(&options.hide)?,
            show: optional(&options.show)?,
            show_from: optional(&options.show_from)?,
            prune_from: optional(&options.prune_from)?,
            tagfocus: tag(&options.tagfocus)?,
            tagignore: tag(&options.tagignore)?,
            tagshow: optional(&options.tagshow)?,
            taghide: optional(&options.taghide)?,
        })
    }

    /// The profile with what the options leave of it, and how much each of them matched. Tables are compacted.
    ///
    /// # Errors
    /// [`Error::Invalid`] when the tables pass 2^32 entries.
    pub fn apply(&self, profile: Profile) -> Result<(Profile, Matches)> {
        let mut matches = Matches::default();
        let mut profile = frames::by_name(self, profile, &mut matches)?;
        if let Some(show_from) = &self.show_from {
            profile = frames::show_from(show_from, profile, &mut matches)?;
        }
        profile = tags::filter_samples(self, profile, &mut matches)?;
        profile = tags::filter_labels(self, profile, &mut matches)?;
        if let Some(prune_from) = &self.prune_from {
            profile = frames::prune_from(prune_from, profile, &mut matches)?;
        }
        let mut parts = profile.into_parts();
        parts.compact()?;
        Ok((parts.finish()?, matches))
    }
}

/// A regular expression from outside, bounded in length and size.
///
/// # Errors
/// [`Error::Argument`] when it is not one, or too large.
pub fn regex(text: &str) -> Result<Regex> {
    let wrong = |why: String| Error::Argument { argument: text.chars().take(256).collect(), why };
    if text.len() > LONGEST {
        return Err(wrong(format!("longer than {LONGEST} bytes")));
    }
    let built = RegexBuilder::new(text).size_limit(REGEX_SIZE).dfa_size_limit(REGEX_SIZE).build();
    built.map_err(|error| match error {
        regex::Error::CompiledTooBig(limit) => wrong(format!("a regular expression past {limit} bytes when compiled")),
        error => wrong(error.to_string().lines().last().unwrap_or("not a regular expression").to_owned()),
    })
}

fn optional(text: &str) -> Result<Option<Regex>> {
    if text.is_empty() { Ok(None) } else { regex(text).map(Some) }
}

fn tag(text: &str) -> Result<Option<TagFilter>> {
    if text.is_empty() { Ok(None) } else { TagFilter::parse(text).map(Some) }
}

#[cfg(test)]
mod tests;
