//! What a request for something below the root is answered with.

use crate::atom::{Atom, Stamp};
use crate::cache::{Cache, Found};
use crate::clock::Clock;
use crate::conditional::{self, Verdict};
use crate::counters::LoopCounters;
use crate::error_page::{self, Extra};
use crate::head::{self, Persistence};
use crate::listing;
use crate::options::Options;
use crate::pending::Pending;
use crate::range::{self, Ranges};
use crate::request::{Method, Request};
use crate::response::{Part, Variant};
use crate::root::Root;
use crate::target::{self, BadTarget};
use std::fs::{File, Metadata};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::rc::Rc;

/// The Allow field, the same for everything that is served.
const ALLOW: &[u8] = b"Allow: GET, HEAD, OPTIONS\r\n";
/// A root directory with its cache, as one loop serves it.
#[derive(Debug)]
pub(crate) struct Site {
    root: Root,
    cache: Cache,
    memory_bytes_max: u64,
    listing: Option<listing::Shown>,
    dot_files: bool,
    /// Names of files that stand for their directory.
    index: Vec<Vec<u8>>,
    ranges_max: usize,
    decoded: Vec<u8>,
    /// Makes boundaries that nobody can put into a file beforehand.
    boundaries: RandomState,
    boundary_count: u64,
}

/// What a path leads to.
enum Located {
    File(File, Metadata),
    /// The file that stands for a directory, with its number among the names of such files.
    Index(File, Metadata, usize),
    /// A directory without an index.
    Directory(File),
    /// A directory asked for without its slash.
    Redirect,
}

/// The same, ready to be served.
enum Resource {
    Atom(Rc<Atom>),
    Directory(File),
    Redirect,
    Failed(u16),
}

impl Site {
    pub(crate) fn new(root: Root, options: &Options, files_max: usize) -> Self {
        let bytes_max = options.cache_bytes_max / options.loops.max(1) as u64;
        let entries_max = options.limits.listing_entries_max;
        Self {
            root,
            cache: Cache::new(bytes_max, files_max),
            memory_bytes_max: options.cached_file_bytes_max,
            listing: options.listing.then_some(listing::Shown { dot_files: options.dot_files, entries_max }),
            dot_files: options.dot_files,
            index: options.index.iter().map(|name| name.clone().into_bytes()).collect(),
            ranges_max: options.limits.ranges_max,
            decoded: Vec::new(),
            boundaries: RandomState::new(),
            boundary_count: 0,
        }
    }

    /// Whether it is of the same directory.
    pub(crate) fn is_same_root(&self, root: &Root) -> bool {
        self.root.is_same(root)
    }

    /// Makes the response to a request, whatever it is.
    pub(crate) fn respond(
        &mut self,
        request: &Request<'_>,
        persistence: Persistence,
        clock: &Clock,
        counters: &LoopCounters,
        out: &mut Pending,
    ) {
        let extra = Extra { fields: b"", head_only: request.method == Method::Head };
        match request.method {
            Method::Get | Method::Head => {}
            Method::Options => return options(out, clock, persistence),
            Method::Other => return error_page::write(out, 405, Extra { fields: ALLOW, ..extra }, clock, persistence),
        }
        let mut decoded = std::mem::take(&mut self.decoded);
        match target::resolve(request.target, self.dot_files, &mut decoded) {
            Ok(found) => match self.resource(found.path, clock, counters) {
                Resource::Atom(atom) => self.content(request, atom, clock, persistence, out),
                Resource::Directory(directory) => {
                    self.directory(directory, found.path, extra, clock, persistence, out);
                }
                Resource::Redirect => redirect(&found, extra, clock, persistence, out),
                Resource::Failed(status) => error_page::write(out, status, extra, clock, persistence),
            },
            Err(BadTarget::Malformed) => error_page::write(out, 400, extra, clock, persistence),
            Err(BadTarget::Closed) => error_page::write(out, 404, extra, clock, persistence),
        }
        self.decoded = decoded;
    }

    /// Finds content in the cache, or on disk and then in the cache.
    fn resource(&mut self, path: &[u8], clock: &Clock, counters: &LoopCounters) -> Resource {
        let stale = match self.cache.find(path, clock.now_ms) {
            Found::Fresh(atom) => {
                counters.cache_hits.add(1);
                return Resource::Atom(atom);
            }
            Found::Stale(stamp) => Some(stamp),
            Found::Missing => None,
        };
        let located = self.locate(path);
        let is_usable = stale.is_some_and(|stamp| match &located {
            Ok(Located::File(_, metadata) | Located::Index(_, metadata, _)) => Stamp::of(metadata) == stamp,
            Ok(_) => false,
            // Without descriptors or memory for a look, the content of a second ago is better than an error.
            Err(error) => status_of(error) >= 500,
        });
        if is_usable && let Some(atom) = self.cache.confirm(path, clock.now_ms) {
            counters.cache_hits.add(1);
            return Resource::Atom(atom);
        }
        if self.cache.remove(path) {
            counters.cache_stale.add(1);
        }
        counters.cache_misses.add(1);
        let name = match &located {
            Ok(Located::Index(_, _, number)) => &self.index[*number],
            _ => path,
        };
        let loaded = located.and_then(|located| match located {
            Located::Redirect => Ok(Resource::Redirect),
            Located::Directory(directory) => Ok(Resource::Directory(directory)),
            Located::File(file, _) | Located::Index(file, ..) => {
                let atom = Rc::new(Atom::load(file, name, self.memory_bytes_max, clock.unix_s)?);
                counters.cache_evictions.add(self.cache.insert(path, &atom, clock.now_ms));
                Ok(Resource::Atom(atom))
            }
        });
        loaded.unwrap_or_else(|error| Resource::Failed(status_of(&error)))
    }

    fn locate(&self, path: &[u8]) -> io::Result<Located> {
        let file = self.root.open(path)?;
        let metadata = file.metadata()?;
        if metadata.is_file() {
            return Ok(Located::File(file, metadata));
        }
        if !metadata.is_dir() {
            return Err(io::ErrorKind::NotFound.into());
        }
        if !path.ends_with(b"/") {
            return Ok(Located::Redirect);
        }
        for (number, name) in self.index.iter().enumerate() {
            match self.root.open(&[path, name.as_slice()].concat()) {
                Ok(index) => {
                    let metadata = index.metadata()?;
                    if metadata.is_file() {
                        return Ok(Located::Index(index, metadata, number));
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Located::Directory(file))
    }

    /// Answers with content: whole, in ranges, or not at all.
    fn content(
        &mut self,
        request: &Request<'_>,
        atom: Rc<Atom>,
        clock: &Clock,
        persistence: Persistence,
        out: &mut Pending,
    ) {
        let size = atom.size();
        let verdict =
            if request.is_conditional { conditional::judge(request, &atom, clock.unix_s) } else { Verdict::Whole };
        let ranges = match (verdict, request.range) {
            (Verdict::Ranges, Some(field)) => range::parse(field, size, self.ranges_max),
            _ => Ranges::Whole,
        };
        let extra = Extra { fields: b"", head_only: request.method == Method::Head };
        let head = &mut out.response.head;
        match (verdict, ranges) {
            (Verdict::Failed, _) => {
                let extra = Extra { fields: &atom.validators, ..extra };
                return error_page::write(out, 412, extra, clock, persistence);
            }
            (Verdict::NotModified, _) => {
                out.status = 304;
                head::other(head, 304, &[&atom.validators], clock, persistence);
                out.head_bytes = head.len() as u64;
                return;
            }
            (_, Ranges::Unsatisfiable) => {
                let field = format!("Content-Range: bytes */{size}\r\nAccept-Ranges: bytes\r\n");
                return error_page::write(out, 416, Extra { fields: field.as_bytes(), ..extra }, clock, persistence);
            }
            (_, Ranges::Whole) => {
                out.status = 200;
                head::whole(head, &atom, clock, persistence);
                out.head_bytes = head.len() as u64;
                if !extra.head_only && size > 0 {
                    out.response.parts.push(Part { head_end: out.head_bytes, start: 0, end: size });
                }
            }
            (_, Ranges::Some(ranges)) => self.partial(&ranges, &atom, clock, persistence, out),
        }
        if !out.response.parts.is_empty() {
            out.response.atom = Some(atom.id);
            out.response.variant = Variant::Identity;
            out.atom = Some(atom);
        }
    }

    /// A 206 with one range or several (RFC 9110 sections 15.3.7.1 and 15.3.7.2).
    fn partial(
        &mut self,
        ranges: &[(u64, u64)],
        atom: &Atom,
        clock: &Clock,
        persistence: Persistence,
        out: &mut Pending,
    ) {
        let size = atom.size();
        let content_range = |(start, end): (u64, u64)| format!("Content-Range: bytes {start}-{}/{size}\r\n", end - 1);
        out.status = 206;
        let response = &mut out.response;
        if let [(start, end)] = *ranges {
            let fields = format!(
                "Content-Type: {}\r\nContent-Length: {}\r\n{}",
                atom.content_type,
                end - start,
                content_range((start, end))
            );
            head::other(&mut response.head, 206, &[fields.as_bytes(), &atom.validators], clock, persistence);
            out.head_bytes = response.head.len() as u64;
            response.parts.push(Part { head_end: out.head_bytes, start, end });
            return;
        }
        self.boundary_count += 1;
        let boundary = format!("{:016x}", self.boundaries.hash_one(self.boundary_count));
        let between: Vec<String> = ranges
            .iter()
            .map(|range| {
                let content_type = &atom.content_type;
                format!("\r\n--{boundary}\r\nContent-Type: {content_type}\r\n{}\r\n", content_range(*range))
            })
            .collect();
        let end = format!("\r\n--{boundary}--\r\n");
        let literal: usize = between.iter().map(String::len).sum::<usize>() + end.len();
        let content: u64 = ranges.iter().map(|(start, end)| end - start).sum();
        let fields = format!(
            "Content-Type: multipart/byteranges; boundary={boundary}\r\nContent-Length: {}\r\n",
            content + literal as u64
        );
        head::other(&mut response.head, 206, &[fields.as_bytes(), &atom.validators], clock, persistence);
        out.head_bytes = response.head.len() as u64;
        for (text, (start, end)) in between.iter().zip(ranges) {
            response.head.extend_from_slice(text.as_bytes());
            response.parts.push(Part { head_end: response.head.len() as u64, start: *start, end: *end });
        }
        response.head.extend_from_slice(end.as_bytes());
    }

    fn directory(
        &self,
        directory: File,
        path: &[u8],
        extra: Extra<'_>,
        clock: &Clock,
        persistence: Persistence,
        out: &mut Pending,
    ) {
        let Some(shown) = self.listing else {
            return error_page::write(out, 403, extra, clock, persistence);
        };
        match listing::page(&self.root, directory, path, shown) {
            Ok(page) => error_page::write_html(out, 200, &page, extra, clock, persistence),
            Err(error) => error_page::write(out, status_of(&error), extra, clock, persistence),
        }
    }
}

fn options(out: &mut Pending, clock: &Clock, persistence: Persistence) {
    out.status = 204;
    head::other(&mut out.response.head, 204, &[ALLOW], clock, persistence);
    out.head_bytes = out.response.head.len() as u64;
}

fn redirect(found: &target::Target<'_>, extra: Extra<'_>, clock: &Clock, persistence: Persistence, out: &mut Pending) {
    let mut fields = b"Location: ".to_vec();
    target::encode(found.path, &mut fields);
    fields.push(b'/');
    // The parser lets no control character into a target, so the query cannot end the field.
    fields.extend_from_slice(found.query);
    fields.extend_from_slice(b"\r\n");
    error_page::write(out, 301, Extra { fields: &fields, ..extra }, clock, persistence);
}

/// Refusals by the kernel as refusals of ours; a path that leaves the root looks like one that leads nowhere.
fn status_of(error: &io::Error) -> u16 {
    match error.raw_os_error() {
        Some(libc::EACCES | libc::EPERM) => 403,
        Some(libc::ENOENT | libc::ENOTDIR | libc::ENAMETOOLONG | libc::ELOOP | libc::EXDEV | libc::ENXIO) => 404,
        Some(libc::EMFILE | libc::ENFILE | libc::ENOMEM | libc::EAGAIN) => 503,
        Some(_) => 500,
        None if error.kind() == io::ErrorKind::NotFound => 404,
        None if error.kind() == io::ErrorKind::ResourceBusy => 503,
        None => 500,
    }
}
