//! Frames that belong to the profiler and not to the profiled work: tables of regular expressions, by the kind of
//! profile.
//!
//! Formats older than pprof have no place for them, so their decoders set `drop_frames` and `keep_frames` of the
//! profile from here. Nothing is cut while decoding: frames are recognized by name, and names come later. Readers of
//! the profile cut them ([`remove_uninteresting`](crate::filter::remove_uninteresting) here, and `go tool pprof` in the
//! files we store), by these rules: an expression matches a whole name without its argument list, and the matching
//! frame nearest the root goes with all it calls.
//!
//! So the tables must not contain functions that call back into the program: no `Vec::extend`, `Box<dyn
//! FnOnce>::call_once` or `HashMap::insert`. The one exception is `alloc::vec::from_elem` (`vec![x; n]`), which clones
//! `x`; where it is not a plain number, the clone's memory is its caller's too.
//!
//! The expressions are of the common part of RE2's and the `regex` crate's syntax. The lists contain those of
//! google/pprof, which sets the same fields (`profile/legacy_profile.go`), and add jemalloc, newer tcmalloc, the C++
//! and Rust libraries, and brpc. Names of inlined functions may be short, with generic arguments and without a path
//! (`with_capacity_in<u8, alloc::alloc::Global>`): line tables contain no more.

use crate::ProfileBuilder;

/// Frames of one kind of profile that are not worth showing.
#[derive(Clone, Copy, Debug)]
pub struct LegacyFrames {
    drop: &'static [&'static [&'static str]],
    keep: &'static [&'static str],
}

/// Of heap and growth profiles: allocators and what calls nothing but them.
pub const HEAP: LegacyFrames = LegacyFrames {
    drop: &[C, JEMALLOC, TCMALLOC, CXX, RUST_RUNTIME, RUST_VEC, RUST_BOX, RUST_SHORT, GO, DARWIN],
    keep: &["runtime\\.panic", "runtime\\.reflectcall", "runtime\\.call[0-9]*"],
};

/// Of lock contention profiles: the functions that lock, unlock and take the sample.
pub const CONTENTION: LegacyFrames = LegacyFrames { drop: &[LOCKS, BRPC, RUST_LOCKS, SHORT_LOCKS], keep: &[] };

/// Of all others, CPU profiles before all: the profiler's signal handler.
pub const PROFILER: LegacyFrames = LegacyFrames { drop: &[HANDLERS], keep: &[] };

impl LegacyFrames {
    /// Regular expression of the frames to cut; an alternative for each row.
    pub fn drop_frames(&self) -> String {
        self.drop.concat().join("|")
    }

    /// Regular expression of frames to keep although [`LegacyFrames::drop_frames`] matches; may be empty.
    pub fn keep_frames(&self) -> String {
        self.keep.join("|")
    }

    /// Sets both fields of the profile that is built.
    pub fn set(&self, builder: &mut ProfileBuilder) {
        let (drop_frames, keep_frames) = (builder.intern(&self.drop_frames()), builder.intern(&self.keep_frames()));
        let parts = builder.parts_mut();
        (parts.drop_frames, parts.keep_frames) = (drop_frames, keep_frames);
    }
}

const C: &[&str] = &[
    "(__libc_)?(c|m|re|v|pv)alloc",
    "(__libc_)?(c?free|memalign)",
    "(__)?posix_memalign",
    "aligned_alloc",
    "reallocarray",
    "malloc_usable_size",
    "do_memalign",
    "allocate",
    "cpp_alloc",
];

const JEMALLOC: &[&str] = &[
    "_rjem_.*",
    "je_.*",
    "[mrxsdn]allocx",
    "sdallocx",
    "prof_(backtrace|alloc_prep|tctx_create|malloc|realloc)[a-z_]*",
    "imalloc[a-z_]*",
    "i(p|r|x)?alloc(t|ztm)?",
    "irallocx_prof[a-z_]*",
    "do_rallocx",
    "malloc_default",
    "(void\\* ?)?(newImpl|alignedNewImpl|fallbackNewImpl|fallback_impl|handleOOM)(<.*>)?",
];

const TCMALLOC: &[&str] = &[
    "tcmalloc::.*",
    "TCMalloc.*",
    "tc_(c|m|re|v|pv)alloc",
    "tc_(c?free|memalign|posix_memalign|malloc_skip_new_handler)",
    "tc_(new|newarray|delete|deletearray)(_[a-z_]*)?",
    "(::|\\(anonymous namespace\\)::)?do_malloc(_no_errno|_pages|_or_cpp_alloc)?",
    "DoSampledAllocation",
    "(Mmap|Sbrk|DevMem|Default|Hugetlb)SysAllocator::.*",
];

const CXX: &[&str] = &[
    "operator new ?(\\[\\])?",
    "__builtin_(vec_)?(new|delete)",
    "_M_allocate",
    "std::.*::(allocate|_M_allocate|_M_allocate_node|_M_create|_M_get_node|_S_create|_S_allocate)",
    "(__gnu_cxx::)?(__)?new_allocator(<.*>)?::allocate",
    "(__malloc_alloc_template|simple_alloc)(<.*>)?::allocate",
    "BaseArena::.*",
    "MallocedMemBlock::MallocedMemBlock",
];

const RUST_RUNTIME: &[&str] = &[
    "(__rustc(\\[[0-9a-f]*\\])?::)?__(rust|rdl|rg)_(alloc|alloc_zeroed|realloc|dealloc)",
    "(<.* as )?core::alloc::(global::GlobalAlloc|Allocator)>?::[a-z_]+",
    "<?alloc::alloc::.*",
    "<?alloc::raw_vec::.*",
    "(alloc::boxed::)?box_new_uninit",
];

/// A path ends before ` as `, which would make it another type's trait.
macro_rules! methods {
    ($types:literal, $methods:literal) => {
        concat!("<?", $types, "(<([^ ]|[,;] | \\+ | = |dyn |mut |const )*>)?>?::", $methods)
    };
}

const RUST_VEC: &[&str] = &[
    "alloc::vec::from_elem(::<.*>)?",
    "<.* as alloc::vec::spec_from_elem::SpecFromElem>::from_elem.*",
    methods!(
        "alloc::vec::Vec",
        "(try_)?(with_capacity(_in)?|reserve(_exact)?|push|push_mut|append|insert|shrink_to(_fit)?|into_boxed_slice)"
    ),
    methods!(
        "alloc::collections::vec_deque::VecDeque",
        "(with_capacity(_in)?|(try_)?reserve(_exact)?|push_(back|front)(_mut)?|grow)"
    ),
    methods!("alloc::string::String", "(try_)?(with_capacity|reserve(_exact)?|push|push_str)"),
    methods!("hashbrown::raw::RawTableInner", "(new_uninitialized|fallible_with_capacity|prepare_resize)(::<.*>)?"),
    "hashbrown::(raw::)?alloc::inner::do_alloc(::<.*>)?",
];

const RUST_BOX: &[&str] = &[
    methods!("alloc::boxed::Box", "(try_)?new(_uninit|_zeroed)?(_slice)?(_in)?"),
    methods!("alloc::(rc::Rc|sync::Arc)", "((try_)?new(_uninit|_zeroed)?(_slice)?(_in)?|allocate_for_[a-z_]*)"),
];

const RUST_SHORT: &[&str] = &[
    "alloc(_zeroed|_impl|_impl_runtime)?",
    "grow_impl(_runtime)?",
    "exchange_malloc",
    "from_elem<.*>",
    "(try_)?(with_capacity(_zeroed)?|new(_uninit|_zeroed)?(_slice)?)_in<.*>",
    "(try_allocate_in|finish_grow|grow_one|grow_amortized|grow_exact|do_reserve_and_handle)<.*>",
    "(try_)?(reserve(_exact)?|push(_mut|_back|_front)?)<(.*, )?alloc::alloc::Global>",
    "do_alloc<.*>",
];

const GO: &[&str] = &["runtime\\..*"];

const DARWIN: &[&str] = &["malloc_zone_((c|m|re|v)alloc|memalign|free)"];

const LOCKS: &[&str] = &[
    "(base::)?RecordLockProfileData.*",
    "(base::)?Submit(Mutex|SpinLock)ProfileData.*",
    "((base::)?Mutex::)?(AwaitCommon|Unlock|UnlockSlow|ReaderUnlock).*",
    "((base::)?MutexLock::)?~MutexLock.*",
    "(SpinLock::)?(Unlock|SlowUnlock).*",
    "(SpinLockHolder::)?~SpinLockHolder.*",
    "(__|___)?pthread_(mutex|rwlock|spin)_([a-z]*lock|clocklock)",
    "std::(__[a-z0-9]*::)?([a-z_]*mutex(_base)?|unique_lock<.*>|lock_guard<.*>|shared_lock<.*>|scoped_lock<.*>)::(lock|unlock|try_lock|~.*)",
];

const BRPC: &[&str] = &[
    "(bthread::)?submit_contention",
    "(bthread::|bthread_|pthread_)+mutex_(un|timed)?lock(_impl|_contended|_internal)?",
    "bthread::(internal::)?(Fast)?(Pthread)?Mutex::(un)?lock(_contended)?",
];

/// Not `Once`, which calls the program back.
const RUST_LOCKS: &[&str] = &[
    "std::sys::(pal::unix::|sync::)?futex::futex_(wait|wake|wake_all)",
    "<?std::sys::sync::(mutex|rwlock)::futex::(Mutex|RwLock)>?::[a-z_]+",
    "<?std::sync::((non)?poison::)?(mutex::Mutex|rwlock::RwLock)<.*>>?::(lock|read|write)",
    "<?lock_api::(mutex::Mutex|rwlock::RwLock)<.*>>?::(lock|read|write|upgradable_read)",
    "<?parking_lot::raw_(mutex::RawMutex|rwlock::RawRwLock)( as lock_api::.*)?>?::[a-z_]+(::\\{\\{closure\\}\\})?",
    "<?parking_lot_core::.*",
    "<(std::sync::((non)?poison::)?|lock_api::)(mutex|rwlock)::[A-Za-z]*Guard<.*> as core::ops::drop::Drop>::drop",
    "core::ptr::drop_(in_place|glue)(::)?<(std::sync::((non)?poison::)?|lock_api::)(mutex|rwlock)::[A-Za-z]*Guard<.*>>",
    "<std::sys::sync::once::[a-z]+::CompletionGuard as core::ops::drop::Drop>::drop",
    "core::ptr::drop_(in_place|glue)(::)?<std::sys::sync::once::[a-z]+::CompletionGuard>",
];

/// Inlined locks, whose names have no paths in line tables.
const SHORT_LOCKS: &[&str] = &[
    "(try_)?lock(_contended|_slow|_shared_slow|_exclusive_slow)?(<.*>)?",
    "futex_(wait|wake|wake_all)",
    "lll_(mutex_)?lock(_optimized|_wait)?",
];

const HANDLERS: &[&str] = &[
    "ProfileData::(Add|prof_handler)",
    "CpuProfiler::prof_handler",
    "ProfileHandler::SignalHandler",
    "__pthread_sighandler",
    "__restore(_rt)?",
];

#[cfg(test)]
#[cfg(feature = "filter")]
mod tests;
