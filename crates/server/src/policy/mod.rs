//! Questions to the policy runtime and its answers: advice, leases, links of clients, bounds, orders.

pub(crate) mod advice;
pub(crate) mod caller;
pub(crate) mod codec_swap;
pub(crate) mod control;
pub(crate) mod insight;
pub(crate) mod lease;
pub(crate) mod leased;
pub(crate) mod link;
pub(crate) mod link_prior;
pub(crate) mod policy_client;
pub(crate) mod settings;
pub(crate) mod throttle;
