//! A request on a connection of HTTP/2 that it shares with others.

use super::{Answer, Relay, Sent, Stage, Taking};
use crate::exchange::reply::Reply;
use crate::exchange::request_body::RequestBody;
use crate::upstream::http1::chunks::is_value;
use crate::upstream::http1::names::may_trail;
use crate::upstream::http2::connection::Asked;
use crate::upstream::http2::request;
use crate::upstream::http2::stream::Expects;
use crate::upstream::links::Waiting;
use crate::upstream::message::{BodyFraming, Garbled, Said};
use crate::upstream::settings::Speaks;
use crate::upstream::shared::{Joined, Shared, SharedStream};
use crate::upstream::trouble::Trouble;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use std::rc::Rc;

/// How often a request goes to the same server again that has not looked at it.
const AGAIN_MAX: u8 = 2;
/// Connections on which a request looks for a place, one after the other.
const LOOKS_MAX: u8 = 3;
/// What the accept of a WebSocket is made of beside its key (RFC 6455 section 4.2.2).
const WEBSOCKET: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

impl Relay {
    /// Begins on a connection that has a place, or waits for one that is being made.
    pub(super) fn find_shared(&mut self, server: usize) -> Result<(), Trouble> {
        for _ in 0..LOOKS_MAX {
            let shared = self.upstream.shared(server).map_err(Trouble::Connect)?;
            if self.join(shared, None, server)? {
                return Ok(());
            }
        }
        Err(Garbled::Refused("it has no place for a request on a new connection").into())
    }

    /// Begins on a connection; false if it has no place.
    fn join(&mut self, shared: Rc<Shared>, waiting: Option<Waiting>, server: usize) -> Result<bool, Trouble> {
        let asked = Asked {
            head: &self.out,
            is_secure: self.upstream.common.rules.servers[server].tls_name.is_some(),
            has_body: self.framing != BodyFraming::None,
            expects: self.expects(),
            user: self.address,
        };
        let is_tunnel = matches!(asked.expects, Expects::Tunnel(_));
        let has_body = asked.has_body || is_tunnel;
        let connect_ms = self.until(self.upstream.common.rules.timeouts.connect);
        match shared.join(asked, is_tunnel) {
            Joined::Stream(stream) => {
                self.upstream.note_choice(server, false);
                let until_ms = self.until(self.upstream.common.rules.timeouts.send);
                let waiting = self.upstream.links.wait(self.address, until_ms);
                // It counts as sent, though it may wait for the socket.
                self.sent = self.out.len();
                if !has_body {
                    self.request = Sent::Written;
                }
                self.stage = Stage::OnStream { stream, waiting, since_ms: self.upstream.links.now_ms() };
            }
            Joined::Waiting => {
                let waiting = waiting.unwrap_or_else(|| self.upstream.links.wait(self.address, connect_ms));
                self.stage = Stage::Joining { shared, waiting, server };
            }
            Joined::Http1(link) => {
                self.upstream.note_choice(server, true);
                match link {
                    Some(link) => {
                        link.set_user(Some(self.address));
                        self.begin_there(link, server, false);
                    }
                    None => return Ok(false),
                }
            }
            Joined::Full => return Ok(false),
            Joined::NoTunnels if self.upstream.common.rules.speaks == Speaks::Negotiated => {
                self.connect_alone(server, connect_ms)?;
            }
            Joined::NoTunnels => return Err(Trouble::NoTunnels),
            Joined::Failed(trouble) => return Err(trouble),
        }
        Ok(true)
    }

    /// What the response is for.
    fn expects(&self) -> Expects {
        if self.out.starts_with(b"HEAD ") {
            return Expects::HeadOnly;
        }
        let Some(protocol) = request::value_of(&self.out, b"upgrade") else { return Expects::Response };
        if self.protocol.is_extended() {
            return Expects::Tunnel(Vec::new());
        }
        let mut lines = [b"Upgrade: ", protocol, b"\r\n"].concat();
        if let Some(key) = request::value_of(&self.out, b"sec-websocket-key") {
            let digest = ring::digest::digest(&ring::digest::SHA1_FOR_LEGACY_USE_ONLY, &[key, WEBSOCKET].concat());
            lines.extend_from_slice(format!("Sec-WebSocket-Accept: {}\r\n", STANDARD.encode(digest)).as_bytes());
        }
        Expects::Tunnel(lines)
    }

    /// Goes on with a request that waits for its connection.
    pub(super) fn step_joining(
        &mut self,
        shared: Rc<Shared>,
        waiting: Waiting,
        server: usize,
    ) -> Result<bool, Trouble> {
        if waiting.is_due() {
            return Err(Trouble::ConnectLate);
        }
        if !self.join(shared, Some(waiting), server)? {
            self.find_shared(server)?;
        }
        Ok(!matches!(self.stage, Stage::Joining { .. }))
    }

    /// Goes on with a request on its stream.
    pub(super) fn step_stream(
        &mut self,
        stream: SharedStream,
        waiting: Waiting,
        since_ms: u64,
        body: &mut RequestBody,
        reply: &mut Reply,
    ) -> Result<bool, Trouble> {
        match self.exchange_on(&stream, &waiting, body, reply) {
            Ok(()) if self.answer == Answer::Whole => {
                drop(stream);
                (self.attempt, self.permit) = (None, None);
                self.hand_over(reply)
            }
            Ok(()) => {
                stream.flush();
                self.stage = Stage::OnStream { stream, waiting, since_ms };
                Ok(false)
            }
            Err(trouble) => {
                if matches!(trouble, Trouble::HeadLate | Trouble::SendLate) {
                    stream.shared().suspect(since_ms);
                }
                let is_stale = stream.is_kept() && matches!(trouble, Trouble::Closed | Trouble::Broken(_));
                let is_unseen = matches!(trouble, Trouble::Garbled(Garbled::Refused(_)));
                drop(stream);
                let is_held = self.request == Sent::Head || self.framing == BodyFraming::None;
                if self.again < AGAIN_MAX && ((is_stale && self.may_repeat()) || (is_unseen && is_held)) {
                    self.again += 1;
                    self.request = Sent::Head;
                    (self.sent, self.stage) = (0, Stage::Placed);
                    return Ok(true);
                }
                Err(trouble)
            }
        }
    }

    fn exchange_on(
        &mut self,
        stream: &SharedStream,
        waiting: &Waiting,
        body: &mut RequestBody,
        reply: &mut Reply,
    ) -> Result<(), Trouble> {
        if self.answer == Answer::Tunnel {
            return self.tunnel_on(stream, waiting, body, reply);
        }
        let (interims, mut has_sent, mut has_received) = (self.interims, false, false);
        if self.framing != BodyFraming::None {
            has_sent = self.send_on(stream, body);
        }
        let is_held_back = !body.bytes().is_empty();
        while self.receive_on(stream, reply)? {
            has_received = true;
        }
        match self.answer {
            Answer::Whole => Ok(()),
            Answer::Tunnel => {
                // The client has its side open again.
                self.request = Sent::Body;
                waiting.set_deadline(self.until(self.upstream.common.rules.timeouts.tunnel));
                Ok(())
            }
            Answer::Awaited | Answer::Begun => {
                self.watch(waiting, !is_held_back, has_sent || self.interims > interims, reply)
            }
            Answer::Body => self.watch(waiting, !is_held_back, has_sent || has_received, reply),
        }
    }

    /// Sends as much of the body as there is room for; whether that was anything.
    fn send_on(&mut self, stream: &SharedStream, body: &mut RequestBody) -> bool {
        let mut has_moved = false;
        while !body.bytes().is_empty() {
            let sent = stream.send(body.bytes());
            if sent == 0 {
                break;
            }
            body.take(sent);
            (self.request, has_moved) = (Sent::Body, true);
            // What the socket takes makes room for more.
            stream.flush();
        }
        if body.is_ended() && self.request != Sent::Written {
            let trailers = body.trailers().filter(|(name, value)| may_trail(name.as_bytes()) && is_value(value));
            stream.end(trailers);
            (self.request, has_moved) = (Sent::Written, true);
        }
        has_moved
    }

    /// Takes what has come, as far as the client takes it; whether that was anything.
    fn receive_on(&mut self, stream: &SharedStream, reply: &mut Reply) -> Result<bool, Trouble> {
        let room = match self.answer {
            Answer::Whole | Answer::Tunnel => return Ok(false),
            Answer::Awaited | Answer::Begun if reply.is_blocked() => return Ok(false),
            Answer::Awaited | Answer::Begun => 0,
            Answer::Body => reply.relayed_room(),
        };
        let may_retry = self.retries_statuses();
        let Self { answer, interims, upstream, attempt, key, is_secure, instead, .. } = &mut *self;
        let by = (*key, *is_secure);
        let mut to = Taking::new((answer, interims, instead), reply, (upstream, attempt, by), (may_retry, false, None));
        let taken = stream.take(room, &mut |said| to.take(said));
        let is_begun = matches!(taken, Ok(true)) && *to.answer == Answer::Awaited;
        if is_begun {
            *to.answer = Answer::Begun;
        }
        to.finish(false)?;
        taken
    }

    /// Passes bytes on in both directions.
    fn tunnel_on(
        &mut self,
        stream: &SharedStream,
        waiting: &Waiting,
        body: &mut RequestBody,
        reply: &mut Reply,
    ) -> Result<(), Trouble> {
        if !reply.has_given_head() {
            return Ok(());
        }
        let mut has_moved = false;
        while !body.bytes().is_empty() {
            let sent = stream.send(body.bytes());
            if sent == 0 {
                break;
            }
            body.take(sent);
            has_moved = true;
            stream.flush();
        }
        if body.is_ended() && self.request != Sent::Written {
            self.request = Sent::Written;
            stream.end(std::iter::empty());
        }
        let mut is_ended = false;
        loop {
            let room = reply.room();
            let mut give = |said: Said<'_>| match said {
                Said::Body(content) => drop(reply.write(content)),
                Said::End => is_ended = true,
                _ => {}
            };
            if room == 0 || !stream.take(room, &mut give)? {
                break;
            }
            has_moved = true;
            if is_ended {
                reply.end_relayed();
                self.answer = Answer::Whole;
                return Ok(());
            }
        }
        if has_moved || waiting.has_no_deadline() {
            waiting.set_deadline(self.until(self.upstream.common.rules.timeouts.tunnel));
        } else if waiting.is_due() {
            return Err(Trouble::BodyLate);
        }
        Ok(())
    }
}
