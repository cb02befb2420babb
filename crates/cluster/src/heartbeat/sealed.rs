//! Heartbeats as sealed datagrams. One counts as a sign of life only if it was made after the receiver's own start.

use crate::identity::{ClusterSecret, KeyError};
use crate::name::NodeNumber;
pub use crate::sealed::{BeatRefusal, StartId};
use crate::sealed::{OVERHEAD_BYTES, PairOpener, PairSealer, Purpose};

/// The epoch.
const BODY_BYTES: usize = 8;
/// Bytes of a datagram.
pub(super) const DATAGRAM_BYTES: usize = OVERHEAD_BYTES + BODY_BYTES;

/// What a heartbeat says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Beat {
    /// The director's epoch, as the sender knows it.
    pub epoch: u64,
}

impl Beat {
    /// What a datagram has of it.
    pub(super) fn body(self) -> [u8; BODY_BYTES] {
        self.epoch.to_be_bytes()
    }
}

impl Opened {
    /// What was opened, and whether it is fresh.
    pub(super) fn of((is_fresh, body): (bool, Vec<u8>)) -> Self {
        let epoch = body.first_chunk::<BODY_BYTES>().map_or(0, |epoch| u64::from_be_bytes(*epoch));
        if is_fresh { Self::Alive(Beat { epoch }) } else { Self::Greeting }
    }
}

/// Seals a member's heartbeats to one peer.
#[derive(Debug)]
pub struct Sealer(PairSealer);

impl Sealer {
    /// Begins with number 1. A start must be used by one sealer for a peer only, or numbers repeat under one key.
    ///
    /// # Errors
    /// [`KeyError::NoKey`], if no key can be derived.
    pub fn new(secret: &ClusterSecret, from: NodeNumber, to: NodeNumber, start: StartId) -> Result<Self, KeyError> {
        Ok(Self(PairSealer::new(Purpose::Heartbeat, secret, (from, to), start)?))
    }

    /// The next datagram. `heard` is what [`Opener::heard`] of the same peer says.
    pub fn seal(&mut self, beat: Beat, heard: [StartId; 2]) -> Vec<u8> {
        self.0.seal(&beat.body(), heard)
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

/// Opens the heartbeats of one peer.
#[derive(Debug)]
pub struct Opener(PairOpener);

impl Opener {
    /// Opens what `from` sends to `to`, which has started as `own`.
    pub fn new(secret: &ClusterSecret, from: NodeNumber, to: NodeNumber, own: StartId) -> Self {
        Self(PairOpener::new(Purpose::Heartbeat, secret, (from, to), own))
    }

    /// The starts of the peer, to be sent back to it.
    pub fn heard(&self) -> [StartId; 2] {
        self.0.heard()
    }

    /// Opens a datagram.
    ///
    /// # Errors
    /// [`BeatRefusal`]; nothing has changed then.
    pub fn open(&mut self, datagram: &[u8]) -> Result<Opened, BeatRefusal> {
        if datagram.len() != DATAGRAM_BYTES {
            return Err(BeatRefusal::OtherForm);
        }
        self.0.open(datagram).map(Opened::of)
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
