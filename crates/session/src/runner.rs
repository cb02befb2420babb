//! Runs a suite: one test after the other, as one user clicks.

use crate::client::{AskError, Client, Exchange, Step};
use crate::cookies::Jar;
use crate::page::{Form, Page};
use crate::pattern::Pattern;
use crate::suite::{Aim, Ask, Checks, Field, Show, Status, Suite, Test};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;
use url::Url;

/// Why a test has no response.
#[derive(Debug, thiserror::Error)]
enum RequestError {
    #[error(transparent)]
    Ask(#[from] AskError),
    #[error("the address is not that of a file here")]
    NotHere,
    #[error("{}: not an address", path.display())]
    NoAddress { path: PathBuf },
    #[error("{address}: {source}")]
    Address { address: String, source: url::ParseError },
    #[error("there is no page before, so nothing can be clicked")]
    NoPage,
    #[error("the response before is not a page but {kind}, so nothing of it can be clicked")]
    NotAPage { kind: String },
    #[error("no link of the page before has a text with `{text}`; it has {has}")]
    NoLink { text: String, has: String },
    #[error("the link to {href}: {source}")]
    Link { href: String, source: url::ParseError },
    #[error("no form of the page before has a button `{text}`; it has {has}")]
    NoButton { text: String, has: String },
    #[error("the page before has no form `{name}`; it has {has}")]
    NoForm { name: String, has: String },
    #[error("the form's {action}: {source}")]
    Action { action: String, source: url::ParseError },
}

/// The outcome of one check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// Whether it is as expected.
    pub ok: bool,
    /// What was checked.
    pub comment: String,
}

/// Checks of one kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// The kind.
    pub title: String,
    /// Its checks, in order.
    pub results: Vec<Check>,
}

/// What became of a test.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// The test's name.
    pub name: Option<String>,
    /// The test's line in its file, from 1; 0 where there are no lines.
    pub line: usize,
    /// Where it went, if that was found.
    pub address: Option<String>,
    /// The checks.
    pub groups: Vec<Group>,
    /// From the begin of the request to the end of the response, redirects included; 0 without a response.
    pub seconds: f64,
    /// Why there was no response.
    pub error: Option<String>,
    /// What was odd about the responses and was taken all the same.
    pub tolerated: Vec<&'static str>,
    /// What the report shows of it.
    pub show: Show,
    /// The last request and response, if there was one and the report shows something of it.
    pub step: Option<Step>,
}

impl Outcome {
    /// Checks that are as expected (`true`) or not.
    #[must_use]
    pub fn count(&self, ok: bool) -> usize {
        self.groups.iter().flat_map(|group| &group.results).filter(|result| result.ok == ok).count()
    }
}

/// Runs a suite with a client; `each` gets every outcome as soon as it is there.
pub fn run(suite: &Suite, client: &Client, each: &mut dyn FnMut(&Outcome)) -> Vec<Outcome> {
    let mut user = User::default();
    let mut session = None;
    let mut outcomes = Vec::with_capacity(suite.tests.len());
    for test in &suite.tests {
        if session.replace(test.session).is_some_and(|before| before != test.session) {
            user = User::default();
        }
        let outcome = user.test(test, client);
        each(&outcome);
        outcomes.push(outcome);
    }
    outcomes
}

/// Who clicks: cookies and the page that is open.
#[derive(Debug, Default)]
struct User {
    jar: Jar,
    before: Option<Step>,
}

impl User {
    fn test(&mut self, test: &Test, client: &Client) -> Outcome {
        std::thread::sleep(test.ask.delay);
        let mut outcome = Outcome {
            name: test.name.clone(),
            line: test.line,
            address: None,
            groups: Vec::new(),
            seconds: 0.0,
            error: None,
            tolerated: Vec::new(),
            show: test.show,
            step: None,
        };
        match self.respond(&test.ask, client, &mut outcome.address) {
            Ok(exchange) => {
                outcome.seconds = exchange.seconds;
                outcome.tolerated.clone_from(&exchange.tolerated);
                outcome.groups = judge(&test.checks, Ok(&exchange));
                if test.show.headers || test.show.cookies || test.show.html {
                    outcome.step = Some(exchange.last.clone());
                }
                self.before = Some(exchange.last);
            }
            Err(error) => {
                outcome.groups = judge(&test.checks, Err(&error));
                outcome.error = Some(error.to_string());
                // What a later test would click on is gone, and clicking on an older page would mislead.
                self.before = None;
            }
        }
        outcome
    }

    fn respond(&mut self, ask: &Ask, client: &Client, told: &mut Option<String>) -> Result<Exchange, RequestError> {
        let mut ask = ask.clone();
        if let Aim::File(path) = &ask.aim {
            *told = Some(format!("file://{}", path.display()));
            return Ok(file(path, Url::from_file_path(path).ok()));
        }
        let address = self.address(&mut ask)?;
        *told = Some(address.to_string());
        if address.scheme() == "file" {
            let path = address.to_file_path().map_err(|()| RequestError::NotHere)?;
            return Ok(file(&path, Some(address)));
        }
        for cookie in &ask.cookies {
            self.jar.preset(cookie, &address);
        }
        let answered = client.ask(&ask, &address, &mut self.jar)?;
        *told = Some(answered.last.address.to_string());
        Ok(answered)
    }

    fn address(&self, ask: &mut Ask) -> Result<Url, RequestError> {
        let before = self.before.as_ref().map(|step| &step.address);
        let wrong = |address: &str, source| RequestError::Address { address: address.to_owned(), source };
        match &ask.aim {
            Aim::Address(address) => Url::parse(address).map_err(|error| wrong(address, error)),
            Aim::Relative(address) => {
                let local = Url::parse("http://localhost/").map_err(|error| wrong("http://localhost/", error))?;
                before.unwrap_or(&local).join(address).map_err(|error| wrong(address, error))
            }
            Aim::Link(text) => {
                let (page, base) = self.page()?;
                let link = page.links.iter().find(|link| text.is_in(link.text.as_bytes()));
                let link = link.ok_or_else(|| {
                    let texts: Vec<String> = page.links.iter().take(5).map(|link| format!("`{}`", link.text)).collect();
                    RequestError::NoLink { text: text.source().to_owned(), has: listed(&texts) }
                })?;
                base.join(&link.href).map_err(|source| RequestError::Link { href: link.href.clone(), source })
            }
            Aim::Button(text) => {
                let (page, base) = self.page()?;
                let found = page.forms.iter().find_map(|form| Some((form, button(form, text)?)));
                let (form, button) = found.ok_or_else(|| {
                    let forms = page.forms.iter().flat_map(|form| &form.buttons);
                    let texts: Vec<String> = forms.take(5).map(|button| format!("`{}`", button.told())).collect();
                    RequestError::NoButton { text: text.source().to_owned(), has: listed(&texts) }
                })?;
                let clicked = (!button.name.is_empty()).then(|| (button.name.clone(), button.value.clone()));
                let (form, base) = (form.clone(), base);
                fill(ask, &form, clicked);
                action(&form, &base)
            }
            Aim::Form(name) => {
                let (page, base) = self.page()?;
                let form = page.forms.iter().find(|form| form.name == *name);
                let form = form.ok_or_else(|| {
                    let names: Vec<String> = page.forms.iter().take(5).map(|form| format!("`{}`", form.name)).collect();
                    RequestError::NoForm { name: name.clone(), has: listed(&names) }
                })?;
                fill(ask, form, None);
                action(form, &base)
            }
            // Taken care of before.
            Aim::File(path) => Url::from_file_path(path).map_err(|()| RequestError::NoAddress { path: path.clone() }),
        }
    }

    /// What can be clicked, and what relative addresses of it are relative to.
    fn page(&self) -> Result<(Page, Url), RequestError> {
        let before = self.before.as_ref().ok_or(RequestError::NoPage)?;
        let kind = before.header("content-type").unwrap_or_default().to_ascii_lowercase();
        if !kind.starts_with("text/html") && !kind.starts_with("application/xhtml") {
            return Err(RequestError::NotAPage { kind });
        }
        let page = Page::read(&before.content);
        let base = page.base.as_ref().and_then(|base| before.address.join(base).ok());
        Ok((page, base.unwrap_or_else(|| before.address.clone())))
    }
}

/// Where a form is sent.
fn action(form: &Form, base: &Url) -> Result<Url, RequestError> {
    let mut address =
        base.join(&form.action).map_err(|source| RequestError::Action { action: form.action.clone(), source })?;
    // A form that is sent by GET replaces the query of its address.
    if form.action.is_empty() && form.method == "GET" {
        address.set_query(None);
    }
    Ok(address)
}

fn button<'f>(form: &'f Form, text: &Pattern) -> Option<&'f crate::page::Button> {
    form.buttons
        .iter()
        .find(|button| [&button.name, &button.value, &button.src].into_iter().any(|part| text.is_in(part.as_bytes())))
}

/// Adds what the form has to what the test gives, if it wants that.
fn fill(ask: &mut Ask, form: &Form, clicked: Option<(String, String)>) {
    if !ask.form_fields {
        return;
    }
    if !ask.method_given {
        ask.method.clone_from(&form.method);
    }
    let given: Vec<(String, Field)> = std::mem::take(&mut ask.fields);
    let of_form = form.fields.iter().cloned().chain(clicked).filter(|(name, _)| !name.is_empty());
    let untouched = of_form.filter(|(name, _)| !given.iter().any(|(own, _)| own == name));
    ask.fields = untouched.map(|(name, value)| (name, Field::Text(value))).collect();
    ask.fields.extend(given);
}

fn listed(items: &[String]) -> String {
    if items.is_empty() { "none".to_owned() } else { items.join(", ") }
}

/// A file of this machine as a response.
fn file(path: &Path, address: Option<Url>) -> Exchange {
    let begin = Instant::now();
    let (status, content) = match fs::read(path) {
        Ok(content) => (200, content),
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => (403, error.to_string().into_bytes()),
        Err(error) => (404, error.to_string().into_bytes()),
    };
    let page = path.extension().is_some_and(|kind| kind.to_string_lossy().to_ascii_lowercase().contains("htm"));
    let kind = if page { "text/html" } else { "application/octet-stream" };
    // An address is wanted only for what is relative to it; the root serves where the name cannot be one.
    let fallback = || Url::from_file_path("/").unwrap_or_else(|()| unreachable!("the root is absolute"));
    let last = Step {
        method: "GET".to_owned(),
        address: address.or_else(|| Url::from_file_path(path.canonicalize().ok()?).ok()).unwrap_or_else(fallback),
        sent: Vec::new(),
        version: "FILE".to_owned(),
        status,
        received: vec![("content-type".to_owned(), kind.to_owned())],
        content,
    };
    Exchange { last, redirects: Vec::new(), seconds: begin.elapsed().as_secs_f64(), tolerated: Vec::new() }
}

/// All checks of a test; without a response none of them can be as expected.
fn judge(checks: &Checks, exchange: Result<&Exchange, &RequestError>) -> Vec<Group> {
    let step = exchange.ok().map(|exchange| &exchange.last);
    let mut groups = Vec::new();
    let expected = match checks.status {
        Status::Exactly(code) => code.to_string(),
        Status::Success => "2xx".to_owned(),
    };
    let (ok, got) = match exchange {
        Ok(exchange) => {
            let status = exchange.last.status;
            let ok = match checks.status {
                Status::Exactly(code) => status == code,
                Status::Success => (200..300).contains(&status),
            };
            (ok, exchange.last.status_line())
        }
        Err(error) => (false, format!("no response: {error}")),
    };
    let mut add = |title: &str, results: Vec<Check>| {
        if !results.is_empty() {
            groups.push(Group { title: title.to_owned(), results });
        }
    };
    add("Status code check", vec![Check { ok, comment: format!("Expected '{expected}' and got: {got}") }]);
    let found = |patterns: &[Pattern], wanted: bool| -> Vec<Check> {
        let result = |pattern: &Pattern| Check {
            ok: step.is_some_and(|step| pattern.is_in(&step.content) == wanted),
            comment: pattern.source().to_owned(),
        };
        patterns.iter().map(result).collect()
    };
    add("Forbidden text", found(&checks.text_forbid, false));
    add("Required text", found(&checks.text_require, true));
    add("Forbidden regex", found(&checks.regex_forbid, false));
    add("Required regex", found(&checks.regex_require, true));
    let bytes = step.map(|step| step.content.len() as u64);
    let size = |limit: Option<u64>, least: bool| {
        limit.map(|limit| Check {
            ok: bytes.is_some_and(|bytes| if least { bytes >= limit } else { bytes <= limit }),
            comment: format!(
                "Number of returned bytes ({:6} ) is {} or ={limit:6} ?",
                bytes.unwrap_or(0),
                if least { '>' } else { '<' }
            ),
        })
    };
    add(
        "Content size check",
        [size(checks.min_bytes, true), size(checks.max_bytes, false)].into_iter().flatten().collect(),
    );
    let seconds = exchange.ok().map(|exchange| exchange.seconds);
    let time = |limit: Option<f64>, least: bool| {
        limit.map(|limit| Check {
            ok: seconds.is_some_and(|seconds| if least { seconds >= limit } else { seconds <= limit }),
            comment: format!(
                "Response time ({:6.2} ) is {} or ={limit:6.2} ?",
                seconds.unwrap_or(0.0),
                if least { '>' } else { '<' }
            ),
        })
    };
    add(
        "Response time check",
        [time(checks.min_rtime, true), time(checks.max_rtime, false)].into_iter().flatten().collect(),
    );
    groups
}
