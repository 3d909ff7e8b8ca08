//! JSON documents as trees, for functions that change, compare or search them: `JSON_SET`, `JSON_CONTAINS`,
//! `JSON_SEARCH` and the like. Numbers, texts and keys stay as they are written.
//!
//! MariaDB reads broken documents up to the place where they break. The functions that compare and search refuse them.

use std::borrow::Cow;
use std::cell::Cell;

use super::super::call::Arguments;
use super::super::collation::folded;
use super::super::types::{Collation, SqlType};
use super::super::value::Val;
use super::json::{Step, is_document, members, quoted, steps, unquoted, value};
use super::search::{PATTERN_MAX, Pattern};
use super::{ANY, Function, document, logical, row};
use crate::mysql::{SqlError, SqlErrorKind};

/// Parts that are compared between two looks at the watch.
const LOOK: u32 = 4096;
/// Least difference of two numbers.
const NUMBERS_APART: f64 = 1e-12;

/// The functions, by name.
pub(super) const FUNCTIONS: &[Function] = &[
    row("json_set", (3, ANY), document, |call| changed(call, Change { replaces: true, adds: true })),
    row("json_insert", (3, ANY), document, |call| changed(call, Change { replaces: false, adds: true })),
    row("json_replace", (3, ANY), document, |call| changed(call, Change { replaces: true, adds: false })),
    row("json_remove", (2, ANY), document, removed),
    row("json_contains", (2, 3), logical, contains),
    row("json_contains_path", (3, ANY), logical, contains_path),
    row("json_search", (3, ANY), document, search),
];

/// A part of a document.
#[derive(Clone)]
enum Node<'a> {
    Scalar(Cow<'a, str>),
    Array(Vec<Node<'a>>),
    /// With keys as they are written, in quotes.
    Object(Vec<(Cow<'a, str>, Node<'a>)>),
}

impl<'a> Node<'a> {
    /// The tree of a valid document.
    fn parse(text: &'a str) -> Node<'a> {
        let text = text.trim();
        match text.as_bytes().first() {
            Some(b'[') => Node::Array(members(text).map(|(_, item)| Node::parse(item)).collect()),
            Some(b'{') => {
                let member = |(key, value): (Option<&'a str>, &'a str)| {
                    (Cow::Borrowed(key.unwrap_or_default()), Node::parse(value))
                };
                Node::Object(members(text).map(member).collect())
            }
            _ => Node::Scalar(Cow::Borrowed(text)),
        }
    }

    fn into_owned(self) -> Node<'static> {
        match self {
            Node::Scalar(text) => Node::Scalar(Cow::Owned(text.into_owned())),
            Node::Array(items) => Node::Array(items.into_iter().map(Node::into_owned).collect()),
            Node::Object(members) => {
                let owned = |(key, value): (Cow<'a, str>, Node<'a>)| (Cow::Owned(key.into_owned()), value.into_owned());
                Node::Object(members.into_iter().map(owned).collect())
            }
        }
    }

    /// With a blank behind each comma and colon.
    fn write(&self, out: &mut String) {
        match self {
            Node::Scalar(text) => out.push_str(text),
            Node::Array(items) => {
                out.push('[');
                for (index, item) in items.iter().enumerate() {
                    out.push_str(if index > 0 { ", " } else { "" });
                    item.write(out);
                }
                out.push(']');
            }
            Node::Object(members) => {
                out.push('{');
                for (index, (key, value)) in members.iter().enumerate() {
                    out.push_str(if index > 0 { ", " } else { "" });
                    out.push_str(key);
                    out.push_str(": ");
                    value.write(out);
                }
                out.push('}');
            }
        }
    }

    /// The part that a step leads to. What is no array is its own first item.
    fn next(&self, step: &Step) -> Option<&Node<'a>> {
        match (self, step) {
            (Node::Object(members), Step::Member(name)) => {
                members.iter().find(|(key, _)| is_key(key, name)).map(|(_, value)| value)
            }
            (Node::Array(items), Step::Item(index)) => items.get(*index),
            (_, Step::Item(0)) => Some(self),
            _ => None,
        }
    }

    fn next_mut(&mut self, step: &Step) -> Option<&mut Node<'a>> {
        match (self, step) {
            (Node::Object(members), Step::Member(name)) => {
                members.iter_mut().find(|(key, _)| is_key(key, name)).map(|(_, value)| value)
            }
            (Node::Array(items), Step::Item(index)) => items.get_mut(*index),
            (other, Step::Item(0)) if !matches!(other, Node::Array(_)) => Some(other),
            _ => None,
        }
    }

    fn find(&self, steps: &[Step]) -> Option<&Node<'a>> {
        steps.iter().try_fold(self, |part, step| part.next(step))
    }

    fn find_mut(&mut self, steps: &[Step]) -> Option<&mut Node<'a>> {
        steps.iter().try_fold(self, |part, step| part.next_mut(step))
    }
}

/// Whether a key as it is written has this name.
fn is_key(key: &str, name: &str) -> bool {
    unquoted(key).is_some_and(|own| own == name)
}

fn shown(node: &Node<'_>) -> Val<'static> {
    let mut text = String::new();
    node.write(&mut text);
    text.into()
}

/// What happens to the parts that paths lead to.
#[derive(Clone, Copy)]
struct Change {
    /// Parts that are there.
    replaces: bool,
    /// Parts that are not.
    adds: bool,
}

fn changed(call: &Arguments<'_>, change: Change) -> Result<Val<'static>, SqlError> {
    if call.len().is_multiple_of(2) {
        let text = format!("Incorrect parameter count in the call to native function '{}'", call.call.name);
        return Err(SqlError::new(SqlErrorKind::WrongCount, text));
    }
    let Some(text) = call.text(0).filter(|text| is_document(text)) else { return Ok(Val::Null) };
    let mut root = Node::parse(&text).into_owned();
    for at in (1..call.len()).step_by(2) {
        let Some(path) = call.text(at) else { return Ok(Val::Null) };
        let written = value(call, at + 1);
        let new = match is_document(&written) {
            true => Node::parse(&written).into_owned(),
            false => Node::Scalar(Cow::Owned(written)),
        };
        put(&mut root, &steps(&path)?, new, change);
    }
    Ok(shown(&root))
}

/// Puts a part at the end of a path, if its parent is there.
fn put<'a>(root: &mut Node<'a>, path: &[Step], new: Node<'a>, Change { replaces, adds }: Change) {
    let Some((last, parents)) = path.split_last() else {
        if replaces {
            *root = new;
        }
        return;
    };
    let Some(parent) = root.find_mut(parents) else { return };
    if let Some(part) = parent.next_mut(last) {
        if replaces {
            *part = new;
        }
        return;
    }
    match (last, parent) {
        _ if !adds => {}
        (Step::Member(name), Node::Object(members)) => members.push((Cow::Owned(quoted(name)), new)),
        (Step::Member(_), _) => {}
        (Step::Item(_), Node::Array(items)) => items.push(new),
        (Step::Item(_), parent) => {
            let only = std::mem::replace(parent, Node::Array(Vec::new()));
            *parent = Node::Array(vec![only, new]);
        }
    }
}

fn removed(call: &Arguments<'_>) -> Result<Val<'static>, SqlError> {
    let Some(text) = call.text(0).filter(|text| is_document(text)) else { return Ok(Val::Null) };
    let mut root = Node::parse(&text);
    for at in 1..call.len() {
        let Some(path) = call.text(at) else { return Ok(Val::Null) };
        let path = steps(&path)?;
        let Some((last, parents)) = path.split_last() else { return Ok(Val::Null) };
        match (root.find_mut(parents), last) {
            (Some(Node::Object(members)), Step::Member(name)) => {
                if let Some(place) = members.iter().position(|(key, _)| is_key(key, name)) {
                    members.remove(place);
                }
            }
            (Some(Node::Array(items)), Step::Item(index)) if *index < items.len() => drop(items.remove(*index)),
            _ => {}
        }
    }
    Ok(shown(&root))
}

/// An argument as a document; `None` for NULL.
///
/// # Errors
/// It is none.
fn whole<'c>(call: &'c Arguments<'_>, index: usize) -> Result<Option<Cow<'c, str>>, SqlError> {
    let Some(text) = call.text(index) else { return Ok(None) };
    if is_document(&text) {
        return Ok(Some(text));
    }
    let text = format!("{}: a text that is no JSON document (argument {}) is not supported", call.call.name, index + 1);
    Err(SqlError::new(SqlErrorKind::NotSupported, text))
}

fn contains(call: &Arguments<'_>) -> Result<Val<'static>, SqlError> {
    let (Some(text), Some(wanted)) = (whole(call, 0)?, whole(call, 1)?) else { return Ok(Val::Null) };
    let root = Node::parse(&text);
    let part = match call.len() {
        2 => Some(&root),
        _ => {
            let Some(path) = call.text(2) else { return Ok(Val::Null) };
            root.find(&steps(&path)?)
        }
    };
    let Some(part) = part else { return Ok(false.into()) };
    let (count, wanted) = (Cell::new(0), Node::parse(&wanted));
    let look = || {
        count.set(count.get() + 1);
        if count.get() % LOOK == 0 { call.go_on() } else { Ok(()) }
    };
    Ok(has(part, &wanted, &look)?.into())
}

/// Whether a part contains another one: an object, objects with some of its members; an array, what one of its items
/// contains, and arrays of such. Texts are compared as they are written.
fn has(part: &Node<'_>, wanted: &Node<'_>, look: &dyn Fn() -> Result<(), SqlError>) -> Result<bool, SqlError> {
    look()?;
    match (part, wanted) {
        (Node::Object(members), Node::Object(wanted)) => {
            for (key, wanted) in wanted {
                let name = unquoted(key).unwrap_or_default();
                let found = members.iter().find(|(key, _)| is_key(key, &name));
                let Some((_, found)) = found else { return Ok(false) };
                if !has(found, wanted, look)? {
                    return Ok(false);
                }
            }
            Ok(true)
        }
        (Node::Array(_), Node::Array(wanted)) => {
            for wanted in wanted {
                if !has(part, wanted, look)? {
                    return Ok(false);
                }
            }
            Ok(true)
        }
        (Node::Array(items), wanted) => {
            for item in items {
                if has(item, wanted, look)? {
                    return Ok(true);
                }
            }
            Ok(false)
        }
        (Node::Scalar(own), Node::Scalar(wanted)) => {
            let number = |text: &str| text.parse::<f64>().ok().filter(|_| !text.starts_with('"'));
            Ok(match (number(own), number(wanted)) {
                (Some(own), Some(wanted)) => (own - wanted).abs() < NUMBERS_APART,
                _ => own == wanted,
            })
        }
        _ => Ok(false),
    }
}

/// Whether one part counts, or all; `None` for another word.
fn is_one(word: &str) -> Option<bool> {
    match word.to_ascii_lowercase().as_str() {
        "one" => Some(true),
        "all" => Some(false),
        _ => None,
    }
}

fn contains_path(call: &Arguments<'_>) -> Result<Val<'static>, SqlError> {
    if call.any_null() {
        return Ok(Val::Null);
    }
    let (Some(text), Some(word)) = (whole(call, 0)?, call.text(1)) else { return Ok(Val::Null) };
    let Some(is_one) = is_one(&word) else { return Ok(Val::Null) };
    let root = Node::parse(&text);
    let mut found = 0;
    for at in 2..call.len() {
        let path = call.text(at).unwrap_or_default();
        found += usize::from(root.find(&steps(&path)?).is_some());
    }
    Ok(if is_one { found > 0 } else { found == call.len() - 2 }.into())
}

/// A search under way.
struct Search<'s> {
    pattern: Pattern,
    collation: Collation,
    is_one: bool,
    go_on: &'s dyn Fn() -> Result<(), SqlError>,
    /// The path of the part that is looked at.
    path: String,
    /// Paths of the parts found, in quotes.
    found: Vec<String>,
}

fn search(call: &Arguments<'_>) -> Result<Val<'static>, SqlError> {
    let (Some(text), Some(word), Some(pattern)) = (whole(call, 0)?, call.text(1), call.text(2)) else {
        return Ok(Val::Null);
    };
    let escape = call.text(3).unwrap_or_default();
    let mut escape = escape.chars();
    let (escape, more) = (escape.next().unwrap_or('\\'), escape.next());
    if more.is_some() {
        return Err(SqlError::new(SqlErrorKind::WrongArguments, "Incorrect arguments to ESCAPE"));
    }
    if pattern.len() > PATTERN_MAX {
        let text = format!("json_search: pattern too complex: more than {PATTERN_MAX} bytes");
        return Err(SqlError::new(SqlErrorKind::Limit, text));
    }
    let mut paths = Vec::new();
    for at in 4..call.len() {
        let Some(path) = call.text(at) else { return Ok(Val::Null) };
        paths.push(steps(&path)?);
    }
    let Some(is_one) = is_one(&word) else { return Ok(Val::Null) };
    let collation = match call.kind(0) {
        SqlType::Text { collation, .. } => collation,
        _ => Collation::General,
    };
    let mut search = Search {
        pattern: Pattern::new(&pattern, Some(escape), collation),
        collation,
        is_one,
        go_on: &|| call.go_on(),
        path: "$".to_owned(),
        found: Vec::new(),
    };
    let within: Vec<&[Step]> = if paths.is_empty() { vec![&[]] } else { paths.iter().map(Vec::as_slice).collect() };
    search.look_at(&Node::parse(&text), &within)?;
    Ok(match search.found.as_slice() {
        [] => Val::Null,
        [only] => only.clone().into(),
        found => format!("[{}]", found.join(", ")).into(),
    })
}

impl Search<'_> {
    /// Looks for the pattern in a part and all its parts that the rest of one of the paths leads to or begins.
    fn look_at(&mut self, node: &Node<'_>, within: &[&[Step]]) -> Result<(), SqlError> {
        if within.is_empty() || self.is_one && !self.found.is_empty() {
            return Ok(());
        }
        let length = self.path.len();
        match node {
            Node::Array(items) => {
                for (index, item) in items.iter().enumerate() {
                    self.path += &format!("[{index}]");
                    self.look_at(item, &behind(within, |step| matches!(step, Step::Item(own) if *own == index)))?;
                    self.path.truncate(length);
                }
            }
            Node::Object(members) => {
                let within = unwrapped(within);
                for (key, value) in members {
                    self.path.push('.');
                    self.path += key.get(1..key.len().saturating_sub(1)).unwrap_or_default();
                    let name = unquoted(key).unwrap_or_default();
                    let is_own = |step: &Step| matches!(step, Step::Member(own) if *own == name);
                    self.look_at(value, &behind(&within, is_own))?;
                    self.path.truncate(length);
                }
            }
            Node::Scalar(written) => {
                let text = unquoted(written).unwrap_or_default();
                let is_within = unwrapped(within).iter().any(|path| path.is_empty());
                if is_within && self.pattern.matches(&folded(&text, self.collation), || (self.go_on)())? {
                    self.found.push(format!("\"{}\"", self.path));
                }
            }
        }
        Ok(())
    }
}

/// The rests of paths behind a step that they may take; a path at its end has all that is behind it.
fn behind<'s>(paths: &[&'s [Step]], takes: impl Fn(&Step) -> bool) -> Vec<&'s [Step]> {
    let rest = |path: &&'s [Step]| match path.split_first() {
        None => Some(*path),
        Some((step, rest)) => takes(step).then_some(rest),
    };
    paths.iter().filter_map(rest).collect()
}

/// The rests of paths without the steps to the first item, where there is no array.
fn unwrapped<'s>(paths: &[&'s [Step]]) -> Vec<&'s [Step]> {
    let start = |path: &'s [Step]| path.iter().take_while(|step| matches!(step, Step::Item(0))).count();
    paths.iter().map(|path| &path[start(path)..]).collect()
}
