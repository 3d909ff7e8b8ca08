//! The operators of names and expressions: two letters each.

/// The precedence of an expression, tightest first, as in the C++ grammar.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Precedence {
    Primary,
    Postfix,
    Unary,
    Cast,
    MemberPointer,
    Multiplicative,
    Additive,
    Shift,
    Spaceship,
    Relational,
    Equality,
    And,
    Xor,
    Or,
    AndAlso,
    OrElse,
    Conditional,
    Assign,
    Comma,
    Default,
}

/// The operands that follow the two letters in an expression.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Prefix,
    /// Or prefix, with a `_` behind it.
    Postfix,
    Binary,
    Subscript,
    /// `.` and similar operators.
    Member,
    New,
    NewArray,
    Delete,
    DeleteArray,
    Call,
    /// A call whose callee is in parentheses, so that its arguments' namespaces are not searched.
    ParenthesizedCall,
    Conversion,
    Conditional,
    /// In names only.
    Name,
    /// `sizeof` and similar operators of a type.
    OfType,
    /// `sizeof` and similar operators of an expression.
    OfExpression,
    NamedCast,
}

/// A row of the table of operators.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Operator {
    /// In the mangled name.
    pub(crate) code: [u8; 2],
    pub(crate) kind: Kind,
    pub(crate) precedence: Precedence,
    /// In C++.
    pub(crate) symbol: &'static str,
}

impl Operator {
    /// By its two letters.
    pub(crate) fn find(code: [u8; 2]) -> Option<&'static Self> {
        OPERATORS.binary_search_by(|operator| operator.code.cmp(&code)).ok().map(|at| &OPERATORS[at])
    }

    /// Whether functions can have it as their name.
    pub(crate) fn can_be_named(&self) -> bool {
        let is_dot = self.kind == Kind::Member && self.symbol.starts_with('.');
        let only_in_expressions = matches!(
            self.kind,
            Kind::Conversion | Kind::OfType | Kind::OfExpression | Kind::NamedCast | Kind::ParenthesizedCall
        );
        !is_dot && !only_in_expressions
    }

    /// Whether it is one of those that fold a pack.
    pub(crate) fn can_fold(&self) -> bool {
        self.kind == Kind::Binary || (self.kind == Kind::Member && self.symbol.ends_with('*'))
    }
}

const fn row(code: &[u8; 2], kind: Kind, precedence: Precedence, symbol: &'static str) -> Operator {
    Operator { code: *code, kind, precedence, symbol }
}

/// In the order of their letters.
static OPERATORS: &[Operator] = &[
    row(b"aN", Kind::Binary, Precedence::Assign, "&="),
    row(b"aS", Kind::Binary, Precedence::Assign, "="),
    row(b"aa", Kind::Binary, Precedence::AndAlso, "&&"),
    row(b"ad", Kind::Prefix, Precedence::Unary, "&"),
    row(b"an", Kind::Binary, Precedence::And, "&"),
    row(b"at", Kind::OfType, Precedence::Unary, "alignof"),
    row(b"aw", Kind::Name, Precedence::Primary, "co_await"),
    row(b"az", Kind::OfExpression, Precedence::Unary, "alignof"),
    row(b"cc", Kind::NamedCast, Precedence::Postfix, "const_cast"),
    row(b"cl", Kind::Call, Precedence::Postfix, "()"),
    row(b"cm", Kind::Binary, Precedence::Comma, ","),
    row(b"co", Kind::Prefix, Precedence::Unary, "~"),
    row(b"cp", Kind::ParenthesizedCall, Precedence::Postfix, "()"),
    row(b"cv", Kind::Conversion, Precedence::Cast, ""),
    row(b"dV", Kind::Binary, Precedence::Assign, "/="),
    row(b"da", Kind::DeleteArray, Precedence::Unary, "delete[]"),
    row(b"dc", Kind::NamedCast, Precedence::Postfix, "dynamic_cast"),
    row(b"de", Kind::Prefix, Precedence::Unary, "*"),
    row(b"dl", Kind::Delete, Precedence::Unary, "delete"),
    row(b"ds", Kind::Member, Precedence::MemberPointer, ".*"),
    row(b"dt", Kind::Member, Precedence::Postfix, "."),
    row(b"dv", Kind::Binary, Precedence::Assign, "/"),
    row(b"eO", Kind::Binary, Precedence::Assign, "^="),
    row(b"eo", Kind::Binary, Precedence::Xor, "^"),
    row(b"eq", Kind::Binary, Precedence::Equality, "=="),
    row(b"ge", Kind::Binary, Precedence::Relational, ">="),
    row(b"gt", Kind::Binary, Precedence::Relational, ">"),
    row(b"ix", Kind::Subscript, Precedence::Postfix, "[]"),
    row(b"lS", Kind::Binary, Precedence::Assign, "<<="),
    row(b"le", Kind::Binary, Precedence::Relational, "<="),
    row(b"ls", Kind::Binary, Precedence::Shift, "<<"),
    row(b"lt", Kind::Binary, Precedence::Relational, "<"),
    row(b"mI", Kind::Binary, Precedence::Assign, "-="),
    row(b"mL", Kind::Binary, Precedence::Assign, "*="),
    row(b"mi", Kind::Binary, Precedence::Additive, "-"),
    row(b"ml", Kind::Binary, Precedence::Multiplicative, "*"),
    row(b"mm", Kind::Postfix, Precedence::Postfix, "--"),
    row(b"na", Kind::NewArray, Precedence::Unary, "new[]"),
    row(b"ne", Kind::Binary, Precedence::Equality, "!="),
    row(b"ng", Kind::Prefix, Precedence::Unary, "-"),
    row(b"nt", Kind::Prefix, Precedence::Unary, "!"),
    row(b"nw", Kind::New, Precedence::Unary, "new"),
    row(b"nx", Kind::OfExpression, Precedence::Unary, "noexcept"),
    row(b"oR", Kind::Binary, Precedence::Assign, "|="),
    row(b"oo", Kind::Binary, Precedence::OrElse, "||"),
    row(b"or", Kind::Binary, Precedence::Or, "|"),
    row(b"pL", Kind::Binary, Precedence::Assign, "+="),
    row(b"pl", Kind::Binary, Precedence::Additive, "+"),
    row(b"pm", Kind::Member, Precedence::MemberPointer, "->*"),
    row(b"pp", Kind::Postfix, Precedence::Postfix, "++"),
    row(b"ps", Kind::Prefix, Precedence::Unary, "+"),
    row(b"pt", Kind::Member, Precedence::Postfix, "->"),
    row(b"qu", Kind::Conditional, Precedence::Conditional, "?"),
    row(b"rM", Kind::Binary, Precedence::Assign, "%="),
    row(b"rS", Kind::Binary, Precedence::Assign, ">>="),
    row(b"rc", Kind::NamedCast, Precedence::Postfix, "reinterpret_cast"),
    row(b"rm", Kind::Binary, Precedence::Multiplicative, "%"),
    row(b"rs", Kind::Binary, Precedence::Shift, ">>"),
    row(b"sc", Kind::NamedCast, Precedence::Postfix, "static_cast"),
    row(b"ss", Kind::Binary, Precedence::Spaceship, "<=>"),
    row(b"st", Kind::OfType, Precedence::Unary, "sizeof"),
    row(b"sz", Kind::OfExpression, Precedence::Unary, "sizeof"),
    row(b"te", Kind::OfExpression, Precedence::Postfix, "typeid"),
    row(b"ti", Kind::OfType, Precedence::Postfix, "typeid"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_order() {
        assert!(OPERATORS.is_sorted_by(|one, other| one.code < other.code));
    }
}
