//! Programs with an allocator of their own.

use crate::build::{program, tool};
use crate::heap::counts_agree;
use crate::host::{Host, preloaded};

#[test]
fn a_linked_jemalloc_is_wrapped() {
    counts_agree(&["-ljemalloc"], &[]);
}

#[test]
fn a_linked_tcmalloc_is_wrapped() {
    counts_agree(&["-ltcmalloc_minimal", "-DNO_RENAME"], &[]);
}

#[test]
fn an_allocator_preloaded_behind_the_library_is_wrapped() {
    let jemalloc = "/usr/lib/x86_64-linux-gnu/libjemalloc.so.2";
    let mut command = preloaded(&program("heap.cpp", &[]));
    command.arg("4096").env("PROCPROF_HEAP_SAMPLE_BYTES", "4096");
    command.env("LD_PRELOAD", format!("{}:{jemalloc}", crate::build::library().display()));
    let mut host = Host::start(command);
    let exact: f64 = host.line().split_whitespace().nth(6).unwrap().parse().unwrap();
    let profile = procprof_profile::format::decode(&host.get("/debug/pprof/heap?symbolize=0"), &Default::default())
        .unwrap()
        .profile;
    let estimate = profile.total(3) as f64;
    assert!((estimate - exact).abs() < 0.1 * exact, "{estimate} for {exact}");
    assert!(host.finish().success());
}

/// jemalloc's own profiler is preferred where it was started.
#[test]
fn jemallocs_own_profiler_answers_where_it_runs() {
    let program = program("busy.cpp", &["-Wl,--no-as-needed", "-ljemalloc"]);
    let mut command = preloaded(&program);
    command.env("MALLOC_CONF", "prof:true,lg_prof_sample:16");
    let mut host = Host::start(command);
    host.line();
    let status = String::from_utf8(host.get("/debug/pprof/heap/status")).unwrap();
    assert!(status.contains("\"allocator\":\"jemalloc\"") && status.contains("\"available\":true"), "{status}");
    let table = tool("jeprof", &["--text", "--cum", program.to_str().unwrap(), &host.url("/debug/mem")]);
    assert!(table.contains("keep_eight_megabytes"), "{table}");
    assert!(host.finish().success());
}

/// A program that defines `malloc` keeps it: nothing arrives at the library, and the answer reports it.
#[test]
fn a_program_with_a_malloc_of_its_own_keeps_it() {
    let program = program("busy.cpp", &["-Wl,--whole-archive", "-l:libtcmalloc_minimal.a", "-Wl,--no-whole-archive"]);
    let mut host = Host::start(preloaded(&program));
    assert_eq!(host.line(), "ready 1");
    let refusal = crate::host::get(&host.address, "/debug/pprof/heap").unwrap_err().to_string();
    assert!(refusal.contains("501"), "{refusal}");
    assert!(host.finish().success());
}
