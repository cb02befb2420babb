//! How an application's response becomes what is sent.

use crate::exchange::application::{ApplicationHandle, RequestHead, Wake};
use crate::exchange::error_page::{self, Extra};
use crate::exchange::life::{ByApplication, Exchange, Finish, Source};
use crate::exchange::streamed::{Frames, GivenUp, Manner, Streamed};
use crate::files::head;
use crate::http::request::Request;
use crate::io::clock::Clock;
use std::io;

/// What became of an application's turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Went {
    /// There is something to send, or the response is over.
    On,
    /// There is nothing to send for now.
    Nowhere,
}

impl Exchange {
    /// Has an application answer the request; it begins when the protocol says so.
    #[cold]
    pub(crate) fn choose(&mut self, application: ApplicationHandle, finish: Finish) {
        let (streamed, finish) = (Streamed::chosen(application), Some(finish));
        self.source = Source::Application(Box::new(ByApplication { streamed, finish, target: None }));
    }

    /// Has the application that was chosen asked for another target than the request's.
    #[cold]
    pub(crate) fn ask_for(&mut self, target: String) {
        if let Source::Application(by) = &mut self.source {
            by.target = Some(target);
        }
    }

    fn take_finish(&mut self) -> Option<Finish> {
        match &mut self.source {
            Source::Application(by) => by.finish.take(),
            Source::Head | Source::Content(_) => None,
        }
    }

    /// Has the application begin that was chosen for the request.
    #[cold]
    pub(crate) fn begin_application(&mut self, head: &RequestHead<'_>, wake: Wake, manner: Manner) {
        let target = match &mut self.source {
            Source::Application(by) => by.target.take(),
            Source::Head | Source::Content(_) => None,
        };
        let request = target.as_deref().map(|target| Request { target, ..*head.request });
        let head = request.as_ref().map_or(*head, |request| RequestHead { request, ..*head });
        if let Some(streamed) = self.streamed() {
            streamed.begin(&head, wake, manner);
        }
    }

    /// Has the application go on, and takes what it gives.
    ///
    /// # Errors
    ///
    /// `ConnectionAborted` if the application gives up behind the head of its response: there is no honest way to go
    /// on.
    #[cold]
    pub(crate) fn go_on(&mut self, clock: &Clock) -> io::Result<Went> {
        let (is_taken, took_now) = (self.response.is_finished(), self.response.offset > 0);
        let Some(streamed) = self.streamed().filter(|streamed| !streamed.is_over()) else { return Ok(Went::Nowhere) };
        if let Err(why) = streamed.drive(is_taken, took_now, clock.now_ms) {
            return self.fail(why, is_taken, clock);
        }
        if !is_taken {
            return Ok(Went::Nowhere);
        }
        self.release();
        self.begin_reply(clock);
        let Self { response, source: Source::Application(by), status, .. } = self else { return Ok(Went::Nowhere) };
        if *status != 0 {
            by.streamed.move_on(&mut response.head);
        }
        Ok(if response.head.is_empty() && !by.streamed.is_over() { Went::Nowhere } else { Went::On })
    }

    /// Makes room for the next piece in the place of one that was sent.
    fn release(&mut self) {
        let released_bytes = std::mem::take(&mut self.response.offset);
        self.response.head.clear();
        if let Some(streamed) = self.streamed() {
            streamed.released_bytes += released_bytes;
        }
    }

    /// Writes the head of an application's response, if it has come.
    fn begin_reply(&mut self, clock: &Clock) {
        let Some(streamed) = self.streamed() else { return };
        let Some(reply) = streamed.reply.head.take() else { return };
        let mut framing = Vec::new();
        let has_content = !matches!(reply.status, 204 | 304);
        streamed.frames = match reply.length {
            // A length that the client is told is one that it can count on.
            Some(length) if has_content => {
                framing = format!("Content-Length: {length}\r\n").into_bytes();
                Frames::Outside
            }
            _ if !has_content || streamed.manner.minor >= 2 => Frames::Outside,
            _ if streamed.manner.minor == 1 => {
                framing = b"Transfer-Encoding: chunked\r\n".to_vec();
                if streamed.reply.is_bodiless { Frames::Outside } else { Frames::Chunks }
            }
            _ => {
                streamed.manner.persistence = head::Persistence::Closes;
                Frames::UntilClose
            }
        };
        let persistence = streamed.manner.persistence;
        let finish = self.take_finish();
        self.status = reply.status;
        head::other(&mut self.response.head, reply.status, &[&reply.fields, &framing], clock, persistence);
        self.head_bytes = self.response.head.len() as u64;
        self.know_status();
        if let Some(finish) = finish {
            finish(self);
        }
    }

    /// Answers in place of an application that gives up, or breaks its response off.
    fn fail(&mut self, why: GivenUp, is_taken: bool, clock: &Clock) -> io::Result<Went> {
        let has_begun = self.status != 0 || !is_taken;
        let Some(streamed) = self.streamed() else { return Ok(Went::Nowhere) };
        streamed.give_up();
        if has_begun {
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        self.say(if why == GivenUp::Late { 504 } else { 502 }, clock);
        Ok(Went::On)
    }

    /// Answers a client that does not do its part, if nothing was answered yet; whether it did. The connection ends behind
    /// that answer.
    #[cold]
    pub(crate) fn refuse(&mut self, status: u16, clock: &Clock) -> bool {
        let has_begun = self.status != 0 || !self.response.is_finished();
        let Some(streamed) = self.streamed().filter(|streamed| !streamed.is_over() && !has_begun) else { return false };
        streamed.cancel();
        self.say(status, clock);
        true
    }

    /// Writes a page for a status in place of what the application would say.
    fn say(&mut self, status: u16, clock: &Clock) {
        let Some(streamed) = self.streamed() else { return };
        let persistence = streamed.manner.persistence;
        let extra = Extra { fields: b"Cache-Control: no-store\r\n", head_only: streamed.reply.is_bodiless };
        let finish = self.take_finish();
        self.release();
        error_page::write(self, status, extra, clock, persistence);
        self.know_status();
        if let Some(finish) = finish {
            finish(self);
        }
    }

    /// Puts the status into the line of the log, which was begun before it was known.
    fn know_status(&mut self) {
        self.record.log.know_status(self.status);
    }

    /// There was no response when the client went away: the log has the status that nginx has for it.
    #[cold]
    pub(crate) fn say_gone(&mut self) {
        self.record.log.know_status(499);
    }

    /// Has the client send the body that it holds back until it is told (RFC 9110 section 10.1.1).
    #[cold]
    pub(crate) fn ask_for_body(&mut self) {
        const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";
        self.response.head.extend_from_slice(CONTINUE);
        if let Some(streamed) = self.streamed() {
            streamed.framing_bytes += CONTINUE.len() as u64;
        }
    }
}
