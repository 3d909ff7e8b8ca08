//! The whole way of a kind that exists in tests only, and of a replayed frontend: configuration, schedule, capture,
//! ingest, store.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::time::{Duration, Instant};

use procprof_profile::{Nanos, ProfileType};
use procprof_store::{Entry, ErrorEntry, ErrorFilter, ErrorKind, Filter, PageRequest, Store, StoreOptions, content_id};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::{Captures, Job, JobState};
use crate::auth::Authenticator;
use crate::children::{ChildProgram, Children};
use crate::config::Config;
use crate::hosts::Hosts;
use crate::ingest::Ingest;
use crate::metrics::Metrics;
use crate::nodes::{Node, Registry};
use crate::settings::Settings;
use crate::symbols::SymbolStore;

/// Beyond what any machine takes.
const DEADLINE: Duration = Duration::from_secs(120);

/// The parts that captures need, around a configuration with one node named `f`, of the fake kind.
struct Around {
    captures: Arc<Captures>,
    store: Arc<Store>,
    registry: Arc<Registry>,
    stop: CancellationToken,
    tasks: TaskTracker,
    _data: TempDir,
}

impl Around {
    /// Keeps the schedule of that node.
    fn start(node: &str) -> Around {
        Around::start_kind("fake", &format!("labels = {{ zone = \"eu\" }}\n{node}"))
    }

    /// The same with a node of that kind.
    fn start_kind(kind: &str, node: &str) -> Around {
        let text = format!("self_interval_seconds = 3600\n[[node]]\nname = \"f\"\nkind = \"{kind}\"\n{node}");
        let config = Config::parse(&text, "test.toml").unwrap();
        let data = tempfile::tempdir().unwrap();
        let bound = "127.0.0.1:1".parse().unwrap();
        let child = || ChildProgram { program: "/nonexistent".into(), arguments: Vec::new() };
        let registry = Arc::new(Registry::open(data.path(), &config, Vec::new(), "127.0.0.1:1", None).unwrap());
        let store = Arc::new(Store::open(data.path(), StoreOptions::default()).unwrap());
        let ingest = Arc::new(Ingest::new(
            Arc::new(Settings::new(config, data.path().to_owned(), Vec::new(), bound)),
            Arc::clone(&registry),
            Arc::clone(&store),
            Arc::new(Metrics::new()),
            Arc::new(SymbolStore::open(data.path()).unwrap()),
            Arc::new(Children::new(child(), child(), data.path())),
        ));
        let agent = procprof_agent::start(procprof_agent::Config::default()).unwrap();
        let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
        let authenticator = Arc::new(Authenticator::new(None).unwrap());
        let hosts = Arc::new(Hosts::open(Arc::clone(&ingest), authenticator, stop.clone()).unwrap());
        let captures = Arc::new(Captures::new(ingest, hosts, agent, None, tasks.clone(), stop.clone()));
        tasks.spawn(Arc::clone(&captures).run_schedule(stop.clone()));
        Around { captures, store, registry, stop, tasks, _data: data }
    }

    fn node(&self) -> Arc<Node> {
        self.registry.find("f").unwrap()
    }

    /// The node's profiles, newest first, once `is_there`.
    async fn profiles(&self, is_there: impl Fn(&[Entry]) -> bool) -> Vec<Entry> {
        let filter = Filter { nodes: vec![self.node().id], ..Filter::default() };
        until(|| Some(self.store.list(&filter, &PageRequest::first(1000)).unwrap().rows).filter(|rows| is_there(rows)))
            .await
    }

    /// All error rows, once there is one.
    async fn errors(&self) -> Vec<ErrorEntry> {
        let list = || self.store.list_errors(&ErrorFilter::default(), &PageRequest::first(1000)).rows;
        until(|| Some(list()).filter(|rows| !rows.is_empty())).await
    }

    /// How a user's capture ended.
    async fn captured(&self, profile_type: ProfileType) -> JobState {
        let job: Arc<Job> = self.captures.start(self.node(), profile_type, 0, "ann").unwrap();
        until(|| job.ended().map(|_| job.state())).await
    }

    async fn end(self) {
        self.stop.cancel();
        self.tasks.close();
        tokio::time::timeout(DEADLINE, self.tasks.wait()).await.unwrap();
    }
}

async fn until<T>(look: impl Fn() -> Option<T>) -> T {
    let end = Instant::now() + DEADLINE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < end, "it does not happen");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn of_type<'a>(rows: &'a [Entry], profile_type: &ProfileType) -> Vec<&'a Entry> {
    rows.iter().filter(|row| row.profile_type == *profile_type).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn one_request_of_the_schedule_gives_two_profiles() {
    let around =
        Around::start("leaf = \"dream\"\nvalue = 7\nschedule.cpu = { every = 1 }\nschedule.alloc = { every = 1 }\n");
    let both = [ProfileType::Cpu, ProfileType::Alloc];
    let rows = around.profiles(|rows| both.iter().all(|one| of_type(rows, one).len() >= 2)).await;
    let [cpu, alloc] =
        both.map(|one| of_type(&rows, &one).iter().map(|row| row.meta.more["answer"].clone()).collect::<Vec<_>>());
    let once: BTreeSet<&String> = cpu.iter().collect();
    let shared = cpu.iter().filter(|number| alloc.contains(number)).count();
    assert!(once.len() == cpu.len() && shared >= 2, "one request, two profiles: {cpu:?}, {alloc:?}");
    for row in &rows {
        assert_eq!((&*row.meta.trigger, &*row.meta.node_name), ("schedule", "f"), "{row:?}");
        assert_eq!((&*row.meta.labels["zone"], &*row.meta.labels["made"]), ("eu", "up"), "{row:?}");
        assert_eq!((&*row.summary.top[0].name, row.summary.top[0].value), ("dream", 7), "{row:?}");
    }
    let node = around.node();
    let health = around.registry.health(node.id);
    assert_eq!((node.kind().name(), &*node.address, health.summary()), ("fake", "fake dream", "ok"));
    around.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_broken_beside_a_good_profile_is_an_error_row() {
    let off = "schedule.cpu = { on = false }\nschedule.alloc = { on = false }\n";
    let around = Around::start(&format!("leaf = \"dream\"\nbreaks = true\n{off}"));
    let good = around.captured(ProfileType::Cpu).await;
    assert!(matches!(good, JobState::Done(_)), "{good:?}");
    let errors = around.errors().await;
    assert_eq!(
        (&errors[0].row.profile_type, errors[0].row.kind, errors.len()),
        (&Some(ProfileType::Alloc), ErrorKind::Refused, 1)
    );
    assert_eq!(errors[0].row.reason, "the fake: not a profile: an HTML page");
    match around.captured(ProfileType::Alloc).await {
        JobState::Failed(failure) => assert_eq!(failure.code, "not_a_profile"),
        other => panic!("{other:?}"),
    }
    let rows = around.profiles(|rows| rows.len() == 2).await;
    let is_good = |row: &Entry| row.profile_type == ProfileType::Cpu && row.meta.trigger == "manual";
    assert!(rows.iter().all(is_good), "the good one of each answer: {rows:?}");
    around.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_type_that_an_answer_to_several_leaves_out_is_an_error_row() {
    let around =
        Around::start("leaf = \"dream\"\nomits = true\nschedule.cpu = { every = 1 }\nschedule.alloc = { every = 1 }\n");
    let errors = around.errors().await;
    assert_eq!((&errors[0].row.profile_type, errors[0].row.kind), (&Some(ProfileType::Alloc), ErrorKind::Capture));
    assert_eq!(errors[0].row.reason, "the fake: no alloc among what was recorded");
    let rows = around.profiles(|rows| !rows.is_empty()).await;
    assert!(rows.iter().all(|row| row.profile_type == ProfileType::Cpu), "what was recorded is kept: {rows:?}");
    around.end().await;
}

const FLAMES: &[u8] = include_bytes!("../../../../testdata/formats/async-profiler-html/work-4.5.html");

/// A StarRocks frontend that has the same flame graph under two names; it lives as long as the test process.
fn frontend() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            let (mut first, mut others) = (String::new(), String::new());
            reader.read_line(&mut first).unwrap();
            while reader.read_line(&mut others).unwrap() > 2 {}
            let link = |second: u32| {
                format!(
                    "<a href=\"/proc_profile/file?filename=cpu-profile-20251120-2225{second}.html.tar.gz\">View</a>"
                )
            };
            let body = match first.contains("filename=") {
                true => FLAMES.to_vec(),
                false => format!("<h2>Process Profiles</h2>{}{}", link(35), link(34)).into_bytes(),
            };
            let head = format!("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {}\r\n\r\n", body.len());
            stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&body)).unwrap();
        }
    });
    port
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_frontend_has_made_is_stored_once() {
    let off = "schedule.cpu = { on = false }\nschedule.alloc = { on = false }\n";
    let around =
        Around::start_kind("starrocks-fe", &format!("http = \"127.0.0.1:{}\"\ntz = \"UTC\"\n{off}", frontend()));
    let fetched = around.captured(ProfileType::Cpu).await;
    assert!(matches!(fetched, JobState::Done(_)), "{fetched:?}");
    let rows = around.profiles(|rows| !rows.is_empty()).await;
    assert_eq!(rows.len(), 1, "{rows:?}");
    let row = &rows[0];
    assert_eq!(
        (row.id, row.start, &row.profile_type),
        (content_id(FLAMES), Nanos(1_763_677_534_000_000_000), &ProfileType::Cpu)
    );
    assert_eq!(row.meta.more["fetched-from"], "cpu-profile-20251120-222534.html.tar.gz");
    match around.captured(ProfileType::Cpu).await {
        JobState::Failed(failure) => assert_eq!(failure.code, "nothing_new"),
        other => panic!("{other:?}"),
    }
    around.end().await;
}
