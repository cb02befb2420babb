//! From the probes' 16-byte events to records.

use crate::named::Naming;
use crate::ring::RawEvent;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use weir_wire::socket::SocketOpen;
use weir_wire::task::{Switch, TaskState};
use weir_wire::{Kind, Record, Slot, text_slots};

/// Pieces of a socket's opening, as numbered in spine.h.
const PIECES: usize = 8;
const BASES: usize = 0;
const PORTS: usize = 1;
const IDENTITY: usize = 2;
const IPV4: usize = 3;
const LOCAL_HIGH: usize = 4;
const REMOTE_LOW: usize = 7;
/// Pieces of a task's name, as numbered in spine.h: whose it is, its first eight characters, its last eight.
const NAME_PIECES: usize = 3;
/// Kinds that the probes write as two events in a row, for their two operands: `emit_pair` in ring.h.
const PAIRS: &[Kind] =
    &[Kind::DiskRequest, Kind::FileWait, Kind::LockWait, Kind::StreamFrame, Kind::AskedCall, Kind::Quic];
/// The sub-code's bit of a pair's second event.
const SECOND: u32 = 0x2000;

/// Expands the events of one CPU.
#[derive(Debug)]
pub struct Expander {
    cpu: u32,
    /// An opening whose pieces are still coming; they stand in a row, but an interrupt's events may stand between.
    open: [Option<u64>; PIECES],
    open_time_ns: u64,
    /// First halves of pairs whose second half is still to come; interrupts may have put other events between.
    halves: Vec<RawEvent>,
    naming: Naming,
    /// A task's new name whose pieces are still coming, and its time.
    rename: [Option<u64>; NAME_PIECES],
    rename_time_ns: u64,
}

/// Halves that are kept; more are damage, or the second was overwritten.
const MOST_HALVES: usize = 8;

impl Expander {
    /// For one CPU.
    #[must_use]
    pub fn new(cpu: u32) -> Self {
        Self {
            cpu,
            open: [None; PIECES],
            open_time_ns: 0,
            halves: Vec::new(),
            naming: Naming::default(),
            rename: [None; NAME_PIECES],
            rename_time_ns: 0,
        }
    }

    /// Expands two words as they stand in the ring, their time given apart.
    pub fn push(&mut self, time_ns: u64, head: u64, argument: u64, take: &mut dyn FnMut(Record, &[Slot])) {
        self.expand(RawEvent { time_ns, code: head as u32 & 0xf_ffff, argument }, take);
    }

    pub(crate) fn expand(&mut self, event: RawEvent, take: &mut dyn FnMut(Record, &[Slot])) {
        let (code, sub, argument) = ((event.code & 63) as u8, event.code >> 6, event.argument);
        let Some(kind) = Kind::from_bpf(code) else { return };
        let record =
            Record { time_ns: event.time_ns, kind: kind as u16, lane: self.cpu, a: argument, ..Record::default() };
        match kind {
            Kind::Switch => {
                let switch = Switch {
                    prev: argument as u32 & 0xff_ffff,
                    next: (argument >> 40) as u32,
                    prev_state: (sub & 31) as u8,
                    syscall: (sub >> 5) as u16,
                    descriptor: (argument >> 24) as u16,
                };
                take(switch.write(event.time_ns, self.cpu), &[]);
            }
            Kind::TaskState => {
                let told = TaskState {
                    pid: argument as u32 & 0xff_ffff,
                    tgid: (argument >> 40) as u32,
                    state: (sub & 31) as u8,
                    syscall: (sub >> 5) as u16,
                    descriptor: (argument >> 24) as u16,
                };
                take(told.write(event.time_ns, self.cpu), &[]);
            }
            Kind::SocketOpen => self.piece(event.time_ns, sub as usize, argument, take),
            Kind::Named => {
                if let Some((record, slots)) = self.naming.piece(event.time_ns, self.cpu, sub as usize, argument) {
                    take(record, &slots);
                }
            }
            Kind::TaskName => {
                if let Some((task, name)) = self.renamed(event.time_ns, sub as usize, argument) {
                    take(Record { a: task, ..record }, &text_slots(&name));
                }
            }
            Kind::SocketState => take(Record { b: u64::from(sub & 15) | u64::from(sub >> 4 & 15) << 8, ..record }, &[]),
            _ if PAIRS.contains(&kind) => self.half(event, record, take),
            _ => take(Record { flags: sub as u8, b: u64::from(sub >> 8), ..record }, &[]),
        }
    }

    fn half(&mut self, event: RawEvent, record: Record, take: &mut dyn FnMut(Record, &[Slot])) {
        let sub = event.code >> 6;
        if sub & SECOND == 0 {
            if self.halves.len() >= MOST_HALVES {
                self.halves.remove(0);
            }
            self.halves.push(event);
            return;
        }
        let first = |half: &RawEvent| half.time_ns == event.time_ns && half.code | SECOND << 6 == event.code;
        if let Some(index) = self.halves.iter().position(first) {
            let first = self.halves.remove(index);
            take(Record { flags: sub as u8, a: first.argument, b: event.argument, ..record }, &[]);
        }
    }

    fn piece(&mut self, time_ns: u64, piece: usize, argument: u64, take: &mut dyn FnMut(Record, &[Slot])) {
        if piece == BASES {
            self.open = [None; PIECES];
            self.open_time_ns = time_ns;
        }
        if piece >= PIECES || time_ns != self.open_time_ns {
            return;
        }
        self.open[piece] = Some(argument);
        if piece != IPV4 && piece != REMOTE_LOW {
            return;
        }
        if let Some(open) = self.assemble() {
            let (record, slots) = open.write(time_ns, self.cpu);
            take(record, &slots);
        }
        self.open = [None; PIECES];
    }

    /// Takes a piece of a task's new name; the task and its name when it was the last one.
    fn renamed(&mut self, time_ns: u64, piece: usize, argument: u64) -> Option<(u64, String)> {
        if piece == 0 {
            (self.rename, self.rename_time_ns) = ([None; NAME_PIECES], time_ns);
        }
        if time_ns != self.rename_time_ns {
            return None;
        }
        *self.rename.get_mut(piece)? = Some(argument);
        let [Some(task), Some(begin), Some(end)] = self.rename else { return None };
        self.rename = [None; NAME_PIECES];
        let bytes: Vec<u8> =
            [begin, end].into_iter().flat_map(u64::to_le_bytes).take_while(|byte| *byte != 0).collect();
        Some((task, String::from_utf8_lossy(&bytes).into_owned()))
    }

    fn assemble(&self) -> Option<SocketOpen> {
        let (bases, ports, identity) = (self.open[BASES]?, self.open[PORTS]?, self.open[IDENTITY]?);
        let (local, remote) = if let Some(both) = self.open[IPV4] {
            (ipv4(both as u32), ipv4((both >> 32) as u32))
        } else {
            let words = &self.open[LOCAL_HIGH..=REMOTE_LOW];
            (ipv6(words[0]?, words[1]?), ipv6(words[2]?, words[3]?))
        };
        Some(SocketOpen {
            socket: bases as u32,
            receive_base: (bases >> 32) as u32,
            send_base: ports as u32,
            cookie: u64::from(bases as u32) | identity << 32,
            netns: (identity >> 32) as u32,
            local: SocketAddr::new(local, (ports >> 32) as u16),
            remote: SocketAddr::new(remote, (ports >> 48) as u16),
        })
    }
}

/// An address whose bytes stand in memory in network order.
fn ipv4(word: u32) -> IpAddr {
    IpAddr::V4(Ipv4Addr::from(word.to_ne_bytes()))
}

/// The same for IPv6, two 32-bit groups a word; mapped IPv4 comes back as IPv4.
fn ipv6(high: u64, low: u64) -> IpAddr {
    let mut bytes = [0; 16];
    for (chunk, group) in
        bytes.chunks_exact_mut(4).zip([high as u32, (high >> 32) as u32, low as u32, (low >> 32) as u32])
    {
        chunk.copy_from_slice(&group.to_ne_bytes());
    }
    let v6 = Ipv6Addr::from(bytes);
    v6.to_ipv4_mapped().map_or(IpAddr::V6(v6), IpAddr::V4)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn expand(words: &[(u64, u64)]) -> Vec<(Record, Vec<Slot>)> {
        let mut expander = Expander::new(3);
        let mut out = Vec::new();
        for (head, argument) in words {
            expander.push(head >> 20, *head, *argument, &mut |record, slots| out.push((record, slots.to_vec())));
        }
        out
    }

    fn head(time: u64, kind: Kind, sub: u64) -> u64 {
        time << 20 | sub << 6 | u64::from(kind.spec().bpf)
    }

    #[test]
    fn a_switch_keeps_all_its_parts() {
        let (prev, next, descriptor) = (4_000_000u64, 12u64, 0xabcdu64);
        let out = expand(&[(head(9, Kind::Switch, 1 | 232 << 5), prev | descriptor << 24 | next << 40)]);
        let switch = Switch { prev: 4_000_000, next: 12, prev_state: 1, syscall: 232, descriptor: 0xabcd };
        assert_eq!(Switch::read(&out[0].0), Some(switch));
        assert_eq!(out[0].0.lane, 3);
    }

    #[test]
    fn a_tasks_state_keeps_all_its_parts() {
        let (pid, descriptor, tgid) = (4_000_000u64, 0xabcdu64, 3_999_999u64);
        let out = expand(&[(head(9, Kind::TaskState, 1 | 232 << 5), pid | descriptor << 24 | tgid << 40)]);
        let told = TaskState { pid: 4_000_000, tgid: 3_999_999, state: 1, syscall: 232, descriptor: 0xabcd };
        assert_eq!(TaskState::read(&out[0].0), Some(told));
    }

    #[test]
    fn an_opening_is_put_together_around_an_interrupts_events() {
        let loopback = u64::from(u32::from_ne_bytes([127, 0, 0, 1]));
        let out = expand(&[
            (head(5, Kind::SocketOpen, 0), 77 | 1000 << 32),
            (head(6, Kind::SocketReady, 0), 1),
            (head(5, Kind::SocketOpen, 1), 2000 | 80 << 32 | 40_000 << 48),
            (head(5, Kind::SocketOpen, 2), 1 | 4026531840 << 32),
            (head(5, Kind::SocketOpen, 3), loopback | loopback << 32),
        ]);
        let open = out.iter().find_map(|(record, slots)| SocketOpen::read(record, slots)).expect("an opening");
        assert_eq!((open.socket, open.receive_base, open.send_base), (77, 1000, 2000));
        assert_eq!(open.cookie, 77 | 1 << 32);
        assert_eq!(open.local.to_string(), "127.0.0.1:80");
        assert_eq!(open.remote.to_string(), "127.0.0.1:40000");
        assert_eq!(out.len(), 2);
    }

    #[test]
    fn a_tasks_new_name_is_put_together_around_an_interrupts_events() {
        let text = |text: &[u8; 8]| u64::from_le_bytes(*text);
        let whole = [
            (head(5, Kind::TaskName, 0), 7 | 6 << 32),
            (head(6, Kind::SocketReady, 0), 1),
            (head(5, Kind::TaskName, 1), text(b"batch-im")),
            (head(5, Kind::TaskName, 2), text(b"porter\0x")),
        ];
        let out = expand(&whole);
        let (record, slots) = &out[1];
        assert_eq!((record.kind, record.a, record.time_ns), (Kind::TaskName as u16, 7 | 6 << 32, 5));
        assert_eq!(weir_wire::text_from_slots(slots), "batch-importer");
        assert!(expand(&whole[..3]).iter().all(|(record, _)| record.kind != Kind::TaskName as u16));
        assert!(expand(&whole[2..]).is_empty(), "a name without its beginning belongs to no task");
    }

    #[test]
    fn half_an_opening_is_nothing() {
        assert!(expand(&[(head(5, Kind::SocketOpen, 0), 77), (head(5, Kind::SocketOpen, 3), 1)]).is_empty());
        assert!(expand(&[(head(5, Kind::SocketOpen, 3), 1), (head(6, Kind::SocketOpen, 7), 1)]).is_empty());
    }

    proptest! {
        #[test]
        fn no_words_break_it(words in proptest::collection::vec(any::<(u64, u64)>(), 0..200)) {
            for (record, slots) in expand(&words) {
                prop_assert!(Kind::from_code(record.kind).is_some());
                prop_assert!(slots.is_empty() || [Kind::Named as u16, Kind::TaskName as u16].contains(&record.kind) || SocketOpen::read(&record, &slots).is_some());
            }
        }
    }
}
