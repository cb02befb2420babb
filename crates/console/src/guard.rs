//! Who may ask: a browser of this host, by the address with the word, from the console's own page.

use crate::admission::{Asked, Denied, admitted};
use crate::refusal::{ConsoleError, Refusal};
use std::fmt::Write;
use std::io::Read;
use weir_endpoint::Request;

/// Random bytes of the word.
const WORD_BYTES: usize = 16;

/// What requests must show.
#[derive(Debug)]
pub(crate) struct Guard {
    /// `/WORD/`: a run holds what is its owner's alone.
    path: String,
    /// The authorities by which a browser of this host may call us. Any other name may be one that an attacker's name
    /// server points at us (DNS rebinding).
    hosts: [String; 3],
}

impl Guard {
    pub(crate) fn new(port: u16) -> Result<Self, ConsoleError> {
        let mut random = [0; WORD_BYTES];
        std::fs::File::open("/dev/urandom")
            .and_then(|mut file| file.read_exact(&mut random))
            .map_err(ConsoleError::Random)?;
        let word = random.iter().fold(String::new(), |mut word, byte| {
            // Writing to a string cannot fail.
            let _infallible = write!(word, "{byte:02x}");
            word
        });
        let hosts = ["127.0.0.1", "localhost", "[::1]"].map(|host| format!("{host}:{port}"));
        Ok(Self { path: format!("/{word}/"), hosts })
    }

    /// The path of the page.
    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    /// The rest of the target behind the word.
    pub(crate) fn admit<'r>(&self, request: &'r Request) -> Result<&'r str, Refusal> {
        let is_own = |authority: &str| self.hosts.iter().any(|own| own.eq_ignore_ascii_case(authority));
        if !request.header("host").is_some_and(is_own) {
            return Err(Refusal::Host);
        }
        // Browsers send it with each POST, and with each request that a script of another origin makes.
        if let Some(origin) = request.header("origin")
            && !origin.strip_prefix("http://").is_some_and(is_own)
        {
            return Err(Refusal::Origin);
        }
        // A link in another page is followed without an Origin; such a page could not read the answer, but may not
        // cause work either.
        if let Some(site) = request.header("sec-fetch-site")
            && !["same-origin", "none"].contains(&site)
        {
            return Err(Refusal::Origin);
        }
        same_start(&request.target, &self.path).ok_or(Refusal::Word)
    }
}

/// Whether a request to a console within an admin address gets an answer; the rest of its target.
pub(crate) fn admit_mounted(request: &Request, may_ask: bool) -> Result<&str, Refusal> {
    let asked = Asked {
        target: &request.target,
        host: request.header("host"),
        origin: request.header("origin"),
        site: request.header("sec-fetch-site"),
        mode: request.header("sec-fetch-mode"),
    };
    admitted(&asked, may_ask).map_err(|denied| match denied {
        Denied::NotOurs => Refusal::NoCall,
        Denied::Origin => Refusal::Origin,
        Denied::Token => Refusal::Token,
    })
}

/// The rest of a text behind its start; the time that it takes tells nothing of where they differ.
fn same_start<'t>(text: &'t str, start: &str) -> Option<&'t str> {
    let bytes = text.as_bytes().get(..start.len())?;
    let differ = bytes.iter().zip(start.as_bytes()).fold(0, |sum, (a, b)| sum | (a ^ b));
    if differ == 0 { text.get(start.len()..) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(target: &str, headers: &[(&str, &str)]) -> Request {
        let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Request { method: "GET".to_owned(), target: target.to_owned(), headers, body: Ok(Vec::new()) }
    }

    #[test]
    fn only_the_own_page_of_this_host_is_let_in() {
        let guard = Guard::new(8090).expect("random bytes");
        let page = guard.path().to_owned();
        let own = ("host", "127.0.0.1:8090");
        assert_eq!(guard.admit(&request(&format!("{page}api/1/has"), &[own])).expect("let in"), "api/1/has");
        let origins = ["http://evil.example", "null", "https://127.0.0.1:8090", "http://127.0.0.1:8091", ""];
        for origin in origins {
            let asked = request(&page, &[own, ("origin", origin)]);
            assert!(matches!(guard.admit(&asked), Err(Refusal::Origin)), "{origin}");
        }
        for site in ["cross-site", "same-site"] {
            let asked = request(&page, &[own, ("sec-fetch-site", site)]);
            assert!(matches!(guard.admit(&asked), Err(Refusal::Origin)), "{site}");
        }
        assert!(guard.admit(&request(&page, &[own, ("origin", "http://localhost:8090")])).is_ok());
        for host in ["evil.example", "evil.example:8090", "127.0.0.1", "127.0.0.1:80", ""] {
            assert!(matches!(guard.admit(&request(&page, &[("host", host)])), Err(Refusal::Host)), "{host}");
        }
        assert!(matches!(guard.admit(&request(&page, &[])), Err(Refusal::Host)));
        let other = format!("/{}/", "0".repeat(2 * WORD_BYTES));
        for target in ["/", "", "/api/1/has", &other, &page[..page.len() - 1], &format!("/\u{e4}{page}")] {
            assert!(matches!(guard.admit(&request(target, &[own])), Err(Refusal::Word)), "{target}");
        }
    }

    #[test]
    fn within_an_admin_address_calls_need_the_token_and_the_own_page() {
        let host = ("host", "weir.example:9100");
        let admit = |target: &str, headers: &[(&str, &str)], may_ask| {
            let headers: Vec<_> = [host].iter().chain(headers).copied().collect();
            admit_mounted(&request(target, &headers), may_ask).map(str::to_owned)
        };
        assert_eq!(admit("/console/api/1/has", &[], true).expect("let in"), "api/1/has");
        assert_eq!(admit("/console/", &[], false).expect("a file"), "");
        assert!(matches!(admit("/console/api/1/has", &[], false), Err(Refusal::Token)));
        for own in ["http://weir.example:9100", "https://WEIR.example:9100"] {
            assert!(admit("/console/api/1/has", &[("origin", own)], true).is_ok(), "{own}");
        }
        for other in ["http://weir.example", "null", "", "http://", "ftp://weir.example:9100", "weir.example:9100"] {
            let asked = admit("/console/api/1/has", &[("origin", other)], true);
            assert!(matches!(asked, Err(Refusal::Origin)), "{other}");
        }
        let followed = [("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate")];
        assert!(admit("/console/", &followed, false).is_ok(), "a link in another page");
        assert!(matches!(admit("/console/console.js", &followed[..1], false), Err(Refusal::Origin)));
        assert!(matches!(admit("/console/api/1/has", &followed, true), Err(Refusal::Origin)));
        for target in ["/", "/console", "/consolx/", "console/"] {
            assert!(matches!(admit(target, &[], true), Err(Refusal::NoCall)), "{target}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_call_is_let_in_without_the_token(rest in "[ -~]{0,40}", origin in "[ -~]{0,20}") {
            let target = format!("/console/{rest}");
            let asked = request(&target, &[("host", "h"), ("origin", origin.as_str())]);
            if let Ok(rest) = admit_mounted(&asked, false) {
                proptest::prop_assert!(!rest.starts_with("api/"));
            }
        }
    }

    #[test]
    fn words_differ() {
        let word = || Guard::new(1).expect("random bytes").path().to_owned();
        assert_ne!(word(), word());
        assert_eq!(word().len(), 2 * WORD_BYTES + 2);
    }
}
