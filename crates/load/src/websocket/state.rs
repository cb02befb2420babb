//! What a loop and a connection keep of WebSockets.

use crate::LoadError;
use crate::connect::kernel::Transport;
use crate::engine::slowest::{held_us, micros};
use crate::engine::state::{Engine, Room, Version};
use crate::options::control::Control;
use crate::options::websocket::WebSocket;
use crate::plan::run_plan::{Plan, Share};
use crate::websocket::frames::Reader;
use crate::websocket::handshake::{Accept, Opening};
use std::collections::VecDeque;

/// WebSockets: one message at a time on a connection.
#[derive(Debug)]
pub(crate) struct Sockets<'a> {
    pub(crate) opening: &'a Opening,
    pub(crate) given: &'a WebSocket,
    /// Connections with nothing to do, the one that rests longest first.
    pub(crate) idle: VecDeque<u32>,
    /// Arrivals that wait for a connection.
    pub(crate) queue: VecDeque<Wanted>,
    /// Keys and masks come of it.
    pub(crate) random: fastrand::Rng,
}

/// An arrival that waits for a connection.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted {
    intended_ns: u64,
    /// How long after its intended time it was queued, in microseconds.
    late_us: u32,
}

impl Wanted {
    /// An arrival that is queued now.
    pub(crate) fn at(intended_ns: u64, now_ns: u64) -> Self {
        Self { intended_ns, late_us: micros(now_ns.saturating_sub(intended_ns)) }
    }

    /// What it is when a connection is free for it.
    pub(crate) fn taken(self, now_ns: u64) -> Ask {
        Ask {
            intended_ns: self.intended_ns,
            held_us: held_us(self.intended_ns, self.late_us, now_ns),
            ..Ask::default()
        }
    }
}

/// A message that is to be answered.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Ask {
    pub(crate) intended_ns: u64,
    /// How long it waited for a connection that is free, in microseconds.
    pub(crate) held_us: u32,
    /// Just before the write; 0 = not written.
    pub(crate) sent_ns: u64,
    /// When the first byte of what may be its answer came; 0 = none has.
    pub(crate) first_byte_ns: u64,
}

/// Where a connection stands.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) enum Stage {
    /// It is not open, or its upgrade is not asked for. The message goes out over it first, if there is one.
    #[default]
    Closed,
    /// It is being made for this message, if for any.
    Making(Option<Ask>),
    /// The upgrade was asked for at this time.
    Opening { since_ns: u64, accept: Accept, ask: Option<Ask> },
    /// It has nothing to do, but for this message, if there is one, once all that came is looked at.
    Free(Option<Ask>),
    /// It rests among those that are idle.
    Idle,
    /// The answer to a message is awaited.
    Awaiting(Ask),
    /// Each side has said, or is to say, that it sends nothing more; it is closed at this time at the latest.
    Closing { until_ns: u64 },
}

/// What is kept of a connection.
#[derive(Debug)]
pub(crate) struct Socket {
    pub(crate) stage: Stage,
    pub(crate) reader: Reader,
    /// What has come of the head of the answer to the upgrade.
    pub(crate) head: Vec<u8>,
    /// What is to be written, those before `out_at` written already.
    pub(crate) out: Vec<u8>,
    pub(crate) out_at: usize,
    /// How the message that comes compares with the one that was sent.
    pub(crate) echo: Echo,
}

/// How far a message that comes is the one that was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Echo {
    /// So many bytes are the same.
    Same(usize),
    Other,
}

impl Echo {
    /// How far it is that when more of it has come.
    pub(crate) fn with(self, content: &[u8], sent: &[u8]) -> Self {
        match self {
            Self::Same(at) if sent.get(at..).is_some_and(|rest| rest.starts_with(content)) => {
                Self::Same(at + content.len())
            }
            _ => Self::Other,
        }
    }
}

impl Version for Sockets<'_> {
    type Http = Socket;
}

impl Socket {
    fn new(message_bytes_max: u64) -> Self {
        Self {
            stage: Stage::Closed,
            reader: Reader::new(message_bytes_max),
            head: Vec::new(),
            out: Vec::new(),
            out_at: 0,
            echo: Echo::Same(0),
        }
    }

    /// Makes it that of no connection.
    pub(crate) fn reset(&mut self) {
        self.stage = Stage::Closed;
        self.reader.reset();
        self.head.clear();
        self.out.clear();
        self.out_at = 0;
        self.echo = Echo::Same(0);
    }
}

/// Makes the loop of a share.
pub(crate) fn engine<'a>(
    plan: &'a Plan,
    opening: &'a Opening,
    control: &'a Control,
    share: Share,
) -> Result<Engine<'a, Sockets<'a>>, LoadError> {
    // As many again may be closing.
    let slots = share.connections + share.connections.min(1024);
    let room = Room {
        slots,
        places_are_clients: share.arrivals.is_none(),
        receive_buffer: None,
        transport: Transport::Streams,
    };
    // A large bound is a bound, not a wish for memory.
    let queue = if share.arrivals.is_some() { share.queue.min(100_000) } else { 0 };
    let given = opening.given();
    let sockets = Sockets {
        opening,
        given,
        idle: VecDeque::with_capacity(share.connections as usize),
        queue: VecDeque::with_capacity(queue),
        random: fastrand::Rng::new(),
    };
    let socket = || Socket::new(given.message_bytes_max);
    Engine::new(plan, control, share, &room, socket, |_| Ok(sockets))
}
