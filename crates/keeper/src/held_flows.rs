//! The connections that a keeper holds, with their bounds. Times are given from outside.

use crate::counts::KeeperCounts;
use crate::flow::Flow;
use crate::protocol::Refusal;
use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Tombstones at most; the oldest makes room. With the holds they fit in the filter's table.
const TOMBSTONES_MAX: usize = 20_000;
/// Bytes that were written and not sent, of all restored connections.
const UNSENT_BYTES_MAX: u64 = 256 << 20;

/// Why a connection is held.
#[derive(Debug)]
pub(crate) enum Held {
    /// It will be restored here.
    Expected,
    /// It stands still here. The descriptor keeps it from telling its client of its end, should the server be killed.
    Frozen {
        /// Its descriptor.
        #[expect(dead_code, reason = "it is kept open")]
        socket: Arc<OwnedFd>,
        /// The window with which it goes on, once it was read.
        window: Option<[u32; 5]>,
    },
    /// It is restored here, and has not gone on yet.
    Restored {
        /// Its descriptor.
        #[expect(dead_code, reason = "it is kept open")]
        socket: OwnedFd,
        /// What is to be written when it goes on.
        unsent: Vec<u8>,
    },
    /// A keeper that was here before has held it, for a reason that ended with it.
    Inherited,
    /// Its server has ended, and no socket of it is left here: another node may go on with it.
    Orphaned,
    /// It has left: late packets would be answered with a reset.
    Tombstone,
}

/// The connections held, each until a time.
#[derive(Debug)]
pub(crate) struct HeldFlows {
    flows: HashMap<Flow, (Held, Instant)>,
    holds_max: usize,
    tombstones: usize,
    unsent_bytes: u64,
    newest_epoch: u64,
    /// What is not known from the connections themselves.
    pub(crate) counts: KeeperCounts,
}

impl HeldFlows {
    pub(crate) fn new(holds_max: usize, oldest_epoch: u64) -> Self {
        Self {
            flows: HashMap::new(),
            holds_max,
            tombstones: 0,
            unsent_bytes: 0,
            newest_epoch: oldest_epoch,
            counts: KeeperCounts::default(),
        }
    }

    /// Refuses an order of an older director than the newest one seen; whether it is the first one of a newer epoch.
    pub(crate) fn check_epoch(&mut self, asked: u64) -> Result<bool, Refusal> {
        if asked < self.newest_epoch {
            return Err(Refusal::OldEpoch { asked, newest: self.newest_epoch });
        }
        let is_newer = asked > self.newest_epoch;
        self.newest_epoch = asked;
        Ok(is_newer)
    }

    /// Goes on with what a keeper before has held.
    pub(crate) fn inherit(&mut self, flow: Flow, until: Instant) {
        self.put(flow, Held::Inherited, until);
    }

    /// Begins a hold, or goes on with one from which nothing was made yet.
    pub(crate) fn begin(&mut self, flow: Flow, held: Held, until: Instant) -> Result<(), Refusal> {
        let is_counted = match self.flows.get(&flow) {
            Some((Held::Frozen { .. } | Held::Restored { .. }, _)) => return Err(Refusal::Busy(flow)),
            Some((Held::Expected | Held::Inherited | Held::Orphaned, _)) => true,
            Some((Held::Tombstone, _)) | None => false,
        };
        if !is_counted && self.flows.len() - self.tombstones >= self.holds_max {
            return Err(Refusal::HoldsFull(u32::try_from(self.holds_max).unwrap_or(u32::MAX)));
        }
        self.put(flow, held, until);
        Ok(())
    }

    /// Has a hold last longer.
    pub(crate) fn renew(&mut self, flow: &Flow, until: Instant) -> Result<(), Refusal> {
        match self.flows.get_mut(flow) {
            Some((Held::Expected | Held::Inherited | Held::Frozen { .. } | Held::Restored { .. }, ends)) => {
                *ends = (*ends).max(until);
                Ok(())
            }
            Some((Held::Orphaned | Held::Tombstone, _)) | None => Err(Refusal::HoldIsOver(*flow)),
        }
    }

    /// Connections that have lost their server, and are held for `rest` at least from now on.
    pub(crate) fn orphans(&self, now: Instant, rest: Duration) -> Vec<Flow> {
        let is_told = |held: &Held, until: Instant| matches!(held, Held::Orphaned) && until > now + rest;
        let orphans = self.flows.iter().filter(|(_, (held, until))| is_told(held, *until));
        orphans.map(|(flow, _)| *flow).collect()
    }

    /// Notes the window of a connection that stands still.
    pub(crate) fn frozen(&mut self, flow: &Flow, read: [u32; 5]) {
        if let Some((Held::Frozen { window, .. }, _)) = self.flows.get_mut(flow) {
            *window = Some(read);
        }
        self.counts.frozen += 1;
    }

    /// Notes what was restored of an expected connection.
    pub(crate) fn restored(
        &mut self,
        flow: Flow,
        socket: OwnedFd,
        unsent: Vec<u8>,
        until: Instant,
    ) -> Result<(), Refusal> {
        let bytes = self.unsent_bytes + unsent.len() as u64;
        match self.flows.get(&flow) {
            Some((Held::Expected, _)) if bytes > UNSENT_BYTES_MAX => return Err(Refusal::BytesFull(UNSENT_BYTES_MAX)),
            Some((Held::Expected, _)) => {}
            _ => return Err(Refusal::HoldIsOver(flow)),
        }
        self.put(flow, Held::Restored { socket, unsent }, until);
        self.counts.restored += 1;
        Ok(())
    }

    /// Has a connection that has left be held; the one whose tombstone made room, if there was none.
    pub(crate) fn bury(&mut self, flow: Flow, until: Instant) -> Option<Flow> {
        let has_room = self.tombstones < TOMBSTONES_MAX;
        let oldest = if has_room { None } else { self.oldest_tombstone() };
        if let Some(oldest) = oldest {
            self.remove(&oldest);
        }
        self.put(flow, Held::Tombstone, until);
        oldest
    }

    /// Ends a hold of any kind.
    pub(crate) fn remove(&mut self, flow: &Flow) -> Option<Held> {
        let (held, _) = self.flows.remove(flow)?;
        match &held {
            Held::Tombstone => self.tombstones -= 1,
            Held::Restored { unsent, .. } => self.unsent_bytes -= unsent.len() as u64,
            Held::Expected | Held::Inherited | Held::Frozen { .. } | Held::Orphaned => {}
        }
        Some(held)
    }

    /// What is held of a connection.
    pub(crate) fn get(&self, flow: &Flow) -> Option<&Held> {
        self.flows.get(flow).map(|(held, _)| held)
    }

    /// Ends all holds whose time is over; of which connections.
    pub(crate) fn expire(&mut self, now: Instant) -> Vec<Flow> {
        let over = self.flows.iter().filter(|(_, (_, until))| *until <= now);
        let over: Vec<Flow> = over.map(|(flow, _)| *flow).collect();
        for flow in &over {
            if !matches!(self.remove(flow), Some(Held::Tombstone)) {
                self.counts.expired += 1;
            }
        }
        over
    }

    /// Whether nothing is held.
    pub(crate) fn is_empty(&self) -> bool {
        self.flows.is_empty()
    }

    /// What was counted, and what is held.
    pub(crate) fn counted(&self) -> KeeperCounts {
        let tombstones = self.tombstones as u64;
        KeeperCounts { holds: self.flows.len() as u64 - tombstones, tombstones, ..self.counts }
    }

    fn put(&mut self, flow: Flow, held: Held, until: Instant) {
        self.remove(&flow);
        match &held {
            Held::Tombstone => self.tombstones += 1,
            Held::Restored { unsent, .. } => self.unsent_bytes += unsent.len() as u64,
            Held::Expected | Held::Inherited | Held::Frozen { .. } | Held::Orphaned => {}
        }
        self.flows.insert(flow, (held, until));
    }

    fn oldest_tombstone(&self) -> Option<Flow> {
        let tombstones = self.flows.iter().filter(|(_, (held, _))| matches!(held, Held::Tombstone));
        tombstones.min_by_key(|(_, (_, until))| *until).map(|(flow, _)| *flow)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(port: u16) -> Flow {
        Flow {
            client: (std::net::Ipv4Addr::new(10, 0, 0, 2), port).into(),
            service: (std::net::Ipv4Addr::new(10, 0, 0, 80), 80).into(),
        }
    }

    fn descriptor() -> OwnedFd {
        std::fs::File::open("/dev/null").expect("it is everywhere").into()
    }

    #[test]
    fn holds_have_a_bound_and_end_by_themselves() {
        let (now, second) = (Instant::now(), Duration::from_secs(1));
        let mut held = HeldFlows::new(2, 0);
        held.begin(flow(1), Held::Expected, now + second).expect("room");
        held.begin(flow(2), Held::Frozen { socket: Arc::new(descriptor()), window: None }, now + 2 * second)
            .expect("room");
        assert_eq!(held.begin(flow(3), Held::Expected, now + second), Err(Refusal::HoldsFull(2)));
        assert_eq!(held.begin(flow(2), Held::Expected, now + second), Err(Refusal::Busy(flow(2))));
        // One that has not begun yet may be told again, and one that has left takes no room of the others.
        held.begin(flow(1), Held::Expected, now + second).expect("room");
        assert_eq!(held.bury(flow(4), now + second), None);
        assert_eq!((held.counted().holds, held.counted().tombstones), (2, 1));
        assert!(held.expire(now).is_empty());
        let mut over = held.expire(now + second);
        over.sort();
        assert_eq!(over, [flow(1), flow(4)]);
        assert_eq!((held.counted().holds, held.counted().tombstones, held.counted().expired), (1, 0, 1));
        assert_eq!(held.expire(now + 2 * second), [flow(2)]);
        assert!(held.is_empty() && held.counted().expired == 2);
    }

    #[test]
    fn what_is_held_can_be_held_for_longer_and_what_is_over_cannot() {
        let (now, second) = (Instant::now(), Duration::from_secs(1));
        let mut held = HeldFlows::new(3, 7);
        held.begin(flow(1), Held::Expected, now + second).expect("room");
        held.begin(flow(2), Held::Frozen { socket: Arc::new(descriptor()), window: None }, now + second).expect("room");
        held.begin(flow(3), Held::Expected, now + second).expect("room");
        held.restored(flow(3), descriptor(), vec![1], now + second).expect("expected");
        held.bury(flow(4), now + second);
        (1..=3).for_each(|port| held.renew(&flow(port), now + 3 * second).expect("it is held"));
        assert_eq!(held.renew(&flow(4), now + 3 * second), Err(Refusal::HoldIsOver(flow(4))), "it has left");
        held.renew(&flow(1), now).expect("it is held");
        assert_eq!(held.expire(now + 2 * second), [flow(4)], "and none ends earlier by that");
        assert_eq!(held.expire(now + 3 * second).len(), 3);
        assert_eq!(held.renew(&flow(2), now + 9 * second), Err(Refusal::HoldIsOver(flow(2))));
    }

    #[test]
    fn what_was_held_before_goes_on_and_gives_way_to_what_is_asked_anew() {
        let (now, second) = (Instant::now(), Duration::from_secs(1));
        let mut held = HeldFlows::new(3, 0);
        (1..=3).for_each(|port| held.inherit(flow(port), now + second));
        held.renew(&flow(1), now + 3 * second).expect("it is held");
        held.begin(flow(2), Held::Expected, now + second).expect("it has its place");
        held.restored(flow(2), descriptor(), Vec::new(), now + second).expect("expected");
        assert_eq!(held.begin(flow(4), Held::Expected, now + second), Err(Refusal::HoldsFull(3)));
        assert_eq!(held.restored(flow(3), descriptor(), Vec::new(), now), Err(Refusal::HoldIsOver(flow(3))));
        assert_eq!(held.expire(now + second).len(), 2);
        assert!(matches!(held.get(&flow(1)), Some(Held::Inherited)));
    }

    #[test]
    fn only_what_is_expected_can_be_restored() {
        let later = Instant::now() + Duration::from_secs(1);
        let mut held = HeldFlows::new(2, 0);
        assert_eq!(held.restored(flow(1), descriptor(), vec![1], later), Err(Refusal::HoldIsOver(flow(1))));
        held.begin(flow(1), Held::Expected, later).expect("room");
        held.restored(flow(1), descriptor(), vec![1, 2], later).expect("expected");
        assert_eq!(held.unsent_bytes, 2);
        assert!(matches!(held.remove(&flow(1)), Some(Held::Restored { unsent, .. }) if unsent == [1, 2]));
        assert_eq!(held.unsent_bytes, 0);
    }

    #[test]
    fn the_oldest_tombstone_makes_room() {
        let now = Instant::now();
        let mut held = HeldFlows::new(2, 0);
        for port in 0..TOMBSTONES_MAX as u16 {
            assert_eq!(held.bury(flow(port), now + Duration::from_millis(u64::from(port) + 1)), None);
        }
        assert_eq!(held.bury(flow(60_000), now), Some(flow(0)));
        assert_eq!(held.counted().tombstones, TOMBSTONES_MAX as u64);
    }

    #[test]
    fn an_older_epoch_is_refused() {
        let mut held = HeldFlows::new(2, 5);
        assert_eq!(held.check_epoch(4), Err(Refusal::OldEpoch { asked: 4, newest: 5 }));
        assert_eq!((held.check_epoch(5), held.check_epoch(9), held.check_epoch(9)), (Ok(false), Ok(true), Ok(false)));
        assert_eq!(held.check_epoch(8), Err(Refusal::OldEpoch { asked: 8, newest: 9 }));
    }
}
