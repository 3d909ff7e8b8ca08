//! The style of binutils, where it differs from LLVM's.

use super::{Printer, Shape};
use crate::limits::SCOPES_MAX;
use crate::node::{Function, Invented, List, Node, NodeId, Span};

impl Printer<'_> {
    /// Prints a node that binutils print differently; `false` if they do not.
    pub(super) fn gnu_left(&mut self, node: Node) -> bool {
        match node {
            Node::Local { encoding, entity } => {
                self.without_result(encoding);
                self.prefixed("::", entity);
            }
            Node::DefaultArgument { number, entity } => {
                self.push("{default arg#");
                self.ordinal(number);
                self.prefixed("}::", entity);
            }
            Node::Unnamed(count) => {
                self.push("{unnamed type#");
                self.ordinal(count);
                self.push("}");
            }
            Node::Closure(index) => {
                let outside = std::mem::replace(&mut self.is_in_closure, true);
                self.push("{lambda");
                self.closure_declarator(index);
                self.push("#");
                self.ordinal(self.tree.closure(index).count);
                self.push("}");
                self.is_in_closure = outside;
            }
            Node::Auto { position } => self.automatic(position),
            Node::InventedName { kind, position, .. } => self.gnu_invented_name(kind, position),
            Node::PackParameter(one) => {
                self.left(one);
                self.trim_space();
                self.push("... ");
            }
            Node::TemplateParameter { parameters, .. } => {
                self.push("template<");
                self.anonymous_parameters(parameters);
                self.push("> class ");
            }
            Node::Templated { name, arguments } => {
                self.print(name);
                self.push(if self.text.ends_with('<') { " " } else { "" });
                self.template_arguments(arguments);
            }
            Node::Suffixed { encoding, suffix } => {
                self.print(encoding);
                self.clone_suffixes(suffix);
            }
            Node::Special { prefix, child } => self.gnu_special(prefix, child),
            Node::ReferenceTemporary { object, number } => {
                self.push("reference temporary #");
                self.push(if number.is_empty() { "0" } else { "" });
                self.span(number);
                self.prefixed(" for ", object);
            }
            Node::Word("std::nullptr_t") => self.push("decltype(nullptr)"),
            Node::Vector { element, dimension: Some(dimension) } => {
                self.print(element);
                self.prefixed(" __vector(", dimension);
                self.push(")");
            }
            Node::Postfixed { child, text } if text == " complex" || text == " imaginary" => {
                self.left(child);
                self.push(if text == " complex" { " _Complex" } else { " _Imaginary" });
            }
            Node::MemberPointer { class, member } => {
                self.left(member);
                self.open_compound(member);
                self.push(if self.text.ends_with('(') { "" } else { " " });
                self.print(class);
                self.push("::*");
            }
            Node::FunctionType(index) => {
                let result = self.tree.signature(index).result;
                self.left(result);
                if !self.shape(result).has(Shape::RIGHT) {
                    self.push(" ");
                }
            }
            Node::Decltype(expression) => {
                self.prefixed("decltype (", expression);
                self.push(")");
            }
            Node::Pack(list) if self.prints_whole_packs => self.comma_separated(list),
            Node::Expansion(child) => self.gnu_expansion(child),
            _ => return self.gnu_expression(node),
        }
        true
    }

    /// A function that something local is in, without what it returns.
    fn without_result(&mut self, encoding: NodeId) {
        match self.tree.node(encoding) {
            Node::Function(index) => {
                if self.enter() {
                    let function = Function { result: None, ..self.tree.function(index) };
                    self.in_scope(function.name, |printer| {
                        printer.function_left(function);
                        printer.function_right(function);
                    });
                    self.leave();
                }
            }
            _ => self.print(encoding),
        }
    }

    /// A function's name is one inside something else; if it is a local one, what it returns is left out.
    pub(super) fn inner_encoding(&mut self, encoding: NodeId) {
        let is_local = match self.tree.node(encoding) {
            Node::Function(index) => matches!(self.tree.node(self.tree.function(index).name), Node::Local { .. }),
            _ => false,
        };
        if is_local { self.without_result(encoding) } else { self.print(encoding) }
    }

    fn gnu_special(&mut self, prefix: &str, child: NodeId) {
        self.push(match prefix {
            "thread-local initialization routine for " => "TLS init function for ",
            "thread-local wrapper routine for " => "TLS wrapper function for ",
            prefix => prefix,
        });
        self.inner_encoding(child);
    }

    /// A count that begins with nothing for the first, then 0 for the second.
    fn ordinal(&mut self, count: Span) {
        let digits = self.mangled.get(count.start as usize..count.end as usize).unwrap_or_default();
        let ordinal =
            if digits.is_empty() { Some(1) } else { digits.parse::<u32>().ok().and_then(|count| count.checked_add(2)) };
        match ordinal {
            Some(ordinal) => self.push(&ordinal.to_string()),
            None => self.failed = true,
        }
    }

    /// A lambda's parameter, or elsewhere the argument for it.
    fn automatic(&mut self, position: u32) {
        if self.is_in_closure {
            self.push(&format!("auto:{}", u64::from(position) + 1));
        } else if self.in_argument(position, Self::left).is_none() {
            self.failed = true;
        }
    }

    fn gnu_invented_name(&mut self, kind: Invented, position: u32) {
        if self.in_argument(position, Self::left).is_some() {
            return;
        }
        let word = match kind {
            Invented::Type => "$T",
            Invented::Value => "$N",
            Invented::Template => "$TT",
        };
        self.push(&format!("{word}{position}"));
    }

    /// Prints what depends on a function's template arguments.
    pub(super) fn in_scope(&mut self, name: NodeId, print: impl FnOnce(&mut Self)) {
        let outside = self.scope;
        if self.is_gnu
            && let Some(arguments) = self.arguments_of(name)
        {
            self.failed |= self.scopes.len() == SCOPES_MAX;
            if self.failed {
                return;
            }
            self.scopes.push((arguments, outside));
            self.scope = self.scopes.len();
        }
        print(self);
        self.scope = outside;
    }

    /// Prints a reference. One to a parameter means the same wherever it is printed, unlike the parameter itself.
    pub(super) fn in_reference_scope(&mut self, child: NodeId, print: impl FnOnce(&mut Self)) {
        let outside = self.scope;
        if self.is_gnu && !self.is_in_closure && matches!(self.tree.node(child), Node::Auto { .. }) {
            if self.reference_scopes.is_empty() {
                self.reference_scopes = vec![0; self.tree.len()];
            }
            match &mut self.reference_scopes[child.index()] {
                first @ 0 => *first = outside + 1,
                first => self.scope = *first - 1,
            }
        }
        print(self);
        self.scope = outside;
    }

    /// The template arguments of a function's own name.
    fn arguments_of(&self, name: NodeId) -> Option<List> {
        match self.tree.node(name) {
            Node::Templated { arguments, .. } => Some(arguments),
            Node::Local { entity, .. } | Node::DefaultArgument { entity, .. } => match self.tree.node(entity) {
                Node::Templated { arguments, .. } => Some(arguments),
                Node::DefaultArgument { .. } => self.arguments_of(entity),
                _ => None,
            },
            _ => None,
        }
    }

    /// The template argument of the function that is being printed, outside of closures; of a pack the element whose
    /// turn it is.
    pub(super) fn argument_at(&mut self, position: u32) -> Option<NodeId> {
        match self.tree.node(self.whole_argument(position)?) {
            Node::ArgumentPack(list) if !self.prints_whole_packs => self.element(list),
            _ => self.whole_argument(position),
        }
    }

    fn whole_argument(&self, position: u32) -> Option<NodeId> {
        if self.is_in_closure || !self.is_gnu {
            return None;
        }
        let (arguments, _) = self.scopes.get(self.scope.checked_sub(1)?)?;
        self.tree.item(*arguments, position as usize)
    }

    /// Does something with a template argument, whose own parameters are those of the scope outside; `None` if there is
    /// none.
    ///
    /// A pack without elements is an argument, with nothing to be done.
    pub(super) fn in_argument<T: Default>(
        &mut self,
        position: u32,
        action: impl FnOnce(&mut Self, NodeId) -> T,
    ) -> Option<T> {
        self.whole_argument(position)?;
        let Some(argument) = self.argument_at(position) else { return Some(T::default()) };
        let inside = self.scope;
        self.scope = self.scopes.get(inside.checked_sub(1)?).map_or(0, |(_, outside)| *outside);
        let result = action(self, argument);
        self.scope = inside;
        Some(result)
    }

    /// The elements of the pack to which a parameter refers.
    pub(super) fn pack_of(&self, id: NodeId) -> Option<List> {
        match self.tree.node(id) {
            Node::Pack(list) | Node::ArgumentPack(list) => Some(list),
            Node::Auto { position } => match self.tree.node(self.whole_argument(position)?) {
                Node::ArgumentPack(list) => Some(list),
                _ => None,
            },
            _ => None,
        }
    }

    /// Parameters of a template template parameter, which have no names.
    fn anonymous_parameters(&mut self, parameters: List) {
        for index in 0..parameters.len() {
            if index > 0 {
                self.push(", ");
            }
            if let Some(parameter) = self.tree.item(parameters, index) {
                self.left(parameter);
                self.trim_space();
            }
        }
    }

    fn trim_space(&mut self) {
        if self.text.ends_with(' ') {
            self.text.pop();
        }
    }

    /// `.isra.0.cold` as ` [clone .isra.0] [clone .cold]`.
    fn clone_suffixes(&mut self, suffix: Span) {
        let mut rest = self.mangled.get(suffix.start as usize..suffix.end as usize).unwrap_or_default();
        while !rest.is_empty() {
            let length = clone_length(rest);
            let Some((one, behind)) = rest.split_at_checked(length).filter(|(one, _)| !one.is_empty()) else {
                self.failed = true;
                return;
            };
            self.push(" [clone ");
            self.push(one);
            self.push("]");
            rest = behind;
        }
    }

    fn gnu_expansion(&mut self, child: NodeId) {
        if self.prints_whole_packs {
            return self.print(child);
        }
        let start = self.text.len();
        self.expansion(child);
        // Without a pack in it, it is an expression with dots.
        if self.text.ends_with("...") && !self.is_simple(child) {
            self.text.truncate(start);
            self.subexpression(child);
            self.push("...");
        }
    }
}

/// The length of a suffix: a word of small letters, digits and `_`, and the numbers behind it; 0 if it is none.
fn clone_length(text: &str) -> usize {
    let bytes = text.as_bytes();
    let is_word = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    if bytes.first() != Some(&b'.') || !bytes.get(1).is_some_and(|&byte| is_word(byte)) {
        return 0;
    }
    let mut length = 2 + bytes[2..].iter().take_while(|&&byte| is_word(byte)).count();
    while bytes.get(length) == Some(&b'.') && bytes.get(length + 1).is_some_and(u8::is_ascii_digit) {
        length += 1 + bytes[length + 1..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    }
    length
}
