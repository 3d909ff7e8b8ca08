use super::*;
use crate::address::shown;
use crate::endpoints;

fn target(endpoints: &'static Endpoints) -> Target {
    Target::new(endpoints, "be1:8040".parse().unwrap())
}

#[test]
fn plans_the_urls_of_every_kind() {
    let check = |endpoints: &'static Endpoints, request: Request, wanted: &[&str]| {
        let plan = target(endpoints).plan(&request).unwrap();
        let urls: Vec<String> = plan.urls.iter().map(Url::to_string).collect();
        assert_eq!(urls, wanted);
    };
    let cpu = || Request::new(ProfileType::Cpu);
    let heap = || Request::new(ProfileType::Heap);
    check(&endpoints::STARROCKS_BE, cpu(), &["http://be1:8060/pprof/profile?seconds=10"]);
    check(&endpoints::STARROCKS_BE, cpu().frequency(99), &["http://be1:8060/pprof/profile?seconds=10"]);
    check(&endpoints::STARROCKS_BE, heap(), &["http://be1:8040/pprof/heap", "http://be1:8060/pprof/heap"]);
    check(
        &endpoints::DATABEND,
        cpu().seconds(5).frequency(99),
        &["http://be1:8040/debug/pprof/profile?seconds=5&frequency=99"],
    );
    check(&endpoints::DATABEND, heap().seconds(0), &["http://be1:8040/debug/mem/pprof/profile?seconds=0"]);
    check(&endpoints::PPROF, cpu(), &["http://be1:8040/debug/pprof/profile?seconds=10"]);
    check(&endpoints::PPROF, heap(), &["http://be1:8040/debug/pprof/heap"]);
    check(&endpoints::GO, heap(), &["http://be1:8040/debug/pprof/heap"]);
    check(&endpoints::GO, heap().seconds(3), &["http://be1:8040/debug/pprof/heap?seconds=3"]);
    check(&endpoints::GO, Request::new(ProfileType::Mutex), &["http://be1:8040/debug/pprof/mutex?seconds=10"]);
}

#[test]
fn configured_urls_win_and_keep_their_query() {
    let mut target = target(&endpoints::PPROF);
    let error = target.plan(&Request::new(ProfileType::Wall)).err().unwrap();
    assert_eq!((error.code(), target.profile_types()), ("unsupported", vec![ProfileType::Cpu, ProfileType::Heap]));
    target.urls.insert(ProfileType::Cpu, "https://x/p?token=a&seconds=30".parse().unwrap());
    let plan = target.plan(&Request::new(ProfileType::Cpu).seconds(7)).unwrap();
    assert_eq!(plan.urls[0].as_str(), "https://x/p?token=a&seconds=7");
    assert_eq!(shown(&plan.urls[0]), "https://x/p?token=***&seconds=7");
    assert_eq!(target.profile_types(), [ProfileType::Cpu]);
    assert_eq!(
        target.plan(&Request::new(ProfileType::Heap)).err().unwrap().code(),
        "unsupported",
        "the URLs are all there is"
    );
}

#[test]
fn refuses_windows_the_route_cannot_have() {
    let code = |endpoints: &'static Endpoints, request: Request| {
        target(endpoints).plan(&request).err().map(|error| error.code())
    };
    assert_eq!(code(&endpoints::STARROCKS_BE, Request::new(ProfileType::Cpu).seconds(0)), Some("bad_request"));
    assert_eq!(code(&endpoints::STARROCKS_BE, Request::new(ProfileType::Cpu).seconds(3601)), Some("bad_request"));
    assert_eq!(code(&endpoints::STARROCKS_BE, Request::new(ProfileType::Heap).seconds(1)), Some("bad_request"));
    assert_eq!(code(&endpoints::GO, Request::new(ProfileType::Cpu).frequency(0)), Some("bad_request"));
    assert_eq!(code(&endpoints::STARROCKS_BE, Request::new(ProfileType::Goroutine)), Some("unsupported"));
}

#[test]
fn never_prints_secrets() {
    let mut target = target(&endpoints::GO);
    target.headers.push(Header::new("X-Token", "hunter2").unwrap());
    for auth in
        [Auth::Basic { user: "joe".into(), password: Secret::new("hunter2") }, Auth::Bearer(Secret::new("hunter2"))]
    {
        target.auth = auth;
        assert!(!format!("{target:?} {:?}", target.authorization()).contains("hunter2"));
    }
    target.auth = Auth::Bearer(Secret::new("a\nb"));
    assert_eq!(target.authorization().unwrap_err().code(), "bad_target");
    assert_eq!(Header::new("Host", "x").unwrap_err().code(), "bad_target");
}
