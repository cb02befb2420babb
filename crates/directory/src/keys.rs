//! The keys of the directory, below the prefix of the cluster, and which names may stand in them.
//!
//! | key | value |
//! |---|---|
//! | `sites/SITE` | which version is current, and the newest number |
//! | `versions/SITE/NUMBER` | a [`Publication`](crate::Publication) |
//! | `manifests/SITE/NUMBER-NONCE/PIECE` | a piece of its manifest |
//! | `policies/NAME` | a [`Policy`](crate::Policy) |
//! | `nodes/NAME` | a [`Node`](crate::Node) and its number |
//! | `numbers/NUMBER` | the name of the node that has it |
//! | `present/NAME` | leased: the node renews it |
//! | `locks/NAME` | leased: who holds the lock, and the epoch |
//! | `epochs/NAME` | the newest epoch of the lock |
//! | `removed/NAME` | when the member was removed from the cluster |

use crate::error::DirectoryError;

/// Below it: which version of each site is current. To watch it is to see publications and roll-backs.
pub const SITES: &str = "sites/";
/// Below it: the records of versions.
pub const VERSIONS: &str = "versions/";
/// Below it: manifests in pieces.
pub const MANIFESTS: &str = "manifests/";
/// Below it: policies.
pub const POLICIES: &str = "policies/";
/// Below it: nodes that have joined.
pub const NODES: &str = "nodes/";
/// Below it: numbers of nodes.
pub const NUMBERS: &str = "numbers/";
/// Below it: nodes that renew their presence.
pub const PRESENT: &str = "present/";
/// Below it: held locks.
pub const LOCKS: &str = "locks/";
/// Below it: the newest epoch of each lock.
pub const EPOCHS: &str = "epochs/";
/// Below it: members that were removed.
pub const REMOVED: &str = "removed/";

/// Letters of a name.
pub const NAME_LETTERS_MAX: usize = 128;

/// Returns the key of a name below a prefix.
///
/// A name holds letters and digits of ASCII, `.`, `_` and `-`, and does not begin with a dot.
///
/// # Errors
///
/// The name has another letter, is empty, or is longer than [`NAME_LETTERS_MAX`].
pub fn key(prefix: &str, name: &str) -> Result<String, DirectoryError> {
    let is_good = !name.is_empty()
        && name.len() <= NAME_LETTERS_MAX
        && !name.starts_with('.')
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte));
    if is_good { Ok(format!("{prefix}{name}")) } else { Err(DirectoryError::Name { name: shown(name) }) }
}

/// The first key that no longer begins with a prefix; `None` where there is none.
pub(crate) fn end_of(prefix: &str) -> Option<Vec<u8>> {
    let mut end = prefix.as_bytes().to_vec();
    while let Some(last) = end.pop() {
        if last < u8::MAX {
            end.push(last + 1);
            return Some(end);
        }
    }
    None
}

fn shown(name: &str) -> String {
    name.chars().filter(|letter| !letter.is_control()).take(NAME_LETTERS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_below_their_prefix() {
        assert_eq!(key(SITES, "shop.example-1_a").expect("a name"), "sites/shop.example-1_a");
        for wrong in ["", ".x", "a/b", "a b", "ü", "a\n", &"a".repeat(129)] {
            assert!(matches!(key(SITES, wrong), Err(DirectoryError::Name { .. })), "{wrong:?}");
        }
    }

    #[test]
    fn the_end_of_a_prefix_is_behind_all_its_keys() {
        assert_eq!(end_of("sites/").expect("an end"), b"sites0");
        assert_eq!(end_of(""), None);
    }
}
