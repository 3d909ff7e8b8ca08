//! Template arguments, and the parameters that names refer to by number.

use super::{Level, Parser, Template};
use crate::node::{List, Node, NodeId};

impl Parser<'_> {
    /// `<template-args> ::= I <template-arg>* [Q <constraint-expression>] E`
    ///
    /// `T_` refers to those of an encoding's own name.
    pub(super) fn template_arguments(&mut self, is_own: bool) -> Option<List> {
        self.require(b'I')?;
        let tries_arguments = std::mem::replace(&mut self.tries_arguments, true);
        let list = self.template_arguments_inside(is_own);
        self.tries_arguments = tries_arguments;
        list
    }

    fn template_arguments_inside(&mut self, is_own: bool) -> Option<List> {
        if is_own {
            let template = &mut self.scratch.template;
            template.clear();
            template.levels.push(Level::Outer);
        }
        let start = self.scratch.pending.len();
        while !self.eat(b'E') {
            let argument = self.template_argument()?;
            self.scratch.pending.push(argument);
            if is_own {
                let entry = self.parameter_of(argument)?;
                self.scratch.template.outer.push(entry);
            }
            // Only overloads differ by it; the text is long enough without.
            if self.requires()?.is_some() {
                self.require(b'E')?;
                break;
            }
        }
        Some(self.list_from(start))
    }

    /// The target of a reference to the argument.
    fn parameter_of(&mut self, argument: NodeId) -> Option<NodeId> {
        match self.tree.node(argument) {
            Node::ArgumentPack(list) => self.add(Node::Pack(list)),
            _ => Some(argument),
        }
    }

    /// `<template-arg> ::= <type> | X <expression> E | <expr-primary> | J <template-arg>* E | <template-param-decl> <template-arg>`
    pub(super) fn template_argument(&mut self) -> Option<NodeId> {
        self.nested(|parser| match parser.peek() {
            b'X' => {
                parser.at += 1;
                let expression = parser.expression()?;
                parser.require(b'E')?;
                Some(expression)
            }
            b'J' => {
                parser.at += 1;
                let list = parser.list_to_end(Self::template_argument)?;
                parser.add(Node::ArgumentPack(list))
            }
            b'L' if parser.peek_at(1) == b'Z' => {
                parser.at += 2;
                let encoding = parser.encoding()?;
                parser.require(b'E')?;
                Some(encoding)
            }
            b'L' => parser.primary(),
            b'T' if parser.is_parameter_declaration() => {
                parser.parameter_declaration(false)?;
                parser.template_argument()
            }
            _ => parser.type_(),
        })
    }

    /// `<template-param> ::= T [L <level> _] [<number>] _`
    pub(super) fn template_parameter(&mut self) -> Option<NodeId> {
        let start = self.at;
        self.require(b'T')?;
        let level = if self.eat(b'L') { self.index_behind()? } else { 0 };
        let index = if self.eat(b'_') { 0 } else { self.index_behind()? };
        if self.in_constraint {
            let span = self.span_from(start, self.at - 1);
            return self.add(Node::Text(span));
        }
        if self.permits_forwards && level == 0 {
            let forward = self.add(Node::Forward { index: u32::try_from(index).ok()?, target: None })?;
            self.scratch.forwards.push(forward);
            return Some(forward);
        }
        if self.is_gnu && matches!(self.scratch.template.levels.get(level), Some(Level::Outer)) {
            // A substitution refers to the parameter, not to its argument: it may be one of another template then.
            return self.add(Node::Auto { position: u32::try_from(index).ok()? });
        }
        match self.scratch.template.get(level, index) {
            Some(parameter) => Some(parameter),
            None => self.automatic(level, index),
        }
    }

    /// `<number> _`, one less than it counts.
    fn index_behind(&mut self) -> Option<usize> {
        let number = self.count()?;
        self.require(b'_')?;
        number.checked_add(1)
    }

    /// A lambda's parameter of type `auto` is one of a template parameter that is not declared.
    fn automatic(&mut self, level: usize, index: usize) -> Option<NodeId> {
        let levels = self.scratch.template.levels.len();
        if self.lambda_level != Some(level) || level > levels {
            return None;
        }
        if level == levels {
            self.scratch.template.levels.push(Level::Auto);
        }
        self.add(Node::Auto { position: u32::try_from(index).ok()? })
    }
}

impl Template {
    fn get(&self, level: usize, index: usize) -> Option<NodeId> {
        match self.levels.get(level)? {
            Level::Outer => self.outer.get(index).copied(),
            Level::Auto => None,
            &Level::Inner { start } => {
                let next = self.levels[level + 1..].iter().find_map(|level| match level {
                    Level::Inner { start } => Some(*start),
                    _ => None,
                });
                self.inner.get(start..next.unwrap_or(self.inner.len()))?.get(index).copied()
            }
        }
    }
}
