//! Types.

use super::Printer;
use crate::node::{Node, NodeId, Qualifiers, Signature};
use crate::tree::Shape;

impl Printer<'_> {
    pub(super) fn type_left(&mut self, node: Node) {
        match node {
            Node::Qualified { child, qualifiers } => {
                self.left(child);
                let known = if self.is_gnu { self.known_qualifiers(child) } else { Qualifiers::default() };
                self.qualifiers(qualifiers.without(known));
            }
            Node::Vendor { child, name, arguments } => {
                self.print(child);
                self.push(" ");
                self.span(name);
                if let Some(arguments) = arguments {
                    self.template_arguments(arguments);
                }
            }
            Node::Pointer(child) => self.pointer_left(child),
            Node::Reference { child, is_rvalue } => {
                self.in_reference_scope(child, |printer| {
                    let (is_rvalue, child) = printer.collapsed(child, is_rvalue);
                    printer.left(child);
                    printer.open_compound(child);
                    printer.push(if is_rvalue { "&&" } else { "&" });
                });
            }
            Node::MemberPointer { class, member } => {
                self.left(member);
                let shape = self.shape(member);
                let is_compound = shape.has(Shape::ARRAY) || shape.has(Shape::FUNCTION);
                self.push(if is_compound { "(" } else { " " });
                self.print(class);
                self.push("::*");
            }
            Node::Array { element, .. } => self.left(element),
            Node::FunctionType(index) => {
                self.left(self.tree.signature(index).result);
                self.push(" ");
            }
            Node::Noexcept(condition) => {
                self.push("noexcept");
                self.enclosed(condition);
            }
            Node::Throws(types) => {
                self.push("throw");
                self.in_parentheses(types);
            }
            Node::PixelVector(dimension) => {
                self.prefixed("pixel vector[", dimension);
                self.push("]");
            }
            Node::Vector { element, dimension } => {
                self.print(element);
                self.push(" vector[");
                if let Some(dimension) = dimension {
                    self.print(dimension);
                }
                self.push("]");
            }
            Node::Postfixed { child, text } => {
                self.left(child);
                self.push(text);
            }
            Node::BinaryFloat(bits) => {
                self.push("_Float");
                self.span(bits);
            }
            Node::BitInt { size, is_signed } => {
                self.push(if is_signed { "_BitInt" } else { "unsigned _BitInt" });
                self.enclosed(size);
            }
            Node::Transformed { name, child } => {
                self.span(name);
                self.push("(");
                self.print(child);
                self.push(")");
            }
            Node::ObjcProtocol { child, protocol } => {
                self.print(child);
                self.push("<");
                self.span(protocol);
                self.push(">");
            }
            Node::Elaborated { keyword, name } => {
                self.push(keyword);
                self.prefixed(" ", name);
            }
            Node::Decltype(expression) => {
                self.push("decltype");
                self.enclosed(expression);
            }
            _ => self.template_left(node),
        }
    }

    pub(super) fn type_right(&mut self, node: Node) {
        match node {
            Node::Qualified { child, .. } => self.right(child),
            Node::Pointer(child) => {
                if !self.is_objc_object(child) {
                    self.close_compound(child);
                    self.right(child);
                }
            }
            Node::Reference { child, is_rvalue } => {
                self.in_reference_scope(child, |printer| {
                    let (_, child) = printer.collapsed(child, is_rvalue);
                    printer.close_compound(child);
                    printer.right(child);
                });
            }
            Node::MemberPointer { member, .. } => {
                self.close_compound(member);
                self.right(member);
            }
            Node::Array { element, dimension } => {
                if !self.text.ends_with(']') {
                    self.push(" ");
                }
                self.push("[");
                if let Some(dimension) = dimension {
                    self.print(dimension);
                }
                self.push("]");
                self.right(element);
            }
            Node::FunctionType(index) => self.signature_right(self.tree.signature(index)),
            _ => self.template_right(node),
        }
    }

    /// Those that a qualified type has already, which binutils do not repeat.
    fn known_qualifiers(&mut self, child: NodeId) -> Qualifiers {
        match self.tree.node(self.syntax_node(child)) {
            Node::Qualified { qualifiers, .. } => qualifiers,
            _ => Qualifiers::default(),
        }
    }

    fn signature_right(&mut self, signature: Signature) {
        self.in_parentheses(signature.parameters);
        self.right(signature.result);
        self.qualifiers(signature.qualifiers);
        self.reference_qualifier(signature.reference);
        if self.is_gnu && signature.is_transaction_safe {
            self.push(" transaction_safe");
        }
        if let Some(exceptions) = signature.exceptions {
            self.prefixed(" ", exceptions);
        }
    }

    pub(super) fn enclosed(&mut self, id: NodeId) {
        self.open("(");
        self.print(id);
        self.close(")");
    }

    fn pointer_left(&mut self, child: NodeId) {
        if let Node::ObjcProtocol { protocol, .. } = self.tree.node(child)
            && self.is_objc_object(child)
        {
            self.push("id<");
            self.span(protocol);
            self.push(">");
            return;
        }
        self.left(child);
        self.open_compound(child);
        self.push("*");
    }

    /// Whether it is `objc_object<Protocol>`, a pointer to which is `id<Protocol>`.
    fn is_objc_object(&self, id: NodeId) -> bool {
        let Node::ObjcProtocol { child, .. } = self.tree.node(id) else { return false };
        let Node::Text(span) = self.tree.node(child) else { return false };
        self.mangled.get(span.start as usize..span.end as usize) == Some("objc_object")
    }

    /// A reference to a reference is one reference, to an rvalue only if both are.
    fn collapsed(&mut self, mut child: NodeId, mut is_rvalue: bool) -> (bool, NodeId) {
        while self.enter() {
            // Each counts as a step, so that a chain without an end has one.
            self.leave();
            match self.tree.node(self.syntax_node(child)) {
                Node::Reference { child: inner, is_rvalue: inner_is_rvalue } => {
                    child = inner;
                    is_rvalue &= inner_is_rvalue;
                }
                _ => break,
            }
        }
        (is_rvalue, child)
    }

    /// The node that decides about the spelling, behind packs and references to later arguments.
    fn syntax_node(&mut self, mut id: NodeId) -> NodeId {
        while self.enter() {
            self.leave();
            let next = match self.tree.node(id) {
                Node::Pack(list) => self.element(list),
                Node::Forward { target, .. } => target,
                // Its argument's own parameters are never references, so the scope does not matter.
                Node::Auto { position } => self.argument_at(position),
                _ => None,
            };
            match next {
                Some(next) => id = next,
                None => break,
            }
        }
        id
    }

    pub(super) fn open_compound(&mut self, child: NodeId) {
        let shape = self.shape(child);
        let is_spaced = self.is_gnu && shape.has(Shape::FUNCTION) && !self.text.ends_with(['(', '*', ' ']);
        if shape.has(Shape::ARRAY) || is_spaced {
            self.push(" ");
        }
        if shape.has(Shape::ARRAY) || shape.has(Shape::FUNCTION) {
            self.push("(");
        }
    }

    fn close_compound(&mut self, child: NodeId) {
        let shape = self.shape(child);
        if shape.has(Shape::ARRAY) || shape.has(Shape::FUNCTION) {
            self.push(")");
        }
    }
}
