//! Which request is next, without a search and without memory of what was.

use crate::requests::listed::Order;
use crate::workload::draw::Draw;
use crate::workload::requests::Requests;

/// Says for one loop which request is next.
#[derive(Debug)]
pub(crate) enum Chooser {
    One,
    InTurn {
        next: u64,
        step: u64,
    },
    /// As in turn, but through the list of the order.
    Listed {
        next: u64,
        step: u64,
    },
    Weighted(fastrand::Rng),
    Mix(Box<Draw>),
}

impl Chooser {
    /// The requests of loop `lane` of `lanes`, which together ask in the order.
    pub(crate) fn new(requests: &Requests, lane: u32, lanes: u32) -> Self {
        let (next, step) = (u64::from(lane), u64::from(lanes));
        if let Some(mix) = &requests.mix {
            return Self::Mix(Box::new(Draw::new(mix, lane)));
        }
        match &requests.order {
            Order::Listed(_) => Self::Listed { next, step },
            _ if requests.list.len() <= 1 => Self::One,
            Order::InTurn => Self::InTurn { next, step },
            Order::Weighted { seed } => Self::Weighted(fastrand::Rng::with_seed(seed.wrapping_add(next << 32))),
        }
    }
}
