//! Whom a member believes, and what it shows of itself: certificates of the cluster's authority, over TLS 1.3 only.

use super::members::Members;
use crate::identity::{Identity, member_of};
use crate::name::Member;
use rustls::client::ResolvesClientCert;
use rustls::crypto::ring::default_provider;
use rustls::server::{ClientHello, NoServerSessionStorage, ResolvesServerCert, WebPkiClientVerifier};
use rustls::sign::{CertifiedKey, SigningKey};
use rustls::{
    CertificateError, ClientConfig, ClientConnection, Connection, RootCertStore, ServerConfig, ServerConnection,
    SignatureScheme,
};
use rustls_pki_types::{CertificateDer, ServerName};
use std::io;
use std::net::TcpStream;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

/// TLS cannot be set up with an identity.
#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    /// The identity does not fit together.
    #[error("TLS cannot be set up: {0}; join the cluster again")]
    Tls(#[from] rustls::Error),
    /// The authority's certificate cannot be used.
    #[error("the authority's certificate cannot be used: {0}; join the cluster again")]
    Authority(#[from] rustls::server::VerifierBuilderError),
}

/// A peer is not believed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum HandshakeError {
    /// It shows no certificate.
    #[error("the peer shows no certificate; only members of the cluster may connect")]
    NoCertificate,
    /// Another authority signed its certificate, or it is not valid now.
    #[error("the peer's certificate is not believed: {0}; join the cluster, and see to the clocks of both machines")]
    Untrusted(CertificateError),
    /// It was removed from the cluster.
    #[error("{} was removed from the cluster; join it again under another name", .0.name)]
    Removed(Member),
    /// It is another member.
    #[error("another member answers than {}; see to the address of that node", .0.name)]
    OtherMember(Member),
    /// It took too long.
    #[error("the handshake takes too long; see to the load of both machines and to the network")]
    Late,
    /// What TLS says otherwise.
    #[error("the handshake fails: {0}; see to the versions of weir on both machines")]
    Tls(rustls::Error),
    /// What the system says.
    #[error("the connection broke in the handshake ({0}); see to the network")]
    Broken(io::ErrorKind),
}

/// What the links of a member need for their handshakes.
#[derive(Debug, Clone)]
pub struct Trust {
    server: Arc<ServerConfig>,
    client: Arc<ClientConfig>,
    shown: Arc<Shown>,
    members: Arc<Members>,
}

/// The certificate that a member shows, which a renewal changes; its key stays.
#[derive(Debug)]
struct Shown {
    key: Arc<dyn SigningKey>,
    now: RwLock<Arc<CertifiedKey>>,
}

impl Shown {
    fn now(&self) -> Arc<CertifiedKey> {
        Arc::clone(&self.now.read().unwrap_or_else(PoisonError::into_inner))
    }
}

impl ResolvesServerCert for Shown {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.now())
    }
}

impl ResolvesClientCert for Shown {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        Some(self.now())
    }

    fn has_certs(&self) -> bool {
        true
    }
}

impl Trust {
    /// Takes it from a member's identity.
    ///
    /// # Errors
    /// [`TrustError`], if the identity does not fit together.
    pub fn new(identity: &Identity, members: Arc<Members>) -> Result<Self, TrustError> {
        let provider = Arc::new(default_provider());
        let mut roots = RootCertStore::empty();
        roots.add(identity.authority.clone())?;
        let roots = Arc::new(roots);
        let verifier =
            WebPkiClientVerifier::builder_with_provider(Arc::clone(&roots), Arc::clone(&provider)).build()?;
        let key = provider.key_provider.load_private_key(identity.key.for_tls())?;
        let first = CertifiedKey::new(vec![identity.certificate.clone()], Arc::clone(&key));
        first.keys_match()?;
        let shown = Arc::new(Shown { key, now: RwLock::new(Arc::new(first)) });
        let mut server = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .with_client_cert_verifier(verifier)
            .with_cert_resolver(Arc::<Shown>::clone(&shown));
        // Each link has a handshake of its own, with new keys and a look at both certificates.
        server.send_tls13_tickets = 0;
        server.session_storage = Arc::new(NoServerSessionStorage {});
        let mut client = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .with_root_certificates(roots)
            .with_client_cert_resolver(Arc::<Shown>::clone(&shown));
        client.resumption = rustls::client::Resumption::disabled();
        Ok(Self { server: Arc::new(server), client: Arc::new(client), shown, members })
    }

    /// Shows this certificate of the same key from the next link on; those that are open stay. Whether it is another
    /// one than before.
    ///
    /// # Errors
    /// [`TrustError`], if it is for another key; then the one of before is shown.
    pub fn show(&self, certificate: CertificateDer<'static>) -> Result<bool, TrustError> {
        if self.shown.now().cert.first() == Some(&certificate) {
            return Ok(false);
        }
        let next = CertifiedKey::new(vec![certificate], Arc::clone(&self.shown.key));
        next.keys_match()?;
        *self.shown.now.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(next);
        Ok(true)
    }

    /// Which members were removed.
    pub fn members(&self) -> &Members {
        &self.members
    }

    pub(super) fn accept(
        &self,
        socket: &mut TcpStream,
        patience: Duration,
    ) -> Result<(Connection, Member), HandshakeError> {
        let tls = ServerConnection::new(Arc::clone(&self.server)).map_err(HandshakeError::Tls)?;
        let mut tls = Connection::Server(tls);
        shake_hands(&mut tls, socket, patience)?;
        let member = self.peer(&tls)?;
        Ok((tls, member))
    }

    pub(super) fn connect(
        &self,
        socket: &mut TcpStream,
        wanted: &Member,
        patience: Duration,
    ) -> Result<Connection, HandshakeError> {
        // A name of a member below the domain is always a name of DNS.
        let name = ServerName::try_from(wanted.name.in_certificate());
        let name = name.map_err(|_| HandshakeError::OtherMember(wanted.clone()))?;
        let tls = ClientConnection::new(Arc::clone(&self.client), name).map_err(HandshakeError::Tls)?;
        let mut tls = Connection::Client(tls);
        shake_hands(&mut tls, socket, patience)?;
        if self.peer(&tls)? == *wanted { Ok(tls) } else { Err(HandshakeError::OtherMember(wanted.clone())) }
    }

    fn peer(&self, tls: &Connection) -> Result<Member, HandshakeError> {
        let certificate = tls.peer_certificates().and_then(<[_]>::first).ok_or(HandshakeError::NoCertificate)?;
        let unnamed = HandshakeError::Untrusted(CertificateError::NotValidForName);
        let member = member_of(certificate).ok_or(unnamed)?;
        if self.members.is_removed(&member.name) { Err(HandshakeError::Removed(member)) } else { Ok(member) }
    }
}

fn shake_hands(tls: &mut Connection, socket: &mut TcpStream, patience: Duration) -> Result<(), HandshakeError> {
    let end = Instant::now() + patience;
    let broken = |error: io::Error| match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => HandshakeError::Late,
        kind => HandshakeError::Broken(kind),
    };
    socket.set_write_timeout(Some(patience)).map_err(broken)?;
    while tls.is_handshaking() || tls.wants_write() {
        while tls.wants_write() {
            tls.write_tls(socket).map_err(broken)?;
        }
        if !tls.is_handshaking() {
            break;
        }
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(HandshakeError::Late);
        }
        socket.set_read_timeout(Some(left)).map_err(broken)?;
        match tls.read_tls(socket) {
            Ok(0) => return Err(HandshakeError::Broken(io::ErrorKind::UnexpectedEof)),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            read => read.map_err(broken)?,
        };
        if let Err(error) = tls.process_new_packets() {
            // The alert tells the peer why; it may be gone.
            while tls.wants_write() && tls.write_tls(socket).is_ok() {}
            return Err(of_tls(error));
        }
    }
    socket.set_read_timeout(None).map_err(broken)
}

fn of_tls(error: rustls::Error) -> HandshakeError {
    match error {
        rustls::Error::NoCertificatesPresented => HandshakeError::NoCertificate,
        rustls::Error::InvalidCertificate(error) => HandshakeError::Untrusted(error),
        error => HandshakeError::Tls(error),
    }
}
