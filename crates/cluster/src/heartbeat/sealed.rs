//! Heartbeats as sealed datagrams: ChaCha20-Poly1305 (RFC 8439) with a key for each pair of members, direction and start.
//!
//! A start is a random number that a member chooses when it begins. A heartbeat counts as a sign of life only if it
//! repeats the receiver's own start: then it was made after that. So heartbeats that were recorded earlier prove
//! nothing, without any clock; within one start, numbers that do not grow are refused.

use crate::identity::{ClusterSecret, KeyError};
use crate::name::NodeNumber;
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use ring::hkdf::{HKDF_SHA256, Prk, Salt};
use ring::rand::{SecureRandom, SystemRandom};
use std::collections::VecDeque;
use std::fmt;

const VERSION: u8 = 1;
const START_BYTES: usize = 16;
/// Version, sender, receiver, start, number.
const HEAD_BYTES: usize = 1 + 2 + 2 + START_BYTES + 8;
/// Epoch and two starts.
const PLAIN_BYTES: usize = 8 + 2 * START_BYTES;
const TAG_BYTES: usize = 16;
/// Bytes of a datagram.
pub(super) const DATAGRAM_BYTES: usize = HEAD_BYTES + PLAIN_BYTES + TAG_BYTES;
/// Earlier starts of a peer that are remembered; older ones cannot repeat this side's start unless it runs very long.
const RETIRED_MAX: usize = 64;

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

/// What a heartbeat says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Beat {
    /// The director's epoch, as the sender knows it.
    pub epoch: u64,
}

/// A heartbeat that is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BeatRefusal {
    /// It has another length or version.
    #[error("the datagram is no heartbeat of this version; run the same version of weir on all members")]
    OtherForm,
    /// It is between other members.
    #[error("the heartbeat is for another member; see to the addresses of the members")]
    OtherMember,
    /// It was not sealed with the cluster's secret.
    #[error("the heartbeat is forged; see which machine sends to this port")]
    Forged,
    /// Its number is not above that of the last one.
    #[error("the heartbeat was sent before, or comes too late")]
    Replayed,
}

fn pair_key(prk: &Prk, from: NodeNumber, to: NodeNumber, start: StartId) -> Option<LessSafeKey> {
    let (from, to) = (from.to_be_bytes(), to.to_be_bytes());
    let info: [&[u8]; 3] = [&from, &to, &start.0];
    let key = prk.expand(&info, &CHACHA20_POLY1305).ok()?;
    Some(LessSafeKey::new(UnboundKey::from(key)))
}

fn prk(secret: &ClusterSecret) -> Prk {
    Salt::new(HKDF_SHA256, b"weir cluster heartbeat 1").extract(secret.as_bytes())
}

fn nonce(number: u64) -> Nonce {
    let mut bytes = [0; 12];
    bytes[4..].copy_from_slice(&number.to_be_bytes());
    Nonce::assume_unique_for_key(bytes)
}

/// Seals a member's heartbeats to one peer.
pub struct Sealer {
    head: [u8; HEAD_BYTES - 8],
    key: LessSafeKey,
    next: u64,
}

impl fmt::Debug for Sealer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sealer").field("next", &self.next).finish_non_exhaustive()
    }
}

impl Sealer {
    /// Begins with number 1. A start must be used by one sealer for a peer only, or numbers repeat under one key.
    ///
    /// # Errors
    /// [`KeyError::NoKey`], if no key can be derived.
    pub fn new(secret: &ClusterSecret, from: NodeNumber, to: NodeNumber, start: StartId) -> Result<Self, KeyError> {
        let key = pair_key(&prk(secret), from, to, start).ok_or(KeyError::NoKey)?;
        let mut head = [0; HEAD_BYTES - 8];
        head[0] = VERSION;
        head[1..3].copy_from_slice(&from.to_be_bytes());
        head[3..5].copy_from_slice(&to.to_be_bytes());
        head[5..].copy_from_slice(&start.0);
        Ok(Self { head, key, next: 1 })
    }

    /// The next datagram. `heard` is what [`Opener::heard`] of the same peer says.
    pub fn seal(&mut self, beat: Beat, heard: [StartId; 2]) -> Vec<u8> {
        let number = self.next;
        self.next += 1;
        let mut datagram = Vec::with_capacity(DATAGRAM_BYTES);
        datagram.extend(self.head);
        datagram.extend(number.to_be_bytes());
        let mut plain = [0; PLAIN_BYTES];
        plain[..8].copy_from_slice(&beat.epoch.to_be_bytes());
        plain[8..8 + START_BYTES].copy_from_slice(&heard[0].0);
        plain[8 + START_BYTES..].copy_from_slice(&heard[1].0);
        let tag = self.key.seal_in_place_separate_tag(nonce(number), Aad::from(&datagram), &mut plain);
        datagram.extend(plain);
        // It fails for texts of 256 GB only (RFC 8439, section 2.8); without a tag the receiver refuses it.
        datagram.extend(tag.map(|tag| tag.as_ref().to_vec()).unwrap_or_default());
        datagram
    }
}

/// What a good heartbeat is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Opened {
    /// A sign of life: it was made after this side's start.
    Alive(Beat),
    /// It may be old: the peer does not know this side's start yet.
    Greeting,
}

struct Incarnation {
    start: StartId,
    key: LessSafeKey,
    last: u64,
}

/// Opens the heartbeats of one peer.
pub struct Opener {
    prk: Prk,
    from: NodeNumber,
    to: NodeNumber,
    own: StartId,
    /// The start of which a sign of life came.
    proven: Option<Incarnation>,
    /// A newer start, of which none came yet.
    candidate: Option<Incarnation>,
    retired: VecDeque<StartId>,
}

impl fmt::Debug for Opener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Opener").field("from", &self.from).field("to", &self.to).finish_non_exhaustive()
    }
}

impl Opener {
    /// Opens what `from` sends to `to`, which has started as `own`.
    pub fn new(secret: &ClusterSecret, from: NodeNumber, to: NodeNumber, own: StartId) -> Self {
        Self { prk: prk(secret), from, to, own, proven: None, candidate: None, retired: VecDeque::new() }
    }

    /// The starts of the peer, to be sent back to it.
    pub fn heard(&self) -> [StartId; 2] {
        let start = |known: &Option<Incarnation>| known.as_ref().map_or(StartId::NONE, |known| known.start);
        [start(&self.proven), start(&self.candidate)]
    }

    /// Opens a datagram.
    ///
    /// # Errors
    /// [`BeatRefusal`]; nothing has changed then.
    pub fn open(&mut self, datagram: &[u8]) -> Result<Opened, BeatRefusal> {
        let (head, sealed) = datagram.split_first_chunk::<HEAD_BYTES>().ok_or(BeatRefusal::OtherForm)?;
        if datagram.len() != DATAGRAM_BYTES || head[0] != VERSION {
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
        let opened = match known {
            Some(known) => {
                known.key.open_in_place(nonce(number), aad, &mut plain).map_err(|_| BeatRefusal::Forged)?;
                if number <= known.last {
                    return Err(BeatRefusal::Replayed);
                }
                known.last = number;
                plain
            }
            None => {
                let key = pair_key(&self.prk, self.from, self.to, start).ok_or(BeatRefusal::Forged)?;
                key.open_in_place(nonce(number), aad, &mut plain).map_err(|_| BeatRefusal::Forged)?;
                if self.retired.contains(&start) {
                    return Err(BeatRefusal::Replayed);
                }
                self.candidate = Some(Incarnation { start, key, last: number });
                plain
            }
        };
        let is_fresh = opened[8..PLAIN_BYTES].chunks(START_BYTES).any(|echo| echo == self.own.0);
        if !is_fresh {
            return Ok(Opened::Greeting);
        }
        self.prove(start);
        let mut epoch = [0; 8];
        epoch.copy_from_slice(&opened[..8]);
        Ok(Opened::Alive(Beat { epoch: u64::from_be_bytes(epoch) }))
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    struct Side {
        sealer: Sealer,
        opener: Opener,
    }

    impl Side {
        fn new(secret: &ClusterSecret, me: NodeNumber, peer: NodeNumber) -> Self {
            let start = StartId::draw().unwrap();
            let sealer = Sealer::new(secret, me, peer, start).unwrap();
            Self { sealer, opener: Opener::new(secret, peer, me, start) }
        }

        fn beat(&mut self, epoch: u64) -> Vec<u8> {
            self.sealer.seal(Beat { epoch }, self.opener.heard())
        }
    }

    fn secret() -> ClusterSecret {
        ClusterSecret::from_bytes(&[7; 32]).unwrap()
    }

    /// Both sides have heard each other.
    fn pair() -> (Side, Side) {
        let (mut one, mut two) = (Side::new(&secret(), 1, 2), Side::new(&secret(), 2, 1));
        assert_eq!(two.opener.open(&one.beat(1)), Ok(Opened::Greeting));
        assert_eq!(one.opener.open(&two.beat(1)), Ok(Opened::Alive(Beat { epoch: 1 })));
        assert_eq!(two.opener.open(&one.beat(1)), Ok(Opened::Alive(Beat { epoch: 1 })));
        (one, two)
    }

    #[test]
    fn replayed_and_late_ones_are_refused() {
        let (mut one, mut two) = pair();
        let (first, second) = (one.beat(3), one.beat(4));
        assert_eq!(two.opener.open(&second), Ok(Opened::Alive(Beat { epoch: 4 })));
        assert_eq!(two.opener.open(&second), Err(BeatRefusal::Replayed));
        assert_eq!(two.opener.open(&first), Err(BeatRefusal::Replayed));
    }

    #[test]
    fn heartbeats_of_before_prove_nothing_to_a_member_that_starts_anew() {
        let (mut one, _) = pair();
        let recorded: Vec<_> = (0..5).map(|epoch| one.beat(epoch)).collect();
        let mut anew = Side::new(&secret(), 2, 1);
        assert!(recorded.iter().all(|datagram| anew.opener.open(datagram) == Ok(Opened::Greeting)));
        // The living one learns of the new start, and proves itself.
        assert_eq!(one.opener.open(&anew.beat(1)), Ok(Opened::Alive(Beat { epoch: 1 })));
        assert_eq!(anew.opener.open(&one.beat(9)), Ok(Opened::Alive(Beat { epoch: 9 })));
    }

    #[test]
    fn a_peer_that_started_anew_retires_its_earlier_start() {
        let (mut one, mut two) = pair();
        let recorded = one.beat(5);
        let mut anew = Side::new(&secret(), 1, 2);
        assert_eq!(two.opener.open(&anew.beat(6)), Ok(Opened::Greeting));
        assert_eq!(anew.opener.open(&two.beat(6)), Ok(Opened::Alive(Beat { epoch: 6 })));
        assert_eq!(two.opener.open(&anew.beat(7)), Ok(Opened::Alive(Beat { epoch: 7 })));
        assert_eq!(two.opener.open(&recorded), Err(BeatRefusal::Replayed));
    }

    #[test]
    fn forged_ones_are_refused() {
        let (mut one, mut two) = pair();
        let mut stranger = Side::new(&ClusterSecret::from_bytes(&[8; 32]).unwrap(), 1, 2);
        assert_eq!(two.opener.open(&stranger.beat(1)), Err(BeatRefusal::Forged));
        // Sent back to its sender.
        let own = one.beat(1);
        assert_eq!(one.opener.open(&own), Err(BeatRefusal::OtherMember));
        let good = one.beat(2);
        for at in 0..good.len() {
            let mut changed = good.clone();
            changed[at] ^= 1;
            assert!(two.opener.open(&changed).is_err(), "byte {at}");
            assert!(two.opener.open(&good[..at]).is_err(), "{at} bytes");
        }
        assert_eq!(two.opener.open(&good), Ok(Opened::Alive(Beat { epoch: 2 })));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn any_bytes_are_refused(mut datagram in proptest::collection::vec(any::<u8>(), 0..120), fit: bool) {
            if fit {
                datagram.resize(DATAGRAM_BYTES, 0);
                datagram[..5].copy_from_slice(&[1, 0, 1, 0, 2]);
            }
            prop_assert!(Side::new(&secret(), 2, 1).opener.open(&datagram).is_err());
        }
    }
}
