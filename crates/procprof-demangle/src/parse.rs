//! The parser: the cursor, the state at each place of a name, and the productions for whole symbols.
//!
//! Productions are named as in the [Itanium C++ ABI](https://itanium-cxx-abi.github.io/cxx-abi/abi.html#mangling) and
//! return `None` for what is not of that grammar. Each one that can hold itself goes through [`Parser::nested`], which
//! bounds the depth.

mod encoding;
mod expression;
mod function;
mod literal;
mod name;
mod parameter;
mod special;
mod template;
pub(crate) mod types;
mod unresolved;

pub(crate) use types::builtin;

use std::mem;

use crate::Style;
use crate::limits::DEPTH_MAX;
use crate::node::{List, Node, NodeId, Qualifiers, ReferenceQualifier, Span};
use crate::tree::Tree;

/// Vectors that the parser needs, reused for one name after the other.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    substitutions: Vec<NodeId>,
    pending: Vec<NodeId>,
    forwards: Vec<NodeId>,
    template: Template,
}

impl Scratch {
    fn clear(&mut self) {
        self.substitutions.clear();
        self.pending.clear();
        self.forwards.clear();
        self.template.clear();
    }
}

/// The template parameters that `T_` and similar references can refer to.
#[derive(Debug, Default)]
struct Template {
    /// The arguments of the outermost template.
    outer: Vec<NodeId>,
    /// The parameters of lambdas and template template parameters, of all levels one after the other.
    inner: Vec<NodeId>,
    levels: Vec<Level>,
}

impl Template {
    fn clear(&mut self) {
        self.outer.clear();
        self.inner.clear();
        self.levels.clear();
    }
}

/// The place of a level's parameters.
#[derive(Debug, Clone, Copy)]
enum Level {
    Outer,
    /// In [`Template::inner`].
    Inner {
        start: usize,
    },
    /// Of a lambda whose only template parameters are those of its `auto` parameters.
    Auto,
}

/// Properties of an encoding from the parts of its name.
#[derive(Debug, Default)]
struct NameState {
    is_structor_or_conversion: bool,
    ends_with_arguments: bool,
    has_explicit_object: bool,
    qualifiers: Qualifiers,
    reference: ReferenceQualifier,
    forwards_start: usize,
}

pub(crate) struct Parser<'p> {
    text: &'p [u8],
    at: usize,
    is_gnu: bool,
    /// Whether unresolved names are mangled as GCC does it.
    is_of_gcc: bool,
    depth: u32,
    tree: &'p mut Tree,
    scratch: &'p mut Scratch,
    /// `T_` may refer to what comes later, in the type of a conversion operator.
    permits_forwards: bool,
    /// Template arguments may follow a parameter here.
    tries_arguments: bool,
    /// The level of the lambda whose parameters are being parsed: parameters it has not are `auto`.
    lambda_level: Option<usize>,
    /// Parameters of each kind that were given a name.
    invented: [u32; 3],
    /// In constraints, which may refer to parameters that the name does not have.
    in_constraint: bool,
}

impl<'p> Parser<'p> {
    pub(crate) fn new(text: &'p [u8], style: Style, tree: &'p mut Tree, scratch: &'p mut Scratch) -> Self {
        tree.clear();
        scratch.clear();
        Self {
            text,
            at: 0,
            is_gnu: style == Style::Gnu,
            is_of_gcc: style == Style::Gnu,
            depth: 0,
            tree,
            scratch,
            permits_forwards: false,
            tries_arguments: true,
            lambda_level: None,
            invented: [0; 3],
            in_constraint: false,
        }
    }

    /// Treats unresolved names as GCC's, whose scope is a type with the consequences for substitutions.
    pub(crate) fn of_gcc(self) -> Self {
        Self { is_of_gcc: true, ..self }
    }

    /// `<mangled-name>`, all of the text.
    pub(crate) fn symbol(mut self) -> Option<NodeId> {
        if self.take(b"_Z") {
            let encoding = self.encoding()?;
            return self.suffixed(encoding);
        }
        if self.take(b"___Z") {
            return self.block_invocation();
        }
        None
    }

    /// Suffixes that compilers and linkers append to a name, such as `.cold`.
    fn suffixed(&mut self, encoding: NodeId) -> Option<NodeId> {
        if self.rest().is_empty() {
            return Some(encoding);
        }
        if self.peek() != b'.' {
            return None;
        }
        let suffix = self.span_from(self.at, self.text.len());
        self.add(Node::Suffixed { encoding, suffix })
    }

    /// `___Z <encoding> _block_invoke [<number> | _ <number>]`, Clang's name of a block's code.
    fn block_invocation(&mut self) -> Option<NodeId> {
        let child = self.encoding()?;
        if !self.take(b"_block_invoke") {
            return None;
        }
        let needs_number = self.eat(b'_');
        let number = self.number_span();
        if needs_number && number == Span::default() {
            return None;
        }
        if self.peek() != b'.' && !self.rest().is_empty() {
            return None;
        }
        self.add(Node::Special { prefix: "invocation function for block in ", child })
    }

    fn rest(&self) -> &'p [u8] {
        &self.text[self.at..]
    }

    /// The next byte; 0 at the end.
    fn peek(&self) -> u8 {
        self.peek_at(0)
    }

    fn peek_at(&self, ahead: usize) -> u8 {
        self.text.get(self.at + ahead).copied().unwrap_or(0)
    }

    fn eat(&mut self, byte: u8) -> bool {
        let is_next = self.text.get(self.at) == Some(&byte);
        self.at += usize::from(is_next);
        is_next
    }

    fn take(&mut self, word: &[u8]) -> bool {
        let is_next = self.rest().starts_with(word);
        if is_next {
            self.at += word.len();
        }
        is_next
    }

    fn require(&mut self, byte: u8) -> Option<()> {
        self.eat(byte).then_some(())
    }

    fn span_from(&self, start: usize, end: usize) -> Span {
        Span { start: start as u32, end: end as u32 }
    }

    fn bytes(&self, span: Span) -> &'p [u8] {
        &self.text[span.start as usize..span.end as usize]
    }

    /// Decimal digits; empty if there are none.
    fn number_span(&mut self) -> Span {
        let start = self.at;
        while self.peek().is_ascii_digit() {
            self.at += 1;
        }
        if self.at == start { Span::default() } else { self.span_from(start, self.at) }
    }

    /// `[n] <digits>`; empty if there are none.
    fn signed_number_span(&mut self) -> Span {
        let start = self.at;
        self.eat(b'n');
        if !self.peek().is_ascii_digit() {
            self.at = start;
            return Span::default();
        }
        let digits = self.number_span();
        Span { start: start as u32, end: digits.end }
    }

    /// `<number>` that counts something of the name.
    fn count(&mut self) -> Option<usize> {
        let digits = self.number_span();
        std::str::from_utf8(self.bytes(digits)).ok()?.parse().ok()
    }

    /// `<seq-id>`: digits and capital letters.
    fn sequence(&mut self) -> Option<usize> {
        let start = self.at;
        let mut value: usize = 0;
        loop {
            let digit = match self.peek() {
                byte @ b'0'..=b'9' => byte - b'0',
                byte @ b'A'..=b'Z' => byte - b'A' + 10,
                _ => break,
            };
            value = value.checked_mul(36)?.checked_add(usize::from(digit))?;
            self.at += 1;
        }
        (self.at > start).then_some(value)
    }

    fn add(&mut self, node: Node) -> Option<NodeId> {
        self.tree.add(node)
    }

    /// Runs a production that may hold itself, no deeper than the limit.
    fn nested<T>(&mut self, production: impl FnOnce(&mut Self) -> Option<T>) -> Option<T> {
        if self.depth == DEPTH_MAX {
            return None;
        }
        self.depth += 1;
        let result = production(self);
        self.depth -= 1;
        result
    }

    /// A list of the production's results, up to an `E`.
    fn list_to_end(&mut self, mut production: impl FnMut(&mut Self) -> Option<NodeId>) -> Option<List> {
        let start = self.scratch.pending.len();
        while !self.eat(b'E') {
            let item = production(self)?;
            self.scratch.pending.push(item);
        }
        Some(self.list_from(start))
    }

    /// Makes a list of the nodes that are pending from there on.
    fn list_from(&mut self, start: usize) -> List {
        let list = self.tree.add_list(&self.scratch.pending[start..]);
        self.scratch.pending.truncate(start);
        list
    }

    fn substitute(&mut self, node: NodeId) {
        self.scratch.substitutions.push(node);
    }

    fn take_template(&mut self) -> Template {
        mem::take(&mut self.scratch.template)
    }

    /// `[r] [V] [K]`
    fn qualifiers(&mut self) -> Qualifiers {
        let mut qualifiers = Qualifiers::default();
        for (letter, qualifier) in
            [(b'r', Qualifiers::RESTRICT), (b'V', Qualifiers::VOLATILE), (b'K', Qualifiers::CONST)]
        {
            if self.eat(letter) {
                qualifiers.add(qualifier);
            }
        }
        qualifiers
    }
}
