//! `<expr-primary>`: literals, and names of functions and objects as template arguments.

use super::Parser;
use crate::node::{Node, NodeId};

impl Parser<'_> {
    /// `<expr-primary> ::= L <type> <value> E | L <mangled-name> E | L <string type> E | L <closure type> E`
    pub(super) fn primary(&mut self) -> Option<NodeId> {
        self.nested(Self::primary_in_depth)
    }

    fn primary_in_depth(&mut self) -> Option<NodeId> {
        self.require(b'L')?;
        let node = match self.peek() {
            b'b' => {
                self.at += 1;
                let value = self.eat(b'1');
                if !value {
                    self.require(b'0')?;
                }
                Node::Bool(value)
            }
            letter @ (b'w' | b'c' | b'a' | b'h' | b's' | b't' | b'i' | b'j' | b'l' | b'm' | b'x' | b'y' | b'n'
            | b'o') => {
                self.at += 1;
                let value = self.signed_number_span();
                if value.is_empty() {
                    return None;
                }
                Node::Integer { letter, value }
            }
            letter @ (b'f' | b'd' | b'e') => return self.float(letter),
            b'_' => {
                if !self.take(b"_Z") {
                    return None;
                }
                let encoding = self.encoding()?;
                self.require(b'E')?;
                return Some(encoding);
            }
            b'A' => Node::StringLiteral(self.type_()?),
            b'D' if self.take(b"Dn") => Node::Null { has_zero: self.eat(b'0') },
            b'D' | b'T' => return None,
            b'U' => {
                if self.peek_at(1) != b'l' {
                    return None;
                }
                Node::LambdaExpression(self.unnamed_type(None)?)
            }
            _ => {
                let of = self.type_()?;
                let value = self.signed_number_span();
                if value.is_empty() {
                    return None;
                }
                Node::Enumerator { of, value }
            }
        };
        self.require(b'E')?;
        self.add(node)
    }

    /// The bytes of a floating-point number, most significant first, as hexadecimal digits.
    fn float(&mut self, letter: u8) -> Option<NodeId> {
        let digits = match letter {
            b'f' => 8,
            b'd' => 16,
            // Of the x87's format, whatever machine the name is from.
            _ => 20,
        };
        self.at += 1;
        let end = self.at + digits;
        if !self.text.get(self.at..end)?.iter().all(u8::is_ascii_hexdigit) {
            return None;
        }
        let digits = self.span_from(self.at, end);
        self.at = end;
        self.require(b'E')?;
        self.add(Node::Float { letter, digits })
    }
}
