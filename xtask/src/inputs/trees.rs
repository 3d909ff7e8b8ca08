//! Profiles by the size of their call trees: seeded random walks of 128 frames that share their callers with the stack
//! before, over some 20,000 names, with a long tail of values; and the widest tree, in which nothing is shared and
//! every box is a pixel wide.

use std::path::Path;

use anyhow::{Context, Result, bail};
use procprof_profile::format::pprof;
use procprof_profile::{LocationId, Nanos, Profile, ProfileBuilder};

use super::Random;

/// Frames of a stack of the walks.
const DEPTH: usize = 128;
/// Frames that a stack of the walks does not share with the one before, on average; from it follows the number of
/// nodes.
const OWN_FRAMES: u64 = 24;
const NAMES: u64 = 20_000;
/// Stacks of the widest tree, and frames of each.
const COLUMNS: usize = 1_600;
const ROWS: usize = 600;

/// A profile: its name, and the number of stacks of a walk.
const INPUTS: &[(&str, Option<usize>)] =
    &[("n100k", Some(4_080)), ("n1m", Some(40_800)), ("n10m", Some(408_000)), ("wide", None)];

/// Writes the named inputs, or all, to a folder as `NAME.pb.gz`.
pub(crate) fn write_trees(folder: &Path, wanted: &[String]) -> Result<()> {
    if let Some(unknown) = wanted.iter().find(|name| !INPUTS.iter().any(|(known, _)| known == name)) {
        let known: Vec<&str> = INPUTS.iter().map(|(name, _)| *name).collect();
        bail!("no input {unknown:?}; there are {}", known.join(", "));
    }
    std::fs::create_dir_all(folder).with_context(|| format!("make {}", folder.display()))?;
    for (name, stacks) in
        INPUTS.iter().filter(|(name, _)| wanted.is_empty() || wanted.iter().any(|wanted| wanted == name))
    {
        let path = folder.join(format!("{name}.pb.gz"));
        let profile = match stacks {
            Some(stacks) => walk(*stacks)?,
            None => widest()?,
        };
        std::fs::write(&path, pprof::encode_gzip(&profile)?).with_context(|| format!("write {}", path.display()))?;
        println!("{}: {} stacks", path.display(), profile.sample_count());
    }
    Ok(())
}

/// A walk: each stack leaves the one before at a random place, mostly near the leaf, and goes on by other frames.
fn walk(stacks: usize) -> Result<Profile> {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let mut builder = builder();
    let frames = frames(&mut builder);
    let mut stack: Vec<LocationId> = Vec::new();
    for _ in 0..stacks {
        // Of two random lengths the smaller: mostly short, seldom whole stacks.
        let own = random.below(OWN_FRAMES * 3).min(random.below(OWN_FRAMES * 3)) as usize + 1;
        stack.truncate(DEPTH.saturating_sub(own).min(stack.len()));
        while stack.len() < DEPTH {
            stack.push(frames[name(&mut random)]);
        }
        let samples = long_tailed(&mut random);
        let leaf_first: Vec<LocationId> = stack.iter().rev().copied().collect();
        builder.sample(&leaf_first, &[samples, samples * 10_000_000], &[]);
    }
    Ok(builder.finish()?)
}

/// The widest tree: stacks that share nothing, of one value.
fn widest() -> Result<Profile> {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let mut builder = builder();
    let frames = frames(&mut builder);
    for column in 0..COLUMNS {
        // The outermost frame is the column's own.
        let mut stack: Vec<LocationId> = (1..ROWS).map(|_| frames[name(&mut random)]).collect();
        stack.push(frames[column]);
        builder.sample(&stack, &[1, 10_000_000], &[]);
    }
    Ok(builder.finish()?)
}

fn builder() -> ProfileBuilder {
    let mut builder = ProfileBuilder::new(&[("samples", "count"), ("cpu", "nanoseconds")]);
    builder.period("cpu", "nanoseconds", 10_000_000);
    builder.time(Nanos(1_700_000_000_000_000_000), Nanos(60_000_000_000));
    builder
}

fn frames(builder: &mut ProfileBuilder) -> Vec<LocationId> {
    (0..NAMES)
        .map(|number| builder.frame(&format!("server::module_{}::Type<T>::function_{number}", number % 97)))
        .collect()
}

/// The number of a name: of two random ones the smaller, so that some functions are called more often than others.
fn name(random: &mut Random) -> usize {
    random.below(NAMES).min(random.below(NAMES)) as usize
}

/// A number of samples: one half are 1, a quarter 2 or 3, an eighth 4 to 7, …
fn long_tailed(random: &mut Random) -> i64 {
    let octave = random.below(1 << 12).leading_zeros() - (u64::BITS - 12);
    let least = 1 << octave;
    least + random.below(least as u64) as i64
}
