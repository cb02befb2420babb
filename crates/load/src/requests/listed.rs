//! One of several requests, and their order.

use crate::{Request, Url};
use std::sync::Arc;

/// The most different requests of a run.
pub(crate) const REQUESTS_MAX: usize = 1_000_000;
/// The most hosts of a run.
pub(crate) const HOSTS_MAX: usize = 256;

/// One of several requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedRequest {
    /// Where it goes.
    pub url: Url,
    /// What goes there.
    pub request: Request,
    /// How often it is asked in proportion to the others where the order is [`Order::Weighted`]; at least 1.
    pub weight: u32,
}

/// In which order several requests are asked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Order {
    /// One after the other, then from the first again; over all threads together.
    #[default]
    InTurn,
    /// At random, in proportion to their weights.
    Weighted {
        /// Where the random numbers begin: the same seed gives the same requests.
        seed: u64,
    },
    /// By this list of their places in [`crate::Requests::list`], then from its beginning again; over all threads together.
    Listed(Arc<[u32]>),
}
