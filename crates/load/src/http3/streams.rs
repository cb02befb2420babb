//! What the loop knows of one connection over HTTP/3, and of each request on it.

use crate::checks::{Keeps, Seen};
use crate::connect::connection::{Connection, Phase};
use crate::connect::witness::Verdict;
use crate::http3::frames::Reader;
use crate::http3::inbound::InboundStreams;
use crate::http3::line::Line;
use crate::schedule::scheduler::NEVER;
use quinn_proto::{ConnectionHandle, Dir, StreamId};

/// More bytes of content than any response has: its head does not say how many.
pub(crate) const UNTOLD_LENGTH: u64 = u64::MAX;

/// A request that has begun and is not over.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Exchange {
    /// Its stream, if it has one.
    pub(crate) stream: Option<StreamId>,
    /// 0 until it comes.
    pub(crate) status: u16,
    /// Which of the plan's requests it is.
    pub(crate) request: u32,
    /// How often it was sent before, in vain.
    pub(crate) repeats: u8,
    /// Whether it waited for its connection to be opened.
    pub(crate) opened: bool,
    /// Whether it went out before the handshake was over.
    pub(crate) early: bool,
    /// How long it waited for a stream, in microseconds.
    pub(crate) held_us: u32,
    /// Its number among those that say of which trace they are.
    pub(crate) traced: u64,
    pub(crate) intended_ns: u64,
    pub(crate) started_ns: u64,
    /// Just before the call that sent the first datagrams since it was given to QUIC; 0 = not sent.
    pub(crate) sent_ns: u64,
    /// When the first bytes of its response came; 0 = none have.
    pub(crate) first_byte_ns: u64,
    /// Bytes of its frames up to the body.
    pub(crate) head_bytes: u32,
    /// Bytes of its frames that QUIC has taken.
    pub(crate) written: usize,
    /// Since when the server's windows hold its body up; 0 = they do not.
    pub(crate) held_since_ns: u64,
    /// Whether all of it was given to QUIC, or the server wants no more of it.
    pub(crate) is_sent: bool,
    /// Bytes of its response's stream.
    pub(crate) response_bytes: u64,
    /// Bytes of content, and how many there should be: [`UNTOLD_LENGTH`] where the head does not say.
    pub(crate) content: u64,
    pub(crate) expected: u64,
    /// Whether trailers came, behind which nothing may follow.
    pub(crate) has_trailers: bool,
    /// When its user clicks stop; 0 = that is not decided.
    pub(crate) stops_ns: u64,
    pub(crate) reader: Reader,
}

/// A connection of QUIC.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) quic: quinn_proto::Connection,
    pub(crate) handle: ConnectionHandle,
    /// Whether the loop's endpoint knows of it.
    pub(crate) is_known: bool,
    /// What was said of the certificate that the server showed, if it did.
    pub(crate) verdict: Verdict,
    /// A stream that was opened and carries nothing yet.
    spare: Option<StreamId>,
    /// Streams that requests were put on.
    pub(crate) streams_used: u64,
    /// Whether congestion bits are set on what goes out.
    pub(crate) sets_ecn: bool,
}

impl Link {
    pub(crate) fn new(quic: quinn_proto::Connection, handle: ConnectionHandle) -> Self {
        Self { quic, handle, is_known: true, verdict: Verdict::None, spare: None, streams_used: 0, sets_ecn: true }
    }

    /// Whether the server lets another stream be opened; it is opened then.
    #[inline]
    pub(crate) fn has_stream(&mut self) -> bool {
        if self.spare.is_none() {
            self.spare = self.quic.streams().open(Dir::Bi);
        }
        self.spare.is_some()
    }

    /// The stream that [`Self::has_stream`] opened.
    #[inline]
    fn take_stream(&mut self) -> Option<StreamId> {
        self.streams_used += 1;
        self.spare.take()
    }

    /// The server refused 0-RTT: no stream of it was ever opened.
    pub(crate) fn begin_anew(&mut self) {
        (self.spare, self.streams_used) = (None, 0);
    }
}

/// What HTTP/3 keeps of a connection.
#[derive(Debug)]
pub(crate) struct Streams {
    /// The connection of QUIC, from the time at which its socket is there.
    pub(crate) link: Option<Box<Link>>,
    /// When something last came, and when the kernel had it, by CLOCK_REALTIME.
    pub(crate) heard_ns: u64,
    pub(crate) came_real_ns: u64,
    /// Requests under way; one is where its stream's number says, unless an older one still has that place.
    pub(crate) table: Box<[Exchange]>,
    /// How many are elsewhere.
    displaced: u32,
    /// What has come of blocks of fields, by places.
    pub(crate) blocks: Box<[Vec<u8>]>,
    /// What has come of the responses in these places, where checks look at it; else empty.
    pub(crate) seen: Box<[Seen]>,
    pub(crate) inbound: InboundStreams,
    pub(crate) active: u32,
    /// Streams at a time, at most.
    pub(crate) streams_max: u32,
    /// Whether it may carry more than one request.
    keep_alive: bool,
    /// Places of requests that no datagrams were sent since.
    pub(crate) unsent: Vec<u32>,
    /// When QUIC wants to be asked, and the earliest time at which it will be.
    pub(crate) deadline_ns: u64,
    pub(crate) entered_ns: u64,
    /// Datagrams that the socket had no room for, and the size of each where they are several.
    pub(crate) blocked: Vec<u8>,
    pub(crate) blocked_datagram_bytes: Option<u16>,
    /// Since when the server's limit on streams holds requests up; 0 = it does not.
    pub(crate) held_since_ns: u64,
    /// When it moved to its port, and whether the server has not been heard since; 0 = it never moved.
    pub(crate) moved_ns: u64,
    pub(crate) is_unheard: bool,
    /// The line of a slow client, if it is one.
    pub(crate) line: Option<Box<Line>>,
    /// Whether it is listed as one with something to write.
    pub(crate) listed_touched: bool,
    /// Whether it is listed as one that can take a request.
    pub(crate) listed_roomy: bool,
}

impl Streams {
    pub(crate) fn new(streams: u32, keep_alive: bool, keeps: Keeps, line: Option<Box<Line>>) -> Self {
        let places = Self::places_for(streams);
        Self {
            link: None,
            heard_ns: 0,
            came_real_ns: 0,
            table: vec![Exchange::default(); places].into_boxed_slice(),
            displaced: 0,
            blocks: vec![Vec::new(); places].into_boxed_slice(),
            seen: vec![Seen::new(keeps); if keeps.any() { places } else { 0 }].into_boxed_slice(),
            inbound: InboundStreams::default(),
            active: 0,
            streams_max: streams,
            keep_alive,
            unsent: Vec::with_capacity(places),
            deadline_ns: NEVER,
            entered_ns: NEVER,
            blocked: Vec::new(),
            blocked_datagram_bytes: None,
            held_since_ns: 0,
            moved_ns: 0,
            is_unheard: false,
            line,
            listed_touched: false,
            listed_roomy: false,
        }
    }

    /// How many places a connection has for so many streams at a time: with some to spare an older request seldom has the
    /// place of a new one.
    pub(crate) fn places_for(streams: u32) -> usize {
        (streams + streams / 4 + 1).next_power_of_two() as usize
    }

    /// Makes it that of no connection.
    pub(crate) fn reset(&mut self) {
        self.link = None;
        self.table.fill(Exchange::default());
        self.inbound.reset();
        self.unsent.clear();
        self.blocked.clear();
        (self.active, self.displaced) = (0, 0);
        (self.heard_ns, self.came_real_ns, self.moved_ns, self.held_since_ns) = (0, 0, 0, 0);
        self.is_unheard = false;
        if let Some(line) = &mut self.line {
            line.reset();
        }
        // What is entered stays so, and is passed over when it comes.
        self.deadline_ns = NEVER;
    }

    /// The requests that are under way.
    pub(crate) fn under_way(&self) -> impl Iterator<Item = u32> {
        self.table.iter().filter(|exchange| exchange.stream.is_some()).map(|exchange| exchange.request)
    }

    fn place_of(&self, stream: StreamId) -> usize {
        stream.index() as usize & (self.table.len() - 1)
    }

    /// The place of a stream's request, if that is not over.
    #[inline]
    pub(crate) fn find(&self, stream: StreamId) -> Option<u32> {
        let place = self.place_of(stream);
        if self.table[place].stream == Some(stream) {
            return Some(place as u32);
        }
        if self.displaced == 0 {
            return None;
        }
        self.table.iter().position(|exchange| exchange.stream == Some(stream)).map(|place| place as u32)
    }

    #[inline]
    pub(crate) fn at(&mut self, place: u32) -> &mut Exchange {
        &mut self.table[place as usize]
    }

    /// Frees a place; gives what was there.
    #[inline]
    pub(crate) fn take(&mut self, place: u32) -> Exchange {
        let exchange = std::mem::take(&mut self.table[place as usize]);
        if let Some(stream) = exchange.stream {
            self.active -= 1;
            self.displaced -= u32::from(self.place_of(stream) != place as usize);
        }
        exchange
    }

    /// How many places there are.
    pub(crate) fn places(&self) -> u32 {
        self.table.len() as u32
    }

    /// Puts a request on the stream that was found free for it; gives its place.
    ///
    /// Called only where there is room: fewer requests are under way than there are places.
    #[inline]
    pub(crate) fn place(&mut self, exchange: Exchange) -> Option<(u32, StreamId)> {
        let stream = self.link.as_mut()?.take_stream()?;
        let wanted = self.place_of(stream);
        let mask = self.table.len() - 1;
        let place = (0..=mask).map(|step| (wanted + step) & mask).find(|place| self.table[*place].stream.is_none())?;
        self.displaced += u32::from(place != wanted);
        self.active += 1;
        self.table[place] = Exchange { stream: Some(stream), ..exchange };
        self.blocks[place].clear();
        Some((place as u32, stream))
    }

    /// Notes that no datagrams were sent since a request was placed there; each place is listed once, or soon again so.
    #[inline]
    pub(crate) fn list_unsent(&mut self, place: u32) {
        if self.unsent.len() >= self.table.len() {
            self.unsent.sort_unstable();
            self.unsent.dedup();
        }
        self.unsent.push(place);
    }

    /// Whether the server has confirmed the handshake (RFC 9001 4.1.2), with which it sends what resumes the session.
    pub(crate) fn is_confirmed(&self) -> bool {
        self.link.as_ref().is_some_and(|link| link.quic.stats().frame_rx.handshake_done > 0)
    }

    /// Whether no further request may begin on it.
    #[inline]
    pub(crate) fn is_used_up(&self) -> bool {
        !self.keep_alive && self.link.as_ref().is_some_and(|link| link.streams_used > 0)
    }
}

impl Connection<Streams> {
    /// Whether another request may begin, the server's limit on streams apart.
    #[inline]
    pub(crate) fn has_place(&self) -> bool {
        self.phase == Phase::Open && self.http.active < self.http.streams_max && !self.http.is_used_up()
    }

    /// Whether it is to be left: its only request is over.
    #[inline]
    pub(crate) fn is_to_be_left(&self) -> bool {
        self.http.is_used_up() && self.http.active == 0
    }
}
