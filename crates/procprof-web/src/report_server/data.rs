//! The data of the flame graph: call trees of the profile by their options, a few of which are kept, and the answers
//! about them.

use std::borrow::Cow;
use std::sync::Arc;

use axum::extract::{Path, RawQuery, State};
use axum::response::Response;
use procprof_core::render::{AskedTree, KeptTrees};
use procprof_report::Options;
use procprof_report::viewer::Tree;

use super::{Pairs, View, address, draw};
use crate::answer::Document;
use crate::params::Params;
use crate::problem::ApiResult;
use crate::trees::Question;

/// Bytes of the trees that are kept.
const KEPT_BYTES_MAX: u64 = 512 << 20;

/// The trees made so far.
#[derive(Default)]
pub(super) struct Trees {
    kept: KeptTrees,
    /// Held by the one that makes a tree.
    making: tokio::sync::Mutex<()>,
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
    let key = address("", "", &pairs);
    let tree = tree(&view, &pairs, &key).await?;
    let answer = draw::apart(&view, move |view, stop| {
        let asked = AskedTree { tree, key: &key, kept: &view.trees.kept, kept_bytes_max: KEPT_BYTES_MAX };
        question.answer(&asked, &draw::budget(stop))
    });
    let answer = answer.await?;
    Document { bytes: answer.bytes, media_type: answer.media_type, file_name: None, unchanging: false }.answer()
}

async fn tree(view: &Arc<View>, pairs: &Pairs, key: &str) -> ApiResult<Arc<Tree>> {
    let options = draw::options(pairs)?;
    if let Some(tree) = view.trees.kept.get(key) {
        return Ok(tree);
    }
    let _making = view.trees.making.lock().await;
    if let Some(tree) = view.trees.kept.get(key) {
        return Ok(tree);
    }
    let made = draw::apart(view, move |view, stop| {
        let (profile, base) = match &view.viewer.compared {
            Some((profile, base)) => (profile, Some(base)),
            None => (&view.viewer.profile, None),
        };
        let options = Options { budget: draw::budget(stop), ..options };
        Tree::new(Cow::Borrowed(profile), base.map(Cow::Borrowed), &options)
    });
    let tree = Arc::new(made.await?);
    view.trees.kept.keep(key.to_owned(), &tree, KEPT_BYTES_MAX);
    Ok(tree)
}
