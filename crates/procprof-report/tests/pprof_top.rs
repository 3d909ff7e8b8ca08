//! `top` against `pprof -top`, byte for byte, on the same file.

use procprof_profile::{Profile, format};

use crate::{pprof, samples};

/// The same options, as pprof's flags and as procprof's.
type Case = (&'static [&'static str], &'static [(&'static str, &'static str)]);

const CASES: &[Case] = &[
    (&[], &[]),
    (&["-cum"], &[("sort", "cum")]),
    (&["-lines", "-nodefraction=0.02"], &[("granularity", "lines"), ("nodefraction", "0.02")]),
    (&["-addresses", "-nodecount=15"], &[("granularity", "addresses"), ("nodecount", "15")]),
    (
        &["-filefunctions", "-nodecount=7", "-sample_index=0"],
        &[("granularity", "filefunctions"), ("nodecount", "7"), ("sample_index", "0")],
    ),
    (
        &["-focus=serve|json", "-ignore=gzip", "-unit=ms"],
        &[("focus", "serve|json"), ("ignore", "gzip"), ("unit", "ms")],
    ),
];

fn compare(name: &str, profile: &Profile) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("profile.pb.gz");
    std::fs::write(&path, format::pprof::encode_gzip(profile).unwrap()).unwrap();
    for (flags, pairs) in CASES {
        let mut command = pprof::command(folder.path());
        let output = command.args(["-symbolize=none", "-top"]).args(*flags).arg(&path).output();
        let output = output.expect("pprof can be started");
        let expected = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "pprof: {}", String::from_utf8_lossy(&output.stderr));
        let got = samples::text(profile, "top", pairs);
        assert!(got == expected, "{name} {flags:?}\nours:\n{got}\npprof:\n{expected}");
    }
}

#[test]
fn top_is_what_pprof_prints() {
    compare("mixed", &samples::mixed());
    compare("go.cpu", &samples::file("go.cpu.pb.gz"));
    compare("go.heap", &samples::file("go.heap.pb.gz"));
    compare("rust.heap", &samples::file("rust.heap.pb.gz"));
    compare("walk", &samples::walk(300, 40));
    compare("negative", &samples::stacks(&[(&["a", "b"], -5_000_000), (&["a", "c"], 3_000_000)]));
}
