//! Call trees for the viewer: made in the same turns as reports, one at a time for the same question, and kept while
//! they fit into `tree_cache_bytes_max`.
//!
//! A tree that does not fit is made, answers its question, and is dropped. The key of a tree has the sizes of its
//! profiles, so that one that got names meanwhile has another tree.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::future::{BoxFuture, FutureExt, Shared};
use procprof_report::viewer::Tree;
use procprof_report::{Budget, Options};

use super::{Limited, RenderError, Renderer, Requester, Subject, options_text};

/// The name of a tree in errors.
const TREE: &str = "the call tree";
/// Most trees that are kept, however small.
const KEPT_MAX: usize = 1024;

type Making = Shared<BoxFuture<'static, Result<Arc<Tree>, RenderError>>>;

/// The trees that are kept, and those that are being made.
#[derive(Default)]
pub(super) struct Trees {
    kept: Mutex<Kept>,
    under_way: Mutex<HashMap<String, Making>>,
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
    bytes: u64,
    last: u64,
}

impl Kept {
    fn get(&mut self, key: &str) -> Option<Arc<Tree>> {
        self.clock += 1;
        let used = self.trees.get_mut(key)?;
        used.last = self.clock;
        Some(Arc::clone(&used.tree))
    }

    /// Keeps a tree, and drops those that were not used for longest until all fit.
    fn keep(&mut self, key: String, tree: &Arc<Tree>, most: u64) {
        let bytes = tree.memory_bytes() + key.len() as u64;
        if bytes > most {
            return;
        }
        self.clock += 1;
        let used = Used { tree: Arc::clone(tree), bytes, last: self.clock };
        self.bytes += bytes;
        if let Some(old) = self.trees.insert(key, used) {
            self.bytes -= old.bytes;
        }
        while self.bytes > most || self.trees.len() > KEPT_MAX {
            let Some(oldest) = self.trees.iter().min_by_key(|(_, used)| used.last).map(|(key, _)| key.clone()) else {
                break;
            };
            self.bytes -= self.trees.remove(&oldest).map_or(0, |used| used.bytes);
        }
    }
}

impl Renderer {
    /// Answers a question about the call tree of a subject with these options of reports; the tree is kept for the next
    /// one.
    ///
    /// # Errors
    /// See [`RenderError`].
    pub async fn ask_tree<T: Send + 'static>(
        self: &Arc<Self>,
        subject: &Subject,
        pairs: &[(&str, &str)],
        requester: &Requester,
        question: impl FnOnce(&Tree, &Budget) -> procprof_report::Result<T> + Send + 'static,
    ) -> Result<T, RenderError> {
        subject.check()?;
        let options =
            Options::parse(pairs.iter().copied()).map_err(|error| RenderError::Question(error.to_string()))?;
        let key = format!("{} {}{}", subject.first().id, subject.key(), options_text(pairs)?);
        let tree = self.patiently(self.tree(subject, options, key, requester)?).await?;
        let limited = self.limited(TREE);
        let answer = tokio::task::spawn_blocking(move || {
            question(&tree, &limited.budget()).map_err(|error| limited.error(&error))
        });
        answer.await.unwrap_or_else(|_| Err(super::failed()))
    }

    /// The tree that is kept, or that is being made, or a new one.
    fn tree(
        self: &Arc<Self>,
        subject: &Subject,
        options: Options,
        key: String,
        requester: &Requester,
    ) -> Result<Making, RenderError> {
        let mut under_way = self.trees.under_way.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(kept) = self.trees.kept.lock().unwrap_or_else(PoisonError::into_inner).get(&key) {
            return Ok(async move { Ok(kept) }.boxed().shared());
        }
        if let Some(making) = under_way.get(&key) {
            return Ok(making.clone());
        }
        let own_slots = self.own_slots(requester, under_way.len())?;
        let (own, subject, own_key) = (Arc::clone(self), subject.clone(), key.clone());
        // A task of its own: it goes on when the requester goes away.
        let task = tokio::spawn(async move {
            let (limited, store) = (own.limited(TREE), Arc::clone(&own.store));
            let made = own.in_turn(&own_slots, move || make(&subject, options, &limited, &store)).await.map(Arc::new);
            // Kept before it is no longer under way, so that no other task makes it in between.
            if let Ok(tree) = &made {
                let most = own.settings.config().tree_cache_bytes_max;
                own.trees.kept.lock().unwrap_or_else(PoisonError::into_inner).keep(own_key.clone(), tree, most);
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
    subject: &Subject,
    mut options: Options,
    limited: &Limited,
    store: &procprof_store::Store,
) -> Result<Tree, RenderError> {
    options.budget = limited.budget();
    let (profile, base) = subject.load(store, &|| limited.go_on())?;
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
        kept.keep("f".to_owned(), &tree, bytes);
        assert_eq!((kept.bytes, kept.trees.len()), (bytes, 1), "the limit may have become lower");
    }
}
