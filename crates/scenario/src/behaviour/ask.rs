//! A request as a behaviour asks it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use weir_load::Url;

/// Names and values by which metrics are told apart, in ascending order of names.
pub type Tags = Arc<[(Arc<str>, Arc<str>)]>;

/// A request.
#[derive(Debug, Clone)]
pub struct Ask {
    /// Its method, such as `GET`.
    pub method: String,
    /// Its address.
    pub url: Url,
    /// Where its connection goes in the place of the addresses that the URL's name has.
    pub at: Option<SocketAddr>,
    /// Headers beyond those that the engine sets (Host, User-Agent, Content-Length, Cookie).
    pub headers: Vec<(String, String)>,
    /// Its body, empty for none.
    pub body: Vec<u8>,
    /// How long it may take from when it is asked, redirects apart: each has this time anew.
    pub timeout: Duration,
    /// The most redirects that are followed; 0 = none, and the redirect is the answer.
    pub redirects_max: u32,
    /// What metrics are told apart by. A `name` takes the place of the URL.
    pub tags: Tags,
    /// What of the answer's body is wanted.
    pub keep: Kept,
    /// Cookies of the user's jar, and of this request alone.
    pub cookies: Cookies,
    /// Statuses that are no failure; `None` = 200 to 399.
    pub expected: Option<Arc<weir_load::Statuses>>,
}

/// What of an answer's body is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Kept {
    /// Nothing: it is received and counted.
    Nothing,
    /// All of it, decoded, as far as the bound of the run allows.
    #[default]
    Body,
}

/// Which cookies go with a request.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Cookies {
    /// Whether the user's own jar is left out, and stays as it is.
    pub without_jar: bool,
    /// Cookies of this request alone, which take the place of those of the jar with the same names.
    pub own: Vec<(String, String)>,
}

impl Ask {
    /// A GET of this address with the defaults: 60 s, ten redirects, the body kept.
    #[must_use]
    pub fn get(url: Url) -> Self {
        Self {
            method: "GET".to_owned(),
            url,
            at: None,
            headers: Vec::new(),
            body: Vec::new(),
            timeout: Duration::from_secs(60),
            redirects_max: 10,
            tags: Arc::from([]),
            keep: Kept::default(),
            cookies: Cookies::default(),
            expected: None,
        }
    }

    /// Takes it, and leaves one without anything.
    pub(crate) fn take(&mut self) -> Self {
        let nowhere = Url { encrypted: false, host: String::new(), port: 0, target: String::new() };
        let empty = Self {
            method: String::new(),
            url: nowhere,
            headers: Vec::new(),
            body: Vec::new(),
            timeout: self.timeout,
            redirects_max: self.redirects_max,
            tags: self.tags.clone(),
            keep: self.keep,
            cookies: Cookies::default(),
            expected: None,
            at: self.at,
        };
        std::mem::replace(self, empty)
    }

    /// The value of one of its tags.
    #[must_use]
    pub fn tag(&self, name: &str) -> Option<&str> {
        self.tags.iter().find(|(key, _)| &**key == name).map(|(_, value)| &**value)
    }
}
