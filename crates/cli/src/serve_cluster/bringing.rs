//! The node process's side of content that lies on other nodes: it fetches what the server wants, piece by piece, so that
//! a client gets the first bytes while the others are still on their way.
//!
//! A part that is all of a content is digested as it comes, and its last piece is given on only if the digest is right:
//! a client never takes other bytes for the whole. Of a range the digest says nothing; it comes from members of the
//! cluster, which have verified what they keep.

use super::content_frames::{Given, PARTS_MAX, PIECES_AHEAD, Wanted};
use super::fetching::{Piece, Source, SourceError, piece_of};
use super::gate::{self, Frame};
use super::sites::Sites;
use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use weir_cluster::{NodeNumber, PIECE_BYTES_MAX};
use weir_directory::Digest;
use weir_directory::atoms::Digesting;

/// Threads that fetch; each waits for one piece at a time.
const THREADS: usize = 16;
/// Bytes of the first piece, which the client waits for.
const FIRST_BYTES: u64 = 32 << 10;

/// Fetches what the server wants.
pub(super) struct Bringing {
    sites: Option<Arc<Sites>>,
    link: UnixStream,
    /// Held while a frame is written.
    writing: Mutex<()>,
    state: Mutex<State>,
    news: Condvar,
}

#[derive(Default)]
struct State {
    parts: HashMap<u64, Part>,
    /// Parts of which the next piece is to be fetched.
    ready: VecDeque<u64>,
}

/// A part that the server wants.
struct Part {
    path: String,
    digest: Digest,
    bytes: u64,
    at: u64,
    to: u64,
    /// Pieces that may still be sent.
    ahead: u32,
    is_fetching: bool,
    /// Of a part that is all of the content.
    digesting: Option<Digesting>,
    /// Where the last piece came from.
    last: Option<NodeNumber>,
}

/// A piece to fetch.
struct Job {
    part: u64,
    digest: Digest,
    bytes: u64,
    at: u64,
    length: u32,
    last: Option<NodeNumber>,
}

impl Bringing {
    /// Begins, by threads of its own.
    pub(super) fn start(link: UnixStream, sites: Option<Arc<Sites>>) -> io::Result<()> {
        let reads = link.try_clone()?;
        let (writing, state, news) = (Mutex::default(), Mutex::default(), Condvar::new());
        let bringing = Arc::new(Self { sites, link, writing, state, news });
        for _ in 0..THREADS {
            let fetching = Arc::clone(&bringing);
            let body = move || {
                loop {
                    fetching.bring(&fetching.next());
                }
            };
            std::thread::Builder::new().name("weir-node-bring".to_owned()).spawn(body)?;
        }
        std::thread::Builder::new().name("weir-node-wants".to_owned()).spawn(move || bringing.hear(&reads)).map(drop)
    }

    /// Takes what the server says, until that ends.
    fn hear(&self, link: &UnixStream) {
        while let Ok(Some(Frame { header, .. })) = gate::receive::<Wanted>(link) {
            match header {
                Wanted::Begin { part, path, digest, bytes, from, to } => {
                    let digest: Option<Digest> = digest.parse().ok();
                    let is_part = from < to && to <= bytes;
                    let is_full = self.lock().parts.len() >= PARTS_MAX;
                    let Some(digest) = digest.filter(|_| is_part && !is_full) else {
                        self.give_up(part, "This content cannot be passed on now.");
                        continue;
                    };
                    let digesting = (from == 0 && to == bytes).then(Digesting::new);
                    let (ahead, is_fetching, last) = (PIECES_AHEAD, false, None);
                    let wanted = Part { path, digest, bytes, at: from, to, ahead, is_fetching, digesting, last };
                    self.lock().parts.insert(part, wanted);
                    self.make_ready(part);
                }
                Wanted::More { part } => {
                    if let Some(wanted) = self.lock().parts.get_mut(&part) {
                        wanted.ahead = (wanted.ahead + 1).min(PIECES_AHEAD);
                    }
                    self.make_ready(part);
                }
                Wanted::Leave { part } => drop(self.lock().parts.remove(&part)),
            }
        }
    }

    /// Has the next piece of a part fetched, if there is one and it may be sent.
    fn make_ready(&self, part: u64) {
        let mut state = self.lock();
        let Some(wanted) = state.parts.get_mut(&part) else { return };
        if wanted.is_fetching || wanted.ahead == 0 || wanted.at == wanted.to {
            return;
        }
        wanted.is_fetching = true;
        wanted.ahead -= 1;
        state.ready.push_back(part);
        drop(state);
        self.news.notify_one();
    }

    /// Waits for something to fetch.
    fn next(&self) -> Job {
        let mut state = self.lock();
        loop {
            while let Some(part) = state.ready.pop_front() {
                let Some(Part { digest, bytes, at, to, last, digesting, .. }) = state.parts.get(&part) else {
                    continue;
                };
                let is_first = *at == 0 || digesting.is_none() && last.is_none();
                let most = if is_first { FIRST_BYTES } else { PIECE_BYTES_MAX as u64 };
                // Below the bound of a piece.
                let length = (to - at).min(most) as u32;
                return Job { part, digest: *digest, bytes: *bytes, at: *at, length, last: *last };
            }
            state = self.news.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Fetches a piece and gives it on.
    fn bring(&self, job: &Job) {
        let Job { part, digest, at, .. } = *job;
        let found = self.fetch(job);
        let mut state = self.lock();
        // Nothing may want it any more.
        let Some(wanted) = state.parts.get_mut(&part) else { return };
        let (node, bytes) = match found {
            Ok(found) => found,
            Err(why) => {
                let path = wanted.path.clone();
                state.parts.remove(&part);
                drop(state);
                self.say_away(&path, &why);
                return self
                    .give_up(part, &format!("This content lies on other machines, and none of them sends it: {why}"));
            }
        };
        let is_first = wanted.last.is_none();
        (wanted.at, wanted.last) = (at + bytes.len() as u64, node.or(Some(NodeNumber::MAX)));
        let is_last = wanted.at == wanted.to;
        let path = is_first.then(|| wanted.path.clone());
        if let Some(digesting) = &mut wanted.digesting {
            digesting.update(&bytes);
        }
        let digesting = if is_last { wanted.digesting.take() } else { None };
        if digesting.is_some_and(|digesting| digesting.finish() != digest) {
            let path = wanted.path.clone();
            state.parts.remove(&part);
            drop(state);
            let why = "another node sends other bytes than those of the digest";
            self.say_away(&path, why);
            return self.give_up(part, why);
        }
        drop(state);
        if let (Some(path), Some(sites)) = (path, &self.sites) {
            sites.seen.proxied(&path, node.and_then(|node| sites.name(node)));
        }
        if let Some(sites) = &self.sites {
            sites.seen.contents.proxied_bytes(bytes.len() as u64);
        }
        self.send(&Given::Piece { part }, &bytes);
        // Only now, so that pieces go in their order.
        if let Some(wanted) = self.lock().parts.get_mut(&part) {
            wanted.is_fetching = false;
        }
        self.make_ready(part);
    }

    /// Fetches a piece: from here, if it has come meanwhile, else from the nodes that should have it, else from any.
    fn fetch(&self, job: &Job) -> Result<(Option<NodeNumber>, Vec<u8>), String> {
        let Job { digest, bytes: total, at, length, last, .. } = job;
        let sites = self.sites.as_ref().ok_or("this node follows no directory")?;
        let fits = |piece: &Piece| piece.total_bytes == *total && piece.bytes.len() == *length as usize;
        if let Ok(piece) = piece_of(&sites.published.store, digest, *at, *length)
            && fits(&piece)
        {
            return Ok((None, piece.bytes));
        }
        let mut order: Vec<NodeNumber> = last.iter().copied().chain(sites.keeping.keepers(digest)).collect();
        order.extend(sites.peers.iter().map(|peer| peer.number));
        let (mut tried, mut why) = (Vec::new(), Vec::new());
        for is_living in [true, false] {
            for number in &order {
                if tried.contains(number) || sites.keeping.is_living(*number) != is_living {
                    continue;
                }
                tried.push(*number);
                let Some(peer) = sites.peers.iter().find(|peer| peer.number == *number) else { continue };
                match peer.piece(digest, *at, *length) {
                    Ok(Some(piece)) if fits(&piece) => return Ok((Some(*number), piece.bytes)),
                    Ok(Some(_)) => why.push(format!("{} has it with another length", peer.name)),
                    Ok(None) => why.push(format!("{} does not have it", peer.name)),
                    Err(SourceError::Again(error) | SourceError::Gone(error)) => {
                        why.push(format!("{} does not send it ({error})", peer.name));
                    }
                }
            }
        }
        Err(why.join(", "))
    }

    fn say_away(&self, path: &str, why: &str) {
        if let Some(sites) = &self.sites {
            sites.seen.away(&format!("{path}: {why}"));
        }
    }

    fn give_up(&self, part: u64, why: &str) {
        self.send(&Given::Away { part, why: why.to_owned() }, &[]);
    }

    fn send(&self, given: &Given, bytes: &[u8]) {
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        // Where the server has ended, this process ends too.
        let _ = gate::send(&self.link, given, bytes, &[]);
    }

    /// What the lock guards is whole after each statement.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
