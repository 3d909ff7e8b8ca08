use super::*;

/// A record with its header.
fn record(kind: u32, misc: u16, body: &[u8]) -> (Header, Vec<u8>) {
    let size = (Header::SIZE + body.len()) as u16;
    let bytes = [&kind.to_le_bytes()[..], &misc.to_le_bytes(), &size.to_le_bytes(), body].concat();
    (Header::parse(&bytes).unwrap(), body.to_vec())
}

fn words(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn pair(low: u32, high: u32) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

const OURS: Layout = Layout {
    sample_type: field::IDENTIFIER
        | field::IP
        | field::TID
        | field::TIME
        | field::CALLCHAIN
        | field::REGS_USER
        | field::STACK_USER,
    sample_id_all: true,
    read_format: 0,
    user_registers: 0b1_1000_0001,
    interrupted_registers: 0,
    branch_sample_type: 0,
};

/// A sample of our own layout: id 7, two words of call chain, three registers, 16 of 24 bytes of stack copied.
fn sample() -> Vec<u8> {
    let mut body = words(&[7, 0x1000, pair(10, 11), 99, 2, CONTEXT_KERNEL, 0x1000]);
    body.extend(words(&[2, 0xa0, 0x7000, 0x1234]));
    body.extend(words(&[24, 1, 2, 3, 16]));
    body
}

#[test]
fn a_sample_is_read() {
    let (header, body) = record(9, 2, &sample());
    let Some(Record::Sample(sample)) = Record::parse(header, &body, &OURS) else { panic!() };
    assert_eq!((sample.id, sample.ip, sample.pid, sample.tid, sample.time), (7, 0x1000, 10, 11, 99));
    assert_eq!(sample.mode, CpuMode::User);
    assert_eq!(sample.callchain, [CONTEXT_KERNEL, 0x1000].map(u64::to_le_bytes));
    let registers = sample.registers.unwrap();
    assert_eq!(
        [0, 7, 8, 1, 63, 64].map(|number| registers.get(number)),
        [Some(0xa0), Some(0x7000), Some(0x1234), None, None, None]
    );
    assert_eq!((sample.stack, sample.stack_limit), (&words(&[1, 2])[..], 24));
    assert_eq!(Record::time(header, &body, &OURS), Some(99));
}

#[test]
fn fields_that_are_not_used_are_passed_over() {
    let layout = Layout {
        sample_type: OURS.sample_type
            | field::ADDR
            | field::READ
            | field::CPU
            | field::PERIOD
            | field::RAW
            | field::BRANCH_STACK
            | field::REGS_INTR
            | field::CGROUP,
        read_format: READ_GROUP_WITH_IDS,
        interrupted_registers: 0b11,
        branch_sample_type: 1 << 17,
        ..OURS
    };
    let mut body = words(&[7, 0x1000, pair(10, 11), 99, 0xadd, 3, 500]);
    body.extend(words(&[2, 1, 2, 3, 4]));
    body.extend(words(&[1, 0x1000]));
    body.extend([4, 0, 0, 0, b'r', b'a', b'w', b'!']);
    body.extend(words(&[1, 0, 10, 20, 30]));
    body.extend(words(&[1, 4, 5, 6]));
    body.extend(words(&[0]));
    body.extend(words(&[2, 8, 9]));
    body.extend(words(&[77]));
    let (header, body) = record(9, 1, &body);
    let Some(Record::Sample(sample)) = Record::parse(header, &body, &layout) else { panic!() };
    assert_eq!((sample.cpu, sample.period, sample.raw, sample.cgroup), (3, 500, &b"raw!"[..], 77));
    assert!(sample.is_32_bit && sample.registers.is_none());
    assert_eq!((sample.stack, sample.stack_limit), (&[][..], 0));
}

const READ_GROUP_WITH_IDS: u64 = 1 << 3 | 1 << 2;

#[test]
fn other_records_are_read_without_their_trailer() {
    let trailer = words(&[pair(10, 11), 99, 7]);
    let with = |body: &[u8]| [body, &trailer].concat();
    let mapped = |identity: &[u64], path: &[u8; 8]| {
        with(
            &[&words(&[pair(10, 11), 0x4000, 0x1000, 0x2000]), &words(identity), &words(&[pair(5, 2)]), &path[..]]
                .concat(),
        )
    };
    let file = |identity| MappedFile {
        pid: 10,
        start: 0x4000,
        length: 0x1000,
        offset: 0x2000,
        identity,
        is_code: true,
        mode: CpuMode::User,
        path: b"/bin/x",
    };
    let inode = FileIdentity::Inode { device: (8, 1), inode: 42 };
    let build_id = words(&[0x0403_0201_0000_0003, 0, 0]);
    let ids: Vec<u64> = build_id.chunks(8).map(|chunk| u64::from_le_bytes(chunk.try_into().unwrap())).collect();
    let task = Task { pid: 10, parent: 1, tid: 12 };
    for (kind, misc, body, expected) in [
        (10, 2, mapped(&[pair(8, 1), 42, 0], b"/bin/x\0\0"), Record::Mapped(file(inode))),
        (10, 2 | 1 << 14, mapped(&ids, b"/bin/x\0\0"), Record::Mapped(file(FileIdentity::BuildId(&[1, 2, 3])))),
        (
            3,
            1 << 13,
            with(&[&words(&[pair(10, 11)])[..], b"cat\0\0\0\0\0"].concat()),
            Record::Named { pid: 10, tid: 11, name: b"cat", is_exec: true },
        ),
        (7, 0, with(&words(&[pair(10, 1), pair(12, 1), 5])), Record::Forked(task)),
        (4, 0, with(&words(&[pair(10, 1), pair(12, 1), 5])), Record::Exited(task)),
        (2, 0, with(&words(&[7, 3])), Record::Lost { records: 3 }),
        (19, 0, with(&[&words(&[6])[..], b"/a\0\0\0\0\0\0"].concat()), Record::Cgroup { id: 6, path: b"/a" }),
        (5, 0, with(&words(&[1, 2, 3])), Record::Throttled),
        (99, 0, with(&[]), Record::Other(99)),
    ] {
        let (header, body) = record(kind, misc, &body);
        assert_eq!(Record::parse(header, &body, &OURS), Some(expected));
        assert_eq!(Record::time(header, &body, &OURS), Some(99), "{kind}");
    }
}

#[test]
fn the_beginning_of_a_record_tells_of_whom_it_is() {
    const EXEC: u16 = 1 << 13;
    let (process, thread) = ([10, 1, 10, 1], [10, 10, 12, 10]);
    for (kind, misc, body, expected) in [
        (3, 0, process, Some(Subject::Named(10))),
        (3, EXEC, process, None),
        (1, 0, process, Some(Subject::Mapped(10))),
        (10, 2, process, Some(Subject::Mapped(10))),
        (7, 0, process, None),
        (7, 0, thread, Some(Subject::Thread)),
        (4, 0, process, None),
        (4, 0, thread, Some(Subject::Thread)),
        (9, 2, thread, None),
        (14, 0, thread, None),
    ] {
        let body: Vec<u8> = body.iter().flat_map(|field: &u32| field.to_le_bytes()).collect();
        let (header, body) = record(kind, misc, &body);
        assert_eq!(header.subject(body.first_chunk().unwrap()), expected, "{kind} {misc}");
    }
}

#[test]
fn what_is_cut_short_is_no_record() {
    let whole = sample();
    for length in 0..whole.len() {
        let (header, body) = record(9, 2, &whole[..length]);
        assert_eq!(Record::parse(header, &body, &OURS), None, "{length}");
    }
    for kind in [1, 2, 3, 4, 7, 10, 13, 19] {
        let (header, body) = record(kind, 0, &[]);
        assert_eq!(Record::parse(header, &body, &OURS), None);
        assert_eq!(Record::time(header, &body, &OURS), None);
    }
    assert_eq!(Header::parse(&[9, 0, 0, 0, 0, 0, 7, 0]), None);
    assert_eq!(Header::parse(&[9, 0, 0]), None);
}

#[test]
fn sizes_beyond_the_record_are_no_record() {
    let huge = [u64::MAX, u64::MAX / 8 + 1, 1 << 61, 1 << 32];
    for size in huge {
        for place in [4, 11] {
            let mut body = sample();
            body[8 * place..8 * place + 8].copy_from_slice(&size.to_le_bytes());
            let (header, body) = record(9, 2, &body);
            assert_eq!(Record::parse(header, &body, &OURS), None);
        }
        let layout = Layout { sample_type: field::READ, read_format: 1 << 3, ..Layout::default() };
        let (header, body) = record(9, 2, &words(&[size, 1, 2]));
        assert_eq!(Record::parse(header, &body, &layout), None);
    }
}
