//! The second look at a response's head: what a strict parser refuses, and deployed clients take.
//!
//! [`rewrite`] gives the head as the standard wants it, so that any strict parser can read it, and what was odd about it.
//! What would leave the response's end in doubt is refused.

use crate::oddity::{Oddities, Oddity};
use crate::other::{Unlike, shown};
use memchr::memchr;
use std::borrow::Cow;

/// The longest head that is taken, in bytes.
pub const HEAD_BYTES_MAX: usize = 256 * 1024;
/// Headers that say where a response ends: no doubt is left about their values.
const OF_FRAMING: [&str; 2] = ["content-length", "transfer-encoding"];

/// Where a head ends, found in any pieces it comes.
#[derive(Debug, Clone, Default)]
pub struct EndOfHead {
    /// Where the line begins that has no end yet.
    line: usize,
    /// How far no line's end is left to be found.
    looked: usize,
    /// Whether a line that is not empty came.
    begun: bool,
}

impl EndOfHead {
    /// Where the head ends, behind its empty line; `bytes` are all that came of it so far.
    pub fn find(&mut self, bytes: &[u8]) -> Option<usize> {
        while let Some(end) = memchr(b'\n', bytes.get(self.looked..)?) {
            let end = self.looked + end;
            let is_empty = bytes[self.line..end].iter().all(|byte| *byte == b'\r');
            (self.line, self.looked) = (end + 1, end + 1);
            if is_empty && self.begun {
                return Some(end + 1);
            }
            self.begun |= !is_empty;
        }
        self.looked = bytes.len();
        None
    }
}

/// What a status line says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatusLine<'h> {
    /// Whether connections stay by default: HTTP/1.1 and what is later.
    pub is_later: bool,
    /// The status.
    pub status: u16,
    /// The reason phrase.
    pub reason: &'h [u8],
    /// What is odd about the line.
    pub oddities: Oddities,
}

/// Lines of a head without their ends; the empty ones at its begin are left out.
fn lines(head: &[u8]) -> impl Iterator<Item = &[u8]> {
    let lines = head.split(|byte| *byte == b'\n').map(|line| {
        let end = line.iter().rposition(|byte| *byte != b'\r').map_or(0, |last| last + 1);
        &line[..end]
    });
    lines.skip_while(|line| line.is_empty())
}

/// Whether the beginning of a response can be one; `is_all` says that no more follows.
///
/// # Errors
/// [`Unlike`]: it is something else, or its status line cannot be read.
pub fn judge(bytes: &[u8], is_all: bool) -> Result<(), Unlike> {
    let from = bytes.iter().position(|byte| !matches!(byte, b'\r' | b'\n')).unwrap_or(bytes.len());
    let bytes = &bytes[from..];
    let compared = bytes.len().min(5);
    if !bytes[..compared].eq_ignore_ascii_case(&b"HTTP/"[..compared]) {
        return Unlike::of(bytes, is_all).map_or(Ok(()), Err);
    }
    match memchr(b'\n', bytes) {
        Some(_) => status_line(bytes).map(|_| ()),
        None => Ok(()),
    }
}

/// Reads the status line that a head begins with.
///
/// # Errors
/// [`Unlike`]: it says no status.
pub fn status_line(head: &[u8]) -> Result<StatusLine<'_>, Unlike> {
    let mut oddities = Oddities::default();
    let line = lines(head).next().unwrap_or_default();
    // Lone returns before it are passed over, as those of empty lines are.
    let line = &line[line.iter().position(|byte| *byte != b'\r').unwrap_or(line.len())..];
    let refuse = |what: &str| Err(Unlike(format!("{what}: `{}`", shown(&line[..line.len().min(40)]))));
    let Some((protocol, version)) = line.split_at_checked(5).filter(|(begin, _)| begin.eq_ignore_ascii_case(b"HTTP/"))
    else {
        return Err(Unlike::of(line, true).unwrap_or_else(|| Unlike("its status line is empty".to_owned())));
    };
    let blank = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\x0b' | b'\x0c' | b'\r');
    let digits = version.iter().position(|byte| !byte.is_ascii_digit() && *byte != b'.').unwrap_or(version.len());
    let (version, rest) = version.split_at(digits);
    let (major, minor) = match version.iter().position(|byte| *byte == b'.') {
        Some(at) => (&version[..at], &version[at + 1..]),
        None => (version, &b""[..]),
    };
    if major.is_empty() {
        return refuse("its status line has no version");
    }
    let is_known = matches!(version, b"1.0" | b"1.1") && protocol == b"HTTP/";
    oddities.note_if(!is_known, Oddity::Version);
    let number =
        |digits: &[u8]| digits.iter().fold(0u32, |n, byte| n.saturating_mul(10).saturating_add(u32::from(byte - b'0')));
    // RFC 9110 2.5: a later version is read as the latest that is known.
    let minor_is_plain = minor.iter().all(u8::is_ascii_digit);
    let is_later = number(major) > 1 || number(major) == 1 && minor_is_plain && number(minor) >= 1;
    let code_at = rest.iter().position(|byte| !blank(byte)).unwrap_or(rest.len());
    if code_at == 0 {
        return refuse("its status line has no blank behind the version");
    }
    let code = &rest[code_at..];
    let Some(digits) = code.get(..3).filter(|code| code.iter().all(u8::is_ascii_digit)) else {
        return refuse("its status line has no status of three digits");
    };
    if code.get(3).is_some_and(u8::is_ascii_digit) {
        return refuse("its status has more than three digits");
    }
    let status = number(digits) as u16;
    if status < 100 {
        return refuse("its status is below 100 (RFC 9110 15)");
    }
    let behind = &code[3..];
    oddities
        .note_if(rest[..code_at] != *b" " || behind.first().is_some_and(|byte| *byte != b' '), Oddity::StatusBlanks);
    Ok(StatusLine { is_later, status, reason: behind.trim_ascii(), oddities })
}

/// Appends a head, which is whole, to `out` as the standard wants it; gives what was odd about it.
///
/// # Errors
/// [`Unlike`]: the head is no response's, or leaves the response's end in doubt.
pub fn rewrite(head: &[u8], out: &mut Vec<u8>) -> Result<Oddities, Unlike> {
    let StatusLine { is_later, status, reason, mut oddities } = status_line(head)?;
    oddities.add(of_lines(head));
    out.extend_from_slice(format!("HTTP/1.{} {status} ", u8::from(is_later)).as_bytes());
    value(reason, out, &mut oddities);
    out.extend_from_slice(b"\r\n");
    let mut rest = lines(head).skip(1).peekable();
    let mut is_first = true;
    while let Some(line) = rest.next() {
        if line.is_empty() {
            break;
        }
        let mut whole = Cow::Borrowed(line);
        while let Some(more) = rest.next_if(|line| begins_blank(line)) {
            if line.contains(&b':') && !(is_first && begins_blank(line)) {
                oddities.note(Oddity::Folded);
                let whole = whole.to_mut();
                whole.push(b' ');
                whole.extend_from_slice(more.trim_ascii());
            } else {
                // It goes on with what is no header, and must not make one of it.
                oddities.note(Oddity::Stray);
            }
        }
        if is_first && begins_blank(line) {
            // RFC 9112 2.2: what begins with a blank before the first header is not looked at.
            oddities.note(Oddity::Stray);
            continue;
        }
        is_first = false;
        field(&whole, out, &mut oddities)?;
    }
    out.extend_from_slice(b"\r\n");
    Ok(oddities)
}

fn begins_blank(line: &[u8]) -> bool {
    matches!(line.first(), Some(b' ' | b'\t'))
}

/// What is odd about the ends of a head's lines.
#[must_use]
pub fn of_lines(head: &[u8]) -> Oddities {
    let mut oddities = Oddities::default();
    oddities.note_if(matches!(head.first(), Some(b'\r' | b'\n')), Oddity::LineBefore);
    let mut begin = 0;
    for end in memchr::memchr_iter(b'\n', head) {
        let line = &head[begin..end];
        begin = end + 1;
        match line.strip_suffix(b"\r") {
            None => oddities.note(Oddity::BareLineFeed),
            Some(line) => oddities.note_if(line.ends_with(b"\r"), Oddity::BareReturn),
        }
    }
    oddities
}

/// Appends a header line; one that is none is left out.
fn field(line: &[u8], out: &mut Vec<u8>, oddities: &mut Oddities) -> Result<(), Unlike> {
    let Some(colon) = memchr(b':', line) else {
        oddities.note(Oddity::Stray);
        return Ok(());
    };
    let name = line[..colon].trim_ascii_end();
    oddities.note_if(name.len() < colon, Oddity::BlankBeforeColon);
    if name.is_empty() {
        oddities.note(Oddity::Stray);
        return Ok(());
    }
    let of_framing = OF_FRAMING.iter().any(|known| name.eq_ignore_ascii_case(known.as_bytes()));
    let own = &line[colon + 1..];
    if of_framing && own.iter().any(|byte| byte.is_ascii_control() && *byte != b'\t') {
        let name = shown(name);
        return Err(Unlike(format!("a control character in its {name}: `{}`", shown(&own[..own.len().min(40)]))));
    }
    for byte in name {
        let is_fit = byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte);
        oddities.note_if(!is_fit, Oddity::Name);
        // With a character that no header of framing has, so that it cannot become one.
        out.push(if is_fit { *byte } else { b'_' });
    }
    out.extend_from_slice(b": ");
    value(own.trim_ascii(), out, oddities);
    out.extend_from_slice(b"\r\n");
    Ok(())
}

/// Appends a value, with blanks in the place of control characters.
fn value(bytes: &[u8], out: &mut Vec<u8>, oddities: &mut Oddities) {
    for byte in bytes {
        let is_control = byte.is_ascii_control() && *byte != b'\t';
        oddities.note_if(is_control, if *byte == b'\r' { Oddity::BareReturn } else { Oddity::Control });
        out.push(if is_control { b' ' } else { *byte });
    }
}

#[cfg(test)]
mod tests;
