//! Machine code and sources of a real program, its CPU profile by gperftools, beside pprof.

#![allow(clippy::unwrap_used, reason = "a failing unwrap is a failing test")]

use std::path::PathBuf;
use std::process::Command;

use crate::harness::{folder, peer, procprof, text};
use crate::jeprof::programs::{run, unpack};
use crate::jeprof::sources;

/// A program, and its profile, which a test may change.
struct Profiled {
    _folder: tempfile::TempDir,
    binary: PathBuf,
    profile: PathBuf,
}

fn profiled() -> Profiled {
    let folder = folder();
    let place = folder.path().canonicalize().unwrap();
    unpack("cpu", &place);
    Profiled { _folder: folder, binary: place.join("program"), profile: place.join("out") }
}

fn ours(words: &[&str], on: &Profiled) -> String {
    // The kept program's sources are named without a folder.
    let mut report = procprof();
    report.arg("report").args(words).args([&on.binary, &on.profile]).current_dir(sources());
    let output = report.output().unwrap();
    assert!(output.status.success(), "{words:?}: {}", text(&output));
    String::from_utf8(output.stdout).unwrap()
}

fn pprof(words: &[&str], on: &Profiled) -> String {
    let mut pprof = Command::new(peer("pprof"));
    pprof.args(words).args([&on.binary, &on.profile]).current_dir(sources());
    let output = pprof.output().expect("pprof can be started");
    assert!(output.status.success(), "{words:?}: {}", text(&output));
    String::from_utf8(output.stdout).unwrap()
}

/// Head lines as they are; of instructions flat, cum and address, as pprof writes Go's assembler. What pads a function
/// is left out: pprof lets it reach to the next one.
fn columns(listing: &str) -> Vec<String> {
    let mut rows: Vec<String> = Vec::new();
    for line in listing.lines() {
        match line.split_once(": ").filter(|(columns, _)| columns.len() == 32) {
            Some((columns, code)) if !code.to_lowercase().contains("nop") => rows.push(columns.to_owned()),
            Some(_) => {}
            None => rows.push(line.to_owned()),
        }
    }
    rows
}

#[test]
fn instructions_have_the_numbers_of_pprof() {
    let program = profiled();
    for words in
        [&["-disasm=spin|divide"][..], &["-disasm=spin", "-unit=ms"], &["-disasm=divide", "-sample_index=samples"]]
    {
        let (own, peers) = (ours(words, &program), pprof(words, &program));
        assert!(peers.contains("ROUTINE"), "{peers}");
        assert_eq!(columns(&own), columns(&peers), "{words:?}\n{own}\n{peers}");
    }
    let intel = ours(&["-disasm=spin", "-intel_syntax"], &program);
    assert!(intel.contains("shl    eax,0xd") || intel.contains("shl    ecx,0xd") || intel.contains(",0xd"), "{intel}");
}

/// LLD, with which rustc links, keeps code apart from what is before it in the file: its addresses are not its places
/// there, and a recording's mapping begins at the start of the file.
#[test]
fn code_that_is_not_at_its_place_in_the_file_is_found() {
    const SOURCE: &str = "#[inline(never)]
fn hotty(mut x: u64) -> u64 {
    for i in 0..200_000_000u64 {
        x = std::hint::black_box(x.wrapping_mul(31).wrapping_add(i));
    }
    x
}
fn main() {
    println!(\"{}\", hotty(7));
}
";
    let folder = folder();
    let place = folder.path().canonicalize().unwrap();
    let (source, binary, profile) = (place.join("busy.rs"), place.join("busy"), place.join("busy.pb.gz"));
    std::fs::write(&source, SOURCE).unwrap();
    run(Command::new("rustc").args(["-O", "-g", "-o"]).arg(&binary).arg(&source));
    run(procprof().args(["record", "-F", "499", "-o"]).arg(&profile).arg("--").arg(&binary));
    let program = Profiled { _folder: folder, binary, profile };
    let (own, peers) = (ours(&["-disasm=hotty"], &program), pprof(&["-disasm=hotty"], &program));
    assert!(peers.contains("ROUTINE") && peers.contains("hotty"), "{peers}");
    let numbers = |listing: &str| -> Vec<String> {
        columns(listing).into_iter().filter(|row| !row.contains("ROUTINE") && row.contains("ms")).collect()
    };
    assert_eq!(numbers(&own), numbers(&peers), "{own}\n{peers}");
    let page = ours(&["-weblist=hotty"], &program);
    assert!(page.contains("<details>") && page.contains("busy.rs"), "{page}");
}

#[test]
fn an_address_selects_its_function() {
    let program = profiled();
    let rows = ours(&["-top", "-addresses"], &program);
    let row = rows.lines().find(|row| row.contains(" spin ")).unwrap_or_else(|| panic!("{rows}"));
    let address = row.split_whitespace().find(|word| word.len() == 16 && word.starts_with("0000")).unwrap();
    let listing = ours(&[&format!("-disasm=0x{}", address.trim_start_matches('0'))], &program);
    assert!(
        listing.contains("ROUTINE ======================== spin") && listing.matches("ROUTINE").count() == 1,
        "{listing}"
    );
}

#[test]
fn sources_unfold_to_their_machine_code() {
    let program = profiled();
    let page = ours(&["-weblist=spin"], &program);
    for part in ["<h2>spin</h2>", "sum += mix(sum + round);", "<details>", "mix cpu.c:", "shl ", "</html>"] {
        assert!(page.contains(part), "{part}\n{page}");
    }
    assert!(!page.contains("<script"), "{page}");
}

#[test]
fn a_missing_binary_leaves_addresses_and_is_reported() {
    let program = profiled();
    std::fs::remove_file(&program.binary).unwrap();
    let output = procprof().args(["report", "-top"]).arg(&program.profile).output().unwrap();
    assert!(output.status.success(), "{}", text(&output));
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(errors.contains("program") && errors.contains("--binary"), "{errors}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("[program"), "{}", text(&output));
}

#[test]
fn errors_of_damaged_profiles_contain_the_place() {
    let program = profiled();
    let whole = std::fs::read(&program.profile).unwrap();
    let out = program.profile.with_extension("txt");
    for (name, bytes, expected) in [
        ("cut", &whole[..41], "gperftools"),
        ("words", &b"neither of these"[..], "words"),
        ("heap", &b"heap_v2/524288\n  t*: 1: 2 [0: 0]\n@ 0x1 zebra\n"[..], "line 3"),
        ("gzip", &b"\x1f\x8b\x08\x00\x00\x00\x00\x00"[..], "gzip"),
    ] {
        let path = program.profile.with_file_name(name);
        std::fs::write(&path, bytes).unwrap();
        let output = procprof().args(["report", "-top", "-o"]).arg(&out).arg(&path).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{name}: {errors}");
        assert!(errors.contains(expected) && errors.contains(&path.display().to_string()), "{name}: {errors}");
        assert!(!out.exists(), "{name}");
    }
}

/// Every format becomes a pprof file with the same total.
#[test]
fn every_format_converts_to_pprof() {
    let folder = folder();
    let formats = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/formats");
    let mut converted = 0;
    for entry in [
        "collapsed/work.txt",
        "contention/brpc.txt",
        "contention/contentionz.txt",
        "contention/mutex.txt",
        "go-count/goroutine.txt",
        "gperftools-cpu/work.prof",
        "heap-text/work.heap",
        "heap-text/growth.heap",
        "java/cpu.prof",
        "java/heapz.txt",
        "jemalloc/work.heap",
        "pprof/go-heap.pb.gz",
        "symbolized/heap.raw",
        "threadz/threads.txt",
    ] {
        let (from, to) = (formats.join(entry), folder.path().join("x.pb.gz"));
        let output =
            procprof().args(["report", "-proto", "-symbolize=none", "-o"]).arg(&to).arg(&from).output().unwrap();
        assert!(output.status.success(), "{entry}: {}", text(&output));
        let total = |path: &PathBuf| -> String {
            let output =
                procprof().args(["report", "-top", "-symbolize=none", "-keep_allocators"]).arg(path).output().unwrap();
            let printed = String::from_utf8(output.stdout).unwrap();
            printed.lines().find(|line| line.starts_with("Showing nodes")).unwrap_or_default().to_owned()
        };
        assert_eq!(total(&to), total(&from), "{entry}");
        assert!(total(&to).contains("total"), "{entry}");
        let peers = Command::new("go").args(["tool", "pprof", "-symbolize=none", "-raw"]).arg(&to).output().unwrap();
        assert!(peers.status.success(), "{entry}: {}", text(&peers));
        converted += 1;
    }
    assert_eq!(converted, 14);
}
