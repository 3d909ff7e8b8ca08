//! Bytes that several answers give: in memory once, for as long as any of them holds them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use bytes::Bytes;
use procprof_profile::ProfileId;

/// Of a profile, or of a range without one, what: a question, or the name of a file.
type Key = (Option<ProfileId>, String);

/// The bytes that are in use at this moment.
#[derive(Default)]
pub(crate) struct SharedBytes(Mutex<HashMap<Key, Weak<Vec<u8>>>>);

/// Bytes of which others may hold the same.
struct Held(Arc<Vec<u8>>);

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl SharedBytes {
    /// The bytes that are in use elsewhere, or else those that are read now; `None` if there are none.
    pub(crate) fn get<E>(
        &self,
        key: Key,
        read: impl FnOnce() -> Result<Option<Vec<u8>>, E>,
    ) -> Result<Option<Bytes>, E> {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(bytes) = held.get(&key).and_then(Weak::upgrade) {
            return Ok(Some(Bytes::from_owner(Held(bytes))));
        }
        // Read under the lock: of concurrent callers, one reads.
        let Some(bytes) = read()?.map(Arc::new) else { return Ok(None) };
        held.retain(|_, bytes| bytes.strong_count() > 0);
        held.insert(key, Arc::downgrade(&bytes));
        Ok(Some(Bytes::from_owner(Held(bytes))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_is_read_once() {
        let shared = SharedBytes::default();
        let key = |name: &str| (Some(ProfileId(7)), name.to_owned());
        let get = |name: &str, read: Option<&str>| {
            let bytes = shared.get(key(name), || Ok::<_, ()>(read.map(|text| text.as_bytes().to_vec())));
            bytes.unwrap()
        };
        let first = get("top", Some("one")).unwrap();
        let second = get("top", Some("two")).unwrap();
        assert_eq!((&first[..], first.as_ptr()), (&b"one"[..], second.as_ptr()));
        assert_eq!(get("tree", None), None);
        assert!(shared.get(key("tree"), || Err("unreadable")).is_err());
        drop((first, second));
        assert_eq!(get("top", Some("two")).unwrap(), "two", "nobody held it any more");
        assert_eq!(shared.0.lock().unwrap().len(), 1, "what nobody holds is forgotten");
    }
}
