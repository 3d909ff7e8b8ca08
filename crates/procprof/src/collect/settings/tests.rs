use std::fs;

use clap::Parser;

use super::*;

#[derive(Parser)]
struct Typed {
    #[command(flatten)]
    args: Args,
}

fn settle(words: &str, environment: Environment) -> Result<Settings> {
    let typed = Typed::try_parse_from(["collect"].into_iter().chain(words.split_whitespace()))?;
    Settings::new(&typed.args, &environment)
}

#[test]
fn defaults_without_starrocks() {
    let settings = settle("", Environment::default()).unwrap();
    let here = std::env::current_dir().unwrap();
    assert_eq!(settings.folder, here.join("proc_profile"));
    assert_eq!(settings.pid_file, here.join("collect_be_profile.pid"));
    assert_eq!(
        (settings.interval.as_secs(), settings.max_age.as_secs(), settings.max_bytes),
        (60, 86_400, 2_147_483_648)
    );
    assert_eq!(settings.requests, [Request::new(ProfileType::Cpu).seconds(10)]);
    assert_eq!(settings.target.brpc.unwrap().to_string(), "http://localhost:8060");
}

#[test]
fn the_command_line_wins_over_be_conf_and_that_over_the_environment() {
    let home = tempfile::tempdir().unwrap();
    fs::create_dir(home.path().join("conf")).unwrap();
    let conf = "brpc_port = 8061\nsys_log_dir = ${STARROCKS_HOME}/logs\nCOLLECT_BE_PROFILE_INTERVAL=3600\n";
    fs::write(home.path().join("conf/be.conf"), conf).unwrap();
    let path = home.path().to_str().unwrap();
    let environment = || Environment::from([("STARROCKS_HOME", path), ("COLLECT_BE_PROFILE_INTERVAL", "7")]);
    let told = |words: &str| {
        let settings = settle(words, environment()).unwrap();
        (settings.target.brpc.unwrap().port(), settings.interval.as_secs(), settings.folder, settings.pid_file)
    };
    let pid_file = home.path().join("bin/collect_be_profile.pid");
    assert_eq!(told(""), (8061, 3600, home.path().join("logs/proc_profile"), pid_file.clone()));
    // A port given by hand counts even if it is the default one.
    assert_eq!(told("--brpc-port 8060 --interval 5 --output-dir /x"), (8060, 5, "/x/proc_profile".into(), pid_file));
    fs::write(home.path().join("conf/be.conf"), "brpc_port = many\n").unwrap();
    assert!(settle("", environment()).unwrap_err().to_string().contains("expected 1 to 65535"));
    fs::write(home.path().join("conf/be.conf"), "COLLECT_BE_PROFILE_INTERVAL=0\n").unwrap();
    let settings = settle("", environment()).unwrap();
    assert_eq!((settings.interval.as_secs(), settings.warnings.len()), (60, 1));
}

#[test]
fn urls_contain_their_type() {
    let check = |words: &str, profile_type: ProfileType, seconds: Option<u32>| {
        let settings = settle(words, Environment::default()).unwrap();
        assert_eq!(settings.requests, [Request { seconds, ..Request::new(profile_type) }], "{words}");
    };
    check("--url http://h:6060/debug/pprof/profile", ProfileType::Cpu, Some(10));
    check("--url http://h:6060/debug/pprof/heap", ProfileType::Heap, None);
    check("--url http://h:6060/debug/pprof/mutex --duration 5", ProfileType::Mutex, Some(5));
    check("--url http://h:8080/debug/mem/pprof/profile", ProfileType::Heap, None);
    check("--url h:1/odd --profiling-type contention", ProfileType::Contention, Some(10));
}

#[test]
fn wrong_values_are_refused() {
    for words in [
        "--duration 0",
        "--duration 3601",
        "--duration x",
        "--interval 0",
        "--cleanup-days 0",
        "--cleanup-size -1",
        "--brpc-port 0",
        "--brpc-port 65536",
        "--profiling-type heap",
        "--url ftp://x/",
        "--url http://u:p@x/profile",
        "--url h:1/profile --profiling-type both",
        "--url h:1/heap --duration 5",
        "--be-conf /nonexistent/be.conf",
        "--duration",
        "--unknown",
    ] {
        assert!(settle(words, Environment::default()).is_err(), "{words}");
    }
}

#[test]
fn a_round_longer_than_the_interval_is_reported() {
    let settings =
        settle("--daemon --profiling-type both --duration 10 --interval 15", Environment::default()).unwrap();
    assert_eq!(settings.warnings.len(), 1);
    assert!(settings.warnings[0].contains("20 s"));
}

#[test]
fn the_seconds_of_a_url_hold_unless_a_duration_is_given() {
    let seconds = |words: &str| settle(words, Environment::default()).unwrap().requests[0].seconds;
    assert_eq!(seconds("--url http://h:1/debug/pprof/profile?seconds=3"), Some(3));
    assert_eq!(seconds("--url http://h:1/debug/pprof/profile?seconds=3 --duration 5"), Some(5));
    assert_eq!(seconds("--url http://h:1/debug/pprof/profile"), Some(10));
    assert_eq!(seconds("--url http://h:1/debug/mem/pprof/profile?seconds=0"), None);
    assert!(settle("--url http://h:1/debug/pprof/profile?seconds=x", Environment::default()).is_err());
}
