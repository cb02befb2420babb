//! A request that is watched: what answers in place of files is asked for its steps, and the end is told.

use super::application::{Aborted, Begin, Caller, Handler, RequestHead};
use super::life::{ByApplication, Exchange, Source};
use super::reply::Reply;
use super::request_body::RequestBody;
use super::send;
use crate::http::response::Piece;
use crate::telemetry::watching::{Ending, Steps, Underway};
use std::os::unix::fs::FileExt;
use std::rc::Rc;

/// Bytes of a file that are read to be told, at most.
const FILE_BYTES: usize = 4096;

/// Begins the answer to a watched request.
#[derive(Debug)]
struct WatchedBegin {
    inner: Rc<dyn Begin>,
    steps: Steps,
}

impl Begin for WatchedBegin {
    fn begin(self: Rc<Self>, head: &RequestHead<'_>, caller: &Caller<'_>, is_whole: bool) -> Box<dyn Handler> {
        let inner = self.steps.during(|| Rc::clone(&self.inner).begin(head, caller, is_whole));
        Box::new(WatchedHandler { inner, steps: self.steps.clone() }.told())
    }
}

/// What answers a watched request.
#[derive(Debug)]
struct WatchedHandler {
    inner: Box<dyn Handler>,
    steps: Steps,
}

impl WatchedHandler {
    fn told(self) -> Self {
        if let Some(progress) = self.inner.progress() {
            self.steps.tell(progress);
        }
        self
    }

    /// The same where what passes of the bodies is taken down.
    fn go_on_seen(&mut self, room: usize, body: &mut RequestBody, reply: &mut Reply) -> Result<(), Aborted> {
        let (before, held) = (body.bytes().len(), reply.held().len());
        let first = body.bytes()[..before.min(room)].to_vec();
        let went = self.steps.during(|| self.inner.go_on(body, reply));
        let taken = before - body.bytes().len();
        self.steps.request_passes(&first[..first.len().min(taken)], taken as u64);
        if let Some(given) = reply.held().get(held..) {
            self.steps.response_passes(given, given.len() as u64);
        }
        went
    }
}

impl Handler for WatchedHandler {
    fn go_on(&mut self, body: &mut RequestBody, reply: &mut Reply) -> Result<(), Aborted> {
        let had_begun = reply.has_begun();
        let went = match self.steps.room_for_request() {
            Some(room) => self.go_on_seen(room, body, reply),
            None => self.steps.during(|| self.inner.go_on(body, reply)),
        };
        if let Some(progress) = self.inner.progress() {
            self.steps.tell(progress);
        }
        if !had_begun && reply.has_begun() {
            self.steps.tell("the head of the response has come".to_owned());
        }
        if reply.is_ended() {
            self.steps.tell("the response is whole".to_owned());
        }
        went
    }

    fn progress(&self) -> Option<String> {
        self.inner.progress()
    }
}

/// Has the head of the response told as it comes.
fn tell_head(by: &mut ByApplication) {
    let finish = by.finish.take();
    by.finish = Some(Box::new(move |out: &mut Exchange| {
        if let Some(finish) = finish {
            finish(out);
        }
        if let Some(underway) = &mut out.record.watched {
            underway.headed(&out.response.head, true);
        }
    }));
}

impl Exchange {
    /// Has it watched from now on: what answers is chosen.
    #[cold]
    pub(crate) fn watch(&mut self, mut underway: Box<Underway>) {
        if !self.is_awaited() {
            underway.headed(&self.response.head, false);
            if underway.takes_bodies() {
                self.body_passes(&underway.steps());
            }
        } else if let Source::Application(by) = &mut self.source {
            let steps = underway.steps();
            by.streamed.wrap(|inner| Rc::new(WatchedBegin { inner, steps }));
            tell_head(by);
        }
        self.record.watched = Some(underway);
    }

    /// Takes down the beginning of a body that is known with its head.
    fn body_passes(&self, steps: &Steps) {
        for piece in self.response.from(self.head_bytes) {
            match piece {
                Piece::Head(bytes) => steps.response_passes(bytes, bytes.len() as u64),
                Piece::Content { start, len } => self.content_passes(steps, start, len),
            }
        }
    }

    fn content_passes(&self, steps: &Steps, start: u64, len: u64) {
        match send::content(&self.source, start, len) {
            Ok(send::Bytes::Memory(bytes)) => steps.response_passes(bytes, len),
            Ok(send::Bytes::File(file)) => {
                let mut beginning = [0; FILE_BYTES];
                let wanted = usize::try_from(len).unwrap_or(usize::MAX).min(FILE_BYTES);
                // What cannot be read now cannot be sent either, and the response says so.
                let read = file.read_at(&mut beginning[..wanted], start).unwrap_or(0);
                steps.response_passes(&beginning[..read], len);
            }
            Err(_) => {}
        }
    }

    /// The same for one that began before its watcher came, of which only what comes is told.
    #[cold]
    pub(crate) fn watch_rest(&mut self, mut underway: Box<Underway>) {
        if let (Source::Application(by), 0) = (&mut self.source, self.status) {
            tell_head(by);
        }
        let head_bytes = usize::try_from(self.head_bytes).unwrap_or(usize::MAX);
        // Where some of an application's response was sent, other bytes may stand in the place of its head.
        if let (Some(head), true) = (self.response.head.get(..head_bytes), self.sent_bytes() == self.response.offset) {
            underway.headed(head, false);
        }
        self.record.watched = Some(underway);
    }

    /// Tells those who watch it of its end.
    #[cold]
    #[inline(never)]
    pub(crate) fn finish_watched(&mut self) {
        let Some(mut underway) = self.record.watched.take() else { return };
        if let Some(advised) = self.record.advised.as_ref().filter(|advised| !advised.swapped().is_empty()) {
            underway.swapped(advised.swapped());
        }
        underway.end(Ending {
            status: self.status,
            is_complete: self.is_finished(),
            body_bytes: self.body_sent_bytes(),
            sent_bytes: self.sent_bytes(),
            told_as: self.record.arm.was_told(),
        });
    }
}
