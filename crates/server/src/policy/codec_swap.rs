//! Sound that switches to another file in the middle of a response, because the client's bandwidth has changed.
//!
//! The response is made piece by piece, each a chunk of whole frames. Without a swap they are the file's bytes. If the
//! adviser asks for another variant, the response switches at the next frame, provided that decoders need no other
//! set-up for it. With Layer III the frame before may be replaced by one that carries what the next one needs
//! (`audio/carrier.rs`).

use crate::files::resource::{Description, Resource};
use crate::files::root::Root;
use crate::files::shared_content::SharedContent;
use crate::files::variants;
use crate::http::response::Variant;
use crate::io::epoll;
use crate::media::audio;
use crate::media::audio::carrier::{self, BEFORE_MAX};
use crate::media::audio::frame::{self, HEAD_BYTES};
use crate::media::audio::index::{Index, Place};
use crate::policy::advice::{DecidedBy, Link};
use crate::policy::indexes::{SEARCH_BYTES, Sound};
use crate::policy::policy_client::PolicyClient;
use std::cell::RefCell;
use std::io;
use std::os::fd::RawFd;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

/// Bytes of a piece: of a quarter of a second, as far as it is known how much that is. The kernel takes a piece as a
/// whole, and until it does nothing is heard of the client; larger ones would be heard of too late where it becomes
/// slow.
const PIECE_BYTES: std::ops::RangeInclusive<usize> = 1024..=4096;
const PIECE_S: f64 = 0.25;
/// Swaps of a response that are kept to be told.
const SWAPPED_MAX: usize = 16;
/// How long rules have to measure the link of a client that came from another server.
const FIRST_WISH_MS: u64 = 2_000;

/// Bytes of a stream that the kernel takes beyond those that are on their way: they cannot be swapped any more.
const UNSENT_BYTES: i32 = 4096;

/// Has the kernel take little of a stream beyond what is on its way.
pub(crate) fn keep_unsent_low(socket: RawFd) {
    // It makes a swap sooner, so that a refusal is no harm.
    let _ = epoll::bound_unsent(socket, UNSENT_BYTES);
}

/// One file of a stream.
#[derive(Debug, Clone)]
struct Track {
    resource: Rc<Resource>,
    index: Rc<RefCell<Index>>,
}

/// Where variants are looked for.
#[derive(Debug, Clone)]
pub(crate) struct Family {
    pub(crate) root: Rc<Root>,
    pub(crate) shared_content: Arc<SharedContent>,
    /// The path of the plain file.
    pub(crate) path: Box<[u8]>,
}

/// How far such a response came: what another server needs to make the next piece, beside the track's bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StreamPlace {
    /// As in [`Family`].
    pub(crate) path: Box<[u8]>,
    /// The fields of [`Stream`] of these names.
    pub(crate) name: Arc<str>,
    pub(crate) at: u64,
    pub(crate) frame: Option<u64>,
    pub(crate) is_over: bool,
    /// Bytes of the response that were sent and are not kept any more.
    pub(crate) released_bytes: u64,
}

/// What the rules of a server say first of a response that came from another one.
#[derive(Debug)]
struct FirstWish {
    names: Arc<str>,
    /// It holds from then on, unless they say something else before.
    from_ms: u64,
}

/// What a stream is to go on with.
#[derive(Debug)]
struct Wanted {
    name: Arc<str>,
    track: Track,
    by: Option<DecidedBy>,
}

/// A response went on in another variant.
#[derive(Debug)]
pub(crate) struct Swapped {
    pub(crate) at: Instant,
    /// The name of the variant; `full` is the file itself.
    pub(crate) variant: String,
    /// The rule that wanted it; none where that was not known any more.
    pub(crate) by: Option<DecidedBy>,
}

/// A response that is made piece by piece.
#[derive(Debug)]
pub(crate) struct Stream {
    family: Family,
    track: Track,
    /// Which variant the track is, as it was asked for.
    name: Arc<str>,
    /// What it is to go on with, once the frame is found.
    wanted: Option<Wanted>,
    /// Variants that cannot be gone on with: they are not asked for again.
    refused: Vec<Arc<str>>,
    /// The next byte of the track, and which frame begins there; behind the last frame there is none.
    at: u64,
    frame: Option<u64>,
    piece_bytes: usize,
    is_over: bool,
    first_wish: Option<FirstWish>,
    swapped: Vec<Swapped>,
}

impl Stream {
    /// The first 16 times that it went on in another variant.
    pub(super) fn swapped(&self) -> &[Swapped] {
        &self.swapped
    }

    /// Begins with a file; none if it is no sound that can be swapped.
    pub(crate) fn begin(
        family: Family,
        name: Arc<str>,
        resource: &Rc<Resource>,
        policy_client: &PolicyClient,
    ) -> Option<Self> {
        let index = policy_client.indexes().borrow_mut().of(resource).ok()??;
        let track = Track { resource: Rc::clone(resource), index };
        Some(Self {
            family,
            track,
            name,
            wanted: None,
            refused: Vec::new(),
            at: 0,
            frame: Some(0),
            piece_bytes: *PIECE_BYTES.start(),
            is_over: false,
            first_wish: None,
            swapped: Vec::new(),
        })
    }

    /// Goes on where another server came to; none if the track is no sound that can be swapped. A swap for which the frame
    /// was not found there is decided anew by this server's rules.
    pub(crate) fn go_on(
        (root, shared_content): (Rc<Root>, Arc<SharedContent>),
        place: StreamPlace,
        resource: &Rc<Resource>,
        policy_client: &PolicyClient,
    ) -> Option<Self> {
        let family = Family { root, shared_content, path: place.path };
        let begun = Self::begin(family, place.name, resource, policy_client)?;
        Some(Self { at: place.at, frame: place.frame, is_over: place.is_over, ..begun })
    }

    /// Where it is; so many bytes of the response were sent and are not kept.
    pub(crate) fn place(&self, released_bytes: u64) -> StreamPlace {
        StreamPlace {
            path: self.family.path.clone(),
            name: Arc::clone(&self.name),
            at: self.at,
            frame: self.frame,
            is_over: self.is_over,
            released_bytes,
        }
    }

    /// The file that its next piece is taken from.
    pub(crate) fn resource(&self) -> &Rc<Resource> {
        &self.track.resource
    }

    /// Takes note of what the rules say before they know the client's link: it holds if they say nothing else soon, so
    /// that nothing is swapped to and fro because a response has moved.
    pub(crate) fn wish_first(&mut self, names: Arc<str>, now_ms: u64) {
        self.first_wish = Some(FirstWish { names, from_ms: now_ms + FIRST_WISH_MS });
    }

    /// What it is to go on with: what the rules say now, or what they said first.
    pub(crate) fn wish(&mut self, said: Option<Arc<str>>, now_ms: u64) -> Option<Arc<str>> {
        if said.is_some() {
            self.first_wish = None;
            return said;
        }
        let first = self.first_wish.take_if(|first| first.from_ms <= now_ms)?;
        Some(first.names)
    }

    pub(crate) fn is_over(&self) -> bool {
        self.is_over
    }

    /// Takes note of what the client takes.
    pub(crate) fn pace(&mut self, link: Link) {
        if let Some(bps) = link.bandwidth_bps {
            self.piece_bytes = ((bps / 8.0 * PIECE_S) as usize).clamp(*PIECE_BYTES.start(), *PIECE_BYTES.end());
        }
    }

    /// Goes on with another variant as soon as that is possible; `by` says which rule wants it.
    pub(crate) fn want(
        &mut self,
        names: &Arc<str>,
        policy_client: &PolicyClient,
        by: impl FnOnce() -> Option<DecidedBy>,
    ) {
        let is_settled = self.wanted.as_ref().map_or(&self.name, |wanted| &wanted.name) == names;
        if is_settled || self.refused.contains(names) {
            return;
        }
        match self.open(names, policy_client) {
            Some(track) if track.resource.id == self.track.resource.id => {
                // It is the same file by another name.
                (self.name, self.wanted) = (Arc::clone(names), None);
            }
            Some(track) => self.wanted = Some(Wanted { name: Arc::clone(names), track, by: by() }),
            None => self.refuse(Arc::clone(names), policy_client),
        }
    }

    /// Which of the named variants a track is.
    fn variant_of<'n>(&self, names: &'n str, track: &Track) -> &'n str {
        let is_it =
            |name: &&str| variants::path_of(&self.family.path, name).is_some_and(|path| *path == *track.resource.path);
        names.split_ascii_whitespace().find(is_it).unwrap_or(variants::FULL)
    }

    /// The file of a variant, if decoders go on with it.
    fn open(&self, names: &str, policy_client: &PolicyClient) -> Option<Track> {
        let at = |path: &[u8]| Some((self.family.root.open(path).ok()?, Box::from(path)));
        let found = variants::find(names, &self.family.path, at);
        policy_client.counts().variants_missing.add(found.missing);
        let (file, path) = found.found.or_else(|| at(&self.family.path))?;
        if !file.metadata().is_ok_and(|metadata| metadata.is_file()) {
            return None;
        }
        let of = Description {
            path,
            content_type: String::new(),
            own_coding: None,
            variant: Variant::Identity,
            varies: false,
            is_governed: true,
            asks_hints: false,
            now_s: 0,
        };
        let resource = Rc::new(Resource::load(file, &self.family.shared_content, 0, &of).ok()?);
        let index = policy_client.indexes().borrow_mut().of(&resource).ok()??;
        let is_same = index.borrow().format == self.track.index.borrow().format;
        is_same.then_some(Track { resource, index })
    }

    fn refuse(&mut self, names: Arc<str>, policy_client: &PolicyClient) {
        policy_client.counts().swaps_refused.add(1);
        // As many as a policy can name; with more all are forgotten, and a name may be refused again.
        if self.refused.len() == 16 {
            self.refused.clear();
        }
        self.refused.push(names);
    }

    /// Appends the next piece as a chunk, or the end.
    pub(crate) fn fill(&mut self, out: &mut Vec<u8>, policy_client: &PolicyClient) -> io::Result<()> {
        let mut piece = Vec::with_capacity(self.piece_bytes);
        self.swap(&mut piece, policy_client)?;
        if piece.is_empty() {
            self.take(&mut piece)?;
        }
        if !self.track.resource.is_unchanged() {
            return Err(io::ErrorKind::StaleNetworkFileHandle.into());
        }
        if piece.is_empty() {
            self.is_over = true;
            out.extend_from_slice(b"0\r\n\r\n");
            return Ok(());
        }
        out.extend_from_slice(format!("{:x}\r\n", piece.len()).as_bytes());
        out.extend_from_slice(&piece);
        out.extend_from_slice(b"\r\n");
        Ok(())
    }

    /// Whole frames of the track, or what stands before and behind them.
    fn take(&mut self, piece: &mut Vec<u8>) -> io::Result<()> {
        let (start, format) = {
            let index = self.track.index.borrow();
            (index.start, index.format)
        };
        let sound = Sound(&self.track.resource);
        let read = |at: u64, len: usize, piece: &mut Vec<u8>| {
            piece.resize(len, 0);
            let read = audio::Bytes::read_at(&sound, at, piece)?;
            piece.truncate(read);
            io::Result::Ok(())
        };
        if self.at < start {
            let len = usize::try_from(start - self.at).unwrap_or(usize::MAX).min(self.piece_bytes);
            read(self.at, len, piece)?;
            self.at += piece.len() as u64;
            return Ok(());
        }
        // One frame more than a piece, so that it holds a whole frame of any size.
        read(self.at, self.piece_bytes + 8192, piece)?;
        let mut end = 0;
        let mut frames = 0;
        while end < self.piece_bytes && self.frame.is_some() {
            let frame = piece.get(end..).and_then(frame::parse);
            match frame.filter(|frame| frame.format == format && end + frame.bytes <= piece.len()) {
                Some(frame) => {
                    end += frame.bytes;
                    frames += 1;
                }
                None => break,
            }
        }
        match self.frame {
            Some(number) if frames > 0 => self.frame = Some(number + frames),
            // What is no frame is sent as it is, and nothing is swapped any more.
            _ => {
                self.frame = None;
                end = piece.len().min(self.piece_bytes);
            }
        }
        piece.truncate(end);
        self.at += end as u64;
        Ok(())
    }

    /// Goes on in what is wanted, if its frame is found by now; the piece gets the frame that leads over.
    fn swap(&mut self, piece: &mut Vec<u8>, policy_client: &PolicyClient) -> io::Result<()> {
        let Some(Wanted { name, track, by }) = self.wanted.take() else { return Ok(()) };
        // Before the first frame there is only what stands before it, and behind the last one nothing to go on with.
        let Some(number) = self.frame.filter(|_| self.at >= self.track.index.borrow().start) else {
            self.wanted = self.frame.map(|_| Wanted { name, track, by });
            return Ok(());
        };
        let sound = Sound(&track.resource);
        let place = track.index.borrow_mut().find(&sound, number, SEARCH_BYTES)?;
        let at = match place {
            Place::At(at) => at,
            Place::Later => {
                self.wanted = Some(Wanted { name, track, by });
                return Ok(());
            }
            Place::Beyond => {
                self.refuse(name, policy_client);
                return Ok(());
            }
        };
        let (mut at, mut next) = (at, number);
        let mut head = [0; HEAD_BYTES];
        audio::Bytes::read_at(&sound, at, &mut head)?;
        let Some(first) = frame::parse(&head) else {
            self.refuse(name, policy_client);
            return Ok(());
        };
        if first.reservoir_bytes > 0 {
            // Its place is taken by one that leads over to the frame behind it.
            let mut second = [0; HEAD_BYTES];
            audio::Bytes::read_at(&sound, at + first.bytes as u64, &mut second)?;
            let wanted = frame::parse(&second).map_or(0, |second| second.reservoir_bytes);
            let mut places = Vec::new();
            for before in number.saturating_sub(BEFORE_MAX)..=number {
                if let Place::At(at) = track.index.borrow_mut().find(&sound, before, SEARCH_BYTES)? {
                    places.push(at);
                }
            }
            let reservoir = carrier::reservoir(&sound, &places, wanted)?;
            let Some(silent) = carrier::carrier(&head, &first, &reservoir) else {
                self.refuse(name, policy_client);
                return Ok(());
            };
            piece.extend_from_slice(&silent);
            at += first.bytes as u64;
            next += 1;
        }
        policy_client.counts().swaps.add(1);
        if self.swapped.len() < SWAPPED_MAX {
            let variant = self.variant_of(&name, &track).to_owned();
            self.swapped.push(Swapped { at: Instant::now(), variant, by });
        }
        (self.track, self.name, self.at, self.frame) = (track, name, at, Some(next));
        Ok(())
    }
}
