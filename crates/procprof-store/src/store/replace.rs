//! Replaces a profile by a better one of the same capture: the same samples, with names that were unknown when it was
//! stored.

use std::borrow::Cow;
use std::sync::PoisonError;

use super::{Prepared, folder, prepared};
use crate::blobs::BlobName;
use crate::catalog::NewRow;
use crate::mutex::lock;
use crate::{Entry, Error, Format, NewProfile, Result, Store};

impl Store {
    /// Replaces the content of a stored profile's file and removes renderings of the old one.
    ///
    /// Id, node, type, moment, file name and pin stay. Readers see the old or the new file, whole, also after a crash.
    ///
    /// # Errors
    /// Those of [`Store::put`]; [`Error::NotFound`] without such a profile; [`Error::Argument`] when node, type or
    /// moment differ, or the stored file was made elsewhere.
    pub fn replace(&self, profile: NewProfile<'_>) -> Result<Entry> {
        let prepared = prepared(profile, &self.options)?;
        self.healing(|| {
            let _gate = self.gate.read().unwrap_or_else(PoisonError::into_inner);
            let _removal = lock(&self.removal);
            self.replace_once(&prepared, &prepared.chunks())
        })
    }

    fn replace_once(&self, prepared: &Prepared<'_>, chunks: &[&[u8]]) -> Result<Entry> {
        let facts = &prepared.facts;
        let id = facts.meta.id.ok_or(Error::Incomplete { what: "id" })?;
        self.own_file(id)?.ok_or(Error::NotFound { id })?;
        let old = self.catalog.get(id)?.ok_or(Error::NotFound { id })?;
        let same = facts.meta.node == Some(old.node)
            && facts.meta.profile_type.as_ref() == Some(&old.profile_type)
            && facts.completed() == old.completed
            && old.format == Format::Pprof;
        if !same {
            let why = "is of another node, type, moment or format";
            return Err(Error::Argument { what: "profile", text: id.to_string(), why });
        }
        let bytes = chunks.iter().map(|chunk| chunk.len() as u64).sum();
        let _flight = self.in_flight.enter(id, old.node, &old.profile_type, old.completed, bytes)?;
        let stamp = self.blobs.replace(BlobName::new(&folder(old.node), &old.file_name)?, chunks)?;
        let functions = prepared.functions.as_ref().map(Cow::Borrowed);
        let (node, file) = (old.node, old.file_name);
        let row = NewRow { id, node, file, bytes, stamp, facts: Cow::Borrowed(facts), functions };
        self.catalog.insert(&row)?;
        lock(&self.cache).forget(id);
        lock(&self.damaged).remove(&id);
        Ok(self.with_pin(row.entry()?))
    }
}
