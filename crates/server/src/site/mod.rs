//! Answers requests for files below one root.

mod absent;
pub(crate) mod assembly;
mod changes;
mod governed;
pub(crate) mod kept_pages;
pub(crate) mod listing;
mod listings;
pub(crate) mod looked_up;
pub(crate) mod settings;
mod slash;
mod waits;
mod warm;

use crate::counters::LoopCounters;
use crate::counters::host_counts::HostLedger;
use crate::counters::static_probe::static_probe;
use crate::exchange::error_page::{self, Extra};
use crate::exchange::life::{Exchange, Source};
use crate::files::atom::{Atom, Description, Stamp};
use crate::files::cache::{Cache, Found, TOLD_MS, UNTOLD_MS};
use crate::files::conditional::{self, Verdict};
use crate::files::encodings::{self, Encodings};
use crate::files::head::{self, Persistence};
use crate::files::root::Root;
use crate::files::settings::Compression;
use crate::files::shared_content::SharedContent;
use crate::files::watcher::Watcher;
use crate::files::watches::{Change, Watches};
use crate::http::coding::LastAccepted;
use crate::http::media_type;
use crate::http::pattern::Pattern;
use crate::http::range::{self, Ranges};
use crate::http::request::{Method, Request};
use crate::http::response::{Part, Variant};
use crate::http::target::{self, BadTarget};
use crate::io::clock::Clock;
use crate::policy::caller::Caller;
use crate::policy::policy_client::PolicyClient;
use crate::site::kept_pages::KeptPages;
use crate::site::settings::{SiteBounds, SiteKind};
use governed::Asked;
use listings::Listings;
pub(crate) use slash::redirect;
use std::cell::OnceCell;
use std::fs::{File, Metadata};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use warm::Warming;

/// The Allow field, the same for everything that is served.
const ALLOW: &[u8] = b"Allow: GET, HEAD, OPTIONS\r\n";
/// How long after a change another one may leave the file looking the same.
const AMBIGUOUS: Duration = Duration::from_millis(50);

/// A root directory with its cache, as one loop serves it.
#[derive(Debug)]
pub(crate) struct Site {
    root: Root,
    /// The same, for responses that open further files.
    shared_root: Option<Rc<Root>>,
    /// The way to the adviser.
    policy_client: Option<Rc<PolicyClient>>,
    /// The edition of the rules that all of the cache was asked about.
    edition: u64,
    cache: Cache,
    absent: absent::Absent,
    watches: Watches,
    changes: Vec<Change>,
    listings: Listings,
    /// Pages as they were assembled last, where answers may be stale.
    kept: KeptPages,
    shared_content: Arc<SharedContent>,
    accepted: LastAccepted,
    compression: Compression,
    includes: bool,
    media_types: media_type::Overrides,
    memory_bytes_max: u64,
    warming: Warming,
    /// How long looks at files took for the request that is answered, in nanoseconds; only with an adviser.
    looked_ns: u64,
    listing: Option<listing::Shown>,
    dot_files: bool,
    /// Names of files that stand for their directory.
    index: Vec<Vec<u8>>,
    ranges_max: usize,
    decoded: Vec<u8>,
    /// Makes boundaries that the author of a file cannot guess.
    boundaries: RandomState,
    boundary_count: u64,
}

/// What a site has together with others.
#[derive(Debug, Clone)]
pub(crate) struct Share {
    /// The bytes of files that all loops have read.
    pub(crate) shared_content: Arc<SharedContent>,
    /// The loop's.
    pub(crate) watcher: Rc<Watcher>,
    /// What the loop counts of each host.
    pub(crate) hosts: HostLedger,
    /// Descriptors of files that are kept open.
    pub(crate) files_max: usize,
    /// The loop's; none without an adviser.
    pub(crate) policy_client: Option<Rc<PolicyClient>>,
}

/// What a path leads to.
enum Located {
    File(File, Metadata),
    /// The file that stands for a directory, with its number among the names of such files.
    Index(File, Metadata, usize),
    /// A directory without an index; none where it may not be listed.
    Directory(Option<File>),
    /// A directory asked for without its slash.
    Redirect,
}

/// The same, ready to be served.
enum Resource {
    Atom(Rc<Atom>),
    /// Governed content whose file would have to be looked at first; with when it was known to be what the file has.
    Doubtful(Rc<Atom>, u64),
    /// With how long its listing may be kept.
    Directory(File, u64),
    /// A directory without an index of which a listing is kept.
    Listed,
    Redirect,
    Failed(u16),
    /// The response is made already.
    Answered,
}

impl Resource {
    /// Whether the adviser is to be asked about it.
    #[inline]
    fn is_governed(&self) -> bool {
        matches!(self, Self::Atom(atom) | Self::Doubtful(atom, _) if atom.is_governed)
    }
}

impl Site {
    pub(crate) fn new(root: Root, how: &SiteKind, bounds: &SiteBounds, share: &Share) -> Self {
        let bytes_max = bounds.cache_bytes_max;
        let entries_max = bounds.listing_entries_max;
        Self {
            root: root.following(how.symlinks, &how.root),
            shared_root: None,
            policy_client: share.policy_client.clone(),
            edition: share.policy_client.as_ref().map_or(0, |policy_client| policy_client.edition()),
            cache: Cache::new(bytes_max, share.files_max),
            absent: absent::Absent::default(),
            watches: Watches::new(Rc::clone(&share.watcher), bounds.watches_max),
            changes: Vec::new(),
            listings: Listings::new(bytes_max),
            kept: KeptPages::default(),
            shared_content: Arc::clone(&share.shared_content),
            accepted: LastAccepted::default(),
            compression: how.compression.clone(),
            includes: how.includes,
            media_types: how.media_types.clone(),
            memory_bytes_max: bounds.cached_file_bytes_max,
            warming: Warming::default(),
            looked_ns: 0,
            listing: how.listing.then_some(listing::Shown { dot_files: how.dot_files, entries_max }),
            dot_files: how.dot_files,
            index: how.index.iter().map(|name| name.clone().into_bytes()).collect(),
            ranges_max: bounds.ranges_max,
            decoded: Vec::new(),
            boundaries: RandomState::new(),
            boundary_count: 0,
        }
    }

    /// The pages that it keeps as they were assembled last.
    pub(crate) fn kept(&mut self) -> &mut KeptPages {
        &mut self.kept
    }

    /// Whether it is of the same directory.
    pub(crate) fn is_same_root(&self, root: &Root) -> bool {
        self.root.is_same(root)
    }

    /// Makes the response to any request, except for a page with includes: it is returned, and the caller, which knows
    /// the rules for its parts, assembles it.
    #[must_use]
    pub(crate) fn respond(
        &mut self,
        request: &Request<'_>,
        caller: &Caller<'_>,
        persistence: Persistence,
        clock: &Clock,
        counters: &LoopCounters,
        out: &mut Exchange,
    ) -> Option<Rc<Atom>> {
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
                let resource = self.resource(found.path, clock, counters);
                let asked = Asked { request, caller, path: found.path, persistence, clock, counters };
                page = self.answer(asked, &found, resource, out);
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
    fn answer(
        &mut self,
        asked: Asked<'_>,
        found: &target::Target<'_>,
        mut resource: Resource,
        out: &mut Exchange,
    ) -> Option<Rc<Atom>> {
        let Asked { request, caller, path, persistence, clock, counters } = asked;
        let extra = Extra { fields: b"", head_only: request.method == Method::Head };
        if resource.is_governed() {
            // No closure: it would be a function of its own, as there are two callers.
            let again = match caller.leased {
                Some(leased) => self.again((request, path, leased), &resource, clock, counters, out),
                None => None,
            };
            if let Some(atom) = again {
                resource = Resource::Atom(atom);
            } else {
                // Made anew, so that the one that all requests bring stays in registers.
                let asked = Asked { request, caller, path, persistence, clock, counters };
                resource = self.govern(&asked, resource, out);
                self.tell_waits(out);
            }
        }
        match resource {
            Resource::Atom(atom) if atom.template.is_some() => return Some(atom),
            Resource::Atom(atom) | Resource::Doubtful(atom, _) => {
                let atom = self.form(request, found.path, atom, false, clock, counters);
                self.content(request, atom, clock, persistence, out);
            }
            Resource::Directory(directory, fresh_ms) => {
                let opened = Some((directory, fresh_ms));
                self.list_directory(opened, found, extra, (clock, counters), persistence, out);
            }
            Resource::Listed => self.list_directory(None, found, extra, (clock, counters), persistence, out),
            Resource::Redirect => redirect(found, extra, clock, persistence, out),
            Resource::Failed(status) => error_page::write(out, status, extra, clock, persistence),
            Resource::Answered => {}
        }
        None
    }

    /// Bytes in memory, and entries of the cache.
    pub(crate) fn fill(&self) -> (u64, u64) {
        self.cache.fill()
    }

    /// Pins what these globs match: it is never evicted.
    pub(crate) fn pin(&mut self, patterns: &[Pattern]) {
        self.cache.pin(patterns);
    }

    /// Bytes in memory, and entries, that are kept so.
    pub(crate) fn pinned(&self) -> (u64, u64) {
        self.cache.pinned()
    }

    /// Another bound on the directories that are watched.
    pub(crate) fn limit_watches(&mut self, directories_max: usize) {
        self.watches.limit(directories_max);
    }

    /// Finds content in the cache, or on disk and then in the cache.
    #[expect(clippy::inline_always, reason = "the probe in a copy that is never called would never fire")]
    #[inline(always)]
    fn resource(&mut self, path: &[u8], clock: &Clock, counters: &LoopCounters) -> Resource {
        static_probe!("cache");
        let stale = match self.cache.find(path, clock.now_ms) {
            Found::Fresh(atom) => {
                counters.cache_hits.add(1);
                return Resource::Atom(atom);
            }
            Found::Stale(atom, known_ms) if atom.is_governed => return Resource::Doubtful(atom, known_ms),
            Found::Stale(atom, _) => Some(atom),
            Found::Missing if self.listings.has(path, clock.now_ms) => return Resource::Listed,
            Found::Missing => None,
        };
        self.look(path, stale, clock, counters)
    }

    /// Looks at the file of a path, of which the cache may have had something.
    fn look_now(&mut self, path: &[u8], stale: Option<Rc<Atom>>, clock: &Clock, counters: &LoopCounters) -> Resource {
        static_probe!("file");
        // Before the look at the file, so that no change falls between the two.
        let device = self.watches.cover(&self.root, path, clock.now_ms);
        self.settle_watches(counters);
        let located = self.locate(path);
        let name = match &located {
            Ok(Located::Index(_, _, number)) => [path, &self.index[*number]].concat(),
            _ => path.to_vec(),
        };
        let fresh_ms = located.as_ref().map_or(UNTOLD_MS, |located| self.fresh_ms(located, &name, device));
        if let Some(atom) = stale {
            let is_same = match &located {
                Ok(Located::File(_, metadata) | Located::Index(_, metadata, _)) => self.is_same(&atom, &name, metadata),
                Ok(_) => false,
                // Without descriptors or memory for a look, the content of a second ago is better than an error.
                Err(error) => status_of(error) >= 500,
            };
            if is_same {
                self.cache.confirm(path, clock.now_ms, fresh_ms);
                counters.cache_hits.add(1);
                return Resource::Atom(atom);
            }
            self.cache.remove(path);
            counters.cache_stale.add(1);
        }
        counters.cache_misses.add(1);
        let loaded = located.and_then(|located| match located {
            Located::Redirect => Ok(Resource::Redirect),
            Located::Directory(Some(directory)) => Ok(Resource::Directory(directory, fresh_ms)),
            Located::Directory(None) => Ok(Resource::Failed(403)),
            Located::File(file, metadata) | Located::Index(file, metadata, _) => {
                let atom = Rc::new(self.load(file, &metadata, path, &name, clock.unix_s)?);
                counters.cache_fills.add(u64::from(atom.was_read));
                counters.cache_evictions.add(self.cache.insert(path, &atom, clock.now_ms, fresh_ms));
                Ok(Resource::Atom(atom))
            }
        });
        loaded.unwrap_or_else(|error| Resource::Failed(status_of(&error)))
    }

    /// Whether a file and its compressed neighbours are what they were.
    fn is_same(&self, atom: &Atom, name: &[u8], metadata: &Metadata) -> bool {
        let stamp = Stamp::of(metadata);
        let compression = if atom.own_coding.is_some() { &Compression::NONE } else { &self.compression };
        let neighbours = encodings::neighbours(&self.root, name, stamp, compression);
        stamp == atom.stamp
            && *atom.path == *name
            && !atom.is_ambiguous
            && (atom.template.is_some()
                || neighbours
                    == atom.encodings.as_ref().map_or_else(Default::default, |encodings| encodings.neighbours()))
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

    fn load(&self, file: File, metadata: &Metadata, path: &[u8], name: &[u8], now_s: u64) -> io::Result<Atom> {
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
        let mut atom = Atom::load(file, &self.shared_content, held_bytes_max, &of)?;
        atom.is_ambiguous = atom.stamp.is_ambiguous(AMBIGUOUS);
        atom.template = is_page.then(OnceCell::new);
        atom.asked_as = std::str::from_utf8(path).ok().filter(|_| is_governed).map(Box::from);
        if varies {
            let (root, shared_content) = (&self.root, &*self.shared_content);
            let encodings = Encodings::load(root, name, neighbours, makes, shared_content, self.memory_bytes_max, &of);
            atom.encodings = Some(Box::new(encodings));
        }
        Ok(atom)
    }

    /// The file that a target leads to, for a page; none where a request for it would not get a file.
    pub(crate) fn part(&mut self, target: &str, clock: &Clock, counters: &LoopCounters) -> Option<Rc<Atom>> {
        let mut decoded = Vec::new();
        let found = target::resolve(target, self.dot_files, &mut decoded).ok()?;
        self.atom(found.path, clock, counters)
    }

    /// The form of the content that suits the client best; of what is stale none is made that is not there.
    fn form(
        &mut self,
        request: &Request<'_>,
        path: &[u8],
        atom: Rc<Atom>,
        is_stale: bool,
        clock: &Clock,
        counters: &LoopCounters,
    ) -> Rc<Atom> {
        let (Some(encodings), Some(lines)) = (&atom.encodings, request.accept_encoding_lines()) else { return atom };
        let mut grown = 0;
        let shared_content = (!is_stale).then_some(&*self.shared_content);
        let chosen =
            encodings.choose(&atom, self.accepted.read_lines(&lines), shared_content, clock.unix_s, &mut grown);
        if grown > 0 {
            counters.cache_evictions.add(self.cache.grow(path, grown));
        }
        counters.forms_refused.add(self.shared_content.take_refused());
        let Some(form) = chosen.filter(|form| !is_stale || form.is_unchanged()) else { return atom };
        counters.coded_responses.add(1);
        form
    }

    fn locate(&self, path: &[u8]) -> io::Result<Located> {
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
    fn content(
        &mut self,
        request: &Request<'_>,
        atom: Rc<Atom>,
        clock: &Clock,
        persistence: Persistence,
        out: &mut Exchange,
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
            out.response.variant = atom.variant;
            out.source = Source::Content(atom);
        }
    }

    /// A 206 with one range or several (RFC 9110 sections 15.3.7.1 and 15.3.7.2).
    fn partial(
        &mut self,
        ranges: &[(u64, u64)],
        atom: &Atom,
        clock: &Clock,
        persistence: Persistence,
        out: &mut Exchange,
    ) {
        let size = atom.size();
        let content_range = |(start, end): (u64, u64)| format!("Content-Range: bytes {start}-{}/{size}\r\n", end - 1);
        out.status = 206;
        let response = &mut out.response;
        if let [(start, end)] = *ranges {
            let fields =
                format!("{}Content-Length: {}\r\n{}", atom.type_and_coding(), end - start, content_range((start, end)));
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
            "Content-Type: multipart/byteranges; boundary={boundary}\r\n{}Content-Length: {}\r\n",
            atom.coding_field(),
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
}

/// Says which methods there are.
pub(crate) fn options(out: &mut Exchange, clock: &Clock, persistence: Persistence) {
    out.status = 204;
    head::other(&mut out.response.head, 204, &[ALLOW], clock, persistence);
    out.head_bytes = out.response.head.len() as u64;
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
