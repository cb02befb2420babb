//! What the loop of one thread has.

use crate::LoadError;
use crate::connect::connection::Connection;
use crate::connect::connector::Connector;
use crate::connect::kernel::{Kernel, Transport, monotonic_ns};
use crate::connect::spread::Spread;
use crate::counts::checks::CheckTally;
use crate::counts::clients::Clients;
use crate::counts::grpc::GrpcTally;
use crate::counts::scopes::ScopeTally;
use crate::counts::slices::Slices;
use crate::counts::streams::StreamTally;
use crate::counts::tally::{Published, Tally};
use crate::counts::traced::TraceTally;
use crate::engine::events::Events;
use crate::engine::unread::Unread;
use crate::options::control::Control;
use crate::plan::chooser::Chooser;
use crate::plan::host::Host;
use crate::plan::run_plan::{Plan, Share};
use crate::schedule::scheduler::Scheduler;

/// What one read takes at most.
const BUFFER_BYTES: usize = 128 * 1024;
/// Reads from one connection before the others have their turn: a response without end must not starve them.
pub(crate) const READS_IN_A_ROW: u32 = 16;

/// A version of HTTP, as the loop keeps it.
pub(crate) trait Version {
    /// What it keeps of each connection.
    type Http;
}

/// The state of one loop.
pub(crate) struct Engine<'a, V: Version> {
    pub(crate) plan: &'a Plan,
    pub(crate) control: &'a Control,
    pub(crate) scheduler: Scheduler,
    pub(crate) connector: Connector,
    pub(crate) connections: Vec<Connection<V::Http>>,
    /// What the version of HTTP keeps of the loop.
    pub(crate) http: V,
    /// Says what is asked next.
    pub(crate) chooser: Chooser,
    pub(crate) unread: Unread,
    /// The clock when it was last read.
    pub(crate) now_ns: u64,
    /// What the shared counters hold of this loop.
    pub(crate) published: Published,
    pub(crate) fatal: Option<LoadError>,
    pub(crate) buffer: Box<[u8]>,
    pub(crate) tally: Tally,
    pub(crate) events: Events,
    pub(crate) slices: Slices,
}

/// What a version of HTTP decides of its loop.
pub(crate) struct Room {
    /// How many connections have a slot, those that linger included.
    pub(crate) slots: u32,
    /// Whether each place for a connection counts as one client, of those that are told apart for fairness.
    pub(crate) places_are_clients: bool,
    /// What is asked of the kernel for what comes.
    pub(crate) receive_buffer: Option<i32>,
    /// Which sockets its connections have.
    pub(crate) transport: Transport,
}

impl<'a, V: Version> Engine<'a, V> {
    /// The loop of a share, `connection` being what the version keeps of a slot.
    pub(crate) fn new(
        plan: &'a Plan,
        control: &'a Control,
        share: Share,
        room: &Room,
        connection: impl Fn() -> V::Http,
        http: impl FnOnce(&Kernel) -> Result<V, LoadError>,
    ) -> Result<Self, LoadError> {
        let mut kernel =
            Kernel::new(&plan.sockets).map_err(|cause| LoadError::System { what: "epoll_create1", cause })?;
        kernel.receive_buffer = room.receive_buffer;
        kernel.transport = room.transport;
        let http = http(&kernel)?;
        let clients = Clients::new(plan.sources, room.places_are_clients.then_some(share.connections));
        // Of those that are found later, when the first connection is made.
        let spread = |host: Option<&Host>| match host {
            Some(host) => Spread::new(&host.route.endpoints, plan.select, share.lane),
            None => Spread::none(plan.select, share.lane),
        };
        let addresses = (0..plan.hosts.len()).map(|place| spread(plan.hosts.get(place))).collect();
        Ok(Self {
            plan,
            control,
            scheduler: Scheduler::new(share.arrivals, share.queue, share.limit, share.end_ns, plan.timeout_ns),
            connector: Connector::new(kernel, room.slots, share.connections, share.lane, addresses),
            connections: (0..room.slots).map(|_| Connection::new(connection())).collect(),
            http,
            chooser: share.chooser,
            unread: Unread::new(room.slots as usize),
            now_ns: monotonic_ns(),
            published: Published::default(),
            fatal: None,
            buffer: vec![0; BUFFER_BYTES].into_boxed_slice(),
            tally: tally(plan, clients, share.lane),
            events: Events::new(share.events, share.observer, share.lane),
            slices: share.slices,
        })
    }

    /// Brings the shared counters up to date.
    pub(crate) fn publish(&mut self) {
        self.control.add(&mut self.published, self.tally.published(self.connector.live));
    }
}

/// The counts that a loop begins with.
fn tally(plan: &Plan, clients: Clients, lane: u32) -> Tally {
    let checks = CheckTally::new(plan.followed.as_ref().map_or(0, |followed| followed.checks.len()));
    let scopes = ScopeTally::new(plan.followed.as_ref().map_or(0, |followed| followed.scopes));
    let mut tally = Tally { clients, checks, scopes, ..Tally::new(plan.expected.clone()) };
    tally.traces = plan.traces.map(|seed| Box::new(TraceTally::new(seed, lane)));
    tally.streams = plan.streaming.map(|_| Box::new(StreamTally::new()));
    tally.grpc = plan.grpc.as_ref().map(|_| Box::new(GrpcTally::new()));
    // The slowest are listed by their traces, so that none is passed over.
    tally.slow.all = tally.traces.is_some();
    tally
}
