//! `go tool pprof` reads what we encode.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use procprof_profile::format::{Limits, decode, pprof};
use procprof_profile::{Addr, Addresses, Mapping, Profile, ProfileBuilder, Sampling};

use crate::fixtures;

/// A file in a folder of its own, removed in the end.
struct Stored(PathBuf);

impl Stored {
    fn new(name: &str, bytes: &[u8]) -> Stored {
        let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}.pb.gz", std::process::id()));
        fs::write(&path, bytes).unwrap();
        Stored(path)
    }
}

impl Drop for Stored {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

fn go_pprof(name: &str, profile: &Profile, options: &[&str]) -> String {
    let stored = Stored::new(name, &pprof::encode_gzip(profile).unwrap());
    let output = Command::new("go").args(["tool", "pprof", "-symbolize=none"]).args(options).arg(&stored.0).output();
    let output = output.expect("`go` must be installed for this test");
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
    let top = go_pprof("top", &profile, &["-top", "-cum"]);
    let lines: Vec<Vec<&str>> = top.lines().map(|line| line.split_whitespace().collect()).collect();
    assert!(lines.contains(&vec!["0", "0%", "0%", "100ms", "100%", "main"]), "{top}");
    assert!(lines.contains(&vec!["70ms", "70.00%", "70.00%", "70ms", "70.00%", "hot_70"]), "{top}");
    let tags = go_pprof("tags", &profile, &["-tags"]);
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
    let raw = go_pprof("raw", &builder.finish().unwrap(), &["-raw"]);
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
            let raw = go_pprof("fixture", &decoded.profile, &["-raw"]);
            assert!(raw.contains("Samples:"), "{name}: {raw}");
        }
    }
}
