//! Pages of HTML: read into a tree, and searched by CSS selectors.

mod selector;
mod tree;

pub(crate) use selector::Selector;
pub(crate) use tree::{Dom, Node, NodeId};
