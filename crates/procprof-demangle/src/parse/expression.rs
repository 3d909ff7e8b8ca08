//! `<expression>`

use super::Parser;
use crate::node::{Node, NodeId};
use crate::operator::{Kind, Operator};

impl Parser<'_> {
    /// `<expression>`
    pub(super) fn expression(&mut self) -> Option<NodeId> {
        self.nested(|parser| {
            let is_global = parser.take(b"gs");
            if let Some(operator) = Operator::find([parser.peek(), parser.peek_at(1)]) {
                parser.at += 2;
                return parser.operation(operator, is_global);
            }
            parser.simple_expression(is_global)
        })
    }

    /// The part after an operator.
    fn operation(&mut self, operator: &'static Operator, is_global: bool) -> Option<NodeId> {
        let node = match operator.kind {
            Kind::Binary => Node::Binary { operator, left: self.expression()?, right: self.expression()? },
            Kind::Postfix if !self.eat(b'_') => Node::Postfix { operator, child: self.expression()? },
            Kind::Prefix | Kind::Postfix => Node::Prefix { operator, child: self.expression()? },
            Kind::Subscript => Node::Subscript { base: self.expression()?, index: self.expression()? },
            Kind::Member => Node::Member { operator, left: self.expression()?, right: self.expression()? },
            Kind::New | Kind::NewArray => return self.new_expression(is_global, operator.kind == Kind::NewArray),
            Kind::Delete | Kind::DeleteArray => {
                Node::Delete { child: self.expression()?, is_global, is_array: operator.kind == Kind::DeleteArray }
            }
            Kind::Call | Kind::ParenthesizedCall => {
                let callee = self.expression()?;
                let arguments = self.list_to_end(Self::expression)?;
                Node::Call { callee, arguments, is_parenthesized: operator.kind == Kind::ParenthesizedCall }
            }
            Kind::Conversion => return self.conversion(),
            Kind::Conditional => Node::Conditional {
                condition: self.expression()?,
                then: self.expression()?,
                otherwise: self.expression()?,
            },
            Kind::OfType => Node::Enclosing { operator, child: self.type_()? },
            Kind::OfExpression => Node::Enclosing { operator, child: self.expression()? },
            Kind::NamedCast => Node::NamedCast { operator, to: self.type_()?, child: self.expression()? },
            Kind::Name => return None,
        };
        self.add(node)
    }

    /// `nw <expression>* _ <type> (E | pi <expression>* E)`
    fn new_expression(&mut self, is_global: bool, is_array: bool) -> Option<NodeId> {
        let start = self.scratch.pending.len();
        while !self.eat(b'_') {
            let one = self.expression()?;
            self.scratch.pending.push(one);
        }
        let placement = self.list_from(start);
        let created = self.type_()?;
        let initializers = if self.take(b"pi") {
            Some(self.list_to_end(Self::expression)?)
        } else {
            self.require(b'E')?;
            None
        };
        self.add(if is_array {
            Node::NewArray { placement, created, initializers, is_global }
        } else {
            Node::New { placement, created, initializers, is_global }
        })
    }

    /// `cv <type> (<expression> | _ <expression>* E)`
    fn conversion(&mut self) -> Option<NodeId> {
        let tries_arguments = std::mem::replace(&mut self.tries_arguments, false);
        let to = self.type_();
        self.tries_arguments = tries_arguments;
        let to = to?;
        let is_list = self.eat(b'_');
        let arguments = if is_list {
            self.list_to_end(Self::expression)?
        } else {
            let one = self.expression()?;
            self.tree.add_list(&[one])
        };
        self.add(Node::Convert { to, arguments, is_list })
    }

    /// Expressions that do not begin with the letters of an operator.
    fn simple_expression(&mut self, is_global: bool) -> Option<NodeId> {
        match (self.peek(), self.peek_at(1)) {
            (b'L', _) => return self.primary(),
            (b'T', _) => return self.template_parameter(),
            (b'f', b'p') => return self.function_parameter(),
            (b'f', b'L') if self.peek_at(2).is_ascii_digit() => return self.function_parameter(),
            (b'f', _) => return self.fold(),
            (b'r', b'q' | b'Q') => return self.requires_expression(),
            (b'u', _) => return self.vendor_expression(),
            _ => {}
        }
        if self.take(b"il") {
            let items = self.list_to_end(Self::braced)?;
            return self.add(Node::InitList { of: None, items });
        }
        if self.take(b"tl") {
            let of = Some(self.type_()?);
            let items = self.list_to_end(Self::braced)?;
            return self.add(Node::InitList { of, items });
        }
        if self.take(b"sp") {
            let child = self.expression()?;
            return self.add(Node::Expansion(child));
        }
        if self.take(b"sZ") {
            return self.pack_size();
        }
        if self.take(b"sP") {
            let arguments = self.list_to_end(Self::template_argument)?;
            let sequence = self.add(Node::Sequence(arguments))?;
            return self.add(Node::PackSizeOf(sequence));
        }
        if self.take(b"tr") {
            return self.add(Node::Word("throw"));
        }
        if self.take(b"tw") {
            let child = self.expression()?;
            return self.add(Node::Throw(child));
        }
        if self.take(b"mc") {
            return self.member_conversion();
        }
        if self.take(b"so") {
            return self.subobject();
        }
        self.unresolved_name(is_global)
    }

    /// `sZ (<template-param> | <function-param>)`
    fn pack_size(&mut self) -> Option<NodeId> {
        if self.peek() == b'T' {
            let pack = self.template_parameter()?;
            return self.add(Node::PackSize(pack));
        }
        let parameter = self.function_parameter()?;
        self.add(Node::PackSizeOf(parameter))
    }

    /// `u <source-name> <template-arg>* E`; `__uuidof` has a form of its own.
    fn vendor_expression(&mut self) -> Option<NodeId> {
        self.at += 1;
        let name = self.identifier()?;
        let callee = self.add(Node::Text(name))?;
        let of_type = self.bytes(name) == b"__uuidof" && self.eat(b't');
        let arguments = if of_type {
            let one = self.type_()?;
            self.tree.add_list(&[one])
        } else if self.bytes(name) == b"__uuidof" && self.eat(b'z') {
            let one = self.expression()?;
            self.tree.add_list(&[one])
        } else {
            self.list_to_end(Self::template_argument)?
        };
        self.add(Node::Call { callee, arguments, is_parenthesized: false })
    }

    /// `mc <type> <expression> [<offset>] E`
    fn member_conversion(&mut self) -> Option<NodeId> {
        let to = self.type_()?;
        let child = self.expression()?;
        self.signed_number_span();
        self.require(b'E')?;
        self.add(Node::MemberConversion { to, child })
    }

    /// `so <type> <expression> [<offset>] (_ [<number>])* [p] E`
    fn subobject(&mut self) -> Option<NodeId> {
        let of = self.type_()?;
        let from = self.expression()?;
        let offset = self.signed_number_span();
        while self.eat(b'_') {
            self.number_span();
        }
        self.eat(b'p');
        self.require(b'E')?;
        self.add(Node::Subobject { of, from, offset })
    }

    /// `<braced-expression> ::= <expression> | di <field> <braced> | dx <index> <braced> | dX <first> <last> <braced>`
    fn braced(&mut self) -> Option<NodeId> {
        self.nested(|parser| {
            let node = if parser.take(b"di") {
                Node::BracedField { field: parser.source_name()?, value: parser.braced()? }
            } else if parser.take(b"dx") {
                Node::BracedIndex { index: parser.expression()?, value: parser.braced()? }
            } else if parser.take(b"dX") {
                Node::BracedRange { first: parser.expression()?, last: parser.expression()?, value: parser.braced()? }
            } else {
                return parser.expression();
            };
            parser.add(node)
        })
    }

    /// `fpT | fp <CV-qualifiers> [<number>] _ | fL <number> p <CV-qualifiers> [<number>] _`
    fn function_parameter(&mut self) -> Option<NodeId> {
        if self.take(b"fpT") {
            return self.add(Node::This);
        }
        if !self.take(b"fp") {
            self.require(b'f')?;
            self.require(b'L')?;
            if self.number_span().is_empty() {
                return None;
            }
            self.require(b'p')?;
        }
        self.qualifiers();
        let number = self.number_span();
        self.require(b'_')?;
        self.add(Node::FunctionParameter { number })
    }

    /// `(fl | fr) <operator> <expression> | (fL | fR) <operator> <expression> <expression>`
    fn fold(&mut self) -> Option<NodeId> {
        self.require(b'f')?;
        let form = self.peek();
        let is_left = matches!(form, b'l' | b'L');
        let has_start = matches!(form, b'L' | b'R');
        if !matches!(form, b'l' | b'L' | b'r' | b'R') {
            return None;
        }
        self.at += 1;
        let operator = Operator::find([self.peek(), self.peek_at(1)]).filter(|operator| operator.can_fold())?;
        self.at += 2;
        let first = self.expression()?;
        let second = if has_start { Some(self.expression()?) } else { None };
        let (pack, start) = match second {
            Some(second) if is_left => (second, Some(first)),
            other => (first, other),
        };
        self.add(Node::Fold { operator, pack, start, is_left })
    }

    /// `(rQ <type>* _ | rq) <requirement>+ E`
    fn requires_expression(&mut self) -> Option<NodeId> {
        let start = self.scratch.pending.len();
        if self.take(b"rQ") {
            while !self.eat(b'_') {
                let one = self.type_()?;
                self.scratch.pending.push(one);
            }
        } else if !self.take(b"rq") {
            return None;
        }
        let parameters = self.list_from(start);
        let requirements = self.list_to_end(Self::requirement)?;
        if requirements.is_empty() {
            return None;
        }
        self.add(Node::Requires { parameters, requirements })
    }

    /// `<requirement> ::= X <expression> [N] [R <type-constraint>] | T <type> | Q <constraint-expression>`
    fn requirement(&mut self) -> Option<NodeId> {
        let node = if self.eat(b'X') {
            let child = self.expression()?;
            let is_noexcept = self.eat(b'N');
            let constraint = if self.eat(b'R') { Some(self.name(None)?) } else { None };
            Node::ExpressionRequirement { child, is_noexcept, constraint }
        } else if self.eat(b'T') {
            Node::TypeRequirement(self.type_()?)
        } else if self.eat(b'Q') {
            Node::NestedRequirement(self.expression()?)
        } else {
            return None;
        };
        self.add(node)
    }
}
