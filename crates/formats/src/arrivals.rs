//! What came to the connections of TCP, by the kernel's own tracepoints.
//!
//! `tcp:tcp_probe` tells each segment with the ends of its connection and how many bytes it has, in any task or
//! interrupt in which it comes. `tcp:tcp_rcv_space_adjust` tells the same ends while a task takes bytes: the call in
//! which it does names the descriptor, and so the two are joined. `sock:sk_data_ready` tells a moment later, when TCP has
//! dealt with the segment, that its owner is told: then data is there, as our own recordings count it.

use crate::Ends;
use crate::lanes::Lanes;
use rustc_hash::FxHashMap;

/// Connections whose arrivals are counted, and tasks that are taking from one.
const CONNECTIONS_MAX: usize = 1 << 16;
const TASKS_MAX: usize = 1 << 20;
/// Segments that are remembered of a connection that no task has taken from yet; of further ones the last bytes are.
const EARLY_MAX: usize = 16;

/// A segment that came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Segment {
    pub(crate) at_ns: u64,
    /// The CPU.
    pub(crate) lane: u32,
    /// Bytes of the stream that have come with it.
    pub(crate) position: u32,
}

/// Whether the trace told that data has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Come {
    /// It did, and the run was told.
    Told,
    /// It did, and the run was not told: the kernel told no owner of it.
    Untold(Segment),
    /// It did not.
    NotSeen,
}

#[derive(Debug, Default)]
struct Stream {
    /// The connection's number in the run, once a task has taken from it.
    socket: Option<u32>,
    /// The kernel's name of its socket.
    named: Option<u64>,
    /// Bytes that have come, and when the last did.
    come: u32,
    last: (u64, u32),
    /// Bytes of which the run was told, or is to be when the socket is known.
    told: u32,
    early: Vec<Segment>,
}

/// What came.
#[derive(Debug, Default)]
pub(crate) struct Arrivals {
    streams: FxHashMap<Ends, Stream>,
    /// The ends of sockets by their names.
    named: FxHashMap<u64, Ends>,
    taking: FxHashMap<u32, Ends>,
    /// The trace has tracepoints of TCP.
    pub(crate) is_told: bool,
    /// It tells when owners are told of data.
    is_ready_told: bool,
    /// What was taken whose arrival the trace told, and what it did not tell.
    pub(crate) found: u64,
    pub(crate) missed: u64,
}

impl Stream {
    fn segment(&self, (at_ns, lane): (u64, u32)) -> Segment {
        Segment { at_ns, lane, position: self.come }
    }

    /// All that has come was there then; what the run is to be told, if it is known which connection it is.
    fn tell(&mut self, at: (u64, u32)) -> Option<(u32, Segment)> {
        self.told = self.come;
        let segment = self.segment(at);
        if self.socket.is_none() {
            // The last one stands for what comes beyond the bound.
            self.early.truncate(EARLY_MAX - 1);
            self.early.push(segment);
        }
        self.socket.map(|socket| (socket, segment))
    }
}

impl Arrivals {
    /// Bytes have come, at a time and on a CPU; what the run is to be told.
    pub(crate) fn arrives(
        &mut self,
        ends: Ends,
        (bytes, named): (u32, Option<u64>),
        at: (u64, u32),
        lanes: &mut Lanes<'_>,
    ) -> Option<(u32, Segment)> {
        self.is_told = true;
        // Acknowledgements alone bring nothing.
        if bytes == 0 {
            return None;
        }
        if self.streams.len() >= CONNECTIONS_MAX && !self.streams.contains_key(&ends) {
            lanes.skip("arrivals at connections beyond the bound");
            return None;
        }
        let stream = self.streams.entry(ends).or_default();
        (stream.come, stream.last) = (stream.come.wrapping_add(bytes), at);
        if stream.named != named {
            if let Some(before) = stream.named {
                self.named.remove(&before);
            }
            stream.named = named;
            if let Some(named) = named {
                self.named.insert(named, ends);
            }
        }
        // Its owner is told a little later, which is when a recording of our own counts it.
        if self.is_ready_told && named.is_some() { None } else { stream.tell(at) }
    }

    /// The owner of a socket is told that data is there.
    pub(crate) fn ready(&mut self, socket: u64, at: (u64, u32)) -> Option<(u32, Segment)> {
        self.is_ready_told = true;
        let stream = self.streams.get_mut(self.named.get(&socket)?)?;
        if stream.told == stream.come { None } else { stream.tell(at) }
    }

    /// The running task takes from a connection.
    pub(crate) fn takes(&mut self, task: u32, ends: Ends) {
        self.is_told = true;
        if self.taking.len() < TASKS_MAX {
            self.taking.insert(task, ends);
        }
    }

    /// What a task has taken from since this was last asked.
    pub(crate) fn taken_from(&mut self, task: u32) -> Option<Ends> {
        self.taking.remove(&task)
    }

    /// A task has taken from a connection for the first time, up to this position; what came before.
    pub(crate) fn join(&mut self, ends: Ends, socket: u32, taken: u32) -> Vec<Segment> {
        if self.streams.len() >= CONNECTIONS_MAX && !self.streams.contains_key(&ends) {
            return Vec::new();
        }
        let stream = self.streams.entry(ends).or_default();
        if stream.told != stream.come {
            stream.tell(stream.last);
        }
        stream.socket = Some(socket);
        let mut early = std::mem::take(&mut stream.early);
        // What is taken and did not come had come before the trace.
        let before = taken.wrapping_sub(stream.come);
        if before.cast_signed() > 0 {
            (stream.come, stream.told) = (taken, taken);
            early.iter_mut().for_each(|segment| segment.position = segment.position.wrapping_add(before));
        }
        early
    }

    /// Whether the trace told that all has come that is taken by now; what it did not tell is taken for come.
    pub(crate) fn has_come(&mut self, ends: Option<Ends>, taken: u32) -> Come {
        let is_before = |position: u32| position.wrapping_sub(taken).cast_signed() < 0;
        let Some(stream) = ends.and_then(|ends| self.streams.get_mut(&ends)) else {
            self.missed += 1;
            return Come::NotSeen;
        };
        if is_before(stream.come) {
            self.missed += 1;
            (stream.come, stream.told) = (taken, taken);
            return Come::NotSeen;
        }
        self.found += 1;
        if !is_before(stream.told) {
            return Come::Told;
        }
        stream.told = stream.come;
        Come::Untold(stream.segment(stream.last))
    }

    /// A call that began then found nothing: what was counted twice, as segments are that come again, is put right.
    pub(crate) fn all_is_taken(&mut self, ends: Option<Ends>, taken: u32, begun_ns: u64) {
        let stream = ends.and_then(|ends| self.streams.get_mut(&ends));
        if let Some(stream) = stream.filter(|stream| stream.last.0 < begun_ns) {
            (stream.come, stream.told) = (taken, taken);
        }
    }

    pub(crate) fn forget(&mut self, ends: &Ends) {
        let stream = self.streams.remove(ends);
        if let Some(named) = stream.and_then(|stream| stream.named) {
            self.named.remove(&named);
        }
    }

    pub(crate) fn ended(&mut self, task: u32) {
        self.taking.remove(&task);
    }
}
