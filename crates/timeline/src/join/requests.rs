//! The connections of clients, and their requests that wait for what the sockets of the server tell.

use crate::step::Step;
use std::collections::VecDeque;
use std::sync::Arc;
use weir_measure::part::Part;
use weir_wire::client::{ClientConnection, ClientRequest};

/// Stretches of earlier requests that a connection keeps; of more, the oldest are forgotten.
const MOST_EARLIER: usize = 256;

/// A connection of a client.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) told: ClientConnection,
    pub(super) socket: Option<u32>,
    pub(super) waiting: u32,
    /// What it was at lately, in the order of time.
    pub(super) earlier: VecDeque<Earlier>,
}

/// A request that is over for its client, and not yet joined.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) request: ClientRequest,
    pub(super) lane: u32,
    pub(super) name: Arc<str>,
}

/// What a connection was at.
#[derive(Debug, Clone, Copy)]
pub(super) struct Earlier {
    pub(super) from_ns: u64,
    pub(super) to_ns: u64,
    pub(super) part: Part,
}

impl Connection {
    /// Keeps what the connection was at in a request, for the requests that waited for it meanwhile.
    pub(super) fn keep_earlier(&mut self, request: &ClientRequest, steps: &[Step]) {
        let earlier = &mut self.earlier;
        // Later requests are intended later.
        while earlier.front().is_some_and(|first| first.to_ns <= request.intended_ns) {
            earlier.pop_front();
        }
        for step in steps.iter().filter(|step| step.part != Part::Generator) {
            match earlier.back_mut() {
                Some(last) if last.part == step.part && last.to_ns == step.from_ns => last.to_ns = step.to_ns,
                _ => earlier.push_back(Earlier { from_ns: step.from_ns, to_ns: step.to_ns, part: step.part }),
            }
            if earlier.len() > MOST_EARLIER {
                earlier.pop_front();
            }
        }
    }
}
