//! The data of the flame graph: call trees of the profile by their options, a few of which are kept, and the answers
//! about them.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use axum::extract::{Path, RawQuery, State};
use axum::response::Response;
use procprof_report::Options;
use procprof_report::viewer::Tree;

use super::{Pairs, View, address, draw};
use crate::answer::Document;
use crate::params::Params;
use crate::problem::ApiResult;
use crate::trees::Question;

/// Trees kept, and their bytes at most.
const KEPT_MAX: usize = 16;
const KEPT_BYTES_MAX: u64 = 512 << 20;

/// The trees made so far.
#[derive(Default)]
pub(super) struct Trees {
    kept: Mutex<VecDeque<(String, Arc<Tree>)>>,
    /// Held by the one that makes a tree.
    making: tokio::sync::Mutex<()>,
}

impl Trees {
    fn get(&self, key: &str) -> Option<Arc<Tree>> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.iter().find(|(known, _)| known == key).map(|(_, tree)| Arc::clone(tree))
    }

    /// Keeps it, and drops those kept for longest until all fit.
    fn keep(&self, key: String, tree: Arc<Tree>) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.push_back((key, tree));
        while kept.len() > KEPT_MAX || kept.iter().map(|(_, tree)| tree.memory_bytes()).sum::<u64>() > KEPT_BYTES_MAX {
            kept.pop_front();
        }
    }
}

/// `GET /{token}/data/{kind}`: `tree`, `search`, `table` or `sandwich`
pub(super) async fn data(
    State(view): State<Arc<View>>,
    Path(kind): Path<String>,
    RawQuery(query): RawQuery,
) -> ApiResult<Response> {
    let params = Params::parse(&query.unwrap_or_default())?;
    let (question, keys) = Question::parse(&kind, &params)?;
    let given = params.except(keys).filter(|(_, value)| !value.is_empty());
    let pairs: Pairs = given.map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
    let tree = tree(&view, &pairs).await?;
    let answer = draw::apart(&view, move |_, stop| question.answer(&tree, &draw::budget(stop))).await?;
    Document { bytes: answer.bytes, media_type: answer.media_type, file_name: None, unchanging: false }.answer()
}

async fn tree(view: &Arc<View>, pairs: &Pairs) -> ApiResult<Arc<Tree>> {
    let options = draw::options(pairs)?;
    let key = address("", "", pairs);
    if let Some(tree) = view.trees.get(&key) {
        return Ok(tree);
    }
    let _making = view.trees.making.lock().await;
    if let Some(tree) = view.trees.get(&key) {
        return Ok(tree);
    }
    let made = draw::apart(view, move |view, stop| {
        Tree::new(Cow::Borrowed(&view.viewer.profile), None, &Options { budget: draw::budget(stop), ..options })
    });
    let tree = Arc::new(made.await?);
    view.trees.keep(key, Arc::clone(&tree));
    Ok(tree)
}
