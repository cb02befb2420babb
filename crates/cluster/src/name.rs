//! Names, numbers and roles of a cluster's members.

use std::fmt;
use std::str::FromStr;

/// The domain below which certificates name the members; no DNS server knows it.
pub const DOMAIN: &str = "cluster.weir";
/// Bytes of a name: one label of DNS (RFC 1035, section 2.3.4).
const NAME_BYTES_MAX: usize = 63;

/// A text that is no name of a member.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no name of a node; write 1 to 63 of the characters a-z, 0-9 and -, with none of - at the ends")]
pub struct NameError(String);

/// The name of a member: a label of DNS in lower case.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeName(String);

impl NodeName {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The name that its certificate holds, such as `node1.cluster.weir`.
    pub fn in_certificate(&self) -> String {
        format!("{}.{DOMAIN}", self.0)
    }
}

impl FromStr for NodeName {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        let is_label = (1..=NAME_BYTES_MAX).contains(&text.len())
            && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
            && !text.starts_with('-')
            && !text.ends_with('-');
        if is_label { Ok(Self(text.to_owned())) } else { Err(NameError(text.chars().take(80).collect())) }
    }
}

impl fmt::Display for NodeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The number of a node in the flow table and in heartbeats.
pub type NodeNumber = u16;

/// What a member may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Role {
    /// It serves clients.
    Node,
    /// It steers flows to nodes.
    Director,
}

impl Role {
    /// All roles.
    pub const ALL: [Self; 2] = [Self::Node, Self::Director];

    /// The word in tokens and reports.
    pub fn word(self) -> &'static str {
        match self {
            Self::Node => "node",
            Self::Director => "director",
        }
    }

    /// The name that a certificate holds for the role. No member has it: names of members hold no dot.
    pub fn in_certificate(self) -> String {
        format!("{}.role.{DOMAIN}", self.word())
    }
}

/// A member as its certificate names it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Member {
    /// Its name.
    pub name: NodeName,
    /// What it may do.
    pub role: Role,
}

impl Member {
    /// The member that the DNS names of a certificate mean; `None` unless they are one name and one role.
    pub fn from_certificate_names(names: impl Iterator<Item = impl AsRef<str>>) -> Option<Self> {
        let (mut name, mut role) = (None, None);
        for text in names {
            let text = text.as_ref();
            let found = Role::ALL.into_iter().find(|role| role.in_certificate() == text);
            let doubled = match found {
                Some(found) => role.replace(found).is_some(),
                None => {
                    let label = text.strip_suffix(DOMAIN)?.strip_suffix('.')?;
                    name.replace(label.parse().ok()?).is_some()
                }
            };
            if doubled {
                return None;
            }
        }
        Some(Self { name: name?, role: role? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_labels() {
        for right in ["a", "node-1", "0", &"x".repeat(63)] {
            assert_eq!(right.parse::<NodeName>().map(|name| name.as_str().to_owned()).as_deref(), Ok(right));
        }
        for wrong in ["", "-a", "a-", "A", "a.b", "ä", &"x".repeat(64), "a/b", ".."] {
            assert!(wrong.parse::<NodeName>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_certificate_names_one_member_and_one_role() {
        let read = |names: &[&str]| Member::from_certificate_names(names.iter().copied());
        let node: NodeName = "n1".parse().unwrap();
        assert_eq!(read(&["n1.cluster.weir", "node.role.cluster.weir"]), Some(Member { name: node, role: Role::Node }));
        assert_eq!(read(&["n1.cluster.weir"]), None);
        assert_eq!(read(&["n1.cluster.weir", "n2.cluster.weir", "node.role.cluster.weir"]), None);
        assert_eq!(read(&["n1.cluster.weir", "node.role.cluster.weir", "director.role.cluster.weir"]), None);
        assert_eq!(read(&["n1.example.org", "node.role.cluster.weir"]), None);
        assert_eq!(read(&["n1.role.cluster.weir", "node.role.cluster.weir"]), None);
    }
}
