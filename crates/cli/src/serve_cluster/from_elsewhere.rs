//! The server's side of content that lies on other nodes: it asks its node process, and gives on what comes.

use super::content_frames::{Given, PARTS_MAX, Wanted};
use super::gate::{self, Frame};
use std::collections::{HashMap, VecDeque};
use std::fmt::Write as _;
use std::io;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use weir_server::{ContentAway, Elsewhere, IncomingContent, Wake, WantedContent};

/// Words that wait to be said to the node process; beyond it no part begins.
const WORDS_MAX: usize = 4 * PARTS_MAX;

/// Brings content that lies on other nodes, once there is a node process.
#[derive(Debug, Default)]
pub(crate) struct FromElsewhere {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    news: Condvar,
    next: AtomicU64,
}

#[derive(Debug, Default)]
struct State {
    phase: Phase,
    /// Which node process it is, of those that came one after the other.
    process: u64,
    words: VecDeque<Wanted>,
    parts: HashMap<u64, Inbox>,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// There is no node process yet.
    #[default]
    Awaited,
    Open,
    /// It has ended.
    Ended,
}

/// What has come of a part.
#[derive(Debug)]
struct Inbox {
    pieces: VecDeque<Vec<u8>>,
    away: Option<String>,
    wake: Wake,
}

impl State {
    /// Whether it speaks with this node process.
    fn is_open(&self, process: u64) -> bool {
        self.phase == Phase::Open && self.process == process
    }

    /// No more comes of all that is under way.
    fn give_up(&mut self) {
        self.words.clear();
        for inbox in self.parts.values_mut() {
            inbox.away.get_or_insert_with(ended);
            inbox.wake.wake();
        }
    }
}

impl Shared {
    /// What the lock guards is whole after each statement.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn say(&self, word: Wanted) {
        self.lock().words.push_back(word);
        self.news.notify_one();
    }

    /// Says to a node process what is wanted, until that ends.
    fn write(&self, link: &UnixStream, process: u64) {
        loop {
            let mut state = self.lock();
            while state.words.is_empty() && state.is_open(process) {
                state = self.news.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            if !state.is_open(process) {
                return;
            }
            let Some(word) = state.words.pop_front() else { return };
            drop(state);
            if gate::send(link, &word, &[], &[]).is_err() {
                return self.end(process);
            }
        }
    }

    /// Takes what comes, until the node process ends.
    fn read(&self, link: &UnixStream, process: u64) {
        while let Ok(Some(Frame { header, mut bytes, .. })) = gate::receive::<Given>(link) {
            let mut state = self.lock();
            // Of a part that nothing wants any more something may still be on its way.
            let (Given::Piece { part } | Given::Away { part, .. }) = &header;
            let Some(inbox) = state.parts.get_mut(part) else { continue };
            match header {
                Given::Piece { .. } => inbox.pieces.push_back(std::mem::take(&mut *bytes)),
                Given::Away { why, .. } => inbox.away = Some(why),
            }
            inbox.wake.wake();
        }
        self.end(process);
    }

    /// A node process has ended. The next one may have come meanwhile.
    fn end(&self, process: u64) {
        let mut state = self.lock();
        if !state.is_open(process) {
            return;
        }
        state.phase = Phase::Ended;
        state.give_up();
        drop(state);
        self.news.notify_all();
    }
}

fn ended() -> String {
    "This content lies on another machine, and the process that brings it has ended.".to_owned()
}

impl FromElsewhere {
    /// Begins to speak with a node process, by threads of the server, so that they are confined as it is.
    pub(super) fn open(&self, link: UnixStream) -> io::Result<()> {
        let writes = link.try_clone()?;
        let mut state = self.shared.lock();
        // The threads of the process before may not have seen its end yet.
        state.give_up();
        state.phase = Phase::Open;
        state.process += 1;
        let process = state.process;
        drop(state);
        let (reader, writer) = (Arc::clone(&self.shared), Arc::clone(&self.shared));
        std::thread::Builder::new().name("weir-content-in".to_owned()).spawn(move || reader.read(&link, process))?;
        std::thread::Builder::new()
            .name("weir-content-out".to_owned())
            .spawn(move || writer.write(&writes, process))?;
        Ok(())
    }
}

impl Elsewhere for FromElsewhere {
    fn begin(&self, wanted: &WantedContent<'_>, wake: Wake) -> Box<dyn IncomingContent> {
        let part = self.shared.next.fetch_add(1, Ordering::Relaxed);
        let mut state = self.shared.lock();
        let away = match state.phase {
            Phase::Awaited => Some("This content lies on another machine, and this one has just started.".to_owned()),
            Phase::Ended => Some(ended()),
            Phase::Open if state.parts.len() >= PARTS_MAX || state.words.len() >= WORDS_MAX => {
                Some("Too much content of other machines is passed on here at this moment.".to_owned())
            }
            Phase::Open => None,
        };
        let inbox = Inbox { pieces: VecDeque::new(), away, wake };
        if inbox.away.is_none() {
            let mut digest = String::with_capacity(64);
            for byte in wanted.digest {
                // Writing to a text does not fail.
                let _ = write!(digest, "{byte:02x}");
            }
            let path = String::from_utf8_lossy(wanted.path).into_owned();
            let (bytes, from, to) = (wanted.bytes, wanted.from, wanted.to);
            state.words.push_back(Wanted::Begin { part, path, digest, bytes, from, to });
        }
        state.parts.insert(part, inbox);
        drop(state);
        self.shared.news.notify_one();
        Box::new(Part { part, shared: Arc::clone(&self.shared) })
    }
}

/// A part on its way.
#[derive(Debug)]
struct Part {
    part: u64,
    shared: Arc<Shared>,
}

impl IncomingContent for Part {
    fn next(&mut self) -> Result<Option<Vec<u8>>, ContentAway> {
        let mut state = self.shared.lock();
        let Some(inbox) = state.parts.get_mut(&self.part) else { return Err(ContentAway { why: ended() }) };
        match (inbox.pieces.pop_front(), &inbox.away) {
            (Some(piece), _) => {
                drop(state);
                self.shared.say(Wanted::More { part: self.part });
                Ok(Some(piece))
            }
            (None, Some(why)) => Err(ContentAway { why: why.clone() }),
            (None, None) => Ok(None),
        }
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.parts.remove(&self.part);
        if state.phase == Phase::Open {
            state.words.push_back(Wanted::Leave { part: self.part });
        }
        drop(state);
        self.shared.news.notify_one();
    }
}
