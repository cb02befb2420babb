//! Where the connections to a host go: what its name resolved to when the run began, and what it resolves to later.

use crate::connect::endpoint::Endpoint;
use std::net::SocketAddr;
use std::ops::Index;
use std::sync::OnceLock;

/// The endpoints of a host, each with a place that it keeps.
#[derive(Debug)]
pub(crate) struct Endpoints {
    first: Vec<Endpoint>,
    /// Those that are found later: filled from the begin on.
    later: Box<[OnceLock<Endpoint>]>,
}

impl Endpoints {
    /// Those that are known, with room for so many that are found later.
    pub(crate) fn new(first: Vec<Endpoint>, room: usize) -> Self {
        Self { first, later: std::iter::repeat_with(OnceLock::new).take(room).collect() }
    }

    /// How many there may be.
    pub(crate) fn most(&self) -> usize {
        self.first.len() + self.later.len()
    }

    /// Those that were known from the begin.
    pub(crate) fn first(&self) -> &[Endpoint] {
        &self.first
    }

    /// Those that are known by now.
    fn known(&self) -> impl Iterator<Item = &Endpoint> {
        self.first.iter().chain(self.later.iter().map_while(OnceLock::get))
    }

    /// The place of an address, which it is given now if it has none; `None` where there is no room for it. One thread at a
    /// time gives places.
    pub(crate) fn place_of(&self, address: SocketAddr) -> Option<usize> {
        if let Some(place) = self.known().position(|endpoint| endpoint.address() == Some(address)) {
            return Some(place);
        }
        let free = self.later.iter().position(|endpoint| endpoint.get().is_none())?;
        self.later[free].set(Endpoint::from(address)).ok()?;
        Some(self.first.len() + free)
    }
}

impl Index<usize> for Endpoints {
    type Output = Endpoint;

    /// # Panics
    /// Where the place was not given: places come from here only.
    #[inline]
    fn index(&self, place: usize) -> &Endpoint {
        match place.checked_sub(self.first.len()) {
            None => &self.first[place],
            Some(later) => self.later[later].get().expect("a place that was given"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_keep_their_places() {
        let address = |text: &str| text.parse::<SocketAddr>().expect("an address");
        let endpoints = Endpoints::new(vec![address("127.0.0.1:1").into()], 2);
        assert_eq!(endpoints.place_of(address("127.0.0.2:1")), Some(1));
        assert_eq!(endpoints.place_of(address("127.0.0.1:1")), Some(0));
        assert_eq!(endpoints.place_of(address("[::1]:1")), Some(2));
        assert_eq!(endpoints.place_of(address("127.0.0.2:1")), Some(1));
        assert_eq!(endpoints.place_of(address("127.0.0.3:1")), None, "no room");
        assert_eq!((endpoints[1].address(), endpoints.most()), (Some(address("127.0.0.2:1")), 3));
    }
}
