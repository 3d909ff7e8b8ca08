//! Who may reach the server, and what they may do.

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
    let output = procprof().args(["serve", "--http", "0.0.0.0:0", "--data"]).arg(data.path()).output().expect("procprof starts");
    assert!(!output.status.success());
    let message = text(&output);
    assert!(message.contains("users_file") && message.contains("tls_cert") && message.contains("--insecure"), "{message}");
}

#[test]
fn a_taken_port_is_told_with_its_holder() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("its address").to_string();
    let data = folder();
    let output = procprof().args(["serve", "--http", &address, "--data"]).arg(data.path()).output().expect("procprof starts");
    assert!(!output.status.success());
    let message = text(&output);
    assert!(message.contains(&std::process::id().to_string()) && message.contains("--http"), "{message}");
}

#[test]
fn two_servers_do_not_share_a_folder() {
    let data = folder();
    let server = Server::start(data.path(), &[]);
    let output = procprof().args(["serve", "--http", "127.0.0.1:0", "--data"]).arg(data.path()).output().expect("procprof starts");
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
fn pause_knows_a_server_that_is_none() {
    let page = crate::nodes::garbage();
    for (server, why) in [(format!("http://127.0.0.1:{page}"), "no procprof server"), (format!("127.0.0.1:{page}"), "expected http://")] {
        let output = procprof().args(["pause", "--server", &server]).output().expect("procprof starts");
        assert!(!output.status.success());
        assert!(text(&output).contains(why), "{}", text(&output));
    }
}
