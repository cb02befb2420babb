//! HTTP/1.1 towards another server (RFC 9112): a request's first line, and its response's status.

use super::protocol::{Fact, Outcome, Protocol, Seen, Turns};
use super::shape::{bounded, path};

/// Methods that requests are known by.
const METHODS: [&str; 9] = ["GET", "POST", "PUT", "HEAD", "DELETE", "PATCH", "OPTIONS", "CONNECT", "TRACE"];
/// The longest first line that is read.
const LINE_BYTES_MAX: usize = 480;
/// From this status on a request has failed.
const FAILED: u16 = 400;

/// A connection. Clients do not send a request before the response to the one before (pipelining is off everywhere), so
/// a response begins with the first bytes after a request.
#[derive(Debug, Default)]
pub(super) struct Http1 {
    turns: Turns,
    whole: bool,
}

/// Method and target of a first line, as far as it was seen.
fn first_line(bytes: &[u8]) -> Option<(&'static str, &str)> {
    let line = &bytes[..bytes.len().min(LINE_BYTES_MAX)];
    let end = line.iter().position(|byte| *byte == b'\r' || *byte == b'\n');
    let text = match std::str::from_utf8(&line[..end.unwrap_or(line.len())]) {
        Ok(text) => text,
        Err(error) => std::str::from_utf8(&line[..error.valid_up_to()]).unwrap_or_default(),
    };
    let (method, rest) = text.split_once(' ')?;
    let method = METHODS.into_iter().find(|known| *known == method)?;
    let (target, version) = rest.split_once(' ').unwrap_or((rest, ""));
    let fits = if end.is_some() { version.starts_with("HTTP/1.") } else { !target.is_empty() };
    fits.then_some((method, target))
}

/// Whether the first bytes that a client gave are a request.
pub(super) fn begins(bytes: &[u8]) -> bool {
    first_line(bytes).is_some_and(|(_, target)| target.starts_with(['/', '*']) || target.contains(':'))
}

impl Http1 {
    /// `whole` keeps queries.
    pub(super) fn new(whole: bool) -> Self {
        Self { turns: Turns::default(), whole }
    }
}

impl Protocol for Http1 {
    fn name(&self) -> &'static str {
        "http"
    }

    fn given(&mut self, seen: Seen<'_>, tell: &mut dyn FnMut(Fact)) {
        // Anything else is the rest of a head, or a body.
        let Some((method, target)) = first_line(seen.bytes) else { return };
        if let Some(key) = self.turns.front() {
            // One that was never answered.
            self.turns.end();
            tell(Fact::Ended(key, Outcome::Unseen));
        }
        let key = self.turns.ask();
        let target = if self.whole { bounded(target.to_owned()) } else { path(target) };
        tell(Fact::Asked(key, format!("{method} {target}")));
    }

    fn taken(&mut self, seen: Seen<'_>, tell: &mut dyn FnMut(Fact)) {
        let Some(key) = self.turns.front() else { return };
        let status = seen.bytes.strip_prefix(b"HTTP/1.").and_then(|rest| rest.get(2..5));
        let status: Option<u16> = status.and_then(|digits| std::str::from_utf8(digits).ok()?.parse().ok());
        let Some(status) = status.filter(|status| (100..600).contains(status)) else { return };
        if (100..200).contains(&status) && status != 101 {
            return;
        }
        self.turns.end();
        let text = status.to_string();
        tell(Fact::Ended(key, if status >= FAILED { Outcome::Failed(text) } else { Outcome::Fine(Some(text)) }));
    }

    fn is_lost(&self) -> bool {
        false
    }

    fn resume(&mut self) {
        self.turns.clear();
    }
}
