//! A server's response of bytes that are known by their offset, and how it moves.

use crate::network::PATIENCE;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};
use weir_keeper::{FlowTable, KeeperClient};
use weir_testkit::seeded::Choice;

/// A response under way.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) stream: TcpStream,
    /// Bytes given to the kernel.
    pub(crate) written: u64,
    pub(crate) length: u64,
    /// The node that has it.
    pub(crate) node: u16,
}

/// Where a session moves, and how.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Order {
    pub(crate) node: u16,
    pub(crate) epoch: u64,
    /// What was written and never sent goes along; otherwise it is written again.
    pub(crate) carries_unsent: bool,
}

/// How long the steps of a move took.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MoveTimes {
    pub(crate) freeze: Duration,
    pub(crate) steer: Duration,
    pub(crate) restore: Duration,
    pub(crate) activate: Duration,
    pub(crate) whole: Duration,
    /// Bytes that were not acknowledged.
    pub(crate) unacknowledged: u32,
    pub(crate) unsent: u32,
    pub(crate) acknowledged_meanwhile: u32,
}

/// The known bytes repeat after so many: a prime, so that no power of two is a repetition.
const PERIOD: usize = 1_000_003;

/// The known bytes at an offset.
pub(crate) fn bytes_at(offset: u64, length: usize) -> Vec<u8> {
    static BYTES: OnceLock<Vec<u8>> = OnceLock::new();
    let bytes = BYTES.get_or_init(|| {
        let mut choice = Choice::from_seed(29);
        (0..PERIOD).map(|_| choice.next_u64() as u8).collect()
    });
    let mut at = (offset % PERIOD as u64) as usize;
    let mut out = Vec::with_capacity(length);
    while out.len() < length {
        let piece = (length - out.len()).min(PERIOD - at);
        out.extend_from_slice(&bytes[at..at + piece]);
        at = 0;
    }
    out
}

impl Session {
    pub(crate) fn new(stream: TcpStream, length: u64, node: u16) -> Self {
        stream.set_nonblocking(true).expect("a socket");
        Self { stream, written: 0, length, node }
    }

    /// Writes what the kernel takes, at most so many bytes; whether there is more to write.
    pub(crate) fn write_some(&mut self, bytes_max: usize) -> bool {
        let length = (self.length - self.written).min(bytes_max as u64) as usize;
        match self.stream.write(&bytes_at(self.written, length)) {
            Ok(written) => self.written += written as u64,
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(error) => panic!("after {} bytes: {error}", self.written),
        }
        self.written < self.length
    }

    /// Brings it to a stand and has it go on where it is.
    pub(crate) fn stand(&self, at: &KeeperClient, epoch: u64, pause: Duration) {
        let frozen = at.freeze(self.stream.as_fd(), epoch).expect("it is established");
        assert!(frozen.tcp.window[1] > 0 || frozen.tcp.unsent_bytes > 0, "{:?}", frozen.tcp);
        std::thread::sleep(pause);
        at.thaw(self.stream.as_fd()).expect("it is frozen");
    }

    /// The size of its segments, bytes.
    pub(crate) fn segment_bytes(&self) -> u32 {
        socket2::SockRef::from(&self.stream).tcp_mss().expect("a TCP socket")
    }

    /// Moves it to another node.
    pub(crate) fn fly(&mut self, from: &KeeperClient, to: &KeeperClient, table: &FlowTable, order: Order) -> MoveTimes {
        let Order { node, epoch, carries_unsent } = order;
        let begun = Instant::now();
        let frozen = from.freeze(self.stream.as_fd(), epoch).expect("it is established");
        let freeze = begun.elapsed();
        let mut tcp = frozen.tcp;
        let (unacknowledged, unsent) = (tcp.unacknowledged_bytes, tcp.unsent_bytes);
        let mut from_offset = self.written - u64::from(unacknowledged);
        // What the kernel has is what was written.
        let raw = from.send_queue(self.stream.as_fd(), unacknowledged.min(100_000)).expect("it is frozen");
        assert!(raw == bytes_at(from_offset, raw.len()), "the queue holds other bytes than were written");
        if !carries_unsent {
            self.written -= u64::from(tcp.leave_unsent());
        }
        let flow = tcp.flow();
        to.hold(&flow, epoch).expect("room");
        let at = Instant::now();
        let seen = table.steer(&flow, node, epoch).expect("the node is known");
        let steer = at.elapsed();
        let acknowledged_meanwhile = seen.map_or(0, |seen| tcp.acknowledge(&seen));
        from_offset += u64::from(acknowledged_meanwhile);
        // As another node has it: made again.
        let sent = bytes_at(from_offset, tcp.unacknowledged_bytes as usize);
        let at = Instant::now();
        let restored: OwnedFd = to.restore(&tcp, &frozen.unread, &sent, epoch).expect("it can be restored");
        let restore = at.elapsed();
        let at = Instant::now();
        to.activate(restored.as_fd()).expect("it is restored");
        let activate = at.elapsed();
        let whole = begun.elapsed();
        from.discard(self.stream.as_fd()).expect("it is frozen");
        self.stream = TcpStream::from(restored);
        self.stream.set_nonblocking(true).expect("a socket");
        self.node = node;
        MoveTimes { freeze, steer, restore, activate, whole, unacknowledged, unsent, acknowledged_meanwhile }
    }
}

/// Writes a session to its end, between moves, until there are no more of these: one may take back what was written.
/// At a rate, or as fast as the kernel takes it.
pub(crate) fn serve(session: &Mutex<Session>, bytes_per_s: Option<f64>, moves_are_over: &AtomicBool) {
    let begun = Instant::now();
    loop {
        let is_last = moves_are_over.load(Ordering::Acquire);
        {
            let mut session = session.lock().expect("no panic");
            let due = bytes_per_s.map(|rate| (begun.elapsed().as_secs_f64() * rate) as u64);
            let bytes = due.map_or(1 << 18, |due| due.saturating_sub(session.written).min(1 << 18));
            if !session.write_some(bytes as usize) && is_last {
                return;
            }
        }
        assert!(begun.elapsed() < 3 * PATIENCE, "it is not written to its end");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Reads so many bytes at a rate, compares each, and returns the longest time without one.
pub(crate) fn read_paced(stream: &mut TcpStream, length: u64, bytes_per_s: f64) -> Duration {
    stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
    let (begun, mut read, mut buffer) = (Instant::now(), 0u64, vec![0; 1 << 16]);
    let (mut last, mut gap) = (Instant::now(), Duration::ZERO);
    while read < length {
        let got = stream.read(&mut buffer).unwrap_or_else(|error| panic!("after {read} bytes: {error}"));
        assert!(got > 0, "it ends after {read} bytes");
        gap = gap.max(last.elapsed());
        assert!(buffer[..got] == bytes_at(read, got)[..], "wrong bytes between {read} and {}", read + got as u64);
        read += got as u64;
        let due = Duration::from_secs_f64(read as f64 / bytes_per_s);
        std::thread::sleep(due.saturating_sub(begun.elapsed()));
        last = Instant::now();
    }
    gap
}
