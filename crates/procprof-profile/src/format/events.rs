//! Profiles of several kinds of events, decoded side by side: for formats whose files mix or list them.

use super::Event;
use crate::{Error, Profile, Result};

/// Most kinds of events that one file may have.
pub(super) const EVENTS_MAX: usize = 1000;

/// The default profile: the first. A warning names the others.
///
/// # Errors
/// [`Error::Empty`] when there are none.
pub(super) fn first(format: &str, events: Vec<Event>, warnings: &mut Vec<String>) -> Result<Profile> {
    if events.len() > 1 {
        let names: Vec<String> = events.iter().take(10).map(|event| format!("{:?}", event.name)).collect();
        let others = if events.len() > 10 { ", …" } else { "" };
        warnings.push(format!(
            "{format}: {} kinds of events ({}{others}); this is the first",
            events.len(),
            names.join(", ")
        ));
    }
    events.into_iter().next().map(|event| event.profile).ok_or(Error::Empty)
}

/// A name that none of the events has: the wanted one, with a number if need be.
pub(super) fn distinct(events: &[Event], wanted: &str) -> String {
    let is_taken = |name: &str| events.iter().any(|event| event.name == name);
    let mut numbered = (2..).map(|number| format!("{wanted} ({number})"));
    if is_taken(wanted) { numbered.find(|name| !is_taken(name)).unwrap_or_default() } else { wanted.to_owned() }
}
