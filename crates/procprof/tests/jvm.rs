//! Java processes, recorded by `procprof collect --pid` and by nodes of kind `jvm`.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use crate::collect::replay::repository;
use crate::harness::{PATIENCE, Server, folder, go_tool_pprof, procprof, remove_remains_of_jvm, shared_folder};

/// A JVM that works; killed when dropped.
pub(crate) struct Java(pub(crate) Child);

/// The classes of the program.
static CLASSES: LazyLock<PathBuf> = LazyLock::new(|| {
    let source = repository().join("testdata/formats/Work.java");
    let classes = shared_folder().join("work");
    let compiled = Command::new("javac").arg("-d").arg(&classes).arg(source).status();
    assert!(compiled.is_ok_and(|status| status.success()), "this test needs a JDK");
    classes
});

impl Java {
    fn start(folder: &Path) -> Java {
        Java::start_with(folder, |_| {})
    }

    /// Starts it with what `change` adds to its command.
    pub(crate) fn start_with(folder: &Path, change: impl FnOnce(&mut Command)) -> Java {
        let mut command = Command::new("java");
        command
            .arg("-Xmx64m")
            .arg(format!("-Dfolder={}", folder.display()))
            .arg("-cp")
            .arg(&*CLASSES)
            .args(["Work", "600"]);
        change(&mut command);
        let java = Java(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("this test needs java"));
        java.wait_until_it_is_one();
        java
    }

    /// Before it handles SIGQUIT it is refused as no JVM.
    fn wait_until_it_is_one(&self) {
        let process = procprof_process::Process::open(procprof_process::Pid(self.0.id())).expect("it runs");
        let begun = Instant::now();
        while !process.status().expect("it runs").catches(3) {
            assert!(begun.elapsed() < PATIENCE, "the JVM does not start");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Java {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
        remove_remains_of_jvm(self.0.id());
    }
}

#[test]
fn a_jvm_is_profiled_by_one_command() {
    let folder = folder();
    let java = Java::start(folder.path());
    let output = procprof()
        .args(["collect", "--duration", "2", "--pid", &java.0.id().to_string(), "--output-dir"])
        .arg(folder.path())
        .output();
    let output = output.expect("procprof runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let files = std::fs::read_dir(folder.path().join("proc_profile")).expect("a folder of profiles");
    let mut files: Vec<_> = files.map(|entry| entry.expect("a file").path()).collect();
    files.sort();
    let expected =
        [("contention-profile-", "Type: delay"), ("cpu-profile-", "Type: cpu"), ("mem-profile-", "Type: alloc_space")];
    assert_eq!(files.len(), expected.len(), "{files:?}");
    for (file, (name, shown)) in files.iter().zip(expected) {
        let path = file.display().to_string();
        let top = go_tool_pprof(&["-top", "-cum", &path]);
        assert!(path.contains(name) && top.contains(shown) && top.contains("Work."), "{path}: {top}");
    }
    let own = procprof()
        .args(["collect", "--pid", &std::process::id().to_string(), "--output-dir"])
        .arg(folder.path())
        .output();
    let own = own.expect("procprof runs");
    assert!(
        !own.status.success() && String::from_utf8_lossy(&own.stderr).contains("not a JVM"),
        "{}",
        String::from_utf8_lossy(&own.stderr)
    );
}

#[test]
fn a_jvm_is_a_node_that_is_recorded_without_gaps() {
    let folder = folder();
    let java = Java::start(folder.path());
    let file = folder.path().join("procprof.toml");
    let ours = folder.path().display();
    let text = format!(
        "[[node]]\nname = \"app\"\nkind = \"jvm\"\ncommand_line = \"-Dfolder={ours}\"\nkeep_jfr = true\n\n\
         [[node]]\nname = \"gone\"\nkind = \"jvm\"\npid_lookup = \"{ours}/no.pid\"\n"
    );
    std::fs::write(&file, text).expect("a configuration");
    let arguments = ["--config", &file.display().to_string(), "--set", "proc_profile_collect_time_s=2"];
    let server = Server::start(&folder.path().join("data"), &arguments);
    for profile_type in ["cpu", "alloc", "contention"] {
        let query = format!("node=app&type={profile_type}");
        server.wait_for(&query, |server| server.profiles(&query).len() >= 2);
        let profile = server.profiles(&query)[0].clone();
        assert!(
            profile["engine"].as_str().is_some_and(|engine| engine.starts_with("JDK Flight Recorder")),
            "{profile}"
        );
        assert!(profile["means"].as_str().is_some_and(|means| !means.is_empty()), "{profile}");
    }
    let process = &server.json("/api/nodes/app")["process"];
    let text = |key: &str| process[key].as_str().unwrap_or_default();
    assert_eq!(
        (process["pid"].as_u64(), text("engine")),
        (Some(u64::from(java.0.id())), "JDK Flight Recorder"),
        "{process}"
    );
    assert!(
        text("runtime").starts_with("JDK ")
            && process["limits"][0].as_str().is_some_and(|limit| limit.starts_with("CPU:")),
        "{process}"
    );
    let (_, page) = server.get("/proc_profile?node=app");
    assert!(String::from_utf8_lossy(&page).contains("JDK Flight Recorder"));
    let kept = server.profiles("node=app&type=recording");
    let id = kept[0]["id"].as_str().expect("a recording that was kept");
    let (status, recording) = server.get(&format!("/api/profiles/{id}/download"));
    assert!(status == 200 && recording.starts_with(b"FLR\0") && kept[0]["format"] == "jfr", "{kept:?}");
    let refused = |server: &Server| server.json("/api/nodes/gone")["process"]["limits"][0].as_str().map(str::to_owned);
    server.wait_for("why a node is not recorded", |server| refused(server).is_some_and(|why| why.contains("no.pid")));
    server.wait_for("the next try", |server| !server.json("/api/nodes/gone")["retry_at"].is_null());
    assert!(server.profiles("node=gone").is_empty());
    server.wait_for("an error row of the node that is not there", |server| !server.errors("node=gone").is_empty());
    drop(java);
    server.wait_for("an error row of the JVM that ended", |server| !server.errors("node=app").is_empty());
}
