//! The option `hosts`: where names lead instead of where they would.

use crate::options::{OptionError, Plan};
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use weir_load::{Reach, Trust, Url};
use weir_scenario::run::Reaching;

/// Where names lead.
#[derive(Debug, Clone, Default)]
pub(crate) struct Hosts(BTreeMap<String, (IpAddr, Option<u16>)>);

impl Hosts {
    /// Where a URL leads, if it is named: by host and port, by host, or by `*.` and its domain.
    pub(crate) fn of(&self, url: &Url) -> Option<(IpAddr, u16)> {
        if self.0.is_empty() {
            return None;
        }
        let host = url.host.to_ascii_lowercase();
        let of_domain = || {
            let rest = host.split_once('.').map(|(_, rest)| format!("*.{rest}"))?;
            self.0.get(&rest)
        };
        let found = self.0.get(&format!("{host}:{}", url.port)).or_else(|| self.0.get(&host)).or_else(of_domain);
        found.map(|(address, port)| (*address, port.unwrap_or(url.port)))
    }
}

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
