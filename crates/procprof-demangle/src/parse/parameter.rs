//! Declarations of template parameters: of lambdas, of template template parameters, and of arguments whose parameter
//! is not obvious.

use super::{Level, Parser};
use crate::node::{Invented, Node, NodeId};

/// The state that [`Parser::leave_parameters`] restores.
pub(super) struct ParameterScope {
    levels: usize,
    inner: usize,
    lambda_level: Option<usize>,
}

impl Parser<'_> {
    /// Begins a level of template parameters; a lambda's may be `auto`.
    pub(super) fn enter_parameters(&mut self, is_lambda: bool) -> ParameterScope {
        let template = &mut self.scratch.template;
        let scope = ParameterScope {
            levels: template.levels.len(),
            inner: template.inner.len(),
            lambda_level: self.lambda_level,
        };
        if is_lambda {
            self.lambda_level = Some(scope.levels);
        }
        template.levels.push(Level::Inner { start: scope.inner });
        scope
    }

    pub(super) fn leave_parameters(&mut self, scope: ParameterScope) {
        self.scratch.template.levels.truncate(scope.levels);
        self.scratch.template.inner.truncate(scope.inner);
        self.lambda_level = scope.lambda_level;
    }

    /// Ends the level of a lambda that declares no parameters.
    pub(super) fn drop_empty_level(&mut self) {
        self.scratch.template.levels.pop();
    }

    /// Whether what follows declares a parameter, and is not a reference to one or `Ts`, `Tu`, `Te`.
    pub(super) fn is_parameter_declaration(&self) -> bool {
        self.peek() == b'T' && matches!(self.peek_at(1), b'y' | b'n' | b't' | b'p' | b'k')
    }

    /// `<template-param-decl> ::= Ty | Tk <concept> | Tn <type> | Tt <template-param-decl>* [Q …] E | Tp <template-param-decl>`
    pub(super) fn parameter_declaration(&mut self, is_declared: bool) -> Option<NodeId> {
        self.nested(|parser| {
            if parser.take(b"Ty") {
                let name = parser.invent(Invented::Type, is_declared)?;
                return parser.add(Node::TypeParameter(name));
            }
            if parser.take(b"Tk") {
                let constraint = parser.name(None)?;
                let name = parser.invent(Invented::Type, is_declared)?;
                return parser.add(Node::ConstrainedParameter { constraint, name });
            }
            if parser.take(b"Tn") {
                let name = parser.invent(Invented::Value, is_declared)?;
                let value_type = parser.type_()?;
                return parser.add(Node::ValueParameter { value_type, name });
            }
            if parser.take(b"Tt") {
                let name = parser.invent(Invented::Template, is_declared)?;
                let scope = parser.enter_parameters(false);
                let declaration = parser.template_template_parameter(name);
                parser.leave_parameters(scope);
                return declaration;
            }
            if parser.take(b"Tp") {
                let one = parser.parameter_declaration(is_declared)?;
                return parser.add(Node::PackParameter(one));
            }
            None
        })
    }

    fn template_template_parameter(&mut self, name: NodeId) -> Option<NodeId> {
        let start = self.scratch.pending.len();
        let mut requires = None;
        while !self.eat(b'E') {
            let declaration = self.parameter_declaration(true)?;
            self.scratch.pending.push(declaration);
            requires = self.requires()?;
            if requires.is_some() {
                self.require(b'E')?;
                break;
            }
        }
        let parameters = self.list_from(start);
        self.add(Node::TemplateParameter { name, parameters, requires })
    }

    /// Parameters of the innermost level so far.
    fn positions(&self) -> u32 {
        let template = &self.scratch.template;
        match template.levels.last() {
            Some(&Level::Inner { start }) => (template.inner.len() - start) as u32,
            _ => 0,
        }
    }

    fn invent(&mut self, kind: Invented, is_declared: bool) -> Option<NodeId> {
        let counter = &mut self.invented[kind as usize];
        let index = *counter;
        *counter += 1;
        let position = self.positions();
        let name = self.add(Node::InventedName { kind, index, position })?;
        if is_declared {
            self.scratch.template.inner.push(name);
        }
        Some(name)
    }
}
