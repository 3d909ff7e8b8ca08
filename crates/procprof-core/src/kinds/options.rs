//! Keys that a `[[node]]` table has for one kind alone: each kind's row lists its own.

/// One key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NodeOption {
    /// The key.
    pub(crate) name: &'static str,
    /// The type of its value.
    pub(crate) option_type: OptionType,
    /// The default as written; empty for none.
    pub(crate) default: &'static str,
    /// The description of the key.
    pub(crate) help: &'static str,
}

/// The types of keys' values.
#[derive(Clone, Copy, Debug)]
pub(crate) enum OptionType {
    /// `true` or `false`.
    Boolean,
    /// A whole number in this range.
    Count(u64, u64),
    /// Text: a path, a name, a pattern.
    Text,
    /// One of these words.
    OneOf(&'static [&'static str]),
}

/// The value of a key.
#[derive(Clone, Debug, PartialEq)]
pub enum OptionValue {
    /// For [`OptionType::Boolean`].
    Boolean(bool),
    /// For [`OptionType::Count`].
    Count(u64),
    /// For [`OptionType::Text`] and [`OptionType::OneOf`].
    Text(String),
}

impl OptionType {
    /// The type in words, for the reference page.
    pub(crate) fn words(self) -> String {
        match self {
            OptionType::Boolean => "boolean".to_owned(),
            OptionType::Count(low, high) => format!("{low} to {high}"),
            OptionType::Text => "text".to_owned(),
            OptionType::OneOf(words) => words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", "),
        }
    }
}
