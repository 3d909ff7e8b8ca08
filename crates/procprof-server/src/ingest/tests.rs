//! What is computed when a profile comes in.

use procprof_profile::{Meta, Nanos, Profile, ProfileBuilder, ProfileType};

use super::budget::{Budget, Full};
use super::facts::{guess_type, write};
use super::strip::{COLUMNS, ROWS, draw};
use super::summary::summarize;
use crate::config::Config;

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
    let summary = summarize(&profile(&[(&["b", "main"], 1), (&["a", "main"], 5), (&["b", "c", "main"], 5), (&["z"], 0)]));
    let top: Vec<(&str, i64)> = summary.top.iter().map(|row| (row.name.as_str(), row.value)).collect();
    assert_eq!(top, [("b", 6), ("a", 5)]);
    assert_eq!((summary.samples, summary.totals[1].value, summary.totals[1].kind.as_str()), (4, 11, "cpu"));
    assert!(summarize(&profile(&[])).strip.is_empty());
}

#[test]
fn a_strip_is_as_wide_as_the_values_are_large() {
    let strip = draw(&profile(&[(&["hot", "main", "start"], 75), (&["cold", "main", "start"], 25)]));
    assert_eq!(strip.len(), COLUMNS * ROWS);
    assert!(strip[..COLUMNS].iter().all(|cell| *cell == strip[0] && *cell != 0));
    let above = &strip[2 * COLUMNS..3 * COLUMNS];
    let mut widths: Vec<usize> = above.chunk_by(|a, b| a == b).map(<[u8]>::len).collect();
    widths.sort_unstable();
    assert_eq!(widths, [24, 72]);
    assert!(strip[3 * COLUMNS..].iter().all(|cell| *cell == 0));
    let one = draw(&profile(&[(&["leaf", "main", "start"], 5)]));
    assert_eq!(one.chunks(COLUMNS).filter(|row| row[0] != 0).count(), 3, "a single stack is shown whole");
}

#[test]
fn facts_are_written_once_and_a_time_is_given_only_where_there_is_none() {
    let mut meta = Meta { node: Some(7), profile_type: Some(ProfileType::Cpu), ..Meta::default() };
    let (once, start, length) = write(profile(&[(&["a"], 1)]), &mut meta, (Nanos(5_000), Nanos(300))).unwrap();
    assert_eq!((start, length, once.time(), meta.end), (Nanos(5_000), Nanos(300), Nanos(5_000), Some(Nanos(5_300))));
    let (twice, start, _) = write(once, &mut meta, (Nanos(9_000), Nanos(1))).unwrap();
    assert_eq!((start, Meta::from_comments(twice.comments())), (Nanos(5_000), meta));
    assert_eq!(twice.comments().filter(|comment| comment.starts_with("procprof:node=")).count(), 1);
}

#[test]
fn a_difference_of_totals_stamped_at_its_end_starts_its_length_before() {
    let start = |profile_type: ProfileType, time: i64, end: i64| {
        let mut builder = ProfileBuilder::new(&[("contentions", "count")]);
        builder.time(Nanos(time), Nanos(1_000));
        let mut meta = Meta { node: Some(7), profile_type: Some(profile_type), end: Some(Nanos(end)), ..Meta::default() };
        write(builder.finish().unwrap(), &mut meta, (Nanos(1), Nanos(1))).unwrap().1.0
    };
    assert_eq!(start(ProfileType::Mutex, 9_000, 9_010), 8_000);
    assert_eq!(start(ProfileType::Mutex, 8_000, 9_010), 8_000, "stamped at its start");
    assert_eq!(start(ProfileType::Mutex, 8_400, 9_010), 8_400, "by a clock that is a little ahead");
    assert_eq!(start(ProfileType::Cpu, 9_000, 9_010), 9_000, "what is sampled tells its start");
}

#[test]
fn types_are_guessed_by_their_sample_types() {
    assert_eq!(guess_type(&profile(&[])), Some(ProfileType::Cpu));
    let of = |kinds: &[(&str, &str)]| guess_type(&ProfileBuilder::new(kinds).finish().unwrap());
    assert_eq!(of(&[("alloc_space", "bytes"), ("inuse_space", "bytes")]), Some(ProfileType::Heap));
    assert_eq!(of(&[("alloc_space", "bytes")]), Some(ProfileType::Alloc));
    assert_eq!(of(&[("bananas", "count")]), None);
}

#[test]
fn a_budget_refuses_beyond_each_limit_and_frees_what_is_dropped() {
    let mut config = Config::defaults();
    (config.profile_bytes_max, config.ingest_bytes_in_flight_max, config.ingest_queue_max) = (100, 150, 2);
    let budget = Budget::default();
    assert_eq!(budget.reserve(101, &config).unwrap_err(), Full::Profile { bytes: 101, limit: 100 });
    let first = budget.reserve(100, &config).unwrap();
    assert_eq!(budget.reserve(51, &config).unwrap_err(), Full::Bytes { used: 100, limit: 150 });
    let second = budget.reserve(1, &config).unwrap();
    assert_eq!(budget.reserve(1, &config).unwrap_err(), Full::Queue { limit: 2 });
    drop((first, second));
    budget.reserve(100, &config).unwrap();
}

#[test]
fn a_strip_leaves_the_trunk_out_and_shows_where_it_forks() {
    let trunk = ["h", "g", "f", "e", "d", "c", "b", "a"];
    let with = |leaf: &'static str| [leaf].into_iter().chain(trunk).collect::<Vec<_>>();
    let (hot, cold) = (with("hot"), with("cold"));
    let strip = draw(&profile(&[(hot.as_slice(), 64), (cold.as_slice(), 28), (&["[unsampled]"], 8)]));
    let runs = |row: usize| strip[row * COLUMNS..(row + 1) * COLUMNS].chunk_by(|a, b| a == b).filter(|run| run[0] != 0).count();
    assert_eq!((runs(ROWS - 2), runs(ROWS - 1)), (1, 2), "the top row shows the leaves");
}
