use super::*;
use crate::rule::{Base, Cfa, Rule, Saved};
use crate::{Stack, StackCopy};

const START: u64 = 0x7000;

fn frame_rule(cfa: Cfa, fp: Saved, ra: Saved) -> Packed {
    Packed::new(Rule::Frame { cfa, fp, ra })
}

fn check(architecture: Architecture, frame: Frame, rule: Packed, words: &[u64], expected: Step) {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let stack = StackCopy { start: START, bytes: &bytes };
    let found = step(
        architecture,
        &frame,
        rule,
        |address| stack.read(address),
        |register| (register == 10).then_some(START + 24),
    );
    assert_eq!(found, expected, "{rule:?}");
}

fn caller_of(pc: u64, sp: u64, fp: u64) -> Step {
    Step::Caller(Frame { pc, sp, fp, lr: 0, is_return: true })
}

#[test]
fn x86_64_frames() {
    use Architecture::X86_64;
    let below = Saved::WordsBelowCfa;
    let at = Frame { pc: 0x1000, sp: START, fp: START + 8, ..Frame::default() };
    let words = [1, START + 100, 0x2000, 3, 4];
    let framed = frame_rule(Cfa::Offset(Base::Fp, 16), below(2), below(1));
    check(X86_64, at, framed, &words, caller_of(0x2000, START + 24, START + 100));
    check(
        X86_64,
        at,
        frame_rule(Cfa::Offset(Base::Sp, 24), Saved::InRegister, below(1)),
        &words,
        caller_of(0x2000, START + 24, at.fp),
    );
    check(
        X86_64,
        at,
        frame_rule(Cfa::Offset(Base::Sp, 24), below(3), below(1)),
        &words,
        caller_of(0x2000, START + 24, 1),
    );
    check(X86_64, at, frame_rule(Cfa::Register(10, 0), below(3), below(1)), &words, caller_of(0x2000, START + 24, 1));
    check(X86_64, at, frame_rule(Cfa::Plt(11), Saved::InRegister, below(1)), &words, caller_of(1, START + 8, at.fp));
    let late = Frame { pc: 0x100b, ..at };
    check(
        X86_64,
        late,
        frame_rule(Cfa::Plt(11), Saved::InRegister, below(1)),
        &words,
        caller_of(START + 100, START + 16, at.fp),
    );
    let realigned = [1, START + 100, START + 40, 0x2000, 5, 0x3000];
    let rule = frame_rule(Cfa::Deref(Base::Fp, 8, 8), Saved::AtFramePointer, below(1));
    check(X86_64, at, rule, &realigned, caller_of(0x3000, START + 48, START + 100));
}

#[test]
fn walks_that_lead_nowhere_are_reported() {
    use Architecture::X86_64;
    let below = Saved::WordsBelowCfa;
    let at = Frame { pc: 0x1000, sp: START + 8, fp: START + 8, ..Frame::default() };
    let words = [1, START + 100, 0x2000];
    let lost = Step::Lost;
    check(X86_64, at, Packed::ROOT, &words, Step::Root);
    check(X86_64, at, Packed::UNSUPPORTED, &words, lost(Lost::Unsupported));
    check(
        X86_64,
        Frame { is_return: true, ..at },
        frame_rule(Cfa::Register(10, 0), below(2), below(1)),
        &words,
        lost(Lost::Unsupported),
    );
    check(X86_64, at, frame_rule(Cfa::Register(11, 0), below(2), below(1)), &words, lost(Lost::Unsupported));
    check(X86_64, at, frame_rule(Cfa::Offset(Base::Sp, 800), below(2), below(1)), &words, lost(Lost::OutsideStack));
    check(X86_64, at, frame_rule(Cfa::Offset(Base::Sp, 0), below(2), below(1)), &words, lost(Lost::NotRising));
    check(
        X86_64,
        Frame { fp: START, ..at },
        frame_rule(Cfa::Offset(Base::Fp, 16), below(2), below(1)),
        &words,
        lost(Lost::NotRising),
    );
    check(X86_64, at, frame_rule(Cfa::Offset(Base::Sp, 16), below(2), below(1)), &[0, 0, 0], Step::Root);
    check(X86_64, Frame { fp: 0, is_return: true, ..at }, Packed::UNKNOWN, &words, Step::Root);
    // A frame pointer that points to memory of zeros is none.
    check(X86_64, Frame { is_return: true, ..at }, Packed::UNKNOWN, &[0, 0, 0], lost(Lost::NoFramePointer));
    for (rule, fp, expected) in [
        (Packed::UNKNOWN, at.fp, caller_of(0x2000, START + 24, START + 100)),
        (Packed::PENDING, at.fp, caller_of(0x2000, START + 24, START + 100)),
        (Packed::UNKNOWN, 0, lost(Lost::NoFramePointer)),
        (Packed::PENDING, 0, lost(Lost::Pending)),
        (Packed::UNKNOWN, START + 9, lost(Lost::NoFramePointer)),
        (Packed::UNKNOWN, START, lost(Lost::NoFramePointer)),
        (Packed::PENDING, u64::MAX - 7, lost(Lost::Pending)),
    ] {
        check(X86_64, Frame { fp, ..at }, rule, &words, expected);
    }
}

#[test]
fn aarch64_frames() {
    use Architecture::Aarch64;
    let below = Saved::WordsBelowCfa;
    let at = Frame { pc: 0x1000, sp: START, fp: START + 8, lr: 0xfeed_0000_0000_3000, is_return: false };
    let leaf = frame_rule(Cfa::Offset(Base::Sp, 0), Saved::InRegister, Saved::InRegister);
    check(Aarch64, at, leaf, &[], caller_of(0x3000, START, at.fp));
    check(Aarch64, Frame { lr: 0, ..at }, leaf, &[], Step::Lost(Lost::NotRising));
    let framed = frame_rule(Cfa::Offset(Base::Fp, 32), below(4), below(3));
    check(
        Aarch64,
        at,
        framed,
        &[9, START + 99, 0x00ff_0000_0000_4000, 7, 7],
        caller_of(0x4000, START + 40, START + 99),
    );
    let pushed = frame_rule(Cfa::Offset(Base::Sp, 16), below(2), below(1));
    check(Aarch64, at, pushed, &[START + 99, 0x4000], caller_of(0x4000, START + 16, START + 99));
}

#[test]
fn signal_frames_give_the_interrupted_registers() {
    let at = Frame { pc: 0x1000, sp: START, is_return: true, ..Frame::default() };
    let mut words = [0; 80];
    (words[15], words[20], words[21]) = (1, 2, 3);
    check(
        Architecture::X86_64,
        at,
        Packed::SIGNAL,
        &words,
        Step::Caller(Frame { pc: 3, sp: 2, fp: 1, lr: 0, is_return: false }),
    );
    (words[68], words[69], words[70], words[71]) = (4, 5, 6, 7);
    check(
        Architecture::Aarch64,
        at,
        Packed::SIGNAL,
        &words,
        Step::Caller(Frame { pc: 7, sp: 6, fp: 4, lr: 5, is_return: false }),
    );
}
