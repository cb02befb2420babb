//! Why a run cannot be made, and how single failures count.

mod load;
pub(crate) mod outcomes;
pub(crate) mod request;
pub(crate) mod system;
pub(crate) mod tls_setup;
pub(crate) mod tls_words;

pub use load::LoadError;
