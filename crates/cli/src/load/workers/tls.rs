//! TLS between orchestrator and worker: both show a certificate of the same authority.
//!
//! A thread carries the bytes between the connection and a pair of sockets, so that everything else reads and writes as
//! it does over pipes.

use anyhow::Context;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, ClientConnection, Connection, RootCertStore, ServerConfig, ServerConnection};
use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// How long a connection and its handshake may take.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// Bytes that wait for the other side, at most.
const WAITING_MAX: usize = 256 << 10;
/// How often a connection is looked at that nothing happens on.
const LOOK_MS: libc::c_int = 1000;

/// A certificate with its key, and the authority of the other side's.
#[derive(Debug)]
pub(crate) struct Identity {
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
    roots: Arc<RootCertStore>,
}

impl Identity {
    /// Reads them from files of PEM.
    pub(super) fn read(cert: &Path, key: Option<&Path>, ca: &Path) -> anyhow::Result<Self> {
        let chain = certificates(cert)?;
        let key = key.unwrap_or(cert);
        let key = PrivateKeyDer::from_pem_file(key)
            .with_context(|| format!("{}: no private key that is not encrypted can be read from it", key.display()))?;
        let mut roots = RootCertStore::empty();
        for root in certificates(ca)? {
            roots.add(root).with_context(|| format!("{}: no certificate of an authority", ca.display()))?;
        }
        Ok(Self { chain, key, roots: Arc::new(roots) })
    }

    /// Connects to a worker.
    pub(super) fn connect(&self, host: &str, port: u16) -> anyhow::Result<UnixStream> {
        let name = ServerName::try_from(host.to_owned()).with_context(|| format!("{host}: no name of a host"))?;
        let config = ClientConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .with_root_certificates(Arc::clone(&self.roots))
            .with_client_auth_cert(self.chain.clone(), self.key.clone_key())
            .context("--worker-cert: the certificate and its key do not go together")?;
        let tcp = reached(host, port)?;
        let connection = ClientConnection::new(Arc::new(config), name)?;
        carried(connection.into(), tcp)
            .context("no TLS session was agreed on; both sides need certificates of one authority")
    }

    /// What a worker shows, and asks of those who connect.
    pub(super) fn server(&self) -> anyhow::Result<Arc<ServerConfig>> {
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::clone(&self.roots), provider()).build()?;
        let config = ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .with_client_cert_verifier(verifier)
            .with_single_cert(self.chain.clone(), self.key.clone_key())
            .context("--cert: the certificate and its key do not go together")?;
        Ok(Arc::new(config))
    }
}

/// Takes a connection that came.
pub(super) fn accept(config: &Arc<ServerConfig>, tcp: TcpStream) -> anyhow::Result<UnixStream> {
    let connection = ServerConnection::new(Arc::clone(config))?;
    carried(connection.into(), tcp)
}

fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

fn certificates(path: &Path) -> anyhow::Result<Vec<CertificateDer<'static>>> {
    let wrong = || format!("{}: no certificates can be read from it (PEM)", path.display());
    let chain: Vec<_> =
        CertificateDer::pem_file_iter(path).with_context(wrong)?.collect::<Result<_, _>>().with_context(wrong)?;
    anyhow::ensure!(!chain.is_empty(), wrong());
    Ok(chain)
}

/// A connection to one of a host's addresses.
fn reached(host: &str, port: u16) -> anyhow::Result<TcpStream> {
    let mut last = None;
    for address in (host, port).to_socket_addrs().with_context(|| format!("{host}: no such host"))? {
        match TcpStream::connect_timeout(&address, HANDSHAKE) {
            Ok(tcp) => return Ok(tcp),
            Err(error) => last = Some(error),
        }
    }
    let cause = last.map_or_else(|| "it has no address".to_owned(), |error| error.to_string());
    anyhow::bail!("cannot be reached ({cause}); does weir worker --listen run there?")
}

/// Agrees on a session, and has a thread carry what is said in it: to and from the socket that is given back.
fn carried(mut tls: Connection, mut tcp: TcpStream) -> anyhow::Result<UnixStream> {
    tcp.set_nodelay(true)?;
    tcp.set_read_timeout(Some(HANDSHAKE))?;
    tcp.set_write_timeout(Some(HANDSHAKE))?;
    while tls.is_handshaking() {
        tls.complete_io(&mut tcp)?;
    }
    let (ours, theirs) = UnixStream::pair()?;
    tcp.set_nonblocking(true)?;
    theirs.set_nonblocking(true)?;
    std::thread::spawn(move || {
        let mut pump = Pump { tls, tcp, plain: theirs, waiting: Vec::new() };
        // Its end closes both sockets, which is what both sides see.
        if let Err(error) = pump.run() {
            tracing::debug!(%error, "a connection between orchestrator and worker ended");
        }
        pump.close();
    });
    Ok(ours)
}

/// What a thread carries.
struct Pump {
    tls: Connection,
    tcp: TcpStream,
    plain: UnixStream,
    /// Decrypted bytes that the socket has not taken yet.
    waiting: Vec<u8>,
}

impl Pump {
    /// Carries bytes both ways until either side ends.
    fn run(&mut self) -> io::Result<()> {
        let mut buffer = vec![0; 64 << 10];
        // What came with the end of the handshake.
        if !self.decrypt(&mut buffer)? {
            return Ok(());
        }
        loop {
            let (from_tcp, from_plain) = self.poll()?;
            if from_tcp && self.waiting.len() < WAITING_MAX {
                match self.tls.read_tls(&mut self.tcp) {
                    Ok(0) => return self.flush_plain().map(drop),
                    Ok(_) => {}
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    Err(error) => return Err(error),
                }
                self.tls.process_new_packets().map_err(io::Error::other)?;
                if !self.decrypt(&mut buffer)? {
                    return self.flush_plain().map(drop);
                }
            }
            self.flush_plain()?;
            if from_plain && !self.tls.wants_write() {
                match self.plain.read(&mut buffer) {
                    Ok(0) => return Ok(()),
                    Ok(length) => self.tls.writer().write_all(&buffer[..length])?,
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    Err(error) => return Err(error),
                }
            }
            while self.tls.wants_write() {
                match self.tls.write_tls(&mut self.tcp) {
                    Ok(_) => {}
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                    Err(error) => return Err(error),
                }
            }
        }
    }

    /// Moves what was decrypted; false at the session's end.
    fn decrypt(&mut self, buffer: &mut [u8]) -> io::Result<bool> {
        loop {
            match self.tls.reader().read(buffer) {
                Ok(0) => return Ok(false),
                Ok(length) => self.waiting.extend_from_slice(&buffer[..length]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(true),
                Err(error) => return Err(error),
            }
        }
    }

    /// Gives the socket what it takes.
    fn flush_plain(&mut self) -> io::Result<()> {
        while !self.waiting.is_empty() {
            match self.plain.write(&self.waiting) {
                Ok(length) => drop(self.waiting.drain(..length)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Waits until something can be done; whether either side has bytes, or its end.
    fn poll(&self) -> io::Result<(bool, bool)> {
        let mut events = [(0i16, self.tcp.as_raw_fd()), (0, self.plain.as_raw_fd())];
        if self.waiting.len() < WAITING_MAX {
            events[0].0 |= libc::POLLIN;
        }
        if self.tls.wants_write() {
            events[0].0 |= libc::POLLOUT;
        } else {
            events[1].0 |= libc::POLLIN;
        }
        if !self.waiting.is_empty() {
            events[1].0 |= libc::POLLOUT;
        }
        let mut polled = events.map(|(events, fd)| libc::pollfd { fd, events, revents: 0 });
        // SAFETY: the array outlives the call, and its length is given.
        let ready = unsafe { libc::poll(polled.as_mut_ptr(), polled.len() as libc::nfds_t, LOOK_MS) };
        if ready < 0 {
            let error = io::Error::last_os_error();
            return if error.kind() == io::ErrorKind::Interrupted { Ok((false, false)) } else { Err(error) };
        }
        let has = |one: &libc::pollfd| one.revents & (libc::POLLIN | libc::POLLHUP | libc::POLLERR) != 0;
        Ok((has(&polled[0]), has(&polled[1])))
    }

    /// Says that nothing follows, as far as the connection takes it.
    fn close(&mut self) {
        self.tls.send_close_notify();
        // The other side sees the end of the connection in any case.
        let _ = self.tls.write_tls(&mut self.tcp);
        let _ = self.tcp.shutdown(std::net::Shutdown::Both);
        let _ = self.plain.shutdown(std::net::Shutdown::Both);
    }
}
