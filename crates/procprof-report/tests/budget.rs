//! The limits of a report: output, memory and time follow from the budget, not from a small hostile profile.

use std::borrow::Cow;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use procprof_profile::{Addr, Function, Line, Location, Mapping, Profile, ProfileBuilder};
use procprof_report::{Budget, Error, Options, REPORTS, Report, Sources, stacks};

use crate::samples;

/// Far more than any of these takes without a rule that grows with the square.
const PATIENCE: Duration = Duration::from_secs(120);

/// One frame with a long name, called by itself again and again: its collapsed line is 32 MB.
fn recursion() -> Profile {
    let mut builder = ProfileBuilder::new(&[("cpu", "nanoseconds")]);
    let frame = builder.frame(&"n".repeat(2_000));
    builder.sample(&vec![frame; 16_000], &[1], &[]);
    builder.finish().unwrap()
}

/// One long name for functions in many files, so that every line has a name of its own.
fn one_name_in_many_files() -> Profile {
    let mut builder = ProfileBuilder::new(&[("cpu", "nanoseconds")]);
    let name = builder.intern(&"n".repeat(20_000));
    for index in 0..1_250 {
        let filename = builder.intern(&format!("f{index}.c"));
        let function = builder.function(Function { name, filename, ..Function::default() });
        let location = builder.location(Location::new(None, Addr(index + 1)), &[Line { function, line: 1, column: 0 }]);
        builder.sample(&[location], &[1], &[]);
    }
    builder.finish().unwrap()
}

/// One location of many inlined functions, in many samples: 200 million steps of a call tree from a few kilobytes.
fn inlined() -> Profile {
    let mut builder = ProfileBuilder::new(&[("cpu", "nanoseconds")]);
    let lines: Vec<Line> = (0..20_000)
        .map(|index| {
            let name = builder.intern(&format!("f{index}"));
            let function = builder.function(Function { name, ..Function::default() });
            Line { function, line: 1, column: 0 }
        })
        .collect();
    let inlined = builder.location(Location::new(None, Addr(1)), &lines);
    for index in 0..10_000 {
        let root = builder.frame(&format!("root{index}"));
        builder.sample(&[inlined, root], &[1], &[]);
    }
    builder.finish().unwrap()
}

/// Every sample has labels with keys and values of its own.
fn labels(count: usize) -> Profile {
    let mut builder = ProfileBuilder::new(&[("cpu", "nanoseconds")]);
    let frame = builder.frame("f");
    let mut all = Vec::new();
    for index in 0..count {
        let own = [
            builder.text_label("k", &format!("v{index}")),
            builder.number_label(&format!("n{index}"), index as i64, ""),
        ];
        builder.sample(&[frame], &[1], &own);
        all.extend(own);
    }
    builder.sample(&[frame], &[1], &all);
    builder.finish().unwrap()
}

/// Many mappings over each other, each with an address.
fn mappings(count: u32, addresses: u64) -> Profile {
    let mut builder = ProfileBuilder::new(&[("cpu", "nanoseconds")]);
    let filename = builder.intern("/nowhere/x");
    let alike = Mapping { start: Addr(0x1000), limit: Addr(0x7fff_ffff_ffff), filename, ..Mapping::default() };
    let all: Vec<_> = (0..count).map(|_| builder.mapping(alike)).collect();
    for index in 0..addresses {
        let location = builder.address(Some(all[index as usize % all.len()]), Addr(0x2000 + index));
        builder.sample(&[location], &[1], &[]);
    }
    builder.finish().unwrap()
}

/// Takes everything and remembers how much, and the largest piece.
#[derive(Default)]
struct Counting {
    bytes: usize,
    piece_max: usize,
}

impl Write for Counting {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.bytes += bytes.len();
        self.piece_max = self.piece_max.max(bytes.len());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn with(budget: Budget, pairs: &[(&str, &str)]) -> Options {
    Options { budget, ..Options::parse(pairs.iter().copied()).unwrap() }
}

fn in_time() -> Budget {
    let end = Instant::now() + PATIENCE;
    Budget::default().until(move || Instant::now() > end)
}

#[test]
fn every_report_keeps_within_its_bytes() {
    let most = 1 << 18;
    let profiles = [("recursion", recursion()), ("one name", one_name_in_many_files()), ("labels", labels(5_000))];
    for (name, profile) in &profiles {
        for report in REPORTS.iter().filter(|report| !report.takes_symbol()) {
            for granularity in ["functions", "lines"] {
                let options = with(Budget::new(most, 4 << 20), &[("granularity", granularity), ("trim", "false")]);
                let mut out = Counting::default();
                match report.write(Cow::Borrowed(profile), &options, &Sources::default(), &mut out) {
                    Ok(())
                    | Err(Error::OutputLimit { .. } | Error::MemoryLimit { .. } | Error::GraphTooLarge { .. }) => {}
                    Err(error) => panic!("{name}: {}: {error}", report.name),
                }
                assert!(out.bytes as u64 <= most, "{name}: {}: {} bytes", report.name, out.bytes);
            }
        }
    }
    let collapsed = Report::named("collapsed").unwrap();
    let error = collapsed.render(&profiles[0].1, &with(Budget::new(most, most), &[]), &Sources::default()).unwrap_err();
    assert_eq!(error, Error::OutputLimit { most });
    assert_eq!(
        error.to_string(),
        "the report has more than 262144 bytes, which is the limit; narrow it by focus, ignore or show"
    );
}

#[test]
fn a_table_that_outgrows_its_memory_is_named() {
    let options = with(Budget::new(u64::MAX, 1 << 20), &[]);
    let error = Report::named("json").unwrap().render(&inlined(), &options, &Sources::default()).unwrap_err();
    assert_eq!(error, Error::MemoryLimit { table: "the call tree", most: 1 << 20 });
    let options = with(Budget::new(u64::MAX, 1 << 20), &[("granularity", "lines")]);
    let profile = one_name_in_many_files();
    for kind in ["top", "svg", "flamegraph", "traces"] {
        let error = Report::named(kind).unwrap().render(&profile, &options, &Sources::default()).unwrap_err();
        assert!(matches!(error, Error::MemoryLimit { .. }), "{kind}: {error}");
    }
}

#[test]
fn long_reports_are_handed_on_in_pieces() {
    let profile = samples::walk(5_000, 128);
    for kind in ["collapsed", "traces", "raw", "json"] {
        let mut out = Counting::default();
        Report::named(kind)
            .unwrap()
            .write(Cow::Borrowed(&profile), &Options::default(), &Sources::default(), &mut out)
            .unwrap();
        assert!(out.bytes > 500_000, "{kind}: {}", out.bytes);
        assert!(out.piece_max < 128 << 10, "{kind}: {}", out.piece_max);
    }
}

#[test]
fn a_report_that_is_no_longer_wanted_ends() {
    let profile = inlined();
    let at_once = ["pprof", "speedscope", "cpuprofile", "otlp", "comments", "raw", "symbols", "tags", "disasm"];
    for report in REPORTS.iter().filter(|report| !at_once.contains(&report.name)) {
        let looks = Arc::new(AtomicUsize::new(0));
        let seen = Arc::clone(&looks);
        let options = with(Budget::default().until(move || seen.fetch_add(1, Ordering::Relaxed) >= 20), &[]);
        let ended = report.write(Cow::Borrowed(&profile), &options, &Sources::default(), &mut std::io::sink());
        assert_eq!(ended, Err(Error::Stopped), "{}", report.name);
        assert_eq!(looks.load(Ordering::Relaxed), 21, "{} goes on after it was stopped", report.name);
    }
}

#[test]
fn labels_take_time_by_their_number() {
    let profile = labels(100_000);
    for kind in ["traces", "tags", "raw"] {
        let mut out = Counting::default();
        let options = with(in_time(), &[]);
        Report::named(kind).unwrap().write(Cow::Borrowed(&profile), &options, &Sources::default(), &mut out).unwrap();
        assert!(out.bytes > 1_000_000, "{kind}");
    }
}

#[test]
fn machine_code_is_wanted_once_however_many_mappings_hold_an_address() {
    let profile = mappings(20_000, 5_000);
    let options = with(in_time(), &[("symbol", "x")]);
    for kind in ["disasm", "weblist"] {
        let wanted = Report::named(kind).unwrap().wanted_code(&profile, &with(in_time(), &[])).unwrap();
        let addresses: usize = wanted.iter().map(|wanted| wanted.addresses.len()).sum();
        assert!(addresses <= 5_000, "{kind}: {addresses}");
        let refused = Report::named(kind).unwrap().write(
            Cow::Borrowed(&profile),
            &options,
            &Sources::default(),
            &mut std::io::sink(),
        );
        assert!(!matches!(refused, Err(Error::Stopped)), "{kind}");
    }
}

#[test]
fn stacks_are_the_lines_of_collapsed() {
    let profile = samples::mixed();
    for pairs in [
        &[][..],
        &[("root", "main"), ("root", "server::serve")],
        &[("granularity", "lines")],
        &[("drop_negative", "true")],
    ] {
        let options = Options::parse(pairs.iter().copied()).unwrap();
        let mut lines = String::new();
        let found = stacks(&profile, &options, &mut |stack, value| {
            lines += &format!("{stack} {value}\n");
            Ok(())
        });
        match found {
            Ok(()) => assert_eq!(lines, samples::text(&profile, "collapsed", pairs), "{pairs:?}"),
            Err(error) => assert!(matches!(error, Error::Value { key: "root", .. }), "{pairs:?}: {error}"),
        }
    }
    let stop = stacks(&profile, &Options::default(), &mut |_, _| Err(Error::Stopped));
    assert_eq!(stop, Err(Error::Stopped));
}
