use std::collections::BTreeMap;

use procprof_profile::perf_event::{CONTEXT_KERNEL, Counters, FileIdentity, ImageId, MappedFile, Registers, Task};
use proptest::prelude::*;

use super::*;
use crate::membership::Membership;
use crate::registers::MASK;

/// Code without tables, of a process that no `/proc` has: frame pointers alone lead on.
const PID: u32 = u32::MAX - 1;
const START: u64 = 0x10_000;
const STACK: u64 = 0x7000;

fn session() -> Session {
    let mut session = Session::new(Architecture::X86_64, true, Filter::default());
    session.apply(&Record::Named { pid: PID, tid: PID, name: b"main", is_exec: true });
    session.apply(&mapped(START, 0x1000));
    session
}

fn mapped(start: u64, length: u64) -> Record<'static> {
    Record::Mapped(MappedFile {
        pid: PID,
        start,
        length,
        offset: 0,
        identity: FileIdentity::Unknown,
        is_code: true,
        mode: CpuMode::User,
        path: b"//anon",
    })
}

/// Registers with these values of rbp, rsp and rip.
fn registers(fp: u64, sp: u64, ip: u64) -> Vec<[u8; 8]> {
    let mut values = vec![[0; 8]; MASK.count_ones() as usize];
    for (place, value) in [(6, fp), (7, sp), (8, ip)] {
        values[place] = value.to_le_bytes();
    }
    values
}

fn sample<'a>(values: &'a [[u8; 8]], stack: &'a [u8], callchain: &'a [[u8; 8]]) -> Sample<'a> {
    Sample {
        mode: CpuMode::User,
        id: 1,
        ip: 0,
        pid: PID,
        tid: PID,
        time: 0,
        cpu: 0,
        period: 0,
        counters: Counters::default(),
        callchain,
        raw: &[],
        registers: Registers::new(MASK, values),
        is_32_bit: false,
        stack,
        stack_limit: 64,
        cgroup: 0,
    }
}

fn bytes(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// The stacks counted, each as its frames.
fn stacks(session: &Session) -> BTreeMap<Vec<Frame>, u64> {
    let frames = |numbers: &[u32]| numbers.iter().map(|number| session.stacks.all_frames[*number as usize]).collect();
    session.stacks.samples(|_| true).into_iter().map(|(_, numbers, amount)| (frames(numbers), amount.count)).collect()
}

#[test]
fn a_stack_is_walked_in_its_copy_and_counted_once() {
    let mut session = session();
    let values = registers(STACK, STACK - 16, START + 0x10);
    let stack = bytes(&[9, 9, STACK + 32, START + 0x21, 9, 9, 0, START + 0x31]);
    let kernel = [CONTEXT_KERNEL, 0xffff_ffff_8100_0010, 0xffff_ffff_8100_0021].map(u64::to_le_bytes);
    for _ in 0..3 {
        session.apply(&Record::Sample(sample(&values, &stack, &kernel)));
    }
    let expected = vec![
        Frame::Kernel(0xffff_ffff_8100_0010),
        Frame::Kernel(0xffff_ffff_8100_0020),
        Frame::Code(0, START + 0x10),
        Frame::Code(0, START + 0x20),
        Frame::Code(0, START + 0x30),
    ];
    assert_eq!(stacks(&session), [(expected, 3)].into());
    assert_eq!((session.statistics.samples, session.statistics.to_root), (3, 3));
}

#[test]
fn a_copy_that_ends_too_early_is_counted_and_shown() {
    let mut session = session();
    let values = registers(STACK, STACK - 16, START + 0x10);
    let mut short = bytes(&[9, 9, STACK + 4096, START + 0x21]);
    short.resize(64, 0);
    session.apply(&Record::Sample(sample(&values, &short, &[])));
    let expected = vec![Frame::Code(0, START + 0x10), Frame::Code(0, START + 0x20), Frame::Note(CUT)];
    assert_eq!(stacks(&session), [(expected, 1)].into());
    assert_eq!((session.statistics.cut, session.statistics.to_root), (1, 0));
}

#[test]
fn processes_that_are_not_known_are_counted_as_vanished_or_refused() {
    let mut session = Session::new(Architecture::X86_64, false, Filter::default());
    let values = registers(STACK, STACK, START);
    session.apply(&Record::Sample(sample(&values, &[], &[])));
    assert_eq!(stacks(&session), [(vec![Frame::Note(VANISHED)], 1)].into());
    assert_eq!(session.statistics.vanished, 1);
    if let Some(process) = session.processes.get_mut(PID) {
        process.code = CodeKnown::Refused;
    }
    session.apply(&Record::Sample(sample(&values, &[], &[])));
    assert_eq!(stacks(&session), [(vec![Frame::Note(VANISHED)], 1), (vec![Frame::Note(REFUSED)], 1)].into());
    assert_eq!((session.statistics.vanished, session.statistics.refused), (1, 1));
}

#[test]
fn forks_inherit_and_executions_forget_the_address_space() {
    let mut session = session();
    let child = PID - 1;
    session.apply(&Record::Forked(Task { pid: child, parent: PID, tid: child }));
    let code = |session: &mut Session, pid| session.processes.get_mut(pid).map(|process| process.space.code().len());
    assert_eq!((code(&mut session, PID), code(&mut session, child)), (Some(1), Some(1)));
    session.apply(&Record::Named { pid: child, tid: child, name: b"other", is_exec: true });
    assert_eq!((code(&mut session, PID), code(&mut session, child)), (Some(1), Some(0)));
    session.apply(&Record::Exited(Task { pid: child, parent: PID, tid: child }));
    assert_eq!((code(&mut session, PID), code(&mut session, child)), (Some(1), None));
}

#[test]
fn a_filter_takes_names_and_groups_with_what_is_below_them() {
    let process = |name: &str, cgroup: &str| {
        let membership = Arc::new(Membership { cgroup: cgroup.into(), ..Membership::default() });
        Process { name: name.into(), membership, ..Process::default() }
    };
    let filter = |name: Option<&str>, cgroup: Option<&str>| Filter {
        name: name.map(str::to_owned),
        cgroup: cgroup.map(str::to_owned),
        ..Filter::default()
    };
    let long = process("a-name-of-15-by", "/a/b");
    for (filter, process, is_taken) in [
        (filter(None, None), &long, true),
        (filter(Some("a-name-of-15-bytes-and-more"), None), &long, true),
        (filter(Some("a-name-of-15-b"), None), &long, false),
        (filter(None, Some("/a")), &long, true),
        (filter(None, Some("/a/b")), &long, true),
        (filter(None, Some("/a/b/")), &long, true),
        (filter(None, Some("/")), &long, true),
        (filter(None, Some("/a/bc")), &long, false),
        (filter(None, Some("/a")), &process("x", "/ab"), false),
        (filter(Some("x"), Some("/a")), &process("x", ""), false),
    ] {
        assert_eq!(filter.takes(process), is_taken, "{filter:?} {process:?}");
    }
    let of = |service: &str| Filter { service: Some(service.to_owned()), ..Filter::default() };
    assert!(of("x").takes(&process("x", "/a")) && !of("x").takes(&process("y", "/x")));
}

#[test]
fn a_cut_takes_what_was_recorded_and_forgets_what_has_ended() {
    let mut session = session();
    let values = registers(0, STACK, START + 0x10);
    for (samples, vanished, known) in [(3_u64, 0, true), (2, 0, false), (1, 1, false)] {
        for _ in 0..samples {
            session.apply(&Record::Sample(sample(&values, &[], &[])));
        }
        let (taken, files, statistics) = session.cut(0);
        assert_eq!((statistics.samples, statistics.vanished), (samples, vanished));
        assert_eq!(taken.totals().iter().map(|(_, amount)| amount.count).sum::<u64>(), samples);
        assert_eq!(files.len(), usize::from(vanished == 0));
        assert_eq!((session.stacks.all_frames.len(), session.processes.contains(PID)), (0, known));
    }
    // The number of its image is that of another one now.
    session.apply(&Record::Named { pid: PID, tid: PID, name: b"again", is_exec: true });
    session.apply(&mapped(START, 0x1000));
    session.apply(&Record::Sample(sample(&values, &[], &[])));
    assert_eq!(stacks(&session), [(vec![Frame::Code(0, START + 0x10)], 1)].into());
    assert_eq!(session.stacks.mappings.all()[0].image, ImageId(0));
}

#[test]
fn numbers_of_address_spaces_are_given_again() {
    let mut session = session();
    let values = registers(0, STACK, START + 0x10);
    for round in 0..70_000_u64 {
        session.apply(&mapped(START + 0x2000 + round % 2 * 0x1000, 0x1000));
        session.processes.get_mut(PID).unwrap().unwinding = None;
        session.apply(&Record::Sample(sample(&values, &[], &[])));
    }
    assert_eq!(session.statistics.samples, 70_000);
    assert_eq!(stacks(&session), [(vec![Frame::Code(0, START + 0x10)], 70_000)].into());
}

proptest! {
    #[test]
    fn hostile_samples_end(
        fp in any::<u64>(), sp in any::<u64>(), ip in any::<u64>(),
        stack in proptest::collection::vec(any::<u8>(), 0..512),
        chain in proptest::collection::vec(any::<u64>(), 0..8),
    ) {
        let mut session = session();
        let chain: Vec<[u8; 8]> = chain.into_iter().map(u64::to_le_bytes).collect();
        for (fp, sp, ip) in [(fp, sp, ip), (STACK + fp % 512, STACK, START + ip % 0x1000), (u64::MAX, u64::MAX - 7, START)] {
            let values = registers(fp, sp, ip);
            session.apply(&Record::Sample(sample(&values, &stack, &chain)));
        }
        let counted: u64 = stacks(&session).values().sum();
        prop_assert_eq!(counted, 3);
        let Statistics { to_root, cut, deep, broken, user_stacks, .. } = session.statistics;
        prop_assert_eq!(to_root + cut + deep + broken, user_stacks);
    }

    #[test]
    fn hostile_mappings_do_not_overflow(start in any::<u64>(), length in any::<u64>()) {
        let mut session = session();
        session.apply(&mapped(start, length));
        let values = registers(0, STACK, start);
        session.apply(&Record::Sample(sample(&values, &[], &[])));
    }
}
