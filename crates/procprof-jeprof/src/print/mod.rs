//! The text or file that an option prints.

mod code;
mod raw;
mod symbols;

pub use code::print_code;
pub use symbols::print_symbols;

use crate::command_line::Output;
use crate::environment::Environment;
use crate::error::{Error, Result};
use crate::formats::Drawn;
use crate::load::Loaded;
use crate::view::View;

/// A view of `loaded` in the form of `output`; `None` if the graph is empty.
///
/// # Errors
/// A graph that is too large to be drawn; [`Error::NoReport`] for outputs that show no profile.
pub fn print_view(
    output: Output,
    view: &View<'_>,
    loaded: &Loaded,
    environment: &Environment,
) -> Result<Option<Vec<u8>>> {
    let log = |message: &Option<String>| message.iter().for_each(|message| (environment.log)(message));
    let drawn = |graph: Drawn| {
        log(&graph.message);
        graph.bytes
    };
    Ok(match output {
        Output::Text => Some(view.text().into_bytes()),
        Output::Collapsed => Some(view.collapsed().into_bytes()),
        Output::Callgrind => Some(view.callgrind().into_bytes()),
        Output::Raw => Some(raw::document(loaded)?),
        Output::Dot => view.dot().map(|graph| {
            log(&graph.message);
            graph.dot.into_bytes()
        }),
        Output::Svg => view.svg()?.map(drawn),
        Output::Pdf => view.pdf()?.map(drawn),
        Output::Symbols | Output::List | Output::Disassembly | Output::Interactive => return Err(Error::NoReport),
    })
}
