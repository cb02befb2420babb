//! What lets a session leave rustls: its traffic secrets, and the bytes of a record that is not whole.
//!
//! rustls gives keys and numbers of records away, and neither the secrets that later keys are made of nor what it has
//! received of a record. Both are kept beside it, only where sessions may move.

use super::own_records::OwnRecords;
use super::records::{Direction, EXPANSION_BYTES_MAX, HEADER_BYTES, PLAINTEXT_BYTES_MAX, Suite};
use crate::policy::sessions::TakeError;
use rustls::{ConnectionTrafficSecrets, ProtocolVersion, ServerConnection};
use std::cell::RefCell;
use std::io::{Read, Write};
use zeroize::Zeroizing;

/// Updates of keys after which a session stays where it is.
const GENERATIONS_MAX: u32 = 1024;
/// The names by which rustls tells the secrets (the NSS key log format).
const OF_CLIENT: &str = "CLIENT_TRAFFIC_SECRET_0";
const OF_SERVER: &str = "SERVER_TRAFFIC_SECRET_0";

type Secret = Zeroizing<Vec<u8>>;

thread_local! {
    /// Those that the handshake in progress on this thread has made: of the client, of the server.
    static MADE: RefCell<(Option<Secret>, Option<Secret>)> = const { RefCell::new((None, None)) };
}

/// A session that was written down: its keys are in these bytes, which are wiped when they are dropped.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct TlsSession(pub(crate) Zeroizing<Vec<u8>>);

impl std::fmt::Debug for TlsSession {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Never its bytes.
        write!(formatter, "TlsSession({} bytes)", self.0.len())
    }
}

/// Why a session stays where it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stays {
    Handshake,
    Ended,
    /// The server keeps no keys beside rustls.
    NotKept,
    ClientCertificate,
    Keys,
}

impl From<Stays> for TakeError {
    fn from(stays: Stays) -> Self {
        let why = match stays {
            Stays::Handshake => "the TLS handshake of the connection is not over",
            Stays::Ended => "the TLS session of the connection has ended",
            Stays::NotKept => "the server was not started to move TLS sessions (Options::moves_sessions)",
            Stays::ClientCertificate => "the client of the connection has shown a certificate, which does not move",
            Stays::Keys => "the keys of the TLS session cannot be given away",
        };
        Self::Tls { why }
    }
}

/// Takes the traffic secrets of TLS 1.3 as rustls makes them; nothing is written anywhere.
#[derive(Debug)]
pub(crate) struct TrafficSecrets;

impl rustls::KeyLog for TrafficSecrets {
    fn log(&self, label: &str, _: &[u8], secret: &[u8]) {
        let secret = Some(Zeroizing::new(secret.to_vec()));
        MADE.with_borrow_mut(|made| if label == OF_CLIENT { made.0 = secret } else { made.1 = secret });
    }

    fn will_log(&self, label: &str) -> bool {
        label == OF_CLIENT || label == OF_SERVER
    }
}

/// What is kept of a session that may move.
#[derive(Default)]
pub(super) struct Kept {
    /// Received bytes of a record that is not whole.
    tail: Vec<u8>,
    secrets: Option<(Secret, Secret)>,
}

impl std::fmt::Debug for Kept {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Never its secrets.
        write!(formatter, "Kept({} bytes of a record)", self.tail.len())
    }
}

impl Kept {
    /// Notes bytes that were received.
    pub(super) fn pass(&mut self, received: &[u8]) {
        let mut rest = received;
        loop {
            if !self.tail.is_empty() {
                let wanted = self.wanted();
                let (now, after) = rest.split_at(wanted.min(rest.len()));
                self.tail.extend_from_slice(now);
                rest = after;
                if self.tail.len() < HEADER_BYTES {
                    return;
                }
                let wanted = self.wanted();
                if wanted > 0 && rest.is_empty() {
                    return;
                }
                if wanted == 0 {
                    self.tail = Vec::new();
                }
                continue;
            }
            let Some(header) = rest.first_chunk::<HEADER_BYTES>() else { break };
            match rest.get(HEADER_BYTES + body_bytes(header)..) {
                Some(after) => rest = after,
                None => break,
            }
        }
        self.tail.extend_from_slice(rest);
    }

    #[cfg(test)]
    pub(super) fn tail(&self) -> &[u8] {
        &self.tail
    }

    /// Bytes until the header, or else the record, of the tail is whole.
    fn wanted(&self) -> usize {
        match self.tail.first_chunk::<HEADER_BYTES>() {
            Some(header) => (HEADER_BYTES + body_bytes(header)).saturating_sub(self.tail.len()),
            None => HEADER_BYTES - self.tail.len(),
        }
    }

    /// Takes the secrets that were made since the last call on this thread.
    pub(super) fn take_secrets(&mut self) {
        let made = MADE.with_borrow_mut(std::mem::take);
        if let (Some(of_client), Some(of_server)) = made {
            self.secrets = Some((of_client, of_server));
        }
    }

    /// Takes a session out of rustls, with all that it holds.
    pub(super) fn take_over(self, mut tls: ServerConnection) -> Result<OwnRecords, Stays> {
        let is_1_3 = tls.protocol_version() == Some(ProtocolVersion::TLSv1_3);
        let number = tls.negotiated_cipher_suite().map_or(0, |suite| u16::from(suite.suite()));
        let suite = Suite::of(number).filter(|suite| suite.is_1_3() == is_1_3).ok_or(Stays::Keys)?;
        // An answer to `KeyUpdate` may be queued where `wants_write` does not see it: writing has it go out.
        tls.writer().write(&[]).map_err(|_| Stays::Keys)?;
        let (mut output, mut plain) = (Vec::new(), Vec::new());
        while tls.wants_write() {
            tls.write_tls(&mut output).map_err(|_| Stays::Keys)?;
        }
        // Ends with `WouldBlock`, as the session is open.
        let _ = tls.reader().read_to_end(&mut plain);
        let secrets = tls.dangerous_extract_secrets().map_err(|_| Stays::Keys)?;
        let (of_client, of_server) = self.secrets.unwrap_or_default();
        let transmit = direction(suite, &of_server, secrets.tx).ok_or(Stays::Keys)?;
        let receive = direction(suite, &of_client, secrets.rx).ok_or(Stays::Keys)?;
        Ok(OwnRecords::new(suite, transmit, receive).with(output, self.tail, plain))
    }
}

/// Bytes of a record behind its header; what is no TLS has none, so that nothing of it is kept.
fn body_bytes(header: &[u8; HEADER_BYTES]) -> usize {
    let body = usize::from(u16::from_be_bytes([header[3], header[4]]));
    if body > PLAINTEXT_BYTES_MAX + EXPANSION_BYTES_MAX { 0 } else { body }
}

fn direction(suite: Suite, first: &[u8], (sequence, keys): (u64, ConnectionTrafficSecrets)) -> Option<Direction> {
    let (key, iv) = match &keys {
        ConnectionTrafficSecrets::Aes128Gcm { key, iv }
        | ConnectionTrafficSecrets::Aes256Gcm { key, iv }
        | ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv } => (key.as_ref(), iv.as_ref()),
        _ => return None,
    };
    if suite.is_1_3() {
        return Direction::of_keys(suite, first, (key, iv), sequence, GENERATIONS_MAX);
    }
    Direction::new(suite, &Zeroizing::new([key, iv].concat()), 0, sequence)
}
