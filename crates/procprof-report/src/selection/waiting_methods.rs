//! The waits of a JVM by the methods that wait, and not by the frames that are the same for all waits.
//!
//! At the leaf of a wait, a recording has the class of the lock, and below it the methods that park the thread:
//!
//! ```text
//! App.work; ReentrantLock.lock; …AbstractQueuedSynchronizer.acquire; LockSupport.park; Unsafe.park; ReentrantLock$FairSync
//! App.work (ReentrantLock$FairSync)
//! ```

use std::borrow::Cow;

use foldhash::HashMap;
use procprof_profile::waits::Wait;
use procprof_profile::{Function, FunctionId, Line, LocationId, Parts, Profile};

use crate::Result;

/// Beginnings of the names of methods that park threads or acquire locks.
const PARKING: &[&str] = &[
    "java.lang.System$2.park",
    "java.lang.VirtualThread.",
    "java.util.concurrent.ForkJoinPool.managedBlock",
    "java.util.concurrent.ForkJoinPool.unmanagedBlock",
    "java.util.concurrent.Semaphore",
    "java.util.concurrent.locks.",
    "jdk.internal.misc.Unsafe.park",
    "jdk.internal.misc.VirtualThreads.park",
    "sun.misc.Unsafe.park",
];

/// The profile with the waiting method as the leaf of each wait of a known kind, the class that it waits for in its
/// name; and how many samples that are.
pub(super) fn with_waiting_methods(profile: Cow<'_, Profile>) -> Result<(Cow<'_, Profile>, usize)> {
    let is_wait: Vec<bool> = profile.samples().map(|sample| Wait::of_sample(&profile, &sample).is_some()).collect();
    let waits = is_wait.iter().filter(|is_wait| **is_wait).count();
    if waits == 0 {
        return Ok((profile, 0));
    }
    let mut leaves = Leaves { parts: profile.parts().without_samples(), known: HashMap::default() };
    for (sample, is_wait) in profile.samples().zip(is_wait) {
        let Some((leaf, class)) = waiting(&profile, sample.stack).filter(|_| is_wait) else {
            leaves.parts.push_sample(sample.stack, sample.values, sample.labels)?;
            continue;
        };
        let mut stack = sample.stack[leaf..].to_vec();
        stack[0] = leaves.leaf(&profile, stack[0], class)?;
        leaves.parts.push_sample(&stack, sample.values, sample.labels)?;
    }
    let mut parts = leaves.parts;
    parts.raw_values.clone_from(&profile.parts().raw_values);
    Ok((Cow::Owned(parts.finish()?), waits))
}

/// The place of the waiting method in a stack, and the function of the class, if the stack has one.
fn waiting(profile: &Profile, stack: &[LocationId]) -> Option<(usize, Option<FunctionId>)> {
    let name = |id: &LocationId| profile.lines(*id).first().map_or("", |line| function_name(profile, line.function));
    let is_parking = |id: &LocationId| PARKING.iter().any(|start| name(id).starts_with(start));
    let leaf = *profile.lines(*stack.first()?).first()?;
    // The class has no line; a method without a line is native, and parks.
    let is_native_park = function_name(profile, leaf.function).ends_with("Unsafe.park");
    let class = (leaf.line == 0 && !is_native_park && stack.len() > 1).then_some(leaf.function);
    let methods = &stack[usize::from(class.is_some())..];
    let depth = methods.iter().take_while(|id| is_parking(id)).count().min(methods.len() - 1);
    Some((depth + usize::from(class.is_some()), class))
}

fn function_name(profile: &Profile, function: FunctionId) -> &str {
    profile.string(profile.function(function).name)
}

/// The profile that is made, and the leaves that it has got.
struct Leaves {
    parts: Parts,
    known: HashMap<(LocationId, FunctionId), LocationId>,
}

impl Leaves {
    /// The location of a method with a class in its name.
    fn leaf(&mut self, profile: &Profile, method: LocationId, class: Option<FunctionId>) -> Result<LocationId> {
        let (Some(class), Some(line)) = (class, profile.lines(method).first()) else { return Ok(method) };
        if let Some(known) = self.known.get(&(method, class)) {
            return Ok(*known);
        }
        let name = format!("{} ({})", function_name(profile, line.function), function_name(profile, class));
        let name = self.parts.intern(&name)?;
        self.parts.functions.push(Function { name, system_name: name, ..*profile.function(line.function) });
        let function = FunctionId(self.parts.functions.len() as u32 - 1);
        let location = profile.locations()[method.index()];
        let id = self.parts.push_location(location, &[Line { function, ..*line }])?;
        self.known.insert((method, class), id);
        Ok(id)
    }
}
