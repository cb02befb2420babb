//! Assembles pages for one request: replaces includes by the content of other files, and variables by their values.

use super::part::Part;
use crate::counters::LoopCounters;
use crate::exchange::life::Exchange;
use crate::files::head::{self, Persistence};
use crate::files::resource::{Content, NOT_AGAIN, PRIVATE, PRIVATE_NOT_AGAIN, Resource};
use crate::http::request::{Method, Request};
use crate::http::target;
use crate::io::clock::{Clock, http_date};
use crate::pages::template::{self, CONDITIONS_MAX, Step, Template, VALUE_BYTES_MAX};
use crate::site::kept_pages::{KeptPages, Of};
use crate::site::state::Site;
use std::cell::Cell;
use std::rc::Rc;

/// Pages within each other.
const DEPTH_MAX: usize = 16;
/// Includes of one page, those of its parts counted.
const INCLUDES_MAX: usize = 1000;
/// Bytes of one page with all its parts.
const PAGE_BYTES_MAX: usize = 16 << 20;
/// Pages up to this size are held in memory, however small the bound for other files: they are read for each request.
pub(crate) const HELD_BYTES_MAX: u64 = 1 << 20;
/// Variables that a page sets.
const VARIABLES_MAX: usize = 200;
/// What stands where a directive could not be carried out, as with mod_include.
const WRONG: &[u8] = b"[an error occurred while processing this directive]";

/// Whether files of this name are assembled.
pub(crate) fn is_page(path: &[u8]) -> bool {
    path.ends_with(b".shtml")
}

/// Where the parts of a page come from: each part is what the client would get by its own request for it.
pub(crate) trait Parts {
    /// The file that a target leads to; none where a request for it would not get a file.
    fn part(&mut self, target: &str) -> Option<Part>;

    /// Whether every client that may have the page would have got the same parts so far.
    fn are_for_all(&self) -> bool {
        true
    }
}

/// What was assembled.
#[derive(Debug)]
pub(crate) struct Assembled {
    pub(crate) page: Vec<u8>,
    /// Whether it is whole, and the same for every client that may have it.
    pub(crate) is_for_all: bool,
}

/// One site alone, where every client may have every part.
struct OneSite<'s> {
    site: &'s mut Site,
    clock: &'s Clock,
    counters: &'s LoopCounters,
}

impl Parts for OneSite<'_> {
    fn part(&mut self, target: &str) -> Option<Part> {
        let resource = self.site.part(target, self.clock, self.counters)?;
        Some(Part { resource, mount: Vec::new() })
    }
}

/// One page on its way.
struct Assembly<'a> {
    parts: &'a mut dyn Parts,
    request: &'a Request<'a>,
    clock: &'a Clock,
    counters: &'a LoopCounters,
    query: String,
    page: Vec<u8>,
    variables: Vec<(String, String)>,
    includes: usize,
    /// The pages that are within each other here.
    within: Vec<Vec<u8>>,
    /// Something in it was this request's own, or could not be carried out.
    is_own: Cell<bool>,
}

/// Assembles a page for a request.
pub(crate) fn assemble(
    parts: &mut dyn Parts,
    page: &Part,
    request: &Request<'_>,
    clock: &Clock,
    counters: &LoopCounters,
) -> Assembled {
    let query = request.target.split_once('?').map_or("", |(_, query)| query).to_owned();
    let (variables, within) = (Vec::new(), Vec::new());
    let (bytes, is_own) = (Vec::new(), Cell::new(false));
    let mut assembly =
        Assembly { parts, request, clock, counters, query, page: bytes, variables, includes: 0, within, is_own };
    assembly.add(page);
    counters.pages_assembled.add(1);
    let is_for_all = !assembly.is_own.get() && assembly.parts.are_for_all();
    Assembled { page: assembly.page, is_for_all }
}

/// A page that a client has asked for.
#[derive(Debug)]
pub(crate) struct Wanted<'a> {
    pub(crate) page: &'a Part,
    /// The host that was asked, by the number of times that other rules were taken up before.
    pub(crate) host: (u64, u16),
    pub(crate) method: Method,
    pub(crate) persistence: Persistence,
    pub(crate) clock: &'a Clock,
    pub(crate) counters: &'a LoopCounters,
}

impl Wanted<'_> {
    /// Answers with the page as it was assembled last, where it may be that old; whether it did.
    pub(crate) fn answer_with_kept(&self, kept: &mut KeptPages, out: &mut Exchange) -> bool {
        let Some(stale) = out.record.advised.as_ref().and_then(|advised| advised.stale) else {
            if !kept.is_empty() {
                kept.forget(&Of::new(self.page, self.host));
            }
            return false;
        };
        let Some((bytes, known_ms)) = kept.find(&Of::new(self.page, self.host)) else { return false };
        if stale.age_s(known_ms, self.clock.now_ms).is_none() {
            return false;
        }
        self.counters.stale_allowed.add(1);
        self.write(&bytes, Some(known_ms), out);
        true
    }

    /// Answers with what was assembled now, and keeps it where it may be sent to others.
    pub(crate) fn answer_with_new(&self, assembled: &Assembled, kept: &mut KeptPages, out: &mut Exchange) {
        let advised = out.record.advised.as_ref();
        let known_ms = advised.and_then(|advised| advised.stale).map(|stale| stale.known_ms);
        // It is stale already where it was made of a page that is not known to be what its file has.
        let is_stale = advised.is_some_and(|advised| advised.is_stale);
        if let Some(known_ms) = known_ms.filter(|_| assembled.is_for_all) {
            kept.keep(Of::new(self.page, self.host), assembled.page.as_slice().into(), known_ms);
        }
        self.write(&assembled.page, known_ms.filter(|_| is_stale), out);
    }

    /// It was made for this request, so it has no validators and no ranges; `stale_ms` is when it was known to be the
    /// present one, where it may not be.
    fn write(&self, assembled: &[u8], stale_ms: Option<u64>, out: &mut Exchange) {
        let Self { page, method, persistence, clock, .. } = *self;
        let mut fields = format!("{}Content-Length: {}\r\n", page.resource.type_and_coding(), assembled.len());
        if let Some(known_ms) = stale_ms {
            fields += &format!("Age: {}\r\n", clock.now_ms.saturating_sub(known_ms) / 1000);
        }
        let is_chosen = out.record.is_chosen();
        fields += match (is_chosen, stale_ms) {
            (true, Some(_)) => PRIVATE_NOT_AGAIN,
            (true, None) => PRIVATE,
            (false, Some(_)) => NOT_AGAIN,
            (false, None) => "",
        };
        if is_chosen {
            fields += &page.resource.hint_fields();
        }
        if let Some(advised) = &mut out.record.advised {
            advised.is_stale = stale_ms.is_some();
        }
        out.status = 200;
        head::other(&mut out.response.head, 200, &[fields.as_bytes()], clock, persistence);
        out.head_bytes = out.response.head.len() as u64;
        if method != Method::Head {
            out.response.head.extend_from_slice(assembled);
        }
    }
}

/// Makes the response to a request for a page of a site that stands alone.
#[cold]
pub(crate) fn respond_from_one_site(
    site: &mut Site,
    resource: Rc<Resource>,
    request: &Request<'_>,
    persistence: Persistence,
    clock: &Clock,
    counters: &LoopCounters,
    out: &mut Exchange,
) {
    let page = Part { resource, mount: Vec::new() };
    let wanted = Wanted { page: &page, host: (0, 0), method: request.method, persistence, clock, counters };
    if wanted.answer_with_kept(site.kept(), out) {
        return;
    }
    let assembled = assemble(&mut OneSite { site, clock, counters }, &page, request, clock, counters);
    wanted.answer_with_new(&assembled, site.kept(), out);
}

impl Assembly<'_> {
    /// Adds a file: a page with what it includes, anything else as it is.
    fn add(&mut self, part: &Part) {
        let (resource, room) = (&*part.resource, PAGE_BYTES_MAX - self.page.len());
        let read;
        let source: &[u8] = match &resource.content {
            Content::Memory(bytes) => bytes,
            Content::File(_) => match resource.read_whole(room) {
                Some(bytes) => {
                    read = bytes;
                    &read
                }
                None => return self.wrong(),
            },
        };
        let Some(template) = &resource.template else { return self.push(source) };
        let path = &*part.path();
        // A page that includes itself, directly or through others, would never come to an end.
        if self.within.len() == DEPTH_MAX || self.within.iter().any(|other| *other == path) {
            return self.wrong();
        }
        self.within.push(path.to_vec());
        let template = template.get_or_init(|| Template::parse(source));
        // For each condition around here: whether its present branch counts, and whether one has counted already.
        let mut conditions: Vec<(bool, bool)> = Vec::new();
        for step in &template.steps {
            let counts = conditions.iter().all(|(counts, _)| *counts);
            match step {
                Step::If(_) if conditions.len() == CONDITIONS_MAX => {
                    self.wrong();
                    break;
                }
                Step::If(condition) => {
                    let holds = counts && condition.holds(&|text| self.fill_in(text, resource));
                    conditions.push((holds, holds));
                }
                Step::ElseIf(_) | Step::Else | Step::EndIf if conditions.is_empty() => self.wrong(),
                Step::ElseIf(condition) => {
                    let depth = conditions.len() - 1;
                    let outer = conditions[..depth].iter().all(|(counts, _)| *counts);
                    let holds = outer && !conditions[depth].1 && condition.holds(&|text| self.fill_in(text, resource));
                    conditions[depth] = (holds, conditions[depth].1 || holds);
                }
                Step::Else => {
                    let depth = conditions.len() - 1;
                    conditions[depth] = (!conditions[depth].1, true);
                }
                Step::EndIf => drop(conditions.pop()),
                _ if !counts => {}
                Step::Text(range) => self.push(&source[range.clone()]),
                Step::Wrong => self.wrong(),
                Step::Echo { name, is_raw } => self.echo(name, *is_raw, resource),
                Step::Set { name, value } => self.set(name, value, resource),
                Step::Include { path: other, is_name } => {
                    let other = self.fill_in(other, resource);
                    self.include(path, &other, *is_name);
                }
            }
        }
        self.within.pop();
    }

    fn include(&mut self, page: &[u8], path: &str, is_name: bool) {
        self.includes += 1;
        // A name leads nowhere above its page's directory; a URL nowhere above the root, as resolving sees to.
        let is_wrong_name = is_name && (path.starts_with('/') || path.split('/').any(|segment| segment == ".."));
        if is_wrong_name || self.includes > INCLUDES_MAX {
            return self.wrong();
        }
        let directory = &page[..memchr::memrchr(b'/', page).map_or(0, |slash| slash + 1)];
        let mut encoded = Vec::new();
        if !path.starts_with('/') {
            target::encode(directory, &mut encoded);
        }
        if is_name {
            // It is written as the file is called, which may hold what means something in a URL.
            target::encode(path.as_bytes(), &mut encoded);
        } else {
            encoded.extend_from_slice(path.as_bytes());
        }
        match self.parts.part(&String::from_utf8_lossy(&encoded)) {
            Some(part) => self.add(&part),
            None => self.wrong(),
        }
    }

    fn echo(&mut self, name: &str, is_raw: bool, resource: &Resource) {
        // As with mod_include: what was never set says so.
        let value = self.value(name, resource).unwrap_or_else(|| "(none)".to_owned());
        if is_raw {
            return self.push(value.as_bytes());
        }
        let mut out = String::with_capacity(value.len());
        for character in value.chars() {
            match character {
                '&' => out.push_str("&amp;"),
                '<' => out.push_str("&lt;"),
                '>' => out.push_str("&gt;"),
                '"' => out.push_str("&quot;"),
                '\'' => out.push_str("&#39;"),
                _ => out.push(character),
            }
        }
        self.push(out.as_bytes());
    }

    fn set(&mut self, name: &str, value: &str, resource: &Resource) {
        let mut value = self.fill_in(value, resource);
        let end = (0..=VALUE_BYTES_MAX.min(value.len())).rev().find(|&end| value.is_char_boundary(end));
        value.truncate(end.unwrap_or(0));
        if let Some((_, before)) = self.variables.iter_mut().find(|(known, _)| known == name) {
            *before = value;
        } else if self.variables.len() < VARIABLES_MAX {
            self.variables.push((name.to_owned(), value));
        } else {
            self.wrong();
        }
    }

    fn fill_in(&self, text: &str, resource: &Resource) -> String {
        if text.contains('$') { template::fill_in(text, |name| self.value(name, resource)) } else { text.to_owned() }
    }

    fn value(&self, name: &str, resource: &Resource) -> Option<String> {
        if let Some((_, value)) = self.variables.iter().find(|(known, _)| known == name) {
            return Some(value.clone());
        }
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let is_own =
            matches!(name, "QUERY_STRING" | "REQUEST_METHOD" | "REQUEST_URI" | "HTTP_USER_AGENT" | "HTTP_REFERER");
        self.is_own.set(self.is_own.get() || is_own);
        // The document is the page that was asked for, and not a part of it.
        let document = self.within.first().map(Vec::as_slice).unwrap_or_default();
        match name {
            "DOCUMENT_URI" => Some(text(document)),
            "DOCUMENT_NAME" => Some(text(document.rsplit(|&byte| byte == b'/').next().unwrap_or_default())),
            "DATE_GMT" | "DATE_LOCAL" => Some(http_date(self.clock.unix_s)),
            "LAST_MODIFIED" => resource.modified_s.map(http_date),
            "QUERY_STRING" => Some(self.query.clone()),
            "REQUEST_METHOD" => Some(self.request.method_text.to_owned()),
            "REQUEST_URI" => Some(self.request.target.to_owned()),
            "HTTP_USER_AGENT" => self.request.user_agent.map(text),
            "HTTP_REFERER" => self.request.referrer.map(text),
            _ => None,
        }
    }

    fn push(&mut self, bytes: &[u8]) {
        if self.page.len() + bytes.len() <= PAGE_BYTES_MAX {
            self.page.extend_from_slice(bytes);
        } else {
            self.wrong();
        }
    }

    fn wrong(&mut self) {
        self.counters.include_errors.add(1);
        self.is_own.set(true);
        // At the bound there may be no room for the word either.
        if self.page.len() + WRONG.len() <= PAGE_BYTES_MAX {
            self.page.extend_from_slice(WRONG);
        }
    }
}
