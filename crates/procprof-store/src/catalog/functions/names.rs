//! The dictionary of names: `names` in the database, and the ids that were used lately in memory.

use foldhash::{HashMap, HashSet};
use rusqlite::{Connection, OptionalExtension, params};

/// Names kept in memory at most, and their bytes.
const KEPT_MAX: usize = 100_000;
const KEPT_BYTES_MAX: usize = 16 << 20;
/// New names after which those that no profile has any more are removed, if they are also half as many as there were.
const NEW_MAX: u64 = 10_000;

/// What the writer of the catalog knows of the dictionary.
#[derive(Debug, Default)]
pub(crate) struct Names {
    ids: HashMap<Box<str>, u32>,
    bytes: usize,
    /// The ids used since a removal of names began; `None` when none is under way.
    used: Option<HashSet<u32>>,
    /// Names that came since the last removal, and those that it left; `None` before the first.
    came: Option<(u64, u64)>,
}

impl Names {
    /// The id of a name, which is added if it is new.
    pub(super) fn id(&mut self, connection: &Connection, name: &str) -> rusqlite::Result<u32> {
        let id = match self.ids.get(name) {
            Some(id) => *id,
            None => {
                let known = connection.prepare_cached("SELECT id FROM names WHERE name = ?")?;
                let id = match one(known, name)? {
                    Some(id) => id,
                    None => self.add(connection, name)?,
                };
                self.keep(name, id);
                id
            }
        };
        if let Some(used) = &mut self.used {
            used.insert(id);
        }
        Ok(id)
    }

    fn add(&mut self, connection: &Connection, name: &str) -> rusqlite::Result<u32> {
        connection.prepare_cached("INSERT INTO names (name) VALUES (?)")?.execute([name])?;
        if let Some((came, _)) = &mut self.came {
            *came += 1;
        }
        let id = connection.last_insert_rowid();
        u32::try_from(id).map_err(|_| rusqlite::Error::IntegralValueOutOfRange(0, id))
    }

    fn keep(&mut self, name: &str, id: u32) {
        if self.ids.len() >= KEPT_MAX || self.bytes >= KEPT_BYTES_MAX {
            self.forget();
        }
        self.bytes += name.len();
        self.ids.insert(name.into(), id);
    }

    /// Forgets ids that the database may not have.
    pub(in crate::catalog) fn forget(&mut self) {
        self.ids.clear();
        self.bytes = 0;
    }

    /// Begins a removal, if there may be enough names to remove.
    pub(in crate::catalog) fn begin_removal(&mut self, connection: &Connection) -> rusqlite::Result<bool> {
        let (came, left) = match self.came {
            Some(counts) => counts,
            None => (connection.query_row("SELECT count(*) FROM names", [], |row| row.get::<_, u32>(0))?.into(), 0),
        };
        self.came = Some((came, left));
        let begins = self.used.is_none() && came >= NEW_MAX.max(left / 2);
        if begins {
            self.used = Some(HashSet::default());
        }
        Ok(begins)
    }

    /// Ends a removal: removes the names that were not in use when it had begun, and not since.
    pub(in crate::catalog) fn remove_all_but(
        &mut self,
        connection: &Connection,
        marked: &Marked,
    ) -> rusqlite::Result<()> {
        let used = self.used.take().unwrap_or_default();
        self.forget();
        let (mut gone, mut left) = (Vec::new(), 0);
        {
            let mut statement = connection.prepare("SELECT id FROM names")?;
            let mut rows = statement.query([])?;
            while let Some(row) = rows.next()? {
                let id: u32 = row.get(0)?;
                if marked.has(id) || used.contains(&id) {
                    left += 1;
                } else {
                    gone.push(id);
                }
            }
        }
        let mut delete = connection.prepare("DELETE FROM names WHERE id = ?")?;
        for id in gone {
            delete.execute([id])?;
        }
        self.came = Some((0, left));
        Ok(())
    }

    /// Gives a removal up.
    pub(super) fn end_removal(&mut self) {
        self.used = None;
        self.forget();
    }
}

fn one(mut statement: rusqlite::CachedStatement<'_>, name: &str) -> rusqlite::Result<Option<u32>> {
    statement.query_row(params![name], |row| row.get(0)).optional()
}

/// A set of ids.
#[derive(Debug, Default)]
pub(in crate::catalog) struct Marked(Vec<u64>);

impl Marked {
    pub(super) fn add(&mut self, id: u32) {
        let word = id as usize / 64;
        if word >= self.0.len() {
            self.0.resize(word + 1, 0);
        }
        self.0[word] |= 1 << (id % 64);
    }

    pub(super) fn has(&self, id: u32) -> bool {
        self.0.get(id as usize / 64).is_some_and(|word| word >> (id % 64) & 1 == 1)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
