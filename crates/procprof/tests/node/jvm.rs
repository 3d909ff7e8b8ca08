//! JVMs that a rule has recorded by their own means.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;

use super::*;
use crate::jvm::Java;

/// The user nobody.
const NOBODY: u32 = 65534;

#[test]
fn a_jvm_of_another_user_is_recorded_by_its_flight_recorder() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o777)).unwrap();
    let name = format!("work-{}", std::process::id());
    let java = Java::start_with(folder.path(), |command| {
        command.env("OTEL_SERVICE_NAME", &name).uid(NOBODY).gid(NOBODY);
    });
    let server = Server::start();
    let rule = format!(
        "profile_others = false\n[[rule]]\nlabels = {{ \"service.name\" = \"{name}\" }}\nengine = \"jvm\"\n\
         treatment = \"always\"\n"
    );
    let agent = Agent::start(&server, &rule);
    let pid = java.0.id().to_string();
    let of_jvm = |header: &PushedProfile| header.labels.get("pid") == Some(&pid);
    let sent = |state: &State, profile_type: &str| {
        let is_it = |(header, ..): &&(PushedProfile, Vec<u8>, u32)| {
            header.profile_type == profile_type && of_jvm(header) && header.service.is_some()
        };
        state.profiles.values().find(is_it).cloned()
    };
    for (profile_type, function) in [("cpu", "Work.sort"), ("alloc", "Work.allocate"), ("contention", "Work.holdLock")]
    {
        let (header, bytes, _) = server.await_state(profile_type, |state| sent(state, profile_type));
        let profile = decoded(&bytes);
        let names = profile.functions().iter().map(|function| profile.string(function.name));
        assert!(names.into_iter().any(|own| own.contains(function)), "{profile_type}: no {function}");
        assert!(profile.meta().engine.starts_with("JDK Flight Recorder"), "{}", profile.meta().engine);
        assert!(header.labels["service.name"] == name && header.duration_nanos > 1_000_000_000, "{header:?}");
    }
    // Its time is in its own recordings alone.
    let known: Vec<String> = server.state.lock().unwrap().profiles.keys().cloned().collect();
    server.await_state("three more profiles of CPU time", |state| {
        let new = |(id, (header, ..)): &(&String, &(PushedProfile, Vec<u8>, u32))| {
            header.profile_type == "cpu" && of_jvm(header) && !known.contains(id)
        };
        (state.profiles.iter().filter(new).count() >= 3).then_some(())
    });
    let state = server.state.lock().unwrap();
    let begun = state.profiles.values().filter(|(header, ..)| of_jvm(header)).map(|(header, ..)| header.start_nanos);
    let begun = begun.min().unwrap();
    let is_by_perf = |(header, ..): &&(PushedProfile, Vec<u8>, u32)| {
        header.service.is_some() && !of_jvm(header) && header.start_nanos > begun
    };
    assert_eq!(state.profiles.values().filter(is_by_perf).count(), 0);
    let services = &state.heartbeats.last().unwrap().services;
    let types: Vec<&str> = services[0].types.iter().map(|offered| &*offered.profile_type).collect();
    assert_eq!((services.len(), types), (1, vec!["cpu", "off_cpu", "wall", "alloc", "contention"]));
    drop(state);
    agent.stop();
}

/// Until the JVM has compiled methods of its program, which it is asked for as the agent asks.
fn await_compiled(java: &Java) {
    let begun = std::time::Instant::now();
    loop {
        let mut text = String::new();
        let jvm = procprof_collect::jvm::Jvm::open(procprof_process::Pid(java.0.id())).unwrap();
        // Until it has started, it can't be attached to.
        let map = jvm.perf_map(PATIENCE);
        if map.is_ok_and(|mut map| map.read_to_string(&mut text).unwrap() > 0 && text.contains("Work.sort")) {
            return;
        }
        assert!(begun.elapsed() < PATIENCE, "nothing is compiled: {text}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn compiled_methods_have_names_unless_a_rule_has_the_jvm_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let names = ["asked", "left-alone"].map(|name| format!("{name}-{}", std::process::id()));
    let [asked, left_alone] = [&names[0], &names[1]].map(|name| {
        Java::start_with(folder.path(), |command| {
            command.env("OTEL_SERVICE_NAME", name);
        })
    });
    await_compiled(&asked);
    let server = Server::start();
    let rule = |name: &String, more: &str| {
        format!("[[rule]]\nlabels = {{ \"service.name\" = \"{name}\" }}\ntreatment = \"always\"\n{more}")
    };
    let rules = [rule(&names[0], ""), rule(&names[1], "jvm_names = false\n")].concat();
    // A debug build has more memory than an agent may by default, and takes more time: it would sample less.
    let limits = "memory_bytes_max = \"2 GiB\"\ncpu_milli_max = 1000\n";
    let agent = Agent::start(&server, &format!("{limits}profile_others = false\n{rules}"));
    // Names of generated code in the samples of a JVM; both are of one service.
    let generated = |state: &State, java: &Java| {
        let mut all: Vec<Option<String>> = Vec::new();
        for profile in state.profiles.values().map(|(_, bytes, _)| decoded(bytes)) {
            let of_java = profile.samples().zip(pids(&profile)).filter(|(_, pid)| *pid == i64::from(java.0.id()));
            for id in of_java.flat_map(|(sample, _)| sample.stack.to_vec()) {
                let mapping = profile.location(id).mapping.map(|id| profile.string(profile.mapping(id).filename));
                let line = profile.lines(id).first();
                let name = line.map(|line| profile.string(profile.function(line.function).name).to_owned());
                all.extend((mapping == Some("[anon]")).then_some(name));
            }
        }
        all
    };
    server.await_state("names of compiled methods", |state| {
        let is_of_program = |name: &&String| name.contains(" Work.") || name.contains(" java.util.DualPivotQuicksort.");
        generated(state, &asked).iter().flatten().find(is_of_program).map(|_| ())
    });
    let others = server.await_state("generated code of the other", |state| {
        Some(generated(state, &left_alone)).filter(|all| !all.is_empty())
    });
    assert!(others.iter().all(Option::is_none), "{others:?}");
    server.await_state("the reason", |state| {
        let mut hints = state.heartbeats.last()?.services.iter().flat_map(|service| &service.hints);
        hints.find(|hint| hint.contains("jvm_names")).map(|_| ())
    });
    // What it was asked to write goes, too; other tests that record all processes ask meanwhile.
    let map = format!("/tmp/perf-{}.map", asked.0.id());
    server.await_state("the end of the map", |_| (!std::path::Path::new(&map).exists()).then_some(()));
    agent.stop();
}
