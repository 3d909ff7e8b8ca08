//! `<name>`: nested, unscoped, special to a class; source names and substitutions.

use super::{NameState, Parser};
use crate::node::{Abbreviation, Closure, List, Node, NodeId, Qualifiers, ReferenceQualifier, Span};
use crate::operator::{Kind, Operator};

impl Parser<'_> {
    /// `<name>`; with a state if it is the one of an encoding.
    pub(super) fn name(&mut self, mut state: Option<&mut NameState>) -> Option<NodeId> {
        self.nested(|parser| match parser.peek() {
            b'N' => parser.nested_name(state),
            b'Z' => parser.local_name(state),
            _ => {
                let (name, is_substitution) = parser.unscoped_name(state.as_deref_mut())?;
                if parser.peek() != b'I' {
                    return (!is_substitution).then_some(name);
                }
                if !is_substitution {
                    parser.substitute(name);
                }
                let arguments = parser.template_arguments(state.is_some())?;
                if let Some(state) = state {
                    state.ends_with_arguments = true;
                }
                parser.add(Node::Templated { name, arguments })
            }
        })
    }

    /// `<unscoped-name> ::= [St] [<module>] <unqualified-name>`, or a substitution; whether it is one.
    pub(super) fn unscoped_name(&mut self, state: Option<&mut NameState>) -> Option<(NodeId, bool)> {
        let scope = if self.take(b"St") { Some(self.add(Node::Word("std"))?) } else { None };
        let mut module = None;
        if self.peek() == b'S' {
            let substitution = self.substitution()?;
            if matches!(self.tree.node(substitution), Node::Module { .. }) {
                module = Some(substitution);
            } else if scope.is_none() {
                return Some((substitution, true));
            } else {
                return None;
            }
        }
        Some((self.unqualified_name(state, scope, module)?, false))
    }

    /// `<nested-name> ::= N [H] [<CV-qualifiers>] [<ref-qualifier>] <prefix> <unqualified-name> E`
    fn nested_name(&mut self, mut state: Option<&mut NameState>) -> Option<NodeId> {
        self.require(b'N')?;
        self.member_qualifiers(state.as_deref_mut());
        let mut prefix: Option<NodeId> = None;
        while !self.eat(b'E') {
            if let Some(state) = state.as_deref_mut() {
                state.ends_with_arguments = false;
            }
            let part = match (self.peek(), prefix) {
                (b'T', None) => self.template_parameter()?,
                (b'I', Some(name)) if !matches!(self.tree.node(name), Node::Templated { .. }) => {
                    let arguments = self.template_arguments(state.is_some())?;
                    if let Some(state) = state.as_deref_mut() {
                        state.ends_with_arguments = true;
                    }
                    self.add(Node::Templated { name, arguments })?
                }
                (b'T' | b'I', _) => return None,
                (b'D', _) if matches!(self.peek_at(1), b't' | b'T') => {
                    if prefix.is_some() {
                        return None;
                    }
                    self.decltype()?
                }
                (b'S', _) => {
                    let substitution =
                        if self.take(b"St") { self.add(Node::Word("std"))? } else { self.substitution()? };
                    let is_module = matches!(self.tree.node(substitution), Node::Module { .. });
                    if !is_module && prefix.is_some() {
                        return None;
                    }
                    if !is_module {
                        prefix = Some(substitution);
                        continue;
                    }
                    self.unqualified_name(state.as_deref_mut(), prefix, Some(substitution))?
                }
                _ => self.unqualified_name(state.as_deref_mut(), prefix, None)?,
            };
            prefix = Some(part);
            self.substitute(part);
            // Closures in the initializer of a member.
            self.eat(b'M');
        }
        self.scratch.substitutions.pop()?;
        prefix
    }

    fn member_qualifiers(&mut self, state: Option<&mut NameState>) {
        let has_explicit_object = self.eat(b'H');
        // A function with an explicit object has neither.
        let qualifiers = if has_explicit_object { Qualifiers::default() } else { self.qualifiers() };
        let reference = if self.eat(b'O') {
            ReferenceQualifier::Right
        } else if self.eat(b'R') {
            ReferenceQualifier::Left
        } else {
            ReferenceQualifier::None
        };
        if let Some(state) = state {
            state.has_explicit_object |= has_explicit_object;
            state.qualifiers = qualifiers;
            state.reference = reference;
        }
    }

    /// `<unqualified-name>` in its scope.
    pub(super) fn unqualified_name(
        &mut self,
        state: Option<&mut NameState>,
        scope: Option<NodeId>,
        module: Option<NodeId>,
    ) -> Option<NodeId> {
        let module = self.modules(module)?;
        let is_friend = scope.is_some() && self.eat(b'F');
        self.eat(b'L');
        let mut name = match self.peek() {
            b'1'..=b'9' => self.source_name()?,
            b'U' => self.unnamed_type(state)?,
            b'D' if self.peek_at(1) == b'C' => self.structured_binding()?,
            b'C' | b'D' => self.structor(state, scope.filter(|_| module.is_none())?)?,
            _ => self.operator_name(state)?,
        };
        if let Some(module) = module {
            name = self.add(Node::ModuleEntity { module, name })?;
        }
        name = self.abi_tags(name)?;
        match scope {
            Some(scope) if is_friend => self.add(Node::Friend { scope, name }),
            Some(scope) => self.add(Node::Nested { scope, name }),
            None => Some(name),
        }
    }

    /// `<module-name> ::= (W [P] <source-name>)*` behind the one that is known.
    pub(super) fn modules(&mut self, mut module: Option<NodeId>) -> Option<Option<NodeId>> {
        while self.eat(b'W') {
            let is_partition = self.eat(b'P');
            let name = self.source_name()?;
            let one = self.add(Node::Module { parent: module, name, is_partition })?;
            self.substitute(one);
            module = Some(one);
        }
        Some(module)
    }

    /// `<source-name> ::= <length> <identifier>`
    pub(super) fn source_name(&mut self) -> Option<NodeId> {
        let span = self.identifier()?;
        let node = if self.bytes(span).starts_with(b"_GLOBAL__N") { Node::Anonymous } else { Node::Text(span) };
        self.add(node)
    }

    pub(super) fn identifier(&mut self) -> Option<Span> {
        let length = self.count()?;
        let end = self.at.checked_add(length).filter(|&end| length > 0 && end <= self.text.len())?;
        let span = self.span_from(self.at, end);
        self.at = end;
        Some(span)
    }

    /// `(B <source-name>)*`
    pub(super) fn abi_tags(&mut self, mut base: NodeId) -> Option<NodeId> {
        while self.eat(b'B') {
            let tag = self.identifier()?;
            base = self.add(Node::AbiTag { base, tag })?;
        }
        Some(base)
    }

    /// `DC <source-name>+ E`
    fn structured_binding(&mut self) -> Option<NodeId> {
        self.at += 2;
        let names = self.list_to_end(Self::source_name)?;
        if names.is_empty() {
            return None;
        }
        self.add(Node::Binding(names))
    }

    /// `<ctor-dtor-name> ::= C [I] (1 … 5) [<class>] | D (0 | 1 | 2 | 4 | 5)`
    fn structor(&mut self, state: Option<&mut NameState>, scope: NodeId) -> Option<NodeId> {
        // The class of an abbreviation is spelled out, and so is then the abbreviation.
        if let Node::Abbreviation { which, .. } = self.tree.node(scope) {
            self.tree.replace(scope, Node::Abbreviation { which, is_expanded: true });
        }
        let is_destructor = self.eat(b'D');
        let is_inherited = !is_destructor && self.require(b'C').is_some() && self.eat(b'I');
        let is_variant = if is_destructor {
            matches!(self.peek(), b'0' | b'1' | b'2' | b'4' | b'5')
        } else {
            matches!(self.peek(), b'1'..=b'5')
        };
        if !is_variant {
            return None;
        }
        self.at += 1;
        let mut ignored = NameState::default();
        let state = state.unwrap_or(&mut ignored);
        state.is_structor_or_conversion = true;
        let mut class = scope;
        if is_inherited {
            let base = self.name(Some(state))?;
            // An inherited constructor is named after the class it is from by binutils, and after its own by LLVM.
            class = if self.is_gnu { base } else { scope };
        }
        self.add(Node::Structor { class, is_destructor })
    }

    /// `<unnamed-type-name> ::= Ut [<number>] _ | Ub [<number>] _ | <closure-type-name>`
    pub(super) fn unnamed_type(&mut self, state: Option<&mut NameState>) -> Option<NodeId> {
        // Properties of an enclosing template do not apply here.
        if state.is_some() {
            self.scratch.template.levels.clear();
            self.scratch.template.inner.clear();
        }
        if self.take(b"Ut") {
            let count = self.number_span();
            self.require(b'_')?;
            return self.add(Node::Unnamed(count));
        }
        if self.take(b"Ub") {
            self.number_span();
            self.require(b'_')?;
            return self.add(Node::BlockLiteral);
        }
        if !self.take(b"Ul") {
            return None;
        }
        self.nested(Self::closure)
    }

    /// `<closure-type-name> ::= Ul <template-param-decl>* [Q …] <parameters> [Q …] E [<number>] _`, behind its letters.
    fn closure(&mut self) -> Option<NodeId> {
        let scope = self.enter_parameters(true);
        let closure = self.closure_in_scope();
        self.leave_parameters(scope);
        self.tree.add_closure(closure?)
    }

    fn closure_in_scope(&mut self) -> Option<Closure> {
        let start = self.scratch.pending.len();
        while self.is_parameter_declaration() {
            let declaration = self.parameter_declaration(true)?;
            self.scratch.pending.push(declaration);
        }
        let template = self.list_from(start);
        if template.is_empty() {
            self.drop_empty_level();
        }
        let template_requires = self.requires()?;
        let mut parameters = List::default();
        if !self.eat(b'v') {
            loop {
                let parameter = self.type_()?;
                self.scratch.pending.push(parameter);
                if matches!(self.peek(), b'E' | b'Q') {
                    break;
                }
            }
            parameters = self.list_from(start);
        }
        let requires = self.requires()?;
        self.require(b'E')?;
        let count = self.number_span();
        self.require(b'_')?;
        Some(Closure { template, template_requires, parameters, requires, count })
    }

    /// `<operator-name>`
    pub(super) fn operator_name(&mut self, state: Option<&mut NameState>) -> Option<NodeId> {
        if self.peek() == b'v' && self.peek_at(1).is_ascii_digit() {
            self.at += 2;
            let name = self.source_name()?;
            return self.add(Node::VendorOperator(name));
        }
        if self.take(b"li") {
            let name = self.source_name()?;
            return self.add(Node::LiteralOperator(name));
        }
        if self.take(b"cv") {
            return self.conversion_name(state);
        }
        let operator = Operator::find([self.peek(), self.peek_at(1)])?;
        if !operator.can_be_named() || operator.kind == Kind::Conversion {
            return None;
        }
        self.at += 2;
        self.add(Node::OperatorName(operator))
    }

    /// The type that `operator` converts to; its template arguments follow the type, which may refer to them.
    fn conversion_name(&mut self, state: Option<&mut NameState>) -> Option<NodeId> {
        let tries_arguments = std::mem::replace(&mut self.tries_arguments, false);
        let permits = self.permits_forwards || state.is_some();
        let permits_forwards = std::mem::replace(&mut self.permits_forwards, permits);
        let to = self.type_();
        self.tries_arguments = tries_arguments;
        self.permits_forwards = permits_forwards;
        if let Some(state) = state {
            state.is_structor_or_conversion = true;
        }
        self.add(Node::Conversion(to?))
    }

    /// `<substitution> ::= S [<seq-id>] _ | Sa | Sb | Ss | Si | So | Sd`
    pub(super) fn substitution(&mut self) -> Option<NodeId> {
        self.require(b'S')?;
        let which = match self.peek() {
            b'a' => Abbreviation::Allocator,
            b'b' => Abbreviation::BasicString,
            b's' => Abbreviation::String,
            b'i' => Abbreviation::Istream,
            b'o' => Abbreviation::Ostream,
            b'd' => Abbreviation::Iostream,
            b'_' => {
                self.at += 1;
                return self.scratch.substitutions.first().copied();
            }
            _ => {
                let number = self.sequence()?;
                self.require(b'_')?;
                return self.scratch.substitutions.get(number.checked_add(1)?).copied();
            }
        };
        self.at += 1;
        let abbreviation = self.add(Node::Abbreviation { which, is_expanded: false })?;
        let tagged = self.abi_tags(abbreviation)?;
        if tagged != abbreviation {
            self.substitute(tagged);
        }
        Some(tagged)
    }
}
