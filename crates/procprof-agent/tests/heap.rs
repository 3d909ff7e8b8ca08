//! Heap profiles through jemalloc's own profiler.

use crate::isolated::{isolated, isolated_with};
use crate::work::{LONGER_AND_LONGER, wait_until};
use procprof_agent::{Agent, Config, DumpFileLimits, Jemalloc, JemallocNaming, MallctlFn, Request};
use std::ffi::{c_char, c_int, c_void};
use std::time::{Duration, Instant};

unsafe extern "C" {
    fn _rjem_mallctl(
        name: *const c_char,
        old: *mut c_void,
        old_length: *mut usize,
        new: *mut c_void,
        new_length: usize,
    ) -> c_int;
}

/// An agent with this binary's jemalloc.
pub(crate) fn agent() -> Agent {
    // SAFETY: the jemalloc that is this binary's global allocator.
    let jemalloc = unsafe { Jemalloc::new(_rjem_mallctl as MallctlFn, JemallocNaming::Rust) };
    procprof_agent::start(Config { jemalloc: Some(jemalloc), ..Config::default() }).unwrap()
}

/// Keeps eight megabytes that only this function allocates; it stays on the stack meanwhile, as the call is not its
/// last act.
#[inline(never)]
pub(crate) fn keep_eight_megabytes() -> Vec<Vec<u8>> {
    std::hint::black_box((0..128).map(|_| vec![7; 64 << 10]).collect())
}

fn text(agent: &Agent, path: &str) -> (u16, String) {
    let response = agent.handle(&Request::get(path));
    (response.status, String::from_utf8(response.body).unwrap())
}

fn post(agent: &Agent, path: &str) -> (u16, String) {
    let response = agent.handle(&Request::post(path, &[]));
    (response.status, String::from_utf8(response.body).unwrap())
}

#[test]
fn the_profiler_is_switched_by_calls_as_by_requests() {
    isolated("heap::the_profiler_is_switched_by_calls_as_by_requests", || {
        let agent = agent();
        let answer = || text(&agent, "/debug/pprof/heap/status").1;
        let off = agent.heap_deactivate(None).unwrap();
        assert!(off.available && !off.active && answer().contains("\"active\":false"));
        let on = agent.heap_activate(Some(Duration::from_secs(3600))).unwrap();
        assert!(on.active && answer().contains("\"active\":true") && answer().contains("\"until\":\""));
        assert_eq!(agent.heap_status().unwrap(), on);
        assert!(agent.heap_activate(None).unwrap().active && answer().contains("\"until\":null"), "for good");
        assert_eq!(post(&agent, "/debug/pprof/heap/disable").0, 200);
        assert!(!agent.heap_status().unwrap().active);
        let other = procprof_agent::start(Config::default()).unwrap();
        assert!(other.heap_status().unwrap().available, "without jemalloc's it is the sampler");
    });
}

#[test]
fn a_dump_is_jemallocs_text_and_leaves_no_file() {
    isolated("heap::a_dump_is_jemallocs_text_and_leaves_no_file", || {
        let agent = agent();
        let kept = keep_eight_megabytes();
        for path in
            ["/pprof/heap", "/debug/mem", "/debug/mem/pprof/profile?seconds=30", "/debug/pprof/heap?format=legacy"]
        {
            let (status, dump) = text(&agent, path);
            assert_eq!(status, 200, "{path}: {dump}");
            assert!(dump.starts_with("heap_v2/32768\n"), "{path}: {}", &dump[..dump.len().min(200)]);
            assert!(dump.contains("\nMAPPED_LIBRARIES:\n"), "{path}");
        }
        drop(kept);
        let left = std::fs::read_dir(std::env::temp_dir()).unwrap();
        let own = format!("procprof-{}-", std::process::id());
        let left: Vec<_> = left
            .map(|entry| entry.unwrap().file_name())
            .filter(|name| name.to_string_lossy().starts_with(&own))
            .collect();
        assert!(left.is_empty(), "{left:?}");
    });
}

#[test]
fn the_proto_holds_what_is_in_use() {
    isolated("heap::the_proto_holds_what_is_in_use", || {
        let agent = agent();
        let kept = keep_eight_megabytes();
        let response = agent.handle(&Request::get("/debug/pprof/heap"));
        assert_eq!(response.status, 200, "{}", String::from_utf8_lossy(&response.body));
        let decoded = procprof_profile::format::decode(&response.body, &Default::default()).unwrap();
        let space = decoded.profile.sample_type_index("inuse_space").unwrap();
        let total = decoded.profile.total(space) as f64;
        println!("{total} bytes in use");
        assert!(total > 7.0e6 && total < 14.0e6, "{total} bytes");
        assert!(decoded.profile.comments().any(|comment| comment.starts_with("#procprof:tool=procprof-agent ")));
        drop(kept);
    });
}

#[test]
fn the_switches_switch() {
    isolated("heap::the_switches_switch", || {
        let agent = agent();
        let status = "/debug/pprof/heap/status";
        let on = "{\"allocator\":\"jemalloc\",\"compiled_in\":true,\"available\":true,\"active\":true,\"lg_sample\":15,\
                  \"until\":null,\"variable\":\"_RJEM_MALLOC_CONF\",\"environment\":{}}\n";
        let off = on.replace("\"active\":true", "\"active\":false");
        assert_eq!(text(&agent, status), (200, on.into()));
        assert_eq!(post(&agent, "/debug/pprof/heap/disable"), (200, off.clone()));
        assert_eq!(text(&agent, status), (200, off));
        assert_eq!(post(&agent, "/debug/pprof/heap/enable"), (200, on.into()));
        let kept = keep_eight_megabytes();
        assert_eq!(post(&agent, "/debug/pprof/heap/reset?lg_sample=17"), (200, on.replace(":15", ":17")));
        assert!(text(&agent, "/pprof/heap").1.starts_with("heap_v2/131072\n"));
        assert_eq!(text(&agent, "/debug/pprof/heap/enable").0, 405);
        assert_eq!(post(&agent, "/debug/pprof/heap/enable?for=30").0, 400);
        let answer = post(&agent, "/debug/pprof/heap/disable?for=30m").1;
        assert!(answer.contains("\"active\":false") && answer.contains("\"until\":\"20"), "{answer}");
        assert!(post(&agent, "/debug/pprof/heap/disable?for=1s").1.contains("\"active\":false"));
        wait_until("that it goes back", || text(&agent, status).1.contains("\"active\":true"));
        assert!(text(&agent, status).1.contains("\"until\":null"));
        let refused = text(&agent, "/debug/pprof/allocs");
        assert_eq!(refused.0, 501);
        assert!(refused.1.contains("_RJEM_MALLOC_CONF=prof:true,prof_accum:true"), "{}", refused.1);
        assert_eq!(post(&agent, "/debug/pprof/heap/reset?lg_sample=41").0, 400);
        drop(kept);
    });
}

#[test]
fn without_profiling_the_answer_names_the_variable_to_set() {
    isolated_with(
        "heap::without_profiling_the_answer_names_the_variable_to_set",
        &[("_RJEM_MALLOC_CONF", "prof:false")],
        || {
            // SAFETY: the jemalloc that is this binary's global allocator.
            let known_as = |naming| unsafe { Jemalloc::new(_rjem_mallctl as MallctlFn, naming) };
            let answer = |naming| known_as(naming).set_active(true).unwrap_err().to_string();
            let start = "heap profiling is off in this process: start it with";
            let rust = format!("{start} _RJEM_MALLOC_CONF=prof:true (now _RJEM_MALLOC_CONF=prof:false)");
            assert_eq!(answer(JemallocNaming::Rust), rust);
            let in_vain = "(_RJEM_MALLOC_CONF is set, but its jemalloc does not read that)";
            assert_eq!(answer(JemallocNaming::Plain), format!("{start} MALLOC_CONF=prof:true {in_vain}"));
            assert_eq!(answer(JemallocNaming::Je), format!("{start} JEMALLOC_CONF=prof:true {in_vain}"));
            assert!(!known_as(JemallocNaming::Rust).status().available);
            // The sampler around the allocator has the heap instead.
            assert!(text(&agent(), "/debug/pprof/heap/status").1.starts_with("{\"allocator\":\"procprof-agent\""));
        },
    );
}

#[test]
fn concurrent_dumps_are_taken_one_after_the_other() {
    isolated("heap::concurrent_dumps_are_taken_one_after_the_other", || {
        let agent = agent();
        let ask = || {
            let agent = agent.clone();
            std::thread::spawn(move || agent.heap_dump().unwrap())
        };
        let dumps: Vec<_> = (0..8).map(|_| ask()).collect();
        for dump in dumps {
            assert!(dump.join().unwrap().starts_with(b"heap_v2/"));
        }
    });
}

/// The variable with the folder of dumps, for the process in which a test runs alone.
const FOLDER: &str = "PROCPROF_TEST_FOLDER";

/// A folder of dumps, which the first of the two processes of a test makes and removes.
struct DumpFolder {
    name: String,
    _made: Option<tempfile::TempDir>,
}

impl DumpFolder {
    fn new() -> Self {
        if let Ok(name) = std::env::var(FOLDER) {
            return Self { name, _made: None };
        }
        let made = tempfile::tempdir().unwrap();
        Self { name: made.path().to_str().unwrap().to_owned(), _made: Some(made) }
    }
}

#[test]
fn dumps_that_jemalloc_writes_by_itself_are_listed_served_and_cleaned_up() {
    let place = DumpFolder::new();
    let folder = place.name.as_str();
    let configuration = format!("prof_prefix:{folder}/dump,lg_prof_interval:20");
    let environment = [("_RJEM_MALLOC_CONF", configuration.as_str()), (FOLDER, folder)];
    isolated_with("heap::dumps_that_jemalloc_writes_by_itself_are_listed_served_and_cleaned_up", &environment, || {
        let agent = agent();
        let kept = keep_eight_megabytes();
        let (status, list) = text(&agent, "/debug/pprof/heap/dumps");
        assert_eq!(status, 200, "{list}");
        let head = format!(
            "{{\"folder\":\"{folder}\",\"prefix\":\"dump\",\"lg_prof_interval\":20,\"prof_gdump\":false,\"keep_files\":null,"
        );
        assert!(list.starts_with(&head), "{list}");
        let names: Vec<&str> = list.split('"').filter(|word| word.ends_with(".heap")).collect();
        assert!(names.len() >= 5 && list.contains("\"cause\":\"interval\""), "{list}");
        let profile = agent.handle(&Request::get(&format!("/debug/pprof/heap/dumps?name={}", names[0])));
        assert_eq!(profile.status, 200);
        let profile = procprof_profile::format::decode(&profile.body, &Default::default()).unwrap().profile;
        assert!(profile.total(profile.sample_type_index("inuse_space").unwrap()) > 1_000_000);
        assert!(
            text(&agent, &format!("/debug/pprof/heap/dumps?format=legacy&name={}", names[1]))
                .1
                .starts_with("heap_v2/32768\n")
        );
        for wrong in ["dump.1.2.i3.heap", "../dump.1.2.i3.heap", "x"] {
            assert_eq!(text(&agent, &format!("/debug/pprof/heap/dumps?name={wrong}")).0, 404);
        }
        let whole = std::fs::read(format!("{folder}/{}", names[0])).unwrap();
        // Within a line, wherever the half is.
        std::fs::write(format!("{folder}/dump.1.1.f.heap"), whole[..whole.len() / 2].trim_ascii_end()).unwrap();
        let unfinished = text(&agent, "/debug/pprof/heap/dumps?name=dump.1.1.f.heap");
        assert_eq!(unfinished, (503, "heap dump \"dump.1.1.f.heap\" is not written to its end\n".into()));
        std::fs::write(format!("{folder}/dump.1.1.f.heap.mine"), "kept").unwrap();
        assert!(post(&agent, "/debug/pprof/heap/disable").1.contains("\"active\":false"));
        let (status, list) = post(&agent, "/debug/pprof/heap/dumps/clean?keep=2");
        assert_eq!((status, list.matches("\"name\"").count()), (200, 2), "{list}");
        assert_eq!(std::fs::read_dir(folder).unwrap().count(), 3, "what is no dump stays");

        // SAFETY: as in `agent`.
        let jemalloc = unsafe { Jemalloc::new(_rjem_mallctl as MallctlFn, JemallocNaming::Rust) };
        let limits = DumpFileLimits { files: 1, ..DumpFileLimits::default() };
        let keeper =
            procprof_agent::start(Config { jemalloc: Some(jemalloc), dump_files: Some(limits), ..Config::default() })
                .unwrap();
        wait_until("that it is cleaned without a request", || std::fs::read_dir(folder).unwrap().count() <= 2);
        assert!(text(&keeper, "/debug/pprof/heap/dumps").1.contains("\"keep_files\":1,\"keep_bytes\":268435456,"));
        drop(kept);
    });
}

#[test]
fn dumps_at_new_peaks_are_listed_with_their_cause() {
    let place = DumpFolder::new();
    let configuration = format!("prof_prefix:{}/dump,prof_gdump:true", place.name);
    let environment = [("_RJEM_MALLOC_CONF", configuration.as_str()), (FOLDER, &place.name)];
    isolated_with("heap::dumps_at_new_peaks_are_listed_with_their_cause", &environment, || {
        let kept = keep_eight_megabytes();
        let list = text(&agent(), "/debug/pprof/heap/dumps").1;
        assert!(
            list.contains("\"lg_prof_interval\":null,\"prof_gdump\":true,") && list.contains("\"cause\":\"peak\""),
            "{list}"
        );
        drop(kept);
    });
}

/// Growth between the two looks, of 4 MiB kept meanwhile, without memory that was there before.
#[test]
fn growth_shows_what_was_kept_meanwhile() {
    isolated("heap::growth_shows_what_was_kept_meanwhile", || {
        let agent = agent();
        let before = keep_eight_megabytes();
        // On a busy machine the second request may come before the first one, or too late.
        let (grown, kept) = LONGER_AND_LONGER
            .into_iter()
            .find_map(|seconds| {
                let (of_thread, path) = (agent.clone(), format!("/pprof/growth?seconds={seconds}"));
                let requested = Instant::now();
                let asked = std::thread::spawn(move || {
                    of_thread.handle(&Request { client: "10.0.0.7", ..Request::get(&path) })
                });
                std::thread::sleep(Duration::from_millis(100));
                let (status, answer) = text(&agent, "/pprof/growth?seconds=1");
                let kept = keep_four_megabytes();
                let is_in_time = requested.elapsed() < Duration::from_secs(seconds);
                let grown = asked.join().unwrap();
                (status == 409 && is_in_time).then(|| {
                    assert!(answer.starts_with("growth is being measured by 10.0.0.7 until 20"), "{answer}");
                    (grown, kept)
                })
            })
            .expect("two requests at the same time");
        assert_eq!(grown.status, 200, "{}", String::from_utf8_lossy(&grown.body));
        assert!(grown.body.starts_with(b"heap profile: "), "{}", String::from_utf8_lossy(&grown.body[..100]));
        assert!(grown.headers.contains(&("Content-Disposition", "attachment; filename=\"profile.growth\"".into())));
        let profile = procprof_profile::format::decode(&grown.body, &Default::default()).unwrap().profile;
        let space = profile.total(profile.sample_type_index("space").unwrap());
        // 128 samples are expected: 9 % is one standard deviation.
        assert!((2 << 20..6 << 20).contains(&space), "{space} bytes");
        let quiet = agent.handle(&Request::get("/pprof/growth?seconds=1&format=proto"));
        let quiet = procprof_profile::format::decode(&quiet.body, &Default::default()).unwrap().profile;
        assert!(quiet.total(1) < 1 << 20, "{}", quiet.total(1));
        assert!(quiet.comments().any(|comment| comment == "#procprof:type=growth"));
        assert_eq!(quiet.duration().0, 1_000_000_000);
        assert_eq!(text(&agent, "/pprof/growth?seconds=0").0, 400);
        drop((before, kept));
    });
}

#[inline(never)]
fn keep_four_megabytes() -> Vec<Vec<u8>> {
    (0..64).map(|_| std::hint::black_box(vec![1_u8; 64 << 10])).collect()
}
