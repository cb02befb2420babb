//! What heads of responses have in common over HTTP/2 and HTTP/3: what a loop wants of them, their numbers and texts,
//! and what is remembered of them.

pub(crate) mod head;
pub(crate) mod huffman;
pub(crate) mod prefixed;
pub(crate) mod remembered;

pub use head::Head;
