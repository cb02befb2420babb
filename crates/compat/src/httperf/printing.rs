//! What is printed of calls on the way (`--print-request`, `--print-reply`, `-v`).

use super::calls::Bytes;
use super::parts::Parts;
use crate::reply::Reply;
use std::fmt::Write;
use weir_terminal::output::print;

/// What is printed.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Printing {
    pub(super) requests: Parts,
    pub(super) replies: Parts,
    pub(super) verbose: bool,
}

impl Printing {
    /// Whether contents are to be kept for it.
    pub(super) fn wants_content(self) -> bool {
        self.replies.content
    }

    pub(super) fn request(self, number: u64, bytes: &Bytes) {
        if !self.requests.any() {
            return;
        }
        let (head, content) = bytes.all.split_at(bytes.head_bytes);
        let mut text = String::new();
        if self.requests.head {
            lines(&mut text, "SH", number, head);
        }
        if self.requests.content {
            lines(&mut text, "SB", number, content);
        }
        // Writing to a string cannot fail.
        let _ = writeln!(text, "SS{number}: header {} content {}", head.len(), content.len());
        put(&text);
    }

    pub(super) fn reply(self, number: u64, reply: &Reply) {
        if !self.replies.any() {
            return;
        }
        let mut text = String::new();
        if self.replies.head {
            lines(&mut text, "RH", number, &reply.head);
        }
        if self.replies.content {
            lines(&mut text, "RB", number, &reply.content);
        }
        let (head, content, footer) = (reply.head.len(), reply.content_bytes, reply.footer_bytes);
        let _ = writeln!(text, "RS{number}: header {head} content {content} footer {footer}");
        put(&text);
    }

    pub(super) fn accessing(self, uri: &str) {
        if self.verbose {
            put(&format!("httperf: accessing URI `{uri}'\n"));
        }
    }
}

/// Each line with its mark; a carriage return stays in it, as in the original.
fn lines(text: &mut String, mark: &str, number: u64, bytes: &[u8]) {
    let bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    if bytes.is_empty() {
        return;
    }
    for line in bytes.split(|byte| *byte == b'\n') {
        let _ = writeln!(text, "{mark}{number}:{}", String::from_utf8_lossy(line));
    }
}

fn put(text: &str) {
    // Where stdout fails now, the report fails, too, and that error is shown.
    let _ = print(text);
}
