//! What heads of responses have in common over HTTP/2 and HTTP/3: what a loop wants of them, and their string code.

pub(crate) mod head;
pub(crate) mod huffman;

pub use head::Head;
