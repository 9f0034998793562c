//! The nodes of a set, by their places in it.

/// Some nodes. A set has at most 32.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Nodes(u32);

impl Nodes {
    /// None.
    pub const NONE: Nodes = Nodes(0);

    /// All of a set of this many.
    pub fn all(count: usize) -> Nodes {
        (0..count).collect()
    }

    /// The set of one node.
    pub fn one(node: usize) -> Nodes {
        Nodes(1 << node)
    }

    /// Whether it is one of them.
    pub fn contains(self, node: usize) -> bool {
        self.0 & 1 << node != 0
    }

    /// The nodes that are not in `others`.
    pub fn without(self, others: Nodes) -> Nodes {
        Nodes(self.0 & !others.0)
    }

    /// The nodes, one by one.
    pub fn iter(self) -> impl Iterator<Item = usize> {
        (0..u32::BITS as usize).filter(move |node| self.contains(*node))
    }
}

impl FromIterator<usize> for Nodes {
    fn from_iter<I: IntoIterator<Item = usize>>(nodes: I) -> Nodes {
        Nodes(nodes.into_iter().fold(0, |all, node| all | 1 << node))
    }
}
