//! Objects in memory, and what happens at one operation on them: an end, or others that come in between.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use procprof_archive::{Error, Object, Objects, Result};

/// Objects in memory.
#[derive(Debug, Default)]
pub(crate) struct Memory(pub(crate) Mutex<BTreeMap<String, Vec<u8>>>);

impl Memory {
    /// A copy that goes its own way.
    pub(crate) fn copy(&self) -> Arc<Memory> {
        Arc::new(Memory(Mutex::new(self.0.lock().unwrap().clone())))
    }

    /// Replaces all objects by these.
    pub(crate) fn set(&self, objects: &[(String, Vec<u8>)]) {
        *self.0.lock().unwrap() = objects.iter().cloned().collect();
    }

    pub(crate) fn all(&self) -> Vec<(String, Vec<u8>)> {
        self.0.lock().unwrap().clone().into_iter().collect()
    }

    pub(crate) fn paths(&self) -> Vec<String> {
        self.0.lock().unwrap().keys().cloned().collect()
    }
}

impl Objects for Memory {
    fn put(&self, path: &str, content: &[u8]) -> Result<()> {
        self.0.lock().unwrap().insert(path.to_owned(), content.to_vec());
        Ok(())
    }

    fn create(&self, path: &str, content: &[u8]) -> Result<bool> {
        let mut objects = self.0.lock().unwrap();
        let is_free = !objects.contains_key(path);
        objects.entry(path.to_owned()).or_insert_with(|| content.to_vec());
        Ok(is_free)
    }

    fn size(&self, path: &str) -> Result<u64> {
        let objects = self.0.lock().unwrap();
        let found = objects.get(path).map(|bytes| bytes.len() as u64);
        found.ok_or_else(|| Error::NotFound { object: path.to_owned() })
    }

    fn read(&self, path: &str, start: u64, length: usize) -> Result<Vec<u8>> {
        let objects = self.0.lock().unwrap();
        let bytes = objects.get(path).ok_or_else(|| Error::NotFound { object: path.to_owned() })?;
        let bytes = bytes.get(start as usize..).and_then(|bytes| bytes.get(..length));
        bytes.map(<[u8]>::to_vec).ok_or_else(|| Error::NotFound { object: format!("{path}: a range") })
    }

    fn list(&self, below: &str) -> Result<Vec<Object>> {
        let objects = self.0.lock().unwrap();
        let found =
            objects.iter().filter(|(path, _)| path.strip_prefix(below).is_some_and(|rest| rest.starts_with('/')));
        Ok(found.map(|(path, bytes)| Object { path: path.clone(), bytes: bytes.len() as u64 }).collect())
    }

    fn delete(&self, path: &str) -> Result<()> {
        self.0.lock().unwrap().remove(path);
        Ok(())
    }
}

/// What happens at an operation.
pub(crate) enum Event {
    /// Neither it nor any after it is executed.
    EndBefore,
    /// It is executed, its answer lost; none after it is.
    EndAfter,
    /// This comes before it.
    Before(Box<dyn Fn() + Send + Sync>),
}

/// Objects with an event at one operation.
pub(crate) struct Eventful {
    inner: Arc<Memory>,
    at: usize,
    event: Event,
    count: AtomicUsize,
}

impl fmt::Debug for Eventful {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "eventful at {}", self.at)
    }
}

impl Eventful {
    pub(crate) fn new(inner: &Arc<Memory>, at: usize, event: Event) -> Arc<Eventful> {
        Arc::new(Eventful { inner: Arc::clone(inner), at, event, count: AtomicUsize::new(0) })
    }

    /// The number of operations so far.
    pub(crate) fn count(&self) -> usize {
        self.count.load(Ordering::SeqCst)
    }

    fn run<T>(&self, operation: impl FnOnce(&Memory) -> Result<T>) -> Result<T> {
        let ended = || {
            let source = std::io::Error::other("killed");
            Err(Error::Files(procprof_files::Error::Io { doing: "reach", path: "storage".into(), source }))
        };
        let number = self.count.fetch_add(1, Ordering::SeqCst);
        match &self.event {
            Event::EndBefore if number >= self.at => ended(),
            Event::EndAfter if number > self.at => ended(),
            Event::EndAfter if number == self.at => {
                operation(&self.inner)?;
                ended()
            }
            Event::Before(event) if number == self.at => {
                event();
                operation(&self.inner)
            }
            _ => operation(&self.inner),
        }
    }
}

impl Objects for Eventful {
    fn put(&self, path: &str, content: &[u8]) -> Result<()> {
        self.run(|inner| inner.put(path, content))
    }

    fn create(&self, path: &str, content: &[u8]) -> Result<bool> {
        self.run(|inner| inner.create(path, content))
    }

    fn size(&self, path: &str) -> Result<u64> {
        self.run(|inner| inner.size(path))
    }

    fn read(&self, path: &str, start: u64, length: usize) -> Result<Vec<u8>> {
        self.run(|inner| inner.read(path, start, length))
    }

    fn list(&self, below: &str) -> Result<Vec<Object>> {
        self.run(|inner| inner.list(below))
    }

    fn delete(&self, path: &str) -> Result<()> {
        self.run(|inner| inner.delete(path))
    }
}
