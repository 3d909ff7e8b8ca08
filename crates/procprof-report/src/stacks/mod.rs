//! Samples by their stacks: the merged call tree, lines, and each sample by itself.

pub(crate) mod collapsed;
pub(crate) mod json;
pub(crate) mod stack_tree;
pub(crate) mod traces;
