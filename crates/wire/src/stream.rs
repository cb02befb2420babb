//! Streams of HTTP/2 on the server's connections, and what their heads say.

use crate::record::{text_from_slots, text_slots};
use crate::{Kind, Record, Slot};

/// Types of frames (RFC 9113 6), as far as they decide anything.
pub mod frame_type {
    /// Content.
    pub const DATA: u8 = 0;
    /// A head, or trailers.
    pub const HEADERS: u8 = 1;
    /// A stream is given up.
    pub const RST_STREAM: u8 = 3;
    /// A request that the server asks itself.
    pub const PUSH_PROMISE: u8 = 5;
    /// More of a head.
    pub const CONTINUATION: u8 = 9;
    /// A frame of a WebSocket (RFC 6455), on a connection that was upgraded: its own flags are its first byte. The first
    /// one is none, and only says that it was.
    pub const WEBSOCKET: u8 = 10;
    /// No frame: the last one of a stream has been given to its last byte.
    pub const STREAM_END: u8 = 12;
    /// No frame: what is given of a response of HTTP/1.1 begins like an event (`text/event-stream`).
    pub const EVENT: u8 = 13;
    /// No frame: the first line of a request of HTTP/1.1.
    pub const REQUEST_LINE: u8 = 14;
    /// No frame: the connection is followed no further.
    pub const LOST: u8 = 15;
}

/// Flag of [`Kind::StreamFrame`]: the server gave it.
pub const SENT: u8 = 16;
/// Flag of [`Kind::StreamFrame`]: it went through the TLS library, whose connection the flow's number is.
pub const THROUGH_TLS: u8 = 32;
/// Flag of [`Kind::StreamFrame`]: no new frame, but the next part of the one before.
pub const MORE: u8 = 64;
/// Flag of [`Kind::StreamFrame`]: the connection is older than the recording.
pub const UNSEEN_BEGIN: u8 = 128;

/// Flag of a frame itself (RFC 9113): it is the last of its stream in this direction.
pub const END_STREAM: u8 = 0x1;
/// Flag of a frame itself: the head is whole.
pub const END_HEADERS: u8 = 0x4;
/// Flag of a frame itself: filling follows.
pub const PADDED: u8 = 0x8;
/// Flag of a frame of content, which has none such itself: the content begins like a ping, a pong or the close of a
/// WebSocket.
pub const CONTROL: u8 = 0x40;
/// Flag of a frame itself: five bytes of priority stand before the head.
pub const PRIORITY: u8 = 0x20;

/// Flags of [`Kind::StreamHead`].
const OF_REQUEST: u8 = 1;
const OF_RESPONSE: u8 = 2;
const OF_TRAILERS: u8 = 4;
const GRPC: u8 = 8;
const GRPC_STATUS: u8 = 16;
const HEAD_THROUGH_TLS: u8 = 32;
const EVENTS: u8 = 64;
const WEBSOCKET: u8 = 128;

/// A connection whose streams are followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Flow {
    /// In the clear, by its socket's number.
    Socket(u32),
    /// Through a TLS library, by a number of its own.
    Tls(u32),
}

impl Flow {
    fn of(number: u32, through_tls: bool) -> Self {
        if through_tls { Self::Tls(number) } else { Self::Socket(number) }
    }

    fn number(self) -> u32 {
        match self {
            Self::Socket(number) | Self::Tls(number) => number,
        }
    }
}

/// A [`Kind::StreamFrame`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamFrame {
    /// The connection.
    pub flow: Flow,
    /// The stream's number, 0 for the connection itself.
    pub stream: u32,
    /// Its type, one of [`frame_type`].
    pub kind: u8,
    /// Whether the server gave it.
    pub sent: bool,
    /// Whether it is the next part of the frame before.
    pub more: bool,
    /// Whether the connection is older than the recording.
    pub older: bool,
    /// TCP's number of its first byte; of no meaning through TLS.
    pub position: u32,
    /// Bytes behind its head of nine.
    pub length: u32,
    /// Its own flags, as in [`END_STREAM`].
    pub frame_flags: u8,
}

impl StreamFrame {
    /// The record.
    #[must_use]
    pub fn write(self, time_ns: u64, lane: u32) -> Record {
        let flag = |is: bool, flag: u8| if is { flag } else { 0 };
        Record {
            time_ns,
            kind: Kind::StreamFrame as u16,
            flags: (self.kind & 15)
                | flag(self.sent, SENT)
                | flag(matches!(self.flow, Flow::Tls(_)), THROUGH_TLS)
                | flag(self.more, MORE)
                | flag(self.older, UNSEEN_BEGIN),
            lane,
            a: u64::from(self.flow.number()) | u64::from(self.stream) << 32,
            b: u64::from(self.position) | u64::from(self.length & 0xff_ffff) << 32 | u64::from(self.frame_flags) << 56,
            ..Record::default()
        }
    }

    /// The frame of a record, if it is one.
    #[must_use]
    pub fn read(record: &Record) -> Option<Self> {
        if record.kind != Kind::StreamFrame as u16 {
            return None;
        }
        let (flow, stream) = record.a_halves();
        Some(Self {
            flow: Flow::of(flow, record.flags & THROUGH_TLS != 0),
            stream,
            kind: record.flags & 15,
            sent: record.flags & SENT != 0,
            more: record.flags & MORE != 0,
            older: record.flags & UNSEEN_BEGIN != 0,
            position: record.b as u32,
            length: (record.b >> 32) as u32 & 0xff_ffff,
            frame_flags: (record.b >> 56) as u8,
        })
    }
}

/// Whose head it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeadOf {
    /// The request's.
    Request,
    /// The response's.
    Response,
    /// What follows the response's content.
    Trailers,
}

/// A [`Kind::StreamHead`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamHead {
    /// The connection.
    pub flow: Flow,
    /// The stream.
    pub stream: u32,
    /// Whose head it is.
    pub of: HeadOf,
    /// Whether gRPC is spoken.
    pub grpc: bool,
    /// Whether the content is a stream of events (`text/event-stream`).
    pub events: bool,
    /// Whether the request asks for a WebSocket (RFC 8441).
    pub websocket: bool,
    /// The response's status, 0 where it is not told.
    pub status: u16,
    /// The status of gRPC.
    pub grpc_status: Option<u16>,
    /// Method and path of a request.
    pub name: String,
}

impl StreamHead {
    /// The record and its slots; a long name is cut.
    #[must_use]
    pub fn write(&self, time_ns: u64, lane: u32) -> (Record, Vec<Slot>) {
        let flag = |is: bool, flag: u8| if is { flag } else { 0 };
        let of = match self.of {
            HeadOf::Request => OF_REQUEST,
            HeadOf::Response => OF_RESPONSE,
            HeadOf::Trailers => OF_TRAILERS,
        };
        let slots = text_slots(&self.name);
        let record = Record {
            time_ns,
            kind: Kind::StreamHead as u16,
            flags: of
                | flag(self.grpc, GRPC)
                | flag(self.grpc_status.is_some(), GRPC_STATUS)
                | flag(self.events, EVENTS)
                | flag(self.websocket, WEBSOCKET)
                | flag(matches!(self.flow, Flow::Tls(_)), HEAD_THROUGH_TLS),
            slots: slots.len() as u8,
            lane,
            a: u64::from(self.flow.number()) | u64::from(self.stream) << 32,
            b: u64::from(self.status) | u64::from(self.grpc_status.unwrap_or(0)) << 16,
        };
        (record, slots)
    }

    /// The head of a record, if it is one.
    #[must_use]
    pub fn read(record: &Record, slots: &[Slot]) -> Option<Self> {
        if record.kind != Kind::StreamHead as u16 {
            return None;
        }
        let (flow, stream) = record.a_halves();
        let of = match record.flags & (OF_REQUEST | OF_RESPONSE | OF_TRAILERS) {
            OF_REQUEST => HeadOf::Request,
            OF_RESPONSE => HeadOf::Response,
            OF_TRAILERS => HeadOf::Trailers,
            _ => return None,
        };
        Some(Self {
            flow: Flow::of(flow, record.flags & HEAD_THROUGH_TLS != 0),
            stream,
            of,
            grpc: record.flags & GRPC != 0,
            events: record.flags & EVENTS != 0,
            websocket: record.flags & WEBSOCKET != 0,
            status: record.b as u16,
            grpc_status: (record.flags & GRPC_STATUS != 0).then_some((record.b >> 16) as u16),
            name: text_from_slots(slots),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn flow() -> impl Strategy<Value = Flow> {
        (any::<u32>(), any::<bool>()).prop_map(|(number, tls)| Flow::of(number, tls))
    }

    proptest! {
        #[test]
        fn frames_come_back(
            flow in flow(), stream: u32, kind in 0u8..16, flags: [bool; 3], position: u32, length in 0u32..1 << 24,
            frame_flags: u8,
        ) {
            let [sent, more, older] = flags;
            let frame = StreamFrame { flow, stream, kind, sent, more, older, position, length, frame_flags };
            prop_assert_eq!(StreamFrame::read(&frame.write(7, 3)), Some(frame));
        }

        #[test]
        fn heads_come_back(flow in flow(), stream: u32, of in 0..3, [grpc, events, websocket]: [bool; 3], status: u16,
            grpc_status: Option<u16>, name in "[ -~]{0,200}") {
            let of = [HeadOf::Request, HeadOf::Response, HeadOf::Trailers][of as usize];
            let head = StreamHead { flow, stream, of, grpc, events, websocket, status, grpc_status, name };
            let (record, slots) = head.write(7, 3);
            prop_assert_eq!(StreamHead::read(&record, &slots), Some(head));
        }
    }

    #[test]
    fn a_long_name_is_cut_and_other_records_are_none() {
        let name = "ä".repeat(300);
        let (flow, of) = (Flow::Socket(1), HeadOf::Request);
        let [grpc, events, websocket] = [false; 3];
        let head = StreamHead { flow, stream: 1, of, grpc, events, websocket, status: 0, grpc_status: None, name };
        let (record, slots) = head.write(1, 0);
        let kept = StreamHead::read(&record, &slots).map_or(0, |head| head.name.len());
        assert!((200..600).contains(&kept), "{kept}");
        assert_eq!(StreamHead::read(&Record { flags: 3, ..record }, &slots), None);
        assert!(StreamFrame::read(&record).is_none() && StreamHead::read(&Record::default(), &[]).is_none());
    }
}
