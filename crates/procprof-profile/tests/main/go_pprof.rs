//! `go tool pprof` reads what we encode.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use procprof_profile::format::{Limits, decode, pprof};
use procprof_profile::{Addr, Addresses, Mapping, Profile, ProfileBuilder, Sampling};

use crate::fixtures;

/// The program behind `go tool pprof`. `go` needs ten times as long to find it as it needs for most profiles.
fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let found = Command::new("go").args(["tool", "-n", "pprof"]).output();
        let found = found.expect("`go` must be installed for this test");
        assert!(found.status.success(), "go tool -n pprof: {}", String::from_utf8_lossy(&found.stderr));
        PathBuf::from(String::from_utf8(found.stdout).unwrap().trim_end())
    })
}

fn go_pprof(profile: &Profile, options: &[&str]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("profile.pb.gz");
    std::fs::write(&path, pprof::encode_gzip(profile).unwrap()).unwrap();
    let output = Command::new(program()).args(["-symbolize=none"]).args(options).arg(&path).output();
    let output = output.expect("pprof can be started");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn names_and_shares_are_read() {
    let mut builder = ProfileBuilder::new(&[("samples", "count"), ("cpu", "nanoseconds")]);
    let (hot_70, hot_30, main) = (builder.frame("hot_70"), builder.frame("hot_30"), builder.frame("main"));
    let label = builder.text_label("query_id", "q1");
    builder.sample(&[hot_70, main], &[7, 70_000_000], &[label]);
    builder.sample(&[hot_30, main], &[3, 30_000_000], &[]);
    builder.period("cpu", "nanoseconds", 10_000_000);
    let profile = builder.finish().unwrap();
    let top = go_pprof(&profile, &["-top", "-cum"]);
    let lines: Vec<Vec<&str>> = top.lines().map(|line| line.split_whitespace().collect()).collect();
    assert!(lines.contains(&vec!["0", "0%", "0%", "100ms", "100%", "main"]), "{top}");
    assert!(lines.contains(&vec!["70ms", "70.00%", "70.00%", "70ms", "70.00%", "hot_70"]), "{top}");
    let tags = go_pprof(&profile, &["-tags"]);
    assert!(tags.contains("query_id: Total 70ms"), "{tags}");
}

#[test]
fn raw_stacks_are_read_as_estimates_at_call_sites() {
    let mut builder = ProfileBuilder::new(&[("inuse_objects", "count"), ("inuse_space", "bytes")]);
    let filename = builder.intern("/usr/bin/prog");
    let build_id = builder.intern("c0ffee");
    let mapping =
        builder.mapping(Mapping { start: Addr(0x1000), limit: Addr(0x9000), filename, build_id, ..Mapping::default() });
    let stack = [builder.address(Some(mapping), Addr(0x2001)), builder.address(Some(mapping), Addr(0x3001))];
    let label = builder.number_label("bytes", 1024, "bytes");
    builder.sample(&stack, &[3, 3072], &[label]);
    builder.period("space", "bytes", 524_288);
    builder.parts_mut().sampling = Sampling::Poisson(524_288);
    builder.parts_mut().addresses = Addresses::RawReturn;
    let raw = go_pprof(&builder.finish().unwrap(), &["-raw"]);
    let expected = "\
PeriodType: space bytes
Period: 524288
Samples:
inuse_objects/count inuse_space/bytes
       1537    1574400: 1 2 
                bytes:[1024 bytes]
Locations
     1: 0x2000 M=1 
     2: 0x3000 M=1 
Mappings
1: 0x1000/0x9000/0x0 /usr/bin/prog c0ffee 
";
    assert_eq!(raw, expected);
}

#[test]
fn every_fixture_is_read() {
    for (name, bytes) in fixtures::all() {
        if let Ok(decoded) = decode(&bytes, &Limits::default()) {
            let raw = go_pprof(&decoded.profile, &["-raw"]);
            assert!(raw.contains("Samples:"), "{name}: {raw}");
        }
    }
}
