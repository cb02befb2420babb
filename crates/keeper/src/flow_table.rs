//! The director's table: which node has which connection, and what each client acknowledged last.
//!
//! Packets for the service's address come in at the director's interface. The filter there writes the node's Ethernet
//! address into each and sends it on; nodes answer clients directly. A connection stays with its node, also when nodes
//! come and go, until it is steered to another one.

use crate::filter::{FilterError, Interface, now_ns, pass_messages_on, refusal, reuse};
use crate::flow::{Birth, Flow, Seen, canonical};
use crate::flow_key::{KEY_BYTES, flow_of, key, mapped};
use crate::maglev::{self, NODES_MAX};
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{MapCore, MapFlags, MapHandle, libbpf_sys};
use skeleton::DirectSkelBuilder;
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

#[allow(missing_docs, unused_qualifications, unreachable_pub, clippy::all)]
#[allow(clippy::undocumented_unsafe_blocks, clippy::needless_pass_by_value, clippy::semicolon_if_nothing_returned)]
mod skeleton {
    include!(concat!(env!("OUT_DIR"), "/direct.skel.rs"));
}

/// Bytes of `struct flow` of `bpf/direct.bpf.c`.
const FLOW_BYTES: usize = 64;
/// How a node stands, as bits: as in `direct.bpf.c`.
const IS_KNOWN: u16 = 1;
const IS_DOWN: u16 = 2;
/// `SEEN` of `enum beginning` there.
const SEEN: u32 = 2;
/// The field `node` of an entry: not in the list of nodes.
const NONE: u32 = maglev::NO_NODE as u32;

/// A node, and the way to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodePlace {
    /// Its number, below [`maglev::NODES_MAX`].
    pub number: u16,
    /// The Ethernet address of its interface in the director's network.
    pub mac: [u8; 6],
}

/// What the filter has counted since it was attached first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FlowCounts {
    /// Packets sent on to a node.
    pub packets: u64,
    /// Connections entered.
    pub new_flows: u64,
    /// Packets whose connection found no room in the table: it has a node by its hash alone, and cannot be moved.
    pub table_full: u64,
    /// Packets dropped, as there was no node.
    pub no_node: u64,
    /// Datagrams of QUIC, among the packets.
    pub datagrams: u64,
    /// What routers said about packets of nodes, among the packets: ICMP "too big" and its like.
    pub icmp_errors: u64,
}

/// After which times [`FlowTable::sweep`] removes a connection.
#[derive(Debug, Clone, Copy)]
pub struct IdleTimes {
    /// The client has closed or reset it.
    pub finished: Duration,
    /// Nothing was seen of it.
    pub idle: Duration,
    /// The same for one that was steered: without its entry, packets would come to another node.
    pub steered: Duration,
}

/// The filter at the director's interface, with its table.
#[derive(Debug)]
pub struct FlowTable {
    service: SocketAddr,
    interface: Interface,
    handle: u32,
    direct: OwnedFd,
    steer: OwnedFd,
    flows: MapHandle,
    places: MapHandle,
    choices: MapHandle,
    counts: MapHandle,
    node_packets: MapHandle,
    /// Also the lock of changes.
    newest_epoch: Mutex<u64>,
}

/// `struct steering` of `bpf/direct.bpf.c`.
#[repr(C)]
#[derive(Default)]
struct Steering {
    client: [u32; 4],
    service: [u32; 4],
    ports: u32,
    node: u32,
    has_ack: u32,
    sequence_end: u32,
    ack_and_window: u64,
    timestamps: u64,
    seen_ns: u64,
    now_ns: u64,
}

/// `struct flow` of `bpf/direct.bpf.c`, as far as it is read here.
struct Entry {
    ack_and_window: u64,
    timestamps: u64,
    seen_ns: u64,
    sequence_end: u32,
    node: u32,
    has_ack: bool,
    finished: bool,
    steered: bool,
    beginning: u32,
    first: Birth,
}

impl FlowTable {
    /// Attaches the filter of a service's address to an interface of the thread's network namespace.
    ///
    /// It stays there when the process ends. A successor for the same service takes its table over, if it has
    /// CAP_SYS_ADMIN besides CAP_BPF and CAP_NET_ADMIN; otherwise each connection goes to the node of its hash.
    ///
    /// # Errors
    /// [`FilterError`].
    pub fn attach(interface: &str, service: SocketAddr, nodes: &[NodePlace]) -> Result<Self, FilterError> {
        Self::attach_weighted(interface, service, &evenly(nodes))
    }

    /// The same with weights, as [`Self::set_weighted`] has them.
    ///
    /// # Errors
    /// [`FilterError`].
    pub fn attach_weighted(
        interface: &str,
        service: SocketAddr,
        nodes: &[(NodePlace, u16)],
    ) -> Result<Self, FilterError> {
        pass_messages_on();
        let service = canonical(service);
        let interface = Interface::find(interface)?;
        let handle = handle(service);
        let old = interface.maps(handle);
        let mut object = MaybeUninit::uninit();
        let loading = |error: libbpf_rs::Error| refusal("loading the director's filter", &error);
        let mut open = DirectSkelBuilder::default().open(&mut object).map_err(loading)?;
        let maps = &mut open.maps;
        for map in [&mut maps.flows, &mut maps.places, &mut maps.choices, &mut maps.counts, &mut maps.node_packets] {
            reuse(map, &old)?;
        }
        if let Some(constants) = open.maps.rodata_data.as_deref_mut() {
            constants.service_address = words(service);
            constants.service_port = service.port().to_be();
            constants.own_mac = interface.mac;
        }
        let loaded = open.load().map_err(loading)?;
        let owned = |fd: std::os::fd::BorrowedFd<'_>| fd.try_clone_to_owned().map_err(|error| loading(error.into()));
        let table = Self {
            service,
            interface,
            handle,
            direct: owned(loaded.progs.direct.as_fd())?,
            steer: owned(loaded.progs.steer.as_fd())?,
            flows: MapHandle::try_from(&loaded.maps.flows).map_err(loading)?,
            places: MapHandle::try_from(&loaded.maps.places).map_err(loading)?,
            choices: MapHandle::try_from(&loaded.maps.choices).map_err(loading)?,
            counts: MapHandle::try_from(&loaded.maps.counts).map_err(loading)?,
            node_packets: MapHandle::try_from(&loaded.maps.node_packets).map_err(loading)?,
            newest_epoch: Mutex::new(0),
        };
        table.set_weighted(nodes)?;
        table.interface.attach(table.direct.as_fd(), handle)?;
        tracing::info!(%service, nodes = nodes.len(), "the director's filter is attached");
        Ok(table)
    }

    /// Spreads new connections evenly over these nodes from now on: [`Self::set_weighted`] with equal weights.
    ///
    /// # Errors
    /// Those of [`Self::set_weighted`].
    pub fn set_nodes(&self, nodes: &[NodePlace]) -> Result<(), FilterError> {
        self.set_weighted(&evenly(nodes))
    }

    /// Spreads new connections over these nodes from now on, by weights from 0 (none) to [`maglev::WEIGHT_MAX`]. Those that
    /// exist stay where they are, also at a node that is no longer named; its address stays known for them.
    ///
    /// # Errors
    /// [`FilterError`]; the nodes are as before for [`FilterError::NodeNumber`].
    pub fn set_weighted(&self, nodes: &[(NodePlace, u16)]) -> Result<(), FilterError> {
        if let Some((node, _)) = nodes.iter().find(|(node, _)| node.number >= NODES_MAX) {
            return Err(FilterError::NodeNumber(node.number));
        }
        let _changes = self.changes();
        let failed = |error: libbpf_rs::Error| refusal("changing the director's nodes", &error);
        for (node, _) in nodes {
            self.place(node, IS_KNOWN).map_err(failed)?;
        }
        let weights: Vec<(u16, u16)> = nodes.iter().map(|(node, weight)| (node.number, *weight)).collect();
        let entries = maglev::weighted_table(&weights);
        // The filter's table has one entry more, which fills it to whole words.
        let bytes: Vec<u8> = entries.iter().chain(&[maglev::NO_NODE]).flat_map(|entry| entry.to_ne_bytes()).collect();
        self.choices.update(&0u32.to_ne_bytes(), &bytes, MapFlags::ANY).map_err(failed)
    }

    /// Notes that a node is down, or is not any more. A SYN that is sent again then goes to another node; all else stays
    /// where it is, and new connections go where [`Self::set_weighted`] says, which takes the nodes that it names for alive.
    ///
    /// # Errors
    /// [`FilterError`]; nothing changed then.
    pub fn set_down(&self, node: &NodePlace, is_down: bool) -> Result<(), FilterError> {
        if node.number >= NODES_MAX {
            return Err(FilterError::NodeNumber(node.number));
        }
        let _changes = self.changes();
        let standing = if is_down { IS_KNOWN | IS_DOWN } else { IS_KNOWN };
        self.place(node, standing).map_err(|error| refusal("changing a node of the director", &error))
    }

    fn place(&self, node: &NodePlace, standing: u16) -> Result<(), libbpf_rs::Error> {
        let mut place = [0; 8];
        place[..6].copy_from_slice(&node.mac);
        place[6..].copy_from_slice(&standing.to_ne_bytes());
        self.places.update(&u32::from(node.number).to_ne_bytes(), &place, MapFlags::ANY)
    }

    /// Sends the connection to a node from now on; what was seen of its client so far, if it has acknowledged anything.
    ///
    /// A connection that is not known is entered. Each packet is either counted in what is returned or goes to the node.
    ///
    /// # Errors
    /// [`FilterError`]; nothing changed then.
    pub fn steer(&self, flow: &Flow, node: u16, epoch: u64) -> Result<Option<Seen>, FilterError> {
        let flow = self.of_service(flow)?;
        let mut newest = self.changes();
        if epoch < *newest {
            return Err(FilterError::OldEpoch { asked: epoch, newest: *newest });
        }
        let failed = |error: libbpf_rs::Error| refusal("steering a connection", &error);
        let number = u32::from(node).to_ne_bytes();
        let place = if node < NODES_MAX { self.places.lookup(&number, MapFlags::ANY).map_err(failed)? } else { None };
        if place.is_none_or(|place| place.get(6..) == Some(&[0, 0])) {
            return Err(FilterError::UnknownNode(node));
        }
        *newest = epoch;
        let mut asked = Steering {
            client: words(flow.client),
            service: words(flow.service),
            ports: ports(&flow),
            node: u32::from(node),
            ..Steering::default()
        };
        if self.run_steer(&mut asked)? != 0 {
            return Err(FilterError::TableFull);
        }
        let age = Duration::from_nanos(asked.now_ns.saturating_sub(asked.seen_ns));
        let seen = seen(asked.ack_and_window, asked.timestamps, asked.sequence_end, age);
        Ok((asked.has_ack != 0).then_some(seen))
    }

    /// What was seen last of the connection's client, if it has acknowledged anything.
    ///
    /// # Errors
    /// [`FilterError`].
    pub fn seen(&self, flow: &Flow) -> Result<Option<Seen>, FilterError> {
        let entry = self.entry(&self.of_service(flow)?)?.filter(|entry| entry.has_ack);
        Ok(entry.map(|entry| {
            let age = Duration::from_nanos(now_ns().saturating_sub(entry.seen_ns));
            seen(entry.ack_and_window, entry.timestamps, entry.sequence_end, age)
        }))
    }

    /// The numbers with which the connection began, if the table has seen that and the socket at its node is the one that
    /// began it: a connection that was steered has another one.
    ///
    /// # Errors
    /// [`FilterError`].
    pub fn birth(&self, flow: &Flow) -> Result<Option<Birth>, FilterError> {
        let entry = self.entry(&self.of_service(flow)?)?;
        Ok(entry.filter(|entry| entry.beginning == SEEN && !entry.steered).map(|entry| entry.first))
    }

    /// The node that has the connection, if the table knows it.
    ///
    /// # Errors
    /// [`FilterError`].
    pub fn node(&self, flow: &Flow) -> Result<Option<u16>, FilterError> {
        let entry = self.entry(&self.of_service(flow)?)?.filter(|entry| entry.node != NONE);
        Ok(entry.and_then(|entry| u16::try_from(entry.node).ok()))
    }

    /// The node to which the connection's packets go: by its entry, or by its hash.
    ///
    /// # Errors
    /// [`FilterError`].
    pub fn goes_to(&self, flow: &Flow) -> Result<Option<u16>, FilterError> {
        if let Some(node) = self.node(flow)? {
            return Ok(Some(node));
        }
        let failed = |error: libbpf_rs::Error| refusal("reading the flow table", &error);
        let choices = self.choices.lookup(&0u32.to_ne_bytes(), MapFlags::ANY).map_err(failed)?.unwrap_or_default();
        Ok(chosen(&choices, flow))
    }

    /// Removes connections that are over or idle; how many. It reads the whole table: call it each few seconds.
    ///
    /// # Errors
    /// [`FilterError`].
    pub fn sweep(&self, times: &IdleTimes) -> Result<usize, FilterError> {
        let failed = |error: libbpf_rs::Error| refusal("removing connections", &error);
        let now = now_ns();
        let mut old = Vec::new();
        // The walk ends with the table's size at the latest: keys that are entered meanwhile may make it longer.
        for key in self.flows.keys().take(self.flows.max_entries() as usize * 2) {
            let Some(value) = self.flows.lookup(&key, MapFlags::ANY).map_err(failed)? else { continue };
            let Some(entry) = Entry::read(&value) else { continue };
            let time = match (entry.finished, entry.steered) {
                (true, _) => times.finished,
                (false, true) => times.steered,
                (false, false) => times.idle,
            };
            if Duration::from_nanos(now.saturating_sub(entry.seen_ns)) >= time {
                old.push(key);
            }
        }
        Ok(old.iter().filter(|key| self.flows.delete(key).is_ok()).count())
    }

    /// The connections that are not where their hash says, or were steered: what another director has to be told to have
    /// the same table. Those that are over are left out. It reads the whole table: call it each few seconds.
    ///
    /// # Errors
    /// [`FilterError`].
    pub fn differing(&self) -> Result<Vec<(Flow, u16)>, FilterError> {
        let failed = |error: libbpf_rs::Error| refusal("reading the flow table", &error);
        let choices = self.choices.lookup(&0u32.to_ne_bytes(), MapFlags::ANY).map_err(failed)?.unwrap_or_default();
        let mut found = Vec::new();
        for key in self.flows.keys().take(self.flows.max_entries() as usize * 2) {
            let Some(value) = self.flows.lookup(&key, MapFlags::ANY).map_err(failed)? else { continue };
            let (Some(entry), Some(flow)) = (Entry::read(&value), flow_of(&key)) else { continue };
            let Some(node) = u16::try_from(entry.node).ok().filter(|_| entry.node != NONE && !entry.finished) else {
                continue;
            };
            if entry.steered || chosen(&choices, &flow) != Some(node) {
                found.push((flow, node));
            }
        }
        Ok(found)
    }

    /// Removes a connection from the table; its next packet goes where its hash says. False if it is not there.
    ///
    /// # Errors
    /// [`FilterError`].
    pub fn forget(&self, flow: &Flow) -> Result<bool, FilterError> {
        let flow = self.of_service(flow)?;
        let _changes = self.changes();
        match self.flows.delete(&key(&flow)) {
            Err(error) if error.kind() == libbpf_rs::ErrorKind::NotFound => Ok(false),
            deleted => deleted.map(|()| true).map_err(|error| refusal("removing a connection", &error)),
        }
    }

    /// What the filter has counted.
    ///
    /// # Errors
    /// [`FilterError`].
    pub fn counts(&self) -> Result<FlowCounts, FilterError> {
        let failed = |error: libbpf_rs::Error| refusal("reading the director's counts", &error);
        let of_cpus = self.counts.lookup_percpu(&0u32.to_ne_bytes(), MapFlags::ANY).map_err(failed)?;
        let mut sum = FlowCounts::default();
        for cpu in of_cpus.unwrap_or_default() {
            let number = |at: usize| number(&cpu, at * 8);
            sum.packets += number(0);
            sum.new_flows += number(1);
            sum.table_full += number(2);
            sum.no_node += number(3);
            sum.datagrams += number(4);
            sum.icmp_errors += number(5);
        }
        Ok(sum)
    }

    /// Packets sent on to a node since the filter was attached first.
    ///
    /// # Errors
    /// [`FilterError`].
    pub fn packets_to(&self, node: u16) -> Result<u64, FilterError> {
        let failed = |error: libbpf_rs::Error| refusal("reading the director's counts", &error);
        let of_cpus = self.node_packets.lookup_percpu(&u32::from(node).to_ne_bytes(), MapFlags::ANY).map_err(failed)?;
        Ok(of_cpus.unwrap_or_default().iter().map(|cpu| number(cpu, 0)).sum())
    }

    /// The mean time of a run of the filter over a frame of Ethernet, for benchmarks; none if it does not send it on.
    ///
    /// # Errors
    /// [`FilterError`].
    #[doc(hidden)]
    pub fn cost(&self, frame: &[u8], runs: u32) -> Result<Option<Duration>, FilterError> {
        crate::packet_cost::cost(self.direct.as_fd(), frame, runs)
    }

    /// Takes the filter away; from within the interface's network namespace. Packets for the service then come to the
    /// director's own stack, which refuses them.
    ///
    /// # Errors
    /// [`FilterError`].
    pub fn detach(self) -> Result<(), FilterError> {
        self.interface.detach(self.direct.as_fd(), self.handle)
    }

    fn changes(&self) -> MutexGuard<'_, u64> {
        // A number is whole also where another thread panicked.
        self.newest_epoch.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn of_service(&self, flow: &Flow) -> Result<Flow, FilterError> {
        let flow = flow.canonical();
        if flow.service == self.service { Ok(flow) } else { Err(FilterError::OtherService(flow)) }
    }

    fn entry(&self, flow: &Flow) -> Result<Option<Entry>, FilterError> {
        let value = self.flows.lookup(&key(flow), MapFlags::ANY);
        let value = value.map_err(|error| refusal("reading the flow table", &error))?;
        Ok(value.as_deref().and_then(Entry::read))
    }

    /// Runs `steer` of `bpf/direct.bpf.c` in the kernel; what it returns.
    fn run_steer(&self, asked: &mut Steering) -> Result<u32, FilterError> {
        // SAFETY: plain numbers, for which zeros are valid.
        let mut options: libbpf_sys::bpf_test_run_opts = unsafe { std::mem::zeroed() };
        options.sz = size_of_val(&options) as _;
        options.ctx_in = (&raw mut *asked).cast_const().cast();
        options.ctx_size_in = size_of::<Steering>() as u32;
        // SAFETY: for a program of this type the kernel reads the context and writes it back, within its size; it lives
        // through the call.
        let answer = unsafe { libbpf_sys::bpf_prog_test_run_opts(self.steer.as_raw_fd(), &raw mut options) };
        if answer < 0 {
            let error = std::io::Error::last_os_error();
            return Err(refusal("steering a connection", &error.into()));
        }
        Ok(options.retval)
    }
}

impl Entry {
    fn read(value: &[u8]) -> Option<Self> {
        let half = |at: usize| {
            value.get(at..at + 4).and_then(|bytes| bytes.first_chunk()).map_or(0, |bytes| u32::from_ne_bytes(*bytes))
        };
        (value.len() == FLOW_BYTES).then(|| Self {
            ack_and_window: number(value, 0),
            timestamps: number(value, 8),
            seen_ns: number(value, 16),
            sequence_end: half(32),
            node: half(36),
            has_ack: half(40) != 0,
            finished: half(44) != 0,
            steered: half(48) != 0,
            beginning: half(52),
            first: Birth { send: half(56), receive: half(60) },
        })
    }
}

fn evenly(nodes: &[NodePlace]) -> Vec<(NodePlace, u16)> {
    nodes.iter().map(|node| (*node, 1)).collect()
}

/// The node of a flow's hash in `struct choice` of `bpf/direct.bpf.c`.
fn chosen(choices: &[u8], flow: &Flow) -> Option<u16> {
    let at = maglev::entry(flow.client) * 2;
    let node = choices.get(at..at + 2).and_then(|node| node.first_chunk()).map(|node| u16::from_ne_bytes(*node));
    node.filter(|node| *node != maglev::NO_NODE)
}

fn seen(ack_and_window: u64, timestamps: u64, sequence_end: u32, age: Duration) -> Seen {
    let halves = |both: u64| ((both >> 32) as u32, both as u32);
    let (ack, window) = halves(ack_and_window);
    let (ts_value, ts_echo) = halves(timestamps);
    Seen { ack, sequence_end, window, ts_value, ts_echo, age }
}

/// A number of eight bytes of a map's value; 0 behind its end.
fn number(value: &[u8], at: usize) -> u64 {
    value.get(at..at + 8).and_then(|bytes| bytes.first_chunk()).map_or(0, |bytes| u64::from_ne_bytes(*bytes))
}

/// An address as the filter has it: four words in network order.
fn words(address: SocketAddr) -> [u32; 4] {
    let octets = mapped(address).octets();
    [0, 4, 8, 12].map(|at| u32::from_ne_bytes([octets[at], octets[at + 1], octets[at + 2], octets[at + 3]]))
}

/// Both ports as the end of a key has them.
fn ports(flow: &Flow) -> u32 {
    let key = key(flow);
    u32::from_ne_bytes([key[KEY_BYTES - 4], key[KEY_BYTES - 3], key[KEY_BYTES - 2], key[KEY_BYTES - 1]])
}

/// A service's filter has a handle of its own, so that one interface can have several.
fn handle(service: SocketAddr) -> u32 {
    let hash = key(&Flow { client: service, service })
        .iter()
        .fold(0x811c_9dc5u32, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193));
    // The kernel takes zero as "choose one", and filters of other programs begin with one.
    (hash >> 1).max(0x100)
}
