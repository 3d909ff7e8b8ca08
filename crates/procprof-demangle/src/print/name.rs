//! Names and encodings.

use super::Printer;
use crate::node::{Abbreviation, Function, Node, NodeId, Qualifiers, ReferenceQualifier};
use crate::tree::Shape;

impl Printer<'_> {
    /// All of a node, or its part on the left of what it declares.
    pub(super) fn left(&mut self, id: NodeId) {
        if !self.enter() {
            return;
        }
        let node = self.tree.node(id);
        if self.is_gnu && self.gnu_left(node) {
            return self.leave();
        }
        match node {
            Node::Word(word) => self.push(word),
            Node::Text(span) => self.span(span),
            Node::Builtin(letter) => self.push(crate::parse::builtin(letter).unwrap_or_default()),
            Node::Anonymous => self.push("(anonymous namespace)"),
            Node::Nested { scope, name } => self.joined(scope, "::", name),
            Node::Local { encoding, entity } => self.joined(encoding, "::", entity),
            Node::Friend { scope, name } => self.joined(scope, "::friend ", name),
            Node::ModuleEntity { module, name } => self.joined(name, "@", module),
            Node::DefaultArgument { entity, .. } => self.print(entity),
            Node::Global(name) => self.prefixed("::", name),
            Node::Templated { name, arguments } => {
                self.print(name);
                self.template_arguments(arguments);
            }
            Node::AbiTag { base, tag } => {
                self.left(base);
                self.push("[abi:");
                self.span(tag);
                self.push("]");
            }
            Node::Structor { class, is_destructor } => {
                self.push(if is_destructor { "~" } else { "" });
                self.base_name(class);
            }
            Node::Destructor(class) => {
                self.push("~");
                self.left(class);
            }
            Node::OperatorName(operator) => self.operator_name(operator.symbol),
            Node::Conversion(to) | Node::VendorOperator(to) => self.prefixed("operator ", to),
            Node::LiteralOperator(name) => self.prefixed("operator\"\" ", name),
            Node::Unnamed(count) => {
                self.push("'unnamed");
                self.span(count);
                self.push("'");
            }
            Node::BlockLiteral => self.push("'block-literal'"),
            Node::Closure(index) => {
                self.push("'lambda");
                self.span(self.tree.closure(index).count);
                self.push("'");
                self.closure_declarator(index);
            }
            Node::Binding(names) => {
                self.open("[");
                self.comma_separated(names);
                self.close("]");
            }
            Node::Module { parent, name, is_partition } => {
                if let Some(parent) = parent {
                    self.print(parent);
                }
                if parent.is_some() || is_partition {
                    self.push(if is_partition { ":" } else { "." });
                }
                self.print(name);
            }
            Node::Abbreviation { which, is_expanded } => self.abbreviation(which, is_expanded),
            Node::Auto { .. } => self.push("auto"),
            Node::Function(index) => {
                let function = self.tree.function(index);
                self.in_scope(function.name, |printer| printer.function_left(function));
            }
            Node::Suffixed { encoding, suffix } => {
                self.print(encoding);
                self.push(" (");
                self.span(suffix);
                self.push(")");
            }
            Node::Special { prefix, child } => self.prefixed(prefix, child),
            Node::ConstructionVtable { class, base } => {
                self.push("construction vtable for ");
                self.joined(base, "-in-", class);
            }
            Node::ReferenceTemporary { object, .. } => self.prefixed("reference temporary for ", object),
            _ => self.type_left(node),
        }
        self.leave();
    }

    /// The part on the right of what it declares.
    pub(super) fn right(&mut self, id: NodeId) {
        if !self.enter() {
            return;
        }
        match self.tree.node(id) {
            Node::Function(index) => {
                let function = self.tree.function(index);
                self.in_scope(function.name, |printer| printer.function_right(function));
            }
            node => self.type_right(node),
        }
        self.leave();
    }

    pub(super) fn joined(&mut self, one: NodeId, between: &str, other: NodeId) {
        self.print(one);
        self.push(between);
        self.print(other);
    }

    pub(super) fn prefixed(&mut self, prefix: &str, id: NodeId) {
        self.push(prefix);
        self.print(id);
    }

    fn operator_name(&mut self, symbol: &str) {
        self.push("operator");
        if symbol.starts_with(|letter: char| letter.is_ascii_alphabetic()) {
            self.push(" ");
        }
        self.push(symbol);
    }

    pub(super) fn function_left(&mut self, function: Function) {
        if let Some(result) = function.result {
            self.left(result);
            if !self.shape(result).has(Shape::RIGHT) {
                self.push(" ");
            }
        }
        self.print(function.name);
    }

    pub(super) fn function_right(&mut self, function: Function) {
        self.open("(");
        if function.has_explicit_object {
            self.push("this ");
        }
        self.comma_separated(function.parameters);
        self.close(")");
        if let Some(result) = function.result {
            self.right(result);
        }
        self.qualifiers(function.qualifiers);
        self.reference_qualifier(function.reference);
        if let Some(attributes) = function.attributes {
            self.push(" [enable_if:");
            self.comma_separated(attributes);
            self.push("]");
        }
        if let Some(requires) = function.requires {
            self.prefixed(" requires ", requires);
        }
    }

    pub(super) fn qualifiers(&mut self, qualifiers: Qualifiers) {
        for (qualifier, word) in
            [(Qualifiers::CONST, " const"), (Qualifiers::VOLATILE, " volatile"), (Qualifiers::RESTRICT, " restrict")]
        {
            if qualifiers.has(qualifier) {
                self.push(word);
            }
        }
    }

    pub(super) fn reference_qualifier(&mut self, reference: ReferenceQualifier) {
        match reference {
            ReferenceQualifier::None => {}
            ReferenceQualifier::Left => self.push(" &"),
            ReferenceQualifier::Right => self.push(" &&"),
        }
    }

    fn abbreviation(&mut self, which: Abbreviation, is_expanded: bool) {
        self.push("std::");
        if !is_expanded {
            return self.push(which.short());
        }
        self.push(which.long());
        let arguments = match which {
            Abbreviation::Allocator | Abbreviation::BasicString => "",
            Abbreviation::String if self.is_gnu => "<char, std::char_traits<char>, std::allocator<char> >",
            _ if self.is_gnu => "<char, std::char_traits<char> >",
            Abbreviation::String => "<char, std::char_traits<char>, std::allocator<char>>",
            Abbreviation::Istream | Abbreviation::Ostream | Abbreviation::Iostream => "<char, std::char_traits<char>>",
        };
        self.push(arguments);
    }

    /// The last part of a class's name, without arguments, as its constructors have it.
    fn base_name(&mut self, id: NodeId) {
        if !self.enter() {
            return;
        }
        match self.tree.node(id) {
            Node::Nested { name, .. }
            | Node::Templated { name, .. }
            | Node::Friend { name, .. }
            | Node::ModuleEntity { name, .. } => {
                self.base_name(name);
            }
            Node::AbiTag { base, .. } => self.base_name(base),
            Node::Forward { target: Some(target), .. } => self.base_name(target),
            Node::Auto { position } => {
                self.in_argument(position, Self::base_name);
            }
            Node::Abbreviation { which, is_expanded } => {
                self.push(if is_expanded { which.long() } else { which.short() })
            }
            Node::Text(_) | Node::Word(_) | Node::Anonymous | Node::Builtin(_) | Node::OperatorName(_) => self.left(id),
            _ => {}
        }
        self.leave();
    }
}

impl Abbreviation {
    fn short(self) -> &'static str {
        match self {
            Self::Allocator => "allocator",
            Self::BasicString => "basic_string",
            Self::String => "string",
            Self::Istream => "istream",
            Self::Ostream => "ostream",
            Self::Iostream => "iostream",
        }
    }

    fn long(self) -> &'static str {
        match self {
            Self::Allocator => "allocator",
            Self::BasicString | Self::String => "basic_string",
            Self::Istream => "basic_istream",
            Self::Ostream => "basic_ostream",
            Self::Iostream => "basic_iostream",
        }
    }
}
