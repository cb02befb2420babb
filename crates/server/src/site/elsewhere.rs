//! Responses with content that lies on another machine: their heads are made here, by what the link in its place says,
//! and the bytes go to the client as they come.

use super::asked::Asked;
use super::destination::Located;
use super::elsewhere_file::ElsewhereFile;
use super::multipart::{Multipart, content_range};
use crate::exchange::application::{Aborted, Answerer, Application, ApplicationHandle, Handler, RequestHead, Wake};
use crate::exchange::elsewhere::{ContentAway, ElsewhereHandle, IncomingContent, WantedContent};
use crate::exchange::error_page::{self, Extra};
use crate::exchange::life::Exchange;
use crate::exchange::reply::Reply;
use crate::exchange::request_body::RequestBody;
use crate::files::conditional::{self, Validators, Verdict};
use crate::files::elsewhere::Named;
use crate::files::encodings;
use crate::files::head;
use crate::http::media_type;
use crate::http::range::{self, Ranges};
use crate::http::request::Method;
use crate::http::response::Digest;
use crate::io::clock::http_date;
use crate::site::assembly;
use crate::site::state::Site;
use std::collections::VecDeque;
use std::hash::BuildHasher;
use std::io;
use std::sync::Arc;

/// Hexadecimal digits of a digest in an entity tag, as those of files in memory have them.
const TAG_DIGITS: usize = 32;

impl Site {
    /// The file of a path where nothing can be opened, if its content lies elsewhere.
    pub(super) fn found_elsewhere(
        &self,
        path: &[u8],
        located: &io::Result<Located>,
        now_s: u64,
    ) -> Option<Box<ElsewhereFile>> {
        self.elsewhere.as_ref()?;
        let names: Vec<Vec<u8>> = if path.ends_with(b"/") {
            let most = match located {
                Ok(Located::Directory(_)) | Err(_) => self.index.len(),
                // Names before it stand for the directory in its place.
                Ok(Located::Index(_, _, number)) => *number,
                Ok(Located::File(..) | Located::Redirect) => 0,
            };
            self.index[..most].iter().map(|name| [path, name].concat()).collect()
        } else if located.is_err() {
            vec![path.to_vec()]
        } else {
            Vec::new()
        };
        let (name, named) = names.into_iter().find_map(|name| {
            let named = self.root.named_elsewhere(&name)?;
            Some((name, named))
        })?;
        Some(Box::new(self.describe_elsewhere(name, named, now_s)))
    }

    fn describe_elsewhere(&self, path: Vec<u8>, named: Named, now_s: u64) -> ElsewhereFile {
        let content_type = media_type::of(&path, &self.media_types);
        let coding = media_type::coding_of(&path, &self.media_types);
        let coding_field = coding.map(|coding| format!("Content-Encoding: {coding}\r\n")).unwrap_or_default();
        let etag = format!("\"{}\"", &Digest(named.digest).to_string()[..TAG_DIGITS]);
        let modified_s = Some(named.modified_s).filter(|modified_s| (1..=now_s).contains(modified_s));
        let mut validators = format!("ETag: {etag}\r\n");
        if let Some(modified_s) = modified_s {
            validators.push_str(&format!("Last-Modified: {}\r\n", http_date(modified_s)));
        }
        // Other nodes, and this one once it has the content, may send it compressed.
        if coding.is_none() && encodings::makes(&content_type, named.bytes, &self.compression) {
            validators.push_str("Vary: Accept-Encoding\r\n");
        }
        ElsewhereFile { named, path, content_type, coding_field, etag, modified_s, validators }
    }

    /// Answers with it: whole, in ranges, or not at all.
    pub(super) fn answer_found_elsewhere(&mut self, asked: &Asked<'_>, file: &ElsewhereFile, out: &mut Exchange) {
        let Asked { request, clock, persistence, .. } = *asked;
        let extra = Extra { fields: b"", head_only: request.method == Method::Head };
        let Some(elsewhere) = self.elsewhere.clone() else {
            return error_page::write(out, 404, extra, clock, persistence);
        };
        if self.includes && assembly::is_page(&file.path) {
            let why = "This page is put together of parts, and lies on another machine, which does that.";
            return error_page::write_explained(out, (503, why), extra, clock, persistence);
        }
        let size = file.named.bytes;
        let of = Validators { etag: &file.etag, modified_s: file.modified_s, is_backdated: true };
        let verdict =
            if request.is_conditional { conditional::judge(request, of, clock.unix_s) } else { Verdict::Whole };
        let ranges = match (verdict, request.range) {
            (Verdict::Ranges, Some(field)) => range::parse(field, size, self.ranges_max),
            _ => Ranges::Whole,
        };
        match (verdict, ranges) {
            (Verdict::Failed, _) => {
                let extra = Extra { fields: file.validators.as_bytes(), ..extra };
                error_page::write(out, 412, extra, clock, persistence);
            }
            (Verdict::NotModified, _) => {
                out.status = 304;
                let head = &mut out.response.head;
                head::other(head, 304, &[file.validators.as_bytes()], clock, persistence);
                out.head_bytes = head.len() as u64;
            }
            (_, Ranges::Unsatisfiable) => {
                let field = format!("Content-Range: bytes */{size}\r\nAccept-Ranges: bytes\r\n");
                error_page::write(out, 416, Extra { fields: field.as_bytes(), ..extra }, clock, persistence);
            }
            (_, Ranges::Whole) if extra.head_only || size == 0 => {
                out.status = 200;
                let (fields, length) = (file.whole_fields(), format!("Content-Length: {size}\r\n"));
                let head = &mut out.response.head;
                head::other(head, 200, &[fields.as_bytes(), length.as_bytes()], clock, persistence);
                out.head_bytes = head.len() as u64;
            }
            (_, ranges) => {
                let fetching =
                    Fetching { elsewhere, named: file.named, plan: self.plan(file, &ranges), path: file.path.clone() };
                out.choose(Answerer::Application(ApplicationHandle(Arc::new(fetching))), Box::new(|_| {}));
            }
        }
    }

    /// What is sent for the whole, or for these ranges.
    fn plan(&mut self, file: &ElsewhereFile, ranges: &Ranges) -> Plan {
        let size = file.named.bytes;
        let Ranges::Some(ranges) = ranges else {
            return Plan {
                status: 200,
                fields: file.whole_fields(),
                length: size,
                pieces: [Piece::Content(0, size)].into(),
            };
        };
        let (content_type, coding_field) = (&*file.content_type, &*file.coding_field);
        if let [(start, end)] = **ranges {
            let range = content_range((start, end), size);
            let fields = format!("Content-Type: {content_type}\r\n{coding_field}{range}{}", file.validators);
            return Plan { status: 206, fields, length: end - start, pieces: [Piece::Content(start, end)].into() };
        }
        self.boundary_count += 1;
        let boundary = format!("{:016x}", self.boundaries.hash_one(self.boundary_count));
        let Multipart { between, end, .. } = Multipart::of(ranges, size, (content_type, coding_field), &boundary);
        let content: u64 = ranges.iter().map(|(start, end)| end - start).sum();
        let length = content + (between.iter().map(String::len).sum::<usize>() + end.len()) as u64;
        let mut pieces = VecDeque::with_capacity(2 * ranges.len() + 1);
        for (text, (start, end)) in between.into_iter().zip(ranges) {
            pieces.extend([Piece::Text(text.into_bytes()), Piece::Content(*start, *end)]);
        }
        pieces.push_back(Piece::Text(end.into_bytes()));
        let fields =
            format!("Content-Type: multipart/byteranges; boundary={boundary}\r\n{coding_field}{}", file.validators);
        Plan { status: 206, fields, length, pieces }
    }
}

/// A part of a body.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Text(Vec<u8>),
    /// Of the content, from its first byte to one past its last.
    Content(u64, u64),
}

/// A response.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Plan {
    status: u16,
    fields: String,
    length: u64,
    pieces: VecDeque<Piece>,
}

/// A response that is to be fetched.
#[derive(Debug)]
struct Fetching {
    elsewhere: ElsewhereHandle,
    named: Named,
    path: Vec<u8>,
    plan: Plan,
}

impl Application for Fetching {
    fn begin(&self, _: &RequestHead<'_>, wake: Wake) -> Box<dyn Handler> {
        let (elsewhere, path) = (self.elsewhere.clone(), self.path.clone());
        let (plan, named) = (self.plan.clone(), self.named);
        Box::new(Fetched { elsewhere, named, path, plan, wake, incoming: None, ready: Vec::new(), given: 0 })
    }
}

/// One that is fetched.
#[derive(Debug)]
struct Fetched {
    elsewhere: ElsewhereHandle,
    named: Named,
    path: Vec<u8>,
    plan: Plan,
    wake: Wake,
    incoming: Option<Box<dyn IncomingContent>>,
    /// What has come and was not given on, and how much of it was.
    ready: Vec<u8>,
    given: usize,
}

impl Fetched {
    /// The next bytes; false if they are still to come.
    fn advance(&mut self) -> Result<bool, ContentAway> {
        // All of it was given, and is not given again while the next bytes are still to come.
        (self.given, self.ready) = (0, Vec::new());
        match self.plan.pieces.front_mut() {
            None => {}
            Some(Piece::Text(text)) => {
                self.ready = std::mem::take(text);
                self.plan.pieces.pop_front();
            }
            Some(Piece::Content(from, to)) => {
                let wanted = WantedContent {
                    path: &self.path,
                    digest: self.named.digest,
                    bytes: self.named.bytes,
                    from: *from,
                    to: *to,
                };
                let begin = || self.elsewhere.0.begin(&wanted, self.wake.clone());
                let Some(bytes) = self.incoming.get_or_insert_with(begin).next()? else { return Ok(false) };
                *from = from.saturating_add(bytes.len() as u64).min(*to);
                self.ready = bytes;
                if from == to {
                    self.incoming = None;
                    self.plan.pieces.pop_front();
                }
            }
        }
        Ok(true)
    }
}

impl Handler for Fetched {
    fn go_on(&mut self, body: &mut RequestBody, reply: &mut Reply) -> Result<(), Aborted> {
        // What a client sends with a GET means nothing (RFC 9110 section 9.3.1).
        let unread = body.bytes().len();
        body.take(unread);
        loop {
            if self.given == self.ready.len() {
                if reply.has_begun() && reply.is_blocked() {
                    return Ok(());
                }
                let is_over = self.plan.pieces.is_empty();
                if is_over {
                    return if reply.end_relayed() { Ok(()) } else { Err(Aborted) };
                }
                match self.advance() {
                    Ok(true) => {}
                    Ok(false) => return Ok(()),
                    Err(away) if !reply.has_begun() => return refuse(&away, reply),
                    Err(_) => return Err(Aborted),
                }
            }
            if !reply.has_begun() {
                let fields = std::mem::take(&mut self.plan.fields).into_bytes();
                reply.relay(self.plan.status, fields, Some(self.plan.length));
            }
            let given = reply.write(&self.ready[self.given..]);
            self.given += given;
            if given == 0 && self.given < self.ready.len() {
                return Ok(());
            }
        }
    }
}

/// Says in words that the content does not come.
fn refuse(away: &ContentAway, reply: &mut Reply) -> Result<(), Aborted> {
    let text = format!("{away}\n");
    let fields = [("Content-Type", "text/plain; charset=utf-8"), ("Cache-Control", "no-store"), ("Retry-After", "2")];
    reply.begin(503, &fields, Some(text.len() as u64)).map_err(|_| Aborted)?;
    reply.write(text.as_bytes());
    if reply.end_relayed() { Ok(()) } else { Err(Aborted) }
}
