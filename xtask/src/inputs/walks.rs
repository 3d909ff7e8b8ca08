//! Profiles whose call trees have up to ten million nodes, for the viewer: seeded random walks, and the worst case.

use std::path::Path;

use anyhow::{Context, Result, bail};
use procprof_profile::format::pprof;
use procprof_profile::{LocationId, ProfileBuilder};

use super::Random;

/// Frames of each stack of a walk, and the number of names.
const DEPTH: usize = 128;
const NAMES: u64 = 20_000;
/// A stack leaves another one at most this many frames before its end; so it adds about 23.5 nodes.
const OWN_MAX: u64 = 47;

/// The shape of a call tree.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Shape {
    /// That many stacks, each of which leaves an earlier one somewhere.
    Walk(usize),
    /// 1,600 stacks of 600 frames that have nothing in common: every box is a pixel wide on a usual screen.
    Wide,
}

/// Trees by name: of about 100,000, 1,000,000 and 10,000,000 nodes, and one of 960,000 where 88,000 boxes are seen.
pub(crate) const TREES: [(&str, Shape); 4] = [
    ("n100k", Shape::Walk(4_250)),
    ("n1m", Shape::Walk(42_500)),
    ("n10m", Shape::Walk(425_000)),
    ("wide", Shape::Wide),
];

/// Writes the named profiles, or all, to a folder as `NAME.pb.gz`.
pub(crate) fn write_trees(folder: &Path, wanted: &[String]) -> Result<()> {
    if let Some(unknown) = wanted.iter().find(|name| !TREES.iter().any(|(known, _)| known == name)) {
        let known: Vec<&str> = TREES.iter().map(|(name, _)| *name).collect();
        bail!("no input {unknown:?}; there are {}", known.join(", "));
    }
    std::fs::create_dir_all(folder).with_context(|| format!("make {}", folder.display()))?;
    for (name, shape) in TREES.iter().filter(|(name, _)| wanted.is_empty() || wanted.iter().any(|one| one == name)) {
        let path = folder.join(format!("{name}.pb.gz"));
        std::fs::write(&path, tree(*shape)?).with_context(|| format!("write {}", path.display()))?;
        println!("{}", path.display());
    }
    Ok(())
}

/// A CPU profile with this call tree, as gzip'd pprof.
pub(crate) fn tree(shape: Shape) -> Result<Vec<u8>> {
    let mut builder = ProfileBuilder::new(&[("samples", "count"), ("cpu", "nanoseconds")]);
    let frame = |builder: &mut ProfileBuilder, number: u64| {
        builder.frame(&format!("engine_{}::operators::Pipeline<Row>::step_{number}", number % 61))
    };
    let names: Vec<LocationId> = (0..NAMES).map(|number| frame(&mut builder, number)).collect();
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let mut stacks: Vec<Vec<u32>> = Vec::new();
    let (count, depth) = match shape {
        Shape::Walk(stacks) => (stacks, DEPTH),
        Shape::Wide => (1_600, 600),
    };
    for number in 0..count {
        let shared = match shape {
            Shape::Walk(_) if number > 0 => depth - 1 - random.below(OWN_MAX) as usize,
            _ => 0,
        };
        let mut stack: Vec<u32> = Vec::with_capacity(depth);
        if shared > 0 {
            // From the root.
            stack.extend_from_slice(&stacks[random.below(number as u64) as usize][..shared]);
        }
        while stack.len() < depth {
            stack.push(random.below(NAMES) as u32);
        }
        let leaf_first: Vec<LocationId> = stack.iter().rev().map(|name| names[*name as usize]).collect();
        builder.sample(&leaf_first, &[1, 10_000_000], &[]);
        stacks.push(stack);
    }
    builder.period("cpu", "nanoseconds", 10_000_000);
    Ok(pprof::encode_gzip(&builder.finish()?)?)
}
