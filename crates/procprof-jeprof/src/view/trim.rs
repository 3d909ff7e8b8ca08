//! Cutting stacks: frames of the profiler itself, frames and stacks by regular expressions.

use std::borrow::Cow;

use foldhash::HashSet;
use regex::Regex;

use crate::stacks::{Cuts, PcId, Pcs, Stacks};
use crate::symbols::Symbols;
use crate::{ProfileKind, Settings};

/// Allocator functions; each is also known with an underscore before it.
const HEAP: &[&str] = &[
    "calloc",
    "cfree",
    "malloc",
    "newImpl",
    "void* newImpl",
    "free",
    "memalign",
    "posix_memalign",
    "aligned_alloc",
    "pvalloc",
    "valloc",
    "realloc",
    "mallocx",
    "rallocx",
    "xallocx",
    "dallocx",
    "sdallocx",
    "sdallocx_noflags",
    "tc_calloc",
    "tc_cfree",
    "tc_malloc",
    "tc_free",
    "tc_memalign",
    "tc_posix_memalign",
    "tc_pvalloc",
    "tc_valloc",
    "tc_realloc",
    "tc_new",
    "tc_delete",
    "tc_newarray",
    "tc_deletearray",
    "tc_new_nothrow",
    "tc_newarray_nothrow",
    "do_malloc",
    "::do_malloc",
    "::do_malloc_or_cpp_alloc",
    "DoSampledAllocation",
    "simple_alloc::allocate",
    "__malloc_alloc_template::allocate",
    "__builtin_delete",
    "__builtin_new",
    "__builtin_vec_delete",
    "__builtin_vec_new",
    "operator new",
    "operator new[]",
    "malloc_zone_malloc",
    "malloc_zone_calloc",
    "malloc_zone_valloc",
    "malloc_zone_realloc",
    "malloc_zone_memalign",
    "malloc_zone_free",
    "__start_google_malloc",
    "__stop_google_malloc",
    "__start_malloc_hook",
    "__stop_malloc_hook",
];

const CONTENTION: &[&str] = &[
    "base::RecordLockProfileData",
    "base::SubmitMutexProfileData",
    "base::SubmitSpinLockProfileData",
    "Mutex::Unlock",
    "Mutex::UnlockSlow",
    "Mutex::ReaderUnlock",
    "MutexLock::~MutexLock",
    "SpinLock::Unlock",
    "SpinLock::SlowUnlock",
    "SpinLockHolder::~SpinLockHolder",
];

const CPU: &[&str] = &[
    "ProfileData::Add",
    "ProfileData::prof_handler",
    "CpuProfiler::prof_handler",
    "__FRAME_END__",
    "__pthread_sighandler",
    "__restore",
];

/// The rest of stacks once they are cut, with messages about the cuts.
pub(super) struct Trimmed<'a> {
    /// The stacks of `cuts`.
    pub(super) stacks: Cow<'a, Stacks>,
    pub(super) cuts: Cuts,
    pub(super) messages: Vec<String>,
}

/// Cuts frames of the profiler, then frames, then whole stacks by the regular expressions.
pub(super) fn trimmed<'a>(
    stacks: &'a Stacks,
    pcs: &Pcs,
    symbols: &Symbols,
    kind: ProfileKind,
    settings: &Settings,
) -> Trimmed<'a> {
    let mut messages = Vec::new();
    let mut stacks = Cow::Borrowed(stacks);
    if kind == ProfileKind::Cpu {
        stacks = without_common_second(stacks, pcs, symbols, &mut messages);
    }
    let cut = Cut::new(pcs, symbols, kind, settings);
    if settings.retain.is_some() || settings.exclude.is_some() {
        stacks = Cow::Owned(cut.shown(&stacks));
    }
    let focus = settings.focus.as_ref().map(|pattern| matching(pcs, symbols, pattern));
    let ignore = settings.ignore.as_ref().map(|pattern| matching(pcs, symbols, pattern));
    let has = |marks: &[bool], stack: &[PcId]| stack.iter().any(|pc| marks[pc.index()]);
    let cuts = Cuts::new(&stacks, |stack| {
        let skipped = cut.skipped(stack);
        let left = &stack[skipped..];
        let focused = focus.as_ref().is_none_or(|marks| has(marks, left));
        let ignored = ignore.as_ref().is_some_and(|marks| has(marks, left));
        (focused && !ignored).then_some(skipped)
    });
    Trimmed { stacks, cuts, messages }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Frame {
    Shown,
    /// Removed with all it calls.
    Uninteresting,
    /// Removed alone.
    Excluded,
}

/// The treatment of each address.
struct Cut {
    frames: Vec<Frame>,
}

impl Cut {
    fn new(pcs: &Pcs, symbols: &Symbols, kind: ProfileKind, settings: &Settings) -> Cut {
        let names: HashSet<String> = match kind {
            ProfileKind::Heap | ProfileKind::Growth => {
                HEAP.iter().flat_map(|name| [(*name).to_owned(), format!("_{name}")]).collect()
            }
            ProfileKind::Contention => CONTENTION.iter().map(|name| (*name).to_owned()).collect(),
            ProfileKind::Cpu => CPU.iter().map(|name| (*name).to_owned()).collect(),
        };
        let is_heap = matches!(kind, ProfileKind::Heap | ProfileKind::Growth);
        let skips = |name: &str| {
            let by_pattern = if is_heap {
                name.contains("TCMalloc") || name.starts_with("tcmalloc::")
            } else {
                name.contains("NOMATCH")
            };
            by_pattern || names.contains(name)
        };
        let frame = |(index, address): (usize, &u64)| {
            let symbol = symbols.outermost(PcId(index as u32));
            if symbol.is_some_and(|symbol| skips(&symbol.short)) {
                return Frame::Uninteresting;
            }
            let name = symbol.map_or_else(|| address_text(*address), |symbol| symbol.short.to_string());
            let retained = settings.retain.as_ref().is_none_or(|pattern| pattern.is_match(&name));
            let excluded = settings.exclude.as_ref().is_some_and(|pattern| pattern.is_match(&name));
            if retained && !excluded { Frame::Shown } else { Frame::Excluded }
        };
        Cut { frames: pcs.addresses().iter().enumerate().map(frame).collect() }
    }

    /// The number of frames to remove at the leaf: callees of such a frame also belong to the profiler.
    fn skipped(&self, stack: &[PcId]) -> usize {
        stack.iter().rposition(|pc| self.frames[pc.index()] == Frame::Uninteresting).map_or(0, |last| last + 1)
    }

    /// The stacks with only the shown frames, without stacks that have none.
    fn shown(&self, stacks: &Stacks) -> Stacks {
        let mut kept = Stacks::default();
        for (stack, value) in stacks.iter() {
            let left = &stack[self.skipped(stack)..];
            let mut path = left.iter().copied().filter(|pc| self.frames[pc.index()] == Frame::Shown).peekable();
            if path.peek().is_some() {
                kept.add_frames(path, value);
            }
        }
        kept
    }
}

/// An address without a name: 16 digits.
pub(crate) fn address_text(address: u64) -> String {
    format!("{address:016x}")
}

/// Whether each address matches by itself, by a short name or by a place.
fn matching(pcs: &Pcs, symbols: &Symbols, pattern: &Regex) -> Vec<bool> {
    let matches = |(index, address): (usize, &u64)| {
        let at = symbols.at(PcId(index as u32)).unwrap_or_default();
        pattern.is_match(&address_text(*address))
            || at.iter().any(|symbol| pattern.is_match(&symbol.short) || pattern.is_match(&symbol.place))
    };
    pcs.addresses().iter().enumerate().map(matches).collect()
}

/// Removes the second frame of all stacks, the signal handler's, as long as it is the same in all.
fn without_common_second<'a>(
    mut stacks: Cow<'a, Stacks>,
    pcs: &Pcs,
    symbols: &Symbols,
    messages: &mut Vec<String>,
) -> Cow<'a, Stacks> {
    while let Some(second) = common_second(&stacks) {
        let name = match symbols.outermost(second) {
            Some(symbol) => symbol.short.to_string(),
            None => address_text(pcs.addresses()[second.index()]),
        };
        messages.push(format!("Removing {name} from all stack traces."));
        let mut left = Stacks::default();
        for (stack, value) in stacks.iter() {
            left.add_frames(stack[..1].iter().chain(&stack[2..]).copied(), value);
        }
        stacks = Cow::Owned(left);
    }
    stacks
}

fn common_second(stacks: &Stacks) -> Option<PcId> {
    let mut common = None;
    for (stack, _) in stacks.iter() {
        let second = *stack.get(1)?;
        if *common.get_or_insert(second) != second {
            return None;
        }
    }
    common
}
