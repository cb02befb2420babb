//! Where names lead instead of where they would.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use weir_load::Url;

/// Where names lead: each is a host, `*` and the end of one, or either with a port.
#[derive(Debug, Clone, Default)]
pub(crate) struct Hosts(pub(crate) BTreeMap<String, (IpAddr, Option<u16>)>);

impl Hosts {
    /// Where a URL leads, if it is named: by host and port before by host; the whole name counts before `*` and an end,
    /// and of these the longest.
    pub(crate) fn of(&self, url: &Url) -> Option<SocketAddr> {
        if self.0.is_empty() {
            return None;
        }
        let host = url.host.to_ascii_lowercase();
        let found = self.find(&format!("{host}:{}", url.port)).or_else(|| self.find(&host));
        found.map(|(address, port)| SocketAddr::new(*address, port.unwrap_or(url.port)))
    }

    fn find(&self, name: &str) -> Option<&(IpAddr, Option<u16>)> {
        let ends = || {
            let named = self.0.iter().filter_map(|(pattern, place)| Some((pattern.strip_prefix('*')?, place)));
            let fitting = named.filter(|(end, _)| name.ends_with(end));
            fitting.max_by_key(|(end, _)| end.len()).map(|(_, place)| place)
        };
        self.0.get(name).or_else(ends)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_closest_name_counts() {
        let place = |last: u8, port| (IpAddr::from([127, 0, 0, last]), port);
        let named = [
            ("a.b.test", place(1, None)),
            ("*.b.test", place(2, Some(8080))),
            ("*.test:443", place(3, None)),
            ("*.test", place(4, None)),
        ];
        let hosts = Hosts(named.into_iter().map(|(name, place)| (name.to_owned(), place)).collect());
        let of = |url: &str| hosts.of(&Url::parse(url).unwrap()).map(|at| at.to_string());
        assert_eq!(of("http://A.b.test/").as_deref(), Some("127.0.0.1:80"));
        assert_eq!(of("http://c.d.b.test/").as_deref(), Some("127.0.0.2:8080"));
        // A port that is named counts before the name alone, as k6 has it.
        assert_eq!(of("https://a.b.test/").as_deref(), Some("127.0.0.3:443"));
        assert_eq!(of("http://x.test:81/").as_deref(), Some("127.0.0.4:81"));
        assert_eq!((of("http://b.testx/"), of("http://test/")), (None, None));
    }
}
