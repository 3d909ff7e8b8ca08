use super::*;
use crate::ProfileBuilder;
use crate::filter::{Uninteresting, remove_uninteresting};

/// Whether a frame of that name below `main` is cut.
fn is_cut(frames: LegacyFrames, name: &str) -> bool {
    let mut builder = ProfileBuilder::new(&[("space", "bytes")]);
    frames.set(&mut builder);
    let stack = [builder.frame(name), builder.frame("main")];
    builder.sample(&stack, &[1], &[]);
    let profile = builder.finish().unwrap();
    let uninteresting = Uninteresting::from_profile(&profile).unwrap().unwrap();
    remove_uninteresting(std::borrow::Cow::Owned(profile), &uninteresting).unwrap().1 == 1
}

fn check(frames: LegacyFrames, cut: &[&str], kept: &[&str]) {
    let of = |names: &[&str], expected: bool| -> Vec<String> {
        names.iter().filter(|name| is_cut(frames, name) != expected).map(|name| (*name).to_owned()).collect()
    };
    assert_eq!((of(cut, true), of(kept, false)), (Vec::new(), Vec::new()), "not cut, and not kept");
}

#[test]
fn allocators_of_c_and_cxx() {
    let cut = [
        "malloc",
        "__libc_calloc",
        "posix_memalign",
        "__posix_memalign",
        "operator new(unsigned long)",
        "operator new[](unsigned long, std::align_val_t)",
        "tc_newarray_nothrow",
        "tc_malloc_skip_new_handler",
        "tcmalloc::allocate_full_cpp_throw_oom(unsigned long)",
        "(anonymous namespace)::do_malloc",
        "do_malloc_or_cpp_alloc",
        "DoSampledAllocation",
        "TCMallocInternalNew",
        "SbrkSysAllocator::Alloc(unsigned long, unsigned long*, unsigned long)",
        "__gnu_cxx::new_allocator<int>::allocate(unsigned long, void const*)",
        "std::_Vector_base<int, std::allocator<int> >::_M_allocate(unsigned long)",
        "std::allocator_traits<std::allocator<int> >::allocate(std::allocator<int>&, unsigned long)",
        "std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >::_M_create(unsigned long&, unsigned long)",
        "prof_backtrace_impl",
        "_rjem_je_prof_backtrace",
        "prof_alloc_prep",
        "imalloc_body",
        "je_malloc_default",
        "mallocx",
        "irallocx_prof_sample",
        "void* fallbackNewImpl<false>(unsigned long)",
        "runtime.mallocgc",
    ];
    let kept = [
        "runtime.panic",
        "runtime.call32",
        "allocate_pages",
        "malloc_or_die",
        "std::vector<int, std::allocator<int> >::push_back(int const&)",
        "std::vector<int> make::allocate<int>(int)",
        "Cache::operator()(int)",
        "main.alloc",
    ];
    check(HEAP, &cut, &kept);
}

#[test]
fn allocators_of_rust() {
    let cut = [
        "__rust_alloc",
        "__rustc::__rust_realloc",
        "__rustc[5224e6b81cd82a8f]::__rust_alloc_zeroed",
        "<tikv_jemallocator::Jemalloc as core::alloc::global::GlobalAlloc>::alloc",
        "alloc::alloc::exchange_malloc",
        "<alloc::alloc::Global>::grow_impl_runtime",
        "<alloc::alloc::Global as core::alloc::Allocator>::allocate",
        "alloc::raw_vec::RawVec<T,A>::reserve::do_reserve_and_handle",
        "<alloc::raw_vec::RawVecInner>::try_allocate_in",
        "<alloc::raw_vec::RawVec<(u8, u16)>>::grow_one",
        "alloc::vec::from_elem",
        "alloc::vec::from_elem::<u8>",
        "<u8 as alloc::vec::spec_from_elem::SpecFromElem>::from_elem",
        "alloc::vec::Vec<T,A>::push",
        "<alloc::vec::Vec<alloc::boxed::Box<dyn app::Task + core::marker::Send>>>::with_capacity",
        "<alloc::string::String>::push_str",
        "alloc::string::String::with_capacity",
        "<alloc::boxed::Box<[u8; 4096]>>::new",
        "alloc::sync::Arc<T>::new",
        "alloc",
        "alloc_impl_runtime",
        "box_new_uninit",
        "from_elem<u8>",
        "with_capacity_in<u8, alloc::alloc::Global>",
        "try_allocate_in<alloc::alloc::Global>",
        "push<alloc::vec::Vec<u8, alloc::alloc::Global>, alloc::alloc::Global>",
    ];
    let kept = [
        "app::alloc::grow",
        "<alloc::boxed::Box<dyn core::ops::function::FnOnce<(), Output = ()> + core::marker::Send> as core::ops::function::FnOnce<()>>::call_once",
        "<alloc::boxed::Box<app::Config> as app::Load<u8>>::new",
        "<alloc::vec::Vec<u8> as app::Stack<u8>>::push",
        "alloc::vec::Vec<T,A>::extend_desugared",
        "alloc::vec::Vec<T,A>::retain",
        "<alloc::vec::Vec<u8>>::push::{closure#0}",
        "alloc::collections::btree::map::BTreeMap<K,V,A>::insert",
        "push<app::Queue<alloc::vec::Vec<u8, alloc::alloc::Global>>>",
        "new<app::Config>",
        "grow",
        "allocator::refill",
        "std::thread::spawn",
    ];
    check(HEAP, &cut, &kept);
}

#[test]
fn locks_and_handlers() {
    let cut = [
        "base::RecordLockProfileData",
        "Mutex::UnlockSlow()",
        "SpinLockHolder::~SpinLockHolder()",
        "pthread_mutex_unlock",
        "___pthread_mutex_lock",
        "std::mutex::unlock()",
        "std::lock_guard<std::mutex>::~lock_guard()",
        "bthread::submit_contention(bthread_contention_site_t const&, long)",
        "bthread::pthread_mutex_unlock_impl(pthread_mutex_t*)",
        "bthread_mutex_unlock",
    ];
    check(
        CONTENTION,
        &cut,
        &["Ledger::lock", "malloc", "std::condition_variable::wait(std::unique_lock<std::mutex>&)", "unlock"],
    );
    check(
        PROFILER,
        &["ProfileData::prof_handler(int, siginfo_t*, void*, void*)", "__restore_rt"],
        &["malloc", "ProfileData::Start"],
    );
}

#[test]
fn rust_locks() {
    let cut = [
        "std::sys::pal::unix::futex::futex_wait",
        "<std::sys::sync::mutex::futex::Mutex>::lock_contended",
        "std::sys::sync::rwlock::futex::RwLock::write_contended",
        "std::sync::poison::mutex::Mutex<T>::lock",
        "<std::sync::poison::rwlock::RwLock<app::Ledger<u64>>>::read",
        "<std::sync::poison::mutex::MutexGuard<T> as core::ops::drop::Drop>::drop",
        "<std::sync::nonpoison::mutex::MutexGuard<std::sync::barrier::BarrierState> as core::ops::drop::Drop>::drop",
        "<std::sys::sync::once::futex::CompletionGuard as core::ops::drop::Drop>::drop",
        "core::ptr::drop_in_place::<std::sys::sync::once::futex::CompletionGuard>",
        "core::ptr::drop_in_place<std::sync::poison::rwlock::RwLockWriteGuard<u64>>",
        "core::ptr::drop_glue::<std::sync::poison::mutex::MutexGuard<u64>>",
        "lock_api::mutex::Mutex<R,T>::lock",
        "parking_lot::raw_mutex::RawMutex::lock_slow",
        "parking_lot::raw_mutex::RawMutex::lock_slow::{{closure}}",
        "<parking_lot::raw_rwlock::RawRwLock as lock_api::rwlock::RawRwLock>::lock_exclusive",
        "<parking_lot_core::thread_parker::imp::ThreadParker as parking_lot_core::thread_parker::ThreadParkerT>::park",
        "parking_lot_core::parking_lot::park",
        "lock",
        "lock<app::Ledger>",
        "lock_contended",
        "futex_wait",
    ];
    let kept = [
        "lock_table",
        "app::lock",
        "std::sync::poison::once::Once::call_once",
        "<std::sys::sync::once::futex::Once>::call",
        "<std::sync::poison::condvar::Condvar>::wait",
        "app::Mutex<T>::lock",
        "core::ptr::drop_in_place<app::Session>",
        "lock_api::mutex::MutexGuard<R,T>::unlocked",
    ];
    check(CONTENTION, &cut, &kept);
}

#[test]
fn the_expressions_are_short_enough_to_be_read_back() {
    assert!(HEAP.drop_frames().len() < 8 << 10, "{}", HEAP.drop_frames().len());
    assert_eq!((CONTENTION.keep_frames(), PROFILER.keep_frames()), (String::new(), String::new()));
}
