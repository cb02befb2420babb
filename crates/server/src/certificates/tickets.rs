//! Tickets of TLS sessions that several servers can read: their keys come from without, and change while one runs.
//!
//! A ticket holds what resumes a session. In TLS 1.2 who has its key can read the resumed connections, and that in
//! which it was given (RFC 5077, section 5.6); in TLS 1.3 a resumed connection has keys of its own (RFC 8446, section 2.2).

use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use ring::digest::{SHA256, digest};
use ring::hmac;
use ring::rand::{SecureRandom, SystemRandom};
use rustls::server::ProducesTickets;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{SystemTime, UNIX_EPOCH};
use zeroize::Zeroizing;

/// Bytes in front of what is sealed: which key, and its nonce.
const NAME_BYTES: usize = 16;
const NONCE_BYTES: usize = 12;
const KEY_BYTES: usize = 32;
/// Bytes of a ticket: the certificates of a client are in it as well.
const TICKET_BYTES_MAX: usize = 32 << 10;
/// Clients are told to keep a ticket for so long. Keys open tickets for a day, and seal them for half of one.
const LIFETIME_S: u32 = 12 * 3_600;
const OPENED_S: u64 = 24 * 3_600;
/// A key seals only once all servers have had the time to get it, where there is one of before.
const SPREAD_S: u64 = 30;

/// Keys of tickets that come from without; a server without any makes its own ones, which no other knows.
#[derive(Clone, Default)]
pub struct SharedTickets(Arc<RwLock<Option<OfCarriers>>>);

/// What carries TLS. No ticket of one is one of the other: each has keys of its own, which follow from the same secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Carrier {
    /// TCP, or a Unix socket.
    Tcp,
    /// QUIC (RFC 9001).
    Quic,
}

/// The keys of both carriers, the oldest first.
#[derive(Clone)]
struct OfCarriers {
    tcp: Arc<[Key]>,
    quic: Arc<[Key]>,
}

/// A key of tickets, as servers share it. It is zeroed when it is dropped.
#[derive(Clone, PartialEq, Eq)]
pub struct TicketSecret {
    /// When it was made: seconds since 1970.
    pub made_unix_s: u64,
    /// The key.
    pub bytes: Zeroizing<[u8; KEY_BYTES]>,
}

impl fmt::Debug for TicketSecret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("TicketSecret").field("made_unix_s", &self.made_unix_s).finish_non_exhaustive()
    }
}

struct Key {
    made_unix_s: u64,
    name: [u8; NAME_BYTES],
    /// The library keeps the key, and does not zero it.
    aead: LessSafeKey,
}

impl fmt::Debug for SharedTickets {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("SharedTickets").field("keys", &self.keys(Carrier::Tcp).map(|keys| keys.len())).finish()
    }
}

impl SharedTickets {
    /// Uses these keys from now on; with none the server's own ones.
    pub fn set(&self, secrets: &[TicketSecret]) {
        let of = |carrier| -> Arc<[Key]> {
            let mut keys: Vec<Key> = secrets.iter().filter_map(|secret| Key::of(secret, carrier)).collect();
            keys.sort_by_key(|key| (key.made_unix_s, key.name));
            Arc::from(keys)
        };
        let keys = OfCarriers { tcp: of(Carrier::Tcp), quic: of(Carrier::Quic) };
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = (!keys.tcp.is_empty()).then_some(keys);
    }

    fn keys(&self, carrier: Carrier) -> Option<Arc<[Key]>> {
        let keys = self.0.read().unwrap_or_else(PoisonError::into_inner).clone()?;
        Some(if carrier == Carrier::Tcp { keys.tcp } else { keys.quic })
    }

    /// What makes tickets by them, or else by keys of its own.
    pub(crate) fn ticketer(&self, carrier: Carrier) -> Result<Arc<dyn ProducesTickets>, rustls::Error> {
        let own = rustls::crypto::ring::Ticketer::new()?;
        Ok(Arc::new(Ticketer { shared: self.clone(), carrier, own }))
    }
}

impl Key {
    fn of(secret: &TicketSecret, carrier: Carrier) -> Option<Self> {
        match carrier {
            Carrier::Tcp => Self::of_bytes(secret.made_unix_s, &secret.bytes),
            Carrier::Quic => {
                // One way only: who has this key does not have that of TCP (RFC 5869, section 3.3, takes as much).
                let key = hmac::Key::new(hmac::HMAC_SHA256, &*secret.bytes);
                let mut bytes = Zeroizing::new([0; KEY_BYTES]);
                bytes.copy_from_slice(hmac::sign(&key, b"weir ticket quic 1").as_ref());
                Self::of_bytes(secret.made_unix_s, &bytes)
            }
        }
    }

    fn of_bytes(made_unix_s: u64, bytes: &Zeroizing<[u8; KEY_BYTES]>) -> Option<Self> {
        let bytes: &[u8] = &**bytes;
        let mut named = Zeroizing::new(b"weir ticket 1".to_vec());
        // As much room as is needed, so that no copy is left behind by growing.
        named.reserve_exact(KEY_BYTES);
        named.extend_from_slice(bytes);
        let mut name = [0; NAME_BYTES];
        name.copy_from_slice(&digest(&SHA256, &named).as_ref()[..NAME_BYTES]);
        let aead = LessSafeKey::new(UnboundKey::new(&CHACHA20_POLY1305, bytes).ok()?);
        Some(Self { made_unix_s, name, aead })
    }

    fn seal(&self, plain: &[u8]) -> Option<Vec<u8>> {
        let mut nonce = [0; NONCE_BYTES];
        SystemRandom::new().fill(&mut nonce).ok()?;
        let mut ticket = Vec::with_capacity(NAME_BYTES + NONCE_BYTES + plain.len() + CHACHA20_POLY1305.tag_len());
        ticket.extend(self.name);
        ticket.extend(nonce);
        ticket.extend(plain);
        let nonce = Nonce::assume_unique_for_key(nonce);
        let sealed = &mut ticket[NAME_BYTES + NONCE_BYTES..];
        let tag = self.aead.seal_in_place_separate_tag(nonce, Aad::from(self.name), sealed).ok()?;
        ticket.extend(tag.as_ref());
        Some(ticket)
    }

    fn open(&self, ticket: &[u8]) -> Option<Vec<u8>> {
        let (nonce, sealed) = ticket[NAME_BYTES..].split_first_chunk::<NONCE_BYTES>()?;
        let mut plain = sealed.to_vec();
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let length = self.aead.open_in_place(nonce, Aad::from(self.name), &mut plain).ok()?.len();
        plain.truncate(length);
        Some(plain)
    }
}

#[derive(Debug)]
struct Ticketer {
    shared: SharedTickets,
    carrier: Carrier,
    own: Arc<dyn ProducesTickets>,
}

impl ProducesTickets for Ticketer {
    fn enabled(&self) -> bool {
        true
    }

    fn lifetime(&self) -> u32 {
        LIFETIME_S
    }

    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        let Some(keys) = self.shared.keys(self.carrier) else { return self.own.encrypt(plain) };
        let known_to_all = now_unix_s().saturating_sub(SPREAD_S);
        let key = keys.iter().rev().find(|key| key.made_unix_s <= known_to_all).or(keys.last())?;
        key.seal(plain)
    }

    fn decrypt(&self, ticket: &[u8]) -> Option<Vec<u8>> {
        let shared = self.shared.keys(self.carrier);
        let name = ticket.get(..NAME_BYTES).filter(|_| ticket.len() <= TICKET_BYTES_MAX)?;
        let key = shared.as_ref().and_then(|keys| keys.iter().find(|key| key.name == name));
        match key {
            Some(key) if key.made_unix_s + OPENED_S < now_unix_s() => None,
            Some(key) => key.open(ticket),
            // It was given before the keys came.
            None => self.own.decrypt(ticket),
        }
    }
}

fn now_unix_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn secret(byte: u8, age_s: u64) -> TicketSecret {
        TicketSecret { made_unix_s: now_unix_s() - age_s, bytes: Zeroizing::new([byte; KEY_BYTES]) }
    }

    fn server(secrets: &[TicketSecret]) -> (SharedTickets, Arc<dyn ProducesTickets>) {
        let shared = SharedTickets::default();
        shared.set(secrets);
        let ticketer = shared.ticketer(Carrier::Tcp).expect("random bytes");
        (shared, ticketer)
    }

    #[test]
    fn tickets_of_quic_are_shared_as_well_and_are_none_of_tcp() {
        let (one, over_tcp) = server(&[secret(1, 60)]);
        let (two, _) = server(&[secret(1, 60)]);
        let (stranger, _) = server(&[secret(3, 60)]);
        let quic = |shared: &SharedTickets| shared.ticketer(Carrier::Quic).expect("random bytes");
        let ticket = quic(&one).encrypt(b"a session").expect("is sealed");
        assert_eq!(quic(&two).decrypt(&ticket).as_deref(), Some(&b"a session"[..]));
        assert_eq!((quic(&stranger).decrypt(&ticket), over_tcp.decrypt(&ticket)), (None, None));
        let of_tcp = over_tcp.encrypt(b"a session").expect("is sealed");
        assert!(quic(&one).decrypt(&of_tcp).is_none());
    }

    #[test]
    fn a_ticket_of_one_server_is_read_by_another_one_with_the_same_keys_alone() {
        let (_, one) = server(&[secret(1, 60)]);
        let (_, two) = server(&[secret(2, 100), secret(1, 60)]);
        let (_, stranger) = server(&[secret(3, 60)]);
        let (_, alone) = server(&[]);
        let ticket = one.encrypt(b"session").expect("a ticket");
        assert_eq!(two.decrypt(&ticket).as_deref(), Some(&b"session"[..]));
        assert_eq!((stranger.decrypt(&ticket), alone.decrypt(&ticket)), (None, None));
        let own = alone.encrypt(b"session").expect("a ticket");
        assert_eq!((alone.decrypt(&own).as_deref(), two.decrypt(&own)), (Some(&b"session"[..]), None));
    }

    #[test]
    fn a_key_seals_once_all_have_it_and_opens_for_a_day() {
        let (shared, one) = server(&[secret(1, 40_000), secret(2, 5)]);
        let (_, late) = server(&[secret(1, 40_000)]);
        let ticket = one.encrypt(b"session").expect("a ticket");
        assert!(late.decrypt(&ticket).is_some(), "the newest key is known to one server only");
        shared.set(&[secret(1, 40_000), secret(2, SPREAD_S + 5)]);
        let ticket = one.encrypt(b"session").expect("a ticket");
        assert!(late.decrypt(&ticket).is_none() && one.decrypt(&ticket).is_some());
        let (shared, old) = server(&[secret(1, OPENED_S - 100)]);
        let ticket = old.encrypt(b"session").expect("a ticket");
        assert!(old.decrypt(&ticket).is_some());
        shared.set(&[secret(1, OPENED_S + 100), secret(2, 0)]);
        assert_eq!(old.decrypt(&ticket), None, "its key has had its day");
    }

    #[test]
    fn what_was_given_before_the_keys_came_is_read_on_and_no_key_is_shown() {
        let (shared, one) = server(&[]);
        let ticket = one.encrypt(b"session").expect("a ticket");
        shared.set(&[secret(0x77, 60)]);
        assert!(one.decrypt(&ticket).is_some());
        let shown = format!("{shared:?} {:?} {one:?}", secret(0x77, 60));
        assert!(!shown.contains("119") && !shown.contains("77, "), "{shown}");
    }

    proptest! {
        #[test]
        fn what_was_changed_is_refused(plain in proptest::collection::vec(any::<u8>(), 0..100), at in any::<usize>()) {
            let (_, one) = server(&[secret(1, 60)]);
            let mut ticket = one.encrypt(&plain).expect("a ticket");
            prop_assert_eq!(one.decrypt(&ticket), Some(plain));
            let at = at % ticket.len();
            prop_assert_eq!(one.decrypt(&ticket[..at]), None);
            ticket[at] ^= 1;
            prop_assert_eq!(one.decrypt(&ticket), None);
        }
    }
}
