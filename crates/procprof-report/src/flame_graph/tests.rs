//! Flame graphs of small profiles.
