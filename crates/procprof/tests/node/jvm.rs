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
