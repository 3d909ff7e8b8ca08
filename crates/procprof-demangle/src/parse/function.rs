//! `<function-type>`

use super::Parser;
use crate::node::{Node, NodeId, ReferenceQualifier, Signature};

impl Parser<'_> {
    /// `[<CV-qualifiers>] [<exception-spec>] [Dx] F [Y] <result> <parameters> [R | O] E`
    pub(super) fn function_type(&mut self) -> Option<NodeId> {
        let qualifiers = self.qualifiers();
        let exceptions = self.exceptions()?;
        let is_transaction_safe = self.take(b"Dx");
        self.require(b'F')?;
        // `extern "C"`; nothing shows it.
        self.eat(b'Y');
        let result = self.type_()?;
        let mut reference = ReferenceQualifier::None;
        let start = self.scratch.pending.len();
        loop {
            if self.eat(b'E') {
                break;
            }
            if self.eat(b'v') {
                continue;
            }
            if self.take(b"RE") {
                reference = ReferenceQualifier::Left;
                break;
            }
            if self.take(b"OE") {
                reference = ReferenceQualifier::Right;
                break;
            }
            let parameter = self.type_()?;
            self.scratch.pending.push(parameter);
        }
        let parameters = self.list_from(start);
        self.tree.add_signature(Signature {
            result,
            parameters,
            qualifiers,
            reference,
            exceptions,
            is_transaction_safe,
        })
    }

    /// `<exception-spec> ::= Do | DO <expression> E | Dw <type>+ E`; `None` if it is wrong.
    fn exceptions(&mut self) -> Option<Option<NodeId>> {
        if self.take(b"Do") {
            return self.add(Node::Word("noexcept")).map(Some);
        }
        if self.take(b"DO") {
            let expression = self.expression()?;
            self.require(b'E')?;
            return self.add(Node::Noexcept(expression)).map(Some);
        }
        if self.take(b"Dw") {
            let types = self.list_to_end(Self::type_)?;
            return self.add(Node::Throws(types)).map(Some);
        }
        Some(None)
    }
}
