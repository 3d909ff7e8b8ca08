//! What the agent publishes for readers outside.

use procprof_agent::{Config, start};
use procprof_process::{Pid, Process};

use crate::isolated::isolated;

#[test]
fn a_service_name_is_published_until_the_agent_ends() {
    isolated("context::a_service_name_is_published_until_the_agent_ends", published_until_the_end);
}

fn published_until_the_end() {
    let context = || Process::current().unwrap().context().unwrap();
    let agent = start(Config { service_name: Some("cart".to_owned()), ..Config::default() }).unwrap();
    let published = context().unwrap();
    assert_eq!((published.attributes["service.name"].as_str(), published.left_out), ("cart", 0));
    // There is one alone, and a process that is forked has none.
    let other = start(Config { service_name: Some("other".to_owned()), ..Config::default() }).unwrap();
    assert_eq!(context().as_ref(), Some(&published));
    other.stop();
    // SAFETY: the child only waits for a signal.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: the child waits for a signal, which comes also if the parent fails.
        unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
        loop {
            // SAFETY: it waits.
            unsafe { libc::pause() };
        }
    }
    let of_child = Process::open(Pid(child.unsigned_abs())).unwrap().context().unwrap();
    // SAFETY: the child is this test's own.
    unsafe {
        libc::kill(child, libc::SIGKILL);
        libc::waitpid(child, std::ptr::null_mut(), 0);
    }
    assert_eq!(of_child, None);
    agent.stop();
    assert_eq!(context(), None);
}
