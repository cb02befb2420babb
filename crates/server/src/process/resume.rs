//! Unfinished responses as values: begun by one process, kept or sent elsewhere, and continued by another.

use crate::config::options::Options;
use crate::counters::LoopCounters;
use crate::counters::host_counts::HostLedger;
use crate::error::BindError;
use crate::exchange::life::{Exchange, Source};
use crate::exchange::send::{self, Sent, Socket};
use crate::files::head::Persistence;
use crate::files::resource::{Content, Description, Resource};
use crate::files::root::Root;
use crate::files::shared_content::{Compressed, SharedContent};
use crate::files::watcher::Watcher;
use crate::files::{compress, digest};
use crate::http::parse;
use crate::http::request::Head;
use crate::http::response::{Digest, Response, Variant};
use crate::io::clock::Clock;
use crate::policy::client_peer::ClientPeer;
use crate::site::{Share, Site, assembly};
use serde::{Deserialize, Serialize};
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::rc::Rc;
use std::sync::Arc;

/// A response that can be continued wherever the file is that it is taken from: plain data, no descriptor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unfinished {
    /// What was said, what is to be sent, and how far that came.
    pub response: Response,
    /// The file, from the root; none where the response has no content beside its head.
    pub path: Option<Vec<u8>>,
    /// The digest of the bytes that are sent, plain or compressed; none only without content.
    pub digest: Option<Digest>,
    /// Whether the form was made of the file when it was served, rather than lying beside it.
    pub is_made: bool,
}

/// How far a continued response came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resumed {
    /// All of it was taken.
    Finished,
    /// The socket has room for no more, or others have their turn.
    Unfinished,
}

/// Begins and continues responses outside of an event loop; it may block on the disk.
#[derive(Debug)]
pub struct Resumer {
    root: Root,
    site: Site,
    shared_content: Arc<SharedContent>,
    options: Options,
    copied: Vec<u8>,
    /// The content that was sent last.
    last: Option<(Vec<u8>, Rc<Resource>)>,
}

impl Resumer {
    /// For the directory of `options`, with the bounds and forms that these say.
    ///
    /// # Errors
    ///
    /// Those of [`BindError`] that concern the directory, and [`BindError::EventLoop`] without a descriptor or thread.
    pub fn new(options: Options) -> Result<Self, BindError> {
        let failed = |source| BindError::EventLoop { source };
        let root = Root::open_directory(&options.root)?.following(options.symlinks, &options.root);
        let shared_content = Arc::new(SharedContent::new());
        shared_content.start().map_err(failed)?;
        // No loop reads inotify events here, so the site checks the files themselves.
        let share = Share {
            shared_content: Arc::clone(&shared_content),
            watcher: Rc::new(Watcher::deaf()),
            files_max: 4,
            hosts: HostLedger::default(),
            policy_client: None,
            challenges: Default::default(),
        };
        let site = Site::new(root.try_clone().map_err(failed)?, &options.site_kind(), &options.site_bounds(), &share);
        Ok(Self { root, site, shared_content, options, copied: Vec::new(), last: None })
    }

    /// Makes the response to a request's head, of which nothing is sent yet; none if the head is not a whole one.
    pub fn begin(&mut self, head: &[u8]) -> Option<Unfinished> {
        let Head::Complete(request, _) = parse::parse(head, &self.options.limits) else { return None };
        let persistence = Persistence::of(request.minor, request.keep_alive);
        let mut exchange = Exchange::default();
        let (clock, counters) = (Clock::new(), LoopCounters::default());
        // Only an adviser reads who the client is, and this site has none.
        let peer = ClientPeer {
            client: Ipv4Addr::UNSPECIFIED.into(),
            connection: 0,
            socket: None,
            is_secure: false,
            leased: None,
        };
        let page = self.site.respond(&request, &peer, persistence, &clock, &counters, &mut exchange);
        if let Some(page) = page {
            let site = &mut self.site;
            assembly::respond_from_one_site(site, page, &request, persistence, &clock, &counters, &mut exchange);
        }
        let Source::Content(resource) = exchange.source else {
            return Some(Unfinished { response: exchange.response, path: None, digest: None, is_made: false });
        };
        let is_made = resource.variant != Variant::Identity && !resource.path.ends_with(resource.variant.suffix());
        let digest = match &resource.content {
            Content::Memory(bytes) if is_made => Some(digest::digest_of(bytes)),
            Content::Memory(_) => resource.shared.digest(None),
            Content::File(file) => resource.shared.digest(Some(file)),
        };
        Some(Unfinished { response: exchange.response, path: Some(resource.path.to_vec()), digest, is_made })
    }

    /// Sends what follows, as much as a non-blocking socket takes and is one turn's share.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::StaleNetworkFileHandle`] if the file is not the one any more that the response was begun with:
    /// then the connection has to be closed. Else what the socket or the file answers.
    pub fn advance(&mut self, unfinished: &mut Unfinished, socket: BorrowedFd<'_>) -> io::Result<Resumed> {
        let content = self.content(unfinished)?;
        let response = std::mem::take(&mut unfinished.response);
        let source = content.map_or(Source::Head, Source::Content);
        let mut queue = [Exchange { response, source, ..Exchange::default() }];
        let mut socket = Socket { fd: socket.as_raw_fd(), copied: &mut self.copied };
        let (outcome, _) = send::flush(&mut queue, &mut socket);
        let [exchange] = queue;
        unfinished.response = exchange.response;
        Ok(if outcome? == Sent::All { Resumed::Finished } else { Resumed::Unfinished })
    }

    /// The content, known to be the same by its identity or, where that is another one, by its digest.
    fn content(&mut self, of: &Unfinished) -> io::Result<Option<Rc<Resource>>> {
        let Some(path) = &of.path else { return Ok(None) };
        if let Some((last, resource)) = &self.last
            && last == path
            && resource.variant == of.response.variant
            && Some(resource.id) == of.response.resource
        {
            return Ok(Some(Rc::clone(resource)));
        }
        let changed = || io::Error::from(io::ErrorKind::StaleNetworkFileHandle);
        let variant = if of.is_made { Variant::Identity } else { of.response.variant };
        let path_of = path.as_slice().into();
        let about = Description {
            path: path_of,
            content_type: String::new(),
            own_coding: None,
            variant,
            varies: false,
            is_governed: false,
            asks_hints: false,
            now_s: 0,
        };
        let file = self.root.open(path)?;
        let mut resource = Resource::load(file, &self.shared_content, self.options.cached_file_bytes_max, &about)?;
        let is_known = Some(resource.id) == of.response.resource;
        let mut digest = None;
        if of.is_made {
            // Another version of a compressor makes other bytes, so identity of the file says nothing here.
            let read;
            let plain: &[u8] = match &resource.content {
                Content::Memory(bytes) => bytes,
                Content::File(_) => {
                    let bytes_max = usize::try_from(self.options.compression.bytes_max).unwrap_or(usize::MAX);
                    read = resource.read_whole(bytes_max).ok_or_else(changed)?;
                    &read
                }
            };
            let bytes: Arc<[u8]> = compress::compress(plain, of.response.variant).ok_or_else(changed)?.into();
            let form = Compressed { digest: digest::digest_of(&bytes), bytes };
            digest = Some(form.digest);
            resource = Resource::compressed(&resource, of.response.variant, &form, 0);
        } else if !is_known {
            digest = match &resource.content {
                Content::Memory(_) => resource.shared.digest(None),
                Content::File(file) => resource.shared.digest(Some(file)),
            };
        }
        if (of.is_made || !is_known) && (digest.is_none() || digest != of.digest) {
            return Err(changed());
        }
        let resource = Rc::new(resource);
        self.last = Some((path.clone(), Rc::clone(&resource)));
        Ok(Some(resource))
    }
}
