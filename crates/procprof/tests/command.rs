//! The command beside its reports: users, configuration, help, imports, and its binary's requirements on a host.

use std::io::Write;
use std::path::Path;
use std::process::{Output, Stdio};

use crate::harness::{folder, procprof, text};

fn run(words: &[&str]) -> Output {
    procprof().args(words).output().expect("procprof starts")
}

fn add_user(file: &str, name: &str, more: &[&str]) -> Output {
    let mut command = procprof();
    command
        .args(["user", "add", "--file", file, name])
        .args(more)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().expect("procprof starts");
    child.stdin.take().expect("it is piped").write_all(b"a-long-password\n").expect("it reads the password");
    child.wait_with_output().expect("it ends")
}

#[test]
fn users_are_added_listed_and_removed() {
    let folder = folder();
    let file = folder.path().join("users").display().to_string();
    for (name, more) in [("olga", &["--role", "operator"][..]), ("old", &["--mysql-native"]), ("olg", &[])] {
        assert!(add_user(&file, name, more).status.success());
    }
    let listed = || String::from_utf8_lossy(&run(&["user", "list", "--file", &file]).stdout).into_owned();
    assert_eq!(listed(), "olga\toperator\nold\tviewer\tmysql_native_password\nolg\tviewer\n");
    assert!(run(&["user", "remove", "--file", &file, "olg"]).status.success());
    assert_eq!(listed(), "olga\toperator\nold\tviewer\tmysql_native_password\n");
    let token = folder.path().join("token").display().to_string();
    let agent = |more: &[&str]| run(&[&["user", "add", "--file", &file, "--role", "push", "host-1"], more].concat());
    let printed = agent(&[]);
    let printed = String::from_utf8_lossy(&printed.stdout).into_owned();
    assert!(printed.starts_with("host-1.") && printed.trim_end().len() == 7 + 64, "{printed}");
    assert!(agent(&["--token-file", &token]).status.success());
    let written = std::fs::read_to_string(&token).expect("the token");
    assert!(written.starts_with("host-1.") && written != printed, "{written}");
    assert!(!agent(&["--token-file", &token]).status.success(), "no token is written over");
    assert!(listed().ends_with("host-1\tpush\n"), "{}", listed());
    assert!(!agent(&["--mysql-native"]).status.success());
    let misplaced = run(&["user", "add", "--file", &file, "--token-file", "x", "ann"]);
    assert!(text(&misplaced).contains("--token-file"), "{}", text(&misplaced));
    assert!(run(&["user", "remove", "--file", &file, "host-1"]).status.success());
    let nobody = run(&["user", "remove", "--file", &file, "nobody"]);
    assert!(!nobody.status.success() && text(&nobody).contains("nobody"), "{}", text(&nobody));
    let kept = std::fs::read_to_string(&file).expect("the file");
    assert!(kept.starts_with("# procprof users") && kept.contains("olga:operator:$argon2id$"), "comments stay: {kept}");
    assert!(!run(&["user", "list", "--file", "/nowhere/users"]).status.success());
}

#[test]
fn a_configuration_is_checked_without_a_start() {
    let folder = folder();
    let path = folder.path().join("procprof.toml");
    let check = |toml: &str, more: &[&str]| {
        std::fs::write(&path, toml).expect("a file");
        let output = run(&[&["config", "check"], more, &[path.to_str().expect("UTF-8")]].concat());
        (output.status.success(), text(&output))
    };
    let node = "[[node]]\nname = \"app\"\nkind = \"pprof\"\nhttp = \"127.0.0.1:6060\"\n";
    let (right, printed) = check(node, &[]);
    assert!(right && printed.contains("http://127.0.0.1:8030, 1 node, no users file"), "{printed}");
    for (toml, more, wrong) in [
        ("render_seconds = 5\n", &[][..], "render_seconds"),
        ("users_file = \"/nowhere/users\"\n", &[], "/nowhere/users"),
        ("http = \"0.0.0.0:8030\"\n", &[], "users_file"),
        ("http = \"here\"\n", &[], "expected an address and a port"),
        ("tls_cert = \"/nowhere/cert\"\ntls_key = \"/nowhere/key\"\n", &[], "/nowhere/cert"),
        ("", &["--set", "render_seconds_max=0"], "render_seconds_max"),
    ] {
        let (right, printed) = check(toml, more);
        assert!(!right && printed.contains(wrong), "{toml}: {printed}");
    }
    assert!(check("http = \"0.0.0.0:8030\"\n", &["--insecure"]).0);
    assert!(run(&["config", "check"]).status.success(), "the defaults are right");
}

#[test]
fn shells_complete_it_and_man_shows_it() {
    for shell in ["bash", "zsh", "fish"] {
        let script = run(&["completions", shell]);
        let shown = String::from_utf8_lossy(&script.stdout).into_owned();
        assert!(
            script.status.success() && ["collect", "symbols", "sample_index"].iter().all(|word| shown.contains(word)),
            "{shell}"
        );
    }
    let script = folder();
    let path = script.path().join("procprof.bash");
    std::fs::write(&path, run(&["completions", "bash"]).stdout).expect("a file");
    let checked = std::process::Command::new("bash").arg("-n").arg(&path).status().expect("bash");
    assert!(checked.success());
    let page = run(&["man"]);
    assert!(page.status.success() && text(&page).contains(".TH procprof 1"), "{}", text(&page));
    let pages = script.path().join("man");
    assert!(run(&["man", "--output", &pages.display().to_string()]).status.success());
    for page in ["procprof.1", "procprof-report.1", "procprof-user-add.1"] {
        assert!(pages.join(page).exists(), "{page}");
    }
}

#[test]
fn an_archive_is_taken_over_and_what_is_refused_fails_the_import() {
    let folder = folder();
    let (from, data) = (folder.path().join("proc_profile"), folder.path().join("data"));
    std::fs::create_dir(&from).expect("a folder");
    std::fs::write(from.join("cpu-profile-20251120-120000.html"), "<html>cpu</html>").expect("a file");
    let packed = std::process::Command::new("tar")
        .args(["-czf", "cpu-profile-20251120-120000.html.tar.gz", "--remove-files", "cpu-profile-20251120-120000.html"])
        .current_dir(&from)
        .status()
        .expect("tar");
    assert!(packed.success());
    std::fs::copy(
        from.join("cpu-profile-20251120-120000.html.tar.gz"),
        from.join("cpu-profile-20251120-130000.tar.gz"),
    )
    .expect("a copy");
    std::fs::write(from.join("collect_be_profile.log"), "a log").expect("a file");
    let import = || {
        let output =
            procprof().args(["store", "import", "--data"]).arg(&data).arg(&from).output().expect("procprof starts");
        (output.status.code(), text(&output))
    };
    let (code, printed) = import();
    assert!(code == Some(0) && printed.contains("1 added, 1 already there, 1 refused"), "{printed}");
    std::fs::write(from.join("cpu.tar.gz"), "no archive").expect("a file");
    let (code, printed) = import();
    assert!(code == Some(1) && printed.contains("refused cpu.tar.gz: not a profile's file name"), "{printed}");
}

#[test]
fn an_archive_of_a_flame_graph_becomes_a_profile() {
    let folder = folder();
    let (from, data) = (folder.path().join("proc_profile"), folder.path().join("data"));
    std::fs::create_dir(&from).expect("a folder");
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/formats/async-profiler-html/work-4.5.html");
    std::fs::copy(page, from.join("cpu-profile-20251120-120000.html")).expect("a copy");
    let packed = std::process::Command::new("tar")
        .args(["-czf", "cpu-profile-20251120-120000.html.tar.gz", "--remove-files", "cpu-profile-20251120-120000.html"])
        .current_dir(&from)
        .status()
        .expect("tar");
    assert!(packed.success());
    let output = procprof()
        .args(["store", "import", "--tz", "UTC", "--data"])
        .arg(&data)
        .arg(&from)
        .output()
        .expect("procprof starts");
    assert!(output.status.success() && text(&output).contains("1 added"), "{}", text(&output));
    let folders = std::fs::read_dir(data.join("profiles")).expect("profiles").flatten();
    let stored =
        folders.map(|folder| folder.path().join("cpu-profile-20251120-120000-pprof.gz")).find(|path| path.exists());
    let stored = stored.expect("a profile in pprof's format").display().to_string();
    let report = run(&["report", "-top", &stored]);
    assert!(report.status.success() && text(&report).contains("Work"), "{}", text(&report));
}

/// RHEL 9 and Amazon Linux 2023 have glibc 2.34; a newer one on the building machine must not creep in.
#[test]
fn the_binary_starts_on_hosts_with_glibc_2_34() {
    let binary = Path::new(env!("CARGO_BIN_EXE_procprof"));
    let output = std::process::Command::new("readelf")
        .args(["--version-info", "--wide"])
        .arg(binary)
        .output()
        .expect("readelf (binutils)");
    let needs = String::from_utf8_lossy(&output.stdout).into_owned();
    let minors =
        needs.split("Name: GLIBC_2.").skip(1).filter_map(|rest| rest.split([' ', '.']).next()?.parse::<u32>().ok());
    let newest = minors.max().expect("it needs glibc");
    assert!(newest <= 34, "GLIBC_2.{newest} is needed");
}
