//! Hosts whose processes are profiled from outside by a host agent (`procprof node`), which sends what it records.

pub mod protocol;
