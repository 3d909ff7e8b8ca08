//! `comments`: the comments of a profile, one a line, as `go tool pprof -comments` prints them.

use crate::text::one_line;
use crate::view::View;
use crate::{Options, Result, Sources};

pub(crate) fn render(view: &View<'_>, _options: &Options, _sources: &Sources) -> Result<Vec<u8>> {
    let lines = view.profile.comments().map(|comment| format!("{}\n", one_line(comment)));
    Ok(lines.collect::<String>().into_bytes())
}
