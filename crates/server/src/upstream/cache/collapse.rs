//! One request to the upstream for many of the clients (RFC 9111 section 4: "collapsed requests").
//!
//! The first request for a response leads; others for the same one wait, each on its own loop. The leader's response
//! answers them all if it may; else all go on by themselves at once, not one after the other. If the leader is
//! cancelled, the one that has waited longest takes its place.

use super::stored::Stored;
use crate::exchange::application::Wake;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Requests that wait for one response; more go on by themselves.
pub(crate) const WAITERS_MAX: usize = 4096;

/// By what right a response answers those that waited for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Right {
    /// It has just come.
    New,
    /// It is stale, and the upstream fails.
    OnError,
}

/// How it stands with a request that others wait for.
#[derive(Debug, Clone)]
pub(crate) enum Outcome {
    Pending,
    /// Its leader was cancelled.
    Vacant,
    Answered(Arc<Stored>, Right),
    /// Each goes on by itself.
    Alone,
}

#[derive(Debug)]
struct State {
    outcome: Outcome,
    /// In the order in which they came.
    waiters: Vec<(u64, Wake)>,
    next: u64,
}

#[derive(Debug)]
struct Flight {
    hash: u64,
    state: Mutex<State>,
}

impl Flight {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The requests that are under way, by a hash of what they ask for. Two that share a hash by chance wait in vain: those
/// that wait compare the key before they take the response.
#[derive(Debug, Clone, Default)]
pub(crate) struct Flights(Arc<Mutex<HashMap<u64, Arc<Flight>, foldhash::fast::RandomState>>>);

/// What a request does that finds nothing stored.
#[derive(Debug)]
pub(crate) enum Boarding {
    Lead(Leader),
    Wait(Waiter),
    Alone,
}

impl Flights {
    fn table(&self) -> MutexGuard<'_, HashMap<u64, Arc<Flight>, foldhash::fast::RandomState>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Leads if no other request does.
    pub(crate) fn lead(&self, hash: u64) -> Option<Leader> {
        match self.table().entry(hash) {
            Entry::Occupied(_) => None,
            Entry::Vacant(place) => {
                let state = State { outcome: Outcome::Pending, waiters: Vec::new(), next: 0 };
                let flight = Arc::new(Flight { hash, state: Mutex::new(state) });
                place.insert(Arc::clone(&flight));
                Some(Leader { flights: self.clone(), flight, is: Leading::On })
            }
        }
    }

    /// Leads, or waits for the one that does.
    pub(crate) fn board(&self, hash: u64, wake: &Wake) -> Boarding {
        if let Some(leader) = self.lead(hash) {
            return Boarding::Lead(leader);
        }
        // The lock of the table is held while that of a flight is taken, never the other way round.
        let table = self.table();
        let Some(flight) = table.get(&hash) else { return Boarding::Alone };
        let mut state = flight.state();
        if matches!(state.outcome, Outcome::Vacant) {
            state.outcome = Outcome::Pending;
            return Boarding::Lead(Leader { flights: self.clone(), flight: Arc::clone(flight), is: Leading::On });
        }
        if state.waiters.len() >= WAITERS_MAX {
            return Boarding::Alone;
        }
        let number = state.next;
        state.next += 1;
        state.waiters.push((number, wake.clone()));
        Boarding::Wait(Waiter { flights: self.clone(), flight: Arc::clone(flight), number })
    }

    /// Leaves a flight without a leader to the next that waits; without one it is over. One that waited and goes calls
    /// this as well (`Calls::Waiter`): it may be the one that was to take over, but another may have been faster.
    fn pass_on(&self, flight: &Arc<Flight>, calls: Calls) {
        let mut table = self.table();
        let mut state = flight.state();
        if calls == Calls::Waiter && !matches!(state.outcome, Outcome::Vacant) {
            return;
        }
        if let Some((_, wake)) = state.waiters.first() {
            let wake = wake.clone();
            state.outcome = Outcome::Vacant;
            drop(state);
            drop(table);
            wake.wake();
        } else {
            state.outcome = Outcome::Alone;
            Self::take_off(&mut table, flight);
        }
    }

    /// Lets no more requests wait for the one that leads: what it brings was asked for before something changed.
    pub(crate) fn close(&self, hash: u64) {
        let closed = self.table().remove(&hash);
        drop(closed);
    }

    fn take_off(table: &mut HashMap<u64, Arc<Flight>, foldhash::fast::RandomState>, flight: &Arc<Flight>) {
        if table.get(&flight.hash).is_some_and(|own| Arc::ptr_eq(own, flight)) {
            table.remove(&flight.hash);
        }
    }

    /// Requests that lead.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.table().len()
    }
}

/// Which side leaves a flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Calls {
    Leader,
    Waiter,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Leading {
    On,
    Over,
}

/// The request that others wait for. If it is dropped before it is finished, one of them takes over.
#[derive(Debug)]
pub(crate) struct Leader {
    flights: Flights,
    flight: Arc<Flight>,
    is: Leading,
}

impl Leader {
    /// Tells all that wait. Requests that come from now on do not wait for this one.
    pub(crate) fn finish(mut self, outcome: Outcome) {
        self.is = Leading::Over;
        let mut table = self.flights.table();
        Flights::take_off(&mut table, &self.flight);
        let mut state = self.flight.state();
        drop(table);
        state.outcome = outcome;
        let waiters = std::mem::take(&mut state.waiters);
        drop(state);
        for (_, wake) in waiters {
            wake.wake();
        }
    }
}

impl Drop for Leader {
    fn drop(&mut self) {
        if self.is == Leading::On {
            self.flights.pass_on(&self.flight, Calls::Leader);
        }
    }
}

/// A request that waits.
#[derive(Debug)]
pub(crate) struct Waiter {
    flights: Flights,
    flight: Arc<Flight>,
    number: u64,
}

/// What has become of the wait.
#[derive(Debug)]
pub(crate) enum Waited {
    NotYet,
    /// The leader is gone: this one leads now.
    Lead(Leader),
    Answered(Arc<Stored>, Right),
    Alone,
}

impl Waiter {
    /// Looks how it stands; after anything but [`Waited::NotYet`] there is nothing to wait for.
    pub(crate) fn look(&self) -> Waited {
        let mut state = self.flight.state();
        match &state.outcome {
            Outcome::Pending => Waited::NotYet,
            Outcome::Answered(stored, right) => Waited::Answered(Arc::clone(stored), *right),
            Outcome::Alone => Waited::Alone,
            Outcome::Vacant => {
                state.outcome = Outcome::Pending;
                state.waiters.retain(|(number, _)| *number != self.number);
                Waited::Lead(Leader {
                    flights: self.flights.clone(),
                    flight: Arc::clone(&self.flight),
                    is: Leading::On,
                })
            }
        }
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        let mut state = self.flight.state();
        state.waiters.retain(|(number, _)| *number != self.number);
        let is_vacant = matches!(state.outcome, Outcome::Vacant);
        drop(state);
        if is_vacant {
            self.flights.pass_on(&self.flight, Calls::Waiter);
        }
    }
}
