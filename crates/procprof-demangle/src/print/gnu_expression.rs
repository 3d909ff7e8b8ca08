//! Expressions in the style of binutils: every operand that is not a name is in parentheses.

use super::Printer;
use crate::node::{List, Node, NodeId};
use crate::operator::Operator;

impl Printer<'_> {
    /// Prints an expression that binutils print differently; `false` if they do not.
    pub(super) fn gnu_expression(&mut self, node: Node) -> bool {
        match node {
            Node::Binary { operator, left, right } => {
                let is_greater = operator.symbol == ">";
                self.push(if is_greater { "(" } else { "" });
                self.subexpression(left);
                self.push(operator.symbol);
                self.subexpression(right);
                self.push(if is_greater { ")" } else { "" });
            }
            Node::Member { operator, left, right } => {
                self.subexpression(left);
                self.push(operator.symbol);
                self.subexpression(right);
            }
            Node::Prefix { operator, child } => {
                self.push(operator.symbol);
                self.prefix_operand(operator, child);
            }
            Node::Postfix { operator, child } => {
                self.subexpression(child);
                self.push(operator.symbol);
            }
            Node::Subscript { base, index } => {
                self.subexpression(base);
                self.prefixed("[", index);
                self.push("]");
            }
            Node::Conditional { condition, then, otherwise } => {
                self.subexpression(condition);
                self.push("?");
                self.subexpression(then);
                self.push(" : ");
                self.subexpression(otherwise);
            }
            Node::Enclosing { operator, child } => {
                self.push(operator.symbol);
                self.push(" ");
                match operator.code {
                    [b's', b't'] => self.enclosed(child),
                    _ => self.subexpression(child),
                }
            }
            Node::Call { callee, arguments, .. } => {
                self.callee(callee);
                self.in_parentheses(arguments);
            }
            Node::Convert { to, arguments, is_list } => {
                self.enclosed(to);
                match self.tree.item(arguments, 0) {
                    Some(one) if !is_list => self.subexpression(one),
                    _ => self.in_parentheses(arguments),
                }
            }
            Node::New { placement, created, initializers, is_global }
            | Node::NewArray { placement, created, initializers, is_global } => {
                self.allocation(is_global, "new ");
                if !placement.is_empty() {
                    self.in_parentheses(placement);
                    self.push(" ");
                }
                self.print(created);
                if let Some(initializers) = initializers {
                    self.in_parentheses(initializers);
                }
            }
            Node::Delete { child, is_global, is_array } => {
                self.allocation(is_global, if is_array { "delete[] " } else { "delete " });
                self.subexpression(child);
            }
            Node::FunctionParameter { number } => {
                let digits = self.mangled.get(number.start as usize..number.end as usize).unwrap_or_default();
                let number = if digits.is_empty() {
                    1
                } else {
                    digits.parse::<u64>().map_or(0, |number| number.saturating_add(2))
                };
                self.push(&format!("{{parm#{number}}}"));
            }
            Node::Throw(child) => {
                self.push("throw ");
                self.subexpression(child);
            }
            Node::PackSize(pack) => self.pack_length(pack),
            Node::PackSizeOf(child) => match self.tree.node(child) {
                Node::Sequence(list) => self.arguments_length(list),
                _ => self.push("0"),
            },
            Node::Fold { operator, pack, start, is_left } => self.gnu_fold(operator, pack, start, is_left),
            Node::BracedField { field, value } => {
                self.prefixed(".", field);
                self.gnu_braced_value(value);
            }
            Node::BracedIndex { index, value } => {
                self.prefixed("[", index);
                self.push("]");
                self.gnu_braced_value(value);
            }
            Node::BracedRange { first, last, value } => {
                self.push("[");
                self.joined(first, " ... ", last);
                self.push("]");
                self.gnu_braced_value(value);
            }
            Node::Null { has_zero } => self.push(if has_zero { "(decltype(nullptr))0" } else { "decltype(nullptr)" }),
            Node::Float { letter, digits } => {
                self.push("(");
                self.push(crate::parse::builtin(letter).unwrap_or_default());
                self.push(")[");
                self.span(digits);
                self.push("]");
            }
            _ => return false,
        }
        true
    }

    /// Whether it needs no parentheses anywhere.
    pub(super) fn is_simple(&self, id: NodeId) -> bool {
        match self.tree.node(id) {
            Node::Text(_) | Node::Anonymous | Node::InitList { .. } | Node::FunctionParameter { .. } | Node::This => {
                true
            }
            Node::Nested { name, .. } => !matches!(self.tree.node(name), Node::Templated { .. }),
            _ => false,
        }
    }

    pub(super) fn subexpression(&mut self, id: NodeId) {
        if self.is_simple(id) { self.print(id) } else { self.enclosed(id) }
    }

    /// The address of a member function is the one of its name.
    fn prefix_operand(&mut self, operator: &Operator, child: NodeId) {
        if operator.code == *b"ad"
            && let Node::Function(index) = self.tree.node(child)
        {
            let function = self.tree.function(index);
            let is_plain =
                function.qualifiers.is_empty() && function.reference == crate::node::ReferenceQualifier::None;
            if is_plain && matches!(self.tree.node(function.name), Node::Nested { .. }) {
                return self.print(function.name);
            }
        }
        self.subexpression(child);
    }

    /// A function that is called is named without the types of its parameters.
    fn callee(&mut self, callee: NodeId) {
        match self.tree.node(callee) {
            Node::Function(index) => self.subexpression(self.tree.function(index).name),
            _ => self.subexpression(callee),
        }
    }

    fn pack_length(&mut self, pack: NodeId) {
        let length = self.pack_of(pack).map_or(0, List::len);
        self.push(&length.to_string());
    }

    /// The number of arguments with the elements of packs among them.
    fn arguments_length(&mut self, list: List) {
        let mut length = 0;
        for index in 0..list.len() {
            length += match self.tree.item(list, index).map(|item| self.tree.node(item)) {
                Some(Node::Expansion(child)) => self.pack_of(child).map_or(0, List::len),
                _ => 1,
            };
        }
        self.push(&length.to_string());
    }

    fn gnu_fold(&mut self, operator: &Operator, pack: NodeId, start: Option<NodeId>, is_left: bool) {
        let outside = std::mem::replace(&mut self.prints_whole_packs, true);
        let (first, last) = if is_left { (start, Some(pack)) } else { (Some(pack), start) };
        self.push("(");
        if let Some(first) = first {
            self.subexpression(first);
            self.push(operator.symbol);
        }
        self.push("...");
        if let Some(last) = last {
            self.push(operator.symbol);
            self.subexpression(last);
        }
        self.push(")");
        self.prints_whole_packs = outside;
    }

    /// The value behind a designator; one that is a designator, too, follows directly.
    fn gnu_braced_value(&mut self, value: NodeId) {
        match self.tree.node(value) {
            Node::BracedField { .. } | Node::BracedIndex { .. } | Node::BracedRange { .. } => self.print(value),
            _ => {
                self.push("=");
                self.subexpression(value);
            }
        }
    }
}
