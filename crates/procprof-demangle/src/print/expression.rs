//! Expressions.

use super::Printer;
use crate::float;
use crate::node::{List, Node, NodeId};
use crate::operator::{Operator, Precedence};

impl Printer<'_> {
    pub(super) fn expression_left(&mut self, node: Node) {
        match node {
            Node::Binary { operator, left, right } => self.binary(operator, left, right),
            Node::Prefix { operator, child } => {
                self.push(operator.symbol);
                self.operand(child, node.precedence());
            }
            Node::Postfix { operator, child } => {
                self.operand_or_equal(child, node.precedence());
                self.push(operator.symbol);
            }
            Node::Subscript { base, index } => {
                self.operand(base, node.precedence());
                self.open("[");
                self.operand(index, Precedence::Default);
                self.close("]");
            }
            Node::Member { operator, left, right } => {
                self.operand_or_equal(left, node.precedence());
                self.push(operator.symbol);
                self.operand(right, node.precedence());
            }
            Node::Conditional { condition, then, otherwise } => {
                self.operand(condition, node.precedence());
                self.push(" ? ");
                self.operand(then, Precedence::Default);
                self.push(" : ");
                self.operand_or_equal(otherwise, Precedence::Assign);
            }
            Node::Enclosing { operator, child } => {
                self.push(operator.symbol);
                self.push(" ");
                self.enclosed(child);
            }
            Node::NamedCast { operator, to, child } => {
                self.push(operator.symbol);
                let outside = std::mem::replace(&mut self.brackets, 0);
                self.push("<");
                self.print(to);
                self.push(">");
                self.brackets = outside;
                self.enclosed(child);
            }
            Node::Call { callee, arguments, is_parenthesized } => {
                if is_parenthesized {
                    self.enclosed(callee);
                } else {
                    self.print(callee);
                }
                self.in_parentheses(arguments);
            }
            Node::Convert { to, arguments, .. } => {
                self.enclosed(to);
                self.in_parentheses(arguments);
            }
            Node::New { placement, created, initializers, is_global } => {
                self.allocation(is_global, "new");
                self.created(placement, created, initializers);
            }
            Node::NewArray { placement, created, initializers, is_global } => {
                self.allocation(is_global, "new[]");
                self.created(placement, created, initializers);
            }
            Node::Delete { child, is_global, is_array } => {
                self.allocation(is_global, if is_array { "delete[]" } else { "delete" });
                self.prefixed(" ", child);
            }
            Node::Fold { operator, pack, start, is_left } => self.fold(operator, pack, start, is_left),
            Node::Throw(child) => self.prefixed("throw ", child),
            Node::PackSize(pack) => {
                self.push("sizeof...");
                self.open("(");
                self.expansion(pack);
                self.close(")");
            }
            Node::PackSizeOf(child) => {
                self.push("sizeof... ");
                self.enclosed(child);
            }
            Node::Requires { parameters, requirements } => self.requires(parameters, requirements),
            _ => self.literal_left(node),
        }
    }

    /// Expressions that are not operations.
    fn literal_left(&mut self, node: Node) {
        match node {
            Node::FunctionParameter { number } => {
                self.push("fp");
                self.span(number);
            }
            Node::This => self.push("this"),
            Node::InitList { of, items } => {
                if let Some(of) = of {
                    self.print(of);
                }
                self.open("{");
                self.comma_separated(items);
                self.close("}");
            }
            Node::BracedField { field, value } => {
                self.prefixed(".", field);
                self.braced_value(value);
            }
            Node::BracedIndex { index, value } => {
                self.prefixed("[", index);
                self.push("]");
                self.braced_value(value);
            }
            Node::BracedRange { first, last, value } => {
                self.push("[");
                self.joined(first, " ... ", last);
                self.push("]");
                self.braced_value(value);
            }
            Node::Null { .. } => self.push("nullptr"),
            Node::Bool(value) => self.push(if value { "true" } else { "false" }),
            Node::Integer { letter, value } => {
                let (cast, suffix) = integer_type(letter);
                self.push(cast);
                self.number(value);
                self.push(suffix);
            }
            Node::Enumerator { of, value } => {
                self.enclosed(of);
                self.number(value);
            }
            Node::Float { letter, digits } => {
                let digits = self.mangled.get(digits.start as usize..digits.end as usize).unwrap_or_default();
                float::append(letter, digits, self.text);
            }
            Node::StringLiteral(of) => {
                self.prefixed("\"<", of);
                self.push(">\"");
            }
            Node::LambdaExpression(closure) => {
                self.push("[]");
                if let Node::Closure(index) = self.tree.node(closure) {
                    self.closure_declarator(index);
                }
                self.push("{...}");
            }
            Node::Subobject { of, from, offset } => {
                self.print(from);
                self.push(".<");
                self.print(of);
                self.push(" at offset ");
                if offset.is_empty() {
                    self.push("0");
                }
                self.number(offset);
                self.push(">");
            }
            Node::MemberConversion { to, child } => {
                self.enclosed(to);
                self.enclosed(child);
            }
            Node::ExpressionRequirement { child, is_noexcept, constraint } => {
                self.expression_requirement(child, is_noexcept, constraint);
            }
            Node::TypeRequirement(of) => {
                self.prefixed(" typename ", of);
                self.push(";");
            }
            Node::NestedRequirement(constraint) => {
                self.prefixed(" requires ", constraint);
                self.push(";");
            }
            _ => self.failed = true,
        }
    }

    fn binary(&mut self, operator: &Operator, left: NodeId, right: NodeId) {
        let precedence = operator.precedence;
        let is_assignment = precedence == Precedence::Assign;
        let needs_parentheses = self.brackets == 0 && matches!(operator.symbol, ">" | ">>");
        if needs_parentheses {
            self.open("(");
        }
        if is_assignment {
            self.operand(left, Precedence::OrElse);
        } else {
            self.operand_or_equal(left, precedence);
        }
        if operator.symbol != "," {
            self.push(" ");
        }
        self.push(operator.symbol);
        self.push(" ");
        if is_assignment {
            self.operand_or_equal(right, precedence);
        } else {
            self.operand(right, precedence);
        }
        if needs_parentheses {
            self.close(")");
        }
    }

    pub(super) fn allocation(&mut self, is_global: bool, word: &str) {
        self.push(if is_global { "::" } else { "" });
        self.push(word);
    }

    fn created(&mut self, placement: List, created: NodeId, initializers: Option<List>) {
        if !placement.is_empty() {
            self.in_parentheses(placement);
        }
        self.prefixed(" ", created);
        if let Some(initializers) = initializers.filter(|list| !list.is_empty()) {
            self.in_parentheses(initializers);
        }
    }

    /// `(start op ... op pack)` or one of its three relatives.
    fn fold(&mut self, operator: &Operator, pack: NodeId, start: Option<NodeId>, is_left: bool) {
        self.open("(");
        if is_left {
            if let Some(start) = start {
                self.operand_or_equal(start, Precedence::Cast);
                self.infix(operator);
            }
            self.push("...");
            self.infix(operator);
            self.folded_pack(pack);
        } else {
            self.folded_pack(pack);
            self.infix(operator);
            self.push("...");
            if let Some(start) = start {
                self.infix(operator);
                self.operand_or_equal(start, Precedence::Cast);
            }
        }
        self.close(")");
    }

    fn folded_pack(&mut self, pack: NodeId) {
        self.open("(");
        self.expansion(pack);
        self.close(")");
    }

    fn infix(&mut self, operator: &Operator) {
        self.push(" ");
        self.push(operator.symbol);
        self.push(" ");
    }

    /// The value behind a designator; one that is a designator, too, follows directly.
    fn braced_value(&mut self, value: NodeId) {
        let is_designated = matches!(
            self.tree.node(value),
            Node::BracedField { .. } | Node::BracedIndex { .. } | Node::BracedRange { .. }
        );
        self.prefixed(if is_designated { "" } else { " = " }, value);
    }

    fn requires(&mut self, parameters: List, requirements: List) {
        self.push("requires");
        if !parameters.is_empty() {
            self.push(" ");
            self.in_parentheses(parameters);
        }
        self.push(" ");
        self.open("{");
        for index in 0..requirements.len() {
            if let Some(requirement) = self.tree.item(requirements, index) {
                self.print(requirement);
            }
        }
        self.push(" ");
        self.close("}");
    }

    fn expression_requirement(&mut self, child: NodeId, is_noexcept: bool, constraint: Option<NodeId>) {
        self.push(" ");
        if is_noexcept || constraint.is_some() {
            self.open("{");
            self.print(child);
            self.close("}");
        } else {
            self.print(child);
        }
        if is_noexcept {
            self.push(" noexcept");
        }
        if let Some(constraint) = constraint {
            self.prefixed(" -> ", constraint);
        }
        self.push(";");
    }
}

/// The text before and after the digits of an integer of that type.
fn integer_type(letter: u8) -> (&'static str, &'static str) {
    match letter {
        b'w' => ("(wchar_t)", ""),
        b'c' => ("(char)", ""),
        b'a' => ("(signed char)", ""),
        b'h' => ("(unsigned char)", ""),
        b's' => ("(short)", ""),
        b't' => ("(unsigned short)", ""),
        b'j' => ("", "u"),
        b'l' => ("", "l"),
        b'm' => ("", "ul"),
        b'x' => ("", "ll"),
        b'y' => ("", "ull"),
        b'n' => ("(__int128)", ""),
        b'o' => ("(unsigned __int128)", ""),
        _ => ("", ""),
    }
}

impl Node {
    /// Its precedence.
    pub(super) fn precedence(self) -> Precedence {
        match self {
            Self::Binary { operator, .. }
            | Self::Member { operator, .. }
            | Self::Enclosing { operator, .. }
            | Self::NamedCast { operator, .. } => operator.precedence,
            // `++` and `--` bind as the operators behind their operands do; only printing shows their side.
            Self::Prefix { operator, .. } | Self::Postfix { operator, .. } => operator.precedence,
            Self::Subscript { .. } | Self::Call { .. } => Precedence::Postfix,
            Self::Conditional { .. } => Precedence::Conditional,
            Self::Convert { .. } => Precedence::Cast,
            Self::New { .. } | Self::NewArray { .. } | Self::Delete { .. } | Self::MemberConversion { .. } => {
                Precedence::Unary
            }
            _ => Precedence::Primary,
        }
    }
}
