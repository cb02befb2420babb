//! Private keys of members (ECDSA over P-256), and the public ones that certificates are made for.

use rcgen::{PKCS_ECDSA_P256_SHA256, PublicKeyData, SignatureAlgorithm, SigningKey};
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_ASN1, ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair, UnparsedPublicKey,
};
use rustls_pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use std::fmt;
use zeroize::Zeroizing;

/// Bytes of a point of P-256 that is not compressed (SEC 1, section 2.3.3).
pub(crate) const PUBLIC_KEY_BYTES: usize = 65;

/// A key cannot be made or used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// The system gives no random bytes.
    #[error("the system gives no random bytes; see to getrandom(2) on this machine")]
    NoRandom,
    /// The bytes are no key.
    #[error("the key is no private key in PKCS #8 for ECDSA over P-256; have `weir cluster` make one")]
    NoKey,
    /// A public key or its proof is wrong.
    #[error("the signature does not belong to the public key; ask again with a new key")]
    NoProof,
}

/// A private key. Its encoding is zeroed when it is dropped, and it is never shown.
///
/// The library keeps a copy for signing that it does not zero.
pub struct MemberKey {
    pkcs8: Zeroizing<Vec<u8>>,
    pair: EcdsaKeyPair,
}

impl MemberKey {
    /// Makes a new key.
    ///
    /// # Errors
    /// [`KeyError::NoRandom`], if the system gives no random bytes.
    pub fn generate() -> Result<Self, KeyError> {
        let document = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &SystemRandom::new());
        let document = document.map_err(|_| KeyError::NoRandom)?;
        Self::from_pkcs8(Zeroizing::new(document.as_ref().to_vec()))
    }

    /// Takes a key in PKCS #8 (RFC 5208).
    ///
    /// # Errors
    /// [`KeyError::NoKey`], if it is none for ECDSA over P-256.
    pub fn from_pkcs8(pkcs8: Zeroizing<Vec<u8>>) -> Result<Self, KeyError> {
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &pkcs8, &SystemRandom::new());
        Ok(Self { pkcs8, pair: pair.map_err(|_| KeyError::NoKey)? })
    }

    /// The key's encoding in PKCS #8.
    pub(crate) fn pkcs8(&self) -> &[u8] {
        &self.pkcs8
    }

    /// The key as TLS takes it.
    pub(crate) fn for_tls(&self) -> PrivateKeyDer<'static> {
        PrivatePkcs8KeyDer::from(self.pkcs8.to_vec()).into()
    }

    /// The public key.
    pub fn public(&self) -> PublicKey {
        PublicKey(self.pair.public_key().as_ref().to_vec())
    }

    /// A signature over the message, as ASN.1.
    ///
    /// # Errors
    /// [`KeyError::NoRandom`], if the system gives no random bytes.
    pub(crate) fn signature(&self, message: &[u8]) -> Result<Vec<u8>, KeyError> {
        let signature = self.pair.sign(&SystemRandom::new(), message).map_err(|_| KeyError::NoRandom)?;
        Ok(signature.as_ref().to_vec())
    }
}

impl fmt::Debug for MemberKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MemberKey(..)")
    }
}

impl PublicKeyData for MemberKey {
    fn der_bytes(&self) -> &[u8] {
        self.pair.public_key().as_ref()
    }

    fn algorithm(&self) -> &'static SignatureAlgorithm {
        &PKCS_ECDSA_P256_SHA256
    }
}

impl SigningKey for MemberKey {
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, rcgen::Error> {
        self.signature(message).map_err(|_| rcgen::Error::RingUnspecified)
    }
}

/// A public key: a point of P-256.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublicKey(Vec<u8>);

impl PublicKey {
    /// Takes a key from a member that signed `message` with it.
    ///
    /// # Errors
    /// [`KeyError::NoProof`], if the signature is not of this key, or this is no key.
    pub(crate) fn proven(point: &[u8], message: &[u8], signature: &[u8]) -> Result<Self, KeyError> {
        let key = UnparsedPublicKey::new(&ECDSA_P256_SHA256_ASN1, point);
        key.verify(message, signature).map_err(|_| KeyError::NoProof)?;
        Ok(Self(point.to_vec()))
    }

    /// Takes a key for which a member answers that has proven its own one.
    pub(crate) fn signed_for(point: &[u8]) -> Self {
        Self(point.to_vec())
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl PublicKeyData for PublicKey {
    fn der_bytes(&self) -> &[u8] {
        &self.0
    }

    fn algorithm(&self) -> &'static SignatureAlgorithm {
        &PKCS_ECDSA_P256_SHA256
    }
}
