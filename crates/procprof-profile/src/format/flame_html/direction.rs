//! Decides which end of a page's stacks is their root, by the frames at both ends.

use foldhash::HashSet;

use crate::{LocationId, Profile, ProfileBuilder, Result};

/// Functions that threads begin with.
const ROOTS: [&str; 13] = [
    "_pthread_start",
    "_start",
    "__clone",
    "__libc_start_main",
    "clone",
    "clone3",
    "java.lang.Thread.run",
    "java.lang.VirtualThread.run",
    "jdk.internal.vm.Continuation.enter",
    "main",
    "start_thread",
    "thread_native_entry",
    "thread_start",
];

/// Evidence from all stacks.
#[derive(Default)]
pub(super) struct Directions {
    /// Of each location: 1 for a root, -1 for the kernel, which programs call and which calls none of them.
    likeness: Vec<i8>,
    /// How much more the first frames look like roots than the last ones, in samples.
    votes: i128,
    firsts: HashSet<LocationId>,
    lasts: HashSet<LocationId>,
}

/// The order of frames in a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    RootFirst,
    LeafFirst,
    /// Nothing tells.
    Unknown,
}

impl Directions {
    /// Notes the next location.
    pub(super) fn add_location(&mut self, name: &str, is_kernel: bool) {
        let dotted = name.replace('/', ".");
        let is_root = ROOTS.contains(&dotted.as_str()) || dotted.ends_with(".main") || dotted.contains(" tid=");
        self.likeness.push(if is_kernel { -1 } else { i8::from(is_root) });
    }

    /// Notes the ends of a stack.
    pub(super) fn add_stack(&mut self, first: LocationId, last: LocationId, value: u64) {
        let likeness = |id: LocationId| i128::from(self.likeness.get(id.index()).copied().unwrap_or(0));
        self.votes = self.votes.saturating_add((likeness(first) - likeness(last)) * i128::from(value));
        self.firsts.insert(first);
        self.lasts.insert(last);
    }

    /// The direction that known frames tell, else the number of frames at each end: programs have few roots.
    pub(super) fn decide(&self) -> Direction {
        match self.votes.cmp(&0).then(self.lasts.len().cmp(&self.firsts.len())) {
            std::cmp::Ordering::Greater => Direction::RootFirst,
            std::cmp::Ordering::Less => Direction::LeafFirst,
            std::cmp::Ordering::Equal => Direction::Unknown,
        }
    }
}

/// Turns all stacks around.
///
/// # Errors
/// As [`ProfileBuilder::finish`].
pub(super) fn finish(mut builder: ProfileBuilder, is_turned: bool) -> Result<Profile> {
    if is_turned {
        let parts = builder.parts_mut();
        let mut start = 0;
        for end in &parts.stack_ends {
            parts.stacks[start..*end as usize].reverse();
            start = *end as usize;
        }
    }
    builder.finish()
}
