//! What HTTP/1 keeps of a loop.

use crate::LoadError;
use crate::connect::kernel::{Kernel, Transport};
use crate::engine::sessions::ActiveSessions;
use crate::engine::state::{Engine, Room, Version};
use crate::http1::connection::Pipeline;
use crate::http1::ring::Ring;
use crate::options::control::Control;
use crate::plan::run_plan::{Plan, RingWish, Share};
use crate::requests::cookies::CookieJar;
use crate::requests::piece::Piece;
use crate::slow::lines::Slow;
use std::collections::VecDeque;

/// HTTP/1: one request at a time on a connection, or a pipeline.
#[derive(Debug)]
pub(crate) struct Http1 {
    pub(crate) ring: RingUse,
    /// What is kept for each host.
    pub(crate) pools: Vec<Pool>,
    /// Connections in the pools that have nothing to do.
    pub(crate) resting: u32,
    /// Arrivals that wait for a connection.
    pub(crate) queued: usize,
    /// Different requests that were chosen for the batch that is begun next.
    pub(crate) chosen: Vec<Piece>,
    /// The sessions under way, if that is what is run.
    pub(crate) sessions: Option<Box<ActiveSessions>>,
    /// The lines of slow clients, if that is what they are.
    pub(crate) slow: Option<Box<Slow>>,
}

/// The connections whose bytes go through io_uring.
#[derive(Debug)]
pub(crate) struct RingUse {
    /// Where receptions and transmissions go if not each by a call of its own.
    pub(crate) io: Option<Ring>,
    /// Connections that go through the ring, and whether further ones are to.
    pub(crate) connections: u32,
    pub(crate) fits: bool,
    /// Tokens of the connections whose batch waits in the ring to go out.
    pub(crate) waiting: Vec<u64>,
    /// Intended times of the arrivals among those.
    pub(crate) due: Vec<u64>,
}

/// The connections to one host and what waits for them.
#[derive(Debug)]
pub(crate) struct Pool {
    pub(crate) idle: Vec<u32>,
    /// Connections that are open or being opened, lingering ones apart.
    pub(crate) live: u32,
    pub(crate) queue: VecDeque<Wanted>,
    /// The cookies of users that have no connection at the time.
    pub(crate) jars: Vec<CookieJar>,
}

/// An arrival that waits for a connection.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted {
    pub(crate) intended_ns: u64,
    /// How long after its intended time it was queued, in microseconds.
    pub(crate) late_us: u32,
    /// Which request of the plan it is, or which session.
    pub(crate) request: u32,
}

impl Version for Http1 {
    type Http = Pipeline;
}

/// Makes the loop of a share.
pub(crate) fn engine<'a>(
    plan: &'a Plan,
    control: &'a Control,
    mut share: Share,
) -> Result<Engine<'a, Http1>, LoadError> {
    let open_at_once = share.connections * plan.hosts.at_once();
    let slots = open_at_once + share.connections.min(1024);
    let room = Room {
        slots,
        places_are_clients: share.arrivals.is_none() && plan.hosts.len() == 1,
        receive_buffer: plan.slow.link.receive_buffer(),
        transport: Transport::Streams,
    };
    // A large bound is a bound, not a wish for memory.
    let queue = if share.arrivals.is_some() { share.queue.min(100_000) } else { 0 };
    let idle = share.connections as usize;
    let pool = || Pool {
        // A director's connections are its links', and rest there.
        idle: Vec::with_capacity(if plan.directed { 0 } else { idle }),
        live: 0,
        queue: VecDeque::with_capacity(queue / plan.hosts.len()),
        jars: Vec::new(),
    };
    let pools = std::iter::repeat_with(pool).take(plan.hosts.len()).collect();
    let sessions = match share.directed.take() {
        Some(directed) => Some(ActiveSessions::directed(directed)),
        None => ActiveSessions::new(plan, share.lane, share.lanes, share.connections),
    };
    let slow = Slow::new(&plan.slow, slots as usize, share.lane);
    let connection = || Pipeline::new(plan);
    Engine::new(plan, control, share, &room, connection, |kernel| {
        let io = ring(plan, kernel, open_at_once)?;
        let ring = RingUse {
            connections: 0,
            fits: io.is_some(),
            io,
            waiting: Vec::with_capacity(slots as usize),
            due: Vec::with_capacity(slots as usize),
        };
        Ok(Http1 { ring, pools, resting: 0, queued: 0, chosen: Vec::new(), sessions, slow })
    })
}

/// The ring, where it is wanted and the kernel has what is needed for it.
fn ring(plan: &Plan, kernel: &Kernel, connections: u32) -> Result<Option<Ring>, LoadError> {
    let wanted = plan.ring != RingWish::Never;
    match wanted.then(|| Ring::new(connections, kernel.fd())) {
        Some(Err(cause)) if plan.ring == RingWish::Only => {
            Err(LoadError::System { what: "io_uring_setup (Linux 6.1 and later have what is needed)", cause })
        }
        other => Ok(other.and_then(Result::ok)),
    }
}
