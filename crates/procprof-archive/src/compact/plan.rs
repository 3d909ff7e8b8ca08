//! What is merged and what is dropped: decided from the parts that are there.

use std::collections::BTreeMap;

use crate::archive::Archive;
use crate::compact::FrameNames;
use crate::part::Span;
use crate::write::PartLimits;
use crate::{Part, Result, Table};

/// The next parts of a day that are worth merging, as many as a part can have rows; `None` if there are no more.
pub(super) fn group(
    archive: &Archive,
    parts: &[Part],
    limits: &PartLimits,
    names: &mut dyn FrameNames,
    failed: &mut Vec<String>,
) -> Result<Option<Vec<Part>>> {
    let mut parts = parts.to_vec();
    parts.sort_by_key(|part| (part.span != Span::Day, *part));
    // What was compacted already stays as it is while nothing is added.
    let has_hours = parts.len() > 1 && parts.iter().any(|part| part.span == Span::Hour);
    if !has_hours && names.is_empty() {
        return Ok(None);
    }
    let mut group: Vec<Part> = Vec::new();
    let mut rows = 0;
    for part in parts {
        let more = match archive.open(part, Table::Samples) {
            Ok(file) => file.rows(),
            Err(error) if error.is_of_file() => {
                failed.push(error.to_string());
                continue;
            }
            Err(error) => return Err(error),
        };
        if rows + more > limits.rows as u64 {
            if is_worth(archive, &group, names)? {
                return Ok(Some(group));
            }
            group.clear();
            rows = 0;
        }
        group.push(part);
        rows += more;
    }
    Ok(if is_worth(archive, &group, names)? { Some(group) } else { None })
}

fn is_worth(archive: &Archive, group: &[Part], names: &mut dyn FrameNames) -> Result<bool> {
    if group.len() > 1 && group.iter().any(|part| part.span == Span::Hour) {
        return Ok(true);
    }
    if names.is_empty() {
        return Ok(false);
    }
    for part in group {
        if archive.wants(*part, names)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The oldest parts, of whole hours or days, without which the others are within a limit of bytes.
pub(super) fn oldest(parts: &BTreeMap<Part, u64>, bytes_max: u64) -> Vec<(Part, u64)> {
    let mut left: u64 = parts.values().sum();
    let mut dropped: Vec<(Part, u64)> = Vec::new();
    let mut ordered: Vec<(Part, u64)> = parts.iter().map(|(part, bytes)| (*part, *bytes)).collect();
    ordered.sort_by_key(|(part, _)| (part.end(), part.start()));
    for (part, bytes) in ordered {
        let is_begun = dropped.last().is_some_and(|(last, _)| (last.start(), last.end()) == (part.start(), part.end()));
        if left <= bytes_max && !is_begun {
            break;
        }
        left -= bytes;
        dropped.push((part, bytes));
    }
    dropped
}

#[cfg(test)]
mod tests {
    use super::oldest;
    use crate::{Hour, Part, Writer};

    #[test]
    fn whole_hours_are_dropped() {
        let part = |hour, number| Part::of_hour(Hour(hour), Writer(1), number);
        let parts = [(part(1, 0), 10), (part(1, 1), 10), (part(2, 0), 10), (part(3, 0), 10)].into();
        let cases = [(40, 0), (39, 2), (20, 2), (19, 3), (0, 4)];
        for (bytes_max, dropped) in cases {
            assert_eq!(oldest(&parts, bytes_max).len(), dropped, "{bytes_max}");
        }
    }
}
