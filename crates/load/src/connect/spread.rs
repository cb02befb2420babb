//! Which of a host's addresses connections go to: those of one version of IP in turn, or another choice of them.

use crate::connect::endpoint::Endpoint;
use crate::connect::endpoints::Endpoints;
use crate::reach::resolve::Select;

/// The addresses of a host that a loop connects to.
#[derive(Debug)]
pub(crate) struct Spread {
    /// Places among the route's endpoints, all of one version of IP; one at least.
    in_use: Vec<usize>,
    /// Those of the other version, which are tried where none of the first can be reached.
    in_reserve: Vec<usize>,
    next: usize,
    select: Select,
    random: fastrand::Rng,
    /// The number of the answer that they are of, where their name is resolved again.
    pub(crate) answer: u64,
}

impl Spread {
    /// None as yet.
    pub(crate) fn none(select: Select, lane: u32) -> Self {
        let (in_use, in_reserve, random) = (Vec::new(), Vec::new(), fastrand::Rng::with_seed(lane.into()));
        Self { in_use, in_reserve, next: lane as usize, select, random, answer: 0 }
    }

    /// All endpoints that are known from the begin and of the first one's kind; each loop begins with another one.
    pub(crate) fn new(endpoints: &Endpoints, select: Select, lane: u32) -> Self {
        let mut own = Self::none(select, lane);
        own.take(endpoints, (0..endpoints.first().len()).collect(), 0);
        own
    }

    /// Those of an answer take the place of those before.
    pub(crate) fn take(&mut self, endpoints: &Endpoints, places: Vec<usize>, answer: u64) {
        let kind = |endpoint: &Endpoint| endpoint.address().map(|address| address.is_ipv4());
        let first = places.first().and_then(|place| kind(&endpoints[*place]));
        (self.in_use, self.in_reserve) = places.into_iter().partition(|place| kind(&endpoints[*place]) == first);
        self.answer = answer;
    }

    /// Whether there is none.
    pub(crate) fn is_empty(&self) -> bool {
        self.in_use.is_empty()
    }

    /// Where the next connection goes.
    pub(crate) fn next(&mut self) -> usize {
        let place = match self.select {
            Select::InTurn => self.next % self.in_use.len(),
            Select::Random => self.random.usize(..self.in_use.len()),
            Select::First => 0,
        };
        self.next = self.next.wrapping_add(1);
        self.in_use[place]
    }

    /// Leaves out an address that cannot be reached; tells whether another is left, without which it stays in use.
    pub(crate) fn leave_out(&mut self, place: usize) -> bool {
        if !self.in_use.contains(&place) {
            // Another connection was faster to find that out.
            return true;
        }
        if self.in_use.len() > 1 {
            self.in_use.retain(|other| *other != place);
            return true;
        }
        if self.in_reserve.is_empty() {
            return false;
        }
        self.in_use = std::mem::take(&mut self.in_reserve);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoints(addresses: &[&str]) -> Endpoints {
        let parsed = addresses.iter().map(|address| address.parse::<std::net::SocketAddr>().expect("an address"));
        Endpoints::new(parsed.map(Endpoint::from).collect(), 4)
    }

    #[test]
    fn connections_go_to_the_addresses_in_turn() {
        let endpoints = endpoints(&["127.0.0.1:1", "[::1]:1", "127.0.0.2:1"]);
        let mut spread = Spread::new(&endpoints, Select::InTurn, 0);
        assert_eq!([0; 4].map(|_| spread.next()), [0, 2, 0, 2]);
        assert_eq!(Spread::new(&endpoints, Select::InTurn, 1).next(), 2, "each loop begins with another one");
        assert!(spread.leave_out(0) && spread.leave_out(0));
        assert_eq!([0; 2].map(|_| spread.next()), [2, 2]);
        // The other version of IP comes last, and then there is none left.
        assert!(spread.leave_out(2));
        assert_eq!(spread.next(), 1);
        assert!(!spread.leave_out(1));
        assert_eq!(spread.next(), 1);
        // Another answer has other addresses.
        let later = endpoints.place_of("127.0.0.9:1".parse().expect("an address")).expect("room");
        spread.take(&endpoints, vec![later, 0], 7);
        assert_eq!(([0; 3].map(|_| spread.next()).contains(&later), spread.answer), (true, 7));
    }

    #[test]
    fn addresses_are_chosen_as_was_asked_for() {
        let endpoints = endpoints(&["127.0.0.1:1", "127.0.0.2:1", "127.0.0.3:1"]);
        let mut first = Spread::new(&endpoints, Select::First, 1);
        assert_eq!([0; 3].map(|_| first.next()), [0, 0, 0]);
        assert!(first.leave_out(0));
        assert_eq!(first.next(), 1);
        let mut random = Spread::new(&endpoints, Select::Random, 1);
        let mut counts = [0; 3];
        (0..3000).for_each(|_| counts[random.next()] += 1);
        // Five standard errors of 1000 are 130.
        assert!(counts.iter().all(|count| (870..1130).contains(count)), "{counts:?}");
    }
}
