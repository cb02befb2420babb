//! The response to a request for a path below a root.

use super::asked::Asked;
use crate::counters::LoopCounters;
use crate::exchange::error_page::{self, Extra};
use crate::exchange::life::{Exchange, Source};
use crate::files::cache::{Found, TOLD_MS, UNTOLD_MS};
use crate::files::conditional::{self, Verdict};
use crate::files::encodings;
use crate::files::head::{self, Persistence};
use crate::files::resource::{Description, Encodings, Resource};
use crate::files::settings::Compression;
use crate::files::stamp::Stamp;
use crate::http::media_type;
use crate::http::range::{self, Ranges};
use crate::http::request::{Method, Request};
use crate::http::response::{Part, Variant};
use crate::http::target::{self, BadTarget};
use crate::io::clock::Clock;
use crate::policy::client_peer::ClientPeer;
use crate::site::assembly;
use crate::site::destination::{Destination, Located, status_of};
use crate::site::multipart::{Multipart, content_range};
use crate::site::slash::redirect;
use crate::site::state::Site;
use std::cell::OnceCell;
use std::fs::{File, Metadata};
use std::hash::BuildHasher;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::rc::Rc;
use std::time::Duration;
use weir_wire::static_probe;

/// The Allow field, the same for everything that is served.
const ALLOW: &[u8] = b"Allow: GET, HEAD, OPTIONS\r\n";

/// How long after a change another one may leave the file looking the same.
const AMBIGUOUS: Duration = Duration::from_millis(50);

impl Site {
    /// Makes the response to any request, except for a page with includes: it is returned, and the caller, which knows
    /// the rules for its parts, assembles it.
    #[must_use]
    pub(crate) fn respond(
        &mut self,
        request: &Request<'_>,
        peer: &ClientPeer<'_>,
        persistence: Persistence,
        clock: &Clock,
        counters: &LoopCounters,
        out: &mut Exchange,
    ) -> Option<Rc<Resource>> {
        let extra = Extra { fields: b"", head_only: request.method == Method::Head };
        match request.method {
            Method::Get | Method::Head => {}
            Method::Options => {
                options(out, clock, persistence);
                return None;
            }
            Method::Other => {
                error_page::write(out, 405, Extra { fields: ALLOW, ..extra }, clock, persistence);
                return None;
            }
        }
        let mut page = None;
        let mut decoded = std::mem::take(&mut self.decoded);
        match target::resolve(request.target, self.dot_files, &mut decoded) {
            Ok(found) => {
                self.looked_ns = 0;
                let destination = self.destination(found.path, clock, counters);
                let asked = Asked { request, peer, path: found.path, persistence, clock, counters };
                page = self.answer(asked, &found, destination, out);
            }
            Err(BadTarget::Malformed) => error_page::write(out, 400, extra, clock, persistence),
            Err(BadTarget::Closed) => error_page::write(out, 404, extra, clock, persistence),
        }
        self.decoded = decoded;
        page
    }

    /// Answers with what a path leads to.
    #[expect(clippy::inline_always, reason = "it is a part of the way of every request")]
    #[inline(always)]
    pub(super) fn answer(
        &mut self,
        asked: Asked<'_>,
        found: &target::Target<'_>,
        mut destination: Destination,
        out: &mut Exchange,
    ) -> Option<Rc<Resource>> {
        let Asked { request, peer, path, persistence, clock, counters } = asked;
        let extra = Extra { fields: b"", head_only: request.method == Method::Head };
        if destination.is_governed() {
            // No closure: it would be a function of its own, as there are two callers.
            let again = match peer.leased {
                Some(leased) => self.again((request, path, leased), &destination, clock, counters, out),
                None => None,
            };
            if let Some(resource) = again {
                destination = Destination::Resource(resource);
            } else {
                // Made anew, so that the one that all requests bring stays in registers.
                let asked = Asked { request, peer, path, persistence, clock, counters };
                destination = self.govern(&asked, destination, out);
                self.tell_waits(out);
            }
        }
        match destination {
            Destination::Resource(resource) if resource.template.is_some() => return Some(resource),
            Destination::Resource(resource) | Destination::Doubtful(resource, _) => {
                let resource = self.form(request, found.path, resource, false, clock, counters);
                self.content(request, resource, clock, persistence, out);
            }
            Destination::Directory(directory, fresh_ms) => {
                let opened = Some((directory, fresh_ms));
                self.list_directory(opened, found, extra, (clock, counters), persistence, out);
            }
            Destination::Listed => self.list_directory(None, found, extra, (clock, counters), persistence, out),
            Destination::Elsewhere(file) => {
                let asked = Asked { request, peer, path, persistence, clock, counters };
                self.answer_found_elsewhere(&asked, &file, out);
            }
            Destination::Redirect => redirect(found, extra, clock, persistence, out),
            Destination::Failed(status) => error_page::write(out, status, extra, clock, persistence),
            Destination::Answered => {}
        }
        None
    }

    /// Finds content in the cache, or on disk and then in the cache.
    #[expect(clippy::inline_always, reason = "the probe in a copy that is never called would never fire")]
    #[inline(always)]
    pub(super) fn destination(&mut self, path: &[u8], clock: &Clock, counters: &LoopCounters) -> Destination {
        static_probe!("cache");
        let stale = match self.cache.find(path, clock.now_ms) {
            Found::Fresh(resource) => {
                counters.cache_hits.add(1);
                return Destination::Resource(resource);
            }
            Found::Stale(resource, known_ms) if resource.is_governed => {
                return Destination::Doubtful(resource, known_ms);
            }
            Found::Stale(resource, _) => Some(resource),
            Found::Missing if self.listings.has(path, clock.now_ms) => return Destination::Listed,
            Found::Missing => None,
        };
        self.look(path, stale, clock, counters)
    }

    /// Looks at the file of a path, of which the cache may have had something.
    pub(super) fn look_now(
        &mut self,
        path: &[u8],
        stale: Option<Rc<Resource>>,
        clock: &Clock,
        counters: &LoopCounters,
    ) -> Destination {
        static_probe!("file");
        // Before the look at the file, so that no change falls between the two.
        let device = self.watches.cover(&self.root, path, clock.now_ms);
        self.finish_watches(counters);
        let located = self.locate(path);
        let name = match &located {
            Ok(Located::Index(_, _, number)) => [path, &self.index[*number]].concat(),
            _ => path.to_vec(),
        };
        let fresh_ms = located.as_ref().map_or(UNTOLD_MS, |located| self.fresh_ms(located, &name, device));
        if let Some(resource) = stale {
            let is_same = match &located {
                Ok(Located::File(_, metadata) | Located::Index(_, metadata, _)) => {
                    self.is_same(&resource, &name, metadata)
                }
                Ok(_) => false,
                // Without descriptors or memory for a look, the content of a second ago is better than an error.
                Err(error) => status_of(error) >= 500,
            };
            if is_same {
                self.cache.confirm(path, clock.now_ms, fresh_ms);
                counters.cache_hits.add(1);
                return Destination::Resource(resource);
            }
            self.cache.remove(path);
            counters.cache_stale.add(1);
        }
        counters.cache_misses.add(1);
        if let Some(file) = self.found_elsewhere(path, &located, clock.unix_s) {
            return Destination::Elsewhere(file);
        }
        let loaded = located.and_then(|located| match located {
            Located::Redirect => Ok(Destination::Redirect),
            Located::Directory(Some(directory)) => Ok(Destination::Directory(directory, fresh_ms)),
            Located::Directory(None) => Ok(Destination::Failed(403)),
            Located::File(file, metadata) | Located::Index(file, metadata, _) => {
                let resource = Rc::new(self.load(file, &metadata, path, &name, clock.unix_s)?);
                counters.cache_fills.add(u64::from(resource.was_read));
                counters.cache_evictions.add(self.cache.insert(path, &resource, clock.now_ms, fresh_ms));
                Ok(Destination::Resource(resource))
            }
        });
        loaded.unwrap_or_else(|error| Destination::Failed(status_of(&error)))
    }

    /// Whether a file and its compressed neighbours are what they were.
    fn is_same(&self, resource: &Resource, name: &[u8], metadata: &Metadata) -> bool {
        let stamp = Stamp::of(metadata);
        let compression = if resource.own_coding.is_some() { &Compression::NONE } else { &self.compression };
        let neighbours = encodings::neighbours(&self.root, name, stamp, compression);
        stamp == resource.stamp
            && *resource.path == *name
            && !resource.is_ambiguous
            && (resource.template.is_some()
                || neighbours
                    == resource.encodings.as_ref().map_or_else(Default::default, |encodings| encodings.neighbours()))
    }

    /// How long a file, or a listing, needs no look: long where the kernel tells of every change that it can tell of.
    fn fresh_ms(&self, located: &Located, name: &[u8], device: Option<u64>) -> u64 {
        let (file, metadata) = match located {
            Located::File(file, metadata) | Located::Index(file, metadata, _) => (file, metadata),
            Located::Directory(Some(directory)) if self.listing.is_some() => {
                return self.listing_fresh_ms(directory, name, device);
            }
            Located::Directory(_) | Located::Redirect => return UNTOLD_MS,
        };
        let is_told = device == Some(metadata.dev()) && metadata.nlink() == 1 && self.root.is_straight(file, name);
        if is_told { TOLD_MS } else { UNTOLD_MS }
    }

    fn load(&self, file: File, metadata: &Metadata, path: &[u8], name: &[u8], now_s: u64) -> io::Result<Resource> {
        let stamp = Stamp::of(metadata);
        let content_type = media_type::of(name, &self.media_types);
        let own_coding = media_type::coding_of(name, &self.media_types).filter(|_| media_type::is_gzip(&file));
        // What is compressed already gets no second coding.
        let compression = if own_coding.is_some() { &Compression::NONE } else { &self.compression };
        let neighbours = encodings::neighbours(&self.root, name, stamp, compression);
        let makes = encodings::makes(&content_type, stamp.size(), compression);
        let is_page = self.includes && assembly::is_page(name);
        let varies = !is_page && (makes || neighbours.iter().any(Option::is_some));
        let is_governed = self.policy_client.as_ref().is_some_and(|policy_client| policy_client.governs(path));
        let asks_hints =
            is_governed && self.policy_client.as_ref().is_some_and(|policy_client| policy_client.asks_hints(path));
        let variant = Variant::Identity;
        let of = Description {
            path: name.into(),
            content_type,
            own_coding,
            variant,
            varies,
            is_governed,
            asks_hints,
            now_s,
        };
        let held_bytes_max =
            if is_page { self.memory_bytes_max.max(assembly::HELD_BYTES_MAX) } else { self.memory_bytes_max };
        let mut resource = Resource::load(file, &self.shared_content, held_bytes_max, &of)?;
        resource.is_ambiguous = resource.stamp.is_ambiguous(AMBIGUOUS);
        resource.template = is_page.then(OnceCell::new);
        resource.asked_as = std::str::from_utf8(path).ok().filter(|_| is_governed).map(Box::from);
        if varies {
            let (root, shared_content) = (&self.root, &*self.shared_content);
            let encodings = Encodings::load(root, name, neighbours, makes, shared_content, self.memory_bytes_max, &of);
            resource.encodings = Some(Box::new(encodings));
        }
        Ok(resource)
    }

    /// The file that a target leads to, for a page; none where a request for it would not get a file.
    pub(crate) fn part(&mut self, target: &str, clock: &Clock, counters: &LoopCounters) -> Option<Rc<Resource>> {
        let mut decoded = Vec::new();
        let found = target::resolve(target, self.dot_files, &mut decoded).ok()?;
        self.resource(found.path, clock, counters)
    }

    /// The form of the content that suits the client best; of what is stale none is made that is not there.
    pub(super) fn form(
        &mut self,
        request: &Request<'_>,
        path: &[u8],
        resource: Rc<Resource>,
        is_stale: bool,
        clock: &Clock,
        counters: &LoopCounters,
    ) -> Rc<Resource> {
        let (Some(encodings), Some(lines)) = (&resource.encodings, request.accept_encoding_lines()) else {
            return resource;
        };
        let mut grown = 0;
        let shared_content = (!is_stale).then_some(&*self.shared_content);
        let chosen =
            encodings.choose(&resource, self.accepted.read_lines(&lines), shared_content, clock.unix_s, &mut grown);
        if grown > 0 {
            counters.cache_evictions.add(self.cache.grow(path, grown));
        }
        counters.forms_refused.add(self.shared_content.take_refused());
        let Some(form) = chosen.filter(|form| !is_stale || form.is_unchanged()) else { return resource };
        counters.coded_responses.add(1);
        form
    }

    pub(super) fn locate(&self, path: &[u8]) -> io::Result<Located> {
        let directory = match self.root.open(path) {
            Ok(file) => {
                let metadata = file.metadata()?;
                if metadata.is_file() {
                    return Ok(Located::File(file, metadata));
                }
                if !metadata.is_dir() {
                    return Err(io::ErrorKind::NotFound.into());
                }
                Some(file)
            }
            // A directory that may be passed through and not listed (mode 711) has its index, and its redirect.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                if !self.root.open_for_stat(path)?.metadata()?.is_dir() {
                    return Err(error);
                }
                None
            }
            Err(error) => return Err(error),
        };
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
        Ok(Located::Directory(directory))
    }

    /// Answers with content: whole, in ranges, or not at all.
    pub(super) fn content(
        &mut self,
        request: &Request<'_>,
        resource: Rc<Resource>,
        clock: &Clock,
        persistence: Persistence,
        out: &mut Exchange,
    ) {
        let size = resource.size();
        let verdict = if request.is_conditional {
            conditional::judge(request, resource.compared(), clock.unix_s)
        } else {
            Verdict::Whole
        };
        let ranges = match (verdict, request.range) {
            (Verdict::Ranges, Some(field)) => range::parse(field, size, self.ranges_max),
            _ => Ranges::Whole,
        };
        let extra = Extra { fields: b"", head_only: request.method == Method::Head };
        let head = &mut out.response.head;
        match (verdict, ranges) {
            (Verdict::Failed, _) => {
                let extra = Extra { fields: &resource.validators, ..extra };
                return error_page::write(out, 412, extra, clock, persistence);
            }
            (Verdict::NotModified, _) => {
                out.status = 304;
                head::other(head, 304, &[&resource.validators], clock, persistence);
                out.head_bytes = head.len() as u64;
                return;
            }
            (_, Ranges::Unsatisfiable) => {
                let field = format!("Content-Range: bytes */{size}\r\nAccept-Ranges: bytes\r\n");
                return error_page::write(out, 416, Extra { fields: field.as_bytes(), ..extra }, clock, persistence);
            }
            (_, Ranges::Whole) => {
                out.status = 200;
                head::whole(head, &resource, clock, persistence);
                out.head_bytes = head.len() as u64;
                if !extra.head_only && size > 0 {
                    out.response.parts.push(Part { head_end: out.head_bytes, start: 0, end: size });
                }
            }
            (_, Ranges::Some(ranges)) => self.partial(&ranges, &resource, clock, persistence, out),
        }
        if !out.response.parts.is_empty() {
            out.response.resource = Some(resource.id);
            out.response.variant = resource.variant;
            out.source = Source::Content(resource);
        }
    }

    /// A 206 with one range or several (RFC 9110 sections 15.3.7.1 and 15.3.7.2).
    fn partial(
        &mut self,
        ranges: &[(u64, u64)],
        resource: &Resource,
        clock: &Clock,
        persistence: Persistence,
        out: &mut Exchange,
    ) {
        let size = resource.size();
        out.status = 206;
        let response = &mut out.response;
        if let [(start, end)] = *ranges {
            let fields = format!(
                "{}Content-Length: {}\r\n{}",
                resource.type_and_coding(),
                end - start,
                content_range((start, end), size)
            );
            head::other(&mut response.head, 206, &[fields.as_bytes(), &resource.validators], clock, persistence);
            out.head_bytes = response.head.len() as u64;
            response.parts.push(Part { head_end: out.head_bytes, start, end });
            return;
        }
        self.boundary_count += 1;
        let boundary = format!("{:016x}", self.boundaries.hash_one(self.boundary_count));
        let said = (&*resource.content_type, &*resource.coding_field());
        let Multipart { fields, between, end } = Multipart::of(ranges, size, said, &boundary);
        head::other(&mut response.head, 206, &[fields.as_bytes(), &resource.validators], clock, persistence);
        out.head_bytes = response.head.len() as u64;
        for (text, (start, end)) in between.iter().zip(ranges) {
            response.head.extend_from_slice(text.as_bytes());
            response.parts.push(Part { head_end: response.head.len() as u64, start: *start, end: *end });
        }
        response.head.extend_from_slice(end.as_bytes());
    }
}

/// Says which methods there are.
pub(crate) fn options(out: &mut Exchange, clock: &Clock, persistence: Persistence) {
    out.status = 204;
    head::other(&mut out.response.head, 204, &[ALLOW], clock, persistence);
    out.head_bytes = out.response.head.len() as u64;
}
