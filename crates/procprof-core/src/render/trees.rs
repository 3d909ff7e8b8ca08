//! Call trees for the viewer: made in the same turns as reports, one at a time for the same question, and kept while
//! they fit into `tree_cache_bytes_max`. Questions about them have turns of their own, so that a zoom does not wait for
//! a report.
//!
//! A tree that does not fit is made, answers its question, and is dropped. The key of a tree has the sizes of its
//! profiles, so that one that got names meanwhile has another tree. Callers and callees of a function are trees, too,
//! kept under the key of theirs. A tree keeps a few packed answers, those with which it is opened.

use std::collections::HashMap;
use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use futures_util::future::{BoxFuture, FutureExt, Shared};
use procprof_profile::Profile;
use procprof_profile::format::{self, Limits};
use procprof_report::viewer::Tree;
use procprof_report::{Budget, Options};

use super::{Limited, RenderError, Renderer, Subject, options_text};
use crate::shares::Requester;

/// The name of a tree in errors.
const TREE: &str = "the call tree";
/// Most trees that are kept, however small.
const KEPT_MAX: usize = 1024;
/// Most packed answers that are kept with a tree.
const PACKED_MAX: usize = 4;

type Making = Shared<BoxFuture<'static, Result<Arc<Tree>, RenderError>>>;

/// The trees that are kept, and those that are being made.
#[derive(Default)]
pub(super) struct Trees {
    kept: Arc<KeptTrees>,
    under_way: Mutex<HashMap<String, Making>>,
}

/// Trees by key, in bounded memory; those that were not used for longest make room.
#[derive(Default)]
pub struct KeptTrees(Mutex<Kept>);

impl KeptTrees {
    /// The tree of a key.
    pub fn get(&self, key: &str) -> Option<Arc<Tree>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(key)
    }

    fn packed(&self, key: &str, question: &str) -> Option<Bytes> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).packed(key, question)
    }

    fn keep_packed(&self, key: &str, question: &str, answer: &Bytes, bytes_max: u64) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).keep_packed(key, question, answer, bytes_max);
    }

    /// Drops the trees of an opened file, and parts of them.
    fn forget(&self, key: &str) {
        let opened = format!("opened {key}");
        self.0.lock().unwrap_or_else(PoisonError::into_inner).drop_those(|key| key.contains(&opened));
    }

    /// Keeps a tree, unless it is larger than `bytes_max`, the bytes of all.
    pub fn keep(&self, key: String, tree: &Arc<Tree>, bytes_max: u64) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).keep(key, tree, bytes_max);
    }
}

/// The profiles that a tree is made of.
#[derive(Clone, Debug)]
pub enum TreeSource {
    /// Stored ones.
    Stored(Subject),
    /// One that is not stored.
    Opened {
        /// Its name among all opened ones.
        key: String,
        /// gzip'd pprof.
        encoded: Bytes,
    },
}

impl From<&Subject> for TreeSource {
    fn from(subject: &Subject) -> TreeSource {
        TreeSource::Stored(subject.clone())
    }
}

impl TreeSource {
    fn key(&self) -> String {
        match self {
            TreeSource::Stored(subject) => match subject.owner() {
                Some(entry) => format!("{} {}", entry.id, subject.key()),
                None => subject.key(),
            },
            TreeSource::Opened { key, .. } => format!("opened {key}"),
        }
    }

    fn check(&self) -> Result<(), RenderError> {
        match self {
            TreeSource::Stored(subject) => subject.check(),
            TreeSource::Opened { .. } => Ok(()),
        }
    }

    fn load(
        &self,
        store: &procprof_store::Store,
        limited: &Limited,
    ) -> Result<(Profile, Option<Profile>), RenderError> {
        match self {
            TreeSource::Stored(subject) => subject.load(store, &|| limited.go_on()),
            TreeSource::Opened { encoded, .. } => {
                let decoded = format::decode(encoded, &Limits::default());
                decoded.map(|decoded| (decoded.profile, None)).map_err(|error| RenderError::Internal(error.to_string()))
            }
        }
    }
}

/// The callers or the callees of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// What calls it.
    Callers,
    /// What it calls.
    Callees,
}

/// A tree that questions are about, and where parts of it are kept.
pub struct AskedTree<'a> {
    /// The whole tree.
    pub tree: Arc<Tree>,
    /// The key of the tree.
    pub key: &'a str,
    /// The trees kept.
    pub kept: &'a KeptTrees,
    /// Bytes of all of them.
    pub kept_bytes_max: u64,
}

impl Deref for AskedTree<'_> {
    type Target = Tree;

    fn deref(&self) -> &Tree {
        &self.tree
    }
}

impl AskedTree<'_> {
    /// The callers or the callees of the function with these frames, kept for the next question.
    ///
    /// # Errors
    /// See [`Tree::callers`].
    pub fn around(&self, side: Side, frames: &[u32], budget: &Budget) -> procprof_report::Result<Arc<Tree>> {
        // In front, where no option can look like it.
        let key = format!("{side:?} {frames:?} {}", self.key);
        if let Some(kept) = self.kept.get(&key) {
            return Ok(kept);
        }
        let made = Arc::new(match side {
            Side::Callers => self.tree.callers(frames, budget)?,
            Side::Callees => self.tree.callees(frames, budget)?,
        });
        self.kept.keep(key, &made, self.kept_bytes_max);
        Ok(made)
    }

    /// The packed answer to a question, which is made once and kept as long as the tree; as often as it is asked for if
    /// the tree is not kept, or has enough of them.
    ///
    /// # Errors
    /// Those of `make`.
    pub fn packed(
        &self,
        question: &str,
        make: impl FnOnce() -> procprof_report::Result<Bytes>,
    ) -> procprof_report::Result<Bytes> {
        if let Some(kept) = self.kept.packed(self.key, question) {
            return Ok(kept);
        }
        let made = make()?;
        self.kept.keep_packed(self.key, question, &made, self.kept_bytes_max);
        Ok(made)
    }
}

#[derive(Default)]
struct Kept {
    trees: HashMap<String, Used>,
    bytes: u64,
    /// Counts uses.
    clock: u64,
}

struct Used {
    tree: Arc<Tree>,
    /// With its packed answers.
    bytes: u64,
    last: u64,
    /// Questions and answers.
    packed: Vec<(String, Bytes)>,
}

impl Kept {
    fn get(&mut self, key: &str) -> Option<Arc<Tree>> {
        self.clock += 1;
        let used = self.trees.get_mut(key)?;
        used.last = self.clock;
        Some(Arc::clone(&used.tree))
    }

    fn drop_those(&mut self, is_dropped: impl Fn(&str) -> bool) {
        let bytes = &mut self.bytes;
        self.trees.retain(|key, used| {
            let stays = !is_dropped(key);
            *bytes -= if stays { 0 } else { used.bytes };
            stays
        });
    }

    /// Keeps a tree, and drops those that were not used for longest until all fit.
    fn keep(&mut self, key: String, tree: &Arc<Tree>, most: u64) {
        let bytes = tree.memory_bytes() + key.len() as u64;
        if bytes > most {
            return;
        }
        self.clock += 1;
        let used = Used { tree: Arc::clone(tree), bytes, last: self.clock, packed: Vec::new() };
        self.bytes += bytes;
        if let Some(old) = self.trees.insert(key, used) {
            self.bytes -= old.bytes;
        }
        self.make_room(most);
    }

    fn packed(&self, key: &str, question: &str) -> Option<Bytes> {
        let packed = &self.trees.get(key)?.packed;
        packed.iter().find(|(kept, _)| kept == question).map(|(_, answer)| answer.clone())
    }

    /// Keeps an answer with its tree, unless that is not kept or both do not fit.
    fn keep_packed(&mut self, key: &str, question: &str, answer: &Bytes, most: u64) {
        let bytes = (answer.len() + question.len()) as u64;
        let Some(used) = self.trees.get_mut(key) else { return };
        let is_known = used.packed.iter().any(|(kept, _)| kept == question);
        if is_known || used.packed.len() >= PACKED_MAX || used.bytes + bytes > most {
            return;
        }
        used.packed.push((question.to_owned(), answer.clone()));
        used.bytes += bytes;
        self.bytes += bytes;
        self.make_room(most);
    }

    fn make_room(&mut self, most: u64) {
        while self.bytes > most || self.trees.len() > KEPT_MAX {
            let Some(oldest) = self.trees.iter().min_by_key(|(_, used)| used.last).map(|(key, _)| key.clone()) else {
                break;
            };
            self.bytes -= self.trees.remove(&oldest).map_or(0, |used| used.bytes);
        }
    }
}

impl Renderer {
    /// Drops the trees of opened profiles whose keys contain this, which no other key does.
    pub fn forget_opened(&self, key: &str) {
        self.trees.kept.forget(key);
    }

    /// Answers a question about the call tree of a subject or an opened profile with these options of reports; the tree
    /// is kept for the next one.
    ///
    /// # Errors
    /// See [`RenderError`].
    pub async fn ask_tree<T: Send + 'static>(
        self: &Arc<Self>,
        source: impl Into<TreeSource>,
        pairs: &[(&str, &str)],
        requester: &Requester,
        question: impl FnOnce(&AskedTree<'_>, &Budget) -> procprof_report::Result<T> + Send + 'static,
    ) -> Result<T, RenderError> {
        let source = source.into();
        source.check()?;
        let options =
            Options::parse(pairs.iter().copied()).map_err(|error| RenderError::Question(error.to_string()))?;
        let key = format!("{}{}", source.key(), options_text(pairs)?);
        let tree = self.patiently(self.tree(source, options, key.clone(), requester)?).await?;
        let turn = self.enter(&self.answers, requester)?;
        let (limited, kept) = (self.limited(TREE), Arc::clone(&self.trees.kept));
        let answer = self.in_turn(turn, move || {
            let kept_bytes_max = limited.config.tree_cache_bytes_max;
            let asked = AskedTree { tree, key: &key, kept: &kept, kept_bytes_max };
            question(&asked, &limited.budget()).map_err(|error| limited.error(&error))
        });
        self.patiently(answer).await
    }

    /// The tree that is kept, or that is being made, or a new one.
    fn tree(
        self: &Arc<Self>,
        source: TreeSource,
        options: Options,
        key: String,
        requester: &Requester,
    ) -> Result<Making, RenderError> {
        let mut under_way = self.trees.under_way.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(kept) = self.trees.kept.get(&key) {
            return Ok(async move { Ok(kept) }.boxed().shared());
        }
        if let Some(making) = under_way.get(&key) {
            return Ok(making.clone());
        }
        let turn = self.enter(&self.turns, requester)?;
        let (own, own_key) = (Arc::clone(self), key.clone());
        // A task of its own: it goes on when the requester goes away.
        let task = tokio::spawn(async move {
            let (limited, store) = (own.limited(TREE), Arc::clone(&own.store));
            let made = own.in_turn(turn, move || make(&source, options, &limited, &store)).await;
            own.metrics.renders.inc();
            let made = made.map(Arc::new);
            // Kept before it is no longer under way, so that no other task makes it in between.
            if let Ok(tree) = &made {
                let most = own.settings.config().tree_cache_bytes_max;
                own.trees.kept.keep(own_key.clone(), tree, most);
            }
            own.trees.under_way.lock().unwrap_or_else(PoisonError::into_inner).remove(&own_key);
            made
        });
        let making = async move { task.await.unwrap_or_else(|_| Err(super::failed())) }.boxed().shared();
        under_way.insert(key, making.clone());
        Ok(making)
    }
}

fn make(
    source: &TreeSource,
    mut options: Options,
    limited: &Limited,
    store: &procprof_store::Store,
) -> Result<Tree, RenderError> {
    options.budget = limited.budget();
    let (profile, base) = source.load(store, limited)?;
    let cow = std::borrow::Cow::Owned;
    Tree::new(cow(profile), base.map(cow), &options).map_err(|error| limited.error(&error))
}

#[cfg(test)]
mod tests {
    use procprof_profile::ProfileBuilder;

    use super::*;

    fn tree() -> Arc<Tree> {
        let mut builder = ProfileBuilder::new(&[("samples", "count")]);
        let frame = builder.frame("main");
        builder.sample(&[frame], &[1], &[]);
        let profile = builder.finish().unwrap();
        Arc::new(Tree::new(std::borrow::Cow::Owned(profile), None, &Options::default()).unwrap())
    }

    #[test]
    fn what_was_not_used_for_longest_is_dropped_first() {
        let (tree, mut kept) = (tree(), Kept::default());
        let bytes = tree.memory_bytes() + 1;
        for key in ["a", "b", "c"] {
            kept.keep(key.to_owned(), &tree, 3 * bytes);
        }
        assert!(kept.get("a").is_some());
        kept.keep("d".to_owned(), &tree, 3 * bytes);
        assert_eq!(["a", "b", "c", "d"].map(|key| kept.get(key).is_some()), [true, false, true, true]);
        assert_eq!(kept.bytes, 3 * bytes);
        kept.keep("c".to_owned(), &tree, 3 * bytes);
        assert_eq!((kept.bytes, kept.trees.len()), (3 * bytes, 3), "a tree is counted once");
        kept.keep("e".to_owned(), &tree, bytes - 1);
        assert!(kept.get("e").is_none() && kept.get("d").is_some(), "what does not fit drops no others");
        kept.keep("opened f".to_owned(), &tree, 4 * bytes);
        let before = (kept.bytes, kept.trees.len());
        kept.drop_those(|key| key.starts_with("opened f"));
        assert_eq!((kept.bytes, kept.trees.len()), (before.0 - bytes - 7, before.1 - 1));
        kept.keep("f".to_owned(), &tree, bytes);
        assert_eq!((kept.bytes, kept.trees.len()), (bytes, 1), "the limit may have become lower");
    }

    #[test]
    fn packed_answers_are_kept_with_their_tree() {
        let (tree, kept) = (tree(), KeptTrees::default());
        let bytes = tree.memory_bytes() + 1;
        let most = bytes + 100;
        let asked = |key| AskedTree { tree: Arc::clone(&tree), key, kept: &kept, kept_bytes_max: most };
        let answer = |key, question: &str, answer: &'static [u8]| {
            asked(key).packed(question, || Ok(Bytes::from_static(answer))).unwrap()
        };
        assert_eq!(answer("a", "q", b"first"), "first");
        assert_eq!(answer("a", "q", b"second"), "second", "the tree is not kept");
        kept.keep("a".to_owned(), &tree, most);
        assert_eq!(answer("a", "q", b"first"), "first");
        assert_eq!(answer("a", "q", b"second"), "first");
        assert_eq!(answer("a", "large", &[0; 100])[..], [0; 100]);
        assert_eq!(kept.0.lock().unwrap().bytes, bytes + 6, "what does not fit is not kept");
        for question in ["1", "2", "3", "4", "5"] {
            answer("a", question, b"");
        }
        assert_eq!(kept.0.lock().unwrap().trees["a"].packed.len(), PACKED_MAX);
        kept.keep("b".to_owned(), &tree, most);
        assert_eq!(kept.0.lock().unwrap().bytes, bytes, "they go with their tree");
    }
}
