//! ApacheBench's URL and the bytes of its request.

use super::arguments::{Arguments, PROXY_AUTHORIZATION};
use weir_load::{Url, host};

/// The longest request without its body, in bytes.
const REQUEST_BYTES_MAX: usize = 8192;

/// A URL as ab takes it apart: the scheme may be missing, the slash behind the host may not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) encrypted: bool,
    /// Without brackets.
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) path: String,
    /// With brackets around an IPv6 address.
    host_field: String,
}

impl Target {
    /// `None` for what ab calls an invalid URL.
    pub(super) fn parse(url: &str) -> Option<Self> {
        let plain = url.strip_prefix("http://").filter(|rest| !rest.is_empty());
        let secure = url.strip_prefix("https://").filter(|rest| !rest.is_empty());
        let (encrypted, rest) = match (plain, secure) {
            (Some(rest), _) => (false, rest),
            (None, Some(rest)) => (true, rest),
            (None, None) => (false, url),
        };
        let (authority, path) = rest.split_at(rest.find('/')?);
        let (host, port, bracketed) = match authority.strip_prefix('[') {
            Some(address) => {
                let (host, after) = address.split_once(']')?;
                (host, after.strip_prefix(':').or((!after.is_empty()).then_some(after)), true)
            }
            None => match authority.rsplit_once(':') {
                Some((host, port)) => (host, Some(port), false),
                None => (authority, None, false),
            },
        };
        let port = match port {
            None => {
                if encrypted {
                    443
                } else {
                    80
                }
            }
            Some(port) if port.bytes().all(|byte| byte.is_ascii_digit()) => {
                port.parse().ok().filter(|port| *port > 0)?
            }
            Some(_) => return None,
        };
        if path.contains(|letter: char| letter.is_whitespace() || letter.is_control()) {
            return None;
        }
        let host = if bracketed { host::bracketed(host) } else { host::named(host) }.ok()?;
        let host_field = host::authority(&host).into_owned();
        Some(Self { encrypted, host, port, path: path.to_owned(), host_field })
    }

    /// Where the engine connects to.
    pub(super) fn url(&self) -> Url {
        Url { encrypted: self.encrypted, host: self.host.clone(), port: self.port, target: self.path.clone() }
    }

    fn host_header(&self) -> String {
        let usual = if self.encrypted { 443 } else { 80 };
        if self.port == usual { self.host_field.clone() } else { format!("{}:{}", self.host_field, self.port) }
    }
}

/// The head that ab would send, in its order.
pub(super) fn head(arguments: &Arguments, target: &Target, body: Option<&[u8]>) -> Result<String, &'static str> {
    // Through a tunnel the server is asked as without one.
    let through_proxy = arguments.proxy.is_some() && !target.encrypted;
    let asked = if through_proxy { &arguments.url } else { &target.path };
    let mut head = format!("{} {asked} HTTP/1.0\r\n", arguments.method);
    if arguments.keep_alive {
        head.push_str("Connection: Keep-Alive\r\n");
    }
    match arguments.cookies.as_slice() {
        [] => {}
        // The original sends only the last one, against its own help.
        [.., last] if arguments.strict => head.push_str(&format!("Cookie: {last}\r\n")),
        cookies => head.push_str(&format!("Cookie: {}\r\n", cookies.join("; "))),
    }
    let tunnel = arguments.proxy.is_some() && target.encrypted;
    for (name, credentials) in arguments.credentials.iter().filter(|(name, _)| !tunnel || *name != PROXY_AUTHORIZATION)
    {
        head.push_str(&format!("{name}: Basic {}\r\n", base64(credentials.as_bytes())));
    }
    if let Some(body) = body {
        head.push_str(&format!("Content-length: {}\r\nContent-type: {}\r\n", body.len(), arguments.content_type));
    }
    for line in &arguments.headers {
        head.push_str(line);
        head.push_str("\r\n");
    }
    let given = |name: &str| {
        let begins = |line: &String| line.get(..name.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(name));
        arguments.headers.iter().any(begins)
    };
    if !given("Host:") {
        head.push_str(&format!("Host: {}\r\n", target.host_header()));
    }
    if !given("User-Agent:") {
        // The original's own name: a request of other bytes would get other answers from some servers.
        head.push_str("User-Agent: ApacheBench/2.3\r\n");
    }
    if !given("Accept:") {
        head.push_str("Accept: */*\r\n");
    }
    head.push_str("\r\n");
    if head.len() >= REQUEST_BYTES_MAX { Err("Request too long\n") } else { Ok(head) }
}

/// RFC 4648 4, with padding.
pub(super) fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let bits = (0..3).fold(0u32, |bits, place| bits << 8 | u32::from(group.get(place).copied().unwrap_or(0)));
        for place in 0..4 {
            let letter = LETTERS[(bits >> (18 - 6 * place) & 63) as usize];
            text.push(if place <= group.len() { char::from(letter) } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn urls_are_taken_apart_as_the_original_does() {
        let target = Target::parse("localhost:8080/a?b").expect("a scheme is not needed");
        assert_eq!((target.host.as_str(), target.port, target.path.as_str()), ("localhost", 8080, "/a?b"));
        let target = Target::parse("https://[::1]/").expect("a URL");
        assert_eq!((target.encrypted, target.port, target.host_header()), (true, 443, "[::1]".to_owned()));
        for wrong in ["http://localhost", "http:///", "", "http://h:0/", "http://h:99999/", "http://a b/"] {
            assert_eq!(Target::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_head_has_the_order_of_the_original() {
        let target = Target::parse("http://h:81/p").expect("a URL");
        let arguments = Arguments {
            method: "POST".to_owned(),
            keep_alive: true,
            cookies: vec!["a=1".to_owned(), "b=2".to_owned()],
            credentials: vec![("Authorization", "Aladdin:open sesame".to_owned())],
            headers: vec!["X-A: 1".to_owned(), "accept: text/html".to_owned()],
            ..Arguments::default()
        };
        let expected = "POST /p HTTP/1.0\r\nConnection: Keep-Alive\r\nCookie: a=1; b=2\r\n\
            Authorization: Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==\r\nContent-length: 3\r\nContent-type: text/plain\r\n\
            X-A: 1\r\naccept: text/html\r\nHost: h:81\r\nUser-Agent: ApacheBench/2.3\r\n\r\n";
        assert_eq!(head(&arguments, &target, Some(b"abc")).as_deref(), Ok(expected));
        let strict = Arguments { strict: true, ..arguments.clone() };
        assert!(head(&strict, &target, None).is_ok_and(|head| head.contains("Cookie: b=2\r\n")));
        let long = Arguments { headers: vec!["x".repeat(9000)], ..arguments };
        assert_eq!(head(&long, &target, None), Err("Request too long\n"));
    }

    #[test]
    fn base64_has_the_examples_of_its_rfc() {
        for (text, coded) in [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg==")] {
            assert_eq!(base64(text.as_bytes()), coded);
        }
    }

    proptest! {
        #[test]
        fn any_text_is_a_url_or_none(url in "[a-z:/\\[\\]@0-9é ]{0,20}") {
            if let Some(target) = Target::parse(&url) {
                prop_assert!(target.path.starts_with('/') && target.port > 0 && !target.host.is_empty());
            }
        }
    }
}
