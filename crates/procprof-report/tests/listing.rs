//! Values of source lines and machine code, where one sample has several of them.

use std::collections::BTreeMap;
use std::sync::Arc;

use procprof_profile::{Addr, Function, Line, Location, Mapping, Profile, ProfileBuilder};
use procprof_report::code::{Architecture, Code, Routine};
use procprof_report::{Options, Report, Sources};

const START: u64 = 0x1000;

/// `fib` that calls itself: 10 ms in a stack with three of its lines, one of them twice, and 5 ms beside it.
fn recursive() -> Profile {
    let mut builder = ProfileBuilder::new(&[("cpu", "nanoseconds")]);
    let (name, filename) = (builder.intern("fib"), builder.intern("/fib.c"));
    let fib = builder.function(Function { name, system_name: name, filename, start_line: 1 });
    let name = builder.intern("main");
    let main = builder.function(Function { name, system_name: name, filename, start_line: 9 });
    let filename = builder.intern("/fib");
    let mapping = Mapping { start: Addr(START), limit: Addr(START + 0x100), filename, ..Mapping::default() };
    let mapping = builder.mapping(mapping);
    let mut at = |offset, function, line| {
        let location = Location::new(Some(mapping), Addr(START + offset));
        builder.location(location, &[Line { function, line, column: 0 }])
    };
    // A call of five bytes, whose return address less one is in its middle.
    let (leaf, call, middle, next, outer) =
        (at(0, fib, 2), at(1, fib, 3), at(5, fib, 3), at(6, fib, 4), at(64, main, 10));
    builder.sample(&[leaf, middle, next, middle, call, outer], &[10_000_000], &[]);
    builder.sample(&[outer], &[5_000_000], &[]);
    builder.finish().unwrap()
}

fn sources() -> Sources {
    let routine = Routine {
        names: vec!["fib".to_owned()],
        start: START,
        // nop, call to the next instruction, nop
        bytes: vec![0x90, 0xe8, 0, 0, 0, 0, 0x90],
        places: Vec::new(),
        bytes_left_out: 0,
    };
    let code = Code {
        mapping: procprof_profile::MappingId(0),
        architecture: Architecture::X86_64,
        bias: 0,
        routines: vec![routine],
        targets: Arc::new(BTreeMap::new()),
    };
    let mut sources = Sources { code: vec![code], ..Sources::default() };
    sources.files.insert("/fib.c".to_owned(), "int fib() {\n leaf;\n fib();\n fib();\n}\n".to_owned());
    sources
}

/// The report on `fib`, with single blanks.
fn report(kind: &str) -> String {
    let options = Options::parse([("symbol", "fib")]).unwrap();
    let bytes = Report::named(kind).unwrap().render(&recursive(), &options, &sources()).unwrap();
    let text = String::from_utf8(bytes).unwrap();
    text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ") + "\n").collect()
}

#[test]
fn a_sample_counts_once_however_many_lines_or_instructions_it_has() {
    let list = report("list");
    assert!(list.contains("\n10ms 10ms (flat, cum) 66.67% of Total\n"), "{list}");
    assert!(list.contains("\n. 10ms 3: fib();\n"), "{list}");
    let disasm = report("disasm");
    assert!(disasm.contains("\n10ms 10ms (flat, cum) 66.67% of Total\n"), "{disasm}");
    assert!(disasm.contains("\n. 10ms 1001: call 1006"), "{disasm}");
    let page = report("weblist");
    assert!(page.contains("10ms flat, 10ms cum, 66.67% of total"), "{page}");
    assert!(!page.contains("20ms") && !page.contains("30ms"), "{page}");
}
