//! The heading of a report: the profile and the shown part of it.

pub(crate) mod headline;
pub(crate) mod subject;
