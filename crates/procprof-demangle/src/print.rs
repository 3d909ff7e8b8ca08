//! The printer: a name's text from its tree, within the limits.
//!
//! A declarator in C++ is on both sides of the declared name (`int (*)[3]`), so a node has a left and a right part.

mod expression;
mod gnu;
mod gnu_expression;
mod name;
mod template;
mod types;

use crate::Style;
use crate::limits::{DEMANGLED_BYTES_MAX, PRINT_DEPTH_MAX, STEPS_MAX};
use crate::node::{List, Node, NodeId, Span};
use crate::operator::Precedence;
use crate::tree::{Shape, Tree};

/// Appends the text of a symbol; `false`, and nothing appended, beyond a limit.
pub(crate) fn append(tree: &Tree, symbol: NodeId, mangled: &str, style: Style, text: &mut String) -> bool {
    let start = text.len();
    let mut printer = Printer {
        tree,
        mangled,
        is_gnu: style == Style::Gnu,
        text,
        start,
        depth: 0,
        steps: 0,
        failed: false,
        brackets: 1,
        pack: None,
        prints_whole_packs: false,
        is_in_closure: false,
        erased_at: 0,
        scopes: Vec::new(),
        scope: 0,
        reference_scopes: Vec::new(),
    };
    printer.print(symbol);
    let is_whole = !printer.failed && printer.text.len() - start <= DEMANGLED_BYTES_MAX;
    if !is_whole {
        text.truncate(start);
    }
    is_whole
}

/// The elements of packs that an expansion goes through.
#[derive(Debug, Clone, Copy)]
struct PackAt {
    index: usize,
    length: Option<usize>,
}

struct Printer<'p> {
    tree: &'p Tree,
    mangled: &'p str,
    is_gnu: bool,
    text: &'p mut String,
    /// Length of the text that was there before.
    start: usize,
    depth: u32,
    steps: u32,
    failed: bool,
    /// Parentheses since the innermost `<`; a `>` is an operator inside them.
    brackets: u32,
    /// The innermost expansion that is being printed.
    pack: Option<PackAt>,
    /// In a fold expression, as binutils print it.
    prints_whole_packs: bool,
    /// Whether lambdas' parameters are printed as parameters.
    is_in_closure: bool,
    /// Length of the text when a comma was erased from its end, which binutils still take for the last letter.
    erased_at: usize,
    /// Template arguments of the functions that are being printed, each with the number of those outside; 0 for none.
    scopes: Vec<(List, usize)>,
    /// The number of the innermost of them; 0 for none.
    scope: usize,
    /// By node: one more than the scope that a reference to a parameter was first printed in; 0 if it was not.
    reference_scopes: Vec<usize>,
}

impl Printer<'_> {
    fn push(&mut self, text: &str) {
        self.text.push_str(text);
    }

    fn span(&mut self, span: Span) {
        match self.mangled.get(span.start as usize..span.end as usize) {
            Some(text) => self.text.push_str(text),
            None => self.failed = true,
        }
    }

    /// A number with an `n` for its sign.
    fn number(&mut self, span: Span) {
        match self.mangled.as_bytes().get(span.start as usize) {
            Some(b'n') => {
                self.push("-");
                self.span(Span { start: span.start + 1, end: span.end });
            }
            _ => self.span(span),
        }
    }

    fn open(&mut self, bracket: &str) {
        self.brackets += 1;
        self.push(bracket);
    }

    fn close(&mut self, bracket: &str) {
        self.brackets -= 1;
        self.push(bracket);
    }

    /// Begins a node unless a limit is reached.
    fn enter(&mut self) -> bool {
        let written = self.text.len() - self.start;
        if self.depth == PRINT_DEPTH_MAX || self.steps == STEPS_MAX || written > DEMANGLED_BYTES_MAX {
            self.failed = true;
        }
        if self.failed {
            return false;
        }
        self.depth += 1;
        self.steps += 1;
        true
    }

    fn leave(&mut self) {
        self.depth -= 1;
    }

    fn print(&mut self, id: NodeId) {
        self.left(id);
        if self.tree.shape(id) != Shape::default() {
            self.right(id);
        }
    }

    /// In parentheses if it binds less tightly than its place requires.
    fn operand(&mut self, id: NodeId, place: Precedence) {
        let own = self.tree.node(id).precedence();
        self.parenthesized_if(own >= place, id);
    }

    /// As [`Self::operand`]; one that binds as tightly as its place needs no parentheses.
    fn operand_or_equal(&mut self, id: NodeId, place: Precedence) {
        let own = self.tree.node(id).precedence();
        self.parenthesized_if(own > place, id);
    }

    fn parenthesized_if(&mut self, is_parenthesized: bool, id: NodeId) {
        if is_parenthesized {
            self.open("(");
            self.print(id);
            self.close(")");
        } else {
            self.print(id);
        }
    }

    /// Nodes between commas; those that print nothing, such as empty packs, get no comma.
    ///
    /// Binutils keep the comma behind one that prints nothing unless nothing follows.
    fn comma_separated(&mut self, list: List) {
        let mut is_first = true;
        let mut end = self.text.len();
        for index in 0..list.len() {
            if self.failed {
                return;
            }
            let before_comma = self.text.len();
            if !is_first {
                self.push(", ");
            }
            let after_comma = self.text.len();
            let Some(item) = self.tree.item(list, index) else { return };
            if self.is_gnu {
                self.print(item);
            } else {
                self.operand(item, Precedence::Comma);
            }
            let is_empty = self.text.len() == after_comma;
            if !is_empty {
                end = self.text.len();
            }
            if is_empty && !self.is_gnu {
                self.text.truncate(before_comma);
            } else {
                is_first = false;
            }
        }
        if self.text.len() > end {
            self.text.truncate(end);
            self.erased_at = end;
        }
    }

    fn in_parentheses(&mut self, list: List) {
        self.open("(");
        self.comma_separated(list);
        self.close(")");
    }

    /// The shape, also if only printing shows it.
    fn shape(&mut self, id: NodeId) -> Shape {
        let known = self.tree.shape(id);
        if !known.has(Shape::LATE) || !self.enter() {
            return known;
        }
        let shape = match self.tree.node(id) {
            Node::Pack(list) => self.element(list).map_or(Shape::default(), |element| self.shape(element)),
            Node::Auto { position } | Node::InventedName { position, .. } => {
                self.in_argument(position, |printer, argument| printer.shape(argument)).unwrap_or_default()
            }
            Node::Forward { target, .. } => target.map_or(Shape::default(), |target| self.shape(target)),
            Node::Qualified { child, .. } => self.shape(child),
            Node::Pointer(child) | Node::Reference { child, .. } | Node::MemberPointer { member: child, .. } => {
                if self.shape(child).has(Shape::RIGHT) { Shape::RIGHT } else { Shape::default() }
            }
            _ => known,
        };
        self.leave();
        shape
    }

    /// The element of a pack that is to be printed now.
    fn element(&mut self, list: List) -> Option<NodeId> {
        let at = self.pack.get_or_insert(PackAt { index: 0, length: None });
        if at.length.is_none() {
            *at = PackAt { index: 0, length: Some(list.len()) };
        }
        self.tree.item(list, at.index)
    }
}
