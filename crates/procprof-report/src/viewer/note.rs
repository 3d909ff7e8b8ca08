//! A note above a picture: what it leaves out or lacks, in English, with the key and the values of the same text in
//! other languages, which the script of the viewer has.

use crate::display::text::one_line;

/// What a picture leaves out or lacks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// The key of the text in the viewer's table of texts, without its group `note`.
    pub(crate) key: &'static str,
    /// In place of `{0}` and so on.
    pub(crate) values: Vec<String>,
    /// The whole text in English.
    pub(crate) english: String,
    /// Whether it is about the base of a comparison.
    pub(crate) is_of_base: bool,
    /// The option, with its value, that shows what is left out.
    pub(crate) shown_by: Option<(&'static str, &'static str)>,
}

impl Note {
    pub(crate) fn new(key: &'static str, values: &[&str], english: impl Into<String>) -> Note {
        let values = values.iter().map(|value| one_line(value).into_owned()).collect();
        Note { key, values, english: english.into(), is_of_base: false, shown_by: None }
    }

    /// The same about the base of a comparison.
    pub(crate) fn of_base(self) -> Note {
        Note { is_of_base: true, ..self }
    }

    /// In English, with the option that shows what is left out.
    pub fn text(&self) -> String {
        let of = if self.is_of_base { "Of the base: " } else { "" };
        let hint = self.shown_by.map(|(key, value)| format!("; {key}={value} shows them"));
        format!("{of}{}{}", self.english, hint.unwrap_or_default())
    }
}
