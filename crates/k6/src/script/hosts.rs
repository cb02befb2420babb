//! Where names lead instead of where they would.

use std::collections::BTreeMap;
use std::net::IpAddr;
use weir_load::Url;

/// Where names lead.
#[derive(Debug, Clone, Default)]
pub(crate) struct Hosts(pub(crate) BTreeMap<String, (IpAddr, Option<u16>)>);

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
