//! Tests as they are run, from a file of any format.

use crate::pattern::Pattern;
use std::path::PathBuf;
use std::time::Duration;

/// Tests in the order in which they run.
#[derive(Debug, Clone, Default)]
pub struct Suite {
    /// The tests.
    pub tests: Vec<Test>,
    /// Whether the file wants no report (`default_report = no`).
    pub quiet: bool,
}

/// One request and what is expected of its response.
#[derive(Debug, Clone)]
pub struct Test {
    /// Its name, for the report.
    pub name: Option<String>,
    /// The line in its file, from 1; 0 where there are no lines.
    pub line: usize,
    /// Tests of one number share cookies and the last page; another number is another user.
    pub session: usize,
    /// What is asked.
    pub ask: Ask,
    /// What is expected.
    pub checks: Checks,
    /// What the report shows of it.
    pub show: Show,
}

/// Where a request goes.
#[derive(Debug, Clone)]
pub enum Aim {
    /// An absolute address, `file:` included.
    Address(String),
    /// An address relative to that of the request before.
    Relative(String),
    /// The first link of the page before whose text matches.
    Link(Pattern),
    /// The form of the page before with a submit button whose name, value or picture matches.
    Button(Pattern),
    /// The form of the page before with this name.
    Form(String),
    /// A file of this machine; no server plays a part.
    File(PathBuf),
}

/// A request, before its address is known.
#[derive(Debug, Clone)]
pub struct Ask {
    /// Where it goes.
    pub aim: Aim,
    /// The method, in capitals.
    pub method: String,
    /// Whether the method was given; a form's own holds otherwise where its fields are taken.
    pub method_given: bool,
    /// Form fields: in the query of a GET, in the body otherwise.
    pub fields: Vec<(String, Field)>,
    /// A body as it stands, with its content type; instead of the fields.
    pub body: Option<(String, Vec<u8>)>,
    /// Header fields besides; they replace ours of the same name.
    pub headers: Vec<(String, String)>,
    /// User and password for the server (basic).
    pub login: Option<(String, String)>,
    /// Scheme of the address, and the proxy that requests of it take.
    pub proxies: Vec<(String, String)>,
    /// User and password for the proxy (basic).
    pub proxy_login: Option<(String, String)>,
    /// The field User-Agent.
    pub user_agent: String,
    /// For the whole exchange, redirects included.
    pub timeout: Duration,
    /// Whether redirects are followed.
    pub follow: bool,
    /// Whether cookies are taken.
    pub accept_cookies: bool,
    /// Whether cookies are sent.
    pub send_cookies: bool,
    /// Cookies that are there before the request.
    pub cookies: Vec<PresetCookie>,
    /// The pause before it.
    pub delay: Duration,
    /// Whether the fields of the form that is clicked are sent besides those given.
    pub form_fields: bool,
}

impl Ask {
    /// A GET of an address, as by a browser: redirects are followed, cookies taken and sent.
    #[must_use]
    pub fn get(aim: Aim) -> Self {
        Self {
            aim,
            method: "GET".to_owned(),
            method_given: false,
            fields: Vec::new(),
            body: None,
            headers: Vec::new(),
            login: None,
            proxies: Vec::new(),
            proxy_login: None,
            user_agent: concat!("weir/", env!("CARGO_PKG_VERSION")).to_owned(),
            timeout: Duration::from_secs(180),
            follow: true,
            accept_cookies: true,
            send_cookies: true,
            cookies: Vec::new(),
            delay: Duration::ZERO,
            form_fields: false,
        }
    }
}

/// The value of a form field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Field {
    /// As it stands.
    Text(String),
    /// A file to upload; it makes the request multipart/form-data.
    File {
        /// Where it is.
        path: PathBuf,
        /// The name that is told.
        name: String,
        /// Header fields of its part.
        headers: Vec<(String, String)>,
    },
}

/// A cookie that a test brings along.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PresetCookie {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: String,
    /// The path below which it is sent; `/` without.
    pub path: Option<String>,
    /// The domain that it is sent to; the host of the test's request without.
    pub domain: Option<String>,
    /// Ports that it may be sent to; empty: all.
    pub ports: Vec<u16>,
    /// Whether it goes over TLS only.
    pub secure: bool,
}

/// What status is expected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// This one.
    Exactly(u16),
    /// Any from 200 to 299.
    Success,
}

/// What is expected of a response.
#[derive(Debug, Clone)]
pub struct Checks {
    /// The status.
    pub status: Status,
    /// Patterns that must not be found, under the heading of texts.
    pub text_forbid: Vec<Pattern>,
    /// Patterns that must be found, under the heading of texts.
    pub text_require: Vec<Pattern>,
    /// Patterns that must not be found.
    pub regex_forbid: Vec<Pattern>,
    /// Patterns that must be found.
    pub regex_require: Vec<Pattern>,
    /// The least number of bytes of content.
    pub min_bytes: Option<u64>,
    /// The largest number of bytes of content.
    pub max_bytes: Option<u64>,
    /// The shortest time, in seconds.
    pub min_rtime: Option<f64>,
    /// The longest time, in seconds.
    pub max_rtime: Option<f64>,
}

impl Default for Checks {
    fn default() -> Self {
        Self {
            status: Status::Exactly(200),
            text_forbid: Vec::new(),
            text_require: Vec::new(),
            regex_forbid: Vec::new(),
            regex_require: Vec::new(),
            min_bytes: None,
            max_bytes: None,
            min_rtime: None,
            max_rtime: None,
        }
    }
}

/// How much of a test its report shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Terse {
    /// All checks.
    #[default]
    No,
    /// Only its line in the table.
    Summary,
    /// Only checks that failed.
    FailedOnly,
}

/// What the report shows of a test.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Show {
    /// How much.
    pub terse: Terse,
    /// The header fields of request and response.
    pub headers: bool,
    /// The cookies sent and received.
    pub cookies: bool,
    /// The content.
    pub html: bool,
}
