//! The thumbnail of a flame graph: [`COLUMNS`] x [`ROWS`] cells, a byte each, root row first.
//!
//! A cell is 0 for nothing, else 1 to 255 for the function there: the same function has the same number in every profile, so that profiles that
//! look alike are alike. Frames that every sample begins with say nothing and are left out.

use procprof_profile::{LocationId, Profile};

use super::summary::name;

/// Cells side by side.
pub(crate) const COLUMNS: usize = 96;
/// Cells above one another.
pub(crate) const ROWS: usize = 8;
/// Frames looked at from the root; deeper ones cannot be reached by eight rows behind the common beginning.
const DEPTH: usize = 64;
const SAMPLES_MAX: usize = 20_000;

type Path = ([u8; DEPTH], i64);

/// Draws the strip; empty for a profile without values.
pub(crate) fn draw(profile: &Profile) -> Vec<u8> {
    let column = profile.default_sample_type();
    let samples = profile.samples().take(SAMPLES_MAX);
    let mut paths: Vec<Path> = samples
        .map(|sample| (colours(profile, sample.stack), sample.values.get(column).copied().unwrap_or(0)))
        .filter(|(_, value)| *value > 0)
        .collect();
    paths.sort_unstable();
    let total: i128 = paths.iter().map(|(_, value)| i128::from(*value)).sum();
    if total == 0 {
        return Vec::new();
    }
    let skip = common(&paths);
    let mut strip = vec![0; COLUMNS * ROWS];
    let mut sum = 0_i128;
    for (colours, value) in &paths {
        let from = (sum * COLUMNS as i128 / total) as usize;
        sum += i128::from(*value);
        let to = (sum * COLUMNS as i128 / total) as usize;
        for row in 0..ROWS {
            strip[row * COLUMNS + from..row * COLUMNS + to].fill(colours.get(skip + row).copied().unwrap_or(0));
        }
    }
    strip
}

/// The colours of a stack from the root, zero behind its leaf.
fn colours(profile: &Profile, stack: &[LocationId]) -> [u8; DEPTH] {
    let mut colours = [0; DEPTH];
    let frames = stack.iter().rev().flat_map(|location| {
        let lines = profile.lines(*location);
        // A location without symbols is still a frame.
        let unknown = lines.is_empty().then_some(1);
        lines.iter().rev().map(|line| colour(name(profile, line.function))).chain(unknown)
    });
    for (slot, colour) in colours.iter_mut().zip(frames) {
        *slot = colour;
    }
    colours
}

/// How many frames all paths have in common from the root, leaving something to see.
fn common(paths: &[Path]) -> usize {
    let Some((first, _)) = paths.first() else { return 0 };
    let alike = |depth: &usize| first[*depth] != 0 && paths.iter().all(|(path, _)| path[*depth] == first[*depth]);
    // The last of them stays as the ground, and a profile of one stack is not all ground.
    let alike = (0..DEPTH - ROWS).take_while(alike).count();
    if first[alike] == 0 { alike.saturating_sub(ROWS) } else { alike.saturating_sub(1) }
}

/// FNV-1a, folded to 1..=255.
fn colour(name: &str) -> u8 {
    let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    (hash % 255) as u8 + 1
}
