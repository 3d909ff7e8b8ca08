//! The namespaces, types and functions around an entry.
//!
//! Entries do not contain a reference to their parent, so the unit is walked once for all of them. Only names without a
//! linker name need this.

use super::plan::{Kind, Plans};
use super::{Broken, Dwarf, Root};

/// Deepest nesting of entries that is followed.
pub(super) const DEPTH_MAX: usize = 1 << 12;

/// The entries of a unit that others are in, by offset.
#[derive(Debug, Default)]
pub(crate) struct Scopes {
    spans: Vec<Span>,
}

#[derive(Debug, Clone, Copy)]
struct Span {
    start: usize,
    end: usize,
    kind: Kind,
    parent: Option<u32>,
}

impl Scopes {
    /// Walks the unit. What is behind a broken entry has no scopes.
    pub(crate) fn read<'a>(dwarf: &Dwarf<'a>, root: &Root<'a>) -> Self {
        let mut scopes = Self::default();
        let Ok(plans) = root.plans(dwarf) else {
            return scopes;
        };
        // An error only ends the walk.
        let _ = scopes.walk(&plans);
        scopes
    }

    /// Bytes that they take.
    pub(super) fn held_bytes(&self) -> usize {
        self.spans.capacity() * size_of::<Span>()
    }

    fn walk(&mut self, plans: &Plans<'_, '_>) -> Result<(), Broken> {
        // The scope that each open entry is in or is.
        let mut open: Vec<(Option<u32>, bool)> = Vec::new();
        let mut at = plans.start();
        while at < plans.end() {
            let start = at;
            let (plan, behind) = plans.plan(at)?;
            at = behind;
            let Some(plan) = plan else {
                if let Some((Some(span), true)) = open.pop() {
                    self.spans[span as usize].end = at;
                }
                if open.is_empty() {
                    break;
                }
                continue;
            };
            let (next, sibling) = plans.skip(&plan, at)?;
            at = next;
            if !plan.has_children {
                continue;
            }
            if let Some(sibling) = sibling.filter(|_| matches!(plan.kind, Kind::Inlined | Kind::CallSite)) {
                at = sibling;
                continue;
            }
            let parent = open.last().and_then(|(span, _)| *span);
            let is_scope = matches!(plan.kind, Kind::Code | Kind::Declaration | Kind::Namespace | Kind::Type);
            if is_scope {
                self.spans.push(Span { start, end: plans.end(), kind: plan.kind, parent });
            }
            if open.len() == DEPTH_MAX {
                return Err(Broken);
            }
            open.push(if is_scope { (Some(self.spans.len() as u32 - 1), true) } else { (parent, false) });
        }
        Ok(())
    }

    /// The scopes of the entry at an offset, innermost first.
    pub(crate) fn around(&self, entry: usize) -> impl Iterator<Item = (usize, Kind)> {
        let after = self.spans.partition_point(|span| span.start < entry);
        let mut next = after.checked_sub(1);
        std::iter::from_fn(move || {
            loop {
                let span = self.spans.get(next?)?;
                next = span.parent.map(|parent| parent as usize);
                if span.end > entry {
                    return Some((span.start, span.kind));
                }
            }
        })
    }
}
