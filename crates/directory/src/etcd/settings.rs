//! Where etcd is, and how we prove to it who we are.

use crate::error::DirectoryError;
use std::fs::File;
use std::io::Read;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use ureq::tls::{Certificate, ClientCert, PemItem, PrivateKey, RootCerts, TlsConfig, parse_pem};

/// Bytes of a file of certificates or of a key.
const PEM_BYTES_MAX: u64 = 1 << 20;
/// Endpoints.
const ENDPOINTS_MAX: usize = 16;

/// Files in PEM for mutual TLS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// The authorities that the other side's certificate must come from.
    pub ca: PathBuf,
    /// Our certificate, with its chain.
    pub certificate: PathBuf,
    /// Its key.
    pub key: PathBuf,
}

/// How etcd is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EtcdSettings {
    /// URLs of its members, such as `https://10.0.0.1:2379`; `http://` is possible at loopback addresses only.
    pub endpoints: Vec<String>,
    /// What stands before all keys, such as `weir/shop/`, so that clusters can share an etcd.
    pub prefix: String,
    /// For endpoints with `https://`. An etcd that wants certificates of its clients (`--client-cert-auth`) uses
    /// its own for the gateway: that one must be for clients as well as for servers.
    pub tls: Option<TlsFiles>,
    /// How long an operation may take, over all members.
    pub patience: Duration,
}

impl EtcdSettings {
    /// For these endpoints, with 5 s for an operation.
    #[must_use]
    pub fn new(endpoints: Vec<String>, prefix: &str) -> Self {
        Self { endpoints, prefix: prefix.to_owned(), tls: None, patience: Duration::from_secs(5) }
    }

    /// Refuses what cannot be used.
    pub(super) fn check(&self) -> Result<(), DirectoryError> {
        let wrong = |setting, why: String| Err(DirectoryError::Setting { setting, why });
        if self.endpoints.is_empty() || self.endpoints.len() > ENDPOINTS_MAX {
            return wrong("endpoints", format!("give 1 to {ENDPOINTS_MAX} URLs"));
        }
        for url in &self.endpoints {
            if let Some(host) = host_of(url, "http://") {
                if !is_loopback(host) {
                    let why = format!("{url} would be asked in the clear; give https:// and certificates");
                    return wrong("endpoints", why);
                }
            } else if host_of(url, "https://").is_none() {
                return wrong("endpoints", format!("{url:?} is no URL like https://10.0.0.1:2379"));
            } else if self.tls.is_none() {
                return wrong("tls", format!("{url} needs an authority, a certificate and a key"));
            }
        }
        if self.prefix.is_empty() || !self.prefix.bytes().all(|byte| byte.is_ascii_graphic()) {
            return wrong("prefix", "give one such as `weir/`, without blanks".to_owned());
        }
        if self.patience < Duration::from_millis(100) || self.patience > Duration::from_secs(600) {
            return wrong("patience", "take 0.1 to 600 s".to_owned());
        }
        Ok(())
    }

    /// What ureq needs for TLS.
    pub(super) fn tls_config(&self) -> Result<TlsConfig, DirectoryError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = TlsConfig::builder().unversioned_rustls_crypto_provider(provider);
        let Some(files) = &self.tls else {
            return Ok(builder.root_certs(RootCerts::new_with_certs(&[])).build());
        };
        let roots = certificates(&files.ca)?;
        let own = certificates(&files.certificate)?;
        let key = PrivateKey::from_pem(&contents(&files.key)?)
            .map_err(|_| file_error(&files.key, "it holds no key in PEM".to_owned()))?;
        let client = ClientCert::new_with_certs(&own, key);
        Ok(builder.root_certs(RootCerts::new_with_certs(&roots)).client_cert(Some(client)).build())
    }
}

/// The host of a URL that has this scheme, a host and a port, and no more than a `/` behind them.
fn host_of<'a>(url: &'a str, scheme: &str) -> Option<&'a str> {
    let rest = url.strip_prefix(scheme)?;
    let (host, port) = rest.strip_suffix('/').unwrap_or(rest).rsplit_once(':')?;
    port.parse::<u16>().ok()?;
    let is_good =
        !host.is_empty() && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-:[]_".contains(&byte));
    is_good.then_some(host)
}

/// Whether a host is of this machine.
pub(crate) fn is_loopback(host: &str) -> bool {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || bare.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

fn certificates(path: &Path) -> Result<Vec<Certificate<'static>>, DirectoryError> {
    let mut found = Vec::new();
    for item in parse_pem(&contents(path)?) {
        match item {
            Ok(PemItem::Certificate(certificate)) => found.push(certificate),
            Ok(_) => {}
            Err(error) => return Err(file_error(path, format!("{error}; give a file of PEM"))),
        }
    }
    if found.is_empty() {
        return Err(file_error(path, "it holds no certificate in PEM".to_owned()));
    }
    Ok(found)
}

fn contents(path: &Path) -> Result<Vec<u8>, DirectoryError> {
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(PEM_BYTES_MAX).read_to_end(&mut bytes))
        .map_err(|error| file_error(path, format!("{error}; give a file of PEM")))?;
    Ok(bytes)
}

fn file_error(path: &Path, why: String) -> DirectoryError {
    DirectoryError::File { path: path.to_owned(), why }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clear_is_for_this_machine_only() {
        let of =
            |url: &str| EtcdSettings::new(vec![url.to_owned()], "weir/").check().map_err(|error| error.to_string());
        for good in ["http://127.0.0.1:2379", "http://[::1]:2379/", "http://localhost:1"] {
            assert_eq!(of(good), Ok(()), "{good}");
        }
        let clear = ["http://10.0.0.1:2379", "http://localhost.example:1", "http://127.0.0.1.example:1"];
        assert!(clear.into_iter().all(|url| of(url).expect_err(url).contains("in the clear")));
        assert!(of("https://127.0.0.1:2379").expect_err("no files").contains("needs an authority"));
        for wrong in ["", "127.0.0.1:2379", "http://127.0.0.1", "http://127.0.0.1:x", "http://a@b:1/x:2", "ftp://a:1"] {
            assert!(of(wrong).is_err(), "{wrong}");
        }
        assert!(EtcdSettings::new(Vec::new(), "weir/").check().is_err());
        assert!(EtcdSettings::new(vec!["http://127.0.0.1:1".to_owned()], "").check().is_err());
    }
}
