//! What a page does, as statements and commands that do the same.

use maud::{Markup, html};

use super::wanted::command;
use crate::texts::{Text, t};

/// A statement or a command.
pub(super) struct Command {
    label: Text,
    text: String,
}

impl Command {
    /// A statement for the SQL server.
    pub(super) fn sql(text: String) -> Command {
        Command { label: t!("SQL"), text }
    }

    /// A command line.
    pub(super) fn shell(text: String) -> Command {
        Command { label: t!("Command"), text }
    }
}

/// A text as a literal of MySQL, in which a backslash would escape what follows it.
pub(super) fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "''"))
}

/// The commands, folded.
pub(super) fn commands(commands: &[Command]) -> Markup {
    html! {
        details class="commands" data-keep {
            summary { (t!("As SQL and commands")) }
            @for row in commands { p class="muted" { (row.label) } (command(&row.text)) }
        }
    }
}
