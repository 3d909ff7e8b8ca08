//! Captures: one at a time of each node and type, whoever asks; the schedule and people go the same way.

mod failure;
mod jobs;
mod load;
mod own;
mod queue;
mod run;
mod schedule;

pub(crate) use failure::Failure;
pub(crate) use jobs::{Job, JobState, Jobs};
pub(crate) use own::heap_unavailable;
pub(crate) use run::{Arrived, Captures, Wish, capture};
pub(crate) use schedule::run as run_schedule;
