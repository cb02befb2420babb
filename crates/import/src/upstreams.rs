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
    /// weir speaks no TLS with upstreams.
    Tls,
    /// Or no HTTP/2.
    Http2,
    /// It is known only when a request comes.
    Variable,
    /// It is no address.
    Malformed,
}

impl Unusable {
    pub(crate) fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Tls => (
                "TLS is not spoken with upstreams",
                "reach the server in the clear through a private network, then replace status = 503 by proxy",
            ),
            Self::Http2 => ("HTTP/2 is not spoken with upstreams", "write http://, if the server speaks HTTP/1.1"),
            Self::Variable => {
                ("the address is made of variables", "write the addresses, in tables or hosts of their own")
            }
            Self::Malformed => ("it is no address of a server", "write it as http://HOST:PORT or unix:PATH"),
        }
    }
}

/// An upstream.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Upstream {
    /// Addresses as weir writes them, and weights.
    pub(crate) servers: Vec<(String, u32)>,
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
