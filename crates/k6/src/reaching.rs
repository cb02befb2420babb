//! The option `hosts`: where names lead instead of where they would.

use crate::options::{OptionError, Plan};
use crate::script::Hosts;
use std::net::{IpAddr, SocketAddr};
use weir_load::Trust;
use weir_scenario::run::Reaching;

/// How servers are reached, and where names lead.
pub(crate) fn reaching(plan: &Plan) -> Result<(Reaching, Hosts), OptionError> {
    let mut hosts = Hosts::default();
    for (name, place) in &plan.hosts {
        let name = name.to_ascii_lowercase();
        if name.is_empty() || name.char_indices().any(|(at, sign)| sign == '*' && at > 0) {
            let words = format!("{name:?} is no name: write a host, or * and the end of one, with or without :PORT");
            return Err(OptionError::range("hosts", words));
        }
        let address = place.parse::<IpAddr>().map(|address| (address, None));
        let address = address.or_else(|_| place.parse::<SocketAddr>().map(|at| (at.ip(), Some(at.port()))));
        let words = || format!("{place:?} of {name} is no address; write 127.0.0.1 or 127.0.0.1:8080");
        hosts.0.insert(name.clone(), address.map_err(|_| OptionError::range("hosts", words()))?);
    }
    let trust = if plan.is_insecure { Trust::Anything } else { Trust::default() };
    Ok((Reaching { trust, ..Reaching::default() }, hosts))
}
