//! The properties of this process.

use std::sync::mpsc;
use std::time::{Duration, SystemTime};

use procprof_process::{CommandLine, NamespaceKind, Pid, Process};
use procprof_profile::Addr;

fn current() -> Process {
    Process::current().unwrap()
}

#[test]
fn maps_hold_our_own_code() {
    let here = Addr(maps_hold_our_own_code as *const () as u64);
    let maps = current().maps().unwrap();
    let range = maps.iter().find(|range| range.contains(here)).unwrap();
    assert!(range.is_file_code());
    assert_eq!(*range.path, *std::env::current_exe().unwrap());
    assert!(range.offset_of(here).is_some());
    assert!(maps.windows(2).all(|pair| pair[0].limit <= pair[1].start));
}

#[test]
fn identity_contains_the_start_time() {
    let process = current();
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    let started = Duration::from_nanos(process.identity().start_time.0 as u64);
    assert!(started < now + Duration::from_secs(2), "{started:?} {now:?}");
    assert!(now < started + Duration::from_secs(3600), "{started:?} {now:?}");
    process.check_same().unwrap();
}

#[test]
fn command_line_and_executable_are_ours() {
    let arguments: Vec<String> = std::env::args().collect();
    assert_eq!(current().command_line().unwrap(), CommandLine { arguments, is_cut: false });
    let executable = current().executable().unwrap();
    assert_eq!(executable.path, std::env::current_exe().unwrap());
    assert!(!executable.deleted);
}

#[test]
fn threads_have_names_and_cpu_time() {
    let (stop, stopped) = mpsc::channel::<()>();
    let (started, start) = mpsc::channel();
    let busy = move || {
        let before = current().usage().unwrap().cpu_time;
        let mut number = 0u64;
        while current().usage().unwrap().cpu_time < before + Duration::from_millis(50) {
            number = std::hint::black_box(number + 1);
        }
        started.send(()).unwrap();
        let _ = stopped.recv();
    };
    let thread = std::thread::Builder::new().name("busy (1) bee".into()).spawn(busy).unwrap();
    start.recv().unwrap();
    let threads = current().threads().unwrap();
    let busy = threads.iter().find(|thread| thread.name == "busy (1) bee").unwrap();
    assert!(busy.cpu_time >= Duration::from_millis(10), "{busy:?}");
    assert_ne!(busy.tid.0, Pid::current().0);
    assert!(threads.iter().any(|thread| thread.tid.0 == Pid::current().0));
    drop(stop);
    thread.join().unwrap();
}

#[test]
fn namespaces_are_those_of_our_parent() {
    let own = current().namespaces().unwrap();
    let parent = Pid(std::os::unix::process::parent_id());
    let parent = Process::open(parent).unwrap().namespaces().unwrap();
    for kind in [NamespaceKind::Mount, NamespaceKind::Pid, NamespaceKind::Network] {
        assert!(own.inode(kind).is_some());
        assert!(own.share(&parent, kind), "{}", kind.name());
    }
}

#[test]
fn status_and_usage_are_plausible() {
    let status = current().status().unwrap();
    assert_eq!(status.uid, rustix::process::geteuid().as_raw());
    assert_eq!(status.namespace_pids.first(), Some(&Pid::current()));
    let usage = current().usage().unwrap();
    assert!(usage.resident_bytes > 100 << 10 && usage.threads >= 1, "{usage:?}");
}

#[test]
fn cgroups_can_be_read() {
    current().cgroups().unwrap();
    current().container().unwrap();
}
