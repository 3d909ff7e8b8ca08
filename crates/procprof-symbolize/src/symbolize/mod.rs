//! Symbolizing a profile: each source in turn is queried for the locations that are still unknown.

mod lines;
mod names;
mod release;
mod wanted;

use procprof_profile::{Addresses, FunctionId, Line, LocationId, Mapping, MappingId, Parts, Profile};

use self::lines::FunctionWriter;
pub use self::names::{NameStyle, style_names};
use self::release::{release_answers, release_images};
pub use self::wanted::WantedShare;
use crate::outcome::{MappingOutcome, Outcome, Proof};
use crate::sources::{Answer, Inquiries, SOURCES, Sources, begin_kernel_symbols};
use crate::{Error, Frame, Resolved, Result};

/// Fills in functions, files, lines and inlined frames of all locations that have none, and demangles the names that
/// others came with.
///
/// Addresses are kept, and build ids of proven files added, so that it can be repeated when better symbols arrive. Errs
/// with [`Error::NotAdjusted`] if the addresses are not call sites, and if the symbols do not fit into a profile; the
/// [`Outcome`] lists what could not be found.
pub fn symbolize_profile(profile: Profile, sources: &mut Sources<'_>) -> Result<(Profile, Outcome)> {
    if profile.addresses() != Addresses::CallSite {
        return Err(Error::NotAdjusted);
    }
    let mut inquiries = Inquiries::from_profile(&profile, sources);
    begin_kernel_symbols(&mut inquiries, sources);
    for row in SOURCES {
        (row.ask)(&mut inquiries, sources);
    }
    let answers = answers(&mut inquiries);
    let images = inquiries.all.iter_mut().filter_map(|inquiry| inquiry.found.take()).map(|found| found.image).collect();
    let outcome = outcome(inquiries);
    release_images(images);
    let written = write(profile, &answers, outcome);
    release_answers(answers);
    written
}

/// The answers by location; `None` for those that had symbols before.
fn answers(inquiries: &mut Inquiries<'_>) -> Vec<Option<Answer>> {
    let mut answers = vec![None; inquiries.profile.locations().len()];
    for inquiry in &mut inquiries.all {
        for (id, answer) in inquiry.locations.iter().zip(std::mem::take(&mut inquiry.answers)) {
            answers[id.index()] = Some(answer);
        }
    }
    answers
}

/// Used and refused files by mapping; last, for locations in none, the files used for them. The locations are not
/// counted yet.
fn outcome(inquiries: Inquiries<'_>) -> Outcome {
    let profile = inquiries.profile;
    let unused = inquiries.unused();
    let of_mapping = |(index, mapping): (usize, &Mapping)| MappingOutcome {
        mapping: Some(MappingId(index as u32)),
        filename: profile.string(mapping.filename).to_owned(),
        build_id: profile.string(mapping.build_id).to_owned(),
        ..MappingOutcome::default()
    };
    let mut mappings: Vec<MappingOutcome> = profile.mappings().iter().enumerate().map(of_mapping).collect();
    mappings.push(MappingOutcome::default());
    for inquiry in &inquiries.all {
        let nowhere = [mappings.len() - 1];
        let indexes: Vec<usize> = inquiry.mapping_ids.iter().map(|id| id.index()).collect();
        for index in if indexes.is_empty() { &nowhere[..] } else { &indexes } {
            mappings[*index].used.extend(inquiry.used.iter().cloned());
            mappings[*index].refused.extend(inquiry.refused.iter().cloned());
            mappings[*index].index_key.clone_from(&inquiry.index_key);
            mappings[*index].fitting_keys.clone_from(&inquiry.fitting_keys);
        }
    }
    Outcome { mappings, unused_binaries: unused, process_error: inquiries.process_error, failures: inquiries.failures }
}

/// Writes the answers into the profile and counts them.
fn write(profile: Profile, answers: &[Option<Answer>], mut outcome: Outcome) -> Result<(Profile, Outcome)> {
    let ids = (0..profile.locations().len()).map(|index| LocationId(index as u32));
    let old_counts: Vec<usize> = ids.clone().map(|id| profile.lines(id).len()).collect();
    let old_lines: Vec<Line> = ids.flat_map(|id| profile.lines(id)).copied().collect();
    let mut old_lines = old_lines.as_slice();
    let mut parts = profile.into_parts();
    let mut writer = FunctionWriter::new(&parts);
    let own_functions = parts.functions.len();
    let mut functions = writer.functions(&mut parts, answers.iter().flatten().flat_map(Answer::frames))?.into_iter();
    let count = parts.locations.len();
    let locations = std::mem::replace(&mut parts.locations, Vec::with_capacity(count));
    parts.lines = Vec::with_capacity(old_lines.len() + functions.len());
    let mut lines: Vec<Line> = Vec::new();
    for (index, location) in locations.into_iter().enumerate() {
        let slot = location.mapping.map_or(outcome.mappings.len() - 1, MappingId::index);
        let of_mapping = &mut outcome.mappings[slot];
        let (kept, rest) = old_lines.split_at(old_counts[index]);
        old_lines = rest;
        let Some(answer) = &answers[index] else {
            of_mapping.already += 1;
            parts.push_location(location, kept)?;
            continue;
        };
        match (&answer.resolved, answer.source) {
            (Resolved::Frames(_), Some(source)) => of_mapping.count_resolved(source),
            (Resolved::Frames(_), None) => {}
            (Resolved::Unknown(reason), _) => of_mapping.count_unresolved(*reason),
        }
        let frames = answer.frames();
        lines.clear();
        lines.extend(frames.iter().zip(functions.by_ref()).map(|(frame, function)| line(frame, function)));
        parts.push_location(location, &lines)?;
        if let Some(id) = location.mapping.filter(|_| !frames.is_empty()) {
            mark(&mut parts.mappings[id.index()], frames);
        }
    }
    fill_build_ids(&mut outcome.mappings, &mut parts, &mut writer)?;
    names::demangle_names(&mut parts, &mut writer, own_functions)?;
    outcome.mappings.retain(|mapping| mapping.already + mapping.resolved_count() + mapping.unresolved_count() > 0);
    Ok((parts.finish()?, outcome))
}

fn line(frame: &Frame, function: FunctionId) -> Line {
    Line { function, line: frame.line.map_or(0, i64::from), column: frame.column.map_or(0, i64::from) }
}

fn mark(mapping: &mut Mapping, frames: &[Frame]) {
    mapping.has_functions = true;
    mapping.has_filenames |= frames.iter().any(|frame| frame.file.is_some());
    mapping.has_line_numbers |= frames.iter().any(|frame| frame.line.is_some());
    mapping.has_inline_frames |= frames.len() > 1;
}

/// Adds the build ids of proven files to mappings without one.
fn fill_build_ids(outcomes: &mut [MappingOutcome], parts: &mut Parts, writer: &mut FunctionWriter) -> Result<()> {
    for outcome in outcomes.iter_mut().filter(|outcome| outcome.build_id.is_empty()) {
        let proven =
            outcome.used.iter().filter(|used| used.proof == Proof::Verified).find_map(|used| used.build_id.as_ref());
        if let (Some(id), Some(build_id)) = (outcome.mapping, proven) {
            outcome.build_id = build_id.to_string();
            parts.mappings[id.index()].build_id = writer.string(parts, &outcome.build_id)?;
        }
    }
    Ok(())
}
