//! What stands in a tree for content that lies on other machines: a symbolic link that leads nowhere and says which
//! content it is. `weir serve` reads its text (`crates/server/src/files/elsewhere.rs`); what does not know of such
//! links finds nothing at them.

use super::digest::Digest;
use super::manifest::File;
use std::collections::HashMap;

/// Contents that lie on other machines, with when they were modified: seconds since 1970.
pub type Elsewhere = HashMap<Digest, u64>;

/// The text of the link.
pub(super) fn text(file: &File, modified_unix_s: u64) -> String {
    format!(".weir-elsewhere/{}/{}/{modified_unix_s}", file.digest, file.bytes)
}
