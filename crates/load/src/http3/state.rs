//! What HTTP/3 keeps of a loop.

use crate::LoadError;
use crate::connect::kernel::Transport as Sockets;
use crate::engine::state::{Engine, Room, Version};
use crate::engine::wanted::Wanted;
use crate::http3::inbound::Said;
use crate::http3::line::Line;
use crate::http3::qpack::Decoder;
use crate::http3::streams::{Exchange, Streams};
use crate::http3::transport::Transport;
use crate::http3::wire::Wire;
use crate::options::control::Control;
use crate::plan::host::Host;
use crate::plan::run_plan::{Plan, Share, lingering_max};
use crate::requests::cookies::CookieJar;
use crate::slow::patience::Patience;
use std::collections::VecDeque;

/// The step in which it is known when a response came: the kernel tells each datagram's time in nanoseconds, and reading
/// both clocks takes less than this.
const TOLD_NS: u64 = 1000;

/// HTTP/3: many requests under way on each connection.
#[derive(Debug)]
pub(crate) struct Http3<'a> {
    pub(crate) wire: &'a Wire,
    /// Where the requests go; over HTTP/3 that is one host.
    pub(crate) host: &'a Host,
    pub(crate) transport: Transport,
    /// Connections that can take a request, or could when they were listed.
    pub(crate) roomy: Vec<u32>,
    /// Connections with something to write.
    pub(crate) touched: Vec<u32>,
    /// Connections that are being opened.
    pub(crate) connecting: u32,
    /// Requests that have begun and have no stream: their connection is being made, or the one that they had is lost.
    pub(crate) held: VecDeque<Exchange>,
    /// The arrivals that wait for a stream.
    pub(crate) queue: VecDeque<Wanted>,
    /// How many streams a server took at first on a connection, when that was last seen.
    pub(crate) streams_known: Option<u32>,
    /// The cookies of users that have no connection at the time, where users are connections.
    pub(crate) jars: Vec<CookieJar>,
    /// Where cookies and frames are put together.
    pub(crate) cookies: Vec<u8>,
    pub(crate) head: Vec<u8>,
    pub(crate) decoder: Decoder,
    /// How long users wait, if that is not as long as it takes.
    pub(crate) patience: Option<Box<Patience>>,
    /// What a control stream said.
    pub(crate) said: Vec<Said>,
}

impl Version for Http3<'_> {
    type Http = Streams;
}

/// Makes the loop of a share.
pub(crate) fn engine<'a>(
    plan: &'a Plan,
    wire: &'a Wire,
    control: &'a Control,
    share: Share,
) -> Result<Engine<'a, Http3<'a>>, LoadError> {
    let slots = share.connections + lingering_max(share.connections, wire.keep_alive);
    let room = Room {
        slots,
        places_are_clients: share.arrivals.is_none(),
        receive_buffer: None,
        transport: Sockets::Datagrams,
    };
    let queue = if share.arrivals.is_some() { share.queue } else { 0 };
    let mut decoder = Decoder::default();
    if wire.cookie_jar {
        decoder.keep_cookies();
    }
    if plan.keeps().head {
        decoder.keep_fields();
    }
    let http = Http3 {
        wire,
        host: &plan.hosts[0],
        transport: Transport::new(),
        roomy: Vec::with_capacity(slots as usize),
        touched: Vec::with_capacity(slots as usize),
        connecting: 0,
        held: VecDeque::new(),
        // A large bound is a bound, not a wish for memory.
        queue: VecDeque::with_capacity(queue.min(100_000)),
        streams_known: None,
        jars: Vec::new(),
        cookies: Vec::new(),
        head: Vec::new(),
        decoder,
        patience: Patience::new(&plan.slow, slots as usize, Streams::places_for(wire.streams), share.lane),
        said: Vec::new(),
    };
    let connection = || Streams::new(wire.streams, wire.keep_alive, plan.keeps(), Line::new(&plan.slow.link));
    let mut engine = Engine::new(plan, control, share, &room, connection, |_| Ok(http))?;
    engine.tally.slow.tick_ns = TOLD_NS;
    Ok(engine)
}
