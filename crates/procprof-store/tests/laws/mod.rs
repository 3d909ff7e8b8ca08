//! Tests for every storage backend in the table: the laws of [`Blobs`], and the promises of the store.

mod blobs;
mod memory;
mod store;

use std::path::Path;

use procprof_store::{BlobFolder, Blobs, Store, StoreOptions};

/// A storage backend.
pub(crate) struct Place {
    pub(crate) name: &'static str,
    /// Opens the backend of a data folder, with the blobs that were put there before.
    pub(crate) open: fn(&Path) -> Box<dyn Blobs>,
}

/// All backends. A new one is one file and one row here.
pub(crate) const PLACES: &[Place] = &[
    Place { name: "folder", open: |data| Box::new(BlobFolder::open(data.join("profiles")).unwrap()) },
    Place { name: "memory", open: |data| Box::new(memory::Memory::open(data)) },
];

/// Runs a test on each backend, each time with a data folder of its own.
fn everywhere(test: impl Fn(&Place, &Path)) {
    for place in PLACES {
        let data = tempfile::tempdir().unwrap();
        println!("at place {}", place.name);
        test(place, data.path());
    }
}

fn open(place: &Place, data: &Path) -> Store {
    Store::open_on(data, (place.open)(data), StoreOptions::default()).unwrap()
}
