//! How long users wait for requests, where many of them are under way on a connection.

use crate::schedule::scheduler::NEVER;
use crate::sessions::session::Think;
use crate::slow::alarms::Alarms;
use crate::slow::client::SlowClient;

/// How soon those that have no stream are looked at again: they are looked at all together.
const LOOK_NS: u64 = 1_000_000;

/// The patience of the users of a loop.
#[derive(Debug)]
pub(crate) struct Patience {
    think: Think,
    random: fastrand::Rng,
    /// When users click stop whose requests are under way, by slot and place. That of a request that is over stays until it
    /// comes, or until another request has the place.
    alarms: Alarms,
    places: usize,
    /// When the first of those that have no stream does, if not earlier.
    held_ns: u64,
}

impl Patience {
    /// That of loop `lane`, with so many places in each of so many slots; `None` where users wait as long as it takes.
    pub(crate) fn new(options: &SlowClient, slots: usize, places: usize, lane: u32) -> Option<Box<Self>> {
        Some(Box::new(Self {
            think: options.patience?,
            random: fastrand::Rng::with_seed(options.seed.wrapping_add(u64::from(lane) << 32)),
            alarms: Alarms::new(slots * places),
            places,
            held_ns: NEVER,
        }))
    }

    /// How long the next user waits.
    pub(crate) fn draw_ns(&mut self) -> u64 {
        self.think.draw_ns(&mut self.random)
    }

    /// The user of the request in a place clicks stop at this time.
    pub(crate) fn set(&mut self, slot: usize, place: u32, at_ns: u64) {
        self.alarms.set(slot * self.places + place as usize, at_ns);
    }

    /// A request that has no stream is given up at this time.
    pub(crate) fn hold(&mut self, at_ns: u64) {
        self.held_ns = self.held_ns.min(at_ns);
    }

    /// When the first user is to be looked at.
    pub(crate) fn next_ns(&self) -> u64 {
        self.alarms.first().map_or(NEVER, |(_, at_ns)| at_ns).min(self.held_ns)
    }

    /// Takes a slot and a place whose time has come.
    pub(crate) fn take_due(&mut self, now_ns: u64) -> Option<(usize, u32)> {
        let (alarm, at_ns) = self.alarms.first()?;
        if at_ns > now_ns {
            return None;
        }
        self.alarms.set(alarm, NEVER);
        Some((alarm / self.places, (alarm % self.places) as u32))
    }

    /// Whether those that have no stream are to be looked at.
    pub(crate) fn holds_due(&self, now_ns: u64) -> bool {
        self.held_ns <= now_ns
    }

    /// They were looked at: the first of those that are left is given up at this time.
    pub(crate) fn looked(&mut self, first_ns: u64, now_ns: u64) {
        self.held_ns = first_ns.max(now_ns + LOOK_NS);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn users_of_all_places_have_their_time() {
        let patience = Some(Think::Fixed(Duration::from_micros(5)));
        let options = SlowClient { patience, ..SlowClient::default() };
        let mut patience = Patience::new(&options, 3, 4, 0).expect("it is limited");
        assert_eq!((patience.draw_ns(), patience.next_ns(), patience.take_due(NEVER - 1)), (5000, NEVER, None));
        patience.set(2, 3, 70);
        patience.set(1, 0, 50);
        patience.set(2, 3, 60);
        patience.hold(40);
        assert_eq!(patience.next_ns(), 40);
        assert!(patience.holds_due(40) && !patience.holds_due(39));
        patience.looked(NEVER, 40);
        assert_eq!((patience.take_due(49), patience.take_due(50)), (None, Some((1, 0))));
        assert_eq!((patience.take_due(60), patience.take_due(70), patience.next_ns()), (Some((2, 3)), None, NEVER));
        patience.hold(100);
        patience.looked(100, 90);
        assert_eq!(patience.next_ns(), 90 + LOOK_NS);
        assert!(Patience::new(&SlowClient::default(), 1, 1, 0).is_none());
    }
}
