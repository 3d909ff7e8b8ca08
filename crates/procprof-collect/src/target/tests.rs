use super::*;
use crate::address::shown;

fn target(kind: Kind) -> Target {
    Target::new(kind, "be1:8040".parse().unwrap())
}

#[test]
fn plans_the_urls_of_every_kind() {
    let check = |kind: Kind, request: Request, wanted: &[&str]| {
        let plan = target(kind).plan(&request).unwrap();
        let urls: Vec<String> = plan.urls.iter().map(Url::to_string).collect();
        assert_eq!(urls, wanted);
    };
    let cpu = || Request::new(ProfileType::Cpu);
    let heap = || Request::new(ProfileType::Heap);
    check(Kind::StarrocksBe, cpu(), &["http://be1:8060/pprof/profile?seconds=10"]);
    check(Kind::StarrocksBe, cpu().frequency(99), &["http://be1:8060/pprof/profile?seconds=10"]);
    check(Kind::StarrocksBe, heap(), &["http://be1:8040/pprof/heap", "http://be1:8060/pprof/heap"]);
    check(Kind::Databend, cpu().seconds(5).frequency(99), &["http://be1:8040/debug/pprof/profile?seconds=5&frequency=99"]);
    check(Kind::Databend, heap().seconds(0), &["http://be1:8040/debug/mem/pprof/profile?seconds=0"]);
    check(Kind::Pprof, cpu(), &["http://be1:8040/debug/pprof/profile?seconds=10"]);
    check(Kind::Pprof, heap(), &["http://be1:8040/debug/pprof/heap"]);
    check(Kind::Go, heap(), &["http://be1:8040/debug/pprof/heap"]);
    check(Kind::Go, heap().seconds(3), &["http://be1:8040/debug/pprof/heap?seconds=3"]);
    check(Kind::Go, Request::new(ProfileType::Mutex), &["http://be1:8040/debug/pprof/mutex?seconds=10"]);
}

#[test]
fn configured_urls_win_and_keep_their_query() {
    let mut target = target(Kind::Pprof);
    let error = target.plan(&Request::new(ProfileType::Wall)).err().unwrap();
    assert_eq!((error.code(), target.profile_types()), ("unsupported", vec![ProfileType::Cpu, ProfileType::Heap]));
    target.urls.insert(ProfileType::Cpu, "https://x/p?token=a&seconds=30".parse().unwrap());
    let plan = target.plan(&Request::new(ProfileType::Cpu).seconds(7)).unwrap();
    assert_eq!(plan.urls[0].as_str(), "https://x/p?token=a&seconds=7");
    assert_eq!(shown(&plan.urls[0]), "https://x/p?token=***&seconds=7");
    assert_eq!(target.profile_types(), [ProfileType::Cpu]);
    assert_eq!(target.plan(&Request::new(ProfileType::Heap)).err().unwrap().code(), "unsupported", "the URLs are all there is");
}

#[test]
fn refuses_windows_the_route_cannot_have() {
    let code = |kind: Kind, request: Request| target(kind).plan(&request).err().map(|error| error.code());
    assert_eq!(code(Kind::StarrocksBe, Request::new(ProfileType::Cpu).seconds(0)), Some("bad_request"));
    assert_eq!(code(Kind::StarrocksBe, Request::new(ProfileType::Cpu).seconds(3601)), Some("bad_request"));
    assert_eq!(code(Kind::StarrocksBe, Request::new(ProfileType::Heap).seconds(1)), Some("bad_request"));
    assert_eq!(code(Kind::Go, Request::new(ProfileType::Cpu).frequency(0)), Some("bad_request"));
    assert_eq!(code(Kind::StarrocksBe, Request::new(ProfileType::Goroutine)), Some("unsupported"));
}

#[test]
fn never_prints_secrets() {
    let mut target = target(Kind::Go);
    target.headers.push(Header::new("X-Token", "hunter2").unwrap());
    for auth in [Auth::Basic { user: "joe".into(), password: Secret::new("hunter2") }, Auth::Bearer(Secret::new("hunter2"))] {
        target.auth = auth;
        assert!(!format!("{target:?} {:?}", target.authorization()).contains("hunter2"));
    }
    target.auth = Auth::Bearer(Secret::new("a\nb"));
    assert_eq!(target.authorization().unwrap_err().code(), "bad_target");
    assert_eq!(Header::new("Host", "x").unwrap_err().code(), "bad_target");
}
