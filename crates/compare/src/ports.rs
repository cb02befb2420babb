//! Free ports for servers that are ready to use.
use std::net::{Ipv4Addr, TcpListener};

/// No port was free.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("none of 200 ports is free; name one with port = 8081")]
pub struct NoFreePort;

/// Ports for servers that name none, each handed out once.
#[derive(Debug, Default)]
pub struct Ports {
    taken: Vec<u16>,
}

impl Ports {
    /// Below the range from which Linux takes the local ports of clients: under load one of those would take a chosen
    /// port before the server does.
    const FIRST: u32 = 15_000;
    const COUNT: u32 = 17_000;

    /// The wished one, or one of 127.0.0.1 on which no process listens now.
    ///
    /// # Errors
    /// [`NoFreePort`].
    pub fn take(&mut self, wished: Option<u16>) -> Result<u16, NoFreePort> {
        // Experiments that begin at one time begin at other ports.
        let start = std::process::id().wrapping_mul(2_654_435_761);
        let mut tried = (0..200).map(|step| (Self::FIRST + start.wrapping_add(step) % Self::COUNT) as u16);
        let is_free =
            |port: &u16| !self.taken.contains(port) && TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok();
        let port = wished.or_else(|| tried.find(is_free)).ok_or(NoFreePort)?;
        self.taken.push(port);
        Ok(port)
    }
}
