//! Facts and summaries computed when a profile comes in.

use std::io::Write;
use std::time::Duration;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use procprof_profile::format::Decoded;
use procprof_profile::{Meta, Nanos, Profile, ProfileBuilder, ProfileType};

use super::budget::{Budget, Full, Reserved};
use super::facts::{complete, write};
use super::summary::{functions, summarize};
use super::thumbnail::{COLUMNS, ROWS, draw};
use crate::config::Config;
use crate::shares::Requester;

fn profile(stacks: &[(&[&str], i64)]) -> Profile {
    let mut builder = ProfileBuilder::new(&[("samples", "count"), ("cpu", "nanoseconds")]);
    for (stack, value) in stacks {
        let stack: Vec<_> = stack.iter().map(|name| builder.frame(name)).collect();
        builder.sample(&stack, &[1, *value], &[]);
    }
    builder.finish().unwrap()
}

#[test]
fn a_summary_has_totals_and_the_largest_own_values_first() {
    let summary =
        summarize(&profile(&[(&["b", "main"], 1), (&["a", "main"], 5), (&["b", "c", "main"], 5), (&["z"], 0)])).0;
    let top: Vec<(&str, i64)> = summary.top.iter().map(|row| (row.name.as_str(), row.value)).collect();
    assert_eq!(top, [("b", 6), ("a", 5)]);
    assert_eq!((summary.samples, summary.totals[1].value, summary.totals[1].kind.as_str()), (4, 11, "cpu"));
    assert!(summarize(&profile(&[])).0.thumbnail.is_empty());
}

#[test]
fn a_summary_counts_waits_for_locks() {
    let mut builder = ProfileBuilder::new(&[("contentions", "count"), ("delay", "nanoseconds")]);
    let frame = builder.frame("App.run");
    for (kind, value) in [("lock", 5), ("idle", 70), ("wait", 900)] {
        let label = builder.text_label(procprof_profile::waits::LABEL, kind);
        builder.sample(&[frame], &[1, value], &[label]);
    }
    let (summary, table) = summarize(&builder.finish().unwrap());
    let totals: Vec<i64> = summary.totals.iter().map(|total| total.value).collect();
    assert_eq!((totals, summary.top[0].value, table.total), (vec![1, 5], 5, 5));
}

#[test]
fn functions_have_what_they_take_themselves_and_with_what_they_call_once() {
    let mut builder = ProfileBuilder::new(&[("samples", "count"), ("cpu", "nanoseconds")]);
    let [main, walk, leaf] = ["main", "walk", "leaf"].map(|name| builder.frame(name));
    let unnamed = builder.address(None, procprof_profile::Addr(0x1000));
    for (stack, value) in
        [(vec![leaf, walk, walk, main], 10), (vec![walk, main], 5), (vec![unnamed, main], 2), (vec![], 1)]
    {
        builder.sample(&stack, &[1, value], &[]);
    }
    let profile = builder.finish().unwrap();
    let table = summarize(&profile).1;
    assert_eq!(functions(&profile), table);
    assert_eq!((table.kind.as_str(), table.unit.as_str(), table.total), ("cpu", "nanoseconds", 18));
    let mut rows: Vec<(&str, i64, i64)> =
        table.functions.iter().map(|row| (row.name.as_str(), row.own, row.total)).collect();
    rows.sort_unstable();
    assert_eq!(rows, [("[unknown]", 2, 2), ("leaf", 10, 10), ("main", 0, 17), ("walk", 5, 15)]);
}

#[test]
fn threads_are_counted_by_their_ids_or_else_by_their_names() {
    let threads = |samples: &[(Option<i64>, &str)]| {
        let mut builder = ProfileBuilder::new(&[("samples", "count")]);
        for (tid, name) in samples {
            let stack = [builder.frame("main")];
            let mut labels = Vec::new();
            if !name.is_empty() {
                labels.push(builder.text_label("thread", name));
            }
            labels.extend(tid.map(|tid| builder.number_label("tid", tid, "")));
            builder.sample(&stack, &[1], &labels);
        }
        summarize(&builder.finish().unwrap()).0.threads
    };
    // Threads of one name differ in their ids; what ended threads left has none.
    assert_eq!(threads(&[(Some(7), "worker"), (Some(8), "worker"), (Some(7), "worker"), (None, "ended threads")]), 2);
    assert_eq!(threads(&[(None, "main"), (None, "worker"), (None, "main"), (None, "")]), 2);
    assert_eq!(threads(&[(None, "")]), 0);
}

#[test]
fn the_top_function_is_the_programs_with_the_runtimes_beside_it() {
    let top = |stacks: &[(&[&str], i64)]| {
        let top = summarize(&profile(stacks)).0.top;
        top.into_iter()
            .map(|row| format!("{} {} {} < {}", row.value, row.leaf, row.name, row.caller))
            .collect::<Vec<_>>()
    };
    // The runtime's functions are of those that call them, with others of the runtime in between.
    assert_eq!(
        top(&[
            (&["nanosleep", "std::this_thread::sleep_for", "poll_loop", "main"], 5),
            (&["memcpy", "poll_loop", "main"], 1),
            (&["poll_loop", "main"], 2),
            (&["nanosleep", "other", "main"], 2)
        ]),
        ["8 nanosleep poll_loop < ", "2 nanosleep other < "]
    );
    // The function itself takes most.
    assert_eq!(top(&[(&["mix", "main"], 9), (&["memcpy", "mix", "main"], 8)]), ["17  mix < "]);
    // A function with several callers has the one from which most of it comes; with one, its name says it all.
    assert_eq!(
        top(&[(&["mix", "sessions", "main"], 9), (&["mix", "cache", "main"], 3), (&["hot", "sessions", "main"], 1)]),
        ["12  mix < sessions", "1  hot < "]
    );
    // Recursion is no caller, and there may be none; where nothing is the program's, the runtime's is named.
    assert_eq!(
        top(&[(&["walk", "walk", "main"], 2), (&["walk", "main"], 2), (&["poll", "std::rt::lang_start"], 1)]),
        ["4  walk < ", "1 poll poll < "]
    );
}

#[test]
fn a_strip_is_as_wide_as_the_values_are_large() {
    let thumbnail = draw(&profile(&[(&["hot", "main", "start"], 75), (&["cold", "main", "start"], 25)]));
    assert_eq!(thumbnail.len(), COLUMNS * ROWS);
    assert!(thumbnail[..COLUMNS].iter().all(|cell| *cell == thumbnail[0] && *cell != 0));
    let above = &thumbnail[2 * COLUMNS..3 * COLUMNS];
    let mut widths: Vec<usize> = above.chunk_by(|a, b| a == b).map(<[u8]>::len).collect();
    widths.sort_unstable();
    assert_eq!(widths, [24, 72]);
    assert!(thumbnail[3 * COLUMNS..].iter().all(|cell| *cell == 0));
    let one = draw(&profile(&[(&["leaf", "main", "start"], 5)]));
    assert_eq!(one.chunks(COLUMNS).filter(|row| row[0] != 0).count(), 3, "a single stack is shown whole");
}

#[test]
fn facts_are_written_once_and_a_time_is_given_only_where_there_is_none() {
    let mut meta = Meta { node: Some(7), profile_type: Some(ProfileType::Cpu), ..Meta::default() };
    let (once, start, length) =
        write(profile(&[(&["a"], 1)]), &mut meta, (Nanos(5_000), Nanos(300)), Some(Nanos(6_000))).unwrap();
    assert_eq!((start, length, once.time(), meta.end), (Nanos(5_000), Nanos(300), Nanos(5_000), Some(Nanos(5_300))));
    let (twice, start, _) = write(once, &mut meta, (Nanos(9_000), Nanos(1)), None).unwrap();
    assert_eq!((start, Meta::from_comments(twice.comments())), (Nanos(5_000), meta));
    assert_eq!(twice.comments().filter(|comment| comment.starts_with("#procprof:node=")).count(), 1);
}

#[test]
fn a_profile_sets_no_facts_that_the_server_determines() {
    let told = [
        "procprof:hz=99",
        "procprof:tick-ns=4000000",
        "procprof:node=1",
        "procprof:node-name=other",
        "procprof:trigger=schedule",
        "procprof:label.zone=eu-1",
        "procprof:symbols=verified",
        "procprof:symbols-uploaded=00ff",
        "procprof:wanted-file.0=/bin/x; rm -rf / (build id 00ff, 99 % of samples)",
        "procprof:imported-from=elsewhere",
        "procprof:shown=bananas",
        "procprof:Trigger=schedule",
        "procprof:a b=c",
        "procprof:long=x",
        "procprof:line=a\u{1b}[31mb",
    ];
    let longest = format!("procprof:long={}", "x".repeat(5000));
    let meta_of = |trigger: &str| {
        let mut parts = profile(&[(&["a"], 1)]).into_parts();
        for text in told.iter().map(|text| if text.starts_with("procprof:long") { longest.as_str() } else { text }) {
            let id = parts.strings.push(text).unwrap();
            parts.comments.push(id);
        }
        let decoded = Decoded::new(parts.finish().unwrap(), "pprof", Vec::new());
        let mut meta = Meta { node: Some(7), trigger: trigger.to_owned(), ..Meta::default() };
        complete(&mut meta, &decoded);
        meta
    };
    let pushed = meta_of("push");
    let facts: Vec<_> = pushed.more.iter().map(|(key, value)| format!("{key}={value}")).collect();
    assert_eq!(facts, ["hz=99", "shown=cpu", "tick-ns=4000000"]);
    assert_eq!((pushed.node, pushed.node_name.as_str(), pushed.labels.len()), (Some(7), "", 0));
    // What a server stored keeps what it found out when another takes it over.
    assert_eq!(meta_of("import").more["symbols-uploaded"], "00ff");
}

#[test]
fn a_difference_of_totals_stamped_at_its_end_starts_its_length_before() {
    let start = |profile_type: ProfileType, time: i64, end: i64| {
        let mut builder = ProfileBuilder::new(&[("contentions", "count")]);
        builder.time(Nanos(time), Nanos(1_000));
        let mut meta =
            Meta { node: Some(7), profile_type: Some(profile_type), end: Some(Nanos(end)), ..Meta::default() };
        write(builder.finish().unwrap(), &mut meta, (Nanos(1), Nanos(1)), Some(Nanos(9_010))).unwrap().1.0
    };
    assert_eq!(start(ProfileType::Mutex, 9_000, 9_010), 8_000);
    assert_eq!(start(ProfileType::Mutex, 8_000, 9_010), 8_000, "stamped at its start");
    assert_eq!(start(ProfileType::Mutex, 8_400, 9_010), 8_400, "by a clock that is a little ahead");
    assert_eq!(start(ProfileType::Cpu, 9_000, 9_010), 9_000, "what is sampled tells its start");
}

#[test]
fn types_are_guessed_by_their_sample_types() {
    assert_eq!(profile(&[]).guess_type(), Some(ProfileType::Cpu));
    let of = |kinds: &[(&str, &str)]| ProfileBuilder::new(kinds).finish().unwrap().guess_type();
    assert_eq!(of(&[("alloc_space", "bytes"), ("inuse_space", "bytes")]), Some(ProfileType::Heap));
    assert_eq!(of(&[("alloc_space", "bytes")]), Some(ProfileType::Alloc));
    assert_eq!(of(&[("bananas", "count")]), None);
}

#[test]
fn what_claims_to_be_from_the_future_goes_by_its_arrival() {
    let arrived = 1_700_000_000_000_000_000;
    let (minute, year) = (60_000_000_000, 365 * 86_400_000_000_000);
    let placed = |time: i64, duration: i64| {
        let mut parts = profile(&[(&["a"], 1)]).into_parts();
        (parts.time, parts.duration) = (Nanos(time), Nanos(duration));
        let mut meta = Meta { node: Some(7), profile_type: Some(ProfileType::Cpu), ..Meta::default() };
        let (_, start, duration) =
            write(parts.finish().unwrap(), &mut meta, (Nanos(1), Nanos(0)), Some(Nanos(arrived))).unwrap();
        (start.0, duration.0, meta.end.unwrap().0, meta.more.get("time-claimed").cloned())
    };
    assert_eq!(placed(arrived - minute, minute), (arrived - minute, minute, arrived, None));
    assert_eq!(
        placed(arrived + minute, minute),
        (arrived + minute, minute, arrived + 2 * minute, None),
        "clocks differ a little"
    );
    assert_eq!(placed(arrived - 3 * year, minute).0, arrived - 3 * year, "what is old stays old");
    let claimed = |start: i64, duration: i64, end: i64, claim: &str| (start, duration, end, Some(claim.to_owned()));
    let far = "2258-05-15T01:46:40Z, 60 s long";
    assert_eq!(placed(9_100_000_000_000_000_000, minute), claimed(arrived - minute, minute, arrived, far));
    let endless = "2023-11-14T22:13:20Z, 9223372036 s long";
    assert_eq!(placed(arrived, i64::MAX), claimed(arrived, 0, arrived, endless));
    assert_eq!(placed(i64::MAX, i64::MAX).2, arrived);
}

#[test]
fn a_budget_refuses_beyond_each_limit_and_frees_what_is_dropped() {
    let mut config = Config::defaults();
    (config.profile_bytes_max, config.ingest_bytes_in_flight_max, config.ingest_queue_max) = (1 << 20, 3 << 20, 2);
    let budget = Budget::default();
    let first = budget.enter(&config, &Requester::server()).unwrap();
    first.grow(2 << 20).unwrap();
    let second = budget.enter(&config, &Requester::server()).unwrap();
    assert_eq!(second.grow((1 << 20) + 1).unwrap_err(), Full::Bytes { used: 2 << 20, limit: 3 << 20 });
    second.grow(1 << 20).unwrap();
    assert_eq!(budget.enter(&config, &Requester::server()).unwrap_err(), Full::Queue { limit: 2 });
    drop((first, second));
    budget.enter(&config, &Requester::server()).unwrap().grow(3 << 20).unwrap();
}

fn packed(bytes: usize) -> Bytes {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(&vec![0; bytes]).unwrap();
    encoder.finish().unwrap().into()
}

/// Takes room for a profile without waiting for any.
async fn admit(place: &Reserved, profile: &Bytes) -> Result<u64, Full> {
    let (size, _) = place.measure(profile)?;
    place.reach(size, Duration::ZERO).await.map(|()| size)
}

#[test]
fn what_a_small_profile_unpacks_to_is_kept_unless_the_decoder_must_see_it_packed() {
    let place = Budget::default().enter(&Config::defaults(), &Requester::server()).unwrap();
    let unpacked = |bytes: &Bytes| place.measure(bytes).unwrap();
    assert_eq!(unpacked(&packed(1000)), (1000, Some(vec![0; 1000].into())));
    assert_eq!(unpacked(&packed((1 << 20) - 1)).1.map(|kept| kept.len()), Some((1 << 20) - 1));
    assert_eq!(unpacked(&packed(1 << 20)), (1 << 20, None));
    assert_eq!(unpacked(&packed((1 << 20) + 1)), ((1 << 20) + 1, None));
    // Broken, plain, and packed twice.
    assert_eq!(unpacked(&packed(1000).slice(..15)).1, None);
    assert_eq!(unpacked(&Bytes::from_static(b"plain")), (5, None));
    let inner = packed(1000);
    let mut twice = GzEncoder::new(Vec::new(), Compression::fast());
    twice.write_all(&inner).unwrap();
    assert_eq!(unpacked(&twice.finish().unwrap().into()), (inner.len() as u64, None));
}

#[tokio::test]
async fn room_is_taken_by_unpacked_size() {
    let mut config = Config::defaults();
    (config.profile_bytes_max, config.ingest_bytes_in_flight_max) = (1 << 20, 16 << 20);
    let budget = Budget::default();
    let first = budget.enter(&config, &Requester::server()).unwrap();
    assert_eq!(admit(&first, &packed(3 << 20)).await.unwrap(), 3 << 20, "four times profile_bytes_max is allowed");
    let bomb = packed(64 << 20);
    assert!(bomb.len() < 100 << 10);
    assert_eq!(
        budget.enter(&config, &Requester::server()).unwrap().measure(&bomb).unwrap_err(),
        Full::Unpacked { limit: 4 << 20 }
    );
    // Three of 3 to 4 MiB fit beside each other; each holds its own size.
    let others: Vec<_> = (0..2).map(|_| budget.enter(&config, &Requester::server()).unwrap()).collect();
    for other in &others {
        admit(other, &packed(4 << 20)).await.unwrap();
    }
    config.ingest_bytes_in_flight_max = 12 << 20;
    let late = budget.enter(&config, &Requester::server()).unwrap();
    assert_eq!(admit(&late, &packed(4 << 20)).await, Err(Full::Bytes { used: 11 << 20, limit: 12 << 20 }));
    // What was counted while it was received is not counted twice.
    drop((first, others, late));
    let received = budget.enter(&config, &Requester::server()).unwrap();
    let plain = Bytes::from(vec![1; 4 << 20]);
    received.grow(4 << 20).unwrap();
    admit(&received, &plain).await.unwrap();
    assert_eq!(
        budget.enter(&config, &Requester::server()).unwrap().grow((8 << 20) + 1).unwrap_err(),
        Full::Bytes { used: 4 << 20, limit: 12 << 20 }
    );
    // A profile that fits into no room at all is refused for its size, also where one alone may fill it.
    drop(received);
    config.ingest_bytes_in_flight_max = 4 << 20;
    let alone = budget.enter(&config, &Requester::server()).unwrap();
    alone.grow(bomb.len() as u64).unwrap();
    assert_eq!(alone.measure(&bomb).unwrap_err(), Full::Unpacked { limit: 4 << 20 });
    drop(alone);
    // Broken gzip has a size, too; the decoder reports what is wrong with it.
    assert!(budget.enter(&config, &Requester::server()).unwrap().measure(&packed(1000).slice(..15)).is_ok());
}

/// Whether a future that was polled is not done.
async fn waits_on<F: Future + Unpin>(future: &mut F) -> bool {
    tokio::time::timeout(Duration::ZERO, future).await.is_err()
}

#[tokio::test]
async fn a_profile_waits_for_the_room_of_another_where_that_can_help() {
    const LONG: Duration = Duration::from_secs(600);
    let mut config = Config::defaults();
    (config.profile_bytes_max, config.ingest_bytes_in_flight_max) = (4 << 20, 16 << 20);
    let budget = Budget::default();
    let enter = |held: u64| {
        let place = budget.enter(&config, &Requester::server()).unwrap();
        place.grow(held).unwrap();
        place
    };
    // The default has room for one profile of the largest size: the second goes on once the first has gone.
    let (first, second) = (enter(0), enter(0));
    first.reach(16 << 20, Duration::ZERO).await.unwrap();
    assert_eq!(
        second.reach(16 << 20, Duration::from_millis(1)).await,
        Err(Full::Bytes { used: 16 << 20, limit: 16 << 20 })
    );
    let mut waits = Box::pin(second.reach(16 << 20, LONG));
    assert!(waits_on(&mut waits).await);
    drop(first);
    waits.await.unwrap();
    drop(second);
    // Two that hold what the other waits for: the one that came last is refused at once.
    let (busy, third, fourth) = (enter(4 << 20), enter(4 << 20), enter(6 << 20));
    let mut waits = Box::pin(third.reach(12 << 20, LONG));
    assert!(waits_on(&mut waits).await);
    assert_eq!(fourth.reach(14 << 20, LONG).await, Err(Full::Bytes { used: 14 << 20, limit: 16 << 20 }));
    drop(busy);
    assert!(waits_on(&mut waits).await, "4 of 16 MiB are free, and it needs 8");
    drop(fourth);
    waits.await.unwrap();
    // One that gave up waiting keeps no other from it.
    let fifth = enter(4 << 20);
    let mut waits = Box::pin(fifth.reach(16 << 20, LONG));
    assert!(waits_on(&mut waits).await);
    drop(waits);
    drop(fifth);
    let sixth = enter(0);
    let mut waits = Box::pin(sixth.reach(16 << 20, LONG));
    assert!(waits_on(&mut waits).await);
    drop(third);
    waits.await.unwrap();
}

#[test]
fn a_strip_leaves_the_trunk_out_and_shows_where_it_forks() {
    let trunk = ["h", "g", "f", "e", "d", "c", "b", "a"];
    let with = |leaf: &'static str| [leaf].into_iter().chain(trunk).collect::<Vec<_>>();
    let (hot, cold) = (with("hot"), with("cold"));
    let thumbnail = draw(&profile(&[(hot.as_slice(), 64), (cold.as_slice(), 28), (&["[unsampled]"], 8)]));
    let runs = |row: usize| {
        thumbnail[row * COLUMNS..(row + 1) * COLUMNS].chunk_by(|a, b| a == b).filter(|run| run[0] != 0).count()
    };
    assert_eq!((runs(ROWS - 2), runs(ROWS - 1)), (1, 2), "the top row shows the leaves");
}
