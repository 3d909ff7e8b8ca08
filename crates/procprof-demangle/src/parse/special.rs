//! `<special-name>`: what the compiler makes for classes, functions and objects.

use super::Parser;
use crate::node::{Node, NodeId};

impl Parser<'_> {
    /// `<special-name>`
    pub(super) fn special_name(&mut self) -> Option<NodeId> {
        let code = [self.peek(), self.peek_at(1)];
        self.at = (self.at + 2).min(self.text.len());
        match &code {
            b"TV" => self.special("vtable for ", Self::type_),
            b"TT" => self.special("VTT for ", Self::type_),
            b"TI" => self.special("typeinfo for ", Self::type_),
            b"TS" => self.special("typeinfo name for ", Self::type_),
            b"TA" => self.special("template parameter object for ", Self::template_argument),
            b"TW" => self.special("thread-local wrapper routine for ", |parser| parser.name(None)),
            b"TH" => self.special("thread-local initialization routine for ", |parser| parser.name(None)),
            b"GV" => self.special("guard variable for ", |parser| parser.name(None)),
            b"GI" => {
                let module = self.modules(None)??;
                self.add(Node::Special { prefix: "initializer for module ", child: module })
            }
            // LLVM does not support transactions.
            b"GT" if self.is_gnu => {
                let prefix = if self.eat(b'n') { "non-transaction clone for " } else { "transaction clone for " };
                self.at += usize::from(self.peek() == b't');
                self.special(prefix, Self::encoding)
            }
            b"GR" => self.reference_temporary(),
            b"TC" => self.construction_vtable(),
            b"Tc" => {
                self.call_offset()?;
                self.call_offset()?;
                self.special("covariant return thunk to ", Self::encoding)
            }
            b"Th" => {
                self.at -= 1;
                self.call_offset()?;
                self.special("non-virtual thunk to ", Self::encoding)
            }
            b"Tv" => {
                self.at -= 1;
                self.call_offset()?;
                self.special("virtual thunk to ", Self::encoding)
            }
            _ => None,
        }
    }

    fn special(&mut self, prefix: &'static str, child: impl FnOnce(&mut Self) -> Option<NodeId>) -> Option<NodeId> {
        let child = child(self)?;
        self.add(Node::Special { prefix, child })
    }

    /// `GR <object> [<seq-id>] _`; without the `_` as older compilers write it.
    fn reference_temporary(&mut self) -> Option<NodeId> {
        let object = self.name(None)?;
        let start = self.at;
        let has_number = self.sequence().is_some();
        let number = self.span_from(start, self.at);
        if !self.eat(b'_') && has_number {
            return None;
        }
        self.add(Node::ReferenceTemporary { object, number })
    }

    /// `TC <class> <offset> _ <base>`
    fn construction_vtable(&mut self) -> Option<NodeId> {
        let class = self.type_()?;
        if self.signed_number_span().is_empty() {
            return None;
        }
        self.require(b'_')?;
        let base = self.type_()?;
        self.add(Node::ConstructionVtable { class, base })
    }

    /// `<call-offset> ::= h <number> _ | v <number> _ <number> _`
    fn call_offset(&mut self) -> Option<()> {
        let is_virtual = self.eat(b'v');
        if !is_virtual {
            self.require(b'h')?;
        }
        for _ in 0..=usize::from(is_virtual) {
            if self.signed_number_span().is_empty() {
                return None;
            }
            self.require(b'_')?;
        }
        Some(())
    }
}
