//! How much is stored, as of a moment ago: pages show it often, and adding up a large catalog takes longer than listing
//! a page of it.

use std::sync::Arc;
use std::time::Duration;

use procprof_store::{Store, Usage};

use crate::renewed::{ReadError, Renewed};

/// From this age on it is renewed.
const AGE_MAX: Duration = Duration::from_secs(5);

/// The sums as they were made last.
#[derive(Clone, Default)]
pub struct KnownUsage(Renewed<Usage>);

impl KnownUsage {
    /// The sums; they are renewed as [`Renewed::get`] says.
    ///
    /// # Errors
    /// The catalog cannot be read.
    pub async fn get(&self, store: &Arc<Store>) -> Result<Arc<Usage>, ReadError> {
        self.0.get(store, AGE_MAX, Store::usage).await
    }
}
