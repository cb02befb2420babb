//! The secret that all members of a cluster share; keys of heartbeats are derived from it.

use super::key::KeyError;
use crate::name::NodeName;
use ring::rand::{SecureRandom, SystemRandom};
use std::fmt;
use zeroize::Zeroizing;

/// Bytes of the secret.
pub(crate) const SECRET_BYTES: usize = 32;

/// Bytes behind it in a file: its turn.
const TURN_BYTES: usize = 8;

/// The cluster's secret. It is zeroed when it is dropped, and never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct ClusterSecret {
    /// Which one it is: 0 for the first, more for each that took the place of one before. Of two of one turn, which
    /// two members have made at the same time, all members take the one with the larger bytes.
    turn: u64,
    bytes: Zeroizing<[u8; SECRET_BYTES]>,
    /// The member that it was made to leave out.
    without: Option<NodeName>,
}

impl ClusterSecret {
    /// Makes a new one.
    ///
    /// # Errors
    /// [`KeyError::NoRandom`], if the system gives no random bytes.
    pub fn generate() -> Result<Self, KeyError> {
        let mut bytes = Zeroizing::new([0; SECRET_BYTES]);
        SystemRandom::new().fill(&mut *bytes).map_err(|_| KeyError::NoRandom)?;
        Ok(Self { turn: 0, bytes, without: None })
    }

    /// Makes the one that takes the place of this one, and is not for a member that was removed.
    ///
    /// # Errors
    /// [`KeyError::NoRandom`], if the system gives no random bytes.
    pub fn next(&self, without: &NodeName) -> Result<Self, KeyError> {
        Ok(Self { turn: self.turn.saturating_add(1), without: Some(without.clone()), ..Self::generate()? })
    }

    /// Takes the bytes of one; `None` if their number is wrong.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let mut kept = Zeroizing::new([0; SECRET_BYTES]);
        if bytes.len() != SECRET_BYTES {
            return None;
        }
        kept.copy_from_slice(bytes);
        Some(Self { turn: 0, bytes: kept, without: None })
    }

    /// Whether it takes the place of the other one.
    pub fn is_newer_than(&self, other: &Self) -> bool {
        (self.turn, &self.bytes[..]) > (other.turn, &other.bytes[..])
    }

    /// Which one it is: 0 for the first.
    pub fn turn(&self) -> u64 {
        self.turn
    }

    /// The member that it was made to leave out, which is refused where it is known.
    pub fn without(&self) -> Option<&NodeName> {
        self.without.as_ref()
    }

    pub(crate) fn as_bytes(&self) -> &[u8; SECRET_BYTES] {
        &self.bytes
    }

    /// As files and messages have it. The first one of a cluster is its bytes alone, as earlier versions wrote it.
    pub(crate) fn encode(&self) -> Zeroizing<Vec<u8>> {
        let mut out = Zeroizing::new(Vec::with_capacity(SECRET_BYTES + TURN_BYTES + 64));
        out.extend(*self.bytes);
        if self.turn > 0 {
            out.extend(self.turn.to_be_bytes());
            out.extend(self.without.iter().flat_map(|name| name.as_str().bytes()));
        }
        out
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let (secret, rest) = bytes.split_at_checked(SECRET_BYTES)?;
        let first = Self::from_bytes(secret)?;
        if rest.is_empty() {
            return Some(first);
        }
        let (turn, name) = rest.split_first_chunk::<TURN_BYTES>()?;
        let turn = u64::from_be_bytes(*turn);
        let without = if name.is_empty() { None } else { Some(std::str::from_utf8(name).ok()?.parse().ok()?) };
        (turn > 0).then_some(Self { turn, without, ..first })
    }
}

impl fmt::Debug for ClusterSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClusterSecret(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_has_its_turn_and_its_encoding() {
        let first = ClusterSecret::generate().unwrap();
        let next = first.next(&"n3".parse().unwrap()).unwrap();
        assert_eq!((first.turn(), next.turn(), next.without().map(NodeName::as_str)), (0, 1, Some("n3")));
        assert!(next.is_newer_than(&first) && !first.is_newer_than(&next) && next.as_bytes() != first.as_bytes());
        assert_eq!(first.encode().len(), SECRET_BYTES);
        for secret in [&first, &next] {
            assert_eq!(ClusterSecret::decode(&secret.encode()).as_ref(), Some(secret));
        }
        let mut wrong = next.encode();
        wrong.push(b'.');
        let short = &next.encode()[..SECRET_BYTES + 3];
        assert!(
            [&wrong[..], short, &[0; 31], &[0; SECRET_BYTES + TURN_BYTES]]
                .iter()
                .all(|it| ClusterSecret::decode(it).is_none())
        );
        assert_eq!(format!("{next:?}"), "ClusterSecret(..)");
    }
}
