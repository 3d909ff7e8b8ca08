//! The JSON API.

pub(super) mod archive;
pub(super) mod captures;
pub(super) mod heap;
pub(super) mod hosts;
pub(super) mod nodes;
pub(super) mod profiles;
pub(super) mod push;
pub(super) mod servers;
pub(super) mod state;
pub(super) mod symbols;
