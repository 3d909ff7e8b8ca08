//! The parsed name: nodes in an arena, and lists of them.
//!
//! A substitution is a second reference to the same node, so a tree takes no more nodes than the mangled name has bytes
//! times a small constant, however long its text is.

use crate::node::{Closure, Function, List, Node, NodeId, Signature};

/// The sides and kinds of a type's text, which decide how it is printed inside another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Shape(u8);

impl Shape {
    /// It has text on the right of what it declares.
    pub(crate) const RIGHT: Self = Self(1);
    /// It declares an array.
    pub(crate) const ARRAY: Self = Self(2);
    /// It declares a function.
    pub(crate) const FUNCTION: Self = Self(4);
    /// Only printing shows, since the answer depends on an element of a pack or on a later part of the name.
    pub(crate) const LATE: Self = Self(8);

    pub(crate) fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(crate) fn has(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
}

/// All nodes of a name; reused for one name after the other.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    nodes: Vec<(Node, Shape)>,
    items: Vec<NodeId>,
    functions: Vec<Function>,
    signatures: Vec<Signature>,
    closures: Vec<Closure>,
}

impl Tree {
    pub(crate) fn clear(&mut self) {
        self.nodes.clear();
        self.items.clear();
        self.functions.clear();
        self.signatures.clear();
        self.closures.clear();
    }

    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }

    pub(crate) fn add(&mut self, node: Node) -> Option<NodeId> {
        let shape = self.shape_of(node);
        self.nodes.push((node, shape));
        NodeId::from_count(self.nodes.len())
    }

    pub(crate) fn add_function(&mut self, function: Function) -> Option<NodeId> {
        self.functions.push(function);
        self.add(Node::Function(self.functions.len() as u32 - 1))
    }

    pub(crate) fn add_signature(&mut self, signature: Signature) -> Option<NodeId> {
        self.signatures.push(signature);
        self.add(Node::FunctionType(self.signatures.len() as u32 - 1))
    }

    pub(crate) fn add_closure(&mut self, closure: Closure) -> Option<NodeId> {
        self.closures.push(closure);
        self.add(Node::Closure(self.closures.len() as u32 - 1))
    }

    pub(crate) fn add_list(&mut self, nodes: &[NodeId]) -> List {
        let start = self.items.len() as u32;
        self.items.extend_from_slice(nodes);
        List { start, length: nodes.len() as u32 }
    }

    pub(crate) fn node(&self, id: NodeId) -> Node {
        self.nodes[id.index()].0
    }

    pub(crate) fn shape(&self, id: NodeId) -> Shape {
        self.nodes[id.index()].1
    }

    pub(crate) fn function(&self, index: u32) -> Function {
        self.functions[index as usize]
    }

    pub(crate) fn signature(&self, index: u32) -> Signature {
        self.signatures[index as usize]
    }

    pub(crate) fn closure(&self, index: u32) -> Closure {
        self.closures[index as usize]
    }

    pub(crate) fn list(&self, list: List) -> &[NodeId] {
        &self.items[list.start as usize..(list.start + list.length) as usize]
    }

    pub(crate) fn item(&self, list: List, index: usize) -> Option<NodeId> {
        self.list(list).get(index).copied()
    }

    /// Puts a node of the same shape in the place of another.
    pub(crate) fn replace(&mut self, id: NodeId, node: Node) {
        self.nodes[id.index()].0 = node;
    }

    /// Ends a reference to a template argument that was not parsed yet.
    pub(crate) fn resolve(&mut self, forward: NodeId, to: NodeId) {
        if let Node::Forward { target, .. } = &mut self.nodes[forward.index()].0 {
            *target = Some(to);
        }
    }

    fn shape_of(&self, node: Node) -> Shape {
        match node {
            Node::Function(_) | Node::FunctionType(_) => Shape::RIGHT.with(Shape::FUNCTION),
            Node::Array { .. } => Shape::RIGHT.with(Shape::ARRAY),
            Node::Qualified { child, .. } => self.shape(child),
            Node::Pointer(child) | Node::MemberPointer { member: child, .. } => self.right_of(child),
            Node::Reference { child, .. } => self.right_of(child),
            Node::Pack(list) => self.shape_of_pack(list),
            Node::Forward { .. } | Node::Auto { .. } | Node::InventedName { .. } => Shape::LATE,
            Node::TypeParameter(_)
            | Node::ConstrainedParameter { .. }
            | Node::ValueParameter { .. }
            | Node::TemplateParameter { .. }
            | Node::PackParameter(_) => Shape::RIGHT,
            _ => Shape::default(),
        }
    }

    /// As of a pointer to it, which is neither a function nor an array but has what they have on their right.
    fn right_of(&self, child: NodeId) -> Shape {
        let shape = self.shape(child);
        if shape.has(Shape::LATE) {
            Shape::LATE
        } else if shape.has(Shape::RIGHT) {
            Shape::RIGHT
        } else {
            Shape::default()
        }
    }

    fn shape_of_pack(&self, list: List) -> Shape {
        let plain = self.list(list).iter().all(|&item| self.shape(item) == Shape::default());
        if plain { Shape::default() } else { Shape::LATE }
    }
}
