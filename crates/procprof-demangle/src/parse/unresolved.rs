//! `<unresolved-name>`: names in expressions that depend on template parameters.

use super::Parser;
use crate::node::{Node, NodeId};

impl Parser<'_> {
    /// `<unresolved-name>`, behind the `gs` of a global one.
    pub(super) fn unresolved_name(&mut self, is_global: bool) -> Option<NodeId> {
        if self.is_of_gcc && self.rest().starts_with(b"srN") {
            self.at += 2;
            let scope = self.type_()?;
            return self.base_in(scope);
        }
        if self.take(b"srN") {
            let mut scope = self.unresolved_type_with_arguments()?;
            while !self.eat(b'E') {
                let name = self.simple_name()?;
                scope = self.add(Node::Nested { scope, name })?;
            }
            return self.base_in(scope);
        }
        if !self.take(b"sr") {
            let name = self.base_unresolved_name()?;
            return if is_global { self.add(Node::Global(name)) } else { Some(name) };
        }
        if !self.peek().is_ascii_digit() {
            let scope = self.unresolved_type_with_arguments()?;
            return self.base_in(scope);
        }
        let mut scope = self.simple_name()?;
        if is_global {
            scope = self.add(Node::Global(scope))?;
        }
        while !self.eat(b'E') {
            let name = self.simple_name()?;
            scope = self.add(Node::Nested { scope, name })?;
        }
        self.base_in(scope)
    }

    fn base_in(&mut self, scope: NodeId) -> Option<NodeId> {
        let name = self.base_unresolved_name()?;
        self.add(Node::Nested { scope, name })
    }

    fn unresolved_type_with_arguments(&mut self) -> Option<NodeId> {
        let name = self.unresolved_type()?;
        self.with_arguments(name)
    }

    /// `<unresolved-type> ::= <template-param> | <decltype> | <substitution>`
    fn unresolved_type(&mut self) -> Option<NodeId> {
        let found = match self.peek() {
            b'T' => self.template_parameter()?,
            b'D' if matches!(self.peek_at(1), b't' | b'T') => self.decltype()?,
            // As GCC writes a class of the standard library here.
            b'S' if self.peek_at(1) == b't' => return self.type_(),
            _ => return self.substitution(),
        };
        self.substitute(found);
        Some(found)
    }

    /// `<simple-id> ::= <source-name> [<template-args>]`
    fn simple_name(&mut self) -> Option<NodeId> {
        let name = self.source_name()?;
        self.with_arguments(name)
    }

    fn with_arguments(&mut self, name: NodeId) -> Option<NodeId> {
        if self.peek() != b'I' {
            return Some(name);
        }
        let arguments = self.template_arguments(false)?;
        self.add(Node::Templated { name, arguments })
    }

    /// `<base-unresolved-name> ::= <simple-id> | on <operator-name> [<template-args>] | dn <destructor-name>`
    fn base_unresolved_name(&mut self) -> Option<NodeId> {
        if self.peek().is_ascii_digit() {
            return self.simple_name();
        }
        if self.take(b"dn") {
            let class = if self.peek().is_ascii_digit() { self.simple_name()? } else { self.unresolved_type()? };
            return self.add(Node::Destructor(class));
        }
        self.take(b"on");
        let name = self.operator_name(None)?;
        self.with_arguments(name)
    }
}
