//! The option `hosts`: where names lead instead of where they would.

use crate::options::{OptionError, Plan};
use crate::script::Hosts;
use std::net::{IpAddr, SocketAddr};
use weir_load::{Reach, Trust};
use weir_scenario::run::Reaching;

/// How servers are reached, and where names lead.
pub(crate) fn reaching(plan: &Plan) -> Result<(Reaching, Hosts), OptionError> {
    let mut hosts = Hosts::default();
    let mut reach = Reach::default();
    for (name, place) in &plan.hosts {
        let name = name.to_ascii_lowercase();
        let address = place.parse::<IpAddr>().map(|address| (address, None));
        let address = address.or_else(|_| place.parse::<SocketAddr>().map(|at| (at.ip(), Some(at.port()))));
        let words = || format!("{place:?} of {name} is no address; write 127.0.0.1 or 127.0.0.1:8080");
        let (address, port) = address.map_err(|_| OptionError::range("hosts", words()))?;
        let (host, own) = name.rsplit_once(':').map_or((name.as_str(), None), |(host, port)| (host, port.parse().ok()));
        // Of an encrypted connection the name stays, as the certificate is for it.
        let port_used = port.or(own).unwrap_or(443);
        let resolve = format!(
            "{host}:{port_used}:{}",
            if address.is_ipv6() { format!("[{address}]") } else { address.to_string() }
        );
        if !host.starts_with('*') {
            reach.resolve.push(resolve.parse().map_err(|wrong| OptionError::range("hosts", wrong))?);
        }
        hosts.0.insert(name, (address, port));
    }
    let trust = if plan.is_insecure { Trust::Anything } else { Trust::default() };
    Ok((Reaching { reach, trust, ..Reaching::default() }, hosts))
}
