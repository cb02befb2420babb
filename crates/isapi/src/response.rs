//! The response of a request: collected, written when the buffer is full, and ended by the sentinel.

use crate::abi::error;
use crate::head::{end_of, is_status, reason, status_of_line};
use crate::streams::{is_connected, read_at, write_all};
use std::os::fd::RawFd;

/// Bytes that are collected; a response of so many is written at once.
const BUFFER_BYTES: usize = 64 << 10;
/// Bytes of a head that comes in pieces, at most.
const HEAD_BYTES_MAX: usize = 64 << 10;

/// How far the head is.
#[derive(Debug, PartialEq, Eq)]
enum Head {
    /// The extension has said nothing.
    Unsent,
    /// It has begun a head whose empty line has not come: the fields, or a whole head with its status line.
    Open(Vec<u8>),
    /// What comes now is body.
    Sent,
}

/// Where bytes go.
#[derive(Debug, PartialEq, Eq)]
enum Outlet {
    /// To the client.
    Open,
    /// The extension has said that nothing more comes.
    Closed,
    /// The runner has closed the stream.
    Broken,
}

/// What an extension writes.
#[derive(Debug)]
pub(crate) struct Response {
    to: RawFd,
    sentinel: Vec<u8>,
    buffer: Vec<u8>,
    head: Head,
    outlet: Outlet,
}

impl Response {
    pub(crate) fn new(to: RawFd, sentinel: Vec<u8>) -> Self {
        let buffer = Vec::with_capacity(BUFFER_BYTES + sentinel.len());
        Self { to, sentinel, buffer, head: Head::Unsent, outlet: Outlet::Open }
    }

    /// A request begins.
    pub(crate) fn begin(&mut self) {
        self.buffer.clear();
        self.head = Head::Unsent;
        self.outlet = Outlet::Open;
    }

    /// Whether the extension has said nothing, so that a page can say what is wrong.
    pub(crate) fn is_unsent(&self) -> bool {
        self.head == Head::Unsent
    }

    /// Begins with a head: a status (200 if there is none), and fields with their empty line, behind which the body
    /// may begin. Without the empty line the next writes go on with the head.
    ///
    /// Fails if a head was sent, or the status is none.
    pub(crate) fn send_head(&mut self, status: Option<&[u8]>, fields: &[u8]) -> Result<(), u32> {
        let status = status.unwrap_or(b"200 OK");
        if !self.is_unsent() || !is_status(status) {
            return Err(error::INVALID_PARAMETER);
        }
        self.check()?;
        let is_whole = fields.is_empty() || end_of(fields).is_some();
        self.head = if is_whole { Head::Sent } else { Head::Open(fields.to_vec()) };
        self.push_status(status)?;
        match (is_whole, fields) {
            (true, b"") => self.push(b"\r\n"),
            (true, fields) => self.push(fields),
            (false, _) => Ok(()),
        }
    }

    /// Begins with a head that sends the client to a URL, or has the server answer with a local path.
    pub(crate) fn send_location(&mut self, status: Option<&[u8]>, url: &[u8]) -> Result<(), u32> {
        if !self.is_unsent() {
            return Err(error::INVALID_PARAMETER);
        }
        self.check()?;
        self.head = Head::Sent;
        if let Some(status) = status {
            self.push_status(status)?;
        }
        for part in [b"Location: ", url, b"\r\n\r\n"] {
            self.push(part)?;
        }
        Ok(())
    }

    /// Writes a part of the body, or of a head that is not at its end. Without a head, a text that begins with `HTTP/`
    /// is taken for one, else the response gets one with `status`.
    pub(crate) fn write(&mut self, data: &[u8], status: u32) -> Result<(), u32> {
        self.check()?;
        match &mut self.head {
            Head::Sent => self.push(data),
            _ if data.is_empty() => Ok(()),
            Head::Unsent if data.starts_with(b"HTTP/") => {
                self.head = Head::Open(Vec::new());
                self.go_on_with_head(data)
            }
            Head::Unsent => {
                self.push_default_head(status)?;
                self.push(data)
            }
            Head::Open(_) => self.go_on_with_head(data),
        }
    }

    /// Sends a part of a file: `bytes`, or all from the offset. Returns how many.
    pub(crate) fn send_file(&mut self, file: RawFd, offset: u64, bytes: Option<u64>, status: u32) -> Result<u64, u32> {
        let mut chunk = vec![0; BUFFER_BYTES];
        let mut sent = 0;
        loop {
            let left = bytes.map_or(u64::MAX, |bytes| bytes - sent);
            let wanted = usize::try_from(left).map_or(chunk.len(), |left| left.min(chunk.len()));
            let count = read_at(file, &mut chunk[..wanted], offset.saturating_add(sent));
            match count.map_err(|_| error::INVALID_HANDLE)? {
                0 if left > 0 && bytes.is_some() => return Err(error::HANDLE_EOF),
                0 => return Ok(sent),
                count => {
                    self.write(&chunk[..count], status)?;
                    sent += count as u64;
                }
            }
        }
    }

    /// Nothing more comes of this response.
    pub(crate) fn close(&mut self) {
        if self.outlet == Outlet::Open {
            self.outlet = Outlet::Closed;
        }
    }

    /// Whether the client is there, as far as the runner knows.
    pub(crate) fn is_connected(&self) -> bool {
        self.outlet == Outlet::Open && is_connected(self.to)
    }

    /// A page in place of a response that the extension has not begun.
    pub(crate) fn fail(&mut self, status: u32, words: &str) {
        self.begin();
        let head = format!("Status: {status}{}\r\nContent-Type: text/plain\r\n\r\n{words}\n", reason(status));
        self.head = Head::Sent;
        // A broken stream is found again at the end.
        let _ = self.push(head.as_bytes());
    }

    /// Writes what is collected, before the end is known.
    pub(crate) fn flush(&mut self) -> Result<(), u32> {
        if self.outlet != Outlet::Broken && !self.buffer.is_empty() {
            let written = write_all(self.to, &self.buffer);
            self.buffer.clear();
            if written.is_err() {
                self.outlet = Outlet::Broken;
            }
        }
        if self.outlet == Outlet::Broken { Err(error::NETNAME_DELETED) } else { Ok(()) }
    }

    /// Closes a head that is not at its end.
    pub(crate) fn complete(&mut self, status: u32) {
        // A broken stream is found again at the end.
        let _ = match std::mem::replace(&mut self.head, Head::Sent) {
            Head::Unsent => self.push_default_head(status),
            Head::Open(head) => {
                let end: &[u8] = if head.is_empty() || head.ends_with(b"\n") { b"\r\n" } else { b"\r\n\r\n" };
                self.push_head(&head).and_then(|()| self.push(end))
            }
            Head::Sent => Ok(()),
        };
    }

    /// Ends the response with the sentinel. Fails if the stream is broken.
    pub(crate) fn finish(&mut self) -> Result<(), u32> {
        if self.buffer.len() + self.sentinel.len() > self.buffer.capacity() {
            self.flush()?;
        }
        self.buffer.extend_from_slice(&self.sentinel);
        self.flush()
    }

    fn check(&self) -> Result<(), u32> {
        if self.outlet == Outlet::Open { Ok(()) } else { Err(error::NETNAME_DELETED) }
    }

    fn push_status(&mut self, status: &[u8]) -> Result<(), u32> {
        self.push(b"Status: ")?;
        self.push(status)?;
        self.push(b"\r\n")
    }

    fn push_default_head(&mut self, status: u32) -> Result<(), u32> {
        self.head = Head::Sent;
        let status = if (100..600).contains(&status) { status } else { 200 };
        self.push(format!("Status: {status}{}\r\nContent-Type: text/html\r\n\r\n", reason(status)).as_bytes())
    }

    fn go_on_with_head(&mut self, data: &[u8]) -> Result<(), u32> {
        let Head::Open(head) = &mut self.head else { return Ok(()) };
        if head.len() + data.len() > HEAD_BYTES_MAX && end_of(head).is_none() && end_of(data).is_none() {
            return Err(error::INVALID_PARAMETER);
        }
        head.extend_from_slice(data);
        if end_of(head).is_none() {
            return Ok(());
        }
        let head = std::mem::take(head);
        self.head = Head::Sent;
        self.push_head(&head)
    }

    /// Pushes a head that came in pieces, and what follows it: a status line becomes a field.
    fn push_head(&mut self, head: &[u8]) -> Result<(), u32> {
        match status_of_line(head).filter(|_| head.starts_with(b"HTTP/")) {
            Some((status, fields)) => {
                self.push_status(status)?;
                self.push(&head[fields..])
            }
            None => self.push(head),
        }
    }

    fn push(&mut self, data: &[u8]) -> Result<(), u32> {
        if self.outlet == Outlet::Broken {
            return Err(error::NETNAME_DELETED);
        }
        if self.buffer.len() + data.len() > BUFFER_BYTES {
            self.flush()?;
            if data.len() >= BUFFER_BYTES {
                return write_all(self.to, data).map_err(|_| {
                    self.outlet = Outlet::Broken;
                    error::NETNAME_DELETED
                });
            }
        }
        self.buffer.extend_from_slice(data);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// What a response is before its end, written by `begin` and then piece by piece.
    fn written(begin: impl FnOnce(&mut Response), text: &[u8], cuts: &[usize]) -> String {
        let mut response = Response::new(-1, b"$EOF$".to_vec());
        response.begin();
        begin(&mut response);
        let mut rest = text;
        for cut in cuts.iter().map(|&cut| cut.min(text.len())) {
            let (piece, behind) = rest.split_at(cut.min(rest.len()));
            response.write(piece, 200).expect("an open response");
            rest = behind;
        }
        response.write(rest, 200).expect("an open response");
        response.complete(200);
        String::from_utf8_lossy(&response.buffer).into_owned()
    }

    proptest! {
        #[test]
        fn pieces_make_no_difference(
            text in "(A: b\r?\n){0,3}(\r?\n)?[ab\r\n]{0,20}",
            cuts in prop::collection::vec(0_usize..12, 0..6),
        ) {
            let open = |response: &mut Response| response.send_head(Some(b"201 Created"), b"X: y\r\n").expect("a head");
            let whole = written(open, text.as_bytes(), &[]);
            prop_assert!(whole.starts_with("Status: 201 Created\r\nX: y\r\n"));
            prop_assert!(end_of(whole.as_bytes()).is_some());
            prop_assert_eq!(written(open, text.as_bytes(), &cuts), whole);
        }

        #[test]
        fn a_whole_head_in_pieces_is_one(
            body in "[ab\r\n]{0,20}",
            first in 5_usize..40,
            cuts in prop::collection::vec(1_usize..12, 0..6),
        ) {
            let text = format!("HTTP/1.0 404 Not Found\r\nX: y\r\n\r\n{body}");
            let cuts = [&[first], cuts.as_slice()].concat();
            prop_assert_eq!(
                written(|_| (), text.as_bytes(), &cuts),
                format!("Status: 404 Not Found\r\nX: y\r\n\r\n{body}")
            );
        }
    }
}
