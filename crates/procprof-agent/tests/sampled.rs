//! Heap profiles by the sampler around the allocator, against exact bookkeeping and the tools people use.

use crate::heap::keep_eight_megabytes;
use crate::isolated::isolated_with;
use crate::tools::{own_binary, run};
use crate::work::Symbols;
use procprof_agent::{Agent, Config, HeapSampler, Listener, Request};
use procprof_profile::{Grammar, Profile};
use std::alloc::{Layout, alloc, alloc_zeroed, dealloc, realloc};

/// A process in which jemalloc's own profiler is off, so that the sampler has the heap.
fn without_jemalloc(name: &str, body: impl FnOnce(&Agent)) {
    isolated_with(name, &[("_RJEM_MALLOC_CONF", "prof:false")], || {
        body(&procprof_agent::start(Config::default()).unwrap())
    });
}

fn answer(agent: &Agent, request: &Request<'_>) -> Vec<u8> {
    let response = agent.handle(request);
    assert_eq!(response.status, 200, "{}: {}", request.path, String::from_utf8_lossy(&response.body));
    response.body
}

/// The sums of the four sample types of [`Account::step`], estimated from the text as a reader of that grammar does.
fn totals(grammar: Grammar, symbols: &Symbols) -> [f64; 4] {
    let text = HeapSampler::text().unwrap();
    let profile =
        procprof_profile::format::decode(&text, &Default::default()).unwrap().profile.adjusted(grammar).unwrap();
    let of_steps = (0..profile.sample_count())
        .filter(|index| symbols.stack(&profile, *index).iter().any(|name| name.contains("Account::step")));
    of_steps.fold([0.0; 4], |sums, sample| {
        [0, 1, 2, 3].map(|index| sums[index] + profile.sample(sample).values[index] as f64)
    })
}

/// A thread's own account of what it does, and its random numbers.
struct Account {
    kept: Vec<(*mut u8, Layout)>,
    /// Allocated objects and bytes; objects and bytes in use; and the variances of their estimates.
    exact: [f64; 4],
    variance: [f64; 4],
    random: u64,
}

impl Account {
    fn new(seed: u64) -> Self {
        Self { kept: Vec::with_capacity(4096), exact: [0.0; 4], variance: [0.0; 4], random: seed }
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.random >> 33) % bound
    }

    /// Sizes from 16 bytes to 64 KiB, each power of two as often as the others.
    fn layout(&mut self) -> Layout {
        let power = 4 + self.below(12);
        let size = (1 << power) + self.below(1 << power);
        Layout::from_size_align(size as usize, 8 << self.below(5)).unwrap()
    }

    /// An estimate of a size `s` sampled with probability `p` is `s / p` or 0: its variance is `s^2 (1 - p) / p`.
    fn add(&mut self, size: usize, sign: f64, columns: std::ops::Range<usize>) {
        let size = size as f64;
        let probability = 1.0 - (-size / RATE).exp();
        let spread = (1.0 - probability) / probability;
        for column in columns {
            let value = if column % 2 == 0 { 1.0 } else { size };
            self.exact[column] += sign * value;
            self.variance[column] += sign * value * value * spread;
        }
    }

    #[inline(never)]
    fn step(&mut self) {
        const MOST_KEPT: usize = 4000;
        let choice = self.below(10);
        if self.kept.is_empty() || choice < 5 && self.kept.len() < MOST_KEPT {
            let layout = self.layout();
            // SAFETY: the size is not zero.
            self.kept.push((unsafe { if choice < 4 { alloc(layout) } else { alloc_zeroed(layout) } }, layout));
            self.add(layout.size(), 1.0, 0..4);
            return;
        }
        let index = self.below(self.kept.len() as u64) as usize;
        let (pointer, layout) = self.kept.swap_remove(index);
        self.add(layout.size(), -1.0, 2..4);
        if choice < 9 {
            // SAFETY: allocated by that layout, freed once.
            unsafe { dealloc(pointer, layout) };
        } else {
            let size = self.layout().size();
            // SAFETY: allocated by that layout, and replaced by what it becomes.
            let pointer = unsafe { realloc(pointer, layout, size) };
            self.kept.push((pointer, Layout::from_size_align(size, layout.align()).unwrap()));
            self.add(size, 1.0, 0..4);
        }
    }

    fn free_all(&mut self) {
        for (pointer, layout) in self.kept.drain(..) {
            // SAFETY: allocated by that layout, freed once.
            unsafe { dealloc(pointer, layout) };
        }
    }
}

/// Mean bytes between samples in the comparison.
const RATE: f64 = 4096.0;

/// Steps of each thread between two comparisons.
const STEPS: u64 = 20_000;

// SAFETY: the memory it points to is this account's alone.
unsafe impl Send for Account {}

/// Standard deviations that an estimate may be off: with more, one of 26 million would be.
const MOST_DEVIATIONS: f64 = 5.5;

/// The estimates are within [`MOST_DEVIATIONS`] of what was done (and half a percent: threads notice a new rate after
/// 64 KiB), whatever threads allocate, grow, shrink and free, also each other's blocks; and when everything is freed,
/// nothing is left. The environment's `PROCPROF_SOAK_SECONDS` lets it run for longer.
#[test]
fn estimates_are_true_to_exact_bookkeeping_over_threads() {
    let length = std::env::var("PROCPROF_SOAK_SECONDS").map_or(0, |text| text.parse().unwrap());
    without_jemalloc("sampled::estimates_are_true_to_exact_bookkeeping_over_threads", |_| {
        HeapSampler::reset(Some(RATE as u64));
        let symbols = Symbols::of_this_binary();
        let end = std::time::Instant::now() + std::time::Duration::from_secs(length);
        let mut accounts: Vec<Account> = (1..=4).map(|seed| Account::new(seed * 0x9e37_79b9)).collect();
        let (mut rounds, mut worst) = (0, 0.0_f64);
        while rounds < 3 || std::time::Instant::now() < end {
            rounds += 1;
            accounts = on_other_threads(accounts, |account| (0..STEPS).for_each(|_| account.step()));
            for grammar in [Grammar::Pprof, Grammar::Jeprof] {
                worst =
                    worst.max(compare(&accounts, totals(grammar, symbols), &format!("round {rounds}, {grammar:?}")));
            }
        }
        accounts = on_other_threads(accounts, Account::free_all);
        let [_, _, left, _] = totals(Grammar::Pprof, symbols);
        println!(
            "heap: {} allocations compared in {rounds} rounds with their exact account, at most {worst:.1} standard deviations off, {left} objects left",
            accounts.iter().map(|account| account.exact[0]).sum::<f64>()
        );
        assert_eq!(left, 0.0, "what is freed is not in use");
    });
}

/// Lets each account go on in a new thread: what one has allocated another one frees.
fn on_other_threads(accounts: Vec<Account>, work: impl Fn(&mut Account) + Copy + Send + 'static) -> Vec<Account> {
    let spawn = |mut account: Account| {
        std::thread::spawn(move || {
            // Past the point where this thread has noticed the rate.
            drop(std::hint::black_box(vec![0_u8; 256 << 10]));
            work(&mut account);
            account
        })
    };
    let threads: Vec<_> = accounts.into_iter().map(spawn).collect();
    threads.into_iter().map(|thread| thread.join().unwrap()).collect()
}

/// By how many standard deviations the worst of the totals is off.
fn compare(accounts: &[Account], estimates: [f64; 4], what: &str) -> f64 {
    let mut worst = 0.0_f64;
    for (column, estimate) in estimates.into_iter().enumerate() {
        let exact: f64 = accounts.iter().map(|account| account.exact[column]).sum();
        let deviation = accounts.iter().map(|account| account.variance[column]).sum::<f64>().sqrt();
        let error = (estimate - exact).abs();
        assert!(
            error < MOST_DEVIATIONS * deviation + 0.005 * exact,
            "{what}, column {column}: exact {exact}, estimate {estimate}, one standard deviation {deviation:.0}"
        );
        worst = worst.max(error / deviation);
    }
    worst
}

#[test]
fn profiles_show_who_allocates_and_not_the_sampler() {
    without_jemalloc("sampled::profiles_show_who_allocates_and_not_the_sampler", |agent| {
        let kept = keep_eight_megabytes();
        for (path, shown) in [("/debug/pprof/heap", "inuse_space"), ("/debug/pprof/allocs", "alloc_space")] {
            let profile = procprof_profile::format::decode(&answer(agent, &Request::get(path)), &Default::default())
                .unwrap()
                .profile;
            assert_eq!(profile.sample_type(profile.default_sample_type()).0, shown);
            let total = of_function(&profile, "keep_eight_megabytes");
            // 16 samples are expected: 25 % is one standard deviation.
            assert!((1.0e6..20.0e6).contains(&total), "{path}: {total}");
            let names: Vec<&str> = profile.functions().iter().map(|function| profile.string(function.name)).collect();
            assert!(!names.iter().any(|name| name.contains("sampler::thread::stop")), "{names:?}");
            assert!(profile.comments().any(|comment| comment == "#procprof:engine=agent-heap"));
        }
        drop(kept);
        let status = String::from_utf8(answer(agent, &Request::get("/debug/pprof/heap/status"))).unwrap();
        assert!(
            status
                .starts_with("{\"allocator\":\"procprof-agent\",\"compiled_in\":true,\"available\":true,\"active\":true,\"lg_sample\":19,")
        );
        let status = String::from_utf8(answer(agent, &Request::post("/debug/pprof/heap/disable?for=1h", &[]))).unwrap();
        assert!(status.contains("\"active\":false") && !status.contains("\"until\":null"), "{status}");
        let status =
            String::from_utf8(answer(agent, &Request::post("/debug/pprof/heap/reset?lg_sample=12", &[]))).unwrap();
        assert!(status.contains("\"lg_sample\":12"), "{status}");
        let text = String::from_utf8(answer(agent, &Request::get("/pprof/heap"))).unwrap();
        assert!(text.starts_with("heap_v2/4096\n  t*: 0: 0 [0: 0]\n\nMAPPED_LIBRARIES:\n"), "{}", &text[..200]);
    });
}

fn of_function(profile: &Profile, name: &str) -> f64 {
    let space = profile.default_sample_type();
    let is_in = |stack: &[procprof_profile::LocationId]| {
        let lines = stack.iter().flat_map(|place| profile.lines(*place));
        lines.map(|line| profile.string(profile.function(line.function).name)).any(|found| found.contains(name))
    };
    profile.samples().filter(|sample| is_in(sample.stack)).map(|sample| sample.values[space] as f64).sum()
}

#[test]
fn jeprof_and_go_read_what_the_sampler_writes() {
    without_jemalloc("sampled::jeprof_and_go_read_what_the_sampler_writes", |agent| {
        HeapSampler::reset(Some(32 << 10));
        drop(std::hint::black_box(vec![0_u8; 256 << 10]));
        let kept = keep_eight_megabytes();
        let listener = Listener::bind("127.0.0.1:0".parse().unwrap(), agent.clone(), None).unwrap();
        let address = listener.address();
        let table = run("jeprof", &["--text", "--cum", &own_binary(), &format!("http://{address}/pprof/heap")]);
        assert!(table.contains("keep_eight_megabytes"), "{table}");
        for path in ["debug/pprof/heap", "debug/pprof/allocs"] {
            let table = run("go", &["tool", "pprof", "-top", "-cum", &format!("http://{address}/{path}")]);
            assert!(table.contains("keep_eight_megabytes"), "{path}: {table}");
        }
        for (tool, arguments, form) in
            [("jeprof", ["--text", "--cum"].as_slice(), "legacy"), ("go", &["tool", "pprof", "-top", "-cum"], "proto")]
        {
            let folder = tempfile::tempdir().unwrap();
            let file = folder.path().join(form);
            let file = file.to_str().unwrap();
            let url = format!("http://{address}/pprof/growth?seconds=1&format={form}");
            let is_over = std::sync::atomic::AtomicBool::new(false);
            std::thread::scope(|scope| {
                // Whenever the capture begins, something is kept in it.
                scope.spawn(|| {
                    let mut kept = Vec::new();
                    while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
                        kept.push(keep_eight_megabytes());
                        std::thread::sleep(std::time::Duration::from_millis(100));
                    }
                });
                run("curl", &["-sS", "--fail", "-o", file, &url]);
                is_over.store(true, std::sync::atomic::Ordering::Relaxed);
            });
            let table = run(tool, &[arguments, &[&own_binary(), file]].concat());
            assert!(table.contains("keep_eight_megabytes"), "{tool}: {table}");
        }
        drop(kept);
    });
}

#[test]
fn a_forked_child_allocates_and_samples_on() {
    without_jemalloc("sampled::a_forked_child_allocates_and_samples_on", |_| {
        HeapSampler::reset(Some(64));
        let stop = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                        drop(std::hint::black_box(vec![0_u8; 1000]));
                    }
                });
            }
            for _ in 0..20 {
                // SAFETY: the child allocates, frees and leaves by `_exit`.
                let child = unsafe { libc::fork() };
                if child == 0 {
                    (0..1000).for_each(|_| drop(std::hint::black_box(vec![0_u8; 1000])));
                    // SAFETY: ends the child without what the parent would do at its end.
                    unsafe { libc::_exit(if HeapSampler::text().is_ok() { 7 } else { 1 }) };
                }
                let mut status = 0;
                // SAFETY: waits for the child made above.
                assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
                assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 7, "{status:#x}");
            }
            stop.store(true, std::sync::atomic::Ordering::Relaxed);
        });
    });
}
