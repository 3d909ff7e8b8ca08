//! The thread that sums samples up, and its state.
//!
//! Ten times a second it takes the samples from the buffer, separates waits for locks from others, sets the budgets,
//! and checks whether libraries were loaded or unloaded: then it redirects their calls through the hooks, too, and
//! refreshes unwind tables and classes.

use super::buffer::{self, End, Kind, Sample};
use super::classes::{self, Class, MAX_CHAIN};
use super::got::{Hook, Patched};
use super::tail::Tails;
use super::waiters::{self, Unowed};
use super::{budget, fork, futex, hook, names, pthread, stack};
use crate::cpu::regions::Regions;
use crate::cpu::tables::Tables;
use crate::error::{Error, Result};
use crate::spin::Spin;
use procprof_unwind::Space;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};

/// Stacks kept of each view; of further ones only the leaf is, so that sums stay right.
const MAX_STACKS: usize = 1 << 16;

/// Function names that are remembered.
const MAX_VERDICTS: usize = 1 << 14;

/// Samples of holders that wait until it is known what the others waited for.
const MAX_UNDECIDED: usize = 1 << 12;

/// Waits in a function without a name after which it is taken for no lock's.
const NAMELESS_WAITS: u32 = 3;

/// Stacks with the waits and nanoseconds that their samples represent.
pub(super) type Stacks = HashMap<Box<[u64]>, [f64; 2]>;

/// The recorded waits, since the start or within some time.
#[derive(Clone, Debug)]
pub(crate) struct Sums {
    pub(super) since: SystemTime,
    pub(super) at: SystemTime,
    pub(super) waits: Stacks,
    pub(super) holds: Stacks,
    pub(super) counts: Counts,
}

/// Counts that are reported beside the stacks.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    pub(super) samples: u64,
    /// Samples that found no room.
    pub(super) lost: u64,
    pub(super) truncated: u64,
    pub(super) without_root: u64,
    /// Waits that are no lock's.
    pub(super) others: u64,
    /// Waits of threads under a filter of system calls, which are not recorded.
    pub(super) left_out: u64,
    /// Waits of which it is not known, and their nanoseconds.
    pub(super) undecided: u64,
    pub(super) undecided_nanos: u64,
    /// Locks that were let go while it was not known what is waited for.
    pub(super) undecided_holds: u64,
    pub(super) unowed: Unowed,
}

/// The collector's state.
struct Collected {
    /// `None` until the first start.
    sums: Option<Sums>,
    spare: Vec<u64>,
    /// Class by return address, from the names of functions; `None` where there are no names.
    verdicts: Option<HashMap<u64, Option<Class>>>,
    nameless: u32,
    /// Rebuilt when code was loaded or unloaded.
    tails: Option<Tails>,
    /// For a stack that is being put together.
    stack: Vec<u64>,
    undecided_holds: Vec<(u64, [f64; 2], Box<[u64]>)>,
}

static COLLECTED: Spin<Collected> = Spin::new(Collected::new(), Collected::new);

/// Calls that are led through the hooks.
static PATCHED: Spin<Patched> = Spin::new(Patched::new(), Patched::new);

/// The recording, from its start until it is dropped.
#[derive(Debug)]
pub(super) struct Running {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Running {
    /// Begins.
    pub(super) fn start() -> Result<Self> {
        fork::follow();
        buffer::reserve();
        COLLECTED.lock().sums.get_or_insert_with(Sums::none);
        let mut libraries = Libraries::default();
        libraries.follow();
        if PATCHED.lock().count() == 0 {
            return Err(Error::NoLockHooks);
        }
        let stop = Arc::new(AtomicBool::new(false));
        // From here on dropping it takes the hooks away again.
        let mut running = Self { stop: stop.clone(), thread: None };
        hook::switch(true);
        let thread = crate::aside::spawn("procprof-locks", move || run(&stop, libraries));
        running.thread =
            Some(thread.map_err(|source| Error::System { what: "start the thread that records waits", source })?);
        Ok(running)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        hook::switch(false);
        PATCHED.lock().undo(&hooks());
        self.stop.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // It does not panic; if it did there would be nothing left to end.
            let _ = thread.join();
        }
    }
}

pub(super) fn hooks() -> Vec<Hook> {
    let mut hooks = pthread::hooks();
    hooks.push(futex::hook());
    hooks
}

/// The code of this process.
#[derive(Debug, Default)]
struct Libraries {
    tables: Tables,
    space: Option<Arc<Space>>,
}

impl Libraries {
    /// Follows what has been loaded and unloaded since the last call.
    fn follow(&mut self) {
        self.tables.compile_wanted();
        if self.space.is_some() && !self.tables.are_stale() {
            let mut patched = PATCHED.lock();
            if patched.is_unfinished() {
                patched.extend(&hooks());
            }
            return;
        }
        PATCHED.lock().extend(&hooks());
        // Decide what was recorded by the code that was there.
        COLLECTED.lock().drain();
        classes::clear();
        let mut collected = COLLECTED.lock();
        (collected.verdicts, collected.tails) = (None, None);
        drop(collected);
        let space = Regions::of_this_process(&mut self.tables).space;
        stack::publish(&space);
        self.space = Some(space);
    }
}

fn run(stop: &AtomicBool, mut libraries: Libraries) {
    crate::own_thread::leave_out();
    while !stop.load(Ordering::SeqCst) {
        std::thread::park_timeout(Duration::from_millis(budget::TICK_MILLIS));
        budget::WAITS.tick();
        budget::HOLDS.tick();
        waiters::sweep(hook::now());
        libraries.follow();
        COLLECTED.lock().drain();
    }
}

/// All sums up to now; empty before the first start.
pub(super) fn sums() -> Sums {
    let _busy = hook::Busy::enter();
    let mut collected = COLLECTED.lock();
    collected.drain();
    let mut sums = collected.sums.clone().unwrap_or_else(Sums::none);
    drop(collected);
    sums.at = SystemTime::now();
    sums.counts.lost = buffer::lost();
    sums.counts.others = classes::others();
    sums.counts.left_out = classes::left_out();
    sums.counts.unowed = waiters::unowed();
    sums
}

impl Sums {
    fn none() -> Self {
        let now = SystemTime::now();
        Self { since: now, at: now, waits: Stacks::new(), holds: Stacks::new(), counts: Counts::default() }
    }

    /// The difference from an earlier state of the same sums.
    pub(super) fn since(mut self, before: &Self) -> Self {
        self.since = before.at;
        for (stacks, before) in [(&mut self.waits, &before.waits), (&mut self.holds, &before.holds)] {
            for (stack, former) in before {
                if let Some(now) = stacks.get_mut(stack) {
                    (now[0], now[1]) = (now[0] - former[0], now[1] - former[1]);
                }
            }
            stacks.retain(|_, values| values[0] >= 0.5 || values[1] >= 0.5);
        }
        self.counts = self.counts.since(&before.counts);
        self
    }
}

impl Counts {
    fn since(self, before: &Self) -> Self {
        let unowed = Unowed {
            wake_up: self.unowed.wake_up - before.unowed.wake_up,
            unknown_holder: self.unowed.unknown_holder - before.unowed.unknown_holder,
            unfollowed: self.unowed.unfollowed - before.unowed.unfollowed,
        };
        Self {
            samples: self.samples - before.samples,
            lost: self.lost - before.lost,
            truncated: self.truncated - before.truncated,
            without_root: self.without_root - before.without_root,
            others: self.others - before.others,
            left_out: self.left_out - before.left_out,
            undecided: self.undecided - before.undecided,
            undecided_nanos: self.undecided_nanos - before.undecided_nanos,
            undecided_holds: self.undecided_holds - before.undecided_holds,
            unowed,
        }
    }
}

impl Collected {
    const fn new() -> Self {
        Self {
            sums: None,
            spare: Vec::new(),
            verdicts: None,
            nameless: 0,
            tails: None,
            stack: Vec::new(),
            undecided_holds: Vec::new(),
        }
    }

    /// Takes the samples that wait. The calling thread is busy.
    fn drain(&mut self) {
        let Some(mut sums) = self.sums.take() else { return };
        let mut spare = std::mem::take(&mut self.spare);
        let undecided = std::mem::take(&mut self.undecided_holds);
        buffer::drain(&mut spare, |sample| self.take(&sample, &mut sums));
        for (key, values, stack) in undecided {
            // Now the waits of that time are known; what is not known by them never is.
            match classes::classify(key) {
                Class::Lock => add(&mut sums.holds, &stack, values),
                Class::Other => (),
                _ => sums.counts.undecided_holds += 1,
            }
        }
        (self.spare, self.sums) = (spare, Some(sums));
    }

    fn take(&mut self, sample: &Sample<'_>, sums: &mut Sums) {
        let values = [sample.count, sample.nanos].map(|value| value as f64 * sample.weight);
        let class = self.class(sample);
        match (sample.what.kind, class) {
            (_, Class::Other) => return,
            (Kind::Hold, Class::Lock) => add(&mut sums.holds, self.stack(sample), values),
            (Kind::Hold, _) if self.undecided_holds.len() < MAX_UNDECIDED => {
                let stack = self.stack(sample).into();
                self.undecided_holds.push((sample.what.key, values, stack));
            }
            (Kind::Hold, _) => sums.counts.undecided_holds += 1,
            (_, Class::Lock) => add(&mut sums.waits, self.stack(sample), values),
            _ => {
                sums.counts.undecided += values[0].round() as u64;
                sums.counts.undecided_nanos += values[1].round() as u64;
                return;
            }
        }
        sums.counts.samples += 1;
        sums.counts.truncated += u64::from(sample.end == End::Truncated);
        sums.counts.without_root += u64::from(sample.end == End::Lost);
    }

    /// The sample's stack, with the function that jumped where it can be found: by an address in it that takes the
    /// place of a return address.
    fn stack(&mut self, sample: &Sample<'_>) -> &[u64] {
        self.stack.clear();
        if let Some(leaf) = sample.addresses.first().filter(|_| sample.what.may_be_jumped_to) {
            let tails = self.tails.get_or_insert_with(|| Tails::from_hooks(&hooks()));
            self.stack.extend(tails.jumper(*leaf).map(|function| function + 1));
        }
        self.stack.extend_from_slice(sample.addresses);
        &self.stack
    }

    /// The class of the wait; [`Class::New`] if that can't be decided yet.
    fn class(&mut self, sample: &Sample<'_>) -> Class {
        if sample.what.key == 0 {
            return Class::Lock;
        }
        match classes::classify(sample.what.key) {
            known @ (Class::Lock | Class::Other) => known,
            _ if sample.what.kind == Kind::Hold => Class::New,
            _ => self.class_by_names(sample),
        }
    }

    /// Classifies by the names of the functions that led to the wait, from the system call on, and keeps the result.
    fn class_by_names(&mut self, sample: &Sample<'_>) -> Class {
        let chain = &sample.addresses[..sample.addresses.len().min(MAX_CHAIN)];
        self.look_up(chain);
        let mut key = 0;
        for address in chain {
            key = classes::extend(key, *address);
            let verdict = self.verdicts.as_ref().and_then(|verdicts| verdicts.get(address)).copied().flatten();
            let class = verdict.unwrap_or_else(|| self.class_by_behaviour(sample.what.kind));
            classes::learn(key, class);
            if class != Class::Deeper {
                return class;
            }
        }
        Class::New
    }

    /// Classifies a wait in a function that has no name.
    fn class_by_behaviour(&mut self, kind: Kind) -> Class {
        if kind == Kind::MutexWait {
            return Class::Lock;
        }
        self.nameless += 1;
        if self.nameless.is_multiple_of(NAMELESS_WAITS) { Class::Other } else { Class::New }
    }

    /// Looks up the classes of those of these return addresses that are not known yet.
    fn look_up(&mut self, chain: &[u64]) {
        let verdicts = self.verdicts.get_or_insert_default();
        if verdicts.len() > MAX_VERDICTS {
            verdicts.clear();
        }
        let unknown: Vec<u64> = chain.iter().copied().filter(|address| !verdicts.contains_key(address)).collect();
        if unknown.is_empty() {
            return;
        }
        // The call may be the last instruction of its function.
        let calls: Vec<u64> = unknown.iter().map(|address| address - 1).collect();
        let found = names::look_up(&calls).into_iter().map(|name| name.map(|name| classes::of_name(&name)));
        verdicts.extend(unknown.into_iter().zip(found));
    }
}

/// Adds to a stack; to its leaf where no more stacks are kept.
fn add(stacks: &mut Stacks, stack: &[u64], values: [f64; 2]) {
    let is_room = stacks.len() < MAX_STACKS;
    let kept = if is_room || stacks.contains_key(stack) { stack } else { &stack[..stack.len().min(1)] };
    let sums = stacks.entry(kept.into()).or_default();
    (sums[0], sums[1]) = (sums[0] + values[0], sums[1] + values[1]);
}
