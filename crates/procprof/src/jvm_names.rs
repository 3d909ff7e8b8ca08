//! Names of the methods that JVMs have compiled, for profiles that are taken of them from outside.

use std::collections::HashMap;
use std::fs::File;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use procprof_collect::jvm::{FoundJvm, Jvm};
use procprof_host::PerfMaps;
use procprof_process::{Identity, Pid, Process};

/// Shortest time between two requests to a JVM, and between two where the former failed.
const INTERVAL: Duration = Duration::from_secs(60);
const INTERVAL_FAILED: Duration = Duration::from_secs(300);
/// Longest time for a connection to a JVM, and for its answer.
const TIMEOUT: Duration = Duration::from_secs(3);
/// Time after which no further JVM is asked at once, and no further one of a user.
const LONGEST: Duration = Duration::from_secs(10);
const LONGEST_OF_USER: Duration = Duration::from_millis(2500);
/// Most JVMs that are asked at once, and most of one user.
const JVMS_MAX: usize = 50;
const JVMS_OF_USER_MAX: usize = 37;

/// The perf maps that JVMs have written.
#[derive(Debug, Default)]
pub(crate) struct JvmNames {
    /// Held while JVMs are asked, so that two recordings do not ask one at a time.
    turn: Mutex<()>,
    asked: Mutex<HashMap<u32, NameRequest>>,
}

/// A JVM that was asked for its names.
#[derive(Debug)]
struct NameRequest {
    identity: Identity,
    service: String,
    at: SystemTime,
    /// The map, or why there is none.
    map: Result<Arc<File>, String>,
}

impl NameRequest {
    /// Whether it is too early to ask once more.
    fn is_recent(&self, now: SystemTime) -> bool {
        let interval = if self.map.is_ok() { INTERVAL } else { INTERVAL_FAILED };
        // If the clock was set back, it is not known.
        now.duration_since(self.at).is_ok_and(|elapsed| elapsed < interval)
    }
}

impl JvmNames {
    /// Has those of the processes that are JVMs write the names of their compiled methods; the maps of those that have.
    /// `now` is the end of what was recorded. One that was asked less than a minute before is not asked again, nor one
    /// that gave no names less than five minutes before.
    pub(crate) fn ask(&self, processes: impl IntoIterator<Item = (u32, String)>, now: SystemTime) -> PerfMaps {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        self.asked().retain(|_, asked| is_running(asked.identity));
        let begun = Instant::now();
        let (mut maps, mut requests) = (PerfMaps::new(), 0);
        let mut of_users: HashMap<u32, (usize, Duration)> = HashMap::new();
        for (pid, service) in processes {
            let is_known = self.asked().get(&pid).is_some_and(|asked| asked.is_recent(now));
            if !is_known {
                if requests == JVMS_MAX || begun.elapsed() > LONGEST {
                    continue;
                }
                let Some((jvm, user)) = opened(Pid(pid)) else { continue };
                let (requests_of_user, spent) = of_users.entry(user).or_default();
                if *requests_of_user == JVMS_OF_USER_MAX || *spent >= LONGEST_OF_USER {
                    continue;
                }
                (requests, *requests_of_user) = (requests + 1, *requests_of_user + 1);
                let asking = Instant::now();
                let map = jvm.perf_map(TIMEOUT).map(Arc::new).map_err(|error| error.to_string());
                *spent += asking.elapsed();
                self.asked().insert(pid, NameRequest { identity: jvm.identity(), service, at: now, map });
            }
            if let Some(NameRequest { map: Ok(map), .. }) = self.asked().get(&pid) {
                maps.insert(pid, Arc::clone(map));
            }
        }
        maps
    }

    fn asked(&self) -> MutexGuard<'_, HashMap<u32, NameRequest>> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Why JVMs of a service have no names.
    pub(crate) fn limits(&self, service: &str) -> Vec<String> {
        let asked = self.asked();
        let of_service = asked.iter().filter(|(_, asked)| asked.service == service);
        let mut limits: Vec<(u32, &String)> =
            of_service.filter_map(|(pid, asked)| Some((*pid, asked.map.as_ref().err()?))).collect();
        limits.sort_unstable();
        limits.into_iter().map(|(pid, why)| format!("compiled methods of JVM {pid} have no names: {why}")).collect()
    }
}

/// A process that is a JVM, and the number of its user.
fn opened(pid: Pid) -> Option<(Jvm, u32)> {
    let pid = FoundJvm::with_pid(pid)?.pid;
    let user = Process::open(pid).ok()?.status().ok()?.uid;
    Some((Jvm::open(pid).ok()?, user))
}

fn is_running(identity: Identity) -> bool {
    Process::open(identity.pid).is_ok_and(|process| process.identity().is_same(&identity))
}
