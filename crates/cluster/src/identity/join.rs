//! How a machine becomes a member: it makes its key itself, and asks the node with the authority to sign it, over TLS
//! that is pinned to the authority of its token.

use super::authority::Authority;
use super::etcd::{self, EtcdKeys};
use super::files::{self, Identity, IdentityError};
use super::fingerprint::fingerprint;
use super::key::{KeyError, MemberKey, PUBLIC_KEY_BYTES, PublicKey};
use super::secret::ClusterSecret;
use super::token::{SECRET_BYTES, Token, TokenError, Tokens};
use crate::fields::{FieldError, Reader, put_bytes};
use crate::name::{Member, NodeName, Role};
use ring::digest::{SHA256, digest};
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::crypto::ring::default_provider;
use rustls::{
    CertificateError, ClientConfig, ClientConnection, DigitallySignedStruct, RootCertStore, ServerConfig,
    ServerConnection, SignatureScheme, StreamOwned,
};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};
use zeroize::Zeroizing;

const VERSION: u8 = 3;
/// Bytes of a request or an answer.
const MESSAGE_BYTES_MAX: usize = 16 << 10;
const CERTIFICATE_BYTES_MAX: usize = 4 << 10;
const TEXT_BYTES_MAX: usize = 1 << 10;
const SECRET_BYTES_MAX: usize = 128;
const SIGNATURE_BYTES_MAX: usize = 80;
/// Members of etcd that are told.
const ETCD_URLS_MAX: u32 = 16;
/// How long the whole exchange may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// A machine could not join.
#[derive(Debug, thiserror::Error)]
pub enum JoinError {
    /// The token cannot be used.
    #[error(transparent)]
    Token(#[from] TokenError),
    /// The identity cannot be made or kept.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// The node does not answer.
    #[error("{address}: {source}; give the address on which the node of the token admits members")]
    Connection {
        /// The node's address.
        address: SocketAddr,
        /// What the system or TLS said.
        source: io::Error,
    },
    /// The node refused.
    #[error("the node refuses: {0}")]
    Refused(String),
    /// The other side says something else.
    #[error(transparent)]
    Message(#[from] FieldError),
    /// The certificate is not the one that was asked for.
    #[error("the node has signed another certificate than was asked for; see which node answers at this address")]
    OtherCertificate,
    /// There is no etcd to join.
    #[error("the cluster runs no etcd; make it with `weir cluster init --etcd-member`, or join without that option")]
    NoEtcd,
    /// TLS cannot be set up.
    #[error("TLS cannot be set up: {0}; report this")]
    Tls(#[from] rustls::Error),
}

impl From<KeyError> for JoinError {
    fn from(error: KeyError) -> Self {
        Self::Identity(error.into())
    }
}

/// What a new member asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SigningRequest {
    name: NodeName,
    role: Role,
    secret: Zeroizing<[u8; SECRET_BYTES]>,
    point: Vec<u8>,
    /// For a member of etcd as well: its address and its public key.
    etcd: Option<(IpAddr, Vec<u8>)>,
    signature: Vec<u8>,
}

impl SigningRequest {
    fn new(
        member: &Member,
        token: &Token,
        key: &MemberKey,
        etcd: Option<(IpAddr, &MemberKey)>,
    ) -> Result<Self, JoinError> {
        let public = key.public();
        let mut request = Self {
            name: member.name.clone(),
            role: member.role,
            secret: token.secret.clone(),
            point: public.as_bytes().to_vec(),
            etcd: etcd.map(|(address, key)| (address, key.public().as_bytes().to_vec())),
            signature: Vec::new(),
        };
        request.signature = key.signature(&request.signed())?;
        Ok(request)
    }

    /// What the new member signs: it has the key, and asks for just this.
    fn signed(&self) -> Vec<u8> {
        let mut bytes = b"weir cluster join 2\0".to_vec();
        bytes.extend(digest(&SHA256, &self.secret[..]).as_ref());
        bytes.push(self.role as u8);
        put_bytes(self.name.as_str().as_bytes(), &mut bytes);
        bytes.extend(&self.point);
        self.put_etcd(&mut bytes);
        bytes
    }

    fn put_etcd(&self, out: &mut Vec<u8>) {
        out.push(u8::from(self.etcd.is_some()));
        if let Some((address, point)) = &self.etcd {
            put_bytes(address.to_string().as_bytes(), out);
            put_bytes(point, out);
        }
    }

    /// Its bytes; they are zeroed when they are dropped.
    pub fn encode(&self) -> Zeroizing<Vec<u8>> {
        let mut out = Zeroizing::new(Vec::with_capacity(512));
        out.push(VERSION);
        out.extend(*self.secret);
        out.push(self.role as u8);
        put_bytes(self.name.as_str().as_bytes(), &mut out);
        put_bytes(&self.point, &mut out);
        self.put_etcd(&mut out);
        put_bytes(&self.signature, &mut out);
        out
    }

    /// Reads one.
    ///
    /// # Errors
    /// [`FieldError`], if the bytes are none.
    pub fn decode(bytes: &[u8]) -> Result<Self, FieldError> {
        let mut reader = Reader(bytes);
        reader.version("request to join", VERSION)?;
        let secret = Zeroizing::new(reader.array()?);
        let role = reader.u8()?;
        let role = Role::ALL.into_iter().find(|known| *known as u8 == role).ok_or(FieldError::Unknown("role"))?;
        let name = reader.text("name", TEXT_BYTES_MAX)?.parse().map_err(|_| FieldError::Unknown("name"))?;
        let point = reader.bytes("public key", PUBLIC_KEY_BYTES)?.to_vec();
        let etcd = if reader.flag("etcd")? {
            let address = reader.text("address", TEXT_BYTES_MAX)?.parse();
            let address: IpAddr = address.map_err(|_| FieldError::Unknown("address"))?;
            Some((address, reader.bytes("public key", PUBLIC_KEY_BYTES)?.to_vec()))
        } else {
            None
        };
        let signature = reader.bytes("signature", SIGNATURE_BYTES_MAX)?.to_vec();
        reader.end()?;
        Ok(Self { name, role, secret, point, etcd, signature })
    }
}

/// A machine that is to become a member.
#[derive(Debug)]
pub struct Joining<'t> {
    address: SocketAddr,
    token: &'t Token,
    name: &'t NodeName,
    etcd: Option<IpAddr>,
}

/// A machine that has become a member.
#[derive(Debug)]
pub struct Joined {
    /// Its identity.
    pub identity: Identity,
    /// Its keys as a member of etcd, if it asked for them.
    pub etcd: Option<EtcdSeat>,
}

/// What a machine needs to become a member of etcd.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EtcdSeat {
    /// Its keys.
    pub keys: EtcdKeys,
    /// URLs for clients of members that there are.
    pub urls: Vec<String>,
}

impl<'t> Joining<'t> {
    /// Joins at the node that admits members at this address.
    #[must_use]
    pub fn new(address: SocketAddr, token: &'t Token, name: &'t NodeName) -> Self {
        Self { address, token, name, etcd: None }
    }

    /// Asks for the keys of a member of etcd at an address of this machine as well.
    #[must_use]
    pub fn with_etcd(self, address: Option<IpAddr>) -> Self {
        Self { etcd: address, ..self }
    }

    /// Makes the keys, has them signed by the node of the token, and keeps them in a directory.
    ///
    /// # Errors
    /// [`JoinError`], if the token is over, the node cannot be reached or refuses, or the directory cannot be used.
    pub fn join(&self, directory: &Path, now: SystemTime) -> Result<Joined, JoinError> {
        files::refuse_existing(directory)?;
        if self.token.is_over(now) {
            return Err(TokenError::Expired.into());
        }
        let key = MemberKey::generate()?;
        let etcd_key = MemberKey::generate()?;
        let member = Member { name: self.name.clone(), role: self.token.role };
        let request = SigningRequest::new(&member, self.token, &key, self.etcd.map(|address| (address, &etcd_key)))?;
        let address = self.address;
        let answer = ask(address, self.token, &request)?.map_err(|source| JoinError::Connection { address, source })?;
        let signed = Signed::decode(&answer, self.etcd.is_some())?;
        let is_asked = files::member_of(&signed.certificate).as_ref() == Some(&member);
        if !is_asked || fingerprint(&signed.authority) != self.token.authority_fingerprint {
            return Err(JoinError::OtherCertificate);
        }
        let Signed { certificate, authority, secret, etcd } = signed;
        let identity = Identity { member, certificate, authority, key, secret };
        identity.save(directory)?;
        let etcd = etcd.map(|(certificate, urls)| {
            Ok::<_, IdentityError>(EtcdSeat { keys: etcd::save(directory, &etcd_key, &certificate)?, urls })
        });
        Ok(Joined { identity, etcd: etcd.transpose()? })
    }
}

/// What the node with the authority answers.
struct Signed {
    certificate: CertificateDer<'static>,
    authority: CertificateDer<'static>,
    secret: ClusterSecret,
    etcd: Option<(CertificateDer<'static>, Vec<String>)>,
}

impl Signed {
    fn decode(answer: &[u8], has_etcd: bool) -> Result<Self, JoinError> {
        let mut reader = Reader(answer);
        reader.version("answer to a request to join", VERSION)?;
        if !reader.flag("answer")? {
            return Err(JoinError::Refused(reader.text("reason", TEXT_BYTES_MAX)?));
        }
        let certificate = |reader: &mut Reader<'_>, what| {
            Ok::<_, FieldError>(CertificateDer::from(reader.bytes(what, CERTIFICATE_BYTES_MAX)?.to_vec()))
        };
        let own = certificate(&mut reader, "certificate")?;
        let authority = certificate(&mut reader, "authority")?;
        let secret = ClusterSecret::decode(reader.bytes("secret", SECRET_BYTES_MAX)?);
        let etcd = if has_etcd {
            let signed = certificate(&mut reader, "certificate of etcd")?;
            let count = reader.u32()?;
            if count > ETCD_URLS_MAX {
                return Err(FieldError::Unknown("number of etcd's members").into());
            }
            let urls = (0..count).map(|_| reader.text("URL of etcd", TEXT_BYTES_MAX)).collect::<Result<_, _>>()?;
            Some((signed, urls))
        } else {
            None
        };
        reader.end()?;
        let secret = secret.ok_or(FieldError::Unknown("secret"))?;
        Ok(Self { certificate: own, authority, secret, etcd })
    }
}

/// Makes a key, has it signed by the node of the token, and keeps the identity in a directory.
///
/// # Errors
/// [`JoinError`], if the token is over, the node cannot be reached or refuses, or the directory cannot be used.
pub fn join(
    address: SocketAddr,
    token: &Token,
    name: &NodeName,
    directory: &Path,
    now: SystemTime,
) -> Result<Identity, JoinError> {
    Ok(Joining::new(address, token, name).join(directory, now)?.identity)
}

fn ask(
    address: SocketAddr,
    token: &Token,
    request: &SigningRequest,
) -> Result<io::Result<Zeroizing<Vec<u8>>>, JoinError> {
    let provider = Arc::new(default_provider());
    let verifier = Pinned { fingerprint: token.authority_fingerprint, provider: Arc::clone(&provider) };
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth();
    config.resumption = rustls::client::Resumption::disabled();
    let name = token.issuer.in_certificate();
    // A name of a member below the domain is always a name of DNS.
    let name = ServerName::try_from(name).map_err(|_| TokenError::NoToken)?;
    let tls = ClientConnection::new(Arc::new(config), name)?;
    Ok(exchange(address, tls, request))
}

fn exchange(address: SocketAddr, tls: ClientConnection, request: &SigningRequest) -> io::Result<Zeroizing<Vec<u8>>> {
    let socket = Bounded::new(TcpStream::connect_timeout(&address, PATIENCE)?)?;
    let mut stream = StreamOwned::new(tls, socket);
    send(&mut stream, &request.encode())?;
    receive(&mut stream)
}

/// A socket that fails once the exchange has taken too long, however the other side spreads its bytes.
struct Bounded {
    socket: TcpStream,
    end: Instant,
}

impl Bounded {
    fn new(socket: TcpStream) -> io::Result<Self> {
        socket.set_nodelay(true)?;
        Ok(Self { socket, end: Instant::now() + PATIENCE })
    }

    fn left(&self) -> io::Result<Option<Duration>> {
        let left = self.end.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(Some(left)) }
    }
}

impl Read for Bounded {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.socket.set_read_timeout(self.left()?)?;
        self.socket.read(buffer)
    }
}

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.socket.set_write_timeout(self.left()?)?;
        self.socket.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.socket.flush()
    }
}

fn send(stream: &mut impl Write, message: &[u8]) -> io::Result<()> {
    stream.write_all(&(message.len() as u32).to_be_bytes())?;
    stream.write_all(message)?;
    stream.flush()
}

fn receive(stream: &mut impl Read) -> io::Result<Zeroizing<Vec<u8>>> {
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let bytes = u32::from_be_bytes(length) as usize;
    if bytes > MESSAGE_BYTES_MAX {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "the message is too long"));
    }
    let mut message = Zeroizing::new(vec![0; bytes]);
    stream.read_exact(&mut message)?;
    Ok(message)
}

/// The side that admits members, at the node with the authority.
#[derive(Debug)]
pub struct Admission {
    authority: Authority,
    directory: PathBuf,
    tokens: Tokens,
    config: Arc<ServerConfig>,
    /// Members of etcd that a new one can ask; none where the cluster runs no etcd.
    etcd_urls: Vec<String>,
}

/// What a new member gets: what is signed for itself and for its etcd, and the secret.
type Certificates = (CertificateDer<'static>, Option<CertificateDer<'static>>, ClusterSecret);

impl Admission {
    /// Takes the authority and the identity of a directory.
    ///
    /// # Errors
    /// [`JoinError`], if this node has no authority, or a file cannot be used.
    pub fn open(directory: &Path) -> Result<Self, JoinError> {
        let authority = Authority::load(directory)?;
        let identity = Identity::load(directory)?;
        let chain = vec![identity.certificate.clone(), identity.authority.clone()];
        let mut config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .with_no_client_auth()
            .with_single_cert(chain, identity.key.for_tls())?;
        config.send_tls13_tickets = 0;
        let (directory, tokens) = (directory.to_owned(), Tokens::of(directory));
        Ok(Self { authority, directory, tokens, config: Arc::new(config), etcd_urls: Vec::new() })
    }

    /// Also admits members of etcd, beside those at these URLs for clients, of which at most 16 are told.
    #[must_use]
    pub fn with_etcd(mut self, urls: Vec<String>) -> Self {
        self.etcd_urls = urls;
        self.etcd_urls.truncate(ETCD_URLS_MAX as usize);
        self
    }

    /// The members that have a certificate.
    ///
    /// # Errors
    /// [`JoinError`], if the list cannot be read.
    pub fn members(&self) -> Result<Vec<Member>, JoinError> {
        Ok(files::issued(&self.directory)?)
    }

    /// Answers one machine that connected; returns the member that was admitted.
    ///
    /// # Errors
    /// [`JoinError`], if the machine was refused or went away.
    pub fn admit(&self, socket: TcpStream, now: SystemTime) -> Result<Member, JoinError> {
        let address = socket.peer_addr().unwrap_or_else(|_| SocketAddr::from(([0, 0, 0, 0], 0)));
        let failed = |source| JoinError::Connection { address, source };
        let socket = Bounded::new(socket).map_err(failed)?;
        let mut stream = StreamOwned::new(ServerConnection::new(Arc::clone(&self.config))?, socket);
        let request = receive(&mut stream).map_err(failed)?;
        let decided = SigningRequest::decode(&request).map_err(JoinError::from).and_then(|it| self.decide(&it, now));
        let mut answer = Zeroizing::new(Vec::with_capacity(MESSAGE_BYTES_MAX));
        answer.push(VERSION);
        answer.push(u8::from(decided.is_ok()));
        match &decided {
            Ok((_, (certificate, of_etcd, secret))) => {
                put_bytes(certificate, &mut answer);
                put_bytes(self.authority.certificate(), &mut answer);
                put_bytes(&secret.encode(), &mut answer);
                if let Some(of_etcd) = of_etcd {
                    put_bytes(of_etcd, &mut answer);
                    answer.extend((self.etcd_urls.len() as u32).to_be_bytes());
                    self.etcd_urls.iter().for_each(|url| put_bytes(url.as_bytes(), &mut answer));
                }
            }
            Err(error) => put_bytes(error.to_string().as_bytes(), &mut answer),
        }
        send(&mut stream, &answer).map_err(failed)?;
        stream.conn.send_close_notify();
        stream.flush().map_err(failed)?;
        decided.map(|(member, _)| member)
    }

    fn decide(&self, request: &SigningRequest, now: SystemTime) -> Result<(Member, Certificates), JoinError> {
        let role = self.tokens.role(&request.secret[..], now)?;
        if role != request.role {
            return Err(TokenError::OtherRole(role).into());
        }
        let key = PublicKey::proven(&request.point, &request.signed(), &request.signature)?;
        let member = Member { name: request.name.clone(), role };
        if files::is_issued(&self.directory, &member.name) {
            return Err(IdentityError::NameTaken(member.name).into());
        }
        let certificate = self.authority.issue(&member, &key, now)?;
        // It may have been changed since this side began.
        let secret = files::load_secret(&self.directory)?;
        let etcd = request.etcd.as_ref().map(|(address, point)| self.etcd(*address, point, now)).transpose()?;
        // From here on the token is gone, also where the name was taken in the same moment.
        self.tokens.use_up(&request.secret[..])?;
        files::enter(&self.directory, &member, &certificate)?;
        if let Some((address, certificate)) = &etcd {
            etcd::enter(&self.directory, &member.name, *address, certificate)?;
        }
        Ok((member, (certificate, etcd.map(|(_, certificate)| certificate), secret)))
    }

    /// Signs the certificate of a member of etcd. The request's signature is over this key, too, and who has signed
    /// another's key has a certificate without use.
    fn etcd(
        &self,
        address: IpAddr,
        point: &[u8],
        now: SystemTime,
    ) -> Result<(IpAddr, CertificateDer<'static>), JoinError> {
        if self.etcd_urls.is_empty() {
            return Err(JoinError::NoEtcd);
        }
        if etcd::is_issued(&self.directory, address) {
            return Err(IdentityError::EtcdTaken(address).into());
        }
        Ok((address, self.authority.issue_etcd(address, &PublicKey::signed_for(point), now)?))
    }
}

/// Believes a server whose certificate the pinned authority signed. The server sends the authority's along.
#[derive(Debug)]
struct Pinned {
    fingerprint: [u8; 32],
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let unknown = rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer);
        let pinned = intermediates.iter().find(|certificate| fingerprint(certificate) == self.fingerprint);
        let mut roots = RootCertStore::empty();
        roots.add(pinned.ok_or(unknown.clone())?.clone().into_owned())?;
        let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&self.provider));
        verifier.build().map_err(|_| unknown)?.verify_server_cert(end_entity, &[], server_name, ocsp_response, now)
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        // Only TLS 1.3 is offered.
        Err(rustls::Error::PeerIncompatible(rustls::PeerIncompatible::Tls12NotOfferedOrEnabled))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
