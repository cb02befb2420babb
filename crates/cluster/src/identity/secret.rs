//! The secret that all members of a cluster share; keys of heartbeats are derived from it.

use super::key::KeyError;
use ring::rand::{SecureRandom, SystemRandom};
use std::fmt;
use zeroize::Zeroizing;

/// Bytes of the secret.
pub(crate) const SECRET_BYTES: usize = 32;

/// The cluster's secret. It is zeroed when it is dropped, and never shown.
#[derive(Clone)]
pub struct ClusterSecret(Zeroizing<[u8; SECRET_BYTES]>);

impl ClusterSecret {
    /// Makes a new one.
    ///
    /// # Errors
    /// [`KeyError::NoRandom`], if the system gives no random bytes.
    pub fn generate() -> Result<Self, KeyError> {
        let mut bytes = Zeroizing::new([0; SECRET_BYTES]);
        SystemRandom::new().fill(&mut *bytes).map_err(|_| KeyError::NoRandom)?;
        Ok(Self(bytes))
    }

    /// Takes the bytes of one; `None` if their number is wrong.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let mut kept = Zeroizing::new([0; SECRET_BYTES]);
        if bytes.len() != SECRET_BYTES {
            return None;
        }
        kept.copy_from_slice(bytes);
        Some(Self(kept))
    }

    pub(crate) fn as_bytes(&self) -> &[u8; SECRET_BYTES] {
        &self.0
    }
}

impl fmt::Debug for ClusterSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClusterSecret(..)")
    }
}
