//! Template arguments, packs, and declarations of template parameters.

use super::{PackAt, Printer};
use crate::node::{Invented, List, Node, NodeId};
use crate::tree::Shape;

impl Printer<'_> {
    pub(super) fn template_left(&mut self, node: Node) {
        match node {
            Node::Pack(list) => {
                if let Some(element) = self.element(list) {
                    self.left(element);
                }
            }
            Node::ArgumentPack(list) | Node::Sequence(list) => self.comma_separated(list),
            Node::Expansion(child) => self.expansion(child),
            Node::Forward { target, .. } => match target {
                Some(target) => self.left(target),
                None => self.failed = true,
            },
            Node::TypeParameter(_) => self.push("typename "),
            Node::ConstrainedParameter { constraint, .. } => {
                self.print(constraint);
                self.push(" ");
            }
            Node::ValueParameter { value_type, .. } => {
                self.left(value_type);
                if !self.shape(value_type).has(Shape::RIGHT) {
                    self.push(" ");
                }
            }
            Node::TemplateParameter { parameters, .. } => {
                self.push("template");
                self.template_arguments(parameters);
                self.push(" typename ");
            }
            Node::PackParameter(one) => {
                self.left(one);
                self.push("...");
            }
            Node::InventedName { kind, index, .. } => self.invented_name(kind, index),
            _ => self.expression_left(node),
        }
    }

    pub(super) fn template_right(&mut self, node: Node) {
        match node {
            Node::Pack(list) => {
                if let Some(element) = self.element(list) {
                    self.right(element);
                }
            }
            Node::Forward { target: Some(target), .. } => self.right(target),
            Node::Auto { position } | Node::InventedName { position, .. } => {
                self.in_argument(position, Self::right);
            }
            Node::TypeParameter(name) | Node::ConstrainedParameter { name, .. } => self.print(name),
            Node::ValueParameter { value_type, name } => {
                self.print(name);
                self.right(value_type);
            }
            Node::TemplateParameter { name, requires, .. } => {
                self.print(name);
                if let Some(requires) = requires {
                    self.prefixed(" requires ", requires);
                }
            }
            Node::PackParameter(one) => self.right(one),
            _ => {}
        }
    }

    pub(super) fn template_arguments(&mut self, arguments: List) {
        let outside = std::mem::replace(&mut self.brackets, 0);
        self.push("<");
        self.comma_separated(arguments);
        let is_spaced = self.is_gnu && self.text.ends_with('>') && self.erased_at != self.text.len();
        self.push(if is_spaced { " >" } else { ">" });
        self.brackets = outside;
    }

    /// Prints the child once for each element of the packs in it.
    pub(super) fn expansion(&mut self, child: NodeId) {
        let outside = self.pack.replace(PackAt { index: 0, length: None });
        let start = self.text.len();
        self.print(child);
        match self.pack.and_then(|at| at.length) {
            // No pack in it, as in an expansion of a function's parameter.
            None => self.push("..."),
            Some(0) => self.text.truncate(start),
            Some(length) => {
                for index in 1..length {
                    if self.failed {
                        break;
                    }
                    self.push(", ");
                    self.pack = Some(PackAt { index, length: Some(length) });
                    self.print(child);
                }
            }
        }
        self.pack = outside;
    }

    pub(super) fn closure_declarator(&mut self, index: u32) {
        let closure = self.tree.closure(index);
        if !closure.template.is_empty() {
            self.template_arguments(closure.template);
        }
        if let Some(requires) = closure.template_requires {
            self.prefixed(" requires ", requires);
            self.push(" ");
        }
        self.in_parentheses(closure.parameters);
        if let Some(requires) = closure.requires {
            self.prefixed(" requires ", requires);
        }
    }

    fn invented_name(&mut self, kind: Invented, index: u32) {
        self.push(match kind {
            Invented::Type => "$T",
            Invented::Value => "$N",
            Invented::Template => "$TT",
        });
        if index > 0 {
            self.push(&(index - 1).to_string());
        }
    }
}
