use std::sync::Arc;

use procprof_unwind::{Architecture, Base, Cfa, Rule as Found, Saved as Place, Section, Source, Table};

use super::*;

const START: u64 = 0x40_1000;

/// A function whose code up to each end has these frame sizes.
fn function(name: &str, flags: (bool, bool), sizes: &[(u64, u32)]) -> GoFunction<'static> {
    let end = sizes.last().unwrap().0;
    GoFunction {
        range: START..START + end,
        name: String::from(name).leak(),
        is_top: flags.0,
        writes_stack_pointer: flags.1,
        frame_sizes: sizes.iter().map(|(end, size)| (START + end, *size)).collect(),
    }
}

/// The rules of a function's bytes, as the unwinder reads them.
fn rules(function: &GoFunction<'_>, code: &[u8]) -> Vec<Found> {
    let mut entries = Entries::new();
    entries.function(&function.range, &rows(function, code));
    found(&entries.bytes, function.range.clone())
}

fn found(entries: &[u8], range: Range<u64>) -> Vec<Found> {
    let eh_frame = Section { bytes: entries, address: 0x50_0000 };
    let source = Source::new(Architecture::X86_64, eh_frame, Section::default());
    let table = Arc::new(Table::new(0x40_0000..0x41_0000));
    table.compile(&source, 0x40_0000..0x41_0000);
    range.map(|address| table.rule(address).rule()).collect()
}

fn at_sp(offset: i32, fp: Place) -> Found {
    Found::Frame { cfa: Cfa::Offset(Base::Sp, offset), fp, ra: Place::WordsBelowCfa(1) }
}

const SAVED: Place = Place::WordsBelowCfa(2);
const SAME: Place = Place::InRegister;
const AT_FP: Found = Found::Frame { cfa: Cfa::Offset(Base::Fp, 16), fp: SAVED, ra: Place::WordsBelowCfa(1) };

#[test]
fn a_frame_is_at_the_stack_pointer_with_the_frame_pointer_saved() {
    // push rbp; mov rbp, rsp; sub rsp, 16; nop; add rsp, 16; pop rbp; ret
    let code = [0x55, 0x48, 0x89, 0xe5, 0x48, 0x83, 0xec, 16, 0x90, 0x48, 0x83, 0xc4, 16, 0x5d, 0xc3];
    let function = function("main.f", (false, false), &[(1, 0), (8, 8), (13, 24), (14, 8), (15, 0)]);
    let expected = [(0, at_sp(8, SAME)), (1, at_sp(16, SAVED)), (8, at_sp(32, SAVED)), (13, at_sp(16, SAVED))];
    let rules = rules(&function, &code);
    for (offset, rule) in expected {
        assert_eq!(rules[offset], rule, "{offset}");
    }
    assert_eq!(rules[14], at_sp(8, SAME));
}

#[test]
fn the_frame_pointer_is_saved_where_go_before_1_21_does() {
    // sub rsp, 16; mov [rsp+8], rbp; lea rbp, [rsp+8]; nop
    let code = [0x48, 0x83, 0xec, 16, 0x48, 0x89, 0x6c, 0x24, 8, 0x48, 0x8d, 0x6c, 0x24, 8, 0x90];
    let sizes = [(4, 0), (15, 16)];
    let rules_of = |flags| rules(&function("main.f", flags, &sizes), &code);
    let rules = rules_of((false, false));
    assert_eq!([rules[0], rules[4], rules[9]], [at_sp(8, SAME), at_sp(24, SAME), at_sp(24, SAVED)]);
    // A function that changes the stack is found by it.
    let rules = rules_of((false, true));
    assert_eq!([rules[4], rules[9], rules[14]], [at_sp(24, SAME), at_sp(24, SAVED), AT_FP]);
    // Assembly that saves something else, or nothing.
    let rules = self::rules(&function("main.f", (false, false), &sizes), &[0x90; 15]);
    assert_eq!([rules[4], rules[14]], [at_sp(24, SAME); 2]);
}

#[test]
fn a_function_that_changes_the_stack_is_found_by_its_frame_pointer() {
    // push rbp; mov rbp, rsp; mov rsp, [rdx+0x38]; call rdi; pop rbp; ret
    let code = [0x55, 0x48, 0x89, 0xe5, 0x48, 0x8b, 0x62, 0x38, 0xff, 0xd7, 0x5d, 0xc3];
    let function = function("runtime.systemstack", (false, true), &[(1, 0), (11, 8), (12, 0)]);
    let rules = rules(&function, &code);
    assert_eq!([rules[0], rules[1], rules[4], rules[9]], [at_sp(8, SAME), at_sp(16, SAVED), AT_FP, AT_FP]);
    assert_eq!(rules[11], at_sp(8, SAME));
    assert_eq!(role(&function), Some(StackRole::Switch));
    let mcall = GoFunction { name: PARKING, ..function };
    assert_eq!((role(&mcall), self::rules(&mcall, &code)), (Some(StackRole::Park), rules));
}

#[test]
fn behind_a_change_without_a_frame_there_is_no_caller() {
    // mov rbx, [r14+0x30]; mov rsp, [rbx+0x38]; call; ret
    let code = [0x49, 0x8b, 0x5e, 0x30, 0x48, 0x8b, 0x63, 0x38, 0xe8, 0, 0, 0, 0, 0xc3];
    for (name, expected) in [("runtime.morestack", StackRole::Growth), ("runtime.gogo", StackRole::Leaves)] {
        let function = function(name, (false, true), &[(14, 0)]);
        let rules = rules(&function, &code);
        assert_eq!([rules[0], rules[7]], [at_sp(8, SAME); 2]);
        assert!(rules[8..].iter().all(|rule| *rule == Found::Root), "{rules:?}");
        assert_eq!(role(&function), Some(expected));
    }
    let goexit = function("runtime.goexit", (true, false), &[(8, 0)]);
    assert!(rules(&goexit, &[]).iter().all(|rule| *rule == Found::Root));
}

#[test]
fn the_frame_of_a_signal_is_that_of_the_kernel() {
    let mut entries = Entries::new();
    entries.signal(START..START + 9);
    assert_eq!(found(&entries.bytes, START..START + 9), [Found::Signal; 9]);
}

/// A region of compiled rules ends at 0x41_0000.
#[test]
fn the_first_of_two_entries_counts_on_both_sides_of_a_regions_end() {
    let mut entries = Entries::new();
    let range = 0x40_fff0..0x41_0010;
    entries.function(&range, &[(0, Rule::FramePointer)]);
    entries.function(&range, &[(0, Rule::Size { size: 8, is_fp_saved: false })]);
    let eh_frame = Section { bytes: &entries.bytes, address: 0x50_0000 };
    let header = procprof_unwind::search_table(eh_frame, 0x50_0000).unwrap();
    for header in [&header[..], &[]] {
        let source = Source::new(Architecture::X86_64, eh_frame, Section { bytes: header, address: 0x50_0000 });
        let table = Table::new(0x40_0000..0x42_0000);
        table.compile(&source, 0x40_0000..0x42_0000);
        assert!(range.clone().all(|address| table.rule(address).rule() == AT_FP));
        assert_eq!(source.function(0x41_0004), Some(range.clone()));
    }
}
