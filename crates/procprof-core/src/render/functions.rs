//! The functions of stored profiles, for searches across profiles: what summaries do not have is read from the files,
//! in the turns of reports and within bounds.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use procprof_profile::{FunctionId, Grammar, Profile};
use procprof_store::{Entry, Store};

use super::{Limited, RenderError, Renderer, Requester, Subject};

/// Time after which no further profile is read for one request.
pub const READ_TIME: Duration = Duration::from_secs(2);

/// A search for functions by a part of their name.
#[derive(Clone, Debug)]
pub struct FunctionQuery {
    /// In lower case.
    pub part: String,
    /// Which value of a function counts.
    pub counted: Counted,
}

/// A value of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counted {
    /// What it spends itself.
    Own,
    /// Also what it calls; in a recursion once.
    WithCallees,
}

/// What a function takes of a profile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FunctionShare {
    /// Its whole name.
    pub name: String,
    /// Its value of the default sample type.
    pub value: i64,
    /// The profile's.
    pub total: i64,
}

/// What came of reading one profile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FunctionsRead {
    /// The matching function with the largest value.
    Found(FunctionShare),
    /// No function matches.
    NotFound,
    /// It could not be read.
    Unreadable,
}

impl Renderer {
    /// Reads profiles in their order and finds in each the matching function with the largest value. The first is
    /// always read, the others until `deadline`, so that the answer may have fewer rows than `entries`.
    ///
    /// # Errors
    /// [`RenderError::Busy`] and [`RenderError::Stopping`].
    pub async fn functions(
        self: &Arc<Self>,
        entries: Vec<Entry>,
        query: FunctionQuery,
        deadline: Instant,
        requester: &Requester,
    ) -> Result<Vec<FunctionsRead>, RenderError> {
        let own_slots = self.own_slots(&self.turns, requester, 0)?;
        let (store, limited) = (Arc::clone(&self.store), self.limited("search"));
        let read = self.in_turn(&self.turns, &own_slots, move || {
            let mut read = Vec::new();
            for entry in &entries {
                limited.go_on()?;
                if !read.is_empty() && Instant::now() >= deadline {
                    break;
                }
                read.push(read_one(&store, entry, &query, &limited)?);
            }
            Ok(read)
        });
        let read = read.await;
        self.metrics.renders.inc();
        read
    }
}

fn read_one(
    store: &Store,
    entry: &Entry,
    query: &FunctionQuery,
    limited: &Limited,
) -> Result<FunctionsRead, RenderError> {
    let profile = match Subject::from(entry).load(store, &|| limited.go_on()) {
        Ok((profile, _)) => profile,
        Err(error @ RenderError::Stopping) => return Err(error),
        Err(error) => {
            tracing::warn!("search: {error}");
            return Ok(FunctionsRead::Unreadable);
        }
    };
    let Ok(profile) = profile.adjusted(Grammar::Pprof) else { return Ok(FunctionsRead::Unreadable) };
    // As the summaries are made.
    let shown = procprof_report::without_uninteresting(&profile).unwrap_or(std::borrow::Cow::Borrowed(&profile));
    Ok(largest(&shown, query).map_or(FunctionsRead::NotFound, FunctionsRead::Found))
}

/// The matching function with the largest value; of equal ones the first by name.
fn largest(profile: &Profile, query: &FunctionQuery) -> Option<FunctionShare> {
    let column = profile.default_sample_type();
    let name = |function: FunctionId| profile.string(profile.function(function).name);
    let mut matching: HashMap<FunctionId, bool> = HashMap::new();
    // With the number of the last sample that was counted, for recursions.
    let mut sums: HashMap<&str, (i64, usize)> = HashMap::new();
    for (number, sample) in profile.samples().enumerate() {
        let value = sample.values.get(column).copied().unwrap_or(0);
        let (locations, lines_max) = match query.counted {
            Counted::Own => (1, 1),
            Counted::WithCallees => (usize::MAX, usize::MAX),
        };
        for location in sample.stack.iter().take(locations) {
            for line in profile.lines(*location).iter().take(lines_max) {
                let is_wanted = || name(line.function).to_lowercase().contains(&query.part);
                if !*matching.entry(line.function).or_insert_with(is_wanted) {
                    continue;
                }
                let (sum, last) = sums.entry(name(line.function)).or_insert((0, usize::MAX));
                if *last != number {
                    (*sum, *last) = (sum.saturating_add(value), number);
                }
            }
        }
    }
    let most = sums.into_iter().max_by(|(a, (x, _)), (b, (y, _))| x.cmp(y).then_with(|| b.cmp(a)));
    let total = profile.total(column);
    most.map(|(name, (value, _))| FunctionShare { name: name.to_owned(), value, total })
}
