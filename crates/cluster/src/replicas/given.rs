//! The replicas of a node's own sessions: it gives all of them again where another node keeps them from then on.

use super::replica::Replica;
use std::collections::HashMap;
use std::time::{Duration, Instant};
use weir_keeper::Flow;

/// Replicas that are held; those beyond are given once only.
const REPLICAS_MAX: usize = 1 << 16;
/// Bytes of all of them.
const BYTES_MAX: usize = 256 << 20;
/// The replica of a session that has gone on here and that nothing is heard of is held for so long.
const ADOPTED_MAX: Duration = Duration::from_secs(60);

/// What a node has given to another one.
#[derive(Debug, Default)]
pub struct GivenReplicas {
    held: HashMap<Flow, Held>,
    /// Of sessions that have gone on here, and that no node has yet.
    adopted: Vec<Replica>,
    /// Those that are over.
    over: Vec<Flow>,
    bytes: usize,
}

#[derive(Debug)]
struct Held {
    replica: Replica,
    made: Instant,
    is_adopted: bool,
}

impl GivenReplicas {
    /// Holds what the server has copied; how many of them there is no room for.
    pub fn hold(&mut self, replicas: &[Replica]) -> u64 {
        replicas.iter().map(|replica| u64::from(!self.put(replica.clone(), false))).sum()
    }

    /// Holds the replica of a session that has gone on here: should this node die before its server copies the session, or
    /// as soon as the server has written all of it, another one goes on once more.
    pub fn adopt(&mut self, replica: Replica) {
        if self.put(replica.clone(), true) {
            self.adopted.push(replica);
        }
    }

    /// Those of [`GivenReplicas::adopt`] that were not taken yet.
    pub fn take_adopted(&mut self) -> Vec<Replica> {
        std::mem::take(&mut self.adopted)
    }

    /// Forgets sessions whose response is over.
    pub fn forget(&mut self, ended: &[Flow]) {
        ended.iter().for_each(|flow| self.remove(flow));
    }

    /// Whether a session that went on here was not copied by the server since, and is held.
    pub fn is_adopted(&self, flow: &Flow) -> bool {
        self.held.get(flow).is_some_and(|held| held.is_adopted)
    }

    /// A session that went on here is over, unless the server has copied it since: then that tells of its end.
    pub fn end_adopted(&mut self, flow: &Flow) {
        if self.is_adopted(flow) {
            self.remove(flow);
            self.over.push(*flow);
        }
    }

    /// The sessions of [`GivenReplicas::adopt`] that are over, and those that went on here long ago and were not copied.
    pub fn take_over_and_old(&mut self) -> Vec<Flow> {
        let is_old = |held: &Held| held.is_adopted && held.made.elapsed() >= ADOPTED_MAX;
        let old: Vec<Flow> = self.held.iter().filter(|(_, held)| is_old(held)).map(|(flow, _)| *flow).collect();
        self.forget(&old);
        [std::mem::take(&mut self.over), old].concat()
    }

    /// Whether none is held.
    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// Whether this very replica is held.
    pub fn holds(&self, replica: &Replica) -> bool {
        self.held.get(&replica.flow).is_some_and(|held| held.replica.id == replica.id)
    }

    /// All that are held, as if they were made now.
    pub fn all(&self) -> Vec<Replica> {
        self.held.values().map(|held| held.replica.made_before(held.made.elapsed())).collect()
    }

    fn put(&mut self, replica: Replica, is_adopted: bool) -> bool {
        self.remove(&replica.flow);
        let bytes = replica.encoded_bytes();
        let has_room = self.held.len() < REPLICAS_MAX && self.bytes + bytes <= BYTES_MAX;
        if has_room {
            self.bytes += bytes;
            self.held.insert(replica.flow, Held { replica, made: Instant::now(), is_adopted });
        }
        has_room
    }

    fn remove(&mut self, flow: &Flow) {
        if let Some(held) = self.held.remove(flow) {
            self.bytes -= held.replica.encoded_bytes();
        }
        self.adopted.retain(|replica| replica.flow != *flow);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::MoveId;
    use crate::replicas::{Position, SocketOptions};
    use zeroize::Zeroizing;

    fn flow(port: u16) -> Flow {
        Flow { client: ([10, 0, 0, 2], port).into(), service: ([10, 0, 0, 80], 80).into() }
    }

    fn replica(port: u16, number: u64, bytes: usize) -> Replica {
        Replica {
            id: MoveId { giver: 1, number },
            flow: flow(port),
            position: Position { birth: None, written: 1, acknowledged: 1, received: 1, offset: 1, response_bytes: 9 },
            options: SocketOptions {
                options: 0,
                send_scale: 7,
                receive_scale: 7,
                mss: 1_448,
                timestamp: 1_000,
                round_trip_us: 1,
            },
            session: Zeroizing::new(vec![0; bytes]),
        }
    }

    #[test]
    fn the_next_keeper_gets_all_that_is_not_over_with_a_clock_that_has_gone_on() {
        let mut given = GivenReplicas::default();
        assert_eq!(given.hold(&[replica(1, 1, 10), replica(2, 2, 10), replica(1, 3, 10)]), 0);
        std::thread::sleep(Duration::from_millis(4));
        given.forget(&[flow(2)]);
        let all = given.all();
        assert_eq!(all.iter().map(|it| (it.flow, it.id.number)).collect::<Vec<_>>(), [(flow(1), 3)]);
        assert!(all[0].options.timestamp >= 1_004, "{}", all[0].options.timestamp);
        assert!(
            given.holds(&replica(1, 3, 10)) && !given.holds(&replica(1, 1, 10)) && !given.holds(&replica(2, 2, 10))
        );
    }

    #[test]
    fn what_went_on_here_is_given_until_it_is_over_or_the_server_has_copied_it() {
        let mut given = GivenReplicas::default();
        for port in [1, 2, 3] {
            given.adopt(replica(port, u64::from(port), 10));
        }
        // It ended before it was given.
        given.end_adopted(&flow(3));
        let adopted = given.take_adopted();
        assert_eq!(adopted.iter().map(|it| it.flow).collect::<Vec<_>>(), [flow(1), flow(2)]);
        assert!(given.take_adopted().is_empty());
        given.hold(&[replica(1, 4, 10)]);
        assert!(!given.is_adopted(&flow(1)) && given.is_adopted(&flow(2)));
        given.end_adopted(&flow(1));
        given.end_adopted(&flow(2));
        assert!(given.holds(&replica(1, 4, 10)), "the server tells of its end");
        assert_eq!(given.take_over_and_old(), [flow(3), flow(2)]);
        assert!(given.take_over_and_old().is_empty() && given.all().len() == 1);
    }

    #[test]
    fn replicas_beyond_the_bound_are_not_held_and_counted() {
        let mut given = GivenReplicas::default();
        let all: Vec<Replica> = (0..=u16::MAX).map(|port| replica(port, u64::from(port), 0)).collect();
        let service = ([10, 0, 0, 80], 443).into();
        let beyond = Replica { flow: Flow { service, ..flow(1) }, ..replica(1, 7, 0) };
        assert_eq!(given.hold(&all), 0);
        assert_eq!(given.hold(&[beyond.clone(), replica(2, 8, 0)]), 1);
        assert!(!given.holds(&beyond) && given.holds(&replica(2, 8, 0)));
        given.forget(&[flow(1)]);
        assert_eq!(given.hold(&[beyond]), 0);
    }
}
