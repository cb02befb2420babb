//! What the way to a server depends on beside its URL.

use crate::options::settings::Options;
use crate::{Protocol, Reach, Trust};

/// What the way to a server depends on beside its URL.
#[derive(Debug, Clone)]
pub(crate) struct Means {
    pub(crate) reach: Reach,
    pub(crate) protocol: Protocol,
    pub(crate) trust: Trust,
    pub(crate) connections: u32,
}

impl Means {
    pub(crate) fn of(options: &Options) -> Self {
        Self {
            reach: options.reach.clone(),
            protocol: options.protocol,
            trust: options.trust.clone(),
            connections: options.connections,
        }
    }
}
