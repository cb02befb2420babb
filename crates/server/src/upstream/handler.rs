//! One request on its way to an upstream and back: it waits for a place, takes a connection, sends, receives, and gives
//! the connection back.

use super::attempt::Attempt;
use super::balance::Key;
use super::common::Common;
use super::endpoints::Endpoints;
use super::gate::{Entry, GateBounds, Permit, Ticket};
use super::group::{Opening, Upstream};
use super::handover::{self, FileBody, Given, Handing, Inside};
use super::links::{Link, RECEIVED_BYTES_MAX, Waiting};
use super::message::{BodyFraming, Garbled, Instead, Outgoing, Said};
use super::owned_head::OwnedHead;
use super::protocol::{Known, Protocol, Rendered, Unsendable};
use super::proxy_header;
use super::retry::{self, Body, Came, Failed, is_idempotent};
use super::secure::Offer;
use super::settings::Speaks;
use super::shared::{Shared, SharedStream};
use super::trouble::Trouble;
use crate::counters::php_watch::{Underway, id_text};
use crate::counters::upstream_counts::UpstreamCounts;
use crate::exchange::application::{Aborted, Caller, Handler, RequestHead, Wake};
use crate::exchange::reply::Reply;
use crate::exchange::request_body::{HELD_BYTES_MAX, RequestBody};
use crate::exchange::wakes::Address;
use crate::telemetry::watching;
use std::fmt;
use std::io::{self, IoSlice};
use std::rc::Rc;
use std::time::Duration;

mod stream;
mod told;

/// Bytes of a body that are framed at once, and held beside those that the client may send.
const FRAMED_BYTES_MAX: usize = 16 << 10;
/// How long a Unix socket is not asked again whose queue was full.
const REFUSED_FOR: Duration = Duration::from_millis(50);
/// Interim responses that an upstream may send before its response.
const INTERIMS_MAX: u8 = 8;

/// A request on its way.
pub(crate) struct Relay {
    upstream: Rc<Upstream>,
    address: Address,
    stage: Stage,
    permit: Option<Permit>,
    protocol: Protocol,
    framing: BodyFraming,
    /// What goes out: at first the head, which stays whole until bytes of the body follow, as it may go out again.
    out: Vec<u8>,
    /// Bytes of these that were sent.
    sent: usize,
    request: Sent,
    outlet: Outlet,
    /// Servers that were tried before, by their bits.
    tried: u64,
    tries: u32,
    key: Key,
    attempt: Option<Attempt>,
    is_secure: bool,
    choice: Choice,
    interims: u8,
    is_idempotent: bool,
    answer: Answer,
    /// How often it went to the same server again, as that had not looked at it.
    again: u8,
    /// What its connection begins with: a header of the PROXY protocol.
    header: Box<[u8]>,
    /// Of a request whose body comes first.
    wake: Option<Wake>,
    /// A request of a script that this server runs.
    underway: Option<Underway>,
    /// A request that may be handed over.
    handing: Option<Box<Handing>>,
    /// What answers in place of the upstream, once that has ended its response.
    instead: Option<Instead>,
}

/// A request that no upstream is asked.
#[derive(Debug)]
struct Refused(Unsendable);

impl Handler for Refused {
    fn go_on(&mut self, _body: &mut RequestBody, reply: &mut Reply) -> Result<(), Aborted> {
        match self.0.0 {
            204 => {
                reply.begin(204, &[], None).map_err(|_| Aborted)?;
                reply.end(&[]).map_err(|_| Aborted)
            }
            status => {
                reply.refuse(status);
                Err(Aborted)
            }
        }
    }
}

/// How far the request is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sent {
    /// None of its body was taken: it can be sent again.
    Head,
    /// Some of its body was taken.
    Body,
    /// All of it was written, and perhaps not sent.
    Written,
}

/// Whether the upstream takes the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outlet {
    Open,
    /// Nothing more of it. It may have answered before.
    Broken,
}

/// Which connections with a server will do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Choice {
    Any,
    /// One that was kept has failed.
    New,
}

/// How far the response is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    /// Nothing has come.
    Awaited,
    /// Some of its head, or an interim response.
    Begun,
    /// Its head.
    Body,
    /// The connection is a tunnel.
    Tunnel,
    /// All of it.
    Whole,
}

/// Where the request is.
enum Stage {
    /// Its body comes first, as its length has to be said.
    Holding(OwnedHead),
    /// It needs a place, and there is none.
    New,
    /// It would have to wait for a place for too long.
    Shed,
    /// It waits for a place.
    Queued(Ticket, Waiting),
    /// It has a place and needs a connection.
    Placed,
    /// The server has no room in its queue of connections, and no event tells when it has: it is asked again, until
    /// this time in the loop's milliseconds.
    Refused(Waiting, u64),
    /// Its connection is being made.
    Connecting(Link, usize),
    /// It is with a server; the connection is new or was kept.
    There { link: Link, server: usize, is_kept: bool },
    /// It waits for a connection of HTTP/2 that is being made, or whose server has not said what it allows.
    Joining { shared: Rc<Shared>, waiting: Waiting, server: usize },
    /// It is on a connection of HTTP/2, since this time in the loop's milliseconds.
    OnStream { stream: SharedStream, waiting: Waiting, since_ms: u64 },
    /// A file answers in its place.
    Giving(Box<FileBody>),
    /// It is over.
    Over,
}

impl fmt::Debug for Relay {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Relay")
            .field("answer", &self.answer)
            .field("tries", &self.tries)
            .finish_non_exhaustive()
    }
}

impl Relay {
    /// Begins with a request, of which nothing is sent yet.
    pub(super) fn begin(
        upstream: Rc<Upstream>,
        (head, target): (&RequestHead<'_>, &str),
        caller: &Caller<'_>,
        (is_whole, inside): (bool, Option<Rc<dyn Inside>>),
    ) -> Box<dyn Handler> {
        let mut out = upstream.links.take_memory();
        let is_gateway = upstream.common.gateway.is_some();
        let header = upstream.common.rules.proxy_header;
        let asks = is_gateway || header.is_some();
        let endpoints = if asks { Endpoints::of(head) } else { Endpoints::default() };
        let Endpoints { client_port, local } = endpoints;
        let watch = upstream.links.context.watch(&upstream.common.rules);
        let underway = watch.map(|watch| watch.begin(head.method(), head.target(), target));
        let (client, user, request_id) = (head.client(), head.user, underway.as_ref().map(Underway::id));
        let outgoing = Outgoing { head: *head, target, client, client_port, local, user, request_id };
        upstream.scripts.set_now(upstream.links.now_ms());
        let known = if is_whole { Known::Nothing } else { Known::Head };
        let Rendered { protocol, framing } = match Protocol::render(&outgoing, &upstream, known, &mut out) {
            Ok(rendered) => rendered,
            Err(why) => return Box::new(Refused(why)),
        };
        let header = header.map(|version| proxy_header::header(version, Some((head.client(), endpoints))));
        let kept = || OwnedHead::known(head, target, (endpoints, request_id));
        let handing = inside.map(|inside| Box::new(Handing { inside, head: kept(), wake: caller.wake(), count: 0 }));
        let mut relay = Self {
            address: caller.address,
            stage: Stage::New,
            permit: None,
            protocol,
            framing,
            out,
            sent: 0,
            request: Sent::Head,
            outlet: Outlet::Open,
            tried: 0,
            tries: 1,
            key: upstream.key(head, target),
            attempt: None,
            is_secure: head.is_secure,
            choice: Choice::Any,
            interims: 0,
            is_idempotent: is_idempotent(head.method()),
            answer: Answer::Awaited,
            again: 0,
            header: header.unwrap_or_default().into_boxed_slice(),
            wake: None,
            underway,
            handing,
            instead: None,
            upstream,
        };
        if framing == BodyFraming::Unknown {
            // The body may come from any turn on, and the handler is called then.
            (relay.stage, relay.wake) = (Stage::Holding(kept()), Some(caller.wake()));
        } else {
            relay.enter(|| caller.wake());
        }
        Box::new(relay)
    }

    /// Takes a place, or waits for one.
    fn enter(&mut self, wake: impl FnOnce() -> Wake) {
        let common = &self.upstream.common;
        UpstreamCounts::add(&common.counts().requests);
        if common.rules.servers.len() > 1 {
            common.budget.count(self.upstream.links.now_ms());
        }
        let bounds = GateBounds {
            places_max: common.places_max(),
            queue_max: u32::try_from(common.rules.pool.queue_max).unwrap_or(u32::MAX),
            wait_max_ns: common.rules.pool.wait_max_ns(),
        };
        match common.gate.enter(bounds, wake) {
            Entry::Open(permit) => (self.permit, self.stage) = (Some(permit), Stage::Placed),
            Entry::Queued(ticket) => {
                let until_ms = self.until(common.rules.timeouts.queue);
                self.stage = Stage::Queued(ticket, self.upstream.links.wait(self.address, until_ms));
            }
            // Its first turn says so.
            Entry::Full => self.stage = Stage::New,
            Entry::Late => self.stage = Stage::Shed,
        }
    }

    fn until(&self, time: Duration) -> u64 {
        self.upstream.links.now_ms().saturating_add(u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
    }

    /// Takes a connection that is kept, or begins to make one.
    fn connect(&mut self, until_ms: u64) -> Result<(), Trouble> {
        let attempt = self.upstream.attempt(self.key, self.tried);
        let server = attempt.server();
        self.attempt = Some(attempt);
        if self.choice == Choice::Any
            && let Some(link) = self.upstream.take_kept(server, self.address)
        {
            self.begin_there(link, server, true);
            return Ok(());
        }
        if matches!(self.upstream.common.rules.speaks, Speaks::Http2 | Speaks::Negotiated) {
            return self.find_shared(server);
        }
        self.connect_alone(server, until_ms)
    }

    /// Begins to make a connection that no other request is on.
    fn connect_alone(&mut self, server: usize, until_ms: u64) -> Result<(), Trouble> {
        let opening = Opening { user: self.address, offer: Offer::Http1, header: &self.header };
        let connecting = self.upstream.connect(server, opening);
        if connecting.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock) && !self.has_another() {
            let again_ms = self.until(REFUSED_FOR);
            self.stage = Stage::Refused(self.upstream.links.wait(self.address, again_ms), until_ms);
            return Ok(());
        }
        let (link, is_connected) = connecting.map_err(Trouble::Connect)?;
        if is_connected {
            self.begin_there(link, server, false);
        } else {
            link.set_deadline(self.until(self.upstream.common.rules.timeouts.connect));
            self.stage = Stage::Connecting(link, server);
        }
        Ok(())
    }

    /// The same; false = there is something to wait for.
    fn connect_until(&mut self, until_ms: u64) -> Result<bool, Trouble> {
        self.connect(until_ms).map(|()| !matches!(self.stage, Stage::Refused(..) | Stage::Joining { .. }))
    }

    fn begin_there(&mut self, link: Link, server: usize, is_kept: bool) {
        link.set_deadline(self.until(self.upstream.common.rules.timeouts.send));
        (self.sent, self.outlet) = (0, Outlet::Open);
        self.stage = Stage::There { link, server, is_kept };
    }

    /// Goes on as far as is possible; false = something has to be waited for.
    fn step(&mut self, body: &mut RequestBody, reply: &mut Reply) -> Result<bool, Trouble> {
        match std::mem::replace(&mut self.stage, Stage::Over) {
            Stage::New => Err(Trouble::Full),
            Stage::Shed => Err(Trouble::Shed),
            Stage::Holding(head) => self.hold(head, body),
            Stage::Queued(ticket, waiting) => match ticket.redeem() {
                Ok(permit) => {
                    reply.has_waited(permit.waited_ns());
                    (self.permit, self.stage) = (Some(permit), Stage::Placed);
                    Ok(true)
                }
                Err(_) if waiting.is_due() => Err(Trouble::QueueLate),
                Err(ticket) => {
                    self.stage = Stage::Queued(ticket, waiting);
                    Ok(false)
                }
            },
            Stage::Placed => self.connect_until(self.until(self.upstream.common.rules.timeouts.connect)),
            Stage::Refused(waiting, until_ms) if !waiting.is_due() => {
                self.stage = Stage::Refused(waiting, until_ms);
                Ok(false)
            }
            Stage::Refused(_, until_ms) if until_ms <= self.upstream.links.now_ms() => Err(Trouble::ConnectLate),
            Stage::Refused(_, until_ms) => self.connect_until(until_ms),
            Stage::Joining { shared, waiting, server } => self.step_joining(shared, waiting, server),
            Stage::OnStream { stream, waiting, since_ms } => self.step_stream(stream, waiting, since_ms, body, reply),
            Stage::Connecting(mut link, server) => match link.opened() {
                Ok(Some(_)) => {
                    self.begin_there(link, server, false);
                    Ok(true)
                }
                Ok(None) if link.is_due() => {
                    self.upstream.close(link);
                    Err(Trouble::ConnectLate)
                }
                Ok(None) => {
                    self.stage = Stage::Connecting(link, server);
                    Ok(false)
                }
                Err(error) => {
                    self.upstream.close(link);
                    Err(Trouble::Connect(error))
                }
            },
            Stage::There { mut link, server, is_kept } => match self.exchange(&mut link, body, reply) {
                Ok(()) if self.answer == Answer::Whole => {
                    self.finish(link, server);
                    self.hand_over(reply)
                }
                Ok(()) => {
                    self.stage = Stage::There { link, server, is_kept };
                    Ok(false)
                }
                Err(trouble) => {
                    self.upstream.close(link);
                    // A connection that was kept may have been closed by its server at the same moment.
                    let is_stale = is_kept && matches!(trouble, Trouble::Closed | Trouble::Broken(_));
                    if is_stale && self.may_repeat() {
                        (self.choice, self.stage) = (Choice::New, Stage::Placed);
                        return Ok(true);
                    }
                    Err(trouble)
                }
            },
            Stage::Giving(file) => self.give(file, reply),
            Stage::Over => Ok(false),
        }
    }

    /// Has what the upstream has named answer in its place; false where it has named nothing.
    fn hand_over(&mut self, reply: &mut Reply) -> Result<bool, Trouble> {
        let (Some(instead), Some(mut handing)) = (self.instead.take(), self.handing.take()) else { return Ok(false) };
        let named = format!("{instead:?}");
        match handing.answer(instead, &self.upstream.common, reply) {
            Given::File(file) => self.stage = Stage::Giving(file),
            Given::Script(target) => {
                handing.head.get_in_place(&target);
                self.ask_again(handing)?;
            }
            Given::Redirect(path) => {
                reply.relay(302, [b"Location: ", path.as_slice(), b"\r\n"].concat(), Some(0));
                reply.end_relayed();
            }
            Given::Refused(status) => {
                let name = &self.upstream.common.rules.name;
                self.upstream
                    .links
                    .context
                    .notices
                    .tell(format!("upstream {name} hands over to what is {status}: {named}"));
                return Err(Trouble::Unsendable(status));
            }
        }
        Ok(true)
    }

    /// Asks the upstream for another script in place of the one that has handed the request over.
    fn ask_again(&mut self, handing: Box<Handing>) -> Result<(), Trouble> {
        let Self { upstream, out, .. } = &mut *self;
        out.clear();
        let render = |outgoing: &Outgoing<'_>| Protocol::render(outgoing, upstream, Known::Nothing, out);
        let rendered = handing.head.with(render).unwrap_or(Err(Unsendable(400)));
        let Rendered { protocol, framing } = rendered.map_err(|Unsendable(status)| Trouble::Unsendable(status))?;
        (self.protocol, self.framing, self.request, self.answer) = (protocol, framing, Sent::Head, Answer::Awaited);
        (self.sent, self.tried, self.tries, self.interims) = (0, 0, 1, 0);
        (self.choice, self.is_idempotent) = (Choice::Any, true);
        let wake = handing.wake.clone();
        self.handing = Some(handing);
        self.enter(|| wake);
        Ok(())
    }

    /// Sends as much of a file as the client takes.
    fn give(&mut self, mut file: Box<FileBody>, reply: &mut Reply) -> Result<bool, Trouble> {
        if !file.give(reply).map_err(Trouble::Broken)? {
            self.stage = Stage::Giving(file);
        }
        Ok(false)
    }

    /// Goes on with a request whose body has to be there before it is sent.
    fn hold(&mut self, head: OwnedHead, body: &RequestBody) -> Result<bool, Trouble> {
        if !body.is_whole() {
            if body.room() == 0 {
                return Err(Trouble::NoLength);
            }
            self.stage = Stage::Holding(head);
            return Ok(false);
        }
        let Self { upstream, out, .. } = &mut *self;
        let known = Known::Held(body.bytes().len() as u64);
        out.clear();
        let render = |outgoing: &Outgoing<'_>| Protocol::render(outgoing, upstream, known, out);
        let rendered = head.with(render).unwrap_or(Err(Unsendable(400)));
        let Rendered { protocol, framing } = rendered.map_err(|Unsendable(status)| Trouble::Unsendable(status))?;
        (self.protocol, self.framing) = (protocol, framing);
        if let Some(wake) = self.wake.take() {
            self.enter(|| wake);
        }
        Ok(true)
    }

    /// Whether the request may be sent to a server that may have got it already.
    fn may_repeat(&self) -> bool {
        self.answer == Answer::Awaited
            && (self.sent == 0 || self.is_idempotent)
            && (self.request == Sent::Head || self.framing == BodyFraming::None)
    }

    /// The response is whole: the connection is for other requests.
    fn finish(&mut self, link: Link, server: usize) {
        if let Some(status) = self.protocol.exit_status() {
            let id = self.underway.as_ref().map(Underway::id);
            tell_log(format!("a program ended with status {status}").as_bytes(), &self.upstream, id);
        }
        let is_whole = self.is_sent() && self.outlet == Outlet::Open;
        if is_whole && self.protocol.keeps() && self.header.is_empty() && link.is_read_out() {
            self.upstream.keep(server, link);
        } else {
            self.upstream.close(link);
        }
        (self.attempt, self.permit) = (None, None);
    }

    /// Whether all of the request has gone out.
    fn is_sent(&self) -> bool {
        self.request == Sent::Written && self.sent == self.out.len()
    }

    fn exchange(&mut self, link: &mut Link, body: &mut RequestBody, reply: &mut Reply) -> Result<(), Trouble> {
        if self.answer == Answer::Tunnel {
            return self.tunnel(link, body, reply);
        }
        let interims = self.interims;
        if link.take_refused() {
            (self.sent, self.outlet) = (0, Outlet::Broken);
        } else if self.outlet == Outlet::Open && link.flush().is_err() {
            self.outlet = Outlet::Broken;
            link.look();
        }
        let has_sent = self.outlet == Outlet::Open
            && self.send(link, body).unwrap_or_else(|_| {
                // It may have answered before it closed its side; otherwise its end is there to be read.
                self.outlet = Outlet::Broken;
                link.look();
                true
            });
        let has_received = self.receive(link, reply)?;
        if has_received && matches!(self.answer, Answer::Awaited | Answer::Begun | Answer::Body) {
            link.await_more();
        }
        match self.answer {
            Answer::Whole => Ok(()),
            Answer::Tunnel => self.begin_tunnel(link),
            Answer::Awaited | Answer::Begun => {
                self.watch(link.waiting(), link.has_room(), has_sent || self.interims > interims, reply)
            }
            Answer::Body => self.watch(link.waiting(), link.has_room(), has_sent || has_received, reply),
        }
    }

    /// The upstream speaks another protocol from here on. The first bytes pass once the client knows.
    fn begin_tunnel(&mut self, link: &Link) -> Result<(), Trouble> {
        if !self.is_sent() {
            return Err(Garbled::Head("it changes protocols before it has the whole request").into());
        }
        // The client has its side open again.
        self.request = Sent::Body;
        // The head is not needed any more, and a tunnel may be there for long.
        (self.out, self.sent) = (Vec::new(), 0);
        link.set_deadline(self.until(self.upstream.common.rules.timeouts.tunnel));
        Ok(())
    }

    /// Sends as much of the request as the upstream takes; whether that was anything.
    fn send(&mut self, link: &mut Link, body: &mut RequestBody) -> io::Result<bool> {
        let mut has_moved = false;
        loop {
            let rest = &self.out[self.sent..];
            let content: &[u8] = if matches!(self.framing, BodyFraming::Length(_)) { body.bytes() } else { b"" };
            if rest.is_empty() && content.is_empty() {
                if !self.write_more(body) {
                    return Ok(has_moved);
                }
                continue;
            }
            let sent = match (rest.is_empty(), content.is_empty()) {
                (false, false) => link.send(&[IoSlice::new(rest), IoSlice::new(content)])?,
                (false, true) => link.send(&[IoSlice::new(rest)])?,
                (true, _) => link.send(&[IoSlice::new(content)])?,
            };
            if sent == 0 {
                return Ok(has_moved);
            }
            has_moved = true;
            let of_out = sent.min(self.out.len() - self.sent);
            self.sent += of_out;
            if sent > of_out {
                self.request = Sent::Body;
                body.take(sent - of_out);
            }
        }
    }

    /// Writes the next piece of a body behind what was sent; false = there is none for now.
    fn write_more(&mut self, body: &mut RequestBody) -> bool {
        if self.request == Sent::Written {
            return false;
        }
        if self.framing != BodyFraming::Framed {
            // What comes behind the head of an extended CONNECT is of the tunnel.
            if self.framing == BodyFraming::None || body.is_ended() {
                self.request = Sent::Written;
            }
            return false;
        }
        body.hold_at_most(HELD_BYTES_MAX - FRAMED_BYTES_MAX);
        let taken = body.bytes().len().min(FRAMED_BYTES_MAX);
        if taken == 0 && !body.is_ended() {
            return false;
        }
        self.out.clear();
        self.sent = 0;
        self.request = Sent::Body;
        if taken > 0 {
            self.protocol.write_body(&body.bytes()[..taken], &mut self.out);
            body.take(taken);
        }
        if body.is_ended() {
            self.protocol.end_body(body, &mut self.out);
            self.request = Sent::Written;
        }
        true
    }

    /// Receives what there is, as far as the client takes it; whether that was anything.
    fn receive(&mut self, link: &Link, reply: &mut Reply) -> Result<bool, Trouble> {
        let mut has_moved = false;
        while link.has_input() && self.answer != Answer::Whole && self.answer != Answer::Tunnel {
            let room = match self.answer {
                Answer::Awaited | Answer::Begun if reply.is_blocked() => 0,
                Answer::Awaited | Answer::Begun => RECEIVED_BYTES_MAX,
                // With room for more than is left of the body, all that there is was read once it ends.
                _ => reply.relayed_room(),
            };
            if room == 0 {
                break;
            }
            let may_retry = self.retries_statuses();
            let is_extended = self.protocol.is_extended();
            let id = self.underway.as_ref().map(Underway::id);
            let Self { protocol, answer, interims, upstream, attempt, key, is_secure, instead, .. } = &mut *self;
            let by = (*key, *is_secure);
            let to =
                Taking::new((answer, interims, instead), reply, (upstream, attempt, by), (may_retry, is_extended, id));
            let taken = link.receive(room, |bytes| take(bytes, protocol, to));
            match taken
                .map_err(|error| if *answer == Answer::Awaited { closed(error) } else { Trouble::Broken(error) })?
            {
                Some(taken) => taken?,
                None => break,
            }
            has_moved = true;
        }
        Ok(has_moved)
    }

    /// Sets the deadline of what is waited for now, or finds that it is over. What comes of a head does not make its time
    /// longer.
    fn watch(&self, waiting: &Waiting, has_room: bool, has_moved: bool, reply: &Reply) -> Result<(), Trouble> {
        let timeouts = &self.upstream.common.rules.timeouts;
        let is_sent = self.is_sent() || self.outlet == Outlet::Broken;
        let (time, late) = match self.answer {
            // The client has its own time, for its body and for what it takes.
            Answer::Awaited | Answer::Begun if !is_sent && has_room => (Duration::MAX, Trouble::SendLate),
            Answer::Awaited | Answer::Begun if !is_sent => (timeouts.send, Trouble::SendLate),
            Answer::Awaited | Answer::Begun => (timeouts.head, Trouble::HeadLate),
            _ if reply.room() == 0 => (Duration::MAX, Trouble::BodyLate),
            _ => (timeouts.body, Trouble::BodyLate),
        };
        if has_moved || waiting.has_no_deadline() || time == Duration::MAX {
            waiting.set_deadline(self.until(time));
        } else if waiting.is_due() {
            return Err(late);
        }
        Ok(())
    }

    /// Gives the upstream what the client has said through a tunnel; whether that was anything.
    fn send_through(&mut self, link: &mut Link, body: &mut RequestBody) -> bool {
        let mut has_moved = false;
        while !body.bytes().is_empty() {
            let sent = match self.outlet {
                Outlet::Open => link.send(&[IoSlice::new(body.bytes())]),
                Outlet::Broken => Ok(body.bytes().len()),
            };
            match sent {
                Ok(0) => break,
                Ok(sent) => body.take(sent),
                Err(_) => {
                    // What it has said before is there to be read.
                    self.outlet = Outlet::Broken;
                    link.look();
                }
            }
            has_moved = true;
        }
        if body.is_ended() && self.request != Sent::Written {
            self.request = Sent::Written;
            link.end_side();
        }
        has_moved
    }

    /// Passes bytes on in both directions.
    fn tunnel(&mut self, link: &mut Link, body: &mut RequestBody, reply: &mut Reply) -> Result<(), Trouble> {
        if !reply.has_given_head() {
            return Ok(());
        }
        link.flush().map_err(Trouble::Broken)?;
        let mut has_moved = self.send_through(link, body);
        while link.has_input() && reply.room() > 0 {
            let received = link.receive(reply.room(), |bytes| {
                reply.write(bytes);
                bytes.len()
            });
            match received.map_err(Trouble::Broken)? {
                Some(0) => {
                    reply.end_relayed();
                    self.answer = Answer::Whole;
                    return Ok(());
                }
                Some(_) => has_moved = true,
                None => break,
            }
        }
        if has_moved || link.has_no_deadline() {
            link.set_deadline(self.until(self.upstream.common.rules.timeouts.tunnel));
        } else if link.is_due() {
            return Err(Trouble::BodyLate);
        }
        Ok(())
    }

    /// Tells the operator what went wrong.
    #[cold]
    fn tell(&self, trouble: &Trouble) {
        let common = &self.upstream.common;
        tracing::warn!(upstream = %common.rules.name, %trouble, "a request to an upstream failed");
        // Which of the scripts of a pool it was says no other line.
        let script = self.underway.as_ref().filter(|_| common.rules.scripts.is_some());
        let of = script.and_then(Underway::request).map_or_else(String::new, |request| format!(" at {request}"));
        self.upstream.links.context.notices.tell(format!("upstream {}{of}: {trouble}", common.rules.name));
    }

    /// Whether the request may go to a server that was not tried yet.
    fn may_try_another(&self, trouble: &Trouble) -> bool {
        let Common { rules, budget, .. } = &*self.upstream.common;
        let came = match trouble {
            Trouble::Connect(_) | Trouble::ConnectLate | Trouble::Garbled(Garbled::Refused(_)) => Came::NotSent,
            Trouble::Answered(status) => Came::Answered(*status),
            _ if self.answer == Answer::Awaited && self.sent == 0 => Came::NotSent,
            _ if self.answer == Answer::Awaited => Came::Sent,
            _ => Came::PassedOn,
        };
        let is_held = self.request == Sent::Head || self.framing == BodyFraming::None;
        let body = if is_held { Body::Held } else { Body::Gone };
        // Only whether it is idempotent counts.
        let method = if self.is_idempotent { "GET" } else { "POST" };
        let failed = Failed { method, came, tries: self.tries, body };
        let is_left = (self.tried.count_ones() as usize) < rules.servers.len();
        is_left && retry::again(&rules.retries, &failed, budget, self.upstream.links.now_ms()).is_ok()
    }

    /// Whether a status of the rules has another server tried in place of passing the response on.
    fn retries_statuses(&self) -> bool {
        let rules = &self.upstream.common.rules;
        let is_held = self.request == Sent::Head || self.framing == BodyFraming::None;
        !rules.retries.statuses.is_empty()
            && self.is_idempotent
            && is_held
            && self.has_another()
            && self.tries < rules.retries.tries_max
    }

    /// Whether there are servers that were not tried, beside the one that is asked now.
    fn has_another(&self) -> bool {
        (self.tried.count_ones() as usize) + 1 < self.upstream.common.rules.servers.len()
    }

    /// Something went wrong: another server is tried, or the client gets an error.
    fn fail(&mut self, trouble: &Trouble, reply: &mut Reply) -> Result<(), Aborted> {
        let counts = self.upstream.common.counts();
        match trouble {
            Trouble::Unsendable(_) => {}
            Trouble::Full | Trouble::QueueLate | Trouble::Shed => UpstreamCounts::add(&counts.refused),
            _ => UpstreamCounts::add(&counts.failed),
        }
        if !matches!(trouble, Trouble::Unsendable(_)) {
            self.tell(trouble);
        }
        let attempt = self.attempt.take();
        watching::step(|| match &attempt {
            Some(attempt) => format!("attempt {} with {}: {trouble}", self.tries, self.place_of(attempt.server())),
            None => trouble.to_string(),
        });
        if let Some(mut attempt) = attempt {
            self.tried |= 1 << attempt.server();
            if trouble.is_of_server() {
                attempt.failed();
            }
            drop(attempt);
            if self.may_try_another(trouble) {
                UpstreamCounts::add(&self.upstream.common.counts().tried_again);
                self.tries += 1;
                self.protocol.repeat();
                (self.sent, self.answer) = (0, Answer::Awaited);
                (self.choice, self.stage) = (Choice::Any, Stage::Placed);
                return Ok(());
            }
        }
        self.permit = None;
        reply.refuse(trouble.status());
        Err(Aborted)
    }
}

/// Where what an upstream says goes.
struct Taking<'t> {
    answer: &'t mut Answer,
    interims: &'t mut u8,
    reply: &'t mut Reply,
    upstream: &'t Upstream,
    attempt: &'t mut Option<Attempt>,
    /// What has chosen the server, and whether the client's connection is encrypted.
    by: (Key, bool),
    /// Whether a status of the rules has another server tried.
    may_retry: bool,
    /// Whether the client asked for a tunnel by an extended CONNECT, and the upstream by HTTP/1.1.
    is_extended: bool,
    /// What is wrong with the response.
    trouble: Option<Garbled>,
    /// The status of a response that is not passed on.
    answered: Option<u16>,
    log: Vec<u8>,
    /// What answers in its place.
    instead: &'t mut Option<Instead>,
    /// The number of the request, where it has one.
    id: Option<u64>,
}

impl<'t> Taking<'t> {
    fn new(
        (answer, interims, instead): (&'t mut Answer, &'t mut u8, &'t mut Option<Instead>),
        reply: &'t mut Reply,
        (upstream, attempt, by): (&'t Upstream, &'t mut Option<Attempt>, (Key, bool)),
        (may_retry, is_extended, id): (bool, bool, Option<u64>),
    ) -> Self {
        let (trouble, answered, log) = (None, None, Vec::new());
        Self {
            answer,
            interims,
            reply,
            upstream,
            attempt,
            by,
            may_retry,
            is_extended,
            trouble,
            answered,
            log,
            instead,
            id,
        }
    }

    /// Gives on a part of a response.
    #[inline]
    fn take(&mut self, said: Said<'_>) {
        let accel = self.upstream.common.rules.accel;
        match handover::seen(said, accel) {
            Said::Interim { status, fields } => {
                *self.interims += 1;
                if *self.interims > INTERIMS_MAX {
                    self.trouble = Some(Garbled::Head("too many interim responses"));
                } else {
                    self.reply.interim(status, fields);
                }
            }
            Said::Head(head) if self.is_extended && (200..300).contains(&head.status) => {
                // The client would take it for a tunnel (RFC 8441 section 5).
                self.trouble = Some(Garbled::Head("it does not change the protocol, and refuses that with no error"));
            }
            Said::Head(head) if head.status == 101 => {
                self.reply.switch(head.fields);
                *self.answer = Answer::Tunnel;
            }
            Said::Head(head)
                if self.may_retry && self.upstream.common.rules.retries.statuses.contains(&head.status) =>
            {
                self.answered = Some(head.status);
            }
            Said::Head(mut head) => {
                if let Some(attempt) = self.attempt {
                    attempt.answered(head.status);
                    let (key, is_secure) = self.by;
                    attempt.keep_client(key, is_secure, &mut head.fields);
                }
                self.reply.relay(head.status, head.fields, head.length);
                *self.answer = Answer::Body;
            }
            Said::Body(_) | Said::Trailers(_) | Said::End if self.trouble.is_some() || self.answered.is_some() => {}
            Said::Body(_) | Said::Trailers(_) if self.instead.is_some() => {}
            Said::Body(content) => {
                // A script that says more than the length it gave is cut there; else there is room for all.
                self.reply.write(content);
            }
            Said::Trailers(lines) => self.reply.put_trailers(lines),
            Said::Log(text) => self.log.extend_from_slice(text),
            Said::Instead(what) if accel => *self.instead = Some(what),
            Said::Instead(_) => {
                self.trouble = Some(Garbled::Head("it hands the request over; accel = true would let it"));
            }
            Said::End => *self.answer = Answer::Whole,
        }
    }

    /// What there is to be told of what was given on; with `is_last` nothing more comes.
    fn finish(self, is_last: bool) -> Result<(), Trouble> {
        if !self.log.is_empty() {
            tell_log(&self.log, self.upstream, self.id);
        }
        if let Some(status) = self.answered {
            return Err(Trouble::Answered(status));
        }
        if let Some(trouble) = self.trouble {
            return Err(trouble.into());
        }
        let is_cut = match *self.answer {
            Answer::Whole if self.instead.is_some() => false,
            Answer::Whole => !self.reply.end_relayed(),
            _ => is_last,
        };
        if is_cut { Err(Garbled::Cut.into()) } else { Ok(()) }
    }
}

/// Reads bytes of a response and gives on what they are; none are the end of what the upstream sends.
fn take(bytes: &[u8], protocol: &mut Protocol, mut to: Taking<'_>) -> Result<(), Trouble> {
    if *to.answer == Answer::Awaited {
        if bytes.is_empty() {
            return Err(Trouble::Closed);
        }
        *to.answer = Answer::Begun;
    }
    if let Err(trouble) = protocol.take(bytes, &mut |said| to.take(said)) {
        // What a program has written to its log before it failed tells why.
        if !to.log.is_empty() {
            tell_log(&to.log, to.upstream, to.id);
        }
        return Err(trouble.into());
    }
    to.finish(bytes.is_empty())
}

/// Bytes of a line that a program writes to its log which are passed on.
const LOG_BYTES_MAX: usize = 1024;

/// Passes on what a program writes to its log.
#[cold]
fn tell_log(log: &[u8], upstream: &Upstream, id: Option<u64>) {
    let of = id.map_or_else(String::new, |id| format!(" (request {})", id_text(id)));
    let text = String::from_utf8_lossy(&log[..log.len().min(LOG_BYTES_MAX)]);
    for line in text.lines().map(str::trim_end).filter(|line| !line.is_empty()) {
        let line: String = line.chars().filter(|letter| !letter.is_control()).collect();
        watching::output(&line);
        upstream.links.context.notices.tell(format!("upstream {} says{of}: {line}", upstream.common.rules.name));
    }
}

/// An error before anything of the response has come.
fn closed(error: io::Error) -> Trouble {
    match error.kind() {
        io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => Trouble::Closed,
        _ => Trouble::Broken(error),
    }
}

impl Handler for Relay {
    fn go_on(&mut self, body: &mut RequestBody, reply: &mut Reply) -> Result<(), Aborted> {
        loop {
            match self.step(body, reply) {
                Ok(true) => {}
                Ok(false) => return Ok(()),
                Err(trouble) => self.fail(&trouble, reply)?,
            }
        }
    }

    fn progress(&self) -> Option<String> {
        Some(self.stage_told())
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.upstream.links.give_memory(std::mem::take(&mut self.out));
        match std::mem::replace(&mut self.stage, Stage::Over) {
            Stage::Connecting(link, _) | Stage::There { link, .. } => self.upstream.close(link),
            Stage::Holding(_) | Stage::New | Stage::Shed | Stage::Queued(..) | Stage::Placed | Stage::Refused(..) => {}
            Stage::Joining { .. } | Stage::OnStream { .. } | Stage::Giving(_) | Stage::Over => {}
        }
    }
}
