//! Bounds of time and memory, and the allocator that counts.

use std::time::Duration;

use peak_alloc::PeakAlloc;
use rustix::time::{ClockId, clock_gettime};

#[global_allocator]
static HEAP: PeakAlloc = PeakAlloc;

/// Most processor time that one input may take, all threads together: the fuzzer's own limit is of wall time, in whole
/// seconds.
const TIME_MAX: Duration = Duration::from_secs(1);

/// The memory that one input may take at any moment.
#[derive(Clone, Copy, Debug)]
pub struct Bound {
    /// In multiples of the size of the input.
    pub multiple: usize,
    /// Additional bytes.
    pub free: usize,
}

/// Checks that work stays within its bounds, and records the worst.
#[derive(Debug)]
pub struct Meter {
    bound: Bound,
    multiple: f64,
    time: Duration,
}

impl Meter {
    /// A new one.
    pub const fn new(bound: Bound) -> Meter {
        Meter { bound, multiple: 0.0, time: Duration::ZERO }
    }

    /// Runs the work, which reads that many bytes.
    ///
    /// # Panics
    /// If it exceeds the bound of memory, or takes a second.
    pub fn hold<T>(&mut self, input_bytes: usize, work: impl FnOnce() -> T) -> T {
        HEAP.reset_peak_usage();
        let (held, started) = (HEAP.current_usage(), processor_time());
        let done = work();
        let (taken, time) = (HEAP.peak_usage().saturating_sub(held), processor_time().saturating_sub(started));
        let allowed = self.bound.multiple * input_bytes + self.bound.free;
        assert!(taken <= allowed, "{taken} bytes of memory for {input_bytes} of input");
        assert!(time < TIME_MAX, "{time:?} of processor time for {input_bytes} bytes");
        let multiple = taken.saturating_sub(self.bound.free) as f64 / input_bytes.max(1) as f64;
        self.remember(multiple, time);
        done
    }

    fn remember(&mut self, multiple: f64, time: Duration) {
        if multiple > self.multiple * 1.05 || time > self.time.mul_f64(1.2) {
            self.multiple = multiple.max(self.multiple);
            self.time = time.max(self.time);
            eprintln!("worst: {:.1} times the input, {} ms", self.multiple, self.time.as_millis());
        }
    }
}

fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}
