//! The endpoints without any server: statuses, limits, forms.

use crate::isolated::isolated;
use crate::work::{LONGER_AND_LONGER, split_70_30, thread_cpu, wait_for_cpu_capture};
use procprof_agent::{Config, ENDPOINTS, Method, Request, Response, start};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

fn agent() -> procprof_agent::Agent {
    start(Config::default()).unwrap()
}

fn body(response: &Response) -> String {
    String::from_utf8_lossy(&response.body).into_owned()
}

/// Every row by each of its methods: captures requested by `HEAD` do not begin.
#[test]
fn every_row_answers_and_refuses_other_methods() {
    let agent = agent();
    for endpoint in ENDPOINTS {
        let began = Instant::now();
        for method in [Method::Get, Method::Head, Method::Post, Method::Other] {
            if endpoint.methods.contains(&method) {
                continue;
            }
            let refused = agent.handle(&Request { method, ..Request::get(endpoint.path) });
            assert_eq!(refused.status, 405, "{}", endpoint.path);
            let allowed: Vec<&str> = endpoint.methods.iter().map(|method| method.name()).collect();
            assert!(refused.headers.contains(&("Allow", allowed.join(", "))));
        }
        let is_read = endpoint.methods.contains(&Method::Head);
        assert_eq!(is_read, endpoint.methods.contains(&Method::Get));
        let method = if is_read { Method::Head } else { Method::Post };
        let response = agent.handle(&Request { method, ..Request::get(endpoint.path) });
        let expected: &[u16] = if endpoint.path.contains("/dumps") { &[501] } else { &[200] };
        assert!(expected.contains(&response.status), "{}: {} {}", endpoint.path, response.status, body(&response));
        assert!(began.elapsed() < Duration::from_secs(30), "{} takes a profile, which is of 30 s", endpoint.path);
    }
    assert_eq!(agent.handle(&Request::get("/debug/pprof/nothing")).status, 404);
    assert_eq!(agent.handle(&Request::get("/debug/pprof")).status, 200);
}

/// The build id of this test's program, by `readelf`.
fn own_build_id() -> String {
    let text = crate::tools::run("readelf", &["-n", &crate::tools::own_binary()]);
    text.lines().find_map(|line| line.trim().strip_prefix("Build ID: ")).unwrap().to_owned()
}

fn unix_nanos() -> i64 {
    std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_nanos() as i64
}

/// Every profile at every path, in its own form and in the other: what it is, under which name it is to be kept, and by
/// whom and of which program it is.
#[test]
fn every_profile_has_its_form_and_type() {
    isolated("endpoints::every_profile_has_its_form_and_type", || {
        let agent = agent();
        let build_id = format!("#procprof:instance-build-id={}", own_build_id());
        let version = format!("#procprof:tool=procprof-agent {}", env!("CARGO_PKG_VERSION"));
        assert_eq!(agent.handle(&Request::post("/debug/pprof/contention/enable", &[])).status, 200);
        let work = std::thread::spawn(|| split_70_30(Duration::from_secs(1)));
        for (path, query, legacy_name, kind, by_itself) in [
            ("/debug/pprof/profile", "seconds=1", "profile.prof", "cpu", "proto"),
            ("/debug/pprof/wall", "seconds=1", "profile.prof", "wall", "proto"),
            ("/debug/pprof/heap", "", "profile.heap", "heap", "proto"),
            ("/debug/pprof/heap", "seconds=0", "profile.heap", "heap", "proto"),
            ("/debug/pprof/allocs", "", "profile.heap", "heap", "proto"),
            ("/debug/pprof/block", "", "profile.contention", "contention", "proto"),
            ("/debug/pprof/contention", "", "profile.contention", "contention", "proto"),
            ("/debug/pprof/mutex", "", "profile.contention", "mutex", "proto"),
            ("/debug/mem", "", "profile.heap", "heap", "legacy"),
            // A request of jeprof, which is answered at once.
            ("/debug/mem/pprof/profile", "seconds=300", "profile.heap", "heap", "legacy"),
            ("/debug/mem/pprof/heap", "", "profile.heap", "heap", "legacy"),
            ("/pprof/profile", "seconds=1", "profile.prof", "cpu", "legacy"),
            ("/pprof/wall", "seconds=1", "profile.prof", "wall", "legacy"),
            ("/pprof/heap", "", "profile.heap", "heap", "legacy"),
            ("/pprof/growth", "seconds=1", "profile.growth", "growth", "legacy"),
            ("/pprof/contention", "", "profile.contention", "contention", "legacy"),
        ] {
            let other = if by_itself == "proto" { "format=legacy" } else { "format=proto" };
            for form in ["", other] {
                let began = Instant::now();
                let response = agent.handle(&Request::get(&format!("{path}?symbolize=0&{query}&{form}")));
                let is_proto = form.ends_with("proto") || form.is_empty() && by_itself == "proto";
                let what = format!("{path}?{query}&{form}");
                assert_eq!(response.status, 200, "{what}: {}", body(&response));
                assert!(began.elapsed() < Duration::from_secs(250), "{what}");
                let name = if is_proto { "profile.pb.gz" } else { legacy_name };
                assert_eq!(
                    response.headers,
                    [("Content-Disposition", format!("attachment; filename=\"{name}\""))],
                    "{what}"
                );
                assert_eq!(response.body.starts_with(&[0x1f, 0x8b]), is_proto, "{what}");
                let profile = procprof_profile::format::decode(&response.body, &Default::default()).unwrap().profile;
                if is_proto {
                    let comments: Vec<&str> = profile.comments().collect();
                    for fact in [build_id.as_str(), &version, &format!("#procprof:type={kind}")] {
                        assert!(comments.contains(&fact), "{what}: no {fact} in {comments:?}");
                    }
                    let start = comments.iter().find_map(|text| text.strip_prefix("#procprof:instance-start="));
                    let age = unix_nanos() - start.unwrap().parse::<i64>().unwrap();
                    // The kernel gives the time of boot in whole seconds.
                    assert!((-1_000_000_000..3_600_000_000_000).contains(&age), "{what}: {age}");
                }
            }
        }
        work.join().unwrap();
    });
}

#[test]
fn the_index_lists_every_row() {
    let page = body(&agent().handle(&Request::get("/debug/pprof/")));
    for endpoint in ENDPOINTS {
        assert!(page.contains(&format!("{}<", endpoint.path)), "{}", endpoint.path);
    }
}

#[test]
fn errors_contain_the_limit_and_the_value_that_broke_it() {
    let agent = agent();
    for (query, error) in [
        ("seconds=0", "seconds=0: expected a whole number from 1 to 300\n"),
        ("seconds=301", "seconds=301: expected a whole number from 1 to 300\n"),
        ("seconds=x", "seconds=x: expected a whole number from 1 to 300\n"),
        ("seconds=-1", "seconds=-1: expected a whole number from 1 to 300\n"),
        ("frequency=0", "frequency=0: expected a whole number from 1 to 4000\n"),
        ("frequency=4001", "frequency=4001: expected a whole number from 1 to 4000\n"),
        ("format=svg", "format=svg: expected proto or legacy\n"),
        ("symbolize=yes", "symbolize=yes: expected a whole number from 0 to 1\n"),
        ("seconds=%", "seconds=%: expected a name and a value in percent-encoded UTF-8\n"),
        ("seconds=1&seconds=2", "seconds: given twice\n"),
    ] {
        for path in ["/debug/pprof/profile", "/pprof/profile"] {
            let response = agent.handle(&Request::get(&format!("{path}?{query}")));
            assert_eq!((response.status, body(&response).as_str()), (400, error));
        }
    }
    for (path, error) in [
        ("/debug/pprof/wall?seconds=301", "seconds=301: expected a whole number from 1 to 300\n"),
        ("/debug/pprof/wall?frequency=101", "frequency=101: expected a whole number from 1 to 100\n"),
        ("/pprof/wall?frequency=0", "frequency=0: expected a whole number from 1 to 100\n"),
        ("/pprof/growth?seconds=0", "seconds=0: expected a whole number from 1 to 300\n"),
        ("/pprof/growth?seconds=301", "seconds=301: expected a whole number from 1 to 300\n"),
        ("/debug/pprof/contention?seconds=301", "seconds=301: expected a whole number from 0 to 300\n"),
        ("/debug/pprof/mutex?seconds=-1", "seconds=-1: expected a whole number from 0 to 300\n"),
        ("/debug/pprof/heap?format=text", "format=text: expected proto or legacy\n"),
        ("/debug/pprof/heap?seconds=x", "seconds=x: expected a whole number from 0 to 18446744073709551615\n"),
    ] {
        let response = agent.handle(&Request::get(path));
        assert_eq!((response.status, body(&response).as_str()), (400, error), "{path}");
    }
    for (path, error) in [
        ("/debug/pprof/heap/enable?for=25h", "for=25h: expected a time from 1s to 24h, such as 90s, 30m or 2h\n"),
        ("/debug/pprof/heap/reset?lg_sample=41", "lg_sample=41: expected a whole number from 0 to 40\n"),
    ] {
        let response = agent.handle(&Request::post(path, &[]));
        assert_eq!((response.status, body(&response).as_str()), (400, error), "{path}");
    }
}

#[test]
fn what_is_not_recorded_is_a_501_with_a_sentence() {
    // Once waits are recorded, they are for the whole process.
    isolated("endpoints::what_is_not_recorded_is_a_501_with_a_sentence", || {
        let agent = agent();
        for (path, word) in [("mutex", "lock"), ("block", "lock"), ("contention", "lock")] {
            let response = agent.handle(&Request::get(&format!("/debug/pprof/{path}")));
            assert_eq!(response.status, 501);
            assert!(body(&response).contains(word), "{path}: {}", body(&response));
        }
    });
}

#[test]
fn command_line_and_symbols_are_beside_every_base_path() {
    let agent = agent();
    let known = if cfg!(feature = "symbolize") { "num_symbols: 1\n" } else { "num_symbols: 0\n" };
    for base in ["/pprof", "/debug/pprof", "/debug/mem/pprof"] {
        let line = agent.handle(&Request::get(&format!("{base}/cmdline")));
        let first = std::env::args().next().unwrap();
        assert_eq!(line.body.split(|byte| *byte == 0).next().unwrap(), first.as_bytes());
        let path = format!("{base}/symbol");
        assert_eq!(body(&agent.handle(&Request::get(&path))), known);
        let head = agent.handle(&Request { method: Method::Head, ..Request::get(&path) });
        assert_eq!((head.status, body(&head).as_str()), (200, known));
        let answer = agent.handle(&Request::post(&path, b"0x0000000000000010+0x20\n"));
        assert_eq!((answer.status, body(&answer).as_str()), (200, ""), "unknown addresses have no line");
        assert_eq!(agent.handle(&Request::post(&path, b"0xZZ")).status, 400);
        assert_eq!(agent.handle(&Request::post(&path, &vec![b'+'; (8 << 20) + 1])).status, 413);
        let many = agent.handle(&Request::post(&path, "1+".repeat(1 << 19).as_bytes()));
        assert_eq!((many.status, body(&many).as_str()), (413, "at most 441505 addresses\n"));
    }
}

#[cfg(feature = "symbolize")]
#[test]
fn an_address_is_named_in_the_spelling_of_the_request() {
    let address = crate::work::hot_70 as *const () as u64;
    let spelling = format!("{address:#018x}");
    let answer = agent().handle(&Request::post("/pprof/symbol", spelling.as_bytes()));
    assert_eq!(body(&answer), format!("{spelling}\thot_70\n"));
}

#[test]
fn captures_share_the_sampler_or_get_an_error_with_its_owner() {
    isolated("endpoints::captures_share_the_sampler_or_get_an_error_with_its_owner", || {
        let agent = agent();
        let stop = AtomicBool::new(false);
        let (first, shared) = std::thread::scope(|scope| {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    split_70_30(thread_cpu() + Duration::from_millis(10));
                }
            });
            let answers = LONGER_AND_LONGER.into_iter().find_map(|seconds| {
                let requested = Instant::now();
                let (path, agent) = (format!("/debug/pprof/profile?seconds={seconds}"), &agent);
                let first = scope.spawn(move || agent.handle(&Request { client: "10.0.0.7", ..Request::get(&path) }));
                wait_for_cpu_capture();
                let shared = scope.spawn(|| agent.handle(&Request::get("/pprof/profile?seconds=1&frequency=99")));
                let refused = agent.handle(&Request::get("/debug/pprof/profile?seconds=1&frequency=100"));
                // On a busy machine the first one may be over before the others are requested.
                let is_beside = requested.elapsed() < Duration::from_secs(seconds);
                let answers = (first.join().unwrap(), shared.join().unwrap());
                if is_beside {
                    assert_eq!(refused.status, 409);
                    assert!(body(&refused).contains("at 99 Hz by 10.0.0.7 until 2"), "{}", body(&refused));
                }
                is_beside.then_some(answers)
            });
            stop.store(true, Ordering::Relaxed);
            answers.expect("three requests at the same time")
        });
        for (response, format) in [(first, "pprof"), (shared, "gperftools-cpu")] {
            assert_eq!(response.status, 200, "{}", body(&response));
            let disposition = response.headers.iter().find(|(name, _)| *name == "Content-Disposition").unwrap();
            assert!(disposition.1.starts_with("attachment; filename=\"profile.p"), "{}", disposition.1);
            let decoded = procprof_profile::format::decode(&response.body, &Default::default()).unwrap();
            assert_eq!(decoded.format, format);
            assert!(decoded.profile.total(1) > 10_000_000, "{format}: {}", decoded.profile.total(1));
        }
    });
}

#[test]
fn a_stopped_agent_gives_its_captures_up_at_once() {
    isolated("endpoints::a_stopped_agent_gives_its_captures_up_at_once", || {
        let agent = agent();
        let other = agent.clone();
        let began = Instant::now();
        let waiting = std::thread::spawn(move || other.handle(&Request::get("/debug/pprof/profile?seconds=300")));
        wait_for_cpu_capture();
        agent.stop();
        let response = waiting.join().unwrap();
        assert_eq!((response.status, body(&response).as_str()), (503, "the agent was stopped\n"));
        assert!(began.elapsed() < Duration::from_secs(250), "it was to take 300 s");
        assert_eq!(agent.handle(&Request::get("/debug/pprof/profile?seconds=1")).status, 503);
    });
}

#[test]
fn a_token_is_required_where_one_is_set() {
    let agent = start(Config { token: Some("secret".into()), ..Config::default() }).unwrap();
    let with = |authorization| agent.handle(&Request { authorization, ..Request::get("/debug/pprof/") }).status;
    assert_eq!(
        [with(None), with(Some("Bearer wrong")), with(Some("secret")), with(Some("bearer secret"))],
        [401, 401, 401, 200]
    );
    assert!(start(Config { token: Some(String::new()), ..Config::default() }).is_err());
    for endpoint in ENDPOINTS {
        for method in [Method::Get, Method::Head, Method::Post, Method::Other] {
            let refused = agent.handle(&Request { method, ..Request::get(endpoint.path) });
            assert_eq!(refused.status, 401, "{} {}", method.name(), endpoint.path);
            assert_eq!(refused.headers, [("WWW-Authenticate", "Bearer".to_owned())]);
        }
    }
    let enable = |authorization| {
        agent.handle(&Request { authorization, ..Request::post("/debug/pprof/heap/enable?for=30m", &[]) })
    };
    assert_eq!(enable(None).status, 401);
    assert_eq!(enable(Some("Bearer secret")).status, 200);
}
