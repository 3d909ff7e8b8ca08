//! `schedule.TYPE` tables: their rows, and the check that the node's kind has the type.

use std::collections::BTreeMap;

use procprof_collect::Window;
use procprof_profile::ProfileType;

use super::Config;
use super::nearest::nearest;
use super::node::{profile_type, table};
use super::plan::{given, plan};
use super::value::{ConfigEntry, ConfigFile, Value, boolean, count};
use crate::error::{Error, Result};
use crate::kinds::{NodeConfig, ScheduleRow};

/// Longest capture in a schedule, in seconds.
const SECONDS_MAX: u64 = 3600;

/// Reads the tables; whether their types fit the node is checked once its kind is known.
pub(super) fn read(value: &Value) -> std::result::Result<BTreeMap<ProfileType, ScheduleRow>, String> {
    let row = |entry: &ConfigEntry| {
        let mut row = ScheduleRow::default();
        for key in table(&entry.value)? {
            match key.key.as_str() {
                "on" => row.on = Some(boolean(&key.value)?),
                "seconds" => row.seconds = Some(count(&key.value, 0, SECONDS_MAX)?),
                "every" => row.every = Some(count(&key.value, 1, 86_400)?),
                other => return Err(format!("unknown key {other:?}; known are on, seconds, every")),
            }
        }
        Ok((profile_type(&entry.key)?, row))
    };
    table(value)?.iter().map(row).collect()
}

/// Gives a kind's own names their types, and refuses types the node cannot give and lengths a type cannot have.
pub(super) fn check(document: &ConfigFile, schedule: &ConfigEntry, node: &mut NodeConfig) -> Result<()> {
    let Value::Table(rows) = &schedule.value else { return Ok(()) };
    for row in rows {
        let wrong =
            |why: String| document.wrong(&ConfigEntry { key: format!("schedule.{}", row.key), ..row.clone() }, why);
        let written = profile_type(&row.key).map_err(wrong)?;
        let meant = node.kind.type_names.iter().find(|(name, _)| *name == row.key).map_or(&written, |(_, meant)| meant);
        let Some((_, window)) = given(node).into_iter().find(|(known, _)| known == meant) else {
            return Err(wrong(unknown(node, &row.key)));
        };
        let Some(mut schedule) = node.schedule.remove(&written) else { continue };
        match (window, schedule.seconds) {
            (Window::Moment, Some(1..)) => {
                return Err(wrong("is taken at a moment, so it takes no seconds".to_owned()));
            }
            (Window::Seconds, Some(0)) => {
                return Err(wrong(format!("seconds: expected a whole number from 1 to {SECONDS_MAX}")));
            }
            _ => {}
        }
        schedule.place = document.place(row);
        if node.schedule.insert(meant.clone(), schedule).is_some() {
            return Err(wrong(format!("is the same as schedule.{meant}")));
        }
    }
    Ok(())
}

fn unknown(node: &NodeConfig, written: &str) -> String {
    let types = given(node);
    let mut names: Vec<&str> = types.iter().map(|(known, _)| known.name()).collect();
    let list = names.join(", ");
    names.extend(node.kind.type_names.iter().map(|(name, _)| *name));
    let near = nearest(written, names.into_iter()).map(|name| format!("; the nearest is {name:?}")).unwrap_or_default();
    format!("the node gives no such profiles; it gives {list}{near}")
}

/// Rejects lengths above the limit for all users, and those that do not fit between two starts.
pub(super) fn check_lengths<'a>(nodes: impl Iterator<Item = &'a NodeConfig>, config: &Config) -> Result<()> {
    let limit = config.capture_seconds_max;
    for node in nodes {
        let planned = plan(node, config);
        for (profile_type, row) in &node.schedule {
            let wrong = |why| {
                let (place, key) = (row.place.clone(), format!("schedule.{profile_type}"));
                Err(Error::WrongValue { place, key, why })
            };
            if let Some(seconds) = row.seconds.filter(|seconds| *seconds > limit) {
                return wrong(format!("{seconds} seconds pass capture_seconds_max ({limit})"));
            }
            let seconds = planned.iter().find(|plan| plan.profile_type == *profile_type).map_or(0, |plan| plan.seconds);
            if let Some(every) = row.every.filter(|every| *every < seconds) {
                return wrong(format!("{seconds} seconds do not fit every {every}"));
            }
        }
    }
    Ok(())
}
