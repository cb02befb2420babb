//! Content: files below a root, the cache of a loop, what loops share, encodings, watched directories.

pub(crate) mod cache;
pub(crate) mod compress;
pub(crate) mod conditional;
pub(crate) mod digest;
pub(crate) mod elsewhere;
pub(crate) mod encodings;
pub(crate) mod head;
pub(crate) mod held;
pub(crate) mod resource;
pub(crate) mod root;
pub(crate) mod settings;
pub(crate) mod shared_content;
pub(crate) mod stamp;
pub(crate) mod variants;
pub(crate) mod watcher;
pub(crate) mod watches;
