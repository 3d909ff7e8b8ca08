//! CPU capture: right leaf, right share, right total, under every kind of thread.

use crate::isolated::{isolated, isolated_under};
use crate::work::{
    Symbols, around, flat, hot_other, is_part_of, is_split_70_30, is_the_cpu_time, split_70_30, thread_cpu,
    thread_names, thread_of, time_of, wait_until,
};
use procprof_agent::{CpuCapture, CpuEngine, CpuOptions, Error};
use procprof_profile::Profile;
use std::collections::HashMap;
use std::sync::{Arc, Barrier};
use std::time::{Duration, SystemTime};

fn options(hz: u32) -> CpuOptions {
    CpuOptions { hz, owner: "the test".into(), ..CpuOptions::default() }
}

fn cpu_of(profile: &Profile) -> f64 {
    profile.total(1) as f64
}

#[test]
fn a_known_split_is_found_with_the_right_leaf_and_callers() {
    isolated("cpu::a_known_split_is_found_with_the_right_leaf_and_callers", || {
        let (capture, began) = around(|| CpuCapture::start(&options(1000)).unwrap());
        let worker = std::thread::Builder::new().name("splitter".into());
        let used = worker
            .spawn(|| {
                split_70_30(Duration::from_secs(2));
                thread_cpu()
            })
            .unwrap()
            .join()
            .unwrap();
        let (profile, ended) = around(|| capture.finish().unwrap());

        let flat = flat(&profile);
        let (a, b) = (flat["hot_70"] as f64, flat["hot_30"] as f64);
        println!("flat {flat:?}, used {used:?}");
        is_split_70_30(&profile);
        let (all, unsampled) = time_of(&profile, "splitter");
        let sampled = all - unsampled;
        assert!(a + b > 0.95 * sampled && sampled > 0.5 * used.as_nanos() as f64, "flat {flat:?} of {used:?}");
        is_the_cpu_time(cpu_of(&profile), &began, &ended);
        callers_are_named(&profile);
    });
}

fn callers_are_named(profile: &Profile) {
    let symbols = Symbols::of_this_binary();
    let (mut good, mut all) = (0, 0);
    for index in 0..profile.sample_count() {
        let stack = symbols.stack(profile, index);
        if stack[0].starts_with("hot_") {
            let samples = profile.sample(index).values[0];
            all += samples;
            good += if stack[1].contains("split_70_30")
                && stack.iter().any(|name| name.contains("thread_start") || name.contains("Thread"))
            {
                samples
            } else {
                0
            };
            assert_eq!(thread_of(profile, index), "splitter");
        }
    }
    println!("{good} of {all} samples have the whole stack");
    assert!(good * 200 >= all * 199, "{good} of {all} samples have the whole stack");
}

/// Work in the C library, which has no frame pointers, and back from it into this program.
fn work_in_libc(cpu: Duration) {
    extern "C" fn compare(a: *const libc::c_void, b: *const libc::c_void) -> libc::c_int {
        // SAFETY: `qsort` hands two of the numbers it was given.
        unsafe { (*a.cast::<i32>()).cmp(&*b.cast::<i32>()) as libc::c_int }
    }
    let mut random = 1_u32;
    while thread_cpu() < cpu {
        let mut numbers = [0_i32; 500];
        for number in &mut numbers {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            *number = random as i32;
        }
        // SAFETY: as many numbers of that size as there are.
        unsafe { libc::qsort(numbers.as_mut_ptr().cast(), numbers.len(), size_of::<i32>(), Some(compare)) };
        let text = format!("{numbers:?} {:.3}", f64::from(random));
        std::hint::black_box(text.find("99999999999"));
        let _ = std::fs::metadata("/proc/self/status");
    }
}

fn comment(profile: &Profile, key: &str) -> u64 {
    let start = format!("#procprof:{key}=");
    profile
        .comments()
        .find_map(|comment| comment.strip_prefix(&start).and_then(|value| value.parse().ok()))
        .unwrap_or_default()
}

/// Prints how many samples end in each outermost frame, and one stack of each.
fn print_ends(profile: &Profile) {
    let mut ends: HashMap<u64, (i64, Vec<String>)> = HashMap::new();
    for index in 0..profile.sample_count() {
        let sample = profile.sample(index);
        let frames = sample.stack.iter().map(|id| profile.location(*id)).map(|location| {
            let mapping = location.mapping.map(|mapping| profile.mapping(mapping));
            let file = mapping.map_or("?", |mapping| profile.string(mapping.filename));
            let offset = mapping.map_or(0, |mapping| mapping.start.0 - mapping.file_offset.0);
            format!("{}+{:#x}", file.rsplit('/').next().unwrap_or(file), location.address.0 - offset)
        });
        let Some(last) = sample.stack.last() else { continue };
        let end = ends.entry(profile.location(*last).address.0).or_insert_with(|| (0, frames.collect()));
        end.0 += sample.values[0];
    }
    for (samples, stack) in ends.values() {
        println!("{samples} end in {}", stack.join(" "));
    }
}

#[test]
fn stacks_reach_the_root_of_their_thread_also_from_code_without_frame_pointers() {
    isolated("cpu::stacks_reach_the_root_of_their_thread_also_from_code_without_frame_pointers", || {
        let capture = CpuCapture::start(&options(997)).unwrap();
        let threads: Vec<_> =
            (0..2).map(|_| std::thread::spawn(|| work_in_libc(Duration::from_millis(1500)))).collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        let profile = capture.finish().unwrap();
        let (samples, cut) = (profile.total(0) as u64, comment(&profile, "samples-without-root"));
        print_ends(&profile);
        println!("{cut} of {samples} samples without root; {:?}", profile.comments().collect::<Vec<_>>());
        assert!(samples > 300 && cut * 200 <= samples, "{cut} of {samples} samples without root");
    });
}

// A function without tables, whose frame pointer is a counter: its caller can be found by a scan of the stack only.
#[cfg(target_arch = "x86_64")]
std::arch::global_asm!(
    ".globl procprof_test_bare",
    ".type procprof_test_bare, @function",
    "procprof_test_bare:",
    "push rbx",
    "push rbp",
    "push r12",
    "sub rsp, 208",
    "mov rbp, rdi",
    // What is short may be padding between two functions.
    ".skip 512, 0x90",
    "2:",
    "dec rbp",
    "jnz 2b",
    "add rsp, 208",
    "pop r12",
    "pop rbp",
    "pop rbx",
    "ret",
    ".size procprof_test_bare, . - procprof_test_bare",
);

#[cfg(target_arch = "x86_64")]
#[inline(never)]
fn calls_bare(cpu: Duration) {
    unsafe extern "C" {
        fn procprof_test_bare(rounds: u64);
    }
    while crate::work::thread_cpu() < cpu {
        // SAFETY: counts down, and keeps what a function has to keep.
        unsafe { procprof_test_bare(1_000_000) };
    }
}

#[cfg(target_arch = "x86_64")]
#[test]
fn callers_of_code_without_tables_are_found_by_a_scan_and_marked() {
    isolated("cpu::callers_of_code_without_tables_are_found_by_a_scan_and_marked", || {
        let capture = CpuCapture::start(&options(500)).unwrap();
        std::thread::Builder::new()
            .name("bare".into())
            .spawn(|| calls_bare(Duration::from_secs(1)))
            .unwrap()
            .join()
            .unwrap();
        let profile = capture.finish().unwrap();
        let symbols = crate::work::Symbols::of_this_binary();
        let (mut all, mut found) = (0, 0);
        for sample in (0..profile.sample_count()).filter(|sample| crate::work::thread_of(&profile, *sample) == "bare") {
            let stack = symbols.stack(&profile, sample);
            if stack[0] == "procprof_test_bare" {
                all += profile.sample(sample).values[0];
                let is_found = stack[1].contains("scanning") && stack[2].contains("calls_bare") && stack.len() > 6;
                found += if is_found { profile.sample(sample).values[0] } else { 0 };
                println!("{:?} {stack:?}", profile.sample(sample).values);
            }
        }
        print_ends(&profile);
        println!("{found} of {all}");
        // A sample may be taken before the tables are ready.
        assert!(all > 50 && found > all * 9 / 10, "{found} of {all}");
        assert!(comment(&profile, "samples-by-scan") as i64 >= found);
        assert!((comment(&profile, "samples-without-root") as i64) < all / 10);
    });
}

#[test]
fn totals_are_the_process_cpu_time_at_any_rate() {
    isolated("cpu::totals_are_the_process_cpu_time_at_any_rate", || {
        for hz in [49, 99, 997] {
            let (capture, began) = around(|| CpuCapture::start(&options(hz)).unwrap());
            let born: Vec<_> = (0..3).map(|_| std::thread::spawn(|| split_70_30(Duration::from_millis(200)))).collect();
            for _ in 0..20 {
                std::thread::spawn(|| hot_other(5_000)).join().unwrap();
            }
            born.into_iter().for_each(|thread| thread.join().unwrap());
            let (profile, ended) = around(|| capture.finish().unwrap());
            println!("{hz} Hz, {:?}", flat(&profile).get("[unsampled CPU]"));
            is_the_cpu_time(cpu_of(&profile), &began, &ended);
        }
    });
}

#[test]
fn two_consumers_share_the_samples_and_do_not_disturb_each_other() {
    isolated("cpu::two_consumers_share_the_samples_and_do_not_disturb_each_other", || {
        let (mut continuous, began) = around(|| CpuCapture::start(&options(99)).unwrap());
        let burn = || std::thread::spawn(|| split_70_30(Duration::from_millis(400))).join().unwrap();
        burn();
        let (on_request, request_began) =
            around(|| CpuCapture::start(&CpuOptions { owner: "a caller".into(), ..options(99) }).unwrap());
        burn();
        let first_cut = continuous.cut().unwrap();
        burn();
        let (requested, request_ended) = around(|| on_request.finish().unwrap());
        burn();
        let (second_cut, ended) = around(|| continuous.finish().unwrap());
        is_the_cpu_time(cpu_of(&requested), &request_began, &request_ended);
        is_the_cpu_time(cpu_of(&first_cut) + cpu_of(&second_cut), &began, &ended);
        assert!(flat(&requested)["hot_70"] > 300_000_000, "{:?}", flat(&requested));
    });
}

#[test]
fn another_rate_is_refused_with_who_and_until_when() {
    isolated("cpu::another_rate_is_refused_with_who_and_until_when", || {
        let until = SystemTime::UNIX_EPOCH + Duration::from_secs(1_795_213_026);
        let first = CpuCapture::start(&CpuOptions { until: Some(until), ..options(99) }).unwrap();
        let refused = CpuCapture::start(&options(100)).unwrap_err().to_string();
        assert_eq!(
            refused,
            "CPU is being sampled at 99 Hz by the test until 2026-11-20T22:17:06Z; ask for frequency=99 to share it"
        );
        let continuous = CpuCapture::start(&options(99)).unwrap();
        drop(first);
        assert!(CpuCapture::start(&options(100)).unwrap_err().to_string().contains("by the test continuously"));
        drop(continuous);
        let again = CpuCapture::start(&options(100)).unwrap();
        assert!(std::thread::available_parallelism().is_ok());
        drop(again);
        // A thread that was joined can be listed in /proc for a moment longer.
        wait_until("the end of our threads", || !thread_names().iter().any(|name| name.contains("procprof")));
        let timers = std::fs::read_to_string("/proc/self/timers").unwrap_or_default();
        assert_eq!(timers, "", "timers left");
    });
}

#[test]
fn threads_that_live_shortly_are_in_the_total() {
    isolated("cpu::threads_that_live_shortly_are_in_the_total", || {
        let (capture, began) = around(|| CpuCapture::start(&options(99)).unwrap());
        for _ in 0..100 {
            std::thread::spawn(|| split_70_30(Duration::from_millis(10))).join().unwrap();
        }
        let (profile, ended) = around(|| capture.finish().unwrap());
        let flat = flat(&profile);
        println!("{flat:?}");
        is_the_cpu_time(cpu_of(&profile), &began, &ended);
        assert!(flat["[unsampled CPU]"] > 0);
    });
}

#[test]
fn threads_that_live_shortly_are_seen_once_it_is_noticed_that_there_are_some() {
    isolated("cpu::threads_that_live_shortly_are_seen_once_it_is_noticed_that_there_are_some", || {
        // Ticks alone leave more than four fifths; beside other work threads wait longer to be found.
        wait_until("a capture that sees them", || {
            let capture = CpuCapture::start(&CpuOptions { engine: CpuEngine::Perf, ..options(997) }).unwrap();
            for _ in 0..50 {
                std::thread::spawn(|| split_70_30(Duration::from_millis(20))).join().unwrap();
            }
            let profile = capture.finish().unwrap();
            let unsampled = 100.0 * flat(&profile)["[unsampled CPU]"] as f64 / cpu_of(&profile);
            println!("{unsampled:.1} % of it unsampled");
            unsampled < 70.0
        });
    });
}

/// Each of many threads has a few samples, and half a period after the last one: a fifth of all, were it in none.
#[test]
fn many_threads_of_few_samples_each_are_sampled_to_their_ends() {
    isolated("cpu::many_threads_of_few_samples_each_are_sampled_to_their_ends", || {
        const THREADS: usize = 100;
        let begin = Arc::new(Barrier::new(THREADS + 1));
        let work = |begin: Arc<Barrier>| {
            begin.wait();
            split_70_30(thread_cpu() + Duration::from_millis(30));
            // Its end is the capture's affair, not the thread's.
            begin.wait();
        };
        let threads: Vec<_> = (0..THREADS)
            .map(|number| {
                let begin = begin.clone();
                std::thread::Builder::new().name(format!("few-{number}")).spawn(move || work(begin)).unwrap()
            })
            .collect();
        let (capture, began) =
            around(|| CpuCapture::start(&CpuOptions { engine: CpuEngine::Tick, ..options(99) }).unwrap());
        begin.wait();
        begin.wait();
        let (profile, ended) = around(|| capture.finish().unwrap());
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        is_the_cpu_time(cpu_of(&profile), &began, &ended);
        let flat = flat(&profile);
        let unsampled = flat.get("[unsampled CPU]").copied().unwrap_or_default() as f64;
        let (seven, three) = (flat["hot_70"] as f64, flat["hot_30"] as f64);
        println!(
            "{:.1} % unsampled, {:.3} of 0.7: {flat:?}",
            100.0 * unsampled / cpu_of(&profile),
            seven / (seven + three)
        );
        let mut samples_of: HashMap<String, i64> = HashMap::new();
        for index in (0..profile.sample_count()).filter(|index| profile.sample(*index).values[0] > 0) {
            *samples_of.entry(thread_of(&profile, index)).or_default() += profile.sample(index).values[0];
        }
        // A sample represents two periods at most; the kernel's tick meets few of the threads where many want to run,
        // and some of them twice within two periods, so that the second sample stands for less.
        let of_thread = |number| {
            (30e6 - 20e6 * samples_of.get(&format!("few-{number}")).copied().unwrap_or_default() as f64).max(0.0)
        };
        let beyond: f64 = (0..THREADS).map(of_thread).sum();
        assert!(
            unsampled < beyond + 0.15 * cpu_of(&profile),
            "{unsampled} ns unsampled, {beyond} of it beyond what samples may stand for"
        );
        let samples: i64 = profile.samples().map(|sample| sample.values[0]).sum();
        let sigma = (0.7 * 0.3 / samples as f64).sqrt();
        // Samples of one thread weigh up to twice as much as those of another.
        assert!((seven / (seven + three) - 0.7).abs() < 2.0 * 5.0 * sigma, "{seven} to {three} in {samples} samples");
    });
}

#[test]
fn many_threads_that_allocate_are_sampled_without_harm() {
    isolated("cpu::many_threads_that_allocate_are_sampled_without_harm", || {
        let (capture, began) = around(|| CpuCapture::start(&options(1000)).unwrap());
        let threads: Vec<_> =
            (0..64).map(|_| std::thread::spawn(|| allocate_until(Duration::from_millis(30)))).collect();
        let births = std::thread::spawn(|| {
            for _ in 0..200 {
                let small = std::thread::Builder::new().stack_size(256 << 10);
                small.spawn(|| allocate_until(Duration::from_micros(500))).unwrap().join().unwrap();
            }
        });
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        births.join().unwrap();
        let (profile, ended) = around(|| capture.finish().unwrap());
        println!("{:?}", profile.comments().collect::<Vec<_>>());
        is_the_cpu_time(cpu_of(&profile), &began, &ended);
    });
}

fn allocate_until(cpu: Duration) {
    let mut kept: Vec<Vec<u8>> = Vec::new();
    while thread_cpu() < cpu {
        kept.push(vec![1; 64 + kept.len() % 5000]);
        if kept.len() > 200 {
            kept.drain(..100);
        }
        let _ = std::panic::catch_unwind(|| std::hint::black_box(1));
    }
}

/// Two functions with frame pointers in one fresh page: the first calls the second, which counts `rounds` down.
#[cfg(target_arch = "x86_64")]
fn new_code() -> extern "C" fn(u64) {
    const CODE: [u8; 22] = [
        0x55, 0x48, 0x89, 0xe5, 0xe8, 0x02, 0x00, 0x00, 0x00, 0x5d, 0xc3, // push; mov; call inner; pop; ret
        0x55, 0x48, 0x89, 0xe5, 0x48, 0xff, 0xcf, 0x75, 0xfb, 0x5d,
        0xc3, // inner: push; mov; dec rdi; jnz; pop; ret
    ];
    let (writable, private) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: a fresh page, written within its length and then made executable; it holds a function of that type and is
    // never unmapped.
    unsafe {
        let page = libc::mmap(std::ptr::null_mut(), 4096, writable, private, -1, 0);
        assert_ne!(page, libc::MAP_FAILED);
        page.cast::<[u8; 22]>().write(CODE);
        assert_eq!(libc::mprotect(page, 4096, libc::PROT_READ | libc::PROT_EXEC), 0);
        std::mem::transmute(page)
    }
}

#[cfg(target_arch = "x86_64")]
#[test]
fn code_that_is_mapped_during_a_capture_is_walked() {
    isolated("cpu::code_that_is_mapped_during_a_capture_is_walked", || {
        let capture = CpuCapture::start(&options(1000)).unwrap();
        split_70_30(thread_cpu() + Duration::from_millis(100));
        let code = new_code();
        let place = code as *const () as u64;
        let end = thread_cpu() + Duration::from_secs(1);
        while thread_cpu() < end {
            code(1_000_000);
        }
        let profile = capture.finish().unwrap();
        let of_it = (0..profile.sample_count()).map(|index| profile.sample(index));
        let of_it = of_it.filter(|sample| (place..place + 22).contains(&profile.location(sample.stack[0]).address.0));
        let (mut whole, mut all) = (0, 0);
        for sample in of_it {
            all += sample.values[0];
            whole += if sample.stack.len() > 2 { sample.values[0] } else { 0 };
        }
        println!("{whole} of {all} samples reach beyond the new code; {:?}", profile.comments().collect::<Vec<_>>());
        assert!(whole * 2 > all && all > 20, "{whole} of {all} samples reach beyond the new code");
    });
}

#[test]
fn a_forked_child_gets_an_error_and_can_start_again() {
    isolated("cpu::a_forked_child_gets_an_error_and_can_start_again", || {
        let mut capture = CpuCapture::start(&options(99)).unwrap();
        let burner = std::thread::spawn(|| split_70_30(Duration::from_millis(500)));
        // SAFETY: the child uses only what its allocator and the standard library keep usable after a fork.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let is_forked_error = matches!(capture.cut(), Err(Error::Forked { .. }));
            drop(capture);
            let own = CpuCapture::start(&options(997)).unwrap();
            split_70_30(thread_cpu() + Duration::from_millis(300));
            let seen = flat(&own.finish().unwrap()).get("hot_70").copied().unwrap_or_default();
            // SAFETY: ends the child without running the parent's destructors.
            unsafe { libc::_exit(if is_forked_error && seen > 100_000_000 { 0 } else { 1 }) };
        }
        let mut status = 0;
        // SAFETY: waits for the child made above.
        assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
        assert_eq!(status, 0, "the child's verdict");
        burner.join().unwrap();
        let profile = capture.finish().unwrap();
        assert!(flat(&profile)["hot_70"] > 200_000_000);
    });
}

/// Thread ids of the `/proc` outside are not this process's: nothing could be sampled.
#[test]
fn proc_of_another_pid_namespace_is_an_error() {
    let namespace = ["unshare", "--user", "--map-root-user", "--pid", "--fork"].map(std::ffi::OsStr::new);
    isolated_under(&namespace, "cpu::proc_of_another_pid_namespace_is_an_error", &[], || {
        let agent = procprof_agent::start(procprof_agent::Config::default()).unwrap();
        for path in ["/debug/pprof/profile?seconds=1", "/debug/pprof/wall?seconds=1"] {
            let answer = agent.handle(&procprof_agent::Request::get(path));
            let text = String::from_utf8_lossy(&answer.body).into_owned();
            assert_eq!(answer.status, 500, "{path}: {text}");
            assert!(text.contains("list the threads") && text.contains("another pid namespace"), "{path}: {text}");
        }
    });
}

#[test]
fn an_illegal_rate_is_refused_by_its_number() {
    for hz in [0, 4001] {
        let refused = CpuCapture::start(&options(hz)).unwrap_err();
        assert_eq!(refused.to_string(), format!("frequency {hz}: expected 1 to 4000 samples a second"));
        assert!(matches!(refused, Error::Frequency { .. }));
    }
}

/// The labels of a sample as `key=value`.
fn labels_of(profile: &Profile, sample: usize) -> Vec<String> {
    let text = |label: &procprof_profile::Label| match label.value {
        procprof_profile::LabelValue::Text(text) => format!("{}={}", profile.string(label.key), profile.string(text)),
        procprof_profile::LabelValue::Number(number, _) => format!("{}={number}", profile.string(label.key)),
    };
    profile.sample(sample).labels.iter().map(text).collect()
}

/// The sum of a value of the samples that have a label.
fn with_label(profile: &Profile, label: &str, value: usize) -> i64 {
    let with = (0..profile.sample_count()).filter(|index| labels_of(profile, *index).iter().any(|own| own == label));
    with.map(|index| profile.sample(index).values[value]).sum()
}

fn samples_with(profile: &Profile, label: &str) -> i64 {
    with_label(profile, label, 0)
}

/// CPU nanoseconds of samples that have a label.
fn cpu_with(profile: &Profile, label: &str) -> f64 {
    with_label(profile, label, 1) as f64
}

#[test]
fn labels_split_the_cpu_time_of_a_thread_as_it_was_split() {
    isolated("cpu::labels_split_the_cpu_time_of_a_thread_as_it_was_split", || {
        let capture = CpuCapture::start(&options(1000)).unwrap();
        let worker = std::thread::Builder::new().name("queries".into());
        let work = || {
            let _service = procprof_agent::label("service", "search");
            while thread_cpu() < Duration::from_secs(2) {
                let begun = thread_cpu();
                let query = procprof_agent::label("query_id", "0198f2c4-7a01");
                split_70_30(begun + Duration::from_millis(35));
                drop(query);
                let _shard = procprof_agent::label("shard", 7_u64);
                split_70_30(begun + Duration::from_millis(50));
            }
        };
        worker.spawn(work).unwrap().join().unwrap();
        let profile = capture.finish().unwrap();
        let (query, shard) = (cpu_with(&profile, "query_id=0198f2c4-7a01"), cpu_with(&profile, "shard=7"));
        let (service, thread) = (cpu_with(&profile, "service=search"), cpu_with(&profile, "thread=queries"));
        println!("{service} ns, {thread} ns of the thread; {:?}", profile.comments().collect::<Vec<_>>());
        let [of_query, of_shard] = ["query_id=0198f2c4-7a01", "shard=7"].map(|label| samples_with(&profile, label));
        is_part_of("query_id", of_query, of_shard, 0.7);
        assert!(
            service > 0.9 * thread && (query + shard - service).abs() < 0.01 * service,
            "{query} + {shard} of {service} of {thread}"
        );
    });
}

/// Gives this thread an alternate stack with room for the kernel's frame and `more` bytes, just above memory that can't
/// be touched.
fn tiny_alternate_stack(more: usize) {
    const AT_MINSIGSTKSZ: u64 = 51;
    // SAFETY: fresh mappings; the stack stays for the rest of the process, `libc` only reads what it is given.
    unsafe {
        let size = (libc::getauxval(AT_MINSIGSTKSZ) as usize).max(libc::MINSIGSTKSZ) + more;
        let bytes = size.next_multiple_of(4096) + 4096;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let memory =
            libc::mmap(std::ptr::null_mut(), bytes, protection, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0);
        assert!(memory != libc::MAP_FAILED && libc::mprotect(memory, 4096, libc::PROT_NONE) == 0);
        let stack = libc::stack_t { ss_sp: memory.byte_add(4096), ss_flags: 0, ss_size: size };
        assert_eq!(libc::sigaltstack(&raw const stack, std::ptr::null_mut()), 0);
    }
}

#[test]
fn a_thread_with_a_tiny_alternate_stack_is_sampled() {
    isolated("cpu::a_thread_with_a_tiny_alternate_stack_is_sampled", || {
        let capture = CpuCapture::start(&options(1000)).unwrap();
        let worker = std::thread::spawn(|| {
            tiny_alternate_stack(1536);
            work_in_libc(Duration::from_millis(500));
            split_70_30(Duration::from_secs(1));
        });
        worker.join().unwrap();
        let flat = flat(&capture.finish().unwrap());
        let found = flat.get("hot_70").copied().unwrap_or_default();
        assert!(found > 100_000_000, "{flat:?}");
    });
}
