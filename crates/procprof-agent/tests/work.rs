//! CPU work of known shape, and names for its addresses.

use procprof_profile::Profile;
use std::collections::HashMap;
use std::ops::Range;
use std::process::Command;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// Longest wait for a condition, also on a machine that is busy with much else.
pub(crate) const PATIENCE: Duration = Duration::from_secs(300);

/// Seconds of captures that are repeated, each longer than the one before, until one holds what it must.
pub(crate) const LONGER_AND_LONGER: [u64; 6] = [2, 4, 8, 16, 32, 64];

/// Waits for a condition.
pub(crate) fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < PATIENCE, "{what}: not within {} s", PATIENCE.as_secs());
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// The names of this process's threads.
pub(crate) fn thread_names() -> Vec<String> {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    // One that has ended meanwhile has none.
    let names = tasks.filter_map(|task| std::fs::read_to_string(task.unwrap().path().join("comm")).ok());
    names.map(|name| name.trim_end().to_owned()).collect()
}

/// Waits until CPU is sampled in this process.
pub(crate) fn wait_for_cpu_capture() {
    wait_until("the sampler's thread", || thread_names().iter().any(|name| name == "procprof-cpu"));
}

/// Burns about `units` microseconds in a loop that is all its own code: the remark in it keeps optimizers from making
/// one function of all.
macro_rules! burner {
    ($name:ident) => {
        #[inline(never)]
        #[unsafe(no_mangle)]
        pub(crate) extern "C" fn $name(units: u64) {
            let mut _rounds = units * 1500;
            // SAFETY: counts a register down.
            #[cfg(target_arch = "x86_64")]
            unsafe {
                std::arch::asm!(concat!("/* ", stringify!($name), " */"), "2:", "dec {0}", "jnz 2b", inout(reg) _rounds)
            };
            // SAFETY: counts a register down.
            #[cfg(target_arch = "aarch64")]
            unsafe {
                std::arch::asm!(concat!("/* ", stringify!($name), " */"), "2:", "subs {0}, {0}, #1", "b.ne 2b", inout(reg) _rounds)
            };
        }
    };
}

burner!(hot_70);
burner!(hot_30);
burner!(hot_other);

/// Splits a thread's time 70 to 30 in pieces of changing length until `cpu` of its CPU time has passed.
#[inline(never)]
pub(crate) fn split_70_30(cpu: Duration) {
    let mut random = 0x9e37_79b9_u64;
    while thread_cpu() < cpu {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let units = 1 + random % 40;
        hot_70(7 * units);
        hot_30(3 * units);
    }
}

pub(crate) fn thread_cpu() -> Duration {
    clock(libc::CLOCK_THREAD_CPUTIME_ID)
}

pub(crate) fn process_cpu() -> Duration {
    clock(libc::CLOCK_PROCESS_CPUTIME_ID)
}

fn clock(id: libc::clockid_t) -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid place to write to.
    assert_eq!(unsafe { libc::clock_gettime(id, &mut time) }, 0);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Symbols of this test binary, by `nm`.
pub(crate) struct Symbols {
    by_address: Vec<(u64, u64, String)>,
}

impl Symbols {
    /// They are read once.
    pub(crate) fn of_this_binary() -> &'static Self {
        static OWN: OnceLock<Symbols> = OnceLock::new();
        OWN.get_or_init(Self::read)
    }

    fn read() -> Self {
        let program = std::env::current_exe().unwrap();
        let output = Command::new("nm")
            .args(["-S", "-C", "--defined-only"])
            .arg(program)
            .output()
            .expect("nm (binutils) is needed");
        let text = String::from_utf8(output.stdout).unwrap();
        let mut by_address: Vec<_> = text.lines().filter_map(symbol).collect();
        by_address.sort();
        Self { by_address }
    }

    /// The function at a file address.
    fn name(&self, address: u64) -> Option<&str> {
        let after = self.by_address.partition_point(|(start, ..)| *start <= address);
        let (start, size, name) = self.by_address.get(after.checked_sub(1)?)?;
        (address < start + size).then_some(name)
    }

    /// The stack of a sample as names, leaf first; `?` where unknown.
    pub(crate) fn stack(&self, profile: &Profile, sample: usize) -> Vec<String> {
        let locations = profile.sample(sample).stack.iter().enumerate();
        let named = locations.map(|(depth, id)| {
            if let Some(line) = profile.lines(*id).first() {
                return profile.string(profile.function(line.function).name).to_owned();
            }
            let location = profile.location(*id);
            let Some(mapping) = location.mapping.map(|mapping| profile.mapping(mapping)) else { return "?".to_owned() };
            let file_offset = location.address.0 - mapping.start.0 + mapping.file_offset.0 - u64::from(depth > 0);
            let own = std::env::current_exe().unwrap().to_str() == Some(profile.string(mapping.filename));
            let bias = if own { SEGMENT_BIAS.with(|bias| *bias) } else { return "?".to_owned() };
            self.name(file_offset + bias).unwrap_or("?").to_owned()
        });
        named.collect()
    }
}

thread_local! {
    /// Address minus file offset of this binary's code segment, by `readelf`.
    static SEGMENT_BIAS: u64 = {
        let program = std::env::current_exe().unwrap();
        let output = Command::new("readelf").args(["-lW"]).arg(program).output().expect("readelf (binutils) is needed");
        let text = String::from_utf8(output.stdout).unwrap();
        let line = text.lines().find(|line| line.trim_start().starts_with("LOAD") && line.contains("R E")).unwrap().to_owned();
        let mut words = line.split_whitespace().skip(1).map(|word| u64::from_str_radix(word.trim_start_matches("0x"), 16).unwrap());
        let (offset, address) = (words.next().unwrap(), words.next().unwrap());
        address - offset
    };
}

fn symbol(line: &str) -> Option<(u64, u64, String)> {
    let mut words = line.splitn(4, ' ');
    let (start, size, kind, name) = (words.next()?, words.next()?, words.next()?, words.next()?);
    let number = |text| u64::from_str_radix(text, 16).ok();
    "tTwW".contains(kind).then_some((number(start)?, number(size)?, name.to_owned()))
}

/// CPU nanoseconds by leaf name.
pub(crate) fn flat(profile: &Profile) -> HashMap<String, i64> {
    let symbols = Symbols::of_this_binary();
    let mut flat = HashMap::new();
    for index in 0..profile.sample_count() {
        let leaf = symbols.stack(profile, index).swap_remove(0);
        *flat.entry(leaf).or_insert(0) += profile.sample(index).values[1];
    }
    flat
}

/// The number of samples whose leaf has that name.
pub(crate) fn samples(profile: &Profile, leaf: &str) -> i64 {
    let symbols = Symbols::of_this_binary();
    let of_leaf = (0..profile.sample_count()).filter(|index| symbols.stack(profile, *index)[0] == leaf);
    of_leaf.map(|index| profile.sample(index).values[0]).sum()
}

/// Checks that `hot_70` has 70 percent of its samples and those of `hot_30`, within five standard deviations.
pub(crate) fn is_split_70_30(profile: &Profile) {
    is_part_of("hot_70", samples(profile, "hot_70"), samples(profile, "hot_30"), 0.7);
}

/// Checks that one of two numbers of samples is that part of both, within five standard deviations.
pub(crate) fn is_part_of(what: &str, some: i64, others: i64, expected: f64) {
    const FEWEST: f64 = 100.0;
    let all = (some + others) as f64;
    let (share, deviation) = (some as f64 / all, (expected * (1.0 - expected) / all).sqrt());
    println!("{what}: {share:.3} of {all} samples, expected {expected}, one standard deviation {deviation:.3}");
    assert!(all >= FEWEST, "{what}: {all} samples");
    assert!((share - expected).abs() < 5.0 * deviation, "{what}: {share:.3} of {all} samples, expected {expected}");
}

/// The thread label of a sample.
pub(crate) fn thread_of(profile: &Profile, sample: usize) -> String {
    let labels = profile.sample(sample).labels.iter();
    let mut names = labels.filter(|label| profile.string(label.key) == "thread").map(|label| match label.value {
        procprof_profile::LabelValue::Text(text) => profile.string(text).to_owned(),
        procprof_profile::LabelValue::Number(..) => panic!("a thread's name is a text"),
    });
    names.next().unwrap()
}

/// The result of an action that starts or ends a capture, and the process's CPU time before and after it: the capture's
/// window begins or ends in between.
pub(crate) fn around<T>(action: impl FnOnce() -> T) -> (T, Range<Duration>) {
    let before = process_cpu();
    let done = action();
    (done, before..process_cpu())
}

/// Checks the CPU nanoseconds of a window that began and ended within these, to one percent.
pub(crate) fn is_the_cpu_time(total: f64, began: &Range<Duration>, ended: &Range<Duration>) {
    let (least, most) = ((ended.start - began.end).as_nanos() as f64, (ended.end - began.start).as_nanos() as f64);
    println!("{total} of {least} to {most}");
    assert!(total > 0.99 * least && total < 1.01 * most, "{total} of {least} to {most}");
}

/// Nanoseconds of a thread, and those of them that no sample represents.
pub(crate) fn time_of(profile: &Profile, thread: &str) -> (f64, f64) {
    let (mut all, mut unsampled) = (0.0, 0.0);
    for index in (0..profile.sample_count()).filter(|index| thread_of(profile, *index) == thread) {
        let sample = profile.sample(index);
        all += sample.values[1] as f64;
        unsampled += if sample.values[0] == 0 { sample.values[1] as f64 } else { 0.0 };
    }
    (all, unsampled)
}
