//! TLS records by keys that are known: how a session goes on after it has left rustls, in this process or another.
//!
//! Sealing is deterministic: the same key, number, type and bytes give the same record, which is the one that rustls
//! makes. TLS 1.3: RFC 8446 sections 5.2, 5.3 and 7.2. TLS 1.2: RFC 5246 section 6.2.3.3, RFC 5288, RFC 7905.

use ring::{aead, hkdf};
use zeroize::{Zeroize, Zeroizing};

/// Plaintext of a record, at most (RFC 8446 section 5.1).
pub(super) const PLAINTEXT_BYTES_MAX: usize = 16 << 10;
/// A record's header: type, version, length.
pub(super) const HEADER_BYTES: usize = 5;
const TAG_BYTES: usize = 16;
const NONCE_BYTES: usize = 12;
/// What a record may have beside its plaintext (RFC 5246 section 6.2.3).
pub(super) const EXPANSION_BYTES_MAX: usize = 2048;

/// Bytes that a session which moves may hold in one place: what was sealed and not sent.
pub(super) const MOVED_BYTES_MAX: usize = 1 << 20;

/// Types of contents (RFC 8446 section 5.1).
pub(super) const ALERT: u8 = 21;
pub(super) const HANDSHAKE: u8 = 22;
pub(super) const APPLICATION_DATA: u8 = 23;

/// A cipher suite by its number in the registry of TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Suite(u16);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cipher {
    Aes128,
    Aes256,
    ChaCha,
}

/// Why a record could not be opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum OpenError {
    #[error("a TLS record is too short for its cipher")]
    Short,
    #[error("a TLS record is not encrypted")]
    InTheClear,
    #[error("a TLS record was changed on its way, or made with other keys")]
    Forged,
    #[error("a TLS record has no type")]
    NoType,
}

impl Suite {
    /// One that the server offers; none for other numbers.
    pub(super) fn of(number: u16) -> Option<Self> {
        matches!(number, 0x1301..=0x1303 | 0xc02b | 0xc02c | 0xc02f | 0xc030 | 0xcca8 | 0xcca9).then_some(Self(number))
    }

    pub(super) const fn number(self) -> u16 {
        self.0
    }

    /// Whether it is one of TLS 1.3; the others are of TLS 1.2.
    pub(super) const fn is_1_3(self) -> bool {
        self.0 >> 8 == 0x13
    }

    const fn cipher(self) -> Cipher {
        match self.0 {
            0x1301 | 0xc02b | 0xc02f => Cipher::Aes128,
            0x1302 | 0xc02c | 0xc030 => Cipher::Aes256,
            _ => Cipher::ChaCha,
        }
    }

    fn algorithm(self) -> &'static aead::Algorithm {
        match self.cipher() {
            Cipher::Aes128 => &aead::AES_128_GCM,
            Cipher::Aes256 => &aead::AES_256_GCM,
            Cipher::ChaCha => &aead::CHACHA20_POLY1305,
        }
    }

    const fn key_bytes(self) -> usize {
        if matches!(self.cipher(), Cipher::Aes128) { 16 } else { 32 }
    }

    /// The hash of the key schedule of TLS 1.3, and its length.
    fn hash(self) -> (hkdf::Algorithm, usize) {
        if self.0 == 0x1302 { (hkdf::HKDF_SHA384, 48) } else { (hkdf::HKDF_SHA256, 32) }
    }

    /// Bytes of a secret: a traffic secret of TLS 1.3, or key and IV of TLS 1.2.
    pub(super) fn secret_bytes(self) -> usize {
        if self.is_1_3() { self.hash().1 } else { self.key_bytes() + NONCE_BYTES }
    }

    /// Bytes of the nonce that each record has in it (AES-GCM in TLS 1.2).
    const fn explicit_bytes(self) -> usize {
        if self.is_1_3() || matches!(self.cipher(), Cipher::ChaCha) { 0 } else { 8 }
    }

    /// Bytes that each record has beside its plaintext.
    pub(super) fn expansion(self) -> usize {
        self.record_bytes(0)
    }

    /// Bytes of a record that has so many of plaintext.
    fn record_bytes(self, plain: usize) -> usize {
        HEADER_BYTES + self.explicit_bytes() + plain + usize::from(self.is_1_3()) + TAG_BYTES
    }
}

/// A length that ring's HKDF is asked for.
struct Length(usize);

impl hkdf::KeyType for Length {
    fn len(&self) -> usize {
        self.0
    }
}

/// HKDF-Expand-Label with an empty context (RFC 8446 section 7.1).
fn expand_label(suite: Suite, secret: &[u8], label: &[u8], bytes: usize) -> Zeroizing<Vec<u8>> {
    let key = hkdf::Prk::new_less_safe(suite.hash().0, secret);
    let length = u16::try_from(bytes).unwrap_or(0).to_be_bytes();
    let label_length = [6 + u8::try_from(label.len()).unwrap_or(0)];
    let info: [&[u8]; 5] = [&length, &label_length, b"tls13 ", label, &[0]];
    let mut out = Zeroizing::new(vec![0; bytes]);
    // ring refuses only lengths above 255 hashes; ours are at most one.
    if let Ok(made) = key.expand(&info, Length(bytes)) {
        let _ = made.fill(&mut out);
    }
    out
}

/// One direction of a session: its keys, and the number of the next record.
pub(super) struct Direction {
    suite: Suite,
    /// As [`Suite::secret_bytes`] says.
    secret: Zeroizing<Vec<u8>>,
    /// How often the keys were updated (RFC 8446 section 4.6.3).
    generation: u32,
    sequence: u64,
    key: aead::LessSafeKey,
    iv: [u8; NONCE_BYTES],
}

impl std::fmt::Debug for Direction {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Never its keys.
        let Self { suite, generation, sequence, .. } = self;
        write!(formatter, "Direction({suite:?}, generation {generation}, record {sequence})")
    }
}

impl Drop for Direction {
    fn drop(&mut self) {
        self.iv.zeroize();
    }
}

impl Direction {
    /// None if the secret has not the length that the suite asks for.
    pub(super) fn new(suite: Suite, secret: &[u8], generation: u32, sequence: u64) -> Option<Self> {
        if secret.len() != suite.secret_bytes() {
            return None;
        }
        let (key, iv) = keys(suite, secret);
        let key = aead::LessSafeKey::new(aead::UnboundKey::new(suite.algorithm(), &key).ok()?);
        Some(Self { suite, secret: Zeroizing::new(secret.to_vec()), generation, sequence, key, iv })
    }

    /// The direction whose keys these are, from its first traffic secret (TLS 1.3) on; none if they are not among the
    /// first `generations_max`.
    pub(super) fn of_keys(
        suite: Suite,
        first_secret: &[u8],
        (key, iv): (&[u8], &[u8]),
        sequence: u64,
        generations_max: u32,
    ) -> Option<Self> {
        if first_secret.len() != suite.secret_bytes() {
            return None;
        }
        let mut secret = Zeroizing::new(first_secret.to_vec());
        for generation in 0..generations_max {
            let (made, made_iv) = keys(suite, &secret);
            if made.as_slice() == key && made_iv == iv {
                return Self::new(suite, &secret, generation, sequence);
            }
            secret = next_secret(suite, &secret);
        }
        None
    }

    pub(super) fn secret(&self) -> &[u8] {
        &self.secret
    }

    pub(super) fn generation(&self) -> u32 {
        self.generation
    }

    /// The number of the next record.
    pub(super) fn sequence(&self) -> u64 {
        self.sequence
    }

    /// Goes over to the next keys (RFC 8446 section 7.2).
    pub(super) fn update(&mut self) {
        let secret = next_secret(self.suite, &self.secret);
        if let Some(next) = Self::new(self.suite, &secret, self.generation + 1, 0) {
            *self = next;
        }
    }

    fn nonce(&self, sequence: u64) -> [u8; NONCE_BYTES] {
        let mut nonce = self.iv;
        nonce[4..].iter_mut().zip(sequence.to_be_bytes()).for_each(|(byte, of_number)| *byte ^= of_number);
        nonce
    }

    /// Appends the next record, with at most [`PLAINTEXT_BYTES_MAX`] bytes of plaintext, which `fill` appends.
    pub(super) fn seal(&mut self, kind: u8, plain: usize, out: &mut Vec<u8>, fill: impl FnOnce(&mut Vec<u8>)) {
        let (suite, at) = (self.suite, out.len());
        let body = u16::try_from(suite.record_bytes(plain) - HEADER_BYTES).unwrap_or(u16::MAX).to_be_bytes();
        let header = [if suite.is_1_3() { APPLICATION_DATA } else { kind }, 3, 3, body[0], body[1]];
        out.extend_from_slice(&header);
        let nonce = self.nonce(self.sequence);
        out.extend_from_slice(&nonce[NONCE_BYTES - suite.explicit_bytes()..]);
        let start = out.len();
        fill(out);
        debug_assert_eq!(out.len() - start, plain);
        let nonce = aead::Nonce::assume_unique_for_key(nonce);
        let tag = if suite.is_1_3() {
            out.push(kind);
            self.key.seal_in_place_separate_tag(nonce, aead::Aad::from(header), &mut out[start..])
        } else {
            let associated = associated(self.sequence, kind, plain);
            self.key.seal_in_place_separate_tag(nonce, aead::Aad::from(associated), &mut out[start..])
        };
        self.sequence += 1;
        match tag {
            Ok(tag) => out.extend_from_slice(tag.as_ref()),
            // Only for more bytes than a record has. Nothing in the clear goes out.
            Err(_) => out.truncate(at),
        }
    }

    /// Opens a whole record, header included: its type and its plaintext.
    pub(super) fn open<'r>(&mut self, record: &'r mut [u8]) -> Result<(u8, &'r [u8]), OpenError> {
        let (suite, explicit) = (self.suite, self.suite.explicit_bytes());
        let overhead = HEADER_BYTES + explicit + TAG_BYTES;
        let plain = record.len().checked_sub(overhead).ok_or(OpenError::Short)?;
        let kind = record[0];
        if suite.is_1_3() && kind != APPLICATION_DATA {
            return Err(OpenError::InTheClear);
        }
        let mut nonce = self.nonce(self.sequence);
        if explicit > 0 {
            nonce[NONCE_BYTES - explicit..].copy_from_slice(&record[HEADER_BYTES..HEADER_BYTES + explicit]);
        }
        let nonce = aead::Nonce::assume_unique_for_key(nonce);
        let (header, body) = record.split_at_mut(HEADER_BYTES);
        let opened = if suite.is_1_3() {
            let header = [header[0], header[1], header[2], header[3], header[4]];
            self.key.open_in_place(nonce, aead::Aad::from(header), body)
        } else {
            let associated = associated(self.sequence, kind, plain);
            self.key.open_in_place(nonce, aead::Aad::from(associated), &mut body[explicit..])
        };
        let opened = opened.map_err(|_| OpenError::Forged)?;
        self.sequence += 1;
        if !suite.is_1_3() {
            return Ok((kind, opened));
        }
        let end = opened.iter().rposition(|byte| *byte != 0).ok_or(OpenError::NoType)?;
        Ok((opened[end], &opened[..end]))
    }
}

/// Key and IV of a secret.
fn keys(suite: Suite, secret: &[u8]) -> (Zeroizing<Vec<u8>>, [u8; NONCE_BYTES]) {
    let (key, iv) = if suite.is_1_3() {
        (expand_label(suite, secret, b"key", suite.key_bytes()), expand_label(suite, secret, b"iv", NONCE_BYTES))
    } else {
        let (key, iv) = secret.split_at(suite.key_bytes());
        (Zeroizing::new(key.to_vec()), Zeroizing::new(iv.to_vec()))
    };
    let mut nonce = [0; NONCE_BYTES];
    nonce.copy_from_slice(&iv);
    (key, nonce)
}

fn next_secret(suite: Suite, secret: &[u8]) -> Zeroizing<Vec<u8>> {
    expand_label(suite, secret, b"traffic upd", suite.hash().1)
}

/// What a record of TLS 1.2 authenticates beside its bytes (RFC 5246 section 6.2.3.3).
fn associated(sequence: u64, kind: u8, plain: usize) -> [u8; 13] {
    let mut associated = [0; 13];
    associated[..8].copy_from_slice(&sequence.to_be_bytes());
    associated[8..11].copy_from_slice(&[kind, 3, 3]);
    associated[11..].copy_from_slice(&u16::try_from(plain).unwrap_or(u16::MAX).to_be_bytes());
    associated
}
