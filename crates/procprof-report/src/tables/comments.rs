//! `comments`: the comments of a profile, one a line, as `go tool pprof -comments` prints them.

use crate::display::text::one_line;
use crate::output::Output;
use crate::selection::view::View;
use crate::{Options, Result, Sources};

pub(crate) fn render(view: &View<'_>, _options: &Options, _sources: &Sources, out: &mut Output<'_>) -> Result<()> {
    for comment in view.profile.comments() {
        out.text.push_str(&one_line(comment));
        out.text.push('\n');
        out.drain()?;
    }
    Ok(())
}
