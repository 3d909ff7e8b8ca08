//! The parts of a parsed name, which refer to each other by number.

use std::num::NonZeroU32;

use crate::operator::Operator;

/// A node of a [`Tree`](crate::tree::Tree).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NodeId(NonZeroU32);

impl NodeId {
    /// Of the node that is added as that many.
    pub(crate) fn from_count(count: usize) -> Option<Self> {
        u32::try_from(count).ok().and_then(NonZeroU32::new).map(Self)
    }

    /// The place among all nodes.
    pub(crate) fn index(self) -> usize {
        self.0.get() as usize - 1
    }
}

/// Bytes of the mangled name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Span {
    pub(crate) start: u32,
    pub(crate) end: u32,
}

/// Nodes one after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct List {
    pub(crate) start: u32,
    pub(crate) length: u32,
}

impl Span {
    pub(crate) fn is_empty(self) -> bool {
        self.start == self.end
    }
}

impl List {
    pub(crate) fn is_empty(self) -> bool {
        self.length == 0
    }

    pub(crate) fn len(self) -> usize {
        self.length as usize
    }
}

/// Qualifiers of a type or a member function, as bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Qualifiers(u8);

impl Qualifiers {
    pub(crate) const CONST: Self = Self(1);
    pub(crate) const VOLATILE: Self = Self(2);
    pub(crate) const RESTRICT: Self = Self(4);

    pub(crate) fn add(&mut self, other: Self) {
        self.0 |= other.0;
    }

    pub(crate) fn has(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    pub(crate) fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }
}

/// The `&` or `&&` behind a member function's parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum ReferenceQualifier {
    #[default]
    None,
    Left,
    Right,
}

/// The abbreviated names of the standard library: `Sa`, `Sb`, `Ss`, `Si`, `So`, `Sd`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Abbreviation {
    Allocator,
    BasicString,
    String,
    Istream,
    Ostream,
    Iostream,
}

/// A function or a member function with its type.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Function {
    pub(crate) result: Option<NodeId>,
    pub(crate) name: NodeId,
    pub(crate) parameters: List,
    pub(crate) attributes: Option<List>,
    pub(crate) requires: Option<NodeId>,
    pub(crate) qualifiers: Qualifiers,
    pub(crate) reference: ReferenceQualifier,
    pub(crate) has_explicit_object: bool,
}

/// The type of a function.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Signature {
    pub(crate) result: NodeId,
    pub(crate) parameters: List,
    pub(crate) qualifiers: Qualifiers,
    pub(crate) reference: ReferenceQualifier,
    pub(crate) exceptions: Option<NodeId>,
    pub(crate) is_transaction_safe: bool,
}

/// The type of a lambda expression.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Closure {
    pub(crate) template: List,
    pub(crate) template_requires: Option<NodeId>,
    pub(crate) parameters: List,
    pub(crate) requires: Option<NodeId>,
    pub(crate) count: Span,
}

/// The kind of a template parameter without a name of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Invented {
    Type,
    Value,
    Template,
}

/// A part of a name.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Node {
    // Names.
    Word(&'static str),
    Text(Span),
    Anonymous,
    Nested {
        scope: NodeId,
        name: NodeId,
    },
    Local {
        encoding: NodeId,
        entity: NodeId,
    },
    DefaultArgument {
        number: Span,
        entity: NodeId,
    },
    Friend {
        scope: NodeId,
        name: NodeId,
    },
    Global(NodeId),
    Templated {
        name: NodeId,
        arguments: List,
    },
    AbiTag {
        base: NodeId,
        tag: Span,
    },
    Structor {
        class: NodeId,
        is_destructor: bool,
    },
    Destructor(NodeId),
    OperatorName(&'static Operator),
    Conversion(NodeId),
    LiteralOperator(NodeId),
    VendorOperator(NodeId),
    Unnamed(Span),
    BlockLiteral,
    Closure(u32),
    Binding(List),
    Module {
        parent: Option<NodeId>,
        name: NodeId,
        is_partition: bool,
    },
    ModuleEntity {
        module: NodeId,
        name: NodeId,
    },
    Abbreviation {
        which: Abbreviation,
        is_expanded: bool,
    },
    /// A parameter of a lambda; for binutils, any parameter whose argument depends on where it is printed. Positions
    /// count parameters.
    Auto {
        position: u32,
    },
    // Encodings.
    Function(u32),
    Suffixed {
        encoding: NodeId,
        suffix: Span,
    },
    Special {
        prefix: &'static str,
        child: NodeId,
    },
    ConstructionVtable {
        class: NodeId,
        base: NodeId,
    },
    ReferenceTemporary {
        object: NodeId,
        number: Span,
    },
    // Types.
    Builtin(u8),
    Qualified {
        child: NodeId,
        qualifiers: Qualifiers,
    },
    Vendor {
        child: NodeId,
        name: Span,
        arguments: Option<List>,
    },
    Pointer(NodeId),
    Reference {
        child: NodeId,
        is_rvalue: bool,
    },
    MemberPointer {
        class: NodeId,
        member: NodeId,
    },
    Array {
        element: NodeId,
        dimension: Option<NodeId>,
    },
    FunctionType(u32),
    Noexcept(NodeId),
    Throws(List),
    PixelVector(NodeId),
    Vector {
        element: NodeId,
        dimension: Option<NodeId>,
    },
    Postfixed {
        child: NodeId,
        text: &'static str,
    },
    BinaryFloat(Span),
    BitInt {
        size: NodeId,
        is_signed: bool,
    },
    Transformed {
        name: Span,
        child: NodeId,
    },
    ObjcProtocol {
        child: NodeId,
        protocol: Span,
    },
    Elaborated {
        keyword: &'static str,
        name: NodeId,
    },
    Decltype(NodeId),
    // Templates.
    Pack(List),
    ArgumentPack(List),
    Expansion(NodeId),
    Forward {
        index: u32,
        target: Option<NodeId>,
    },
    TypeParameter(NodeId),
    ConstrainedParameter {
        constraint: NodeId,
        name: NodeId,
    },
    ValueParameter {
        value_type: NodeId,
        name: NodeId,
    },
    TemplateParameter {
        name: NodeId,
        parameters: List,
        requires: Option<NodeId>,
    },
    PackParameter(NodeId),
    InventedName {
        kind: Invented,
        index: u32,
        position: u32,
    },
    // Expressions.
    Binary {
        operator: &'static Operator,
        left: NodeId,
        right: NodeId,
    },
    Prefix {
        operator: &'static Operator,
        child: NodeId,
    },
    Postfix {
        operator: &'static Operator,
        child: NodeId,
    },
    Subscript {
        base: NodeId,
        index: NodeId,
    },
    Member {
        operator: &'static Operator,
        left: NodeId,
        right: NodeId,
    },
    Conditional {
        condition: NodeId,
        then: NodeId,
        otherwise: NodeId,
    },
    Enclosing {
        operator: &'static Operator,
        child: NodeId,
    },
    NamedCast {
        operator: &'static Operator,
        to: NodeId,
        child: NodeId,
    },
    Call {
        callee: NodeId,
        arguments: List,
        is_parenthesized: bool,
    },
    Convert {
        to: NodeId,
        arguments: List,
        is_list: bool,
    },
    New {
        placement: List,
        created: NodeId,
        initializers: Option<List>,
        is_global: bool,
    },
    NewArray {
        placement: List,
        created: NodeId,
        initializers: Option<List>,
        is_global: bool,
    },
    Delete {
        child: NodeId,
        is_global: bool,
        is_array: bool,
    },
    FunctionParameter {
        number: Span,
    },
    This,
    InitList {
        of: Option<NodeId>,
        items: List,
    },
    BracedField {
        field: NodeId,
        value: NodeId,
    },
    BracedIndex {
        index: NodeId,
        value: NodeId,
    },
    BracedRange {
        first: NodeId,
        last: NodeId,
        value: NodeId,
    },
    Fold {
        operator: &'static Operator,
        pack: NodeId,
        start: Option<NodeId>,
        is_left: bool,
    },
    Throw(NodeId),
    PackSize(NodeId),
    PackSizeOf(NodeId),
    Sequence(List),
    Bool(bool),
    Null {
        has_zero: bool,
    },
    Integer {
        letter: u8,
        value: Span,
    },
    Enumerator {
        of: NodeId,
        value: Span,
    },
    Float {
        letter: u8,
        digits: Span,
    },
    StringLiteral(NodeId),
    LambdaExpression(NodeId),
    Subobject {
        of: NodeId,
        from: NodeId,
        offset: Span,
    },
    MemberConversion {
        to: NodeId,
        child: NodeId,
    },
    Requires {
        parameters: List,
        requirements: List,
    },
    ExpressionRequirement {
        child: NodeId,
        is_noexcept: bool,
        constraint: Option<NodeId>,
    },
    TypeRequirement(NodeId),
    NestedRequirement(NodeId),
}
