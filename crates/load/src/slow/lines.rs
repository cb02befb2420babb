//! What is kept of each connection of a slow client.

use crate::schedule::scheduler::NEVER;
use crate::sessions::session::Think;
use crate::slow::alarms::Alarms;
use crate::slow::client::SlowClient;
use crate::slow::links::Link;
use crate::slow::tokens::{Limit, Tokens};
use std::collections::VecDeque;

/// Receptions under way on a line at a time that are told apart, with one request at a time and with many; further ones
/// count with the last of these.
const MARKS_MAX: usize = 32;
const MARKS_OF_STREAMS_MAX: usize = 1024;
/// What TLS adds to each record (1.2 with an explicit nonce; 1.3 adds 22), and the content of a record at most.
const RECORD_OVERHEAD_BYTES: usize = 29;
const RECORD_CONTENT_BYTES: usize = 16 << 10;

/// The slow clients of a loop.
#[derive(Debug)]
pub(crate) struct Slow {
    pub(crate) read: Option<Limit>,
    pub(crate) write: Option<Limit>,
    /// Bytes that a connection may receive before their time.
    pub(crate) ahead: usize,
    /// Of a round trip, in nanoseconds.
    pub(crate) latency_ns: u64,
    patience: Option<Think>,
    random: fastrand::Rng,
    pub(crate) clients: Vec<Client>,
    pub(crate) alarms: Alarms,
}

/// One slot's client.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) read: Tokens,
    pub(crate) write: Tokens,
    /// Whether the kernel may have something to read, where nothing is received before its time.
    pub(crate) readable: bool,
    /// How far the stream from the server has come along the line.
    pub(crate) incoming: Marks,
    /// How far the stream to the server may go out, where many requests follow each other.
    pub(crate) outgoing: Marks,
    /// Position behind the records whose content was read: where the next record of TLS begins.
    pub(crate) record_start: u64,
    /// When the batch may begin to go out.
    pub(crate) send_ns: u64,
    /// Where the batch ends in the stream to the server, about.
    pub(crate) send_end: u64,
    /// Whether the kernel has no room, or nothing more is to be written.
    pub(crate) blocked: bool,
    /// When an event of a connection that is being made has come along the line, and its flags.
    pub(crate) event_ns: u64,
    pub(crate) event_flags: u32,
    /// Bytes of a handshake whose time is over when that event has come.
    pub(crate) prepaid: usize,
    /// When the user clicks stop.
    pub(crate) patience_ns: u64,
    /// When something was read or written last.
    pub(crate) progress_ns: u64,
}

/// How far a stream has come along a line.
#[derive(Debug)]
pub(crate) struct Marks {
    /// The position up to which its bytes are there; `u64::MAX` where the line takes no time.
    shown: u64,
    /// Those that are on their way: when they are there, and up to which position.
    on_way: VecDeque<(u64, u64)>,
    /// How many are told apart.
    most: usize,
}

impl Marks {
    fn new(most: usize) -> Self {
        Self { shown: u64::MAX, on_way: VecDeque::new(), most }
    }

    /// Begins anew: all before a position is there, and all behind it takes its time.
    pub(crate) fn begin(&mut self, position: u64) {
        self.on_way.clear();
        self.shown = position;
    }

    /// Everything up to a position will have come along the line at a time.
    pub(crate) fn mark(&mut self, at_ns: u64, position: u64) {
        let is_full = self.on_way.len() >= self.most;
        match self.on_way.back_mut() {
            Some((_, last)) if position <= *last => {}
            None if position <= self.shown => {}
            Some(last) if is_full => *last = (at_ns, position),
            _ => self.on_way.push_back((at_ns, position)),
        }
    }

    /// Up to which position the bytes are there.
    pub(crate) fn shown(&mut self, now_ns: u64) -> u64 {
        while let Some((at_ns, position)) = self.on_way.front().copied()
            && at_ns <= now_ns
        {
            self.shown = position;
            self.on_way.pop_front();
        }
        self.shown
    }

    /// When bytes behind a position are there.
    pub(crate) fn shows_ns(&self, position: u64) -> u64 {
        if self.shown > position { 0 } else { self.on_way.front().map_or(NEVER, |(at_ns, _)| *at_ns) }
    }
}

impl Client {
    fn new(marks_max: usize) -> Self {
        Self {
            read: Tokens::default(),
            write: Tokens::default(),
            readable: false,
            incoming: Marks::new(marks_max),
            outgoing: Marks::new(marks_max),
            record_start: 0,
            send_ns: 0,
            send_end: 0,
            blocked: false,
            event_ns: NEVER,
            event_flags: 0,
            prepaid: 0,
            patience_ns: NEVER,
            progress_ns: 0,
        }
    }

    /// Everything up to a position of the stream from the server will have come along the line at a time.
    pub(crate) fn mark(&mut self, at_ns: u64, position: u64) {
        self.incoming.mark(at_ns, position);
    }
}

impl Slow {
    /// The clients of loop `lane` with this many slots, each with one request at a time; `None` where nothing slows them
    /// down.
    pub(crate) fn new(options: &SlowClient, slots: usize, lane: u32) -> Option<Box<Self>> {
        options.is_slow().then(|| Self::with_marks(options, slots, lane, MARKS_MAX))
    }

    /// The lines of as many slots, each with many requests under way; `None` where no line is slow. The patience of users
    /// is another matter there.
    pub(crate) fn of_streams(options: &SlowClient, slots: usize, lane: u32) -> Option<Box<Self>> {
        let line = SlowClient { patience: None, ..*options };
        line.is_slow().then(|| Self::with_marks(&line, slots, lane, MARKS_OF_STREAMS_MAX))
    }

    fn with_marks(options: &SlowClient, slots: usize, lane: u32, marks_max: usize) -> Box<Self> {
        let Link { read_bytes_per_s, write_bytes_per_s, latency } = options.link;
        // At most an hour.
        let latency_ns = latency.as_nanos() as u64;
        Box::new(Self {
            read: read_bytes_per_s.map(Limit::new),
            write: write_bytes_per_s.map(Limit::new),
            ahead: options.link.receive_buffers().map_or(0, |(_, ahead)| ahead),
            latency_ns,
            patience: options.patience,
            random: fastrand::Rng::with_seed(options.seed.wrapping_add(u64::from(lane) << 32)),
            clients: std::iter::repeat_with(|| Client::new(marks_max)).take(slots).collect(),
            alarms: Alarms::new(slots),
        })
    }

    /// A slot's connection begins for a request that is intended at a time.
    pub(crate) fn begin_connection(&mut self, slot: usize, intended_ns: u64, now_ns: u64) {
        let patience_ns = self.draw_patience(intended_ns);
        let has_latency = self.latency_ns > 0;
        let client = &mut self.clients[slot];
        client.incoming.begin(if has_latency { 0 } else { u64::MAX });
        client.read = Tokens::default();
        client.write = Tokens::default();
        client.readable = false;
        client.event_ns = NEVER;
        client.event_flags = 0;
        client.patience_ns = patience_ns;
        client.progress_ns = now_ns;
    }

    /// A batch is to go out on a slot's connection, `batch_bytes` from a position of its stream on.
    pub(crate) fn begin_batch(&mut self, slot: usize, now_ns: u64, sent: u64, batch_bytes: usize, encrypted: bool) {
        let half_ns = self.latency_ns / 2;
        let client = &mut self.clients[slot];
        // A handshake may have brought more than it has paid for.
        client.send_ns = (now_ns + half_ns).max(client.read.paid_ns());
        client.write.start(client.send_ns);
        // Before it is asked nothing can come.
        client.read.start(client.send_ns);
        let records = if encrypted { batch_bytes / RECORD_CONTENT_BYTES + 1 } else { 0 };
        client.send_end = sent + (batch_bytes + records * RECORD_OVERHEAD_BYTES) as u64;
        client.blocked = false;
        client.progress_ns = now_ns;
    }

    /// An event came of a connection that is being made, `unread` bytes of a handshake with it; gives when it has come along
    /// the line.
    pub(crate) fn on_making(&mut self, slot: usize, flags: u32, unread: Option<usize>, now_ns: u64) -> u64 {
        let client = &mut self.clients[slot];
        client.event_flags |= flags;
        if client.event_ns == NEVER {
            client.event_ns = now_ns + self.latency_ns;
            if let (Some(unread), Some(limit)) = (unread, self.read) {
                // Of what came the other side of the handshake must know all before it goes on.
                client.prepaid = unread;
                client.read.start(client.event_ns);
                client.read.take(limit, unread);
                client.event_ns = client.read.paid_ns();
            }
        }
        client.event_ns
    }

    /// That event is taken, with so many bytes unread; gives its flags. What came behind the bytes that were paid for is
    /// read, too, and the request waits for its time.
    pub(crate) fn take_making(&mut self, slot: usize, unread: Option<usize>, now_ns: u64) -> u32 {
        let client = &mut self.clients[slot];
        client.event_ns = NEVER;
        if let (Some(unread), Some(limit)) = (unread, self.read) {
            client.read.take(limit, unread.saturating_sub(client.prepaid));
            client.progress_ns = now_ns;
        }
        std::mem::take(&mut client.event_flags)
    }

    /// When the user of a request that is intended at a time clicks stop.
    pub(crate) fn draw_patience(&mut self, intended_ns: u64) -> u64 {
        let Some(patience) = self.patience else { return NEVER };
        intended_ns.saturating_add(patience.draw_ns(&mut self.random))
    }

    /// When a slot's batch can go on to be written, `sent` bytes of the stream being out.
    pub(crate) fn write_due_ns(&self, slot: usize, sent: u64) -> u64 {
        let client = &self.clients[slot];
        match self.write {
            _ if client.blocked => NEVER,
            None => client.send_ns,
            Some(limit) => {
                let left = usize::try_from(client.send_end.saturating_sub(sent)).unwrap_or(usize::MAX);
                client.write.due_ns(limit, left.clamp(1, limit.portion()))
            }
        }
    }

    /// When a slot's connection can be read on, `received` bytes of the stream being read and `input` being there.
    pub(crate) fn read_due_ns(&self, slot: usize, received: u64, input: usize) -> u64 {
        let client = &self.clients[slot];
        if input == 0 {
            return NEVER;
        }
        let shows_ns = client.incoming.shows_ns(received);
        match self.read {
            None => shows_ns,
            Some(limit) => {
                let wanted = input.min(limit.portion());
                let due_ns = client.read.due_ns(limit, wanted);
                // Those that are due at about the same time are looked at together; not so the end of a response.
                let due_ns = if wanted < limit.portion() { due_ns } else { due_ns.next_multiple_of(TOGETHER_NS) };
                due_ns.max(shows_ns)
            }
        }
    }

    /// How many bytes a slot's connection may bring now, `received` being read.
    pub(crate) fn room(&mut self, slot: usize, now_ns: u64, received: u64) -> usize {
        let client = &mut self.clients[slot];
        let shown = usize::try_from(client.incoming.shown(now_ns).saturating_sub(received)).unwrap_or(usize::MAX);
        match self.read {
            None => shown,
            Some(limit) => shown.min(client.read.earned(limit, now_ns)),
        }
    }
}

/// How finely the times of reads are told apart.
const TOGETHER_NS: u64 = 250_000;

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn bytes_come_when_they_have_passed_the_line() {
        let link = Link { latency: Duration::from_millis(50), ..Link::default() };
        let mut slow = Slow::new(&SlowClient { link, ..SlowClient::default() }, 1, 0).expect("slow");
        slow.begin_connection(0, 0, 0);
        assert_eq!((slow.read_due_ns(0, 0, 1), slow.room(0, 1000, 0)), (NEVER, 0));
        for (at_ns, position) in [(100, 10), (200, 10), (300, 30)] {
            slow.clients[0].mark(at_ns, position);
        }
        assert_eq!(slow.read_due_ns(0, 0, 0), NEVER);
        assert_eq!((slow.read_due_ns(0, 0, 1), slow.room(0, 99, 0), slow.room(0, 100, 0)), (100, 0, 10));
        assert_eq!((slow.read_due_ns(0, 10, 1), slow.room(0, 299, 10), slow.room(0, 300, 10)), (300, 0, 20));
        // What there is no room for counts with the last, which only makes it later.
        for step in 0..100 {
            slow.clients[0].mark(1000 + step, 100 + step);
        }
        assert_eq!(slow.clients[0].incoming.on_way.len(), MARKS_MAX);
        assert_eq!((slow.room(0, 1098, 30), slow.room(0, 1099, 30)), (100, 169));
    }

    #[test]
    fn nothing_slow_costs_nothing() {
        assert!(Slow::new(&SlowClient::default(), 1000, 0).is_none());
        let impatient = SlowClient { patience: Some(Think::None), ..SlowClient::default() };
        assert!(Slow::new(&impatient, 1, 0).is_some() && Slow::of_streams(&impatient, 1, 0).is_none());
    }
}
