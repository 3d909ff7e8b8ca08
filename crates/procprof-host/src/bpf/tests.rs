//! The programs against the kernel's verifier, and the memory shared with them. Needs CAP_BPF and CAP_PERFMON.

use super::*;

fn waits(slot_count: u32) -> KernelWaits {
    let slots = SharedValue::new(slot_count << SLOT_SHIFT).expect("bpf(2) is permitted");
    let control = SharedValue::new(CALLS_MAX + (1 << CPU_SHIFT)).unwrap();
    let events = EventMap::new(1).unwrap();
    let waits = KernelWaits {
        programs: Vec::new(),
        slots,
        slot_count,
        control,
        cpus: 1,
        events,
        ending: Vec::new(),
        known: HashMap::default(),
        lost_before: Losses::default(),
    };
    waits.initialize();
    waits
}

#[test]
fn the_verifier_accepts_programs_of_all_settings_and_rejects_others_with_its_reasons() {
    let waits = waits(SLOTS_MIN);
    let types = std::fs::read("/sys/kernel/btf/vmlinux").unwrap();
    let kernel = Kernel::find(&Btf::parse(&types).unwrap()).unwrap();
    // A kernel whose tracepoint does not tell the state.
    let state = Btf::parse(&types).unwrap().field("task_struct", "__state").map(|field| field.bit_offset / 8);
    let older = Kernel { state, ..kernel };
    for (kernel, is_host, min_wait) in [(&kernel, true, 0), (&kernel, false, 1 << 40), (&older, true, 1)] {
        let plan = Plan {
            kernel,
            slots: waits.slots.as_fd(),
            slot_count: waits.slot_count,
            control: waits.control.as_fd(),
            cpus: waits.cpus,
            events: waits.events.as_fd(),
            is_host,
            min_wait,
            hz: u32::MAX,
        };
        let programs = [
            (plan.switch(), kernel.sched_switch),
            (plan.sample(), kernel.sched_exit),
            (plan.fork(), kernel.sched_process_fork),
            (plan.exec(), kernel.sched_process_exec),
        ];
        for (code, tracepoint) in programs {
            attach("procprof_test", &code.unwrap(), tracepoint).unwrap();
        }
    }
    // It reads a register that has no value, and ends without an end.
    let wrong = [[0xbf, 0x20, 0, 0, 0, 0, 0, 0], [0x95, 0, 0, 0, 0, 0, 0, 0]];
    let rejected = attach("procprof_test", &wrong, kernel.sched_switch).unwrap_err();
    let error = BpfError::rejected("procprof_test", &rejected).to_string();
    assert!(
        error.starts_with("the kernel rejects the program procprof_test: ") && error.contains("R2 !read_ok"),
        "{error}"
    );
}

#[test]
fn threads_have_slots_until_they_have_ended() {
    let mut waits = waits(SLOTS_MIN);
    for tid in [1, 1 + SLOTS_MIN, u32::MAX - 1] {
        waits.record(tid, tid, 100, Reason::Poll);
        waits.record(tid, tid, 200, Reason::Futex);
    }
    waits.record(8, 8, 100, Reason::Other);
    waits.runs(8);
    assert_eq!(waits.take(8).map(|thread| thread.current), Some(None));
    let current = Some(CurrentWait { since: 100, reason: Reason::Poll, is_assumed: true });
    let totals = [Amount::default(); Reason::ALL.len()];
    let expected = ThreadWaits { pid: 1, tid: 1, totals, current };
    assert_eq!(waits.cut(100).len(), 3);
    assert_eq!((waits.take(1), waits.take(1), waits.take(7)), (Some(expected), None, None));
    assert_eq!(waits.cut(100).len(), 2);
    waits.free_ended();
    assert_eq!(waits.ending.len(), 2, "they run a last time");
    let slot = waits.ending[1];
    waits.slots.word(slot + STATE as usize).store(state::ENDED, Release);
    waits.free_ended();
    assert_eq!((waits.ending.len() - 1, waits.slots.word(slot).load(Relaxed)), (0, FREED));
    // What was beyond it is found, and its place is given again.
    assert_eq!(waits.take(1 + SLOTS_MIN).map(|thread| thread.tid), Some(1 + SLOTS_MIN));
    waits.record(5, 1, 300, Reason::Other);
    assert_eq!(waits.slots.word(slot).load(Relaxed), 1);
}

#[test]
fn a_wait_is_part_of_each_cut_with_its_time_there() {
    let mut waits = waits(SLOTS_MIN);
    waits.record(9, 9, 100, Reason::Poll);
    let since = |thread: &ThreadWaits| thread.current.map(|wait| wait.since);
    assert_eq!(waits.cut(150).iter().map(since).collect::<Vec<_>>(), [Some(100)]);
    assert_eq!(waits.cut(170).iter().map(since).collect::<Vec<_>>(), [Some(150)]);
    // As the program does when the wait ends at 300, and another one of 7 that has begun and ended since.
    let slot = waits.find(9).unwrap();
    let total = |reason: Reason| slot + TOTALS as usize + 16 * reason as usize;
    waits.slots.word(slot + STATE as usize).store(state::RUNS, Relaxed);
    waits.slots.double(total(Reason::Poll)).store(1, Relaxed);
    waits.slots.double(total(Reason::Poll) + 8).store(200, Relaxed);
    waits.slots.double(total(Reason::Futex)).store(1, Relaxed);
    waits.slots.double(total(Reason::Futex) + 8).store(7, Relaxed);
    let cut = waits.cut(400);
    let amount = |reason: Reason| cut[0].totals[reason as usize];
    assert_eq!((cut.len(), cut[0].current), (1, None));
    assert_eq!(amount(Reason::Poll), Amount { count: 1, nanos: 130 });
    assert_eq!(amount(Reason::Futex), Amount { count: 1, nanos: 7 });
    assert!(waits.take(9).is_some_and(|thread| thread.totals.iter().all(|total| *total == Amount::default())));
}

#[test]
fn threads_without_a_slot_are_counted() {
    let mut waits = waits(SLOTS_MIN);
    (0..=PROBES).for_each(|number| waits.record(1, 7 + number * SLOTS_MIN, 0, Reason::Other));
    assert_eq!((waits.cut(0).len(), waits.losses().untracked), (PROBES as usize, 1));
}

#[test]
fn malformed_samples_are_none() {
    let raw: Vec<u8> = [7 | 3 << 32, 50, 60].into_iter().flat_map(u64::to_le_bytes).collect();
    let wait = SampledWait { tid: 7, reason: Reason::Futex, nanos: 50, stands_for: Some(60) };
    assert_eq!(SampledWait::parse(&[&raw[..], &[0; 4]].concat()), Some(wait));
    assert_eq!(SampledWait::parse(&raw[..23]), None);
    let unknown: Vec<u8> = [7 | 200 << 32, 50, 0].into_iter().flat_map(u64::to_le_bytes).collect();
    assert_eq!(SampledWait::parse(&unknown), None);
}

#[test]
fn kernels_without_what_programs_read_are_named() {
    let empty = [0x9f, 0xeb, 1, 0, 24, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0];
    let error = Kernel::find(&Btf::parse(&empty).unwrap()).unwrap_err();
    assert_eq!(error.to_string(), "this kernel has no tracepoint sched_switch");
    assert_eq!((slots_for(0), slots_for(1500), slots_for(u32::MAX)), (SLOTS_MIN, 8192, SLOTS_MAX));
}
