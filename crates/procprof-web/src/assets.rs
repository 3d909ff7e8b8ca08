//! Style and script of our pages, compiled in, under names that change with their content.

use axum::extract::Path;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use procprof_report::viewer;

use super::answer::takes_gzip;
use super::problem::{ApiResult, Problem};
use super::texts::Language;

struct Asset {
    stem: &'static str,
    extension: &'static str,
    media_type: &'static str,
    content: &'static str,
    /// The same compressed; without it, it is compressed as it is sent.
    gzip: Option<&'static [u8]>,
}

const STYLE: Asset = Asset {
    stem: "style",
    extension: "css",
    media_type: "text/css; charset=utf-8",
    content: include_str!("assets/style.css"),
    gzip: None,
};
const VIEWER_STYLE: Asset = Asset {
    stem: "viewer",
    extension: "css",
    media_type: "text/css; charset=utf-8",
    content: include_str!("assets/viewer.css"),
    gzip: None,
};
const SCRIPT: Asset = Asset {
    stem: "page",
    extension: "js",
    media_type: "text/javascript; charset=utf-8",
    content: include_str!("assets/page.js"),
    gzip: None,
};
const ICON: Asset = Asset {
    stem: "icon",
    extension: "svg",
    media_type: "image/svg+xml",
    content: include_str!("assets/icon.svg"),
    gzip: None,
};
/// By language.
const FLAME_SCRIPTS: [Asset; Language::ALL.len()] = {
    let [english, japanese, chinese] = viewer::scripts();
    [flame(english), flame(japanese), flame(chinese)]
};
const FLAME_STYLE: Asset = Asset {
    stem: "flame",
    extension: "css",
    media_type: "text/css; charset=utf-8",
    content: viewer::style().text,
    gzip: Some(viewer::style().gzip),
};

const fn flame(script: viewer::Asset) -> Asset {
    Asset {
        stem: "flame",
        extension: "js",
        media_type: "text/javascript; charset=utf-8",
        content: script.text,
        gzip: Some(script.gzip),
    }
}

impl Asset {
    fn name(&self) -> String {
        format!("{}-{:08x}.{}", self.stem, hash(self.content), self.extension)
    }
}

/// FNV-1a.
fn hash(content: &str) -> u32 {
    content.bytes().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

/// Address of the style sheet.
pub(super) fn style() -> String {
    format!("/assets/{}", STYLE.name())
}

/// Address of the style sheet that the viewer of files has besides.
pub(super) fn viewer_style() -> String {
    format!("/assets/{}", VIEWER_STYLE.name())
}

/// Address of the script.
pub(super) fn script() -> String {
    format!("/assets/{}", SCRIPT.name())
}

/// Address of the icon.
pub(super) fn icon() -> String {
    format!("/assets/{}", ICON.name())
}

/// Address of the flame graph viewer's script in the language of the page.
pub(super) fn flame_script() -> String {
    format!("/assets/{}", FLAME_SCRIPTS[Language::current() as usize].name())
}

/// Address of the flame graph viewer's style sheet.
pub(super) fn flame_style() -> String {
    format!("/assets/{}", FLAME_STYLE.name())
}

/// The icon where browsers look for it that show what is no page: an answer of the API, the metrics.
pub(super) async fn serve_icon() -> Response {
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static(ICON.media_type)),
        (header::CACHE_CONTROL, HeaderValue::from_static("public, max-age=86400")),
    ];
    (headers, ICON.content).into_response()
}

pub(super) async fn serve(Path(file): Path<String>, asked: HeaderMap) -> ApiResult<Response> {
    let assets = [STYLE, VIEWER_STYLE, SCRIPT, ICON, FLAME_STYLE];
    let asset = assets.into_iter().chain(FLAME_SCRIPTS).find(|asset| asset.name() == file);
    let asset = asset.ok_or_else(|| Problem::not_found("no such asset"))?;
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static(asset.media_type)),
        (header::CACHE_CONTROL, HeaderValue::from_static("public, max-age=31536000, immutable")),
        (header::VARY, HeaderValue::from_static("accept-encoding")),
    ];
    if let Some(gzip) = asset.gzip.filter(|_| takes_gzip(&asked)) {
        return Ok((headers, [(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"))], gzip).into_response());
    }
    Ok((headers, asset.content).into_response())
}
