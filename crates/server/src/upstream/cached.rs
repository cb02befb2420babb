//! An upstream behind a cache: a request is answered from what is stored, waits for another one, or goes on to the
//! upstream.

use super::background::Background;
use super::cache::answer::{Answer, AnswerPiece};
use super::cache::lookup::{self, Bypass, Front, Invalidation, Lookup, Waits};
use super::fetching::{Fetching, Origin, Went, now};
use super::links::{self, Links};
use crate::exchange::application::{Aborted, Begin, Caller, Handler, RequestHead};
use crate::exchange::reply::Reply;
use crate::exchange::request_body::RequestBody;
use crate::exchange::wakes::Address;
use crate::http::request::Method;
use std::cell::RefCell;
use std::os::unix::fs::FileExt as _;
use std::rc::Rc;

/// Bytes that are read from a file at once.
const READ_BYTES_MAX: usize = 64 << 10;
/// What a client gets that wants nothing but what is stored (RFC 9111 section 5.2.1.7).
const NOT_STORED: &str = "nothing is stored that may answer this request, and it permits nothing else\n";

/// Begins answers from a cache, and from an upstream where it has none.
#[derive(Debug)]
pub(crate) struct Cached {
    pub(crate) front: Rc<RefCell<Front>>,
    /// The upstream.
    pub(crate) inner: Rc<dyn Begin>,
    pub(crate) background: Rc<Background>,
    pub(crate) links: Rc<Links>,
    /// For how long a response may be stale, in seconds, as a rule allows.
    pub(crate) stale_max_s: u64,
}

impl Begin for Cached {
    fn begin(self: Rc<Self>, head: &RequestHead<'_>, caller: &Caller<'_>, is_whole: bool) -> Box<dyn Handler> {
        let is_get = matches!(head.request.method, Method::Get | Method::Head);
        let lookup = if is_get && !is_whole {
            // Its body may say what it is for.
            Lookup::Bypass { why: Bypass::Request, invalidation: None }
        } else {
            let mut front = self.front.borrow_mut();
            front.allow_stale(self.stale_max_s);
            front.lookup(head, &caller.wake(), now())
        };
        let stage = match lookup {
            Lookup::Hit(answer) => Stage::answering(Box::new(answer)),
            Lookup::Stale { answer, refresh } => {
                if let Some(fetch) = refresh {
                    self.background.begin(Origin::new(&self.inner, head, caller.wake()), fetch);
                }
                Stage::answering(Box::new(answer))
            }
            Lookup::Fetch(fetch) => {
                let (from, by) = ((&self.inner, &self.links), (caller, caller.wake()));
                let fetching = Fetching::begin(from, fetch, head, by);
                fetching.map_or(Stage::TooLarge, |fetching| Stage::Fetching(Box::new(fetching)))
            }
            Lookup::Wait(waiting) => Stage::Waiting {
                until: self.links.wait(caller.address, waiting.until_ms()),
                waiting,
                origin: Box::new(Origin::new(&self.inner, head, caller.wake())),
            },
            Lookup::Bypass { why, invalidation } => {
                let inner = Rc::clone(&self.inner).begin(head, caller, is_whole);
                Stage::Passing { inner, head: Some((why, invalidation)) }
            }
            Lookup::OnlyIfCached504 => Stage::NotStored,
        };
        let links = Rc::clone(&self.links);
        Box::new(CachedRelay { stage, links, at: caller.address, is_head: head.request.method == Method::Head })
    }
}

/// What is to be done with a head that has not come yet.
type Awaited = (Bypass, Option<Box<Invalidation>>);

/// A request that a cache looks after.
#[derive(Debug)]
pub(crate) struct CachedRelay {
    stage: Stage,
    links: Rc<Links>,
    at: Address,
    is_head: bool,
}

#[derive(Debug)]
enum Stage {
    /// The upstream answers, and the cache looks at its head only.
    Passing {
        inner: Box<dyn Handler>,
        head: Option<Awaited>,
    },
    /// The upstream answers, for the cache and the client.
    Fetching(Box<Fetching>),
    /// Another request is asking the upstream.
    Waiting {
        waiting: Box<lookup::Waiting>,
        until: links::Waiting,
        origin: Box<Origin>,
    },
    /// The cache answers; so many bytes of the body were given.
    Answering {
        answer: Box<Answer>,
        offset: u64,
    },
    /// Nothing is stored, and the client wants nothing else.
    NotStored,
    /// With what the cache adds the head is too large.
    TooLarge,
    Over,
}

impl Stage {
    fn answering(answer: Box<Answer>) -> Self {
        Self::Answering { answer, offset: 0 }
    }
}

impl Handler for CachedRelay {
    fn go_on(&mut self, body: &mut RequestBody, reply: &mut Reply) -> Result<(), Aborted> {
        loop {
            let stage = std::mem::replace(&mut self.stage, Stage::Over);
            self.stage = match stage {
                Stage::Passing { inner, head } => return self.pass((inner, head), body, reply),
                Stage::Fetching(mut fetching) => match fetching.go_on(Some(reply)) {
                    Went::On => {
                        self.stage = Stage::Fetching(fetching);
                        return Ok(());
                    }
                    Went::Answer(answer) => Stage::answering(answer),
                    Went::Whole => return Ok(()),
                    Went::Failed(status) => {
                        if let Some(status) = status {
                            reply.refuse(status);
                        }
                        return Err(Aborted);
                    }
                },
                Stage::Waiting { waiting, until, origin } => match waiting.go_on(now()) {
                    Waits::NotYet(waiting) => {
                        self.stage = Stage::Waiting { waiting, until, origin };
                        return Ok(());
                    }
                    Waits::Answer(answer) => Stage::answering(answer),
                    Waits::Fetch(fetch) => {
                        let fetching = Fetching::of(*origin, &self.links, fetch, (self.at, self.is_head));
                        fetching.map_or(Stage::TooLarge, |fetching| Stage::Fetching(Box::new(fetching)))
                    }
                },
                Stage::Answering { answer, offset } => return self.answer(answer, offset, reply),
                Stage::NotStored => return say_not_stored(reply),
                Stage::TooLarge => {
                    reply.refuse(431);
                    return Err(Aborted);
                }
                Stage::Over => return Ok(()),
            };
        }
    }

    fn progress(&self) -> Option<String> {
        match &self.stage {
            Stage::Passing { inner, .. } => inner.progress(),
            Stage::Fetching(fetching) => fetching.progress(),
            Stage::Waiting { .. } => Some("another request is asking the upstream for the same".to_owned()),
            Stage::Answering { .. } => Some("the cache answers".to_owned()),
            Stage::NotStored => Some("nothing is stored, and the client wants nothing else".to_owned()),
            Stage::TooLarge => Some("with what the cache adds the head is too large".to_owned()),
            Stage::Over => None,
        }
    }
}

impl CachedRelay {
    /// Has the upstream go on, and looks at the head of its response.
    fn pass(
        &mut self,
        (mut inner, mut awaited): (Box<dyn Handler>, Option<Awaited>),
        body: &mut RequestBody,
        reply: &mut Reply,
    ) -> Result<(), Aborted> {
        let went = inner.go_on(body, reply);
        if let Some((why, invalidation)) = &awaited
            && let Some(head) = reply.head_mut()
        {
            if let Some(invalidation) = invalidation {
                invalidation.on_head(head.status, &head.fields);
            }
            if head.status != 101 {
                head.fields.extend_from_slice(why.cache_status());
            }
            awaited = None;
        }
        self.stage = Stage::Passing { inner, head: awaited };
        went
    }

    /// Gives as much of a stored response as its client takes.
    fn answer(&mut self, answer: Box<Answer>, mut offset: u64, reply: &mut Reply) -> Result<(), Aborted> {
        if !reply.has_begun() {
            let mut fields = Vec::with_capacity(1024);
            answer.write_fields(&mut fields);
            reply.relay(answer.status(), fields, answer.length());
        }
        while reply.room() > 0 && !self.is_head {
            let taken = match answer.piece(offset) {
                None => break,
                Some(AnswerPiece::Bytes(bytes)) => reply.write(bytes),
                Some(AnswerPiece::File { file, start, len }) => {
                    let room = reply.room().min(READ_BYTES_MAX);
                    let mut bytes = vec![0; usize::try_from(len).unwrap_or(room).min(room)];
                    // A file that is shorter than it was breaks the response off.
                    file.read_exact_at(&mut bytes, start).map_err(|_| Aborted)?;
                    reply.write(&bytes)
                }
            };
            offset += taken as u64;
        }
        let is_over = self.is_head || answer.piece(offset).is_none();
        if !is_over {
            self.stage = Stage::Answering { answer, offset };
            return Ok(());
        }
        if reply.end_relayed() { Ok(()) } else { Err(Aborted) }
    }
}

fn say_not_stored(reply: &mut Reply) -> Result<(), Aborted> {
    let fields = [
        ("Content-Type", "text/plain"),
        ("Cache-Control", "no-store"),
        ("Cache-Status", "weir; detail=only-if-cached"),
    ];
    reply.begin(504, &fields, Some(NOT_STORED.len() as u64)).map_err(|_| Aborted)?;
    reply.write(NOT_STORED.as_bytes());
    reply.end(&[]).map_err(|_| Aborted)
}
