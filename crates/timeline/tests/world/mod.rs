//! A simulated world: CPUs, server tasks, connections and a client, which emits the records that the real probes and
//! the load generator would, and knows the truth of each request.
//!
//! Everything follows from one seed. Times are nanoseconds from an arbitrary start.

// Each test program uses its own half of this module.
#![allow(dead_code, unreachable_pub, unused_imports)]

pub mod client;
pub mod engine;
pub mod network;
pub mod plan;
pub mod server;
pub mod truth;

pub use plan::{Model, Plan};
pub use truth::Truth;

use engine::World;
use std::sync::Arc;
use weir_timeline::{AtServer, Bounds, Joiner, Response, Statistics, Step, Unjoinable};
use weir_wire::client::ClientRequest;
use weir_wire::{Record, Slot};

/// A record with its continuation slots.
pub type Event = (Record, Vec<Slot>);

/// What a joiner said of a response, kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told {
    pub request: ClientRequest,
    pub name: String,
    pub steps: Vec<Step>,
    pub server: Option<AtServer>,
    pub unjoinable: Option<Unjoinable>,
}

impl Told {
    pub fn of(response: &Response<'_>) -> Self {
        Self {
            request: *response.request,
            name: response.name.to_owned(),
            steps: response.steps.to_vec(),
            server: response.server,
            unjoinable: response.unjoinable,
        }
    }

    /// Sums of its steps by part.
    pub fn parts(&self) -> weir_measure::part::PartTimes {
        let mut parts = weir_measure::part::PartTimes::default();
        for step in &self.steps {
            parts[step.part as usize] += step.to_ns - step.from_ns;
        }
        parts
    }

    /// Its steps follow each other without gap or overlap, from the intention to the end.
    pub fn check(&self) {
        let mut at_ns = self.request.intended_ns;
        for step in &self.steps {
            assert_eq!(step.from_ns, at_ns, "a gap or an overlap before {step:?} in {self:#?}");
            assert!(step.to_ns > step.from_ns, "an empty step in {self:#?}");
            at_ns = step.to_ns;
        }
        assert_eq!(at_ns, self.request.done_ns.max(self.request.intended_ns), "the sum is not the response: {self:#?}");
    }
}

/// Simulates a plan to its end: the records in the order of their times, and the truth of every request.
pub fn simulate(plan: Plan) -> (Vec<Event>, Vec<Truth>) {
    let mut world = World::new(plan);
    world.run();
    let truths = truth::of(&world);
    let mut events = world.events;
    // Each lane is in order already; the sort is stable.
    events.sort_by_key(|(record, _)| record.time_ns);
    (events, truths)
}

/// Feeds records to a new joiner, all at once.
pub fn join(events: &[Event]) -> (Vec<Told>, Statistics) {
    // Looked through often, so that what is forgotten too early shows.
    join_with(events, Bounds { sweep_records: 64, ..Bounds::default() })
}

/// The same with other bounds.
pub fn join_with(events: &[Event], bounds: Bounds) -> (Vec<Told>, Statistics) {
    let mut joiner = Joiner::new(bounds);
    let mut told = Vec::new();
    let name = Arc::from("GET /");
    for (record, slots) in events {
        joiner.push(record, slots, Some(&name), &mut |_, response| told.push(Told::of(response)));
    }
    joiner.finish(&mut |_, response| told.push(Told::of(response)));
    (told, joiner.statistics())
}

/// The first seed of a test: `WEIR_SEED`, or a fixed one.
pub fn base_seed() -> u64 {
    std::env::var("WEIR_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(20_261_120)
}
