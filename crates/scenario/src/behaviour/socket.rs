//! WebSockets (RFC 6455) as a behaviour has them.

use crate::behaviour::answer::Answer;
use crate::behaviour::ask::Ask;

/// What a behaviour has one of its sockets do; `socket` is a number of the behaviour's own, which it gives once.
#[derive(Debug, Clone)]
pub enum SocketOrder {
    /// Opens it; [`SocketNews::Opened`] or [`SocketNews::NotOpened`] follows.
    Open {
        /// The socket.
        socket: u32,
        /// How.
        opening: Box<SocketOpening>,
    },
    /// Sends a message, if it is open.
    Send {
        /// The socket.
        socket: u32,
        /// Whether the message is bytes, not a text.
        is_binary: bool,
        /// What it holds.
        content: Vec<u8>,
    },
    /// Sends a ping, if it is open.
    Ping {
        /// The socket.
        socket: u32,
        /// What it holds, at most 125 bytes; the time to the pong with the same content is counted.
        content: Vec<u8>,
    },
    /// Says that nothing more is sent (RFC 6455 7.1.2); [`SocketNews::Closed`] follows.
    Close {
        /// The socket.
        socket: u32,
        /// Why, by number.
        code: u16,
        /// Why, in words, at most 123 bytes.
        reason: String,
    },
}

/// How a socket is opened.
#[derive(Debug, Clone)]
pub struct SocketOpening {
    /// The request: its URL, headers, tags, and its time.
    pub ask: Ask,
    /// Subprotocols that are offered, in the order of preference.
    pub protocols: Vec<String>,
    /// What of it is counted.
    pub counting: Counting,
}

/// What is counted of a socket: the two modules of k6 differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Counting {
    /// As `k6/ws`: messages alone are messages, and one that was not opened has a session, too.
    #[default]
    Messages,
    /// As `k6/websockets`: pings and close frames that are sent are messages, and what is not opened has no session.
    Frames,
}

/// What happened to a socket.
#[derive(Debug, Clone)]
pub struct SocketEvent {
    /// Which one.
    pub socket: u32,
    /// What.
    pub news: SocketNews,
}

/// What happened.
#[derive(Debug, Clone)]
pub enum SocketNews {
    /// It is open.
    Opened {
        /// The answer of the server.
        answer: Box<Answer>,
        /// The subprotocol that was agreed on.
        protocol: Option<String>,
    },
    /// It is not open, and is no socket any more.
    NotOpened {
        /// What answered instead, if anything did.
        answer: Option<Box<Answer>>,
        /// Why, in words.
        words: String,
    },
    /// A message came.
    Message {
        /// Whether it is bytes, not a text.
        is_binary: bool,
        /// What it holds; texts are UTF-8.
        content: Vec<u8>,
    },
    /// A ping came, and was answered.
    Ping,
    /// A pong came.
    Pong,
    /// It is closed, and is no socket any more.
    Closed {
        /// The code that the other side gave; none where its connection ended without one.
        code: Option<u16>,
        /// Its reason.
        reason: String,
        /// What went wrong, if something did.
        wrong: Option<String>,
    },
}
