//! Exposure of the server: the clients that may reach it, and their permissions.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::harness::{Server, curl, folder, procprof, text};

/// Adds a user to a users file.
pub(crate) fn add_user(file: &Path, name: &str, role: &str, password: &str, options: &[&str]) {
    let mut command = procprof();
    command.args(["user", "add", "--role", role, "--file"]).arg(file).args(options).arg(name).stdin(Stdio::piped());
    let mut child = command.spawn().expect("procprof starts");
    child.stdin.take().expect("a pipe").write_all(password.as_bytes()).expect("the password is written");
    assert!(child.wait().expect("it ends").success());
}

#[test]
fn an_address_that_others_reach_needs_users_and_tls() {
    let data = folder();
    let output =
        procprof().args(["serve", "--http", "0.0.0.0:0", "--data"]).arg(data.path()).output().expect("procprof starts");
    assert!(!output.status.success());
    let message = text(&output);
    assert!(
        message.contains("users_file") && message.contains("tls_cert") && message.contains("--insecure"),
        "{message}"
    );
}

#[test]
fn a_taken_port_is_reported_with_its_holder() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("its address").to_string();
    let data = folder();
    let output =
        procprof().args(["serve", "--http", &address, "--data"]).arg(data.path()).output().expect("procprof starts");
    assert!(!output.status.success());
    let message = text(&output);
    assert!(message.contains(&std::process::id().to_string()) && message.contains("--http"), "{message}");
}

#[test]
fn two_servers_do_not_share_a_folder() {
    let data = folder();
    let server = Server::start(data.path(), &[]);
    let output = procprof()
        .args(["serve", "--http", "127.0.0.1:0", "--data"])
        .arg(data.path())
        .output()
        .expect("procprof starts");
    assert!(!output.status.success());
    assert!(text(&output).contains(&server.pid().to_string()), "{}", text(&output));
}

#[test]
fn a_viewer_reads_and_an_operator_acts() {
    let data = folder();
    let users = data.path().join("users");
    add_user(&users, "eve", "viewer", "looks", &[]);
    add_user(&users, "olga", "operator", "acts", &[]);
    let config = data.path().join("procprof.toml");
    std::fs::write(&config, format!("users_file = {:?}\n", users.display().to_string())).expect("a configuration");
    let server = Server::start(&data.path().join("data"), &["--config", &config.display().to_string()]);
    let status = |arguments: &[&str], path: &str| curl(&[arguments, &[&format!("{}{path}", server.base)]].concat()).0;

    assert_eq!(status(&[], "/api/nodes"), 401);
    assert_eq!(status(&["-u", "eve:wrong"], "/api/nodes"), 401);
    assert_eq!(status(&["-u", "eve:looks"], "/api/nodes"), 200);
    assert_eq!(status(&["-u", "eve:looks", "-X", "POST"], "/api/pause"), 403);
    assert_eq!(status(&["-u", "olga:acts", "-X", "POST"], "/api/pause"), 200);

    let password = data.path().join("password");
    std::fs::write(&password, "acts\n").expect("a password file");
    let mut resume = Command::new(env!("CARGO_BIN_EXE_procprof"));
    resume.args(["resume", "--server", &server.base, "--user", "olga", "--password-file"]).arg(&password);
    let output = resume.output().expect("procprof starts");
    assert!(output.status.success(), "{}", text(&output));
    assert!(text(&output).contains("scheduled captures run"), "{}", text(&output));
}

#[test]
fn acts_and_refusals_are_logged_and_no_name_forges_a_line() {
    let data = folder();
    let users = data.path().join("users");
    add_user(&users, "eve", "viewer", "looks", &[]);
    add_user(&users, "olga", "operator", "acts", &[]);
    let arguments = ["--mysql", "127.0.0.1:0", "--set", "self_interval_seconds=3600", "--set"];
    let users = format!("users_file={}", users.display());
    let server = Server::start(&data.path().join("data"), &[&arguments[..], &[users.as_str()]].concat());
    let sql = server.sql_port().to_string();
    let status = |arguments: &[&str], path: &str| curl(&[arguments, &[&format!("{}{path}", server.base)]].concat()).0;
    let logged = |text: &str| server.log_until(text).pop().expect("a line");

    let profile =
        format!("@{}", Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/report/go.cpu.pb.gz").display());
    let operator = ["-u", "olga:acts"];
    let push = [&operator[..], &["--data-binary", &profile]].concat();
    assert_eq!(status(&push, "/api/push?node=1&type=cpu"), 201);
    assert!(logged(" pushed by olga").contains("(cpu of procprof)"));
    let (_, list) = curl(&["-u", "olga:acts", &format!("{}/api/profiles?trigger=push", server.base)]);
    let list: serde_json::Value = serde_json::from_slice(&list).expect("a list");
    let id = list["profiles"][0]["id"].as_str().expect("an id").to_owned();
    for (method, path, status_wanted, line) in [
        ("POST", format!("/api/profiles/{id}/pin"), 204, format!("profile {id} pinned by olga")),
        ("DELETE", format!("/api/profiles/{id}/pin"), 204, format!("profile {id} unpinned by olga")),
        ("DELETE", format!("/api/profiles/{id}"), 204, format!("profile {id} deleted by olga")),
    ] {
        assert_eq!(status(&["-u", "olga:acts", "-X", method], &path), status_wanted);
        logged(&line);
    }
    assert_eq!(status(&["-u", "eve:looks", "-X", "POST"], "/api/pause"), 403);
    assert!(logged("refused 127.0.0.1: POST /api/pause").contains("eve is a viewer"));
    const FORGED: &str = "x\n2026-01-01 INFO forged\u{1b}[31m";
    assert_eq!(status(&["-u", &format!("{FORGED}:wrong")], "/api/nodes"), 401);
    let line = logged("HTTP login");
    assert!(line.contains("refused 127.0.0.1") && line.contains("'x\\n2026-01-01 INFO forged\\u{1b}[31m'"), "{line}");
    let mut login = Command::new("mariadb");
    login.args([
        "--no-defaults",
        "--skip-ssl",
        "--protocol=tcp",
        "-h",
        "127.0.0.1",
        "-P",
        &sql,
        "-pwrong",
        "-e",
        "SELECT 1",
    ]);
    let output = login.arg(format!("--user={FORGED}")).output().expect("this test needs mariadb");
    assert!(!output.status.success());
    let line = logged("SQL login");
    assert!(line.contains("refused 127.0.0.1") && line.contains("'x\\n2026-01-01 INFO forged\\u{1b}[31m'"), "{line}");
}

#[test]
fn it_ends_whatever_clients_do_and_logs_it_last() {
    let data = folder();
    let server = Server::start(data.path(), &["--mysql", "127.0.0.1:0", "--mysql-no-auth", "--demo", "--idle"]);
    let sql = server.sql_port().to_string();
    let address = server.base.strip_prefix("http://").expect("an address").to_owned();
    let half = |text: &str| {
        let mut stream = std::net::TcpStream::connect(&address).expect("it listens");
        stream.write_all(text.as_bytes()).expect("it reads");
        stream
    };
    let _half: Vec<_> = (0..20)
        .map(|number| match number % 3 {
            0 => half("GET /healthz HTTP/1.1\r\nHost: loc"),
            1 => half("POST /api/push?node=1&type=cpu HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\nx"),
            _ => half("GET /debug/pprof/profile?seconds=60 HTTP/1.1\r\nHost: localhost\r\n\r\n"),
        })
        .collect();
    let mut sleeper = Command::new("mariadb");
    sleeper.args([
        "--no-defaults",
        "--skip-ssl",
        "--protocol=tcp",
        "-h",
        "127.0.0.1",
        "-P",
        &sql,
        "-u",
        "ann",
        "-e",
        "SELECT SLEEP(50)",
    ]);
    let mut sleeper = sleeper.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("this test needs mariadb");
    server.wait_for("profiles of the demo", |server| !server.profiles("").is_empty());
    let (status, lines) = server.terminate_with_log();
    assert!(status.success(), "{status}");
    let last = lines.last().expect("a line");
    assert!(last.contains(" stopped") && lines.iter().any(|line| line.ends_with(" stopping")), "{lines:#?}");
    sleeper.wait().expect("it has lost its server");
}

#[test]
fn without_descriptors_idle_connections_make_room_and_one_line_is_logged() {
    let data = folder();
    let server =
        Server::start(data.path(), &["--set", "self_interval_seconds=3600", "--set", "http_header_seconds_max=600"]);
    let address = server.base.strip_prefix("http://").expect("an address").to_owned();
    let open = std::fs::read_dir(format!("/proc/{}/fd", server.pid())).expect("its descriptors").count() as u64;
    let limit = Some(open + 20);
    let pid = rustix::process::Pid::from_raw(server.pid().cast_signed());
    let limits = rustix::process::Rlimit { current: limit, maximum: limit };
    rustix::process::prlimit(pid, rustix::process::Resource::Nofile, limits).expect("a limit");
    let mut idle: Vec<_> =
        (0..60).map(|_| std::net::TcpStream::connect(&address).expect("the kernel takes it")).collect();
    for _ in 0..5 {
        assert_eq!(server.get("/healthz").0, 200);
        idle.push(std::net::TcpStream::connect(&address).expect("the kernel takes it"));
    }
    let (_, lines) = server.terminate_with_log();
    let logged: Vec<_> = lines.iter().filter(|line| line.contains("accept a HTTP connection")).collect();
    assert_eq!(logged.len(), 1, "{lines:#?}");
}

#[test]
fn pause_rejects_a_foreign_server() {
    let page = crate::nodes::garbage();
    for (server, why) in
        [(format!("http://127.0.0.1:{page}"), "no procprof server"), (format!("127.0.0.1:{page}"), "expected http://")]
    {
        let output = procprof().args(["pause", "--server", &server]).output().expect("procprof starts");
        assert!(!output.status.success());
        assert!(text(&output).contains(why), "{}", text(&output));
    }
}
