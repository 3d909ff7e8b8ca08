//! The programs at tracepoints: the bookkeeping of waits at each switch, and samples of those that are chosen.
//!
//! At a switch, the thread that ceases to run gets the time and the reason, and the one that begins to run the duration
//! of its wait, added to the total of that reason. A wait is sampled if it lasts for the threshold of its CPU, or if
//! the thread has waited for so long since its last sample. Where more waits are chosen than may be sampled, the
//! threshold doubles; where fewer than half of it, it is halved. The sample is taken at the next tracepoint, at which
//! the thread is back on its CPU with the stack of its wait.

use std::os::fd::BorrowedFd;

use super::assembler::Condition::{Above, AtLeast, Below, Differs, Equal, Intersects};
use super::assembler::Operation::{Add, And, Move, ShiftLeft, ShiftRight, Subtract};
use super::assembler::Register::{self, R0, R1, R2, R3, R4, R5, R6, R7, R8, R9, R10};
use super::assembler::Width::{Byte, Double, Word};
use super::assembler::{Assembler, AssemblyError, Helper, Label};
use super::layout::{
    CALLS_MAX, CPU_SHIFT, FREED, Kernel, MODE, PID, PROBES, REASON, SAMPLE, SAMPLE_BYTES, SAMPLES, SINCE, SLOT_SHIFT,
    STATE, THRESHOLD, TID, TOTALS, UNSAMPLED, UNTRACKED, UNWRITTEN, WANTED, WINDOW_END, distance, mode, state,
};
use crate::reason::Reason;

/// Of a task's state: it runs no more.
const TASK_DEAD: i32 = 0x80;
/// Of a task's flags: it is a thread of the kernel.
const PF_KTHREAD: i32 = 0x20_0000;

/// Samples are counted for so many nanoseconds.
const WINDOW: i32 = 250_000_000;
/// Limits of the threshold, powers of two.
const THRESHOLD_MIN: i32 = 1 << 10;
const THRESHOLD_MAX_BITS: u32 = 36;

/// The place of the time on the stack.
const NOW: i16 = -8;

/// What programs are made for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan<'a> {
    pub(super) kernel: &'a Kernel,
    pub(super) slots: BorrowedFd<'a>,
    /// The number of slots, a power of two.
    pub(super) slot_count: u32,
    pub(super) control: BorrowedFd<'a>,
    /// The CPUs that `control` has room for, a power of two.
    pub(super) cpus: u32,
    pub(super) events: BorrowedFd<'a>,
    /// Whether all threads are recorded, not only those with a slot and what they start.
    pub(super) is_host: bool,
    /// Shorter waits are counted together and not sampled.
    pub(super) min_wait: u64,
    /// Most samples of a CPU in a second.
    pub(super) hz: u32,
}

type Code = Result<Vec<[u8; 8]>, AssemblyError>;

impl Plan<'_> {
    /// At `sched_switch(preempt, prev, next, prev_state)`.
    pub(super) fn switch(&self) -> Code {
        let mut it = Assembler::default();
        let is_recorded = it.label();
        let (in_only, out_is_done, nothing) = (it.label(), it.label(), it.label());
        it.set(R6, R1);
        // Slots in registers 8 (the thread that ceases) and 9 (the one that begins), or 0.
        it.load(Double, R7, R6, 8);
        it.load(Word, R2, R7, self.kernel.pid);
        self.find(&mut it, R8, self.is_host.then_some(self.kernel.tgid));
        it.load(Double, R1, R6, 16);
        it.load(Word, R2, R1, self.kernel.pid);
        self.find(&mut it, R9, None);
        it.jump_if(R8, Differs, 0, is_recorded);
        it.jump_if(R9, Equal, 0, nothing);
        it.place(is_recorded);
        it.call(Helper::KtimeGetNs);
        it.store(Double, R10, NOW, R0);
        it.jump_if(R8, Equal, 0, in_only);
        self.ceases(&mut it, out_is_done);
        it.place(out_is_done);
        it.jump_if(R9, Equal, 0, nothing);
        it.place(in_only);
        self.begins(&mut it, nothing);
        it.place(nothing);
        it.end();
        it.finish()
    }

    /// At `sched_exit_tp(is_switch)`, after a switch, in the thread that begins to run.
    pub(super) fn sample(&self) -> Code {
        let mut it = Assembler::default();
        let (nothing, written) = (it.label(), it.label());
        it.set(R6, R1);
        self.control_of_cpu(&mut it, R7);
        it.load(Word, R1, R7, WANTED);
        it.jump_if(R1, Equal, 0, nothing);
        it.store(Word, R7, WANTED, 0);
        it.set(R1, R6);
        it.set_map(R2, self.events);
        it.compute_32(Move, R3, -1);
        it.set(R4, R7);
        it.compute(Add, R4, SAMPLE as i32);
        it.set(R5, SAMPLE_BYTES as i32);
        it.call(Helper::PerfEventOutput);
        it.jump_if(R0, Equal, 0, written);
        it.increment(R7, UNWRITTEN);
        it.place(written);
        it.place(nothing);
        it.end();
        it.finish()
    }

    /// At `sched_process_fork(parent, child)`: what is recorded is inherited.
    pub(super) fn fork(&self) -> Code {
        let mut it = Assembler::default();
        let (nothing, is_inherited) = (it.label(), it.label());
        it.set(R6, R1);
        it.load(Double, R1, R6, 0);
        it.load(Word, R2, R1, self.kernel.pid);
        self.find(&mut it, R8, None);
        it.jump_if(R8, Equal, 0, nothing);
        it.load(Word, R9, R8, MODE);
        it.jump_if(R9, Equal, mode::NOT as i32, nothing);
        it.jump_if(R9, Differs, mode::PARENT as i32, is_inherited);
        it.set(R9, mode::PENDING as i32);
        it.place(is_inherited);
        it.load(Double, R7, R6, 8);
        it.load(Word, R2, R7, self.kernel.pid);
        self.insert(&mut it, R8, self.kernel.tgid, nothing);
        it.store(Word, R8, MODE, R9);
        it.place(nothing);
        it.end();
        it.finish()
    }

    /// At `sched_process_exec(task, old_pid, …)`: what is pending is recorded from now on. A thread that is not the
    /// first of its process takes the number of that.
    pub(super) fn exec(&self) -> Code {
        let mut it = Assembler::default();
        let (nothing, is_known) = (it.label(), it.label());
        it.set(R6, R1);
        it.load(Double, R7, R6, 0);
        it.load(Word, R2, R7, self.kernel.pid);
        self.find(&mut it, R8, None);
        it.jump_if(R8, Differs, 0, is_known);
        it.load(Double, R2, R6, 8);
        it.compute_32(Move, R2, R2);
        self.find(&mut it, R8, None);
        it.jump_if(R8, Equal, 0, nothing);
        it.load(Word, R9, R8, MODE);
        it.store(Word, R8, STATE, state::ENDED as i32);
        it.load(Word, R2, R7, self.kernel.pid);
        self.insert(&mut it, R8, self.kernel.tgid, nothing);
        it.store(Word, R8, MODE, R9);
        it.place(is_known);
        it.load(Word, R1, R8, MODE);
        it.jump_if(R1, Differs, mode::PENDING as i32, nothing);
        it.store(Word, R8, MODE, mode::RECORDED as i32);
        it.place(nothing);
        it.end();
        it.finish()
    }

    /// The thread with slot 8 and task 7 ceases to run.
    fn ceases(&self, it: &mut Assembler, done: Label) {
        let (preempted, dead, has_reason) = (it.label(), it.label(), it.label());
        it.load(Double, R1, R6, 0);
        match self.kernel.state {
            Some(offset) => it.load(Word, R2, R7, offset),
            None => it.load(Double, R2, R6, 24),
        }
        it.jump_if(R2, Intersects, TASK_DEAD, dead);
        it.load(Word, R3, R8, MODE);
        it.jump_if(R3, Differs, mode::RECORDED as i32, done);
        it.store(Double, R8, SINCE, R0);
        it.jump_if_32(R1, Intersects, 1, preempted);
        it.jump_if_32(R2, Equal, 0, preempted);
        let (byte, bit) = self.kernel.in_iowait;
        it.load(Byte, R2, R7, byte);
        it.set(R1, Reason::Disk as i32);
        it.jump_if(R2, Intersects, bit, has_reason);
        it.load(Word, R2, R7, self.kernel.flags);
        it.set(R1, Reason::Kernel as i32);
        it.jump_if(R2, Intersects, PF_KTHREAD, has_reason);
        it.set(R1, R7);
        it.call(Helper::TaskPtRegs);
        it.load(Double, R2, R0, self.kernel.system_call);
        // On AArch64 it has 32 bits; -1 is not in a call.
        it.compute_32(Move, R2, R2);
        it.set(R1, Reason::Fault as i32);
        it.jump_if(R2, AtLeast, CALLS_MAX as i32, has_reason);
        it.set_map_value(R1, self.control, 0);
        it.compute(Add, R1, R2);
        it.load(Byte, R1, R1, 0);
        it.jump(has_reason);
        it.place(dead);
        it.store(Word, R8, STATE, state::ENDED as i32);
        it.jump(done);
        it.place(preempted);
        it.set(R1, Reason::Preempted as i32);
        it.place(has_reason);
        it.store(Word, R8, REASON, R1);
        it.store(Word, R8, STATE, state::WAITS as i32);
    }

    /// The thread with slot 9 begins to run.
    fn begins(&self, it: &mut Assembler, done: Label) {
        let (has_waited, is_long) = (it.label(), it.label());
        it.load(Word, R1, R9, MODE);
        it.jump_if(R1, Differs, mode::RECORDED as i32, done);
        it.load(Word, R1, R9, STATE);
        it.jump_if(R1, Equal, state::WAITS as i32, has_waited);
        it.jump_if(R1, Differs, state::ASSUMED as i32, done);
        it.place(has_waited);
        it.store(Word, R9, STATE, state::RUNS as i32);
        it.load(Double, R6, R10, NOW);
        it.load(Double, R1, R9, SINCE);
        it.jump_if(R6, Below, R1, done);
        it.compute(Subtract, R6, R1);
        it.load(Word, R7, R9, REASON);
        it.jump_if(R7, AtLeast, Reason::ALL.len() as i32, done);
        if self.min_wait > 0 {
            it.set_64(R1, self.min_wait);
            it.jump_if(R6, AtLeast, R1, is_long);
            let preempted = it.label();
            it.jump_if(R7, Equal, Reason::Preempted as i32, preempted);
            self.add_wait(it, Reason::ShortBlocked);
            it.jump(done);
            it.place(preempted);
            self.add_wait(it, Reason::ShortPreempted);
            it.jump(done);
        }
        it.place(is_long);
        it.set(R1, R7);
        it.compute(ShiftLeft, R1, 4);
        it.compute(Add, R1, R9);
        self.add_wait_at(it, R1, TOTALS);
        self.choose(it, done);
    }

    fn add_wait(&self, it: &mut Assembler, reason: Reason) {
        self.add_wait_at(it, R9, TOTALS + 16 * reason as u32);
    }

    /// Adds a wait of as many nanoseconds as register 6 has.
    #[allow(clippy::unused_self)]
    fn add_wait_at(&self, it: &mut Assembler, base: Register, offset: u32) {
        it.load(Double, R2, base, offset);
        it.compute(Add, R2, 1);
        it.store(Double, base, offset, R2);
        it.load(Double, R2, base, offset + 8);
        it.compute(Add, R2, R6);
        it.store(Double, base, offset + 8, R2);
    }

    /// Chooses the wait of the thread with slot 9, whose duration and reason are in registers 6 and 7, for a sample.
    fn choose(&self, it: &mut Assembler, done: Label) {
        let (in_window, window_begins, is_chosen, is_exact, is_within) =
            (it.label(), it.label(), it.label(), it.label(), it.label());
        let high = (self.hz / 4).clamp(1, 1 << 20) as i32;
        self.control_of_cpu(it, R8);
        it.load(Double, R1, R8, THRESHOLD);
        it.load(Double, R2, R10, NOW);
        it.load(Double, R3, R8, WINDOW_END);
        it.jump_if(R2, Below, R3, in_window);
        // A window ends: of few samples, there may be more.
        it.load(Double, R3, R8, SAMPLES);
        it.jump_if(R3, Above, high / 2, window_begins);
        it.jump_if(R1, Below, 2 * THRESHOLD_MIN, window_begins);
        it.compute(ShiftRight, R1, 1);
        it.store(Double, R8, THRESHOLD, R1);
        it.place(window_begins);
        it.store(Double, R8, SAMPLES, 0);
        it.set(R3, R2);
        it.compute(Add, R3, WINDOW);
        it.store(Double, R8, WINDOW_END, R3);
        it.place(in_window);
        it.jump_if(R6, AtLeast, R1, is_exact);
        // Between a half and one and a half of the threshold, so that regular waits do not fall into step.
        it.compute(Subtract, R1, 1);
        it.compute(And, R2, R1);
        it.compute(ShiftRight, R1, 1);
        it.compute(Add, R2, R1);
        it.load(Double, R3, R9, UNSAMPLED);
        it.compute(Add, R3, R6);
        it.store(Double, R9, UNSAMPLED, R3);
        it.jump_if(R3, Below, R2, done);
        it.store(Double, R9, UNSAMPLED, 0);
        it.jump(is_chosen);
        it.place(is_exact);
        it.set(R3, 0);
        it.place(is_chosen);
        it.load(Word, R1, R9, TID);
        it.store(Word, R8, SAMPLE, R1);
        it.store(Word, R8, SAMPLE + 4, R7);
        it.store(Double, R8, SAMPLE + 8, R6);
        it.store(Double, R8, SAMPLE + 16, R3);
        it.store(Word, R8, WANTED, 1);
        it.load(Double, R1, R8, SAMPLES);
        it.compute(Add, R1, 1);
        it.store(Double, R8, SAMPLES, R1);
        it.jump_if(R1, Below, high + 1, is_within);
        it.load(Double, R1, R8, THRESHOLD);
        it.set_64(R2, 1 << THRESHOLD_MAX_BITS);
        it.jump_if(R1, AtLeast, R2, is_within);
        it.compute(ShiftLeft, R1, 1);
        it.store(Double, R8, THRESHOLD, R1);
        it.store(Double, R8, SAMPLES, high / 2);
        it.place(is_within);
    }

    /// The slot of the thread in register 2, or 0; registers 2 to 4 are used. If `tgid` tells where a task has its
    /// process, the thread is that of the task in register 7, and gets a slot unless it is the idle thread.
    fn find(&self, it: &mut Assembler, slot: Register, tgid: Option<u32>) {
        let (found, missing, end) = (it.label(), it.label(), it.label());
        it.jump_if(R2, Equal, 0, missing);
        for probe in 0..PROBES {
            let next = it.label();
            self.slot_at(it, slot, probe);
            it.load(Word, R4, slot, TID);
            it.jump_if(R4, Equal, 0, missing);
            it.jump_if(R4, Differs, R2, next);
            it.load(Word, R4, slot, STATE);
            it.jump_if(R4, Differs, state::ENDED as i32, found);
            it.place(next);
        }
        it.place(missing);
        if let Some(tgid) = tgid {
            let idle = it.label();
            it.jump_if(R2, Equal, 0, idle);
            let full = it.label();
            self.insert(it, slot, tgid, full);
            it.store(Word, slot, MODE, mode::RECORDED as i32);
            it.jump(end);
            it.place(full);
            it.place(idle);
        }
        it.set(slot, 0);
        it.jump(end);
        it.place(found);
        it.place(end);
    }

    /// A new slot for the thread in register 2, whose task is in register 7. Without a free one that is counted.
    fn insert(&self, it: &mut Assembler, slot: Register, tgid: u32, full: Label) {
        let is_taken = it.label();
        for probe in 0..PROBES {
            let (is_free, next) = (it.label(), it.label());
            self.slot_at(it, slot, probe);
            it.load(Word, R0, slot, TID);
            it.set(R4, R0);
            it.jump_if(R0, Equal, 0, is_free);
            it.jump_if_32(R0, Differs, FREED as i32, next);
            it.place(is_free);
            it.compare_exchange(Word, slot, TID, R2);
            it.jump_if(R0, Equal, R4, is_taken);
            it.place(next);
        }
        self.control_of_cpu(it, R3);
        it.increment(R3, UNTRACKED);
        it.jump(full);
        it.place(is_taken);
        it.load(Word, R3, R7, tgid);
        it.store(Word, slot, PID, R3);
    }

    fn slot_at(&self, it: &mut Assembler, slot: Register, probe: u32) {
        it.set(R3, R2);
        if probe > 0 {
            it.compute(Add, R3, distance(probe) as i32);
        }
        it.compute_32(And, R3, self.slot_count as i32 - 1);
        it.compute(ShiftLeft, R3, SLOT_SHIFT);
        it.set_map_value(slot, self.slots, 0);
        it.compute(Add, slot, R3);
    }

    /// What a CPU has for itself; registers 0 to 5 are used.
    fn control_of_cpu(&self, it: &mut Assembler, destination: Register) {
        it.call(Helper::GetSmpProcessorId);
        it.compute_32(And, R0, self.cpus as i32 - 1);
        it.compute(ShiftLeft, R0, CPU_SHIFT);
        it.set_map_value(destination, self.control, CALLS_MAX);
        it.compute(Add, destination, R0);
    }
}

impl Assembler {
    fn increment(&mut self, base: Register, offset: u32) {
        self.load(Double, R1, base, offset);
        self.compute(Add, R1, 1);
        self.store(Double, base, offset, R1);
    }
}
