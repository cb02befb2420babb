//! Which of a host's addresses connections go to: those of one version of IP in turn.

use crate::connect::endpoint::Endpoint;

/// The addresses of a host that a loop connects to.
#[derive(Debug)]
pub(crate) struct Spread {
    /// Places among the route's endpoints, all of one version of IP; one at least.
    in_use: Vec<usize>,
    /// Those of the other version, which are tried where none of the first can be reached.
    in_reserve: Vec<usize>,
    next: usize,
}

impl Spread {
    /// All endpoints that are of the first one's kind; each loop begins with another one.
    pub(crate) fn new(endpoints: &[Endpoint], lane: u32) -> Self {
        let kind = |endpoint: &Endpoint| endpoint.address().map(|address| address.is_ipv4());
        let first = endpoints.first().and_then(kind);
        let (in_use, in_reserve) = (0..endpoints.len()).partition(|place| kind(&endpoints[*place]) == first);
        Self { in_use, in_reserve, next: lane as usize }
    }

    /// Whether there is none.
    pub(crate) fn is_empty(&self) -> bool {
        self.in_use.is_empty()
    }

    /// Where the next connection goes.
    pub(crate) fn next(&mut self) -> usize {
        let place = self.in_use[self.next % self.in_use.len()];
        self.next = self.next.wrapping_add(1);
        place
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

    fn endpoints(addresses: &[&str]) -> Vec<Endpoint> {
        let parsed = addresses.iter().map(|address| address.parse::<std::net::SocketAddr>().expect("an address"));
        parsed.map(Endpoint::from).collect()
    }

    #[test]
    fn connections_go_to_the_addresses_in_turn() {
        let endpoints = endpoints(&["127.0.0.1:1", "[::1]:1", "127.0.0.2:1"]);
        let mut spread = Spread::new(&endpoints, 0);
        assert_eq!([0; 4].map(|_| spread.next()), [0, 2, 0, 2]);
        assert_eq!(Spread::new(&endpoints, 1).next(), 2, "each loop begins with another one");
        assert!(spread.leave_out(0) && spread.leave_out(0));
        assert_eq!([0; 2].map(|_| spread.next()), [2, 2]);
        // The other version of IP comes last, and then there is none left.
        assert!(spread.leave_out(2));
        assert_eq!(spread.next(), 1);
        assert!(!spread.leave_out(1));
        assert_eq!(spread.next(), 1);
    }
}
