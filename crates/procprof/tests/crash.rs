//! Stored profiles stay stored: `kill -9`, a full disk, a deleted catalog.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use procprof_profile::format;

use crate::harness::{PATIENCE, Server, SmallDisk, files, folder, go_tool_pprof};

/// Rounds of `kill -9`; `PROCPROF_CRASH_ROUNDS` for more.
fn rounds() -> usize {
    std::env::var("PROCPROF_CRASH_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(6)
}

fn ids(server: &Server) -> BTreeSet<String> {
    server.profiles("").iter().map(|row| row["id"].as_str().expect("an id").to_owned()).collect()
}

fn assert_nothing_half_written(data: &Path) {
    for path in files(&data.join("profiles")) {
        assert!(path.to_string_lossy().ends_with("-pprof.gz"), "{} is left over", path.display());
    }
}

#[test]
fn killed_at_any_moment_it_loses_nothing_stored() {
    let (target_data, folder) = (folder(), folder());
    let target = Server::start(target_data.path(), &["--set", "archive="]);
    let config = folder.path().join("procprof.toml");
    let node = |number: usize| {
        format!(
            "[[node]]\nname = \"t{number}\"\nkind = \"pprof\"\nhttp = \"{}\"\n\
             schedule.cpu = {{ on = true, seconds = 1, every = 2 }}\nschedule.heap = {{ on = true, every = 1 }}\n",
            target.base
        )
    };
    std::fs::write(&config, (0..4).map(node).collect::<String>()).expect("write the configuration");
    let (data, config) = (folder.path().join("data"), config.display().to_string());
    let profiles = data.join("profiles");
    let mut known = BTreeSet::new();
    for round in 0..rounds() {
        let server = Server::start(&data, &["--config", &config, "--set", "self_interval_seconds=1"]);
        let listed = ids(&server);
        assert!(known.is_subset(&listed), "lost: {:?}", known.difference(&listed).collect::<Vec<_>>());
        assert_nothing_half_written(&data);
        // Files come and go all the time: so many changes later, another number each time.
        wait_for_changes(&profiles, round * round);
        if round % 2 == 0 {
            known = ids(&server);
        }
        server.kill();
    }
    let server = Server::start(&data, &[]);
    assert!(known.is_subset(&ids(&server)));
    assert!(!known.is_empty(), "nothing was stored");
    let stored = files(&profiles);
    for path in &stored {
        let bytes = std::fs::read(path).expect("a profile");
        format::decode(&bytes, &format::Limits::default())
            .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    }
    for path in stored.iter().rev().take(3) {
        go_tool_pprof(&["-raw", &path.display().to_string()]);
    }
}

/// Waits until the files of a folder have changed so many times; looks again and again, since some are there for a
/// moment only.
fn wait_for_changes(folder: &Path, changes: usize) {
    let (begun, mut before) = (Instant::now(), BTreeSet::from_iter(files(folder)));
    for number in 0..changes {
        let mut after: BTreeSet<PathBuf> = before.clone();
        while after == before {
            assert!(begun.elapsed() < PATIENCE, "{number} changes in {}", folder.display());
            std::thread::sleep(Duration::from_millis(1));
            after = files(folder).into_iter().collect();
        }
        before = after;
    }
}

#[test]
fn the_catalog_is_made_again_from_files_and_journal() {
    let data = folder();
    let dead = "[[node]]\nname = \"dead\"\nkind = \"go\"\nhttp = \"127.0.0.1:1\"\n";
    let config = data.path().join("procprof.toml");
    std::fs::write(&config, dead).expect("a configuration");
    let data = data.path().join("data");
    let arguments = ["--config", &config.display().to_string(), "--set", "self_interval_seconds=1"];
    let server = Server::start(&data, &arguments);
    server.wait_for("three profiles", |server| server.profiles("").len() >= 3);
    server.wait_for("an error row of the dead node", |server| !server.errors("node=dead").is_empty());
    let pinned = server.profiles("")[0]["id"].as_str().expect("an id").to_owned();
    let (status, body) = crate::harness::curl(&["-X", "POST", &format!("{}/api/profiles/{pinned}/pin", server.base)]);
    assert!(status < 300, "{status}: {}", String::from_utf8_lossy(&body));
    assert!(server.terminate().success());

    let stopped = ["--set", "proc_profile_cpu_enable=false", "--set", "proc_profile_mem_enable=false"];
    let server = Server::start(&data, &stopped);
    let (before, errors) = (rows(&server), server.errors(""));
    assert!(server.terminate().success());
    for path in files(&data).into_iter().filter(|path| path.to_string_lossy().contains("catalog.sqlite")) {
        std::fs::remove_file(path).expect("the catalog is deleted");
    }
    let server = Server::start(&data, &stopped);
    assert_eq!(rows(&server), before);
    assert_eq!(server.errors(""), errors);
    assert!(server.profiles("").iter().any(|row| row["id"] == pinned.as_str() && row["pinned"] == true));
}

/// The list, without the server's own address, which is in the commands it shows.
fn rows(server: &Server) -> Vec<String> {
    server.profiles("").iter().map(|row| row.to_string().replace(&server.base, "")).collect()
}

#[test]
fn a_full_disk_is_an_error_row_and_the_server_lives() {
    let disk = SmallDisk::new("3m");
    let data = disk.path().join("data");
    let server = Server::start(&data, &["--set", "self_interval_seconds=1", "--set", "data_free_bytes_min=0"]);
    server.wait_for("a profile", |server| !server.profiles("node=1&type=cpu").is_empty());
    let filler = disk.fill();
    server.wait_for("the error row", |server| {
        server
            .errors("")
            .iter()
            .any(|row| row["message"].as_str().is_some_and(|message| message.contains("no space left")))
    });
    let known = ids(&server);
    std::fs::remove_file(&filler).expect("the filler is deleted");
    server.wait_for("profiles after the disk has room again", |server| ids(server).difference(&known).count() > 0);
    assert_nothing_half_written(&data);
}
