//! Sealed datagrams between two members: ChaCha20-Poly1305 (RFC 8439) with a key for each purpose, pair of members,
//! direction and start.
//!
//! A start is a random number that a member chooses when it begins. A datagram is fresh only if it repeats the
//! receiver's own start: then it was made after that. So datagrams that were recorded earlier prove nothing, without any
//! clock; within one start, numbers that do not grow are refused.

use crate::identity::{ClusterSecret, KeyError};
use crate::name::NodeNumber;
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use ring::hkdf::{HKDF_SHA256, Prk, Salt};
use ring::rand::{SecureRandom, SystemRandom};
use std::collections::VecDeque;
use std::fmt;
use std::time::{Duration, Instant};

const START_BYTES: usize = 16;
/// Version, sender, receiver, start, number.
const HEAD_BYTES: usize = 1 + 2 + 2 + START_BYTES + 8;
/// The starts of the peer that the sender has heard.
const HEARD_BYTES: usize = 2 * START_BYTES;
const TAG_BYTES: usize = 16;
/// Bytes of a datagram besides what it says.
pub(crate) const OVERHEAD_BYTES: usize = HEAD_BYTES + HEARD_BYTES + TAG_BYTES;
/// Earlier starts of a peer that are remembered; older ones cannot repeat this side's start unless it runs very long.
const RETIRED_MAX: usize = 64;

/// After a new secret, datagrams to a peer that is not heard with it yet are sealed with the one before for so long.
pub(crate) const SEALED_BEFORE: Duration = Duration::from_secs(5);
/// Those of a peer that are sealed with the one before are opened for so long.
pub(crate) const OPENED_BEFORE: Duration = Duration::from_secs(10);

/// What datagrams are for: a key of one purpose opens none of another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    Heartbeat,
    Gossip,
}

impl Purpose {
    /// The first byte of a datagram: which purpose and which version of its form.
    pub(crate) fn version(self) -> u8 {
        match self {
            Self::Heartbeat => 1,
            Self::Gossip => 2,
        }
    }

    fn prk(self, secret: &ClusterSecret) -> Prk {
        let salt: &[u8] = match self {
            Self::Heartbeat => b"weir cluster heartbeat 1",
            Self::Gossip => b"weir cluster gossip 1",
        };
        Salt::new(HKDF_SHA256, salt).extract(secret.as_bytes())
    }
}

/// The random number of a member's start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StartId([u8; START_BYTES]);

impl StartId {
    /// Before a peer was heard.
    const NONE: Self = Self([0; START_BYTES]);

    /// Draws one.
    ///
    /// # Errors
    /// [`KeyError::NoRandom`], if the system gives no random bytes.
    pub fn draw() -> Result<Self, KeyError> {
        let mut bytes = [0; START_BYTES];
        SystemRandom::new().fill(&mut bytes).map_err(|_| KeyError::NoRandom)?;
        Ok(Self(bytes))
    }
}

/// A datagram that is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BeatRefusal {
    /// It has another length or version.
    #[error("the datagram is none of this version; run the same version of weir on all members")]
    OtherForm,
    /// It is between other members.
    #[error("the datagram is for another member; see to the addresses of the members")]
    OtherMember,
    /// It was not sealed with the cluster's secret.
    #[error("the datagram is forged; see which machine sends to this port")]
    Forged,
    /// Its number is not above that of the last one.
    #[error("the datagram was sent before, or comes too late")]
    Replayed,
}

fn pair_key(prk: &Prk, from: NodeNumber, to: NodeNumber, start: StartId) -> Option<LessSafeKey> {
    let (from, to) = (from.to_be_bytes(), to.to_be_bytes());
    let info: [&[u8]; 3] = [&from, &to, &start.0];
    let key = prk.expand(&info, &CHACHA20_POLY1305).ok()?;
    Some(LessSafeKey::new(UnboundKey::from(key)))
}

fn nonce(number: u64) -> Nonce {
    let mut bytes = [0; 12];
    bytes[4..].copy_from_slice(&number.to_be_bytes());
    Nonce::assume_unique_for_key(bytes)
}

/// The member that a datagram claims to come from.
pub(crate) fn sender_of(datagram: &[u8]) -> NodeNumber {
    datagram.get(1..3).map_or(0, |from| NodeNumber::from_be_bytes([from[0], from[1]]))
}

/// Seals a member's datagrams to one peer.
pub(crate) struct PairSealer {
    head: [u8; HEAD_BYTES - 8],
    key: LessSafeKey,
    next: u64,
}

impl fmt::Debug for PairSealer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PairSealer").field("next", &self.next).finish_non_exhaustive()
    }
}

impl PairSealer {
    /// Begins with number 1. A start must be used by one sealer for a peer and a purpose only, or numbers repeat under
    /// one key.
    pub(crate) fn new(
        purpose: Purpose,
        secret: &ClusterSecret,
        (from, to): (NodeNumber, NodeNumber),
        start: StartId,
    ) -> Result<Self, KeyError> {
        let key = pair_key(&purpose.prk(secret), from, to, start).ok_or(KeyError::NoKey)?;
        let mut head = [0; HEAD_BYTES - 8];
        head[0] = purpose.version();
        head[1..3].copy_from_slice(&from.to_be_bytes());
        head[3..5].copy_from_slice(&to.to_be_bytes());
        head[5..].copy_from_slice(&start.0);
        Ok(Self { head, key, next: 1 })
    }

    /// The next datagram. `heard` is what [`PairOpener::heard`] of the same peer says.
    pub(crate) fn seal(&mut self, body: &[u8], heard: [StartId; 2]) -> Vec<u8> {
        let number = self.next;
        self.next += 1;
        let mut datagram = Vec::with_capacity(OVERHEAD_BYTES + body.len());
        datagram.extend(self.head);
        datagram.extend(number.to_be_bytes());
        let head_end = datagram.len();
        datagram.extend(body);
        heard.iter().for_each(|start| datagram.extend(start.0));
        let (head, plain) = datagram.split_at_mut(head_end);
        let tag = self.key.seal_in_place_separate_tag(nonce(number), Aad::from(&*head), plain);
        // It fails for texts of 256 GB only (RFC 8439, section 2.8); without a tag the receiver refuses it.
        datagram.extend(tag.map(|tag| tag.as_ref().to_vec()).unwrap_or_default());
        datagram
    }
}

struct Incarnation {
    start: StartId,
    key: LessSafeKey,
    last: u64,
}

/// Opens the datagrams of one peer.
pub(crate) struct PairOpener {
    purpose: Purpose,
    prk: Prk,
    from: NodeNumber,
    to: NodeNumber,
    own: StartId,
    /// The start of which a fresh datagram came.
    proven: Option<Incarnation>,
    /// A newer start, of which none came yet.
    candidate: Option<Incarnation>,
    retired: VecDeque<StartId>,
}

impl fmt::Debug for PairOpener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PairOpener").field("from", &self.from).field("to", &self.to).finish_non_exhaustive()
    }
}

impl PairOpener {
    /// Opens what `from` sends to `to`, which has started as `own`.
    pub(crate) fn new(
        purpose: Purpose,
        secret: &ClusterSecret,
        (from, to): (NodeNumber, NodeNumber),
        own: StartId,
    ) -> Self {
        let prk = purpose.prk(secret);
        Self { purpose, prk, from, to, own, proven: None, candidate: None, retired: VecDeque::new() }
    }

    /// The starts of the peer, to be sent back to it.
    pub(crate) fn heard(&self) -> [StartId; 2] {
        let start = |known: &Option<Incarnation>| known.as_ref().map_or(StartId::NONE, |known| known.start);
        [start(&self.proven), start(&self.candidate)]
    }

    /// Opens a datagram; what it says, and whether it was made after this side's start.
    ///
    /// # Errors
    /// [`BeatRefusal`]; nothing has changed then.
    pub(crate) fn open(&mut self, datagram: &[u8]) -> Result<(bool, Vec<u8>), BeatRefusal> {
        let (head, sealed) = datagram.split_first_chunk::<HEAD_BYTES>().ok_or(BeatRefusal::OtherForm)?;
        if head[0] != self.purpose.version() || sealed.len() < HEARD_BYTES + TAG_BYTES {
            return Err(BeatRefusal::OtherForm);
        }
        if head[1..3] != self.from.to_be_bytes() || head[3..5] != self.to.to_be_bytes() {
            return Err(BeatRefusal::OtherMember);
        }
        let (mut start, mut number) = ([0; START_BYTES], [0; 8]);
        start.copy_from_slice(&head[5..5 + START_BYTES]);
        number.copy_from_slice(&head[5 + START_BYTES..]);
        let (start, number) = (StartId(start), u64::from_be_bytes(number));
        let known = [&mut self.proven, &mut self.candidate].into_iter().flatten().find(|known| known.start == start);
        let mut plain = sealed.to_vec();
        let aad = Aad::from(head);
        match known {
            Some(known) => {
                known.key.open_in_place(nonce(number), aad, &mut plain).map_err(|_| BeatRefusal::Forged)?;
                if number <= known.last {
                    return Err(BeatRefusal::Replayed);
                }
                known.last = number;
            }
            None => {
                let key = pair_key(&self.prk, self.from, self.to, start).ok_or(BeatRefusal::Forged)?;
                key.open_in_place(nonce(number), aad, &mut plain).map_err(|_| BeatRefusal::Forged)?;
                if self.retired.contains(&start) {
                    return Err(BeatRefusal::Replayed);
                }
                self.candidate = Some(Incarnation { start, key, last: number });
            }
        }
        plain.truncate(plain.len() - TAG_BYTES);
        let heard = plain.split_off(plain.len() - HEARD_BYTES);
        let is_fresh = heard.chunks(START_BYTES).any(|echo| echo == self.own.0);
        if is_fresh {
            self.prove(start);
        }
        Ok((is_fresh, plain))
    }

    /// A peer that has started anew takes the place of its earlier start, which is refused from then on.
    fn prove(&mut self, start: StartId) {
        let Some(candidate) = self.candidate.take_if(|candidate| candidate.start == start) else { return };
        let Some(before) = self.proven.replace(candidate) else { return };
        if self.retired.len() == RETIRED_MAX {
            self.retired.pop_front();
        }
        self.retired.push_back(before.start);
    }
}

/// Seals and opens the datagrams of this side and one peer, also while a new secret takes the place of one before.
pub(crate) struct Seals {
    purpose: Purpose,
    own: NodeNumber,
    peer: NodeNumber,
    start: StartId,
    secret: ClusterSecret,
    newest: Keyed,
    before: Before,
}

/// Both directions under one secret.
#[derive(Debug)]
struct Keyed {
    sealer: PairSealer,
    opener: PairOpener,
}

/// The secret before the newest one.
#[derive(Debug)]
enum Before {
    /// There is none, or its time is over.
    Over,
    /// The peer may not have the newest one: this side still seals with it.
    Sealing { keyed: Box<Keyed>, since: Instant },
    /// This side seals with the newest one, and opens both.
    Opening { keyed: Box<Keyed>, since: Instant },
}

impl fmt::Debug for Seals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Seals").field("newest", &self.newest).field("before", &self.before).finish_non_exhaustive()
    }
}

impl Seals {
    /// Between this side, which has started as `start`, and a peer.
    pub(crate) fn new(
        purpose: Purpose,
        secret: &ClusterSecret,
        (own, peer): (NodeNumber, NodeNumber),
        start: StartId,
    ) -> Result<Self, KeyError> {
        let newest = Keyed::new(purpose, secret, (own, peer), start)?;
        Ok(Self { purpose, own, peer, start, secret: secret.clone(), newest, before: Before::Over })
    }

    /// Takes a new secret. One that is in use already changes nothing: its numbers would begin anew under one key.
    pub(crate) fn turn(&mut self, secret: &ClusterSecret, now: Instant) -> Result<(), KeyError> {
        if secret.as_bytes() == self.secret.as_bytes() {
            return Ok(());
        }
        let newest = Keyed::new(self.purpose, secret, (self.own, self.peer), self.start)?;
        self.secret = secret.clone();
        let keyed = Box::new(std::mem::replace(&mut self.newest, newest));
        self.before = Before::Sealing { keyed, since: now };
        Ok(())
    }

    /// The next datagram.
    pub(crate) fn seal(&mut self, body: &[u8], now: Instant) -> Vec<u8> {
        self.age(now);
        match &mut self.before {
            Before::Sealing { keyed, .. } => keyed.seal(body),
            Before::Opening { keyed, .. } => {
                // Until the peer was heard under the newest secret, its start is known from the one before.
                let heard = [self.newest.opener.heard(), keyed.opener.heard()];
                let known = heard.into_iter().find(|heard| heard[0] != StartId::NONE);
                self.newest.sealer.seal(body, known.unwrap_or(heard[0]))
            }
            Before::Over => self.newest.seal(body),
        }
    }

    /// Opens a datagram; what it says, and whether it was made after this side's start.
    ///
    /// # Errors
    /// [`BeatRefusal`]; nothing has changed then.
    pub(crate) fn open(&mut self, datagram: &[u8], now: Instant) -> Result<(bool, Vec<u8>), BeatRefusal> {
        self.age(now);
        let opened = self.newest.opener.open(datagram);
        let keyed = match (&opened, &mut self.before) {
            (Err(BeatRefusal::Forged), Before::Sealing { keyed, .. } | Before::Opening { keyed, .. }) => keyed,
            _ => {
                if opened.is_ok() {
                    self.seal_newest();
                }
                return opened;
            }
        };
        keyed.opener.open(datagram)
    }

    /// The peer has the newest secret, or has had the time to get it.
    fn seal_newest(&mut self) {
        self.before = match std::mem::replace(&mut self.before, Before::Over) {
            Before::Sealing { keyed, since } => Before::Opening { keyed, since },
            before => before,
        };
    }

    fn age(&mut self, now: Instant) {
        let (Before::Sealing { since, .. } | Before::Opening { since, .. }) = &self.before else { return };
        let age = now.saturating_duration_since(*since);
        if age >= SEALED_BEFORE {
            self.seal_newest();
        }
        if age >= OPENED_BEFORE {
            self.before = Before::Over;
        }
    }
}

impl Keyed {
    fn new(
        purpose: Purpose,
        secret: &ClusterSecret,
        (own, peer): (NodeNumber, NodeNumber),
        start: StartId,
    ) -> Result<Self, KeyError> {
        let sealer = PairSealer::new(purpose, secret, (own, peer), start)?;
        Ok(Self { sealer, opener: PairOpener::new(purpose, secret, (peer, own), start) })
    }

    fn seal(&mut self, body: &[u8]) -> Vec<u8> {
        self.sealer.seal(body, self.opener.heard())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(byte: u8) -> ClusterSecret {
        ClusterSecret::from_bytes(&[byte; 32]).unwrap()
    }

    fn side(secret: &ClusterSecret, own: NodeNumber, peer: NodeNumber) -> Seals {
        Seals::new(Purpose::Heartbeat, secret, (own, peer), StartId::draw().unwrap()).unwrap()
    }

    /// One says something to the other; whether that counts there.
    fn says(one: &mut Seals, other: &mut Seals, now: Instant) -> Result<bool, BeatRefusal> {
        let datagram = one.seal(b"word", now);
        other.open(&datagram, now).map(|(is_fresh, body)| is_fresh && body == b"word")
    }

    /// Both sides under the first secret, which have heard each other.
    fn pair(now: Instant) -> (Seals, Seals) {
        let (mut one, mut two) = (side(&secret(1), 1, 2), side(&secret(1), 2, 1));
        assert_eq!(says(&mut one, &mut two, now), Ok(false));
        assert_eq!(says(&mut two, &mut one, now), Ok(true));
        assert_eq!(says(&mut one, &mut two, now), Ok(true));
        (one, two)
    }

    #[test]
    fn no_word_is_lost_while_one_side_has_the_new_secret_first() {
        let begun = Instant::now();
        for gap_ms in [0, 700, 4_900] {
            let (mut one, mut two) = pair(begun);
            one.turn(&secret(2), begun).unwrap();
            for ms in (0..20_000).step_by(10) {
                let now = begun + Duration::from_millis(ms);
                if ms == gap_ms / 10 * 10 {
                    two.turn(&secret(2), now).unwrap();
                }
                assert_eq!(says(&mut one, &mut two, now), Ok(true), "to the second, {ms} ms, gap {gap_ms}");
                assert_eq!(says(&mut two, &mut one, now), Ok(true), "to the first, {ms} ms, gap {gap_ms}");
            }
        }
    }

    #[test]
    fn one_that_has_the_old_secret_only_is_refused_after_its_time() {
        let begun = Instant::now();
        let (mut one, mut two) = pair(begun);
        one.turn(&secret(2), begun).unwrap();
        let recorded = two.seal(b"word", begun);
        let before = begun + OPENED_BEFORE - Duration::from_millis(1);
        assert_eq!(says(&mut two, &mut one, before), Ok(true));
        let after = begun + OPENED_BEFORE;
        assert_eq!(says(&mut two, &mut one, after), Err(BeatRefusal::Forged));
        assert_eq!(one.open(&recorded, after), Err(BeatRefusal::Forged));
        // What this side says is not for it either.
        assert_eq!(says(&mut one, &mut two, begun + SEALED_BEFORE), Err(BeatRefusal::Forged));
    }

    #[test]
    fn a_late_one_counts_after_one_greeting_under_the_new_secret() {
        let begun = Instant::now();
        let (mut one, mut two) = pair(begun);
        one.turn(&secret(2), begun).unwrap();
        let late = begun + Duration::from_secs(60);
        assert!(says(&mut one, &mut two, late).is_err());
        two.turn(&secret(2), late).unwrap();
        assert_eq!(says(&mut one, &mut two, late), Ok(false));
        assert_eq!(says(&mut two, &mut one, late), Ok(true), "it has heard the first one with the new secret");
        assert_eq!(says(&mut one, &mut two, late), Ok(true));
    }

    #[test]
    fn replays_and_doubled_turns_are_refused() {
        let begun = Instant::now();
        let (mut one, mut two) = pair(begun);
        let old = two.seal(b"word", begun);
        assert!(one.open(&old, begun).is_ok());
        one.turn(&secret(2), begun).unwrap();
        two.turn(&secret(2), begun).unwrap();
        assert_eq!(one.open(&old, begun), Err(BeatRefusal::Replayed));
        let later = begun + SEALED_BEFORE;
        let new = two.seal(b"word", later);
        assert!(one.open(&new, later).is_ok());
        one.turn(&secret(2), later).unwrap();
        assert_eq!(one.open(&new, later), Err(BeatRefusal::Replayed), "the same secret changes nothing");
    }
}
