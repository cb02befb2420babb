//! Starts a web server that takes its port from us.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::certificate::Certificate;
use super::port;
use super::running::RunningServer;
use super::start::{START_LIMIT, StartError, own_directory, spawn, wait_until};
use crate::Site;

/// Where a launcher's files come from: the caller's directory or a sample that lives as long.
#[derive(Debug, Clone, Default)]
pub(super) struct Launch {
    pub(super) root: Option<PathBuf>,
    pub(super) cpu: Option<usize>,
    pub(super) more_ports: usize,
    pub(super) certificate: Option<Certificate>,
    /// Whether it is ready as soon as it listens, as it does not answer in HTTP/1.
    pub(super) only_listens: bool,
}

/// What a launcher fills in for one attempt.
pub(super) struct Attempt<'a> {
    pub(super) port: u16,
    pub(super) more_ports: &'a [u16],
    /// The server's own directory, world-readable.
    pub(super) dir: &'a Path,
    pub(super) root: &'a Path,
}

impl Launch {
    /// Starts a server that takes its port from us, again on another port when it was taken.
    pub(super) fn start(
        &self,
        log_name: &str,
        command: impl Fn(&Attempt<'_>) -> io::Result<Command>,
    ) -> Result<RunningServer, StartError> {
        let mut tries_left = 3;
        loop {
            let result = self.start_once(log_name, &command);
            tries_left -= 1;
            match result {
                Err(StartError::Ended { log, .. }) if tries_left > 0 && log.contains("Address already in use") => {}
                other => return other,
            }
        }
    }

    fn start_once(
        &self,
        log_name: &str,
        command: impl Fn(&Attempt<'_>) -> io::Result<Command>,
    ) -> Result<RunningServer, StartError> {
        let own = own_directory().map_err(StartError::Prepare)?;
        let (root, site) = match &self.root {
            Some(root) => (root.canonicalize().map_err(StartError::Prepare)?, None),
            None => {
                let site = Site::sample().map_err(StartError::Prepare)?;
                (site.path().to_owned(), Some(site))
            }
        };
        let port = port::free().map_err(StartError::Prepare)?;
        let more_ports = (0..self.more_ports).map(|_| port::free()).collect::<io::Result<Vec<_>>>();
        let more_ports = more_ports.map_err(StartError::Prepare)?;
        let attempt = Attempt { port, more_ports: &more_ports, dir: own.path(), root: &root };
        let command = command(&attempt).map_err(StartError::Prepare)?;
        let output = own.path().join("output.log");
        let mut process = spawn(command, &output, self.cpu, libc::SIGTERM)?;

        let log = own.path().join(log_name);
        wait_until(&mut process, &[&output, &log], || {
            let ready = if self.only_listens { listens(port) } else { answers(port) };
            ready.then_some(())
        })?;
        let log = if log.exists() { log } else { output };
        let scheme = if self.certificate.is_some() { "https" } else { "http" };
        Ok(RunningServer { port, more_ports, root, scheme, process, log, _own: own, _site: site })
    }
}

/// Whether a server accepts connections on the port.
fn listens(port: u16) -> bool {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    TcpStream::connect_timeout(&address, Duration::from_secs(1)).is_ok()
}

/// Whether an HTTP server answers on the port; any status will do.
///
/// We wait for a request that was accepted: a second one, sent while the machine stands still, would be counted, too,
/// and tests compare servers' counts.
fn answers(port: u16) -> bool {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let ask = || -> io::Result<bool> {
        let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(1))?;
        stream.set_read_timeout(Some(START_LIMIT))?;
        stream.write_all(b"HEAD / HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")?;
        let mut head = [0; 5];
        stream.read_exact(&mut head)?;
        Ok(&head == b"HTTP/")
    };
    ask().unwrap_or(false)
}
