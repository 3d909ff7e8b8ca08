//! [`StackTree`]: stacks as a tree, each a frame called from another stack.

use foldhash::HashMap;

/// The stack without frames.
pub(crate) const ROOT: u32 = 0;

/// A tree of stacks; an id is a position, and callers come before their callees.
#[derive(Debug)]
pub(crate) struct StackTree {
    /// Caller and frame of each; those of the root mean nothing.
    nodes: Vec<(u32, u32)>,
    ids: HashMap<(u32, u32), u32>,
}

impl Default for StackTree {
    fn default() -> StackTree {
        StackTree { nodes: vec![(ROOT, 0)], ids: HashMap::default() }
    }
}

/// A stack of a tree in the order in which callees follow their caller at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ordered {
    pub(crate) stack: u32,
    /// Position of its caller in that order; its own for the root.
    pub(crate) parent: u32,
    /// Position of the last stack that begins with this one.
    pub(crate) last: u32,
    pub(crate) depth: u32,
}

impl StackTree {
    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// The stack of a caller with one more frame, the same for equal ones.
    pub(crate) fn callee(&mut self, caller: u32, frame: u32) -> u32 {
        let nodes = &mut self.nodes;
        *self.ids.entry((caller, frame)).or_insert_with(|| {
            nodes.push((caller, frame));
            nodes.len() as u32 - 1
        })
    }

    /// The caller and the leaf of a stack; `None` for the root.
    pub(crate) fn leaf(&self, stack: u32) -> Option<(u32, u32)> {
        (stack != ROOT).then(|| self.nodes[stack as usize])
    }

    /// All stacks, each followed by those that it calls, in the order in which they were added.
    pub(crate) fn ordered(&self) -> Vec<Ordered> {
        let (first, next) = self.children();
        let mut order: Vec<Ordered> = Vec::with_capacity(self.nodes.len());
        let mut open: Vec<(u32, u32, u32)> = vec![(ROOT, 0, 0)];
        while let Some((stack, parent, depth)) = open.pop() {
            let at = order.len() as u32;
            order.push(Ordered { stack, parent, last: at, depth });
            let start = open.len();
            let mut child = first[stack as usize];
            while child != ROOT {
                open.push((child, at, depth + 1));
                child = next[child as usize];
            }
            open[start..].reverse();
        }
        for at in (1..order.len()).rev() {
            let Ordered { parent, last, .. } = order[at];
            let parent = &mut order[parent as usize];
            parent.last = parent.last.max(last);
        }
        order
    }

    /// The first callee of each stack, and the next callee of its caller; [`ROOT`] where there is none.
    fn children(&self) -> (Vec<u32>, Vec<u32>) {
        let mut first = vec![ROOT; self.nodes.len()];
        let mut next = vec![ROOT; self.nodes.len()];
        for (stack, (caller, _)) in self.nodes.iter().enumerate().skip(1).rev() {
            next[stack] = first[*caller as usize];
            first[*caller as usize] = stack as u32;
        }
        (first, next)
    }
}

#[cfg(test)]
mod tests {
    use super::{Ordered, ROOT, StackTree};

    #[test]
    fn callees_follow_their_caller() {
        let mut tree = StackTree::default();
        let main = tree.callee(ROOT, 7);
        let start = tree.callee(ROOT, 8);
        let work = tree.callee(main, 9);
        assert_eq!(tree.callee(main, 9), work);
        let ordered = |stack, parent, last, depth| Ordered { stack, parent, last, depth };
        assert_eq!(
            tree.ordered(),
            [ordered(ROOT, 0, 3, 0), ordered(main, 0, 2, 1), ordered(work, 1, 2, 2), ordered(start, 0, 3, 1)]
        );
        assert_eq!(tree.leaf(work), Some((main, 9)));
        assert_eq!(tree.leaf(ROOT), None);
    }
}
