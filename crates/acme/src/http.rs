//! Bounded HTTP requests to the authority.

use crate::error::AcmeError;
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use ureq::config::AutoHeaderValue;
use ureq::tls::{Certificate, RootCerts, TlsConfig};

/// How long one request may take, from the name's look-up to the last byte.
const PATIENCE: Duration = Duration::from_secs(30);
/// Bytes of a response; a longer one is refused. Chains have some 10 KiB.
const BODY_BYTES_MAX: u64 = 256 << 10;
/// Bytes of a file with authorities.
const CA_BYTES_MAX: u64 = 4 << 20;
/// The longest that the authority's `Retry-After` is followed.
pub(crate) const RETRY_AFTER_MAX: Duration = Duration::from_secs(86_400);
/// Letters of a URL that are told.
const URL_LETTERS_MAX: usize = 2048;

/// What the authority answered.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// `Replay-Nonce`: for the next request.
    pub(crate) nonce: Option<String>,
    pub(crate) location: Option<String>,
    pub(crate) retry_after: Option<Duration>,
    pub(crate) body: Vec<u8>,
}

/// Asks the authority.
#[derive(Debug)]
pub(crate) struct Http {
    agent: ureq::Agent,
    /// Whether `http://` is allowed: where the directory is on this machine.
    allows_clear: bool,
}

impl Http {
    /// For the authority with this directory.
    ///
    /// # Errors
    ///
    /// The URL is not https, or the file of authorities cannot be used.
    pub(crate) fn new(directory: &str, ca: Option<&Path>) -> Result<Self, AcmeError> {
        let allows_clear = is_of_loopback(directory);
        let roots = match ca {
            Some(path) => roots_of(path)?,
            None if allows_clear => Vec::new(),
            None => {
                let native = rustls_native_certs::load_native_certs();
                native.certs.iter().map(|der| Certificate::from_der(der).to_owned()).collect()
            }
        };
        let tls = TlsConfig::builder()
            .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .root_certs(RootCerts::new_with_certs(&roots))
            .build();
        let config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            // Signed requests name their URL, so that a redirected one would be refused anyhow.
            .max_redirects(0)
            .tls_config(tls)
            .accept(AutoHeaderValue::None)
            .accept_encoding(AutoHeaderValue::None)
            .user_agent(AutoHeaderValue::from(concat!("weir/", env!("CARGO_PKG_VERSION"))))
            .timeout_global(Some(PATIENCE))
            .build();
        let http = Self { agent: config.new_agent(), allows_clear };
        http.check(directory)?;
        Ok(http)
    }

    /// The authority names most URLs itself: none of them may lead a request elsewhere than to a TLS server.
    fn check(&self, url: &str) -> Result<(), AcmeError> {
        let is_good = url.len() <= URL_LETTERS_MAX
            && url.bytes().all(|byte| byte.is_ascii_graphic())
            && (url.starts_with("https://") || self.allows_clear && is_of_loopback(url));
        if is_good { Ok(()) } else { Err(AcmeError::Url { url: shown(url) }) }
    }

    pub(crate) fn get(&self, url: &str) -> Result<Answer, AcmeError> {
        self.check(url)?;
        answer(url, self.agent.get(url).call())
    }

    pub(crate) fn head(&self, url: &str) -> Result<Answer, AcmeError> {
        self.check(url)?;
        answer(url, self.agent.head(url).call())
    }

    /// Posts a JWS (RFC 8555 section 6.2).
    pub(crate) fn post(&self, url: &str, jws: &str) -> Result<Answer, AcmeError> {
        self.check(url)?;
        answer(url, self.agent.post(url).header("content-type", "application/jose+json").send(jws))
    }
}

/// Whether a URL is `http://` at a loopback address.
fn is_of_loopback(url: &str) -> bool {
    let Some(rest) = url.strip_prefix("http://") else { return false };
    let authority = rest.split('/').next().unwrap_or_default();
    let host = authority.rsplit_once(':').map_or(authority, |(host, _)| host);
    ["127.0.0.1", "[::1]", "localhost"].contains(&host)
}

fn shown(url: &str) -> String {
    url.chars().filter(|letter| !letter.is_control()).take(200).collect()
}

fn roots_of(path: &Path) -> Result<Vec<Certificate<'static>>, AcmeError> {
    let wrong = |why: String| AcmeError::File { path: path.to_owned(), why };
    let mut text = Vec::new();
    std::fs::File::open(path)
        .and_then(|file| file.take(CA_BYTES_MAX).read_to_end(&mut text))
        .map_err(|error| wrong(format!("{error}; give a file of PEM")))?;
    let certificates = CertificateDer::pem_slice_iter(&text).collect::<Result<Vec<_>, _>>();
    let certificates = certificates.map_err(|error| wrong(format!("{error}; give a file of PEM")))?;
    if certificates.is_empty() {
        return Err(wrong("it holds no certificate; give the authority's in PEM".to_owned()));
    }
    Ok(certificates.iter().map(|der| Certificate::from_der(der).to_owned()).collect())
}

fn answer(url: &str, got: Result<ureq::http::Response<ureq::Body>, ureq::Error>) -> Result<Answer, AcmeError> {
    let unreachable = |error: ureq::Error| {
        let why = match error {
            ureq::Error::Timeout(_) => format!("no answer within {} s", PATIENCE.as_secs()),
            other => other.to_string(),
        };
        AcmeError::Unreachable { url: shown(url), why }
    };
    let mut response = got.map_err(unreachable)?;
    let field = |name: &str| response.headers().get(name).and_then(|value| Some(value.to_str().ok()?.to_owned()));
    let (nonce, location) = (field("replay-nonce"), field("location"));
    let retry_after = field("retry-after").and_then(|text| retry_after(&text, SystemTime::now()));
    let status = response.status().as_u16();
    let body = match response.body_mut().with_config().limit(BODY_BYTES_MAX).read_to_vec() {
        Ok(body) => body,
        Err(ureq::Error::BodyExceedsLimit(_)) => {
            let why = format!("the answer has more than {BODY_BYTES_MAX} bytes");
            return Err(AcmeError::NotAcme { url: shown(url), why });
        }
        Err(error) => return Err(unreachable(error)),
    };
    tracing::debug!(url, status, "ACME answer");
    Ok(Answer { status, nonce, location, retry_after, body })
}

/// The time of `Retry-After` (RFC 9110 section 10.2.3): seconds, or a date.
fn retry_after(text: &str, now: SystemTime) -> Option<Duration> {
    let text = text.trim();
    let wanted = match text.parse::<u64>() {
        Ok(seconds) => Duration::from_secs(seconds),
        Err(_) => {
            let date = chrono::DateTime::parse_from_rfc2822(text).ok()?.timestamp();
            let now = now.duration_since(SystemTime::UNIX_EPOCH).ok()?.as_secs();
            Duration::from_secs(u64::try_from(date).ok()?.saturating_sub(now))
        }
    };
    Some(wanted.min(RETRY_AFTER_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_445_412_420);
        let of = |text| retry_after(text, now).map(|time| time.as_secs());
        assert_eq!(of("120"), Some(120));
        assert_eq!(of("Wed, 21 Oct 2015 07:28:00 GMT"), Some(60));
        assert_eq!(of("Tue, 21 Oct 2014 07:28:00 GMT"), Some(0));
        assert_eq!(of("999999999999"), Some(86_400));
        assert_eq!((of("soon"), of("-1"), of("")), (None, None, None));
    }

    #[test]
    fn requests_go_to_tls_servers_only_or_to_this_machine() {
        let http = Http::new("https://a.example/dir", Some(Path::new("/nowhere"))).expect_err("no such file");
        assert!(http.to_string().contains("/nowhere"), "{http}");
        for wrong in ["http://a.example/dir", "ftp://a", "", "http://127.0.0.1.example/x"] {
            assert!(matches!(Http::new(wrong, None), Err(AcmeError::Url { .. })), "{wrong}");
        }
        let local = Http::new("http://127.0.0.1:1/dir", None).expect("this machine");
        assert!(local.check("http://10.0.0.1/x").is_err() && local.check("http://127.0.0.1:2/x").is_ok());
        assert!(local.check("https://a.example/x\r\ny").is_err());
    }

    proptest! {
        #[test]
        fn no_text_makes_it_fail(text: String) {
            retry_after(&text, SystemTime::UNIX_EPOCH);
            is_of_loopback(&text);
        }
    }
}
