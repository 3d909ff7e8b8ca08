//! The text of `/proc/PID/maps`.
