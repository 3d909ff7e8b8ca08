//! The profiles collected of each node within the last day, and the load of the last hour, as of a moment ago: the
//! overview shows it, and reading a day of many nodes takes longer than a page may.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use procprof_core::clock::now;
use procprof_core::renewed::Renewed;
use procprof_profile::{Nanos, ProfileId, ProfileType};
use procprof_store::{Column, Filter, Order, Result, RowBatch, RowQuery, Store, Values};

use super::problem::ApiResult;

/// From this age on it is renewed.
const AGE_MAX: Duration = Duration::from_secs(10);
/// The period.
const DAY: i64 = 86_400_000_000_000;
/// Its end, of which the load is kept.
pub(crate) const HOUR: i64 = 3_600_000_000_000;
/// Pieces of that hour.
pub(crate) const PIECES: usize = 60;
/// Rows read at a time, and in all: the newest.
const BATCH: usize = 20_000;
const ROWS_MAX: usize = 600_000;

/// The collected profiles, by node.
#[derive(Debug, Default)]
pub(crate) struct Activity {
    /// Start of the period.
    pub(crate) from: i64,
    /// Its end.
    pub(crate) to: i64,
    pub(crate) nodes: BTreeMap<u64, BTreeMap<ProfileType, Collected>>,
}

/// The collected profiles of a node and type.
#[derive(Clone, Debug)]
pub(crate) struct Collected {
    pub(crate) profiles: u64,
    /// The newest profile and its completion.
    pub(crate) newest: (ProfileId, i64),
    /// Start of the oldest profile.
    since: i64,
    /// Nanoseconds that profiles are about.
    captured: i64,
    /// The meaning of the newest profile's values, if it is not what its type says (`Meta::counts`).
    pub(crate) counts: Option<String>,
    /// The largest value of each piece of the last hour, by second of capture where captures have a length.
    pub(crate) load: [f32; PIECES],
}

impl Collected {
    fn new(id: ProfileId, completed: i64) -> Collected {
        let newest = (id, completed);
        Collected { profiles: 0, newest, since: i64::MAX, captured: 0, counts: None, load: [0.0; PIECES] }
    }

    /// Nanoseconds since the first of these profiles.
    pub(crate) fn known(&self, to: i64) -> i64 {
        to.saturating_sub(self.since)
    }

    /// The share of the time since the first of these profiles that they are about; `None` for those of a moment.
    pub(crate) fn coverage(&self, to: i64) -> Option<f64> {
        let elapsed = self.known(to);
        (self.captured > 0 && elapsed > 0).then(|| (self.captured as f64 / elapsed as f64).min(1.0))
    }
}

/// The activity as it was read last.
#[derive(Clone, Default)]
pub struct KnownActivity(Renewed<Activity>);

impl KnownActivity {
    /// The activity; it is renewed as [`Renewed::get`] says.
    pub(crate) async fn get(&self, store: &Arc<Store>) -> ApiResult<Arc<Activity>> {
        Ok(self.0.get(store, AGE_MAX, |store| Activity::read(store, now().0)).await?)
    }
}

impl Activity {
    fn read(store: &Store, to: i64) -> Result<Activity> {
        let mut activity = Activity { from: to.saturating_sub(DAY), to, nodes: BTreeMap::new() };
        let filter =
            Filter { from: Some(Nanos(activity.from)), to: Some(Nanos(to.saturating_add(1))), ..Filter::default() };
        let columns = vec![
            Column::Node,
            Column::Type,
            Column::Id,
            Column::Started,
            Column::Completed,
            Column::Duration,
            Column::Total,
        ];
        let mut rows = store.rows(&RowQuery { filter, columns, order: Order::NewestFirst })?;
        let mut read = 0;
        while read < ROWS_MAX
            && let Some(batch) = rows.next(BATCH)?
        {
            read += batch.rows;
            activity.add(&batch);
        }
        let of_cpu = activity.nodes.values_mut().filter_map(|types| types.get_mut(&ProfileType::Cpu));
        for collected in of_cpu {
            // It may have been deleted meanwhile.
            let newest = store.get(collected.newest.0).ok();
            collected.counts = newest.and_then(|entry| entry.meta.counts().map(str::to_owned));
        }
        Ok(activity)
    }

    fn add(&mut self, batch: &RowBatch) {
        let number = |at: usize, row: usize| match batch.columns.get(at) {
            Some(Values::Integers(numbers)) => numbers.get(row).copied().unwrap_or(0),
            _ => 0,
        };
        let mut known: BTreeMap<&str, ProfileType> = BTreeMap::new();
        for row in 0..batch.rows {
            let (Some(Values::Texts(names)), Some(Values::Ids(ids))) = (batch.columns.get(1), batch.columns.get(2))
            else {
                return;
            };
            let (Some(name), Some(id)) = (names.get(row), ids.get(row)) else { continue };
            let kind = known
                .entry(name)
                .or_insert_with(|| name.parse().unwrap_or(ProfileType::Other("other".to_owned())))
                .clone();
            let (started, completed, duration, total) =
                (number(3, row), number(4, row), number(5, row), number(6, row));
            let types = self.nodes.entry(number(0, row).cast_unsigned()).or_default();
            let own = types.entry(kind).or_insert_with(|| Collected::new(*id, completed));
            own.profiles += 1;
            own.since = own.since.min(started.max(self.from));
            own.captured = own.captured.saturating_add(duration.clamp(0, completed.saturating_sub(self.from).max(0)));
            let value = if duration > 0 { total as f64 / duration as f64 } else { total as f64 };
            if let Some(slot) = piece(self.to, completed).and_then(|piece| own.load.get_mut(piece)) {
                *slot = slot.max(value as f32);
            }
        }
    }
}

/// The piece of the hour before `to` that a moment is in.
fn piece(to: i64, moment: i64) -> Option<usize> {
    let since = moment.saturating_sub(to.saturating_sub(HOUR));
    let piece = usize::try_from(since).ok()? as u128 * PIECES as u128 / HOUR as u128;
    (moment <= to).then_some((piece as usize).min(PIECES - 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_hour_has_its_pieces() {
        let (to, minute) = (10 * DAY, HOUR / 60);
        let cases = [
            (to, Some(59)),
            (to - 1, Some(59)),
            (to - minute, Some(59)),
            (to - minute - 1, Some(58)),
            (to - HOUR, Some(0)),
            (to - HOUR - 1, None),
            (to + 1, None),
            (i64::MIN, None),
            (i64::MAX, None),
        ];
        for (moment, expected) in cases {
            assert_eq!(piece(to, moment), expected, "{moment}");
        }
    }
}
