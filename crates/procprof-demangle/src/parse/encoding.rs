//! `<encoding>`: a function with its type, or an object; and what is mangled as a name inside one.

use super::{Level, NameState, Parser};
use crate::node::{Function, List, Node, NodeId};

impl Parser<'_> {
    /// `<encoding> ::= <name> [<bare-function-type>] | <special-name>`
    ///
    /// Template parameters of another encoding are none of this one's.
    pub(super) fn encoding(&mut self) -> Option<NodeId> {
        self.nested(|parser| {
            let outside = parser.take_template();
            let encoding = parser.encoding_alone();
            parser.scratch.template = outside;
            encoding
        })
    }

    fn encoding_alone(&mut self) -> Option<NodeId> {
        if matches!(self.peek(), b'G' | b'T') {
            return self.special_name();
        }
        let mut state = NameState { forwards_start: self.scratch.forwards.len(), ..NameState::default() };
        let name = self.name(Some(&mut state))?;
        self.resolve_forwards(&state)?;
        if self.is_encoding_end() {
            return Some(name);
        }
        let attributes =
            if self.take(b"Ua9enable_ifI") { Some(self.list_to_end(Self::template_argument)?) } else { None };
        let has_result = !state.is_structor_or_conversion && state.ends_with_arguments;
        let result = if has_result { Some(self.type_()?) } else { None };
        let parameters = if self.eat(b'v') { List::default() } else { self.encoding_parameters()? };
        let requires = self.requires()?;
        self.tree.add_function(Function {
            result,
            name,
            parameters,
            attributes,
            requires,
            qualifiers: state.qualifiers,
            reference: state.reference,
            has_explicit_object: state.has_explicit_object,
        })
    }

    fn is_encoding_end(&self) -> bool {
        matches!(self.peek(), 0 | b'E' | b'.' | b'_')
    }

    fn encoding_parameters(&mut self) -> Option<List> {
        let start = self.scratch.pending.len();
        loop {
            let parameter = self.type_()?;
            self.scratch.pending.push(parameter);
            if self.is_encoding_end() || self.peek() == b'Q' {
                return Some(self.list_from(start));
            }
        }
    }

    /// `[Q <constraint-expression>]`; `None` if that one is wrong.
    pub(super) fn requires(&mut self) -> Option<Option<NodeId>> {
        if !self.eat(b'Q') {
            return Some(None);
        }
        self.constraint().map(Some)
    }

    pub(super) fn constraint(&mut self) -> Option<NodeId> {
        let before = std::mem::replace(&mut self.in_constraint, true);
        let constraint = self.expression();
        self.in_constraint = before;
        constraint
    }

    /// Gives the parameters in a conversion operator's type the arguments that follow it.
    fn resolve_forwards(&mut self, state: &NameState) -> Option<()> {
        for at in state.forwards_start..self.scratch.forwards.len() {
            let forward = self.scratch.forwards[at];
            let Node::Forward { index, .. } = self.tree.node(forward) else {
                return None;
            };
            let template = &self.scratch.template;
            let Some(Level::Outer) = template.levels.first() else {
                return None;
            };
            let target = *template.outer.get(index as usize)?;
            self.tree.resolve(forward, target);
        }
        self.scratch.forwards.truncate(state.forwards_start);
        Some(())
    }

    /// `<local-name> ::= Z <encoding> E (s | d [<number>] _ <name> | <name>) [<discriminator>]`
    ///
    /// Template parameters outside are none of the inner name's. Those of the name stay if it is an encoding's own.
    pub(super) fn local_name(&mut self, state: Option<&mut NameState>) -> Option<NodeId> {
        self.require(b'Z')?;
        if state.is_some() {
            return self.local_name_alone(state);
        }
        let outside = self.take_template();
        let name = self.local_name_alone(None);
        self.scratch.template = outside;
        name
    }

    fn local_name_alone(&mut self, state: Option<&mut NameState>) -> Option<NodeId> {
        let encoding = self.encoding()?;
        self.require(b'E')?;
        if self.eat(b's') {
            self.discriminator();
            let entity = self.add(Node::Word("string literal"))?;
            return self.add(Node::Local { encoding, entity });
        }
        if self.eat(b'd') {
            let number = self.signed_number_span();
            self.require(b'_')?;
            let name = self.name(state)?;
            let entity = self.add(Node::DefaultArgument { number, entity: name })?;
            return self.add(Node::Local { encoding, entity });
        }
        let entity = self.name(state)?;
        self.discriminator();
        self.add(Node::Local { encoding, entity })
    }

    /// `_ <digit> | __ <number> _`, and digits at the end of the text, as some compilers write them.
    fn discriminator(&mut self) {
        let start = self.at;
        if self.eat(b'_') {
            if self.peek().is_ascii_digit() {
                self.at += 1;
                return;
            }
            if self.eat(b'_') && !self.number_span().is_empty() && self.eat(b'_') {
                return;
            }
            self.at = start;
        } else if self.peek().is_ascii_digit() {
            self.number_span();
            if !self.rest().is_empty() {
                self.at = start;
            }
        }
    }
}
