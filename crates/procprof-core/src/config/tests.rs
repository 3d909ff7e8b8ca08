//! The key tables, the parser and the reference page.

use std::path::Path;

use procprof_profile::ProfileType;

use super::nearest::nearest;
use super::starrocks::apply;
use super::{Auth, ConfFile, Config, KEYS, NODE_KEYS, PidLookup, config_reference};
use crate::config::{Kind, Role};

#[test]
fn every_default_is_a_value_its_key_takes() {
    for key in KEYS {
        let mut config = Config::default();
        assert_eq!(key.set_text(&mut config, key.default), Ok(()), "{}", key.name);
    }
    assert!(Config::parse("", "empty").unwrap() == Config::defaults());
    assert_eq!(Config::defaults().proc_profile_file_retained_size_bytes, 2 << 30);
}

#[test]
fn keys_are_given_once_in_the_tables() {
    let mut names: Vec<&str> = KEYS.iter().map(|key| key.name).collect();
    names.sort_unstable();
    assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "{names:?}");
    let mut names: Vec<&str> = NODE_KEYS.iter().map(|key| key.name).collect();
    names.sort_unstable();
    assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "{names:?}");
}

#[test]
fn errors_name_the_line_the_key_and_the_nearest_one() {
    let check = |text: &str, wanted: &str| {
        let error = Config::parse(text, "f.toml").unwrap_err().to_string();
        assert!(error.starts_with(wanted), "{text:?}: {error}");
    };
    check("\nhtpp = \"a:1\"", "f.toml:2: unknown key \"htpp\"; the nearest known key is \"http\"");
    check("zzzzzzzzzzzz = 1", "f.toml:1: unknown key \"zzzzzzzzzzzz\"");
    check("x = = 1", "f.toml:1: ");
    check(
        "proc_profile_file_retained_days = -1",
        "f.toml:1: proc_profile_file_retained_days: expected a whole number from 0 to 36500",
    );
    check("data_bytes_max = \"2 GB\"", "f.toml:1: data_bytes_max: expected bytes");
    check("http = 8030", "f.toml:1: http: expected text in quotes, got a number");
    check("symbolize = \"maybe\"", "f.toml:1: symbolize: expected true or false");
    check(
        "[[node]]\nname = \"a\"\nhttp = \"h:1\"\nkindd = \"go\"",
        "f.toml:4: unknown key \"kindd\"; the nearest known key is \"kind\"",
    );
    check(
        "[[node]]\nhttp = \"h:1\"\nkind = \"goo\"",
        "f.toml:3: kind: \"goo\" is no kind; expected starrocks-be, databend, go",
    );
    check("[[node]]\nname = \"a\"", "f.toml:2: name: the node has no address");
    check("[[node]]\nhttp = \"ftp://h\"", "f.toml:2: http: expected host:port");
    check("[[node]]\nhttp = \"h:1\"\nschedule.cpu = { often = 1 }", "f.toml:3: schedule: unknown key \"often\"");
    check(
        "[[node]]\nhttp = \"h:1\"\nauth = { basic = \"u\" }",
        "f.toml:3: auth: give basic with password_file, or bearer_file",
    );
    check("[[node]]\nbrpc = \"h:1\"", "f.toml:2: brpc: a node of kind pprof needs http, or urls by profile type");
    check(
        "[[node]]\nhttp = \"h:1\"\n[[node]]\nhttp = \"h:1\"",
        "f.toml:4: node: its name \"service h:1\" is that of the node at f.toml:2",
    );
    check(
        "[[node]]\nname = \"procprof\"\nhttp = \"h:1\"",
        "f.toml:2: node: its name \"procprof\" is that of the server itself",
    );
    let twins = "[[node]]\nhttp = \"h:1\"\nid = 1000\n[[node]]\nhttp = \"h:2\"\nid = 1000";
    check(twins, "f.toml:5: node: its id 1000 is that of the node at f.toml:2");
    check("node = 1", "f.toml:1: node: expected [[node]] tables");
    check("[node]\nname = \"a\"", "f.toml:1: node: expected [[node]] tables");
    check("[fe_query]\naddress = \"fe:9030\"", "f.toml:1: fe_query: expected [[fe_query]] tables");
    let twins = "[[node]]\nname = \"a\"\nhttp = \"h:1\"\n[[node]]\nname = \"b\"\nhttp = \"h:1\"";
    assert_eq!(
        Config::parse(twins, "f.toml").unwrap().warnings,
        ["f.toml:5: h:1 is the address of the node at f.toml:2, too: its profiles are collected twice"]
    );
    check("archive = \"s3:/bucket\"", "f.toml:1: archive: ");
    check("data = \"s3://bucket\"", "f.toml:1: data: \"s3://bucket\" is a URL; expected a path");
}

#[test]
fn an_address_is_one_to_dial() {
    let check = |kind: &str, http: &str, wanted: &str| {
        let text = format!("[[node]]\nname = \"a\"\nkind = \"{kind}\"\nhttp = \"{http}\"");
        let found = Config::parse(&text, "f.toml").map_or_else(|error| error.to_string(), |_| String::new());
        assert_eq!(found, wanted, "{kind}: {http}");
    };
    for http in [
        "h:1",
        "[::1]:6060",
        "http://h",
        "https://h:1/behind/a/proxy/",
        "my_service.example:80",
        "http://größe.example",
    ] {
        check("go", http, "");
    }
    for kind in ["starrocks-be", "starrocks-fe"] {
        check(kind, "be-1", "");
    }
    check("go", "h", "f.toml:4: http: \"h\" has no port: give host:port");
    check(
        "go",
        "${HOST}:6060",
        "f.toml:4: http: \"${host}\" is no host: variables of the environment are not replaced here",
    );
    check(
        "go",
        "h:6060/debug/pprof",
        "f.toml:4: http: a path needs http:// or https:// before its host; whole addresses of profiles belong to urls",
    );
    check(
        "go",
        "http://h:6060/debug/pprof/",
        "f.toml:4: http: the paths of profiles are added to it: give host:port; whole addresses of profiles belong to urls",
    );
}

#[test]
fn errors_say_what_was_probably_meant() {
    let check = |text: &str, wanted: &str| {
        assert_eq!(Config::parse(text, "f.toml").unwrap_err().to_string(), wanted, "{text}");
    };
    check(
        "[[node]]\nname = \"a\"\n\nproc_profile_file_retained_days = 7",
        "f.toml:4: unknown key \"proc_profile_file_retained_days\"; it is a key of the top level and belongs above the \
         first [[node]]",
    );
    check(
        "[[node]]\nkind = \"jvm\"\npid = 4242",
        "f.toml:3: unknown key \"pid\"; pid_lookup finds a process by its id",
    );
    check("[[fe_query]]\nhost = \"fe\"", "f.toml:2: unknown key \"host\"");
    let unquoted = Config::parse("http = 127.0.0.1:18030 # local", "f.toml").unwrap_err().to_string();
    assert!(unquoted.ends_with("; text needs quotes: http = \"127.0.0.1:18030\""), "{unquoted}");
    let other = Config::parse("http = = \"a\"", "f.toml").unwrap_err().to_string();
    assert!(!other.contains("quotes:"), "{other}");
}

#[test]
fn files_that_are_read_at_each_connection_can_be_read() {
    let folder = tempfile::tempdir().unwrap();
    let (there, missing) = (folder.path().join("there"), folder.path().join("missing"));
    std::fs::write(&there, "x").unwrap();
    let node = |key: &str, path: &Path| format!("[[node]]\nname = \"a\"\nhttp = \"h:1\"\n{key}{path:?} }}\n");
    let fe = |key: &str, path: &Path| format!("[[fe_query]]\naddress = \"fe\"\n{key}{path:?}\n");
    let top = |key: &str, path: &Path| format!("{key}{path:?}\n");
    type Table<'a> = &'a dyn Fn(&str, &Path) -> String;
    let cases: [(Table<'_>, &str, &str); 7] = [
        (&node, "auth = { basic = \"u\", password_file = ", "f.toml:2: auth.password_file: "),
        (&node, "auth = { bearer_file = ", "f.toml:2: auth.bearer_file: "),
        (&node, "tls = { ca_file = ", "f.toml:2: tls.ca_file: "),
        (&fe, "password_file = ", "f.toml:2: password_file: "),
        (&fe, "node.binary = \"b\"\npassword_file = ", "f.toml:2: password_file: "),
        (&top, "servers_token_file = ", "configuration: servers_token_file: "),
        (&top, "servers_ca_file = ", "configuration: servers_ca_file: "),
    ];
    for (table, key, start) in cases {
        let check = |path: &Path| Config::parse(&table(key, path), "f.toml").unwrap().check();
        check(&there).unwrap_or_else(|error| panic!("{key}: {error}"));
        let error = check(&missing).unwrap_err().to_string();
        assert!(error.starts_with(start) && error.contains("missing: No such file"), "{error}");
    }
}

#[test]
fn a_missing_file_is_reported_once() {
    let error = with_causes(&Config::read(Path::new("/nowhere/procprof.toml")).unwrap_err());
    assert_eq!(error, "configuration /nowhere/procprof.toml: No such file or directory (os error 2)");
}

/// An error with all its causes, as a command prints it.
fn with_causes(error: &dyn std::error::Error) -> String {
    crate::error::chain(error)
}

#[test]
fn a_node_table_is_read_whole() {
    let config = Config::parse(
        r#"
        [[node]]
        name = "be-1"
        id = 10001
        kind = "starrocks-be"
        http = "https://be1:8443"
        brpc = "be1:8060"
        cluster = "blue"
        labels = { zone = "eu-1" }
        auth = { basic = "ann", password_file = "/run/secret" }
        headers = { "X-Tenant" = "7" }
        tls = { ca_file = "/etc/ca.pem" }
        schedule.cpu = { seconds = 5 }
        schedule.contention = { on = true, every = 30 }
        binary = "/opt/be"
        remote_symbols = true
        pid_lookup = 42
        "#,
        "f",
    )
    .unwrap();
    let node = &config.nodes[0];
    assert_eq!(
        (node.role, node.kind, node.id, node.address().as_str()),
        (Role::Be, Kind::STARROCKS_BE, Some(10_001), "be1:8443")
    );
    assert_eq!(node.auth, Auth::Basic { user: "ann".into(), password_file: "/run/secret".into() });
    assert_eq!(node.schedule[&ProfileType::Contention].every, Some(30));
    assert_eq!((node.pid_lookup.clone(), node.remote_symbols, node.tls.insecure), (PidLookup::Pid(42), true, false));
    let plan = crate::config::plan(node, &config);
    let of = |kind: ProfileType| {
        plan.iter().find(|row| row.profile_type == kind).map(|row| (row.on, row.seconds, row.every))
    };
    assert_eq!(of(ProfileType::Cpu), Some((true, 5, 60)));
    assert_eq!(of(ProfileType::Contention), Some((true, 10, 30)));
    assert_eq!(of(ProfileType::Heap), Some((false, 0, 60)));
}

#[test]
fn a_schedule_names_types_the_node_gives_with_lengths_they_have() {
    let parse = |kind: &str, rows: &str| {
        let text = format!("[[node]]\nname = \"n\"\nkind = \"{kind}\"\nhttp = \"h:1\"\n{rows}");
        Config::parse(&text, "f.toml").and_then(|config| config.check().map(|()| config))
    };
    let check = |kind: &str, rows: &str, wanted: &str| {
        assert_eq!(parse(kind, rows).unwrap_err().to_string(), wanted, "{kind}: {rows}")
    };
    check(
        "starrocks-be",
        "schedule.cpu = { on = true }\nschedule.cpuu = { on = true }",
        "f.toml:6: schedule.cpuu: the node gives no such profiles; it gives cpu, contention, heap; the nearest is \"cpu\"",
    );
    check(
        "starrocks-be",
        "schedule.goroutine = { on = true }",
        "f.toml:5: schedule.goroutine: the node gives no such profiles; it gives cpu, contention, heap",
    );
    check(
        "pprof",
        "schedule.wall = {}",
        "f.toml:5: schedule.wall: the node gives no such profiles; it gives cpu, heap",
    );
    check(
        "go",
        "schedule.goroutine = { seconds = 1 }",
        "f.toml:5: schedule.goroutine: is taken at a moment, so it takes no seconds",
    );
    check(
        "go",
        "schedule.cpu = { seconds = 0 }",
        "f.toml:5: schedule.cpu: seconds: expected a whole number from 1 to 3600",
    );
    check(
        "go",
        "schedule.cpu = { seconds = 301 }",
        "f.toml:5: schedule.cpu: 301 seconds pass capture_seconds_max (300)",
    );
    check(
        "go",
        "schedule.cpu = { seconds = 60, every = 10 }",
        "f.toml:5: schedule.cpu: 60 seconds do not fit every 10",
    );
    check("go", "schedule.cpu = { every = 5 }", "f.toml:5: schedule.cpu: 10 seconds do not fit every 5");
    check(
        "go",
        "schedule.block = {}\nschedule.contention = {}",
        "f.toml:5: schedule.block: is the same as schedule.contention",
    );
    let config = parse("go", "schedule.allocs = { seconds = 5 }\nschedule.block = { on = true }").unwrap();
    let plan = crate::config::plan(&config.nodes[0], &config);
    let on = |kind: ProfileType| plan.iter().find(|row| row.profile_type == kind).map(|row| (row.on, row.seconds));
    assert_eq!(
        (on(ProfileType::Alloc), on(ProfileType::Contention), on(ProfileType::Mutex)),
        (Some((true, 5)), Some((true, 10)), Some((false, 10)))
    );
}

#[test]
fn a_kind_brings_keys_of_its_own() {
    let parse = |rows: &str| Config::parse(&format!("[[node]]\nkind = \"fake\"\n{rows}"), "f.toml");
    let node = parse("value = 7\nleaf = \"sleep\"").unwrap().nodes.remove(0);
    assert_eq!((node.name.as_str(), node.kind.name()), ("service fake sleep", "fake"));
    let check = |rows: &str, wanted: &str| assert_eq!(parse(rows).unwrap_err().to_string(), wanted, "{rows}");
    check("", "f.toml:2: kind: a fake node needs leaf");
    check("leaf = \"a\"\nvalue = 0", "f.toml:4: value: expected a whole number from 1 to 1000");
    check("leaf = \"a\"\nmood = \"odd\"", "f.toml:4: mood: \"odd\": expected one of calm, wild");
    check("leaf = \"a\"\nbreaks = 1", "f.toml:4: breaks: expected true or false, got a number");
    check("leaf = \"a\"\nvalues = 1", "f.toml:4: unknown key \"values\"; the nearest known key is \"value\"");
    check("leaf = \"a\"\nbrpc = \"h:1\"", "f.toml:4: brpc: a node of kind fake is not reached over HTTP");
    let of_another = Config::parse("[[node]]\nhttp = \"h:1\"\nleaf = \"a\"", "f.toml").unwrap_err().to_string();
    assert!(of_another.starts_with("f.toml:3: unknown key \"leaf\""), "{of_another}");
    let mut page = String::new();
    super::reference::kinds(&mut page, &[Kind::THIS_SERVER, node.kind]);
    for row in [
        "| `fake` | nothing, for tests | cpu at a moment every 60 s; alloc at a moment every 60 s | wall 10 s every 60 s |  |",
        "| `fake` | `value` | 1 to 1000 | `10` | The value of its samples. |",
        "| `fake` | `mood` | `calm`, `wild` | `calm` | How it is. |",
    ] {
        assert!(page.contains(row), "{row}: {page}");
    }
}

#[test]
fn a_node_of_no_kind_is_queried_at_the_usual_paths() {
    let config =
        Config::parse("[[node]]\nhttp = \"h:1\"\n[[node]]\nname = \"u\"\nurls = { wall = \"h:1/w\" }", "f").unwrap();
    let planned = |node: usize| -> Vec<(String, bool)> {
        let plan = crate::config::plan(&config.nodes[node], &config);
        plan.iter().map(|row| (row.profile_type.to_string(), row.on)).collect()
    };
    assert_eq!(planned(0), [("cpu".to_owned(), true), ("heap".to_owned(), false)]);
    assert_eq!(planned(1), [("wall".to_owned(), true)], "the URLs are all there is");
}

#[test]
fn starrocks_files_are_read_for_the_keys_marked_so() {
    let variable = |name: &str| (name == "STARROCKS_HOME").then(|| "/opt/sr".to_owned());
    let mut config = Config::defaults();
    let text = "# proc_profile_cpu_enable = true\nsys_log_dir = ${STARROCKS_HOME}/log  # logs\nbrpc_port=9060\n\nhttp_port = 8041\n\
                COLLECT_BE_PROFILE_INTERVAL = 30\nproc_profile_cpu_enable = false\nflamegraph_tool_dir = /x\nflamegraph_tool_dir = /y\n\
                priority_networks = 10.0.0.0/8\nusers_file = /etc/passwd\nJAVA_OPTS=\"-Xmx${NOPE}\"\n";
    apply(&mut config, text, "be.conf", ConfFile::Be, variable).unwrap();
    assert_eq!(config.sys_log_dir.as_deref(), Some(Path::new("/opt/sr/log")));
    assert_eq!((config.brpc_port, config.http_port, config.be_profile_interval), (9060, 8041, 30));
    assert!(!config.proc_profile_cpu_enable && config.users_file.is_none());
    assert_eq!(config.warnings.len(), 1, "{:?}", config.warnings);
    apply(&mut config, "http_port = 8030\n", "fe.conf", ConfFile::Fe, variable).unwrap();
    assert_eq!(config.http_port, 8041, "the frontend's own port is not the backends'");
    let wrong =
        |text: &str| apply(&mut Config::defaults(), text, "be.conf", ConfFile::Be, variable).unwrap_err().to_string();
    assert_eq!(wrong("\nsys_log_dir = ${LOGS}/x"), "be.conf:2: sys_log_dir: variable LOGS is not set");
    assert_eq!(wrong("brpc_port = many"), "be.conf:1: brpc_port: expected a whole number from 1 to 65535");
}

#[test]
fn keys_of_jvms_are_read_from_fe_conf() {
    let mut config = Config::parse("proc_profile_jstack_depth = 64", "f").unwrap();
    config.set("proc_profile_jstack_depth", "32").unwrap();
    apply(
        &mut config,
        "proc_profile_jstack_depth = 16\nproc_profile_collect_time_s = 60\n",
        "fe.conf",
        ConfFile::Fe,
        |_| None,
    )
    .unwrap();
    assert_eq!((config.proc_profile_collect_time_s, config.warnings.is_empty()), (60, true));
    let error = config.set("proc_profile_collect_time_s", "0").unwrap_err().to_string();
    assert_eq!(error, "command line: proc_profile_collect_time_s: expected a whole number from 1 to 3600");
    assert!(Config::defaults().warnings.is_empty());
}

#[test]
fn the_nearest_name_is_near() {
    let known = || ["cluster", "data", "http"].into_iter();
    assert_eq!(nearest("clutser", known()).as_deref(), Some("cluster"));
    assert_eq!(nearest("data_", known()).as_deref(), Some("data"));
    assert_eq!(nearest("completely", known()), None);
}

#[test]
fn a_certificate_and_its_key_may_come_from_two_sources_but_never_alone() {
    let mut config = Config::parse("tls_cert = \"a\"", "f").unwrap();
    assert_eq!(config.check().unwrap_err().to_string(), "configuration: tls_cert and tls_key: give both or neither");
    config.set("tls_key", "b").unwrap();
    config.check().unwrap();
}

#[test]
fn links_have_an_address_and_no_second_line() {
    for (link, fits) in [
        ("", true),
        ("https://procprof.example", true),
        ("procprof.example", false),
        ("http://x\n}", false),
        ("http://x y", false),
    ] {
        let mut config = Config::defaults();
        config.sql_link_base = link.to_owned();
        assert_eq!(config.check().is_ok(), fits, "{link:?}");
    }
}

#[test]
fn what_needs_a_restart_is_named() {
    let (old, mut new) = (Config::defaults(), Config::defaults());
    new.set("http", "127.0.0.1:1").unwrap();
    new.set("max_concurrent_captures", "2").unwrap();
    assert_eq!(old.needs_restart(&new), ["http"]);
    assert_eq!(
        new.set("htpp", "x").unwrap_err().to_string(),
        "command line: unknown key \"htpp\"; the nearest known key is \"http\""
    );
}

#[test]
fn the_reference_page_is_the_table() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/config.md");
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        std::fs::write(&path, config_reference()).unwrap();
    }
    let page = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        page == config_reference(),
        "docs/config.md differs from the table of keys; UPDATE_EXPECT=1 cargo test rewrites it"
    );
}
