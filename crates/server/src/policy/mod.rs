//! Questions to the policy runtime and its answers: advice, leases, links of clients, bounds, orders.

pub(crate) mod advice;
pub(crate) mod advised;
pub(crate) mod client_peer;
pub(crate) mod codec_swap;
pub(crate) mod control;
mod governed_paths;
mod indexes;
pub(crate) mod insight;
pub(crate) mod lease;
pub(crate) mod leased;
pub(crate) mod link;
pub(crate) mod link_prior;
mod path_questions;
pub(crate) mod policy_client;
pub(crate) mod popularity;
mod questions;
pub(crate) mod session_copies;
pub(crate) mod sessions;
pub(crate) mod settings;
pub(crate) mod throttle;
pub(crate) mod throttle_law;
