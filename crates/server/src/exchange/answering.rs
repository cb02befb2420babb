//! How an application's response becomes what is sent.

use crate::exchange::application::{Answerer, Caller, RequestHead};
use crate::exchange::error_page::{self, Extra};
use crate::exchange::life::{ByApplication, Certified, Exchange, Finish, Source};
use crate::exchange::reply::{HeadOf, ReplyHead};
use crate::exchange::streamed::{Frames, GivenUp, Manner, Streamed};
use crate::files::head;
use crate::http::client_certificate;
use crate::http::request::{AllFields, Request};
use crate::io::clock::Clock;
use std::io;

/// Bytes of the longest line of Content-Length.
const LENGTH_LINE_BYTES_MAX: usize = 40;

/// The line of Content-Length, written without a formatter from its end on.
fn length_line(mut length: u64, text: &mut [u8; LENGTH_LINE_BYTES_MAX]) -> &[u8] {
    const NAME: &[u8] = b"Content-Length: ";
    let mut at = LENGTH_LINE_BYTES_MAX - b"\r\n".len();
    text[at..].copy_from_slice(b"\r\n");
    loop {
        at -= 1;
        text[at] = b'0' + (length % 10) as u8;
        length /= 10;
        if length == 0 {
            break;
        }
    }
    at -= NAME.len();
    text[at..at + NAME.len()].copy_from_slice(NAME);
    &text[at..]
}

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
    pub(crate) fn choose(&mut self, answerer: Answerer, finish: Finish) {
        let (streamed, finish) = (Streamed::chosen(answerer), Some(finish));
        self.source = Source::Application(Box::new(ByApplication { streamed, finish, target: None, certified: None }));
    }

    /// Says what is done to the head of the application that was chosen, in place of what was said before.
    #[cold]
    pub(crate) fn finish_with(&mut self, finish: Finish) {
        if let Source::Application(by) = &mut self.source {
            by.finish = Some(finish);
        }
    }

    /// Has the application that was chosen asked for another target than the request's.
    #[cold]
    pub(crate) fn ask_for(&mut self, target: String) {
        if let Source::Application(by) = &mut self.source {
            by.target = Some(target);
        }
    }

    /// Has the application that was chosen told of the client's certificate.
    #[cold]
    pub(crate) fn certify(&mut self, certified: Certified) {
        if let Source::Application(by) = &mut self.source {
            by.certified = Some(certified);
        }
    }

    fn take_finish(&mut self) -> Option<Finish> {
        match &mut self.source {
            Source::Application(by) => by.finish.take(),
            Source::Head | Source::Content(_) | Source::Stored(_) => None,
        }
    }

    /// Has the application begin that was chosen for the request.
    #[cold]
    pub(crate) fn begin_application(&mut self, head: &RequestHead<'_>, caller: &Caller<'_>, manner: Manner) {
        let (target, certified) = match &mut self.source {
            Source::Application(by) => (by.target.take(), by.certified.take()),
            Source::Head | Source::Content(_) | Source::Stored(_) => (None, None),
        };
        let request = target.as_deref().map(|target| Request { target, ..*head.request });
        let head = request.as_ref().map_or(*head, |request| RequestHead { request, ..*head });
        let user = self.record.log.user.clone();
        let arm = self.record.arm.identity(head.request);
        let head = RequestHead { user: Some(user.as_str()).filter(|user| !user.is_empty()), arm, ..head };
        if let Some(certified) = certified {
            return self.begin_certified(&certified, &head, caller, manner);
        }
        if let Some(streamed) = self.streamed() {
            streamed.begin(&head, caller, manner);
        }
    }

    /// The same for a request whose client's certificate it is told of.
    fn begin_certified(
        &mut self,
        Certified { told, fields }: &Certified,
        head: &RequestHead<'_>,
        caller: &Caller<'_>,
        manner: Manner,
    ) {
        let fields = fields.as_deref().unwrap_or_default();
        let (text, block);
        let all = match head.request.all {
            AllFields::Head(all) => {
                text = client_certificate::head_with(all, fields, told);
                AllFields::Head(&text)
            }
            AllFields::Block(all) => {
                block = client_certificate::fields_with(all, fields, told);
                AllFields::Block(&block)
            }
            AllFields::Unknown => AllFields::Unknown,
        };
        let request = Request { all, certificate: Some(told), ..*head.request };
        if let Some(streamed) = self.streamed() {
            streamed.begin(&RequestHead { request: &request, ..*head }, caller, manner);
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
        let waited_ns = streamed.reply.take_waited();
        if waited_ns > 0
            && let Some(advised) = &self.record.advised
        {
            advised.waited(waited_ns);
        }
        if !is_taken {
            return Ok(Went::Nowhere);
        }
        self.release();
        if self.give_interims() {
            return Ok(Went::On);
        }
        self.begin_reply(clock);
        let Self { response, source: Source::Application(by), status, .. } = self else { return Ok(Went::Nowhere) };
        if *status != 0 {
            by.streamed.move_on(&mut response.head);
        }
        let has_some = !response.head.is_empty() || by.streamed.is_over() || !by.streamed.reply.interims.is_empty();
        Ok(if has_some { Went::On } else { Went::Nowhere })
    }

    /// Makes room for the next piece in the place of one that was sent.
    fn release(&mut self) {
        let released_bytes = std::mem::take(&mut self.response.offset);
        self.response.head.clear();
        if let Some(streamed) = self.streamed() {
            streamed.released_bytes += released_bytes;
        }
        if self.is_tunnel() {
            // A tunnel mostly waits, and thousands of them keep no memory meanwhile.
            self.response.head = Vec::new();
        }
    }

    /// Writes interim responses, which go out before the head; whether there were any. A client of HTTP/1.0 gets none
    /// (RFC 9110 section 15.2).
    fn give_interims(&mut self) -> bool {
        let Some(streamed) = self.streamed() else { return false };
        if streamed.reply.interims.is_empty() || streamed.manner.minor >= 2 {
            return false;
        }
        let interims = std::mem::take(&mut streamed.reply.interims);
        if streamed.manner.minor == 0 {
            return false;
        }
        let out = &mut self.response.head;
        interims.iter().for_each(|(status, fields)| head::interim(out, *status, fields));
        let bytes = out.len() as u64;
        if let Some(streamed) = self.streamed() {
            streamed.framing_bytes += bytes;
        }
        true
    }

    /// Takes the interim responses for a protocol that has frames for them, each as a head.
    #[cold]
    pub(crate) fn take_interims(&mut self) -> Vec<Vec<u8>> {
        let Some(streamed) = self.streamed().filter(|streamed| !streamed.reply.interims.is_empty()) else {
            return Vec::new();
        };
        let head = |(status, fields): (u16, Vec<u8>)| {
            let mut head = Vec::new();
            head::interim(&mut head, status, &fields);
            head
        };
        std::mem::take(&mut streamed.reply.interims).into_iter().map(head).collect()
    }

    /// Writes the head of an application's response, if it has come.
    fn begin_reply(&mut self, clock: &Clock) {
        let Some(streamed) = self.streamed() else { return };
        let Some(reply) = streamed.reply.head.take() else { return };
        let mut text = [0; LENGTH_LINE_BYTES_MAX];
        let mut framing: &[u8] = b"";
        let has_content = !matches!(reply.status, 204 | 304);
        // What is whole before its head has gone needs no chunks.
        let known = (reply.of == HeadOf::Relayed && streamed.manner.minor < 2).then(|| streamed.reply.whole_length());
        let length = reply.length.or(known.flatten());
        if reply.of == HeadOf::Switch {
            return self.switch(&reply);
        }
        streamed.frames = match length {
            // A length that the client is told is one that it can count on.
            Some(length) if has_content => {
                framing = length_line(length, &mut text);
                Frames::Outside
            }
            _ if !has_content || streamed.manner.minor >= 2 => Frames::Outside,
            _ if streamed.manner.minor == 1 => {
                framing = b"Transfer-Encoding: chunked\r\n";
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
        let (out, fields) = (&mut self.response.head, [&*reply.fields, framing]);
        let before = out.len();
        match reply.of {
            HeadOf::Relayed => head::relayed(out, reply.status, &fields, clock, persistence),
            HeadOf::Response | HeadOf::Switch => head::other(out, reply.status, &fields, clock, persistence),
        }
        self.head_bytes = (self.response.head.len() - before) as u64;
        self.know_status();
        if let Some(finish) = finish {
            finish(self);
        }
    }

    /// Writes the head behind which the connection is a tunnel. Over HTTP/2 and HTTP/3 a status of 200 says that
    /// (RFC 8441 section 5).
    #[cold]
    fn switch(&mut self, reply: &ReplyHead) {
        let Some(streamed) = self.streamed() else { return };
        let (is_old, finish) = (streamed.manner.minor < 2, self.take_finish());
        drop(finish);
        let Some(streamed) = self.streamed() else { return };
        streamed.manner.persistence = head::Persistence::Closes;
        streamed.frames = Frames::Tunnel;
        if is_old {
            streamed.body.reopen();
        }
        self.status = if is_old { reply.status } else { 200 };
        let of_connection: &[u8] = if is_old { b"Connection: upgrade\r\n" } else { b"" };
        head::switch(&mut self.response.head, self.status, &[of_connection, &reply.fields]);
        self.head_bytes = self.response.head.len() as u64;
        self.know_status();
    }

    /// Answers in place of an application that gives up, or breaks its response off.
    fn fail(&mut self, why: GivenUp, is_taken: bool, clock: &Clock) -> io::Result<Went> {
        let has_begun = self.status != 0 || !is_taken;
        let Some(streamed) = self.streamed() else { return Ok(Went::Nowhere) };
        streamed.give_up();
        if has_begun {
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        let status = match why {
            GivenUp::Aborted => 502,
            GivenUp::Late => 504,
            GivenUp::Refused(status) => status,
        };
        self.say(status, clock);
        Ok(Went::On)
    }

    /// Whether what follows is passed on without framing, in both directions.
    pub(crate) fn is_tunnel(&self) -> bool {
        matches!(&self.source, Source::Application(by) if by.streamed.frames == Frames::Tunnel)
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
        // Clients that are refused together are not to come again together.
        let again = format!("Retry-After: {}\r\nCache-Control: no-store\r\n", 1 + clock.now_ms % 4);
        let fields = if status == 503 { again.as_bytes() } else { b"Cache-Control: no-store\r\n" };
        let extra = Extra { fields, head_only: streamed.reply.is_bodiless };
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_of_a_length_is_what_a_formatter_writes() {
        for length in [0, 9, 10, 1024, u64::MAX] {
            let mut text = [0; LENGTH_LINE_BYTES_MAX];
            assert_eq!(length_line(length, &mut text), format!("Content-Length: {length}\r\n").as_bytes());
        }
    }
}
