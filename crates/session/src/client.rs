//! The client: plain, blocking, one request after the other; redirects and cookies are followed here, so that each
//! step is seen.

use crate::content::{self, UploadError, base64};
use crate::cookies::Jar;
use crate::forgiving::{HEADS_BYTES_MAX, Seen, agent};
use crate::suite::Ask;
pub use crate::trust::{Trust, TrustError};
use std::io;
use std::time::{Duration, Instant, SystemTime};
use url::Url;

/// A response's content may be so large.
pub const CONTENT_BYTES_MAX: u64 = 256 << 20;
/// Redirects that are followed for one test.
pub const REDIRECTS_MAX: usize = 10;

/// One request and its response.
#[derive(Debug, Clone)]
pub struct Step {
    /// The method.
    pub method: String,
    /// The address.
    pub address: Url,
    /// The header fields that were sent, but for Host.
    pub sent: Vec<(String, String)>,
    /// Such as `HTTP/1.1`.
    pub version: String,
    /// The status.
    pub status: u16,
    /// The header fields that came.
    pub received: Vec<(String, String)>,
    /// The content.
    pub content: Vec<u8>,
}

impl Step {
    /// The first value of a header field that came; the name in small letters.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.received.iter().find(|(own, _)| own.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    /// Such as `404 Not Found`.
    #[must_use]
    pub fn status_line(&self) -> String {
        let reason = ureq::http::StatusCode::from_u16(self.status).ok();
        match reason.and_then(|status| status.canonical_reason()) {
            Some(reason) => format!("{} {reason}", self.status),
            None => self.status.to_string(),
        }
    }
}

/// All that a test's request led to.
#[derive(Debug, Clone)]
pub struct Exchange {
    /// The last step, whose response is judged.
    pub last: Step,
    /// Address and status of the redirects before it.
    pub redirects: Vec<(Url, u16)>,
    /// From the begin of the first request to the end of the last response, in seconds.
    pub seconds: f64,
    /// What was odd about the responses and was taken all the same, as deployed clients do.
    pub tolerated: Vec<&'static str>,
}

/// Why there is no response.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// The request's own file.
    #[error(transparent)]
    Upload(#[from] UploadError),
    /// A header field or method that cannot be sent.
    #[error("the request cannot be sent: {0}")]
    Request(String),
    /// The proxy's address.
    #[error("the proxy {0} has no address that can be used; write http://HOST:PORT")]
    Proxy(String),
    /// Time is up.
    #[error("no whole response within {0} s")]
    Timeout(f64),
    /// Redirects do not end.
    #[error("more than {REDIRECTS_MAX} redirects; the last leads to {0}")]
    Redirects(Url),
    /// A redirect leads to nowhere.
    #[error("the redirect to `{0}` cannot be followed")]
    Location(String),
    /// The content is larger than what is read.
    #[error("the response is larger than {CONTENT_BYTES_MAX} bytes")]
    TooLarge,
    /// The network, the server's name, TLS, or what came is not HTTP.
    #[error("{0}")]
    Transport(String),
}

/// Sends requests over connections that it keeps.
#[derive(Debug, Clone)]
pub struct Client {
    agent: ureq::Agent,
    /// What was odd about responses.
    seen: Seen,
}

impl Client {
    /// A client that believes these certificates.
    ///
    /// # Errors
    /// A file of certificates that is none.
    pub fn new(trust: &Trust) -> Result<Self, TrustError> {
        let config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .max_response_header_size(HEADS_BYTES_MAX)
            .input_buffer_size(HEADS_BYTES_MAX)
            .allow_non_standard_methods(true)
            // A test says all that it sends; nothing is taken from the environment.
            .proxy(None)
            .accept(ureq::config::AutoHeaderValue::None)
            .accept_encoding(ureq::config::AutoHeaderValue::None)
            .user_agent(ureq::config::AutoHeaderValue::None)
            .build();
        let seen = Seen::default();
        Ok(Self { agent: agent(config, trust, &seen)?, seen })
    }

    /// Asks for an address, and follows redirects if the request wants it.
    ///
    /// # Errors
    /// The reason why no whole response came.
    pub fn ask(&self, ask: &Ask, address: &Url, jar: &mut Jar) -> Result<Exchange, AskError> {
        let (mut method, mut address) = (ask.method.clone(), address.clone());
        let first_origin = address.origin();
        let mut body = None;
        if let Some(given) = &ask.body {
            body = Some(given.clone());
        } else if method == "GET" || method == "HEAD" {
            if !ask.fields.is_empty() {
                let more = content::urlencoded(&ask.fields);
                let query = address.query().filter(|query| !query.is_empty());
                let query = query.map_or_else(|| more.clone(), |query| format!("{query}&{more}"));
                address.set_query(Some(&query));
            }
        } else if method == "POST" || !ask.fields.is_empty() {
            body = Some(content::body(&ask.fields)?);
        }
        let begin = Instant::now();
        let mut redirects = Vec::new();
        self.seen.take();
        loop {
            let left = ask.timeout.checked_sub(begin.elapsed()).filter(|left| !left.is_zero());
            let left = left.ok_or(AskError::Timeout(ask.timeout.as_secs_f64()))?;
            let sent = fields(ask, &address, address.origin() == first_origin, body.as_ref(), jar);
            let step = self.step(ask, &method, &address, sent, body.as_ref().map(|(_, bytes)| &**bytes), left)?;
            if ask.accept_cookies {
                let now = SystemTime::now();
                for (_, field) in step.received.iter().filter(|(name, _)| name.eq_ignore_ascii_case("set-cookie")) {
                    jar.set(field, &address, now);
                }
            }
            let location = step.header("location").filter(|_| [301, 302, 303, 307, 308].contains(&step.status));
            let Some(location) = location.filter(|_| ask.follow) else {
                let tolerated = self.seen.take().iter().map(weir_client::Oddity::words).collect();
                return Ok(Exchange { last: step, redirects, seconds: begin.elapsed().as_secs_f64(), tolerated });
            };
            let mut next = address.join(location).map_err(|_| AskError::Location(location.to_owned()))?;
            if !["http", "https"].contains(&next.scheme()) {
                return Err(AskError::Location(location.to_owned()));
            }
            if next.fragment().is_none() {
                next.set_fragment(address.fragment());
            }
            // As browsers do: what was posted is not posted again unless the status says so.
            if step.status == 303 && method != "HEAD" || [301, 302].contains(&step.status) && method == "POST" {
                "GET".clone_into(&mut method);
                body = None;
            }
            redirects.push((address, step.status));
            if redirects.len() > REDIRECTS_MAX {
                return Err(AskError::Redirects(next));
            }
            address = next;
        }
    }

    fn step(
        &self,
        ask: &Ask,
        method: &str,
        address: &Url,
        sent: Vec<(String, String)>,
        body: Option<&[u8]>,
        left: Duration,
    ) -> Result<Step, AskError> {
        let mut without_fragment = address.clone();
        without_fragment.set_fragment(None);
        let mut request = ureq::http::Request::builder().method(method).uri(without_fragment.as_str());
        for (name, value) in &sent {
            // From bytes, as a value may have letters beyond ASCII (RFC 9110 5.5).
            request = request.header(name, value.as_bytes());
        }
        let proxy = proxy(ask, address)?;
        let refuse = |error: ureq::http::Error| AskError::Request(error.to_string());
        let failed = |error| failed(error, ask.timeout);
        // A method that means a body says its length even when there is none (RFC 9110 8.6).
        let body = body.or_else(|| matches!(method, "POST" | "PUT" | "PATCH").then_some(&[]));
        let mut response = match body {
            Some(body) => {
                let request = request.body(body).map_err(refuse)?;
                let request = self.agent.configure_request(request).timeout_global(Some(left)).proxy(proxy).build();
                self.agent.run(request)
            }
            None => {
                let request = request.body(()).map_err(refuse)?;
                let request = self.agent.configure_request(request).timeout_global(Some(left)).proxy(proxy).build();
                self.agent.run(request)
            }
        }
        .map_err(failed)?;
        let content = response.body_mut().with_config().limit(CONTENT_BYTES_MAX).read_to_vec().map_err(failed)?;
        let received = response
            .headers()
            .iter()
            .map(|(name, value)| (name.as_str().to_owned(), String::from_utf8_lossy(value.as_bytes()).into_owned()));
        Ok(Step {
            method: method.to_owned(),
            address: address.clone(),
            sent,
            version: format!("{:?}", response.version()),
            status: response.status().as_u16(),
            received: received.collect(),
            content,
        })
    }
}

/// The header fields of a request; those that are given take the place of ours.
fn fields(
    ask: &Ask,
    address: &Url,
    same_origin: bool,
    body: Option<&(String, Vec<u8>)>,
    jar: &Jar,
) -> Vec<(String, String)> {
    let mut fields = vec![("user-agent".to_owned(), ask.user_agent.clone())];
    // Sizes are those of the content itself.
    fields.push(("accept-encoding".to_owned(), "identity".to_owned()));
    if let Some((kind, _)) = body
        && !kind.is_empty()
    {
        fields.push(("content-type".to_owned(), kind.clone()));
    }
    if let Some((user, password)) = &ask.login
        // A redirect to another server must not tell it the password.
        && same_origin
    {
        fields.push(("authorization".to_owned(), basic(user, password)));
    }
    if ask.send_cookies
        && let Some(cookies) = jar.field(address, SystemTime::now())
    {
        fields.push(("cookie".to_owned(), cookies));
    }
    let given: Vec<(String, String)> = ask
        .headers
        .iter()
        .map(|(name, value)| (name.to_ascii_lowercase(), value.clone()))
        .filter(|(name, _)| {
            same_origin || !["authorization", "cookie", "proxy-authorization", "host"].contains(&name.as_str())
        })
        .collect();
    fields.retain(|(own, _)| !given.iter().any(|(name, _)| name == own));
    fields.extend(given);
    fields
}

fn basic(user: &str, password: &str) -> String {
    format!("Basic {}", base64(format!("{user}:{password}").as_bytes()))
}

fn proxy(ask: &Ask, address: &Url) -> Result<Option<ureq::Proxy>, AskError> {
    let Some((_, proxy)) = ask.proxies.iter().find(|(scheme, _)| scheme.eq_ignore_ascii_case(address.scheme())) else {
        return Ok(None);
    };
    let wrong = || AskError::Proxy(proxy.clone());
    let mut url = Url::parse(proxy).map_err(|_| wrong())?;
    if !["http", "https"].contains(&url.scheme()) {
        return Err(wrong());
    }
    if let Some((user, password)) = &ask.proxy_login {
        url.set_username(user).map_err(|()| wrong())?;
        url.set_password(Some(password)).map_err(|()| wrong())?;
    }
    ureq::Proxy::new(url.as_str()).map(Some).map_err(|_| wrong())
}

/// What went wrong with TLS, and what helps, if it was TLS.
fn tls_error(error: &io::Error) -> Option<String> {
    let error: &rustls::Error = error.get_ref()?.downcast_ref()?;
    let words = weir_client::tls_words::of_library(error);
    let advice = match error {
        rustls::Error::InvalidCertificate(_) => {
            "; trust its issuer, or itself, with --ca FILE, or any certificate with --insecure"
        }
        rustls::Error::InvalidMessage(_) => "; does the server speak TLS there? Plain HTTP is http://",
        _ => "",
    };
    Some(format!("no TLS session could be agreed on: {words}{advice}"))
}

fn failed(error: ureq::Error, timeout: Duration) -> AskError {
    match error {
        ureq::Error::Timeout(_) => AskError::Timeout(timeout.as_secs_f64()),
        ureq::Error::BodyExceedsLimit(_) => AskError::TooLarge,
        ureq::Error::HostNotFound => AskError::Transport("the server's name is not known".to_owned()),
        ureq::Error::Http(error) => AskError::Request(error.to_string()),
        ureq::Error::Io(error) => AskError::Transport(match error.kind() {
            io::ErrorKind::ConnectionRefused => "the connection was refused: nothing listens there".to_owned(),
            _ if tls_error(&error).is_some() => tls_error(&error).unwrap_or_default(),
            io::ErrorKind::UnexpectedEof => "the connection was closed before the response was whole".to_owned(),
            _ => error.to_string(),
        }),
        other => AskError::Transport(other.to_string()),
    }
}
