//! Content by digest: manifests of folders, the store of their bytes, and trees of files made of both.

mod digest;
mod elsewhere;
mod error;
mod export;
mod manifest;
mod publisher;
mod store;

pub use digest::{Digest, Digesting};
pub use elsewhere::Elsewhere;
pub use error::{AtomError, ManifestError};
pub use export::{CURRENT, export, export_version, mend, retire_versions, tree_name};
pub use manifest::{FILES_MAX, File, MANIFEST_BYTES_MAX, Manifest, PATH_BYTES_MAX};
pub use publisher::manifest_of;
pub use store::{ContentStore, Evicted, Mark};
