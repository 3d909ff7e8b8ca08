//! Compares recordings with the output of `jfrconv`: `NAME.EVENT.collapsed`, or `NAME-EVENT.jfr` with
//! `NAME-EVENT.collapsed`; `.total` precedes `.collapsed` if the second value is counted (bytes, nanoseconds) and not
//! samples.
//!
//! Stacks and values must be equal except for three intended differences of names: procprof writes classes with dots,
//! as Java's own tools and pprof's rules for short names do, and not `java/lang/Thread`; without suffixes such as
//! `_[j]`, since the kind of a frame is its mapping; and hidden classes without the address and number that differ in
//! each run.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use procprof_profile::format::{self, Limits};
use procprof_profile::{LocationId, Profile};

/// Events by the names that the files use.
const EVENTS: [&str; 3] = ["cpu", "alloc", "lock"];

type Stacks = BTreeMap<String, i64>;

/// Compares a recording with every file beside it that belongs to it, and returns their number.
pub(crate) fn check(file: &Path, bytes: &[u8]) -> Result<usize> {
    let all = format::decode_events(bytes, &Limits::default())?;
    let mut compared = 0;
    for event in EVENTS {
        for (index, ends) in ["collapsed", "total.collapsed"].into_iter().enumerate() {
            let Some(expected) = beside(file, event, ends) else { continue };
            let decoded =
                all.iter().find(|decoded| decoded.event == event).with_context(|| format!("no event {event}"))?;
            let text = fs::read_to_string(&expected).context("read the expectation")?;
            let name = expected.file_name().unwrap_or_default().to_string_lossy().into_owned();
            compare(&theirs(&text)?, &ours(&decoded.profile, index)).context(name)?;
            compared += 1;
        }
    }
    ensure!(compared > 0, "no .collapsed beside it");
    Ok(compared)
}

fn beside(file: &Path, event: &str, ends: &str) -> Option<PathBuf> {
    let stem = file.file_stem()?.to_str()?;
    let is_of_one = stem.ends_with(&format!("-{event}"));
    let name = if is_of_one { format!("{stem}.{ends}") } else { format!("{stem}.{event}.{ends}") };
    Some(file.with_file_name(name)).filter(|path| path.exists())
}

fn compare(theirs: &Stacks, ours: &Stacks) -> Result<()> {
    let differs = theirs.keys().chain(ours.keys()).find(|stack| theirs.get(*stack) != ours.get(*stack));
    match differs {
        Some(stack) => anyhow::bail!("{stack}: {:?}, and {:?} by us", theirs.get(stack), ours.get(stack)),
        None => Ok(()),
    }
}

fn ours(profile: &Profile, value: usize) -> Stacks {
    let mut stacks = Stacks::new();
    for sample in profile.samples() {
        let name = |id: &LocationId| profile.string(profile.function(profile.lines(*id)[0].function).name);
        let names: Vec<&str> = sample.stack.iter().rev().map(name).collect();
        *stacks.entry(names.join(";")).or_default() += sample.values[value];
    }
    stacks
}

fn theirs(text: &str) -> Result<Stacks> {
    let mut stacks = Stacks::new();
    for line in text.lines() {
        let (stack, value) = line.rsplit_once(' ').with_context(|| format!("line {line:?}"))?;
        let names: Vec<String> = stack.split(';').map(our_name).collect();
        *stacks.entry(names.join(";")).or_default() +=
            value.parse::<i64>().with_context(|| format!("line {line:?}"))?;
    }
    Ok(stacks)
}

fn our_name(name: &str) -> String {
    let name = match name.len().checked_sub(4).and_then(|end| name.split_at_checked(end)) {
        Some((bare, mark)) if mark.starts_with("_[") && mark.ends_with(']') => bare,
        _ => name,
    };
    let (class, method) = match name.rsplit_once('.') {
        Some((class, method)) if !method.starts_with("0x") => (class, Some(method)),
        _ => (name, None),
    };
    let is_java = method.is_some() || name.ends_with("[]") || name.contains("0x");
    if !is_java {
        return name.to_owned();
    }
    let class = class.find("0x").map_or(class, |at| &class[..at - 1]).replace('/', ".");
    let class = match class.rsplit_once("$$Lambda$") {
        Some((before, number)) if number.bytes().all(|byte| byte.is_ascii_digit()) => format!("{before}$$Lambda"),
        _ => class,
    };
    method.map_or(class.clone(), |method| format!("{class}.{method}"))
}
