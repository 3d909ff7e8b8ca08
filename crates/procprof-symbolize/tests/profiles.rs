//! Whole profiles: which file is used, what is refused, and what is said of it.
