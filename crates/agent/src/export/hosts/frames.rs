//! What both sides of a connection between agents need: the key, the greeting, and frames with proofs.

use crate::export::error::ExportError;
use crate::transaction::Transaction;
use ring::hmac;
use ring::rand::{SecureRandom, SystemRandom};
use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

/// The first bytes of a connection; the last one is the version.
pub(super) const MAGIC: [u8; 8] = *b"weirarm\x01";
pub(super) const RANDOM_BYTES: usize = 32;
pub(super) const PROOF_BYTES: usize = 32;
/// Bytes of a key.
pub(crate) const LEAST_KEY: usize = 16;
/// The most bytes of a key.
pub(crate) const MOST_KEY: usize = 4096;
/// A transaction as JSON may be so large.
pub(super) const MOST_FRAME: usize = 256 << 10;
/// Agents that are told, and that tell.
pub(crate) const MOST_PEERS: usize = 16;
/// So long a connection, a greeting or an acknowledgement may take.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);
/// After so long without a transaction comes a sign of life; a receiver waits for four times as long.
pub(super) const SIGN_OF_LIFE: Duration = Duration::from_secs(15);

/// A key that hosts have in common.
#[derive(Clone)]
pub(crate) struct Key(hmac::Key);

impl std::fmt::Debug for Key {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Key(secret)")
    }
}

impl Key {
    /// Of its bytes.
    ///
    /// # Errors
    /// [`ExportError::Key`] for one that is too short or too long, or none.
    pub(crate) fn new(bytes: Option<&[u8]>) -> Result<Self, ExportError> {
        let fits = |bytes: &&[u8]| (LEAST_KEY..=MOST_KEY).contains(&bytes.len());
        let bytes = bytes.filter(fits).ok_or(ExportError::Key { least: LEAST_KEY, most: MOST_KEY })?;
        Ok(Self(hmac::Key::new(hmac::HMAC_SHA256, bytes)))
    }
}

/// What both sides of a connection have drawn, with the key.
#[derive(Debug, Clone)]
pub(super) struct Session {
    pub(super) key: Key,
    pub(super) random: [u8; 2 * RANDOM_BYTES],
}

impl Session {
    pub(super) fn context(&self, word: &str, number: u64, content: &[u8]) -> hmac::Context {
        let mut context = hmac::Context::with_key(&self.key.0);
        context.update(word.as_bytes());
        context.update(&self.random);
        context.update(&number.to_be_bytes());
        context.update(content);
        context
    }

    pub(super) fn proof(&self, word: &str, number: u64, content: &[u8]) -> [u8; PROOF_BYTES] {
        let mut proof = [0; PROOF_BYTES];
        proof.copy_from_slice(self.context(word, number, content).sign().as_ref());
        proof
    }

    pub(super) fn is_proven(&self, word: &str, number: u64, content: &[u8], proof: &[u8]) -> bool {
        let ours = self.proof(word, number, content);
        // In a time that tells nothing of where they differ.
        ours.iter().zip(proof).fold(ours.len() ^ proof.len(), |apart, (one, other)| apart | usize::from(one ^ other))
            == 0
    }
}

pub(super) fn drawn() -> io::Result<[u8; RANDOM_BYTES]> {
    let mut bytes = [0; RANDOM_BYTES];
    SystemRandom::new().fill(&mut bytes).map_err(|_| io::Error::other("the system gives no random bytes"))?;
    Ok(bytes)
}

pub(super) fn wrong(why: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, why)
}

pub(super) fn patient(stream: &TcpStream, read: Duration) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(read))?;
    stream.set_write_timeout(Some(PATIENCE))
}

pub(super) fn read_exactly<const BYTES: usize>(mut stream: &TcpStream) -> io::Result<[u8; BYTES]> {
    let mut bytes = [0; BYTES];
    stream.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// A transaction as it is passed on; `None` if it is too large.
pub(crate) fn frame(transaction: &Transaction) -> Option<Arc<[u8]>> {
    let json = serde_json::to_vec(transaction).ok()?;
    (json.len() <= MOST_FRAME).then(|| Arc::from(json))
}

/// The sender's side of the greeting.
pub(super) fn greet(mut stream: &TcpStream, key: &Key) -> io::Result<Session> {
    patient(stream, PATIENCE)?;
    if read_exactly::<8>(stream)? != MAGIC {
        return Err(wrong("what listens there is no agent of this version"));
    }
    let (theirs, ours) = (read_exactly::<RANDOM_BYTES>(stream)?, drawn()?);
    let mut random = [0; 2 * RANDOM_BYTES];
    random[..RANDOM_BYTES].copy_from_slice(&theirs);
    random[RANDOM_BYTES..].copy_from_slice(&ours);
    let session = Session { key: key.clone(), random };
    stream.write_all(&[ours, session.proof("sender", 0, &[])].concat())?;
    if !session.is_proven("receiver", 0, &[], &read_exactly::<PROOF_BYTES>(stream)?) {
        return Err(wrong("it has another key"));
    }
    Ok(session)
}

pub(super) fn send(mut stream: &TcpStream, session: &Session, number: u64, content: &[u8]) -> io::Result<()> {
    let length = u32::try_from(content.len()).map_err(|_| wrong("a frame is too large"))?;
    let proof = session.proof("frame", number, content);
    stream.write_all(&[&length.to_be_bytes()[..], &proof, content].concat())
}
