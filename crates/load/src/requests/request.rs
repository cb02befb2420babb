//! What is asked, built once as the bytes that go over the wire.

use crate::Url;
use crate::error::request::RequestError;
use crate::requests::base64;

/// A request, before it is bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// The method, such as `GET`; never `CONNECT`.
    pub method: String,
    /// Headers beyond those that the generator sets; Host and User-Agent given here take the place of its own.
    pub headers: Vec<(String, String)>,
    /// The body, empty for none.
    pub body: Vec<u8>,
    /// Dictionary id of the request's name, written into its events.
    pub name: u32,
    /// The version of HTTP that its first line says.
    pub version: Version,
}

/// A version of HTTP/1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Version {
    /// HTTP/1.0: a connection carries more than one request only where both sides say so.
    Http10,
    /// HTTP/1.1.
    #[default]
    Http11,
}

impl Default for Request {
    fn default() -> Self {
        Self { method: "GET".to_owned(), headers: Vec::new(), body: Vec::new(), name: 0, version: Version::default() }
    }
}

impl Request {
    /// Splits `Name: value`.
    ///
    /// # Errors
    /// [`RequestError::Header`] for anything else, control characters included.
    pub fn header(text: &str) -> Result<(String, String), RequestError> {
        let (name, value) = check_header(text)?;
        if name.eq_ignore_ascii_case("host") && !value.is_ascii() {
            return Ok((name.to_owned(), crate::requests::host::of_header(value)));
        }
        Ok((name.to_owned(), value.to_owned()))
    }

    /// The header of basic authentication (RFC 7617).
    ///
    /// # Errors
    /// [`RequestError::User`], if the name or the password cannot be sent.
    pub fn basic(name: &str, password: &str) -> Result<(String, String), RequestError> {
        if name.contains(':') || name.contains(char::is_control) || password.contains(char::is_control) {
            return Err(RequestError::User);
        }
        Ok(("Authorization".to_owned(), format!("Basic {}", base64::encode(format!("{name}:{password}").as_bytes()))))
    }

    /// Whether the response has no body even if its head gives a length.
    #[must_use]
    pub fn is_head(&self) -> bool {
        self.method == "HEAD"
    }

    /// Whether asking twice is the same as asking once (RFC 9110 9.2.2), so that an aborted request may be repeated.
    #[must_use]
    pub fn is_idempotent(&self) -> bool {
        matches!(self.method.as_str(), "GET" | "HEAD" | "OPTIONS" | "TRACE" | "PUT" | "DELETE")
    }

    /// Whether its own headers ask the server to close the connection.
    #[must_use]
    pub fn asks_to_close(&self) -> bool {
        self.headers.iter().any(|(name, value)| {
            name.eq_ignore_ascii_case("connection")
                && value.split(',').any(|option| option.trim().eq_ignore_ascii_case("close"))
        })
    }

    /// The request as it goes over the wire.
    ///
    /// # Errors
    /// See [`RequestError`].
    pub fn bytes(&self, url: &Url, keep_alive: bool) -> Result<Vec<u8>, RequestError> {
        if !is_token(&self.method) || self.method == "CONNECT" {
            return Err(RequestError::Method { method: self.method.clone() });
        }
        let given = |name: &str| self.headers.iter().any(|(given, _)| given.eq_ignore_ascii_case(name));
        for name in ["Content-Length", "Transfer-Encoding"] {
            if given(name) {
                return Err(RequestError::Framing { name: name.to_owned() });
            }
        }
        let version = match self.version {
            Version::Http10 => "1.0",
            Version::Http11 => "1.1",
        };
        let own: usize = self.headers.iter().map(|(name, value)| name.len() + value.len() + 4).sum();
        let mut head = String::with_capacity(160 + url.target.len() + url.host.len() + own + self.body.len());
        for part in [&self.method, " ", &url.target, " HTTP/", version, "\r\n"] {
            head.push_str(part);
        }
        if !given("Host") {
            head.push_str(&format!("Host: {}\r\n", url.authority()));
        }
        if !given("User-Agent") {
            head.push_str(concat!("User-Agent: weir/", env!("CARGO_PKG_VERSION"), "\r\n"));
        }
        match self.version {
            _ if given("Connection") => {}
            Version::Http11 if !keep_alive => head.push_str("Connection: close\r\n"),
            Version::Http10 if keep_alive => head.push_str("Connection: keep-alive\r\n"),
            _ => {}
        }
        for (name, value) in &self.headers {
            let from = head.len();
            for part in [name, ": ", value] {
                head.push_str(part);
            }
            check_header(&head[from..])?;
            head.push_str("\r\n");
        }
        // RFC 9110 8.6: a method that means a body says its length even when there is none.
        if !self.body.is_empty() || matches!(self.method.as_str(), "POST" | "PUT" | "PATCH") {
            head.push_str(&format!("Content-Length: {}\r\n", self.body.len()));
        }
        head.push_str("\r\n");
        let mut bytes = head.into_bytes();
        bytes.extend_from_slice(&self.body);
        Ok(bytes)
    }
}

/// Takes `Name: value` apart, if it can be sent.
fn check_header(text: &str) -> Result<(&str, &str), RequestError> {
    let wrong = || RequestError::Header { header: text.to_owned() };
    let (name, value) = text.split_once(':').ok_or_else(wrong)?;
    let value = value.trim();
    if !is_token(name) || value.bytes().any(|byte| byte < b' ' && byte != b'\t' || byte == 0x7f) {
        return Err(wrong());
    }
    Ok((name, value))
}

/// Whether a text is a token of RFC 9110 5.6.2.
fn is_token(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn built(request: &Request, keep_alive: bool) -> String {
        let url = Url::parse("http://h:81/p").expect("a URL");
        String::from_utf8(request.bytes(&url, keep_alive).expect("a request")).expect("text")
    }

    #[test]
    fn bytes_say_what_was_asked_for() {
        let get = built(&Request::default(), true);
        assert!(get.starts_with("GET /p HTTP/1.1\r\nHost: h:81\r\nUser-Agent: weir/"));
        assert!(!get.contains("Content-Length") && !get.contains("Connection"));
        let headers = vec![Request::header("host: other").expect("a header")];
        let post =
            built(&Request { method: "POST".into(), headers, body: b"abc".to_vec(), ..Request::default() }, false);
        assert!(post.contains("host: other\r\n") && !post.contains("Host: h"));
        assert!(post.contains("Connection: close\r\n") && post.ends_with("Content-Length: 3\r\n\r\nabc"));
    }

    #[test]
    fn the_old_version_asks_to_keep_its_connection() {
        let old = Request { version: Version::Http10, ..Request::default() };
        let kept = built(&old, true);
        assert!(
            kept.starts_with("GET /p HTTP/1.0\r\nHost: h:81\r\n") && kept.contains("\r\nConnection: keep-alive\r\n")
        );
        assert!(!built(&old, false).contains("Connection"));
    }

    #[test]
    fn credentials_are_encoded() {
        // The example of RFC 7617 2.
        let basic = |name, password| Request::basic(name, password).map(|(_, value)| value);
        assert_eq!(basic("Aladdin", "open sesame"), Ok("Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==".to_owned()));
        assert_eq!(basic("a:b", "c"), Err(RequestError::User));
    }

    #[test]
    fn nothing_can_be_smuggled_in() {
        let url = Url::parse("http://h/").expect("a URL");
        let with = |name: &str, value: &str| {
            Request { headers: vec![(name.into(), value.into())], ..Request::default() }.bytes(&url, true)
        };
        assert!(matches!(with("X", "a\r\nY: b"), Err(RequestError::Header { .. })));
        assert!(matches!(with("content-length", "3"), Err(RequestError::Framing { .. })));
        assert!(Request::header("no colon").is_err());
        let tunnel = Request { method: "CONNECT".into(), ..Request::default() };
        assert!(matches!(tunnel.bytes(&url, true), Err(RequestError::Method { .. })));
    }
}
