//! Formats of values, times, names and files.

pub(crate) mod amount;
pub(crate) mod frame;
pub(crate) mod labels;
pub(crate) mod markup;
pub(crate) mod measure;
pub(crate) mod moment;
pub(crate) mod palette;
pub(crate) mod place;
pub(crate) mod runtime;
pub(crate) mod text;
