//! Certificates and keys: chosen by the name that a client asks for, read again when their files change.

pub(crate) mod challenges;
pub(crate) mod client_asking;
pub(crate) mod client_authorities;
mod der;
mod distinguished_name;
pub(crate) mod presented;
pub(crate) mod settings;
mod staple;
pub(crate) mod tickets;
mod validity;

use crate::certificates::challenges::{ACME_TLS, Challenges};
use crate::certificates::client_asking::{AskedHosts, Asking};
use crate::certificates::settings::CertificateFiles;
use crate::certificates::tickets::{Carrier, SharedTickets};
use crate::error::TlsError;
use rustls::SupportedCipherSuite;
use rustls::crypto::ring;
use rustls::crypto::ring::cipher_suite as suite;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls_pki_types::pem::{self, PemObject};
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use staple::Staple;
use std::collections::HashMap;
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::SystemTime;

/// In our order of preference; the client's order does not count. AES with keys of 128 bits is as safe as the
/// certificates are and takes the least work for a byte; browsers prefer it too. Every processor that TLS is much used
/// on has instructions for it.
const CIPHERS: [SupportedCipherSuite; 9] = [
    suite::TLS13_AES_128_GCM_SHA256,
    suite::TLS13_AES_256_GCM_SHA384,
    suite::TLS13_CHACHA20_POLY1305_SHA256,
    suite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
    suite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
    suite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
    suite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
    suite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
    suite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
];
/// Bytes of a file that are read.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// The certificates of a server with what they were read from.
#[derive(Debug)]
pub(crate) struct Certificates {
    files: Vec<CertificateFiles>,
    stamps: Vec<Option<[i64; 4]>>,
    keys: Arc<Keys>,
    /// Answers of authorities that were said to be out of date.
    outdated: Vec<(PathBuf, Staple)>,
}

/// What is being used; the handshakes of all loops look into it.
pub(crate) struct Keys {
    by_name: RwLock<Arc<ByName>>,
    challenges: Challenges,
    /// Which clients are asked for certificates; none are where it is missing.
    asked: RwLock<Option<Arc<AskedHosts>>>,
}

impl fmt::Debug for Keys {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Keys").field("by_name", &self.by_name).finish_non_exhaustive()
    }
}

/// Keys by the names in their certificates.
#[derive(Debug)]
struct ByName {
    /// Lower-case names; a wildcard stands there without its asterisk: `.example.org`.
    /// A host whose certificate is still to be obtained has none.
    names: HashMap<String, Option<Arc<Held>>>,
    /// For a client that asks for no name, or for one that no certificate has; none while all are to be obtained.
    first: Option<Arc<Held>>,
    /// In the order of the configuration.
    told: Arc<[Told]>,
}

/// A key, with what its authority says of it and without.
#[derive(Debug)]
struct Held {
    plain: Arc<CertifiedKey>,
    stapled: Option<(Staple, Arc<CertifiedKey>)>,
}

/// What is told of a certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Told {
    pub(crate) file: PathBuf,
    pub(crate) names: Vec<String>,
    /// Until when it is valid, in seconds since 1970; none if that cannot be read.
    pub(crate) not_after_unix_s: Option<i64>,
    /// The file with what its authority says of it, if any, and from when on that is out of date.
    ocsp: Option<(PathBuf, Staple)>,
}

impl Certificates {
    /// Reads all files.
    ///
    /// # Errors
    ///
    /// The first file that is missing or wrong.
    pub(crate) fn load(files: &[CertificateFiles], challenges: &Challenges) -> Result<Self, TlsError> {
        let stamps = stamps(files);
        let by_name = RwLock::new(Arc::new(ByName::load(files, None)?));
        let keys = Arc::new(Keys { by_name, challenges: challenges.clone(), asked: RwLock::default() });
        Ok(Self { files: files.to_vec(), stamps, keys, outdated: Vec::new() })
    }

    /// What is being used, now and after the files have changed.
    pub(crate) fn keys(&self) -> Arc<Keys> {
        Arc::clone(&self.keys)
    }

    /// What handshakes need: TLS 1.3 and 1.2, tickets for resumption, HTTP/2 before HTTP/1.1.
    ///
    /// # Errors
    ///
    /// Those of rustls where it has no randomness.
    pub(crate) fn config(&self, tickets: &SharedTickets) -> Result<rustls::ServerConfig, rustls::Error> {
        let mut provider = ring::default_provider();
        provider.cipher_suites = CIPHERS.to_vec();
        let builder = rustls::ServerConfig::builder_with_provider(Arc::new(provider));
        let builder = builder.with_safe_default_protocol_versions()?.with_client_cert_verifier(Arc::new(Asking::new()));
        let mut config = builder.with_cert_resolver(Arc::<Keys>::clone(&self.keys));
        config.ignore_client_order = true;
        config.alpn_protocols = [&b"h2"[..], b"http/1.1", b"http/1.0"].map(<[u8]>::to_vec).to_vec();
        if self.files.iter().any(|files| files.obtained_for.is_some()) {
            // The last one: a client that offers anything else is none that checks a challenge.
            config.alpn_protocols.push(ACME_TLS.to_vec());
        }
        // Tickets that any loop can read, under keys that change every six hours unless servers share them; nothing is
        // kept for a client.
        config.ticketer = tickets.ticketer(Carrier::Tcp)?;
        config.session_storage = Arc::new(rustls::server::NoServerSessionStorage {});
        Ok(config)
    }

    /// What handshakes of QUIC need: TLS 1.3 for HTTP/3, with the same certificates.
    ///
    /// # Errors
    ///
    /// Those of rustls where it has no randomness.
    pub(crate) fn quic_config(&self, tickets: &SharedTickets) -> Result<rustls::ServerConfig, rustls::Error> {
        let builder = rustls::ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let builder = builder.with_protocol_versions(&[&rustls::version::TLS13])?;
        let builder = builder.with_client_cert_verifier(Arc::new(Asking::new()));
        let mut config = builder.with_cert_resolver(Arc::<Keys>::clone(&self.keys));
        config.alpn_protocols = vec![b"h3".to_vec()];
        // Other keys than those of TCP: no ticket of one is one of the other.
        config.ticketer = tickets.ticketer(Carrier::Quic)?;
        config.session_storage = Arc::new(rustls::server::NoServerSessionStorage {});
        Ok(config)
    }

    /// Takes up other files; none = they are the same ones, or there are none, as TLS ends with the server only.
    ///
    /// # Errors
    ///
    /// What is wrong with them; what was used before goes on being used.
    pub(crate) fn replace(&mut self, files: &[CertificateFiles]) -> Option<Result<(), TlsError>> {
        if files.is_empty() || files == self.files {
            return None;
        }
        let stamps = stamps(files);
        Some(ByName::load(files, Some(&self.keys.by_name())).map(|loaded| {
            self.files = files.to_vec();
            self.stamps = stamps;
            self.keys.put(loaded);
        }))
    }

    /// Reads the files again if any was changed; none = nothing was.
    ///
    /// # Errors
    ///
    /// What is wrong with the changed files; what was used before goes on being used.
    pub(crate) fn reload(&mut self) -> Option<Result<(), TlsError>> {
        let stamps = stamps(&self.files);
        if stamps == self.stamps {
            return None;
        }
        self.stamps = stamps;
        Some(ByName::load(&self.files, Some(&self.keys.by_name())).map(|loaded| {
            self.keys.put(loaded);
        }))
    }

    /// Answers of authorities that have come out of date since the last question; they are not sent any more.
    pub(crate) fn outdated(&mut self) -> Vec<PathBuf> {
        let now = now_unix_s();
        let told = self.keys.told();
        let are = told.iter().filter_map(|told| told.ocsp.as_ref()).filter(|(_, staple)| !staple.holds(now));
        let are: Vec<_> = are.cloned().collect();
        let new = are.iter().filter(|one| !self.outdated.contains(one)).map(|(file, _)| file.clone()).collect();
        self.outdated = are;
        new
    }
}

impl Keys {
    pub(crate) fn told(&self) -> Arc<[Told]> {
        Arc::clone(&self.by_name().told)
    }

    /// From now on these clients are asked for certificates.
    pub(crate) fn ask(&self, hosts: Option<Arc<AskedHosts>>) {
        if hosts.is_some() {
            client_asking::expect();
        }
        *self.asked.write().unwrap_or_else(PoisonError::into_inner) = hosts;
    }

    fn asks(&self, server_name: Option<&str>) -> bool {
        self.asked.read().unwrap_or_else(PoisonError::into_inner).as_ref().is_some_and(|asks| asks(server_name))
    }

    fn by_name(&self) -> Arc<ByName> {
        Arc::clone(&self.by_name.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn put(&self, keys: ByName) {
        *self.by_name.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(keys);
    }
}

impl ByName {
    /// Reads all files. `before` is what was used until now: where the certificate of a host that is obtained cannot be
    /// read, that is used on.
    fn load(files: &[CertificateFiles], before: Option<&Self>) -> Result<Self, TlsError> {
        let mut names = HashMap::new();
        let mut first = None;
        let mut told = Vec::new();
        for files in files {
            let key = match (key(files), &files.obtained_for) {
                (Ok(key), _) => key,
                (Err(error), None) => return Err(error),
                (Err(error), Some(host)) => {
                    tracing::info!(host, %error, "the certificate is still to be obtained");
                    let used = before.and_then(|before| before.names.get(host).cloned().flatten());
                    if first.is_none() {
                        first.clone_from(&used);
                    }
                    let (file, names_told) = (files.certificate.clone(), vec![host.clone()]);
                    told.push(Told { file, names: names_told, not_after_unix_s: None, ocsp: None });
                    names.entry(host.clone()).or_insert(used);
                    continue;
                }
            };
            let staple = files.ocsp.as_ref().map(|file| staple(file, &key)).transpose()?;
            let leaf = key.cert.first().and_then(|der| webpki::EndEntityCert::try_from(der).ok());
            let in_it: Vec<&str> = leaf.iter().flat_map(|leaf| leaf.valid_dns_names()).collect();
            let not_after_unix_s = key.cert.first().and_then(|der| validity::not_after_unix_s(der));
            let names_told = in_it.iter().map(|&name| name.to_owned()).collect();
            let ocsp = files.ocsp.clone().zip(staple.as_ref().map(|(staple, _)| *staple));
            told.push(Told { file: files.certificate.clone(), names: names_told, not_after_unix_s, ocsp });
            let stapled =
                staple.map(|(staple, answer)| (staple, Arc::new(CertifiedKey { ocsp: Some(answer), ..key.clone() })));
            let held = Arc::new(Held { plain: Arc::new(key.clone()), stapled });
            for name in in_it {
                let name = name.strip_prefix('*').unwrap_or(name).to_ascii_lowercase();
                names.entry(name).or_insert_with(|| Some(Arc::clone(&held)));
            }
            first.get_or_insert(held);
        }
        if files.is_empty() {
            return Err(TlsError::None);
        }
        Ok(Self { names, first, told: told.into() })
    }

    /// None for a host whose certificate is still to be obtained.
    fn find(&self, name: Option<&str>) -> Option<&Held> {
        let found = name.and_then(|name| {
            // rustls gives names in lower case.
            let parent = name.find('.').map(|dot| &name[dot..]);
            self.names.get(name).or_else(|| self.names.get(parent?))
        });
        found.unwrap_or(&self.first).as_deref()
    }
}

impl Held {
    fn at(&self, now_unix_s: i64) -> Arc<CertifiedKey> {
        let stapled = self.stapled.as_ref().filter(|(staple, _)| staple.holds(now_unix_s));
        Arc::clone(stapled.map_or(&self.plain, |(_, key)| key))
    }
}

impl ResolvesServerCert for Keys {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let is_challenge = || hello.alpn().is_some_and(|mut offered| offered.next() == Some(ACME_TLS));
        if self.challenges.is_any() && is_challenge() {
            client_asking::found(false);
            return self.challenges.tls_alpn01(hello.server_name()?);
        }
        client_asking::found(self.asks(hello.server_name()));
        Some(self.by_name().find(hello.server_name())?.at(now_unix_s()))
    }
}

fn key(files: &CertificateFiles) -> Result<CertifiedKey, TlsError> {
    let unreadable = |path: &Path| {
        let path = path.to_owned();
        move |source| TlsError::Unreadable { path, source }
    };
    let chain = read(&files.certificate)
        .and_then(|text| CertificateDer::pem_slice_iter(&text).collect::<Result<Vec<_>, _>>())
        .map_err(unreadable(&files.certificate))?;
    if chain.is_empty() {
        return Err(TlsError::NoCertificate { path: files.certificate.clone() });
    }
    let key = read(&files.key).and_then(|text| PrivateKeyDer::from_pem_slice(&text)).map_err(unreadable(&files.key))?;
    CertifiedKey::from_der(chain, key, &ring::default_provider()).map_err(|source| TlsError::Unusable {
        certificate: files.certificate.clone(),
        key: files.key.clone(),
        source,
    })
}

/// What the authority of a certificate says of it.
fn staple(path: &Path, key: &CertifiedKey) -> Result<(Staple, Vec<u8>), TlsError> {
    let wrong = |why: String| TlsError::Staple { path: path.to_owned(), why };
    let answer = read_some(path).map_err(|error| wrong(error.to_string()))?;
    let certificate = key.cert.first().map_or(&[][..], |der| der);
    let staple = Staple::read(&answer, certificate).map_err(|why| wrong(why.to_owned()))?;
    Ok((staple, answer))
}

fn read(path: &Path) -> Result<Vec<u8>, pem::Error> {
    read_some(path).map_err(pem::Error::Io)
}

/// No more of a file than any certificate has: it may be named by mistake.
fn read_some(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(FILE_BYTES_MAX).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn now_unix_s() -> i64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_secs()).unwrap_or(i64::MAX)
}

/// What tells changed files from unchanged ones: inode, size and both times of the last change.
fn stamps(files: &[CertificateFiles]) -> Vec<Option<[i64; 4]>> {
    let stamp = |path: &Path| {
        let metadata = std::fs::metadata(path).ok()?;
        let (ino, size) = (metadata.ino().cast_signed(), metadata.size().cast_signed());
        Some([ino, size, metadata.ctime(), metadata.ctime_nsec()])
    };
    files.iter().flat_map(CertificateFiles::paths).map(|path| stamp(path)).collect()
}
