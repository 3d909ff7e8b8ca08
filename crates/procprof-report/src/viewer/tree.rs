//! A merged call tree, of one profile or of the comparison of two, independent of the profiles.

use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

use procprof_profile::{Profile, diff};

use super::about::{About, Shares, unnamed};
use super::join::{Member, Side, join};
use super::nodes::{Copied, Nodes, Summing};
use super::note::Note;
use super::slice::Extent;
use super::wire::{Source, encode};
use crate::display::frame::Frame;
use crate::selection::view::View;
use crate::stacks::stack_tree::Shown;
use crate::{Budget, Error, Options, Result};

/// Most frames: two bits of their numbers are used otherwise.
const FRAMES_MAX: usize = 1 << 30;

/// The merged call tree of the filtered stacks, without the profile.
///
/// Nodes are numbered in preorder, siblings ordered by name, and frames are numbered by name, so the same profile and
/// options always give the same numbers.
#[derive(Debug)]
pub struct Tree {
    pub(super) frames: Arc<Vec<Frame>>,
    pub(super) nodes: Nodes,
    /// The number of nodes of each frame, counted by the first search.
    uses: OnceLock<Vec<u32>>,
    depth: u32,
    pub(super) about: Arc<About>,
    /// Whether names and texts are those of another tree.
    is_part: bool,
}

impl Tree {
    /// The tree of a profile; with a base, of the difference between them. A profile that is itself a difference, with
    /// samples labelled as those of the base ([`procprof_profile::diff::diff_base`]), is taken apart.
    ///
    /// The sample type of the base is that of the same name. A difference has the values of both: `normalize` does not
    /// change them, but marks those of the base as to be scaled.
    ///
    /// # Errors
    /// [`Error::Value`] for an option that does not fit the profile, [`Error::Profile`] for a base without that sample
    /// type, or to be scaled by durations that are not known, [`Error::MemoryLimit`], [`Error::Stopped`].
    pub fn new(profile: Cow<'_, Profile>, base: Option<Cow<'_, Profile>>, options: &Options) -> Result<Tree> {
        if base.is_none()
            && let Some((profile, base)) = diff::split(&profile)?
        {
            return Tree::new(Cow::Owned(profile), Some(Cow::Owned(base)), options);
        }
        let view = View::new(profile, options)?;
        match base {
            None => Tree::plain(&view, options),
            Some(base) => Tree::compared(view, View::new(base, options)?, options),
        }
    }

    /// The tree of a profile as it is shown; of a difference with a labelled base, that of both.
    pub(crate) fn from_view(view: &View<'_>, options: &Options) -> Result<Tree> {
        let Some((profile, base)) = diff::split(&view.profile)? else { return Tree::plain(view, options) };
        let side = |profile| View {
            profile: Cow::Owned(profile),
            left_out: view.left_out.clone(),
            left_out_waits: view.left_out_waits.clone(),
        };
        Tree::compared(side(profile), side(base), options)
    }

    fn plain(view: &View<'_>, options: &Options) -> Result<Tree> {
        let half = Half::new(&view.profile, options)?;
        let about = About::new(view, &half.shares(), options);
        half.whole(about, options)
    }

    fn compared(view: View<'_>, base: View<'_>, options: &Options) -> Result<Tree> {
        let mut half = Half::new(&view.profile, options)?;
        let base_options =
            Options { sample_index: same_type(&view.profile, half.sample_type, &base.profile)?, ..options.clone() };
        let mut base_half = Half::new(&base.profile, &base_options)?;
        let mut about = About::new(&view, &half.shares(), options);
        about.compare(&view.profile, &base.profile, &base_half.shares(), options)?;
        drop((view, base));
        number_together(&mut half, &mut base_half);
        let sides = [
            Side { nodes: &half.nodes, copied: Copied::AsTheyAre },
            Side { nodes: &base_half.nodes, copied: Copied::AsBase },
        ];
        let roots = [Member { side: 0, node: 0 }, Member { side: 1, node: 0 }];
        let nodes = join(&sides, &roots, true, &options.budget)?;
        Half { nodes, ..half }.finish(about, options)
    }

    /// The node and the profile type, as far as known, or the title that the options have.
    pub fn title(&self) -> &str {
        &self.about.title
    }

    /// Lines below the title: time, duration, total, and what is measured.
    pub fn facts(&self) -> &[String] {
        &self.about.facts
    }

    /// What is filtered, left out or lost.
    pub fn notes(&self) -> &[Note] {
        &self.about.notes
    }

    /// The number of nodes.
    pub fn node_count(&self) -> u32 {
        self.nodes.len()
    }

    /// Bytes that the tree takes in memory, without the names that it shares with the tree that it is a part of.
    pub fn memory_bytes(&self) -> u64 {
        let frame = |frame: &Frame| size_of::<Frame>() + frame.name.len() + frame.remark.len();
        let names = if self.is_part { 0 } else { self.frames.iter().map(frame).sum::<usize>() as u64 };
        let uses = self.frames.len() * size_of::<u32>();
        self.nodes.bytes() + names + uses as u64
    }

    /// The number of nodes of each frame.
    pub(super) fn uses(&self) -> &[u32] {
        self.uses.get_or_init(|| {
            let mut uses = vec![0; self.frames.len()];
            (1..self.nodes.len()).for_each(|node| uses[self.nodes.frame(node) as usize] += 1);
            uses
        })
    }

    /// Other nodes with the names of this tree.
    pub(super) fn part(&self, nodes: Nodes) -> Tree {
        let (frames, about) = (Arc::clone(&self.frames), Arc::clone(&self.about));
        Tree { depth: nodes.depth(), frames, nodes, uses: OnceLock::new(), about, is_part: true }
    }

    /// The visible part below a node, encoded for the viewer: the nodes of that extent, and the path to the node.
    ///
    /// # Errors
    /// [`Error::Value`] for a node that is not there, [`Error::MemoryLimit`], [`Error::OutputLimit`].
    pub fn slice(&self, node: u32, extent: &Extent, budget: &Budget) -> Result<Vec<u8>> {
        budget.go_on()?;
        if node >= self.nodes.len() {
            return Err(Error::value("node", &node.to_string(), format!("the tree has {} nodes", self.nodes.len())));
        }
        let source = Source { nodes: &self.nodes, depth: self.depth, frames: &self.frames, about: &self.about };
        encode(&source, node, extent, budget)
    }
}

/// The tree of one profile, with its own numbers of frames.
struct Half {
    frames: Vec<Frame>,
    nodes: Nodes,
    sample_type: usize,
    profile_total: i64,
    samples: usize,
}

impl Half {
    fn new(profile: &Profile, options: &Options) -> Result<Half> {
        let profile_total = options.divided(profile.total(options.sample_type(profile)?));
        let shown = Shown::new(profile, options)?;
        let mut summing = Summing::new(&options.budget);
        let samples = shown.merge(&mut summing)?;
        let (frames, sample_type) = (shown.frames.frames, shown.sample_type);
        if frames.len() > FRAMES_MAX {
            return Err(Error::MemoryLimit { table: "the table of names", most: FRAMES_MAX as u64 });
        }
        Ok(Half { frames, nodes: summing.finish(), sample_type, profile_total, samples })
    }

    fn shares(&self) -> Shares {
        let Half { sample_type, profile_total, samples, .. } = *self;
        Shares { sample_type, profile_total, total: self.nodes.total(0), samples }
    }

    /// The tree of this half alone.
    fn whole(mut self, about: About, options: &Options) -> Result<Tree> {
        let mut order: Vec<u32> = (0..self.frames.len() as u32).collect();
        order.sort_unstable_by(|one, other| self.frames[*one as usize].cmp(&self.frames[*other as usize]));
        let mut numbers = vec![0; order.len()];
        order.iter().zip(0..).for_each(|(old, new)| numbers[*old as usize] = new);
        self.nodes.renumber(&numbers);
        self.frames.sort_unstable();
        self.finish(about, options)
    }

    fn finish(self, mut about: About, options: &Options) -> Result<Tree> {
        let Half { frames, nodes, .. } = self;
        about.notes.extend(unnamed(&frames, &nodes));
        let nodes = match path(&frames, &nodes, &options.root)? {
            Some(path) => nodes.below(&path, &options.budget)?,
            None => nodes,
        };
        Ok(Tree {
            depth: nodes.depth(),
            frames: Arc::new(frames),
            nodes,
            uses: OnceLock::new(),
            about: Arc::new(about),
            is_part: false,
        })
    }
}

/// The nodes along the names of the option `root`, if it is given.
fn path(frames: &[Frame], nodes: &Nodes, names: &[String]) -> Result<Option<Vec<u32>>> {
    let mut path = vec![0];
    for name in names {
        let last = path.last().copied().unwrap_or(0);
        let found = nodes.children(last).find(|child| frames[nodes.frame(*child) as usize].name == *name);
        path.push(found.ok_or_else(|| Error::value("root", name, "no such frame at this step of the path"))?);
    }
    Ok((path.len() > 1).then_some(path))
}

/// Gives the frames of both halves common numbers by name; the first half gets all frames.
fn number_together(half: &mut Half, base: &mut Half) {
    let mut all: Vec<Frame> = half.frames.iter().chain(&base.frames).cloned().collect();
    all.sort_unstable();
    // The reason for a missing name may differ between two files of one name.
    all.dedup_by(|one, other| one.name == other.name && one.kind == other.kind);
    for half in [&mut *half, base] {
        let number =
            |frame: &Frame| all.partition_point(|known| (&known.name, known.kind) < (&frame.name, frame.kind)) as u32;
        let numbers: Vec<u32> = half.frames.iter().map(number).collect();
        half.nodes.renumber(&numbers);
    }
    half.frames = all;
}

/// The number of the sample type of the same name and unit in the base.
fn same_type(profile: &Profile, sample_type: usize, base: &Profile) -> Result<String> {
    let (kind, unit) = profile.sample_type(sample_type);
    let found = base.sample_type_index(kind).filter(|index| base.sample_type(*index).1 == unit);
    let missing = || procprof_profile::Error::Incompatible(format!("the base has no {kind} in {unit}"));
    Ok(found.ok_or_else(missing)?.to_string())
}

#[cfg(test)]
mod tests {
    use procprof_profile::ProfileBuilder;

    use super::*;

    fn profile(stacks: &[(&str, i64)]) -> Profile {
        let mut builder = ProfileBuilder::new(&[("samples", "count")]);
        for (name, value) in stacks {
            let frame = builder.frame(name);
            builder.sample(&[frame], &[*value], &[]);
        }
        builder.finish().unwrap()
    }

    #[test]
    fn a_page_of_a_difference_has_both_sides() {
        let (base, profile) = (profile(&[("a", 5), ("gone", 2)]), profile(&[("a", 8)]));
        let options = Options::default();
        let totals = |difference: Profile| {
            let tree = Tree::from_view(&View::new(Cow::Owned(difference), &options).unwrap(), &options).unwrap();
            (tree.nodes.len(), tree.nodes.is_difference(), tree.nodes.total(0), tree.nodes.base_total(0))
        };
        assert_eq!(totals(diff::diff_base(&base, &profile).unwrap()), (3, true, 8, 7));
        assert_eq!(totals(diff::diff(&base, &profile).unwrap()), (3, false, 1, 0));
    }
}
