//! Profiles that are being written: retention counts them, and no id is written twice at once.

use std::collections::BTreeMap;
use std::sync::Mutex;

use procprof_profile::{Nanos, ProfileId, ProfileType};

use crate::mutex::lock;
use crate::{Error, Hold, Item, ItemKey, Result};

/// All profiles being written.
#[derive(Debug, Default)]
pub(crate) struct InFlight {
    items: Mutex<BTreeMap<ProfileId, Item>>,
}

/// One of them; it ends when this is dropped.
pub(crate) struct Flight<'a> {
    all: &'a InFlight,
    id: ProfileId,
}

impl InFlight {
    pub(crate) fn enter(
        &self,
        id: ProfileId,
        node: u64,
        kind: &ProfileType,
        completed: Nanos,
        bytes: u64,
    ) -> Result<Flight<'_>> {
        let mut items = lock(&self.items);
        if items.contains_key(&id) {
            return Err(Error::Exists { id });
        }
        let (profile_type, hold) = (Some(kind.clone()), Some(Hold::BeingWritten));
        items.insert(id, Item { key: ItemKey::Profile(id), node: Some(node), profile_type, completed, bytes, hold });
        Ok(Flight { all: self, id })
    }

    pub(crate) fn items(&self) -> Vec<Item> {
        lock(&self.items).values().cloned().collect()
    }
}

impl Drop for Flight<'_> {
    fn drop(&mut self) {
        lock(&self.all.items).remove(&self.id);
    }
}
