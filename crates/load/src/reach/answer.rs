//! What is said to a proxy, and how its answers are told.

use std::net::{IpAddr, SocketAddr};

/// Where a proxy is to connect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Destination {
    /// A name that the proxy resolves, or an address without brackets.
    pub host: String,
    /// The port.
    pub port: u16,
    /// The host's address, where it was resolved here.
    pub address: Option<IpAddr>,
}

impl Destination {
    /// As an HTTP proxy is told: brackets around addresses of version 6.
    pub(crate) fn authority(&self) -> String {
        match self.address {
            Some(address) => SocketAddr::new(address, self.port).to_string(),
            None if self.host.contains(':') => format!("[{}]:{}", self.host, self.port),
            None => format!("{}:{}", self.host, self.port),
        }
    }
}

/// Who asks: a user and a password.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    /// The user.
    pub user: String,
    /// The password.
    pub password: String,
}

/// Never with the secret in it.
impl std::fmt::Debug for Credentials {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Credentials(…)")
    }
}

/// The language of a proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Language {
    /// The CONNECT method of HTTP (RFC 9110 9.3.6).
    HttpConnect,
    /// SOCKS 5 (RFC 1928), with user and password (RFC 1929).
    Socks5,
    /// SOCKS 4, and 4a where the proxy is given a name.
    Socks4,
}

/// Which answer is awaited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    HttpConnect,
    Socks5Method { login_offered: bool },
    Socks5Login,
    Socks5Connect,
    Socks4Connect,
    Through,
}

/// What an answer that is not whole yet, or is, means.
pub(crate) enum Answer {
    /// More of it must come.
    Unfinished,
    /// It is whole, in so many bytes, and another one is awaited, perhaps without the login before it.
    Next { taken: usize, step: Step, login_passed_over: bool },
}
