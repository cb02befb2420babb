//! What is counted of WebSockets.

use crate::counts::close_codes::close_words;
use crate::counts::histogram::{Histogram, histogram};
use crate::counts::remarks::{CodeCounts, Remark};

/// Counts of a loop; loops' tallies add up.
#[derive(Debug, Clone)]
pub(crate) struct WebSocketTally {
    pub(crate) handshake: Histogram,
    /// Connections that opened no WebSocket, whether a message waited for them or not.
    pub(crate) not_opened: u64,
    pub(crate) sent: u64,
    pub(crate) sent_bytes: u64,
    pub(crate) received: u64,
    pub(crate) received_bytes: u64,
    pub(crate) frames: u64,
    pub(crate) pushed: u64,
    pub(crate) pings: u64,
    pub(crate) pongs: u64,
    /// The codes of the server's close frames; 1005 without one, 1006 without such a frame.
    pub(crate) closes: CodeCounts,
}

/// What a run found of WebSockets; durations are in nanoseconds.
#[derive(Debug, Clone)]
pub struct WebSocketReport {
    /// From just before the upgrade was asked for until it was agreed on, for each connection.
    pub handshake: Histogram,
    /// Connections that opened no WebSocket.
    pub not_opened: u64,
    /// Messages that were sent, and the bytes of their content.
    pub sent: u64,
    /// Bytes of their content.
    pub sent_bytes: u64,
    /// Messages that came, answers and others.
    pub received: u64,
    /// Bytes of their content.
    pub received_bytes: u64,
    /// Frames that they were in.
    pub frames: u64,
    /// Those of them that answered nothing.
    pub pushed: u64,
    /// Pings that came, each of which was answered.
    pub pings: u64,
    /// Pongs that came; this side sends no pings.
    pub pongs: u64,
    /// The codes by which the server closed connections, with their names; the most frequent first.
    pub closes: Vec<Remark>,
}

impl WebSocketTally {
    pub(crate) fn new() -> Self {
        Self {
            handshake: histogram(),
            not_opened: 0,
            sent: 0,
            sent_bytes: 0,
            received: 0,
            received_bytes: 0,
            frames: 0,
            pushed: 0,
            pings: 0,
            pongs: 0,
            closes: CodeCounts::default(),
        }
    }

    /// Adds another loop's.
    pub(crate) fn merge(&mut self, other: &Self) {
        // All have the same bounds, so adding cannot fail.
        self.handshake.add(&other.handshake).expect("histograms of the same bounds");
        self.not_opened += other.not_opened;
        self.sent += other.sent;
        self.sent_bytes += other.sent_bytes;
        self.received += other.received;
        self.received_bytes += other.received_bytes;
        self.frames += other.frames;
        self.pushed += other.pushed;
        self.pings += other.pings;
        self.pongs += other.pongs;
        self.closes.merge(&other.closes);
    }

    pub(crate) fn report(&self) -> WebSocketReport {
        WebSocketReport {
            handshake: self.handshake.clone(),
            not_opened: self.not_opened,
            sent: self.sent,
            sent_bytes: self.sent_bytes,
            received: self.received,
            received_bytes: self.received_bytes,
            frames: self.frames,
            pushed: self.pushed,
            pings: self.pings,
            pongs: self.pongs,
            closes: self.closes.remarks(close_words),
        }
    }
}
