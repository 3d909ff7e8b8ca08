//! `<type>`

use super::Parser;
use crate::node::{Node, NodeId};

impl Parser<'_> {
    /// `<type>`; adds all but builtin types and substitutions to the substitutions.
    pub(super) fn type_(&mut self) -> Option<NodeId> {
        self.nested(|parser| {
            let (found, is_new) = parser.type_or_known()?;
            if is_new {
                parser.substitute(found);
            }
            Some(found)
        })
    }

    /// A type, and whether it is one that can be referred to from here on.
    fn type_or_known(&mut self) -> Option<(NodeId, bool)> {
        let new = |id| Some((id, true));
        match self.peek() {
            b'r' | b'V' | b'K' => {
                let found = if self.is_qualified_function() { self.function_type() } else { self.qualified_type() };
                new(found?)
            }
            b'U' => new(self.qualified_type()?),
            b'u' => new(self.vendor_type()?),
            b'D' => self.d_type(),
            b'F' => new(self.function_type()?),
            b'A' => new(self.array_type()?),
            b'M' => new(self.member_pointer()?),
            b'T' if matches!(self.peek_at(1), b's' | b'u' | b'e') => new(self.class_enum_type()?),
            b'T' => new(self.parameter_type()?),
            b'P' => new(self.wrapped(Node::Pointer)?),
            b'R' => new(self.wrapped(|child| Node::Reference { child, is_rvalue: false })?),
            b'O' => new(self.wrapped(|child| Node::Reference { child, is_rvalue: true })?),
            b'C' => new(self.wrapped(|child| Node::Postfixed { child, text: " complex" })?),
            b'G' => new(self.wrapped(|child| Node::Postfixed { child, text: " imaginary" })?),
            b'S' if self.peek_at(1) != b't' => self.substituted_type(),
            letter if builtin(letter).is_some() => {
                self.at += 1;
                Some((self.add(Node::Builtin(letter))?, false))
            }
            _ => new(self.class_enum_type()?),
        }
    }

    /// Whether the qualifiers here are those of a member function's type.
    fn is_qualified_function(&self) -> bool {
        let mut ahead = 0;
        for letter in [b'r', b'V', b'K'] {
            ahead += usize::from(self.peek_at(ahead) == letter);
        }
        match self.peek_at(ahead) {
            b'F' => true,
            b'D' => matches!(self.peek_at(ahead + 1), b'o' | b'O' | b'w' | b'x'),
            _ => false,
        }
    }

    /// One letter, and the type it is about.
    fn wrapped(&mut self, wrap: impl FnOnce(NodeId) -> Node) -> Option<NodeId> {
        self.at += 1;
        let child = self.type_()?;
        self.add(wrap(child))
    }

    /// `<extended-qualifier>* <CV-qualifiers> <type>`
    fn qualified_type(&mut self) -> Option<NodeId> {
        if !self.eat(b'U') {
            let qualifiers = self.qualifiers();
            let child = self.type_()?;
            return if qualifiers.is_empty() { Some(child) } else { self.add(Node::Qualified { child, qualifiers }) };
        }
        let name = self.identifier()?;
        if let Some(protocol) = self.bytes(name).strip_prefix(b"objcproto") {
            return self.objc_protocol(protocol.len());
        }
        let arguments = if self.peek() == b'I' { Some(self.template_arguments(false)?) } else { None };
        let child = self.nested(Self::qualified_type)?;
        self.add(Node::Vendor { child, name, arguments })
    }

    /// A protocol's name and its length are the last bytes that were read.
    fn objc_protocol(&mut self, length: usize) -> Option<NodeId> {
        let behind = self.at;
        self.at -= length;
        let protocol = self.identifier().filter(|span| span.end as usize <= behind)?;
        self.at = behind;
        let child = self.nested(Self::qualified_type)?;
        self.add(Node::ObjcProtocol { child, protocol })
    }

    /// `u <source-name> [I <type> E]`
    fn vendor_type(&mut self) -> Option<NodeId> {
        self.at += 1;
        let name = self.identifier()?;
        if !self.eat(b'I') {
            return self.add(Node::Text(name));
        }
        let child = self.type_()?;
        self.require(b'E')?;
        self.add(Node::Transformed { name, child })
    }

    /// The types whose first letter is `D`.
    fn d_type(&mut self) -> Option<(NodeId, bool)> {
        let word = match self.peek_at(1) {
            b'd' => "decimal64",
            b'e' => "decimal128",
            b'f' => "decimal32",
            b'h' => "half",
            b'i' => "char32_t",
            b's' => "char16_t",
            b'u' => "char8_t",
            b'a' => "auto",
            b'c' => "decltype(auto)",
            b'n' => "std::nullptr_t",
            b'F' => return Some((self.binary_float()?, false)),
            b'B' | b'U' => return Some((self.bit_int()?, false)),
            b'k' => return Some((self.constrained_auto(" auto")?, false)),
            b'K' => return Some((self.constrained_auto(" decltype(auto)")?, false)),
            _ => return Some((self.compound_d_type()?, true)),
        };
        self.at += 2;
        Some((self.add(Node::Word(word))?, false))
    }

    fn compound_d_type(&mut self) -> Option<NodeId> {
        match self.peek_at(1) {
            b't' | b'T' => self.decltype(),
            b'v' => self.vector_type(),
            b'p' => {
                self.at += 1;
                self.wrapped(Node::Expansion)
            }
            b'o' | b'O' | b'w' | b'x' => self.function_type(),
            _ => self.class_enum_type(),
        }
    }

    /// `DF <number> _ | DF16b`
    fn binary_float(&mut self) -> Option<NodeId> {
        if self.take(b"DF16b") {
            return self.add(Node::Word("std::bfloat16_t"));
        }
        self.at += 2;
        let bits = self.number_span();
        self.require(b'_')?;
        if bits.is_empty() { None } else { self.add(Node::BinaryFloat(bits)) }
    }

    /// `(DB | DU) (<number> | <expression>) _`
    fn bit_int(&mut self) -> Option<NodeId> {
        let is_signed = self.peek_at(1) == b'B';
        self.at += 2;
        let digits = self.number_span();
        let size = if digits.is_empty() { self.expression()? } else { self.add(Node::Text(digits))? };
        self.require(b'_')?;
        self.add(Node::BitInt { size, is_signed })
    }

    /// `(Dk | DK) <concept>`
    fn constrained_auto(&mut self, text: &'static str) -> Option<NodeId> {
        self.at += 2;
        let child = self.name(None)?;
        self.add(Node::Postfixed { child, text })
    }

    /// `(Dt | DT) <expression> E`
    pub(super) fn decltype(&mut self) -> Option<NodeId> {
        self.at += 2;
        let expression = self.expression()?;
        self.require(b'E')?;
        self.add(Node::Decltype(expression))
    }

    /// `Dv (<number> | [<expression>]) _ (p | <type>)`
    fn vector_type(&mut self) -> Option<NodeId> {
        self.at += 2;
        let (dimension, is_number) = self.dimension()?;
        if let Some(dimension) = dimension.filter(|_| is_number)
            && self.eat(b'p')
        {
            return self.add(Node::PixelVector(dimension));
        }
        let element = self.type_()?;
        self.add(Node::Vector { element, dimension })
    }

    /// `[<number> | <expression>] _`, and whether it is a number.
    fn dimension(&mut self) -> Option<(Option<NodeId>, bool)> {
        let digits = self.number_span();
        let is_number = !digits.is_empty();
        let dimension = if is_number {
            Some(self.add(Node::Text(digits))?)
        } else if self.peek() == b'_' {
            None
        } else {
            Some(self.expression()?)
        };
        self.require(b'_')?;
        Some((dimension, is_number))
    }

    /// `A [<number> | <expression>] _ <type>`
    fn array_type(&mut self) -> Option<NodeId> {
        self.at += 1;
        let (dimension, _) = self.dimension()?;
        let element = self.type_()?;
        self.add(Node::Array { element, dimension })
    }

    /// `M <class> <member>`
    fn member_pointer(&mut self) -> Option<NodeId> {
        self.at += 1;
        let class = self.type_()?;
        let member = self.type_()?;
        self.add(Node::MemberPointer { class, member })
    }

    /// `<class-enum-type> ::= [Ts | Tu | Te] <name>`
    fn class_enum_type(&mut self) -> Option<NodeId> {
        let keyword = if self.take(b"Ts") {
            "struct"
        } else if self.take(b"Tu") {
            "union"
        } else if self.take(b"Te") {
            "enum"
        } else {
            return self.name(None);
        };
        let name = self.name(None)?;
        self.add(Node::Elaborated { keyword, name })
    }

    /// `<template-param>`, perhaps of a template, with arguments.
    fn parameter_type(&mut self) -> Option<NodeId> {
        let name = self.template_parameter()?;
        if !self.tries_arguments || self.peek() != b'I' {
            return Some(name);
        }
        self.substitute(name);
        let arguments = self.template_arguments(false)?;
        self.add(Node::Templated { name, arguments })
    }

    /// A substitution, or a template that is one, with arguments; only the latter can be referred to.
    fn substituted_type(&mut self) -> Option<(NodeId, bool)> {
        let (name, is_substitution) = self.unscoped_name(None)?;
        if self.peek() == b'I' && (!is_substitution || self.tries_arguments) {
            if !is_substitution {
                self.substitute(name);
            }
            let arguments = self.template_arguments(false)?;
            return Some((self.add(Node::Templated { name, arguments })?, true));
        }
        Some((name, !is_substitution))
    }
}

/// A type of one letter.
pub(crate) fn builtin(letter: u8) -> Option<&'static str> {
    Some(match letter {
        b'v' => "void",
        b'w' => "wchar_t",
        b'b' => "bool",
        b'c' => "char",
        b'a' => "signed char",
        b'h' => "unsigned char",
        b's' => "short",
        b't' => "unsigned short",
        b'i' => "int",
        b'j' => "unsigned int",
        b'l' => "long",
        b'm' => "unsigned long",
        b'x' => "long long",
        b'y' => "unsigned long long",
        b'n' => "__int128",
        b'o' => "unsigned __int128",
        b'f' => "float",
        b'd' => "double",
        b'e' => "long double",
        b'g' => "__float128",
        b'z' => "...",
        _ => return None,
    })
}
