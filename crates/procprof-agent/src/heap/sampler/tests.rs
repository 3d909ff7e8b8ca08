use super::*;
use std::alloc::{GlobalAlloc, Layout, System};

/// One test at a time has the process's sampler.
static TURN: std::sync::Mutex<()> = std::sync::Mutex::new(());

/// Samples everything by an allocator that only `body` uses; true where its counts can be looked at.
fn with_everything_sampled(body: impl FnOnce(&SampledAlloc)) {
    let _turn = TURN.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    HeapSampler::reset(Some(1));
    HeapSampler::enable();
    // Past the stop at which the thread notices the rate.
    let allocator = SampledAlloc::over(System);
    let layout = Layout::from_size_align(100_000, 1).unwrap();
    // SAFETY: freed as it was allocated.
    unsafe { allocator.dealloc(allocator.alloc(layout), layout) };
    sites::clear();
    body(&allocator);
    HeapSampler::disable();
    HeapSampler::reset(Some(DEFAULT_SAMPLE_BYTES));
}

/// Objects and bytes in use, and all there were.
fn totals() -> [u64; 4] {
    let mut totals = [0; 4];
    for site in sites::all() {
        let (live, all) = (site.live.get(), site.all.get());
        for (total, count) in totals.iter_mut().zip([live.0, live.1, all.0, all.1]) {
            *total += count;
        }
    }
    totals
}

#[test]
fn each_way_to_allocate_and_free_is_counted() {
    with_everything_sampled(|allocator| {
        let layout = |size| Layout::from_size_align(size, 64).unwrap();
        // SAFETY: everything is freed once, by the layout it has then.
        unsafe {
            let first = allocator.alloc(layout(100));
            let second = allocator.alloc_zeroed(layout(50));
            assert_eq!(totals(), [2, 150, 2, 150]);
            let first = allocator.realloc(first, layout(100), 4000);
            assert_eq!(totals(), [2, 4050, 3, 4150]);
            assert!(allocator.realloc(first, layout(4000), isize::MAX as usize - 63).is_null());
            assert_eq!(totals(), [2, 4050, 3, 4150], "what could not grow is still there");
            HeapSampler::disable();
            allocator.dealloc(second, layout(50));
            let unseen = allocator.alloc(layout(10));
            assert_eq!(totals(), [1, 4000, 3, 4150], "freeing is seen while sampling is off");
            allocator.dealloc(unseen, layout(10));
            allocator.dealloc(first, layout(4000));
        }
        assert_eq!(totals(), [0, 0, 3, 4150]);
    });
}

#[test]
fn a_busy_thread_is_not_looked_at_and_forgotten_samples_do_no_harm() {
    with_everything_sampled(|allocator| {
        let layout = Layout::from_size_align(100, 8).unwrap();
        // SAFETY: freed as allocated.
        unsafe {
            let busy = thread::current().enter();
            let unseen = allocator.alloc(layout);
            drop(busy);
            assert_eq!(totals(), [0; 4]);
            allocator.dealloc(unseen, layout);
            let forgotten = allocator.alloc(layout);
            HeapSampler::reset(None);
            allocator.dealloc(forgotten, layout);
            assert_eq!(totals(), [0; 4]);
        }
    });
}

/// How far the estimate of some allocations of one size by the samples among them is off, of as many as lead to 4,000
/// samples.
fn error_at_4_000_samples(size: usize, seed: u64) -> f64 {
    let thread = thread::ThreadState::with_seed(seed);
    // Past the stop at which it notices the rate, which is an allocation by itself.
    thread.count_down(size);
    thread.go_on(size as u64);
    let (mut allocations, mut samples) = (0, 0);
    while samples < 4_000 {
        allocations += 1;
        samples += u32::from(thread.count_down(size) && thread.go_on(size as u64));
    }
    let probability = 1.0 - (-(size as f64) / thread::rate() as f64).exp();
    f64::from(samples) / probability / f64::from(allocations) - 1.0
}

/// One standard deviation of 4,000 samples is 1.6 %: 19 of 20 are to be within 3 %, and all together, whatever the
/// size, within 1 %.
#[test]
fn estimates_are_unbiased_for_each_size() {
    let _turn = TURN.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    const SEEDS: u64 = 20;
    HeapSampler::reset(Some(1024));
    for size in [8, 100, 512, 1024, 3000, 70_000] {
        let errors: Vec<f64> = (1..=SEEDS).map(|seed| error_at_4_000_samples(size, seed << 32)).collect();
        let mean = errors.iter().sum::<f64>() / SEEDS as f64;
        let near = errors.iter().filter(|error| error.abs() < 0.03).count() as u64;
        println!("{size} bytes: mean error {:.2} %, {near} of {SEEDS} within 3 %", 100.0 * mean);
        assert!(mean.abs() < 0.01, "{size} bytes: {mean}");
        assert!(near * 20 >= SEEDS * 18, "{size} bytes: {errors:?}");
    }
    HeapSampler::reset(Some(DEFAULT_SAMPLE_BYTES));
}

#[test]
fn a_sample_without_a_stack_is_kept_under_a_name() {
    with_everything_sampled(|allocator| {
        // Nothing is known of the code, as where another thread is compiling its tables.
        stack::forget();
        let layout = Layout::from_size_align(100, 8).unwrap();
        // SAFETY: freed as allocated.
        let pointer = unsafe { allocator.alloc(layout) };
        assert_eq!(totals(), [1, 100, 1, 100]);
        assert_eq!(HeapSampler::samples(Found::Nothing), 1);
        assert_eq!(*sites::all()[0].stack, [HeapSampler::unknown_frame().0]);
        // SAFETY: as above.
        unsafe { allocator.dealloc(pointer, layout) };
        stack::renew();
    });
}
