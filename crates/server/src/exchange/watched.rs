//! A request that is watched: what answers in place of files is asked for its steps, and the end is told.

use super::application::{Aborted, Begin, Caller, Handler, RequestHead};
use super::life::{ByApplication, Exchange, Source};
use super::reply::Reply;
use super::request_body::RequestBody;
use crate::telemetry::watching::{Ending, Steps, Underway};
use std::rc::Rc;

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
}

impl Handler for WatchedHandler {
    fn go_on(&mut self, body: &mut RequestBody, reply: &mut Reply) -> Result<(), Aborted> {
        let had_begun = reply.has_begun();
        let went = self.steps.during(|| self.inner.go_on(body, reply));
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
        } else if let Source::Application(by) = &mut self.source {
            let steps = underway.steps();
            by.streamed.wrap(|inner| Rc::new(WatchedBegin { inner, steps }));
            tell_head(by);
        }
        self.record.watched = Some(underway);
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
        let Some(underway) = self.record.watched.take() else { return };
        underway.end(Ending {
            status: self.status,
            is_complete: self.is_finished(),
            body_bytes: self.body_sent_bytes(),
            sent_bytes: self.sent_bytes(),
            told_as: self.record.arm.was_told(),
        });
    }
}
