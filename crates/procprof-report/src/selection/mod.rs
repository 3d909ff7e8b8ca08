//! The part of a profile that a report is about: the filtered profile, on request without inlined frames or prefixes of
//! paths.

pub(crate) mod tag_frames;
pub(crate) mod view;
mod waiting_methods;

use std::borrow::Cow;

use foldhash::HashMap;
use procprof_profile::filter::Filter;
use procprof_profile::{LocationId, Parts, Profile, StringId};

use crate::display::place::trimmed_path;
use crate::selection::tag_frames::with_tag_frames;
use crate::{Options, Result};

/// The selected profile. Without options, nothing is copied.
pub(crate) struct Selection<'a> {
    profile: Cow<'a, Profile>,
}

impl<'a> Selection<'a> {
    /// Adds the frames of labels, applies the filters, then `noinlines`, then `trim_path` and `source_path`.
    pub(crate) fn new(profile: &'a Profile, options: &Options) -> Result<Selection<'a>> {
        options.budget.go_on()?;
        let mut profile = Cow::Borrowed(profile);
        if !options.tagroot.is_empty() || !options.tagleaf.is_empty() {
            profile = Cow::Owned(with_tag_frames(profile.into_owned(), options)?);
        }
        if !options.active_filters().is_empty() || !options.filters.prune_from.is_empty() {
            profile = Cow::Owned(Filter::parse(&options.filters)?.apply(profile.into_owned())?.0);
        }
        if options.noinlines {
            profile = Cow::Owned(without_inlined(profile.into_owned(), options.showcolumns)?);
        }
        if !options.trim_path.is_empty() || !options.source_path.is_empty() {
            profile = Cow::Owned(with_trimmed_paths(profile.into_owned(), options)?);
        }
        Ok(Selection { profile })
    }

    pub(crate) fn profile(&self) -> &Profile {
        &self.profile
    }

    /// The profile with its values divided by `divide_by`, for reports that show sums of them.
    pub(crate) fn divided(self, options: &Options) -> Result<Selection<'a>> {
        if options.divide_by == 1.0 {
            return Ok(self);
        }
        let mut parts = self.profile.into_owned().into_parts();
        for value in parts.values.iter_mut().chain(&mut parts.raw_values) {
            *value = options.divided(*value);
        }
        Ok(Selection { profile: Cow::Owned(parts.finish()?) })
    }
}

/// Only the function that machine code is in, not those inlined into it, with columns only on request.
fn without_inlined(profile: Profile, with_columns: bool) -> Result<Profile> {
    let mut parts = Parts { locations: Vec::new(), lines: Vec::new(), ..profile.parts().clone() };
    for (index, location) in profile.locations().iter().enumerate() {
        let lines = profile.lines(LocationId(index as u32));
        let mut outermost = lines.get(lines.len().saturating_sub(1)..).unwrap_or_default().to_vec();
        if !with_columns {
            outermost.iter_mut().for_each(|line| line.column = 0);
        }
        parts.push_location(*location, &outermost)?;
    }
    parts.mappings.iter_mut().for_each(|mapping| mapping.has_inline_frames = false);
    Ok(parts.finish()?)
}

fn with_trimmed_paths(profile: Profile, options: &Options) -> Result<Profile> {
    let mut parts = profile.parts().clone();
    let mut new_ids: HashMap<StringId, StringId> = HashMap::default();
    for function in &mut parts.functions {
        let path = profile.string(function.filename);
        let strings = &mut parts.strings;
        let id = new_ids.entry(function.filename).or_insert_with_key(|old| {
            let trimmed = trimmed_path(path, &options.trim_path, &options.source_path);
            // If the table is full, the path stays as it is.
            if trimmed.len() < path.len() { strings.push(trimmed).unwrap_or(*old) } else { *old }
        });
        function.filename = *id;
    }
    Ok(parts.finish()?)
}
