//! Style and script of our pages, compiled in, under names that change with their content.

use axum::extract::Path;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};

use super::problem::{Answer, Problem};

struct Asset {
    stem: &'static str,
    extension: &'static str,
    media_type: &'static str,
    content: &'static str,
}

const STYLE: Asset =
    Asset { stem: "style", extension: "css", media_type: "text/css; charset=utf-8", content: include_str!("../assets/style.css") };
const VIEWER_STYLE: Asset =
    Asset { stem: "viewer", extension: "css", media_type: "text/css; charset=utf-8", content: include_str!("../assets/viewer.css") };
const SCRIPT: Asset =
    Asset { stem: "page", extension: "js", media_type: "text/javascript; charset=utf-8", content: include_str!("../assets/page.js") };
const ICON: Asset = Asset { stem: "icon", extension: "svg", media_type: "image/svg+xml", content: include_str!("../assets/icon.svg") };

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

pub(super) async fn serve(Path(file): Path<String>) -> Answer<Response> {
    let asset = [STYLE, VIEWER_STYLE, SCRIPT, ICON].into_iter().find(|asset| asset.name() == file);
    let asset = asset.ok_or_else(|| Problem::not_found("no such asset"))?;
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static(asset.media_type)),
        (header::CACHE_CONTROL, HeaderValue::from_static("public, max-age=31536000, immutable")),
    ];
    Ok((headers, asset.content).into_response())
}
