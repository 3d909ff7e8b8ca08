//! The thumbnail of a flame graph: [`COLUMNS`] x [`ROWS`] cells, a byte each, root row first.
//!
//! A cell is 0 for nothing, else 1 to 255 for the function there: the same function has the same number in every
//! profile, so that similar profiles look similar. The frames with which nearly all stacks begin distinguish nothing
//! and are left out.

use procprof_profile::{FunctionId, LocationId, Profile};

use super::summary::name;

/// Cells side by side.
pub const COLUMNS: usize = 96;
/// Cells above one another.
pub const ROWS: usize = 8;
/// Frames looked at from the root; deeper ones cannot be reached by eight rows behind the common beginning.
const DEPTH: usize = 64;
const SAMPLES_MAX: usize = 20_000;
/// The share of the values that counts as nearly all, percent.
const TRUNK_PERCENT: i128 = 85;

type Path = ([u8; DEPTH], i64);

/// Draws the thumbnail; empty for a profile without values.
pub(crate) fn draw(profile: &Profile) -> Vec<u8> {
    let column = profile.default_sample_type();
    let samples = profile.samples().take(SAMPLES_MAX);
    let functions: Vec<u8> =
        (0..profile.functions().len()).map(|index| colour(name(profile, FunctionId(index as u32)))).collect();
    let mut paths: Vec<Path> = samples
        .map(|sample| (colours(profile, &functions, sample.stack), sample.values.get(column).copied().unwrap_or(0)))
        .filter(|(_, value)| *value > 0)
        .collect();
    paths.sort_unstable();
    let total = sum(&paths);
    if total == 0 {
        return Vec::new();
    }
    let skip = common(&paths, total);
    let mut thumbnail = vec![0; COLUMNS * ROWS];
    let mut passed = 0_i128;
    for (colours, value) in &paths {
        let from = (passed * COLUMNS as i128 / total) as usize;
        passed += i128::from(*value);
        let to = (passed * COLUMNS as i128 / total) as usize;
        for row in 0..ROWS {
            thumbnail[row * COLUMNS + from..row * COLUMNS + to].fill(colours.get(skip + row).copied().unwrap_or(0));
        }
    }
    thumbnail
}

/// The colours of a stack from the root, zero behind its leaf, by those of functions.
fn colours(profile: &Profile, functions: &[u8], stack: &[LocationId]) -> [u8; DEPTH] {
    let mut colours = [0; DEPTH];
    let frames = stack.iter().rev().flat_map(|location| {
        let lines = profile.lines(*location);
        // A location without symbols is still a frame.
        let unknown = lines.is_empty().then_some(1);
        lines.iter().rev().map(|line| functions[line.function.index()]).chain(unknown)
    });
    for (slot, colour) in colours.iter_mut().zip(frames) {
        *slot = colour;
    }
    colours
}

/// How many frames from the root to leave out: what nearly all values have in common but the last, and no more than
/// lets nearly all reach the top row.
fn common(paths: &[Path], total: i128) -> usize {
    let mut trunk = paths;
    let mut depth = 0;
    while depth < DEPTH - ROWS {
        let widest = trunk.chunk_by(|(a, _), (b, _)| a[depth] == b[depth]).max_by_key(|branch| sum(branch));
        match widest.filter(|branch| branch[0].0[depth] != 0 && sum(branch) * 100 >= total * TRUNK_PERCENT) {
            Some(branch) => trunk = branch,
            None => break,
        }
        depth += 1;
    }
    depth.saturating_sub(1).min(height(paths, total).saturating_sub(ROWS))
}

/// The depth that nearly all values stay within.
fn height(paths: &[Path], total: i128) -> usize {
    let mut ends = [0_i128; DEPTH + 1];
    for (colours, value) in paths {
        ends[colours.iter().take_while(|colour| **colour != 0).count()] += i128::from(*value);
    }
    let mut within = 0;
    let reached = ends.iter().position(|value| {
        within += value;
        within * 100 >= total * TRUNK_PERCENT
    });
    reached.unwrap_or(DEPTH)
}

fn sum(paths: &[Path]) -> i128 {
    paths.iter().map(|(_, value)| i128::from(*value)).sum()
}

/// FNV-1a, folded to 1..=255.
fn colour(name: &str) -> u8 {
    let hash = name
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    (hash % 255) as u8 + 1
}
