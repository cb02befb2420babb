//! Servers behind weir, as its tables write them.

use crate::document::{inline, quoted};
use crate::units;

/// What is spoken with the servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Speaks {
    Http,
    FastCgi,
    Scgi,
    Uwsgi,
}

impl Speaks {
    /// The key of weir.
    pub(crate) fn key(self) -> &'static str {
        match self {
            Self::Http => "proxy",
            Self::FastCgi => "fastcgi",
            Self::Scgi => "scgi",
            Self::Uwsgi => "uwsgi",
        }
    }
}

/// Why an address cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unusable {
    /// Servers of one upstream have several schemes.
    Mixed,
    /// It is known only when a request comes.
    Variable,
    /// It is no address.
    Malformed,
}

impl Unusable {
    pub(crate) fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Mixed => {
                ("all servers of an upstream have one scheme", "write an upstream for each, in tables of their own")
            }
            Self::Variable => {
                ("the address is made of variables", "write the addresses, in tables or hosts of their own")
            }
            Self::Malformed => ("it is no address of a server", "write it as http://HOST:PORT or unix:PATH"),
        }
    }
}

/// How a server that speaks HTTP is reached.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Scheme {
    #[default]
    Http,
    /// Over TLS.
    Https,
    /// HTTP/2 in the clear.
    H2c,
}

impl Scheme {
    /// The scheme of an address, and the rest of it; none if it has another one, or none.
    pub(crate) fn split(text: &str) -> Option<(Self, &str)> {
        let of = |begin, scheme| text.strip_prefix(begin).map(|rest| (scheme, rest));
        of("http://", Self::Http).or_else(|| of("https://", Self::Https)).or_else(|| of("h2c://", Self::H2c))
    }

    pub(crate) fn port(self) -> u16 {
        if self == Self::Https { 443 } else { 80 }
    }

    fn text(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
            Self::H2c => "h2c",
        }
    }
}

/// An upstream.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Upstream {
    /// Addresses as weir writes them, and weights.
    pub(crate) servers: Vec<(String, u32)>,
    /// The scheme of those that speak HTTP.
    pub(crate) scheme: Scheme,
    /// Further keys, as TOML.
    pub(crate) keys: Vec<(String, String)>,
    pub(crate) timeouts: Vec<(&'static str, u64)>,
    pub(crate) health: Vec<(&'static str, String)>,
}

impl Upstream {
    pub(crate) fn key(&mut self, name: &str, value: String) {
        self.keys.retain(|(own, _)| own != name);
        self.keys.push((name.to_owned(), value));
    }

    pub(crate) fn timeout(&mut self, name: &'static str, milliseconds: u64) {
        self.timeouts.retain(|(own, _)| *own != name);
        self.timeouts.push((name, milliseconds));
    }

    /// The value of the key.
    pub(crate) fn toml(&self) -> String {
        let server = |(to, weight): &(String, u32)| {
            let of_scheme = to.strip_prefix("http://").map(|place| format!("{}://{place}", self.scheme.text()));
            let to = of_scheme.as_ref().unwrap_or(to);
            if *weight == 1 { quoted(to) } else { format!("{{ to = {}, weight = {} }}", quoted(to), weight) }
        };
        let servers: Vec<String> = self.servers.iter().map(server).collect();
        let to = match servers.as_slice() {
            [one] if !one.starts_with('{') => one.clone(),
            many => format!("[{}]", many.join(", ")),
        };
        let own: Vec<(String, String)> =
            self.keys.iter().filter(|(key, _)| key != "balance" || self.servers.len() > 1).cloned().collect();
        if own.is_empty() && self.timeouts.is_empty() && self.health.is_empty() {
            return to;
        }
        let mut keys = vec![("to".to_owned(), to)];
        keys.extend(own);
        if !self.timeouts.is_empty() {
            let times = self.timeouts.iter().map(|(name, time)| ((*name).to_owned(), quoted(&units::time(*time))));
            keys.push(("timeouts".to_owned(), inline(times)));
        }
        if !self.health.is_empty() {
            let health = self.health.iter().map(|(name, value)| ((*name).to_owned(), value.clone()));
            keys.push(("health".to_owned(), inline(health)));
        }
        inline(keys.into_iter())
    }
}

/// An address without a scheme, `HOST:PORT`, `unix:PATH`, as weir writes it.
pub(crate) fn server(text: &str, speaks: Speaks, default_port: Option<u16>) -> Result<String, Unusable> {
    if text.contains('$') || text.contains('{') {
        return Err(Unusable::Variable);
    }
    if let Some(path) = text.strip_prefix("unix:") {
        let path = path.trim_end_matches(':');
        let path = path.strip_prefix("//").unwrap_or(path);
        if path.is_empty() || path.contains(char::is_control) {
            return Err(Unusable::Malformed);
        }
        return Ok(format!("unix:{path}"));
    }
    let is_v6 = text.starts_with('[');
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !is_v6 || host.ends_with(']') => (host, Some(port)),
        _ => (text, None),
    };
    let is_host = |letter: u8| letter.is_ascii_alphanumeric() || b"-._[]:".contains(&letter);
    let host = if host == "*" || host.is_empty() { "127.0.0.1" } else { host };
    if !host.bytes().all(is_host) || !is_v6 && host.contains(['[', ']', ':']) {
        return Err(Unusable::Malformed);
    }
    let port = match port {
        Some(port) => Some(port.parse::<u16>().ok().filter(|port| *port > 0).ok_or(Unusable::Malformed)?),
        None => default_port,
    };
    let place = port.map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"));
    match speaks {
        Speaks::Http => Ok(format!("http://{place}")),
        _ if port.is_none() => Err(Unusable::Malformed),
        _ => Ok(place),
    }
}
