//! What each client got: how evenly a server treats those that ask it.

use crate::carried::carried;

/// What the least and the most favoured client got.
///
/// A client is the place of a connection in a closed loop: when its connection is done with, the next one takes its place.
/// Where the connections come from several source addresses, a client is such an address.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Fairness {
    /// Clients that opened a connection, or tried to.
    pub clients: u64,
    /// Bytes that came over the connections of the client that got the fewest; encrypted ones as they came.
    pub least_bytes: u64,
    /// The same of the client that got the most.
    pub most_bytes: u64,
    /// Whole responses for the client that got the fewest.
    pub least_requests: u64,
    /// The same of the client that got the most.
    pub most_requests: u64,
    /// Jain's index of the bytes: 1 when all got the same, 1/n when one of n got all.
    pub jain_bytes: f64,
    /// The same of the responses.
    pub jain_requests: f64,
}

/// The clients of a loop. They are told of a connection when it is opened and closed only, so that no request costs
/// more for them.
#[derive(Debug, Default)]
pub(crate) struct Clients {
    /// Clients are so many source addresses; 0 where they are places.
    sources: u64,
    /// Places without a connection, the one that was left last at the end.
    free: Vec<u32>,
    served: Vec<Served>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Served {
    came: bool,
    bytes: u64,
    requests: u64,
}

impl Clients {
    /// Those of a loop: its source addresses where there are several, else so many places; none where the generator
    /// rather than the server decides which connection asks.
    pub(crate) fn new(sources: usize, places: Option<u32>) -> Self {
        match places {
            _ if sources > 1 => {
                Self { sources: sources as u64, free: Vec::new(), served: vec![Served::default(); sources] }
            }
            Some(places) => {
                Self { sources: 0, free: (0..places).rev().collect(), served: vec![Served::default(); places as usize] }
            }
            None => Self::default(),
        }
    }

    /// A connection is opened; `number` says which source address is its own. Gives its client.
    pub(crate) fn enter(&mut self, number: u64) -> u32 {
        let client = match self.sources {
            0 => self.free.pop().unwrap_or(u32::MAX),
            sources => (number % sources) as u32,
        };
        if let Some(served) = self.served.get_mut(client as usize) {
            served.came = true;
        }
        client
    }

    /// A connection will carry no further request: its place is free for the next.
    pub(crate) fn leave(&mut self, client: u32) {
        if self.sources == 0 && (client as usize) < self.served.len() {
            self.free.push(client);
        }
    }

    /// What a client got over a connection that is closed.
    pub(crate) fn add(&mut self, client: u32, bytes: u64, requests: u64) {
        if let Some(served) = self.served.get_mut(client as usize) {
            served.bytes += bytes;
            served.requests += requests;
        }
    }

    /// Adds another loop's: it has places of its own, and the same source addresses.
    pub(crate) fn merge(&mut self, other: &Self) {
        if other.sources == 0 || self.served.is_empty() {
            self.sources = other.sources;
            self.served.extend_from_slice(&other.served);
            return;
        }
        for (ours, theirs) in self.served.iter_mut().zip(&other.served) {
            ours.came |= theirs.came;
            ours.bytes += theirs.bytes;
            ours.requests += theirs.requests;
        }
    }

    /// What they come to; `None` without any.
    pub(crate) fn fairness(&self) -> Option<Fairness> {
        let served: Vec<Served> = self.served.iter().copied().filter(|served| served.came).collect();
        let (bytes, requests) = (|served: &Served| served.bytes, |served: &Served| served.requests);
        Some(Fairness {
            clients: served.len() as u64,
            least_bytes: served.iter().map(bytes).min()?,
            most_bytes: served.iter().map(bytes).max()?,
            least_requests: served.iter().map(requests).min()?,
            most_requests: served.iter().map(requests).max()?,
            jain_bytes: jain(served.iter().map(bytes)),
            jain_requests: jain(served.iter().map(requests)),
        })
    }
}

/// Jain's index of fairness (Jain, Chiu and Hawe 1984): the square of the sum by n times the sum of the squares; 1 if
/// no client got anything.
fn jain(amounts: impl Iterator<Item = u64>) -> f64 {
    let (count, sum, squares) = amounts.fold((0.0, 0.0, 0.0), |(count, sum, squares), amount| {
        let amount = amount as f64;
        (count + 1.0, sum + amount, squares + amount * amount)
    });
    if squares == 0.0 { 1.0 } else { sum * sum / (count * squares) }
}

carried!(Clients { sources, free, served });
carried!(Served { came, bytes, requests });

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jains_index_is_one_for_all_alike_and_its_share_for_one_alone() {
        assert_eq!(jain([3, 3, 3].into_iter()), 1.0);
        assert_eq!(jain([5, 0, 0, 0].into_iter()), 0.25);
        assert_eq!(jain([0, 0].into_iter()), 1.0);
        assert!((jain([1, 3].into_iter()) - 0.8).abs() < 1e-12);
    }

    #[test]
    fn a_connection_that_follows_takes_the_place_of_the_one_that_is_gone() {
        let mut clients = Clients::new(0, Some(3));
        let (one, other) = (clients.enter(1), clients.enter(2));
        clients.leave(one);
        clients.add(one, 100, 1);
        assert_eq!(clients.enter(3), one);
        clients.add(one, 100, 1);
        clients.add(other, 500, 2);
        let found = clients.fairness().expect("two came");
        assert_eq!((found.clients, found.least_bytes, found.most_bytes), (2, 200, 500));
        assert_eq!((found.least_requests, found.most_requests, found.jain_requests), (2, 2, 1.0));
        let mut all = Clients::default();
        all.merge(&clients);
        all.merge(&clients);
        assert_eq!(all.fairness().map(|found| (found.clients, found.most_bytes)), Some((4, 500)));
    }

    #[test]
    fn source_addresses_are_clients_of_all_loops_together() {
        let loops = [10, 20].map(|bytes| {
            let mut clients = Clients::new(2, Some(4));
            (0..4).for_each(|number| {
                let client = clients.enter(number);
                clients.add(client, bytes * (1 + number % 2), 1);
                clients.leave(client);
            });
            clients
        });
        let mut all = Clients::default();
        loops.iter().for_each(|clients| all.merge(clients));
        let found = all.fairness().expect("two addresses");
        assert_eq!((found.clients, found.least_bytes, found.most_bytes, found.least_requests), (2, 60, 120, 4));
        let mut unknown = Clients::new(0, None);
        let client = unknown.enter(1);
        unknown.add(client, 5, 5);
        unknown.leave(client);
        assert_eq!(unknown.fairness(), None);
    }
}
