//! Numbers of one host among those of several: its tasks, sockets, CPUs and all else that events refer to by number, so
//! that those of two hosts never meet.

use super::clock::HostClock;
use std::collections::HashMap;
use std::rc::Rc;
use weir_wire::asked::Question;
use weir_wire::client::{ClientConnection, ClientRequest, lane_of_other_host};
use weir_wire::quic::Quic;
use weir_wire::socket::{SocketOpen, namespace_on_host};
use weir_wire::task::{lane_on_host, task_on_host};
use weir_wire::trace_context::{TRACE, TraceOf};
use weir_wire::watched::{NAMED_DEVICE, NAMED_FILE, NAMED_INTERRUPT, NAMED_TASK};
use weir_wire::{Kind, MAX_SLOTS, Record, Slot, text_from_slots, text_slots};

/// Lanes of generators on other hosts than the first; more are damage.
const MOST_LANES: usize = 1 << 12;
/// Numbers of sockets that were made of addresses in memory, where the kernel gave none: they have this bit.
const OF_ADDRESS: u32 = 1 << 31;
/// Keys of 64 bits are addresses in memory or numbers of files and groups: these bits tell the host.
const KEY_SHIFT: u32 = 52;
/// The same in the number of a device (major << 20 | minor), and of a file system without one, whose major is 0.
const DEVICE_SHIFT: u32 = 29;
const SYSTEM_SHIFT: u32 = 17;
/// The same in the number of an interrupt, of which there are 2^16.
const INTERRUPT_SHIFT: u32 = 13;
const LOW: u64 = 0xffff_ffff;

/// What a host's numbers become.
#[derive(Debug)]
pub(super) struct Numbers {
    host: u32,
    /// Its name, behind those of its tasks and files.
    name: String,
    clock: Rc<HostClock>,
    /// Its sockets' numbers from the first one on become those from the second one on.
    sockets: (u32, u32),
    lanes: HashMap<u32, u32>,
    slots: [Slot; MAX_SLOTS],
    /// Samples of stacks that were left out.
    pub(super) stacks: u64,
}

impl Numbers {
    pub(super) fn new(host: u32, name: String, clock: Rc<HostClock>, sockets: (u32, u32)) -> Self {
        Self { host, name, clock, sockets, lanes: HashMap::new(), slots: [[0; 4]; MAX_SLOTS], stacks: 0 }
    }

    /// A socket of this host among those of all.
    pub(super) fn socket(&self, id: u32) -> u32 {
        match (id, self.sockets) {
            (0, _) => 0,
            _ if id & OF_ADDRESS != 0 => id ^ (self.host.wrapping_mul(0x0f0f_0f0f) & !OF_ADDRESS),
            (_, (first, becomes)) => id.wrapping_sub(first).wrapping_add(becomes) & !OF_ADDRESS,
        }
    }

    /// The record with this host's numbers, whose own time is by the common clock already; `None` if it is of no use
    /// beside the first host's.
    pub(super) fn apply(&mut self, record: &Record, payload: &[Slot]) -> Option<(Record, &[Slot])> {
        let kind = Kind::from_code(record.kind)?;
        let length = payload.len().min(MAX_SLOTS);
        self.slots[..length].copy_from_slice(&payload[..length]);
        let told = match kind {
            Kind::ClientConnection | Kind::ClientRequest | Kind::ClientDropped | Kind::ClientLane => {
                self.client(kind, record, length)?
            }
            Kind::Named => return self.named(record, payload),
            Kind::TaskName => {
                let halves = self.tasks(record.a);
                return Some(self.text(Record { a: halves, ..*record }, &text_from_slots(payload)));
            }
            Kind::SocketOpen => {
                let open = SocketOpen::read(record, payload)?;
                let netns = namespace_on_host(open.netns, self.host);
                let (told, slots) =
                    SocketOpen { socket: self.socket(open.socket), netns, ..open }.write(record.time_ns, 0);
                self.slots[..slots.len()].copy_from_slice(&slots);
                Record { flags: record.flags, lane: self.cpu(record.lane), ..told }
            }
            Kind::Asked => {
                let asked = Question::read(record, payload)?;
                let (socket, pid) = (self.socket(asked.socket), task_on_host(asked.pid, self.host));
                let (asked_ns, answered_ns) = (self.clock.at(asked.asked_ns), self.clock.at(asked.answered_ns));
                let (told, slots) = Question { socket, pid, asked_ns, answered_ns, ..asked }.write(record.time_ns);
                self.slots[..slots.len()].copy_from_slice(&slots);
                Record { lane: self.cpu(record.lane), ..told }
            }
            _ => self.kernel(kind, record)?,
        };
        Some((told, &self.slots[..length]))
    }

    fn cpu(&self, lane: u32) -> u32 {
        lane_on_host(lane, self.host)
    }

    /// Two tasks in the halves of an operand.
    fn tasks(&self, halves: u64) -> u64 {
        let task = |pid: u64| u64::from(task_on_host((pid & LOW) as u32, self.host));
        task(halves) | task(halves >> 32) << 32
    }

    /// A socket in the low half of an operand.
    fn socket_below(&self, halves: u64) -> u64 {
        u64::from(self.socket(halves as u32)) | halves & !LOW
    }

    fn key(&self, key: u64) -> u64 {
        if key == 0 { 0 } else { key ^ u64::from(self.host) << KEY_SHIFT }
    }

    fn device(&self, device: u64) -> u64 {
        match device {
            0 => 0,
            system if system >> 20 == 0 => system ^ u64::from(self.host) << SYSTEM_SHIFT,
            _ => device ^ u64::from(self.host) << DEVICE_SHIFT,
        }
    }

    /// An event of the kernel or of a probe.
    fn kernel(&mut self, kind: Kind, record: &Record) -> Option<Record> {
        let (a, b, first) = (record.a, record.b, self.host == 0);
        let low = |task: u64| task & LOW | a & !LOW;
        let (a, b) = match kind {
            Kind::Switch | Kind::Waking | Kind::TaskState => (self.tasks(a), b),
            Kind::Fork => (self.tasks(a), self.tasks(b)),
            Kind::Exec | Kind::Exit | Kind::LockEnd | Kind::TimerWakeup => (low(self.tasks(a)), b),
            Kind::FileWait => (low(self.tasks(a)), self.key(b)),
            Kind::LockWait => (self.tasks(a), self.key(b)),
            Kind::DiskRequest => (self.tasks(a) & LOW | self.device(a >> 32) << 32, b),
            Kind::Interrupt => (a ^ u64::from(self.host) << (48 + INTERRUPT_SHIFT), b),
            Kind::Throttled => (a, self.key(b)),
            Kind::CgroupMember => (low(self.tasks(a)), self.key(b)),
            Kind::SocketReady | Kind::SocketRecv | Kind::SocketSend | Kind::SocketState | Kind::ListenReady => {
                (self.socket_below(a), b)
            }
            // The first of two has a trace's number, which is the same on every host.
            Kind::TraceContext if record.flags != TRACE && matches!(TraceOf::read(record), TraceOf::Socket(_)) => {
                (a, self.socket_below(b))
            }
            // Of a datagram the socket's number, of what a server's task tells its own number of a connection.
            Kind::Quic if Quic::read(record).is_some_and(Quic::is_of_socket) => (self.socket_below(a), b),
            Kind::SocketPeer => (self.socket_below(a) & LOW | self.socket_below(a >> 32) << 32, b),
            Kind::Window => (a, self.clock.at(b)),
            // The number of a task, where a flag says so.
            Kind::ProbeHit if record.flags & 1 != 0 => (self.tasks(a), b),
            Kind::StackSample | Kind::StackNode | Kind::StackObject | Kind::StackSymbol | Kind::StackNote if !first => {
                self.stacks += u64::from(kind == Kind::StackSample);
                return None;
            }
            Kind::StackSample => (a, self.clock.at(b)),
            // The real time, and what optional sources cost, is told of the first host.
            Kind::ClockPair | Kind::SourceCost if !first => return None,
            _ => (a, b),
        };
        Some(Record { lane: self.cpu(record.lane), a, b, ..*record })
    }

    fn named(&mut self, record: &Record, payload: &[Slot]) -> Option<(Record, &[Slot])> {
        let (a, b) = match record.flags {
            NAMED_TASK => (self.tasks(record.a), record.b),
            NAMED_DEVICE => (self.device(record.a), record.b),
            NAMED_INTERRUPT => (record.a ^ u64::from(self.host) << INTERRUPT_SHIFT, record.b),
            NAMED_FILE => (self.key(record.a), self.device(record.b)),
            _ => (self.key(record.a), record.b),
        };
        Some(self.text(Record { a, b, ..*record }, &text_from_slots(payload)))
    }

    /// A record with a name, behind which the host's stands.
    fn text(&mut self, record: Record, name: &str) -> (Record, &[Slot]) {
        let slots = text_slots(&format!("{name} on {}", self.name));
        let length = slots.len().min(MAX_SLOTS);
        self.slots[..length].copy_from_slice(&slots[..length]);
        (Record { slots: length as u8, lane: self.cpu(record.lane), ..record }, &self.slots[..length])
    }

    /// What a load generator says: its times are by its own host's clock.
    fn client(&mut self, kind: Kind, record: &Record, length: usize) -> Option<Record> {
        let lane = self.client_lane(record.lane)?;
        let at = |own_ns: u64| if own_ns == 0 { 0 } else { self.clock.at(own_ns) };
        let told = match kind {
            Kind::ClientLane => Record { a: self.tasks(record.a), ..*record },
            Kind::ClientConnection => {
                let told = ClientConnection::read(record, &self.slots[..length])?;
                Record { b: at(told.connect_start_ns), ..*record }
            }
            Kind::ClientRequest => {
                ClientRequest::read(record, &self.slots[..length])?;
                self.slots[0] = self.slots[0].map(at);
                *record
            }
            _ => Record { b: at(record.b), ..*record },
        };
        Some(Record { lane, ..told })
    }

    fn client_lane(&mut self, lane: u32) -> Option<u32> {
        if self.host == 0 {
            return Some(lane);
        }
        let next = self.lanes.len();
        if let Some(known) = self.lanes.get(&lane) {
            return Some(*known);
        }
        let fresh = lane_of_other_host(self.host, next as u32);
        (next < MOST_LANES).then(|| *self.lanes.entry(lane).or_insert(fresh))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use weir_wire::socket::{MOST_HOSTS, same_host};
    use weir_wire::task::{Switch, host_of_lane, host_of_task, number_on_its_host};

    fn numbers(host: u32) -> Numbers {
        let first = 1 + host * 1_000;
        Numbers::new(host, format!("h{host}"), Rc::default(), (500, first))
    }

    #[test]
    fn a_switch_and_a_name_are_those_of_their_host() {
        let mut other = numbers(2);
        let switch = Switch { prev: 0, next: 4_711, prev_state: 1, syscall: 232, descriptor: 7 };
        let (told, _) = other.apply(&switch.write(9, 3), &[]).expect("told");
        let read = Switch::read(&told).expect("a switch");
        assert_eq!((read.prev, number_on_its_host(read.next), read.next == 4_711), (0, 4_711, false));
        assert_eq!((read.prev_state, read.syscall, read.descriptor, host_of_lane(told.lane)), (1, 232, 7, 2));
        let a = 4_711 | 4_700 << 32;
        let name = Record { kind: Kind::TaskName as u16, slots: 1, a, ..Record::default() };
        let (told, slots) = other.apply(&name, &text_slots("nginx")).expect("told");
        assert_eq!((told.a as u32, text_from_slots(slots).as_str()), (read.next, "nginx on h2"));
        assert_eq!(usize::from(told.slots), slots.len());
    }

    #[test]
    fn what_only_the_first_host_tells_is_left_out_and_stacks_are_counted() {
        let sample = Record { kind: Kind::StackSample as u16, ..Record::default() };
        let (mut first, mut other) = (numbers(0), numbers(1));
        assert!(first.apply(&sample, &[[7; 4]]).is_some() && other.apply(&sample, &[[7; 4]]).is_none());
        assert_eq!((first.stacks, other.stacks), (0, 1));
        let pair = Record { kind: Kind::ClockPair as u16, ..sample };
        assert!(first.apply(&pair, &[]).is_some() && other.apply(&pair, &[]).is_none());
    }

    proptest! {
        #[test]
        fn numbers_of_two_hosts_never_meet(pid in 1u32..1 << 22, other in 1u32..1 << 22, socket in 500u32..1_500, peer in 500u32..1_500, netns in 0xe000_0000u32.., one in 0..MOST_HOSTS, two in 0..MOST_HOSTS) {
            prop_assume!(one != two);
            let (a, b) = (numbers(one), numbers(two));
            prop_assert_ne!(a.tasks(u64::from(pid)), b.tasks(u64::from(other)));
            prop_assert_ne!(a.socket(socket), b.socket(peer));
            prop_assert!(!same_host(namespace_on_host(netns, one), namespace_on_host(netns, two)));
            prop_assert!(same_host(namespace_on_host(netns, one), namespace_on_host(netns ^ 1, one)));
            prop_assert_eq!((task_on_host(pid, 0), namespace_on_host(netns, 0)), (pid, netns));
            prop_assert_eq!((host_of_task(a.tasks(u64::from(pid)) as u32), host_of_lane(b.cpu(pid))), (one, two));
        }

        #[test]
        fn no_record_breaks_it(raw: [u64; 4], kind in 0usize..weir_wire::KINDS.len(), payload in proptest::collection::vec(any::<Slot>(), 0..10), host in 0..MOST_HOSTS) {
            let record = Record { kind: weir_wire::KINDS[kind].code, ..Record::from_slot(raw) };
            let mut numbers = numbers(host);
            if let Some((told, slots)) = numbers.apply(&record, &payload) {
                prop_assert!(told.kind == record.kind && told.time_ns == record.time_ns && slots.len() <= MAX_SLOTS);
            }
        }
    }
}
