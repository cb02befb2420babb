//! What HTTP/2 keeps of a loop.

use crate::LoadError;
use crate::connect::kernel::Transport;
use crate::engine::state::{Engine, Room, Version};
use crate::engine::wanted::Wanted;
use crate::http2::hpack::Decoder;
use crate::http2::streams::{Exchange, Streams};
use crate::http2::users::Users;
use crate::http2::wire::Wire;
use crate::options::control::Control;
use crate::plan::host::Host;
use crate::plan::run_plan::{Plan, Share, lingering_max};
use crate::requests::cookies::CookieJar;
use crate::slow::lines::Slow;
use crate::slow::patience::Patience;
use std::collections::VecDeque;

/// HTTP/2: many requests under way on each connection.
#[derive(Debug)]
pub(crate) struct Http2<'a> {
    pub(crate) wire: &'a Wire,
    /// Where the requests go; over HTTP/2 that is one host.
    pub(crate) host: &'a Host,
    /// Whether the bytes on the wire are those of TLS.
    pub(crate) encrypted: bool,
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
    /// How many streams the server took when it last said so.
    pub(crate) streams_known: Option<u32>,
    /// The sessions under way, if that is what is run.
    pub(crate) users: Option<Box<Users>>,
    /// The cookies of users that have no connection at the time, where users are connections.
    pub(crate) jars: Vec<CookieJar>,
    /// Where cookies and blocks of headers are put together.
    pub(crate) cookies: Vec<u8>,
    pub(crate) block: Vec<u8>,
    /// The lines of slow clients, if that is what they are.
    pub(crate) line: Option<Box<Slow>>,
    /// Whether requests have cookies of a jar, traces, or users who give up.
    pub(crate) has_more: bool,
    /// How long users wait, if that is not as long as it takes.
    pub(crate) patience: Option<Box<Patience>>,
    pub(crate) decoder: Decoder,
}

impl Version for Http2<'_> {
    type Http = Streams;
}

/// Makes the loop of a share.
pub(crate) fn engine<'a>(
    plan: &'a Plan,
    wire: &'a Wire,
    control: &'a Control,
    share: Share,
) -> Result<Engine<'a, Http2<'a>>, LoadError> {
    let slots = share.connections + lingering_max(share.connections, wire.keep_alive);
    let room = Room {
        slots,
        places_are_clients: share.arrivals.is_none(),
        receive_buffer: plan.slow.link.receive_buffer(),
        transport: Transport::Streams,
    };
    let queue = if share.arrivals.is_some() { share.queue } else { 0 };
    let host = &plan.hosts[0];
    let mut decoder = if wire.cookie_jar { Decoder::with_cookies() } else { Decoder::default() };
    if plan.keeps().head || plan.grpc.is_some() {
        decoder.keep_fields();
    }
    let patience = Patience::new(&plan.slow, slots as usize, Streams::places_for(wire.streams), share.lane);
    let http = Http2 {
        wire,
        host,
        encrypted: host.route.tls.is_some(),
        roomy: Vec::with_capacity(slots as usize),
        touched: Vec::with_capacity(slots as usize),
        connecting: 0,
        held: VecDeque::new(),
        // A large bound is a bound, not a wish for memory.
        queue: VecDeque::with_capacity(queue.min(100_000)),
        streams_known: None,
        users: Users::new(plan, share.lane, share.lanes, share.connections),
        jars: Vec::new(),
        cookies: Vec::new(),
        block: Vec::new(),
        line: Slow::of_streams(&plan.slow, slots as usize, share.lane),
        has_more: wire.cookie_jar || plan.traces.is_some() || patience.is_some(),
        patience,
        decoder,
    };
    let connection = || Streams::new(wire.streams, wire.keep_alive, plan);
    Engine::new(plan, control, share, &room, connection, |_| Ok(http))
}
