//! The kinds of waits of parked threads, by the class that they park on and the frames that they park in.

use crate::waits::Wait;

/// Classes of locks; their synchronizers are nested in them.
const LOCKS: &[&str] = &[
    "java.util.concurrent.Semaphore",
    "java.util.concurrent.locks.ReentrantLock",
    "java.util.concurrent.locks.ReentrantReadWriteLock",
    "java.util.concurrent.locks.StampedLock",
];

/// Methods in which the loop of a thread waits for its next task or event, and which call no task themselves.
const IDLE: &[&str] = &[
    "com.lmax.disruptor.ProcessingSequenceBarrier.waitFor",
    "io.netty.util.concurrent.GlobalEventExecutor.takeTask",
    "io.netty.util.concurrent.SingleThreadEventExecutor.takeTask",
    "java.lang.ref.ReferenceQueue.remove",
    "java.util.TimerThread.mainLoop",
    "java.util.concurrent.ForkJoinPool.awaitWork",
    "java.util.concurrent.ScheduledThreadPoolExecutor$DelayedWorkQueue.poll",
    "java.util.concurrent.ScheduledThreadPoolExecutor$DelayedWorkQueue.take",
    "java.util.concurrent.ThreadPoolExecutor.getTask",
    "org.apache.tomcat.util.threads.ThreadPoolExecutor.getTask",
    "org.eclipse.jetty.util.thread.QueuedThreadPool$Runner.idleJobPoll",
    "org.eclipse.jetty.util.thread.QueuedThreadPool.idleJobPoll",
    "org.eclipse.jetty.util.thread.ReservedThreadExecutor$ReservedThread.reservedWait",
    "org.jboss.threads.EnhancedQueueExecutor$PoolThreadNode.park",
    "sun.nio.ch.Poller.pollLoop",
    "sun.nio.ch.Poller.updateLoop",
    "sun.nio.ch.SelectorImpl.lockAndDoSelect",
];

/// Methods that run tasks, too, and are idle where they park themselves: `ForkJoinPool` of JDK 9 to 13.
const IDLE_IF_PARKED: &[&str] = &["java.util.concurrent.ForkJoinPool.runWorker"];

/// The class whose methods park a thread.
const PARKING: &str = "java.util.concurrent.locks.LockSupport.";

/// The kind of wait of a thread parked on an object of `class` (empty for none); `frames` are leaf first.
pub(super) fn of_park<'a>(class: &str, frames: impl Iterator<Item = &'a str>) -> Wait {
    let is_of = |lock: &str| class.strip_prefix(lock).is_some_and(|rest| rest.is_empty() || rest.starts_with('$'));
    if LOCKS.iter().any(|lock| is_of(lock)) {
        return Wait::Lock;
    }
    let mut callee = "";
    for frame in frames {
        if IDLE.contains(&frame) || callee.starts_with(PARKING) && IDLE_IF_PARKED.contains(&frame) {
            return Wait::Idle;
        }
        callee = frame;
    }
    Wait::Other
}

#[cfg(test)]
mod tests {
    use super::{Wait, of_park};

    #[test]
    fn a_park_is_a_lock_by_its_class_and_idle_by_its_frames() {
        const SYNC: &str = "java.util.concurrent.locks.AbstractQueuedSynchronizer";
        const PARK: &str = "java.util.concurrent.locks.LockSupport.park";
        let condition = format!("{SYNC}$ConditionObject");
        let (queue, get_task) =
            ("java.util.concurrent.LinkedBlockingQueue.take", "java.util.concurrent.ThreadPoolExecutor.getTask");
        let (run_worker, pool) = ("java.util.concurrent.ForkJoinPool.runWorker", "java.util.concurrent.ForkJoinPool");
        let delayed = "java.util.concurrent.ScheduledThreadPoolExecutor$DelayedWorkQueue.take";
        let cases: [(&str, &[&str], Wait); 16] = [
            ("java.util.concurrent.locks.ReentrantLock$NonfairSync", &[PARK, "App.lock"], Wait::Lock),
            ("java.util.concurrent.locks.ReentrantReadWriteLock$FairSync", &[PARK, "App.read"], Wait::Lock),
            ("java.util.concurrent.locks.StampedLock", &[PARK, "App.read"], Wait::Lock),
            ("java.util.concurrent.Semaphore$NonfairSync", &[PARK, "App.acquire"], Wait::Lock),
            // The workers of a pool contend for the lock of its queue.
            ("java.util.concurrent.locks.ReentrantLock$NonfairSync", &[PARK, queue, get_task], Wait::Lock),
            (&condition, &[PARK, queue, get_task, "App.main"], Wait::Idle),
            (&condition, &[PARK, delayed], Wait::Idle),
            ("java.util.concurrent.SynchronousQueue$TransferStack", &[PARK, get_task], Wait::Idle),
            (pool, &[PARK, "java.util.concurrent.ForkJoinPool.awaitWork", run_worker], Wait::Idle),
            (pool, &[PARK, run_worker], Wait::Idle),
            (&condition, &["java.lang.ref.ReferenceQueue.remove"], Wait::Idle),
            // What a task waits for.
            (&condition, &[PARK, queue, "App.task", run_worker], Wait::Other),
            ("java.util.concurrent.CountDownLatch$Sync", &[PARK, "App.await"], Wait::Other),
            ("java.util.concurrent.CompletableFuture$Signaller", &[PARK, "App.get"], Wait::Other),
            ("java.util.concurrent.locks.ReentrantLockOfOthers", &[PARK], Wait::Other),
            ("", &[], Wait::Other),
        ];
        for (class, frames, expected) in cases {
            assert_eq!(of_park(class, frames.iter().copied()), expected, "{class} {frames:?}");
        }
    }
}
