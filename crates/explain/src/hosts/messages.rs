//! What hosts sent each other, by connection and byte position, with times between which it must have been on its way.
//!
//! The event of a sending comes when the call returns, and what was sent may be answered by then: so the time before
//! which it was not sent is the last one at which the task was surely not in that call. Received it was by the event.

use super::clock::Message;
use super::ends::{End, Shared};
use std::collections::HashMap;
use weir_trace::RunReader;
use weir_wire::client::{ClientRequest, Outcome};
use weir_wire::socket::{END_OF_STREAM, ERROR, NO_POSITION, PEEK};
use weir_wire::task::Switch;
use weir_wire::{Kind, Record, Slot};

/// Events of a direction that are kept of each second; and of all that a host has.
const MOST_A_SECOND: u32 = 256;
const MOST_MARKS: usize = 1 << 20;
/// Tasks that are told apart.
const MOST_TASKS: usize = 1 << 18;
const SECOND_NS: u64 = 1_000_000_000;

/// Calls in which a task sends nothing; what it is blocked in may have sent before, if it is any other.
const SENDS_NOTHING: &[i64] = &[
    libc::SYS_futex,
    libc::SYS_nanosleep,
    libc::SYS_clock_nanosleep,
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_ppoll,
    libc::SYS_pselect6,
    libc::SYS_epoll_pwait,
    libc::SYS_fsync,
    libc::SYS_fdatasync,
    libc::SYS_flock,
    libc::SYS_wait4,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_poll,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_select,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_epoll_wait,
];

/// Events at one end of a direction, ascending by position.
#[derive(Debug, Default)]
struct Marks {
    base: u32,
    begun: bool,
    last: i64,
    /// (position, time).
    marks: Vec<(i64, u64)>,
    second: (u64, u32),
}

impl Marks {
    /// The position of a sequence number, which wraps every 4 GiB; of the first one, from where both ends count.
    fn position(&mut self, sequence: u32) -> i64 {
        if !std::mem::replace(&mut self.begun, true) {
            return i64::from(sequence.wrapping_sub(self.base));
        }
        let step = sequence.wrapping_sub(self.base).wrapping_sub(self.last as u32).cast_signed();
        self.last + i64::from(step)
    }

    /// Keeps an event if its second has room; the position reached is known in any case.
    fn keep(&mut self, from: i64, reached: i64, at_ns: u64) -> bool {
        let is_next = reached > self.last;
        self.last = self.last.max(reached);
        let second = at_ns / SECOND_NS;
        if self.second.0 != second {
            self.second = (second, 0);
        }
        let kept = is_next && self.second.1 < MOST_A_SECOND;
        self.second.1 += u32::from(kept);
        if kept {
            self.marks.push((from, at_ns));
        }
        kept
    }
}

/// A task, as far as it matters when it sent.
#[derive(Debug, Default, Clone, Copy)]
struct Task {
    /// It was surely in no call that sends; 0 = never.
    aside_ns: u64,
    /// It left its CPU in a call that sends nothing.
    waits: bool,
}

/// What one host says of its ends: of each connection what it sent, and what came.
#[derive(Debug, Default)]
struct Side {
    ends: HashMap<End, usize>,
    sent: Vec<Marks>,
    came: Vec<Marks>,
    tasks: HashMap<u32, Task>,
    on_cpu: HashMap<u32, u32>,
    marks: usize,
}

/// The messages that hosts sent each other over their connections.
pub(super) fn between(readers: &[RunReader], shared: &[Shared]) -> Vec<Message> {
    let sides: Vec<Side> = readers.iter().enumerate().map(|(host, reader)| Side::read(host, reader, shared)).collect();
    let mut messages = Vec::new();
    for (index, shared) in shared.iter().enumerate() {
        for ((from, _), (to, _)) in [(shared.client, shared.server), (shared.server, shared.client)] {
            let came = &sides[to].came[index].marks;
            for (position, before_ns) in &sides[from].sent[index].marks {
                let first = came.partition_point(|(reached, _)| reached <= position);
                if let Some((_, at_ns)) = came.get(first) {
                    messages.push(Message { from, to, before_ns: *before_ns, at_ns: *at_ns });
                }
            }
        }
    }
    messages
}

impl Side {
    fn read(host: usize, reader: &RunReader, shared: &[Shared]) -> Self {
        let mut side = Self::default();
        side.begin(host, shared);
        reader.merge().each(|sourced| {
            side.push(&sourced.record, sourced.payload);
            side.marks < MOST_MARKS
        });
        side
    }

    /// Knows the ends of a host.
    fn begin(&mut self, host: usize, shared: &[Shared]) {
        for (index, shared) in shared.iter().enumerate() {
            let of_server = shared.server.0 == host;
            let (sent, came) =
                if of_server { (shared.to_client, shared.to_server) } else { (shared.to_server, shared.to_client) };
            let marks = |base| Marks { base, ..Marks::default() };
            self.sent.push(marks(sent));
            self.came.push(marks(came));
            for (_, end) in [shared.server, shared.client].into_iter().filter(|(of, _)| *of == host) {
                self.ends.insert(end, index);
            }
        }
    }

    fn push(&mut self, record: &Record, payload: &[Slot]) {
        let now_ns = record.time_ns;
        let (low, sequence) = record.a_halves();
        match Kind::from_code(record.kind) {
            Some(Kind::Switch) => {
                if let Some(switch) = Switch::read(record) {
                    self.switch(now_ns, record.lane, switch);
                }
            }
            // A connection is asked for and made before any of its bytes.
            Some(Kind::SocketOpen) => self.begins(End::Socket(low), None, Some(now_ns)),
            Some(Kind::ClientConnection) => {
                self.begins(End::Client(record.lane, record.a), Some(record.b), None);
            }
            Some(Kind::SocketReady) => self.came(End::Socket(low), sequence, now_ns),
            Some(kind @ (Kind::SocketRecv | Kind::SocketSend)) => {
                let pid = self.on_cpu.get(&record.lane).copied().unwrap_or(0);
                let known = if pid == 0 { None } else { self.tasks.get_mut(&pid) };
                // The call is over.
                let aside_ns = known.map_or(0, |task| std::mem::replace(&mut task.aside_ns, now_ns));
                let plain = record.flags & (END_OF_STREAM | ERROR | NO_POSITION | PEEK) == 0;
                match kind {
                    Kind::SocketRecv if plain => self.came(End::Socket(low), sequence, now_ns),
                    Kind::SocketSend if plain => self.sent(End::Socket(low), sequence, aside_ns),
                    _ => {}
                }
            }
            Some(Kind::ClientRequest) => {
                if let Some(request) = ClientRequest::read(record, payload).filter(|one| one.outcome == Outcome::Done) {
                    self.request(End::Client(record.lane, request.connection), &request);
                }
            }
            _ => {}
        }
    }

    fn switch(&mut self, now_ns: u64, cpu: u32, switch: Switch) {
        self.on_cpu.insert(cpu, switch.next);
        if switch.prev_state != 0
            && let Some(task) = self.tasks.get_mut(&switch.prev)
        {
            task.waits = SENDS_NOTHING.contains(&i64::from(switch.syscall));
        } else if let Some(task) = self.tasks.get_mut(&switch.prev) {
            task.waits = false;
        }
        if switch.next != 0 && (self.tasks.len() < MOST_TASKS || self.tasks.contains_key(&switch.next)) {
            let task = self.tasks.entry(switch.next).or_default();
            if task.waits {
                task.aside_ns = now_ns;
            }
        }
    }

    /// Of a connection it is known when it was asked for, or by when it was made.
    fn begins(&mut self, end: End, asked_ns: Option<u64>, made_ns: Option<u64>) {
        let Some(index) = self.ends.get(&end).copied() else { return };
        for (marks, position, at_ns) in [(&mut self.sent[index], -1, asked_ns), (&mut self.came[index], 0, made_ns)] {
            if let Some(at_ns) = at_ns.filter(|_| marks.marks.is_empty()) {
                marks.marks.push((position, at_ns));
                self.marks += 1;
            }
        }
    }

    fn came(&mut self, end: End, sequence: u32, at_ns: u64) {
        if let Some(marks) = self.ends.get(&end).and_then(|index| self.came.get_mut(*index)) {
            let reached = marks.position(sequence);
            self.marks += usize::from(marks.keep(reached, reached, at_ns));
        }
    }

    /// Sent up to a sequence number, and nothing of it before a time.
    fn sent(&mut self, end: End, sequence: u32, aside_ns: u64) {
        if let Some(marks) = self.ends.get(&end).and_then(|index| self.sent.get_mut(*index)) {
            let reached = marks.position(sequence);
            if aside_ns == 0 {
                marks.last = marks.last.max(reached);
            } else {
                // The last byte is of this call for certain, even where the event of the call before was lost.
                self.marks += usize::from(marks.keep(reached - 1, reached, aside_ns));
            }
        }
    }

    /// A generator notes the time just before its call that sends and just after the one that receives.
    fn request(&mut self, end: End, request: &ClientRequest) {
        let Some(index) = self.ends.get(&end).copied() else { return };
        let offset = |offset: u64| i64::try_from(offset).unwrap_or(i64::MAX / 2);
        let asked = offset(request.request_offset);
        if request.sent_ns != 0 {
            let reached = asked.saturating_add(i64::from(request.request_bytes));
            self.marks += usize::from(self.sent[index].keep(asked, reached, request.sent_ns));
        }
        let (answer, bytes) = (offset(request.response_offset), offset(request.response_bytes));
        for (reached, at_ns) in [(answer + 1, request.first_byte_ns), (answer.saturating_add(bytes), request.done_ns)] {
            if at_ns != 0 {
                self.marks += usize::from(self.came[index].keep(reached, reached, at_ns));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_wire::task::NO_SYSCALL;

    const SERVER: u32 = 7;
    const TASK: u32 = 11;

    fn side(host: usize) -> Side {
        let (server, client) = ((0, End::Socket(SERVER)), (1, End::Socket(9)));
        let shared = Shared { server, client, to_server: 100, to_client: 500 };
        let mut side = Side::default();
        side.begin(host, &[shared]);
        side
    }

    fn at_socket(time_ns: u64, kind: Kind, position: u32) -> Record {
        let a = u64::from(SERVER) | u64::from(position) << 32;
        Record { time_ns, kind: kind as u16, a, ..Record::default() }
    }

    /// The task takes what was asked at 10, is away as is said, and has answered by 50.
    fn not_sent_before(away: Option<(u8, i64)>) -> (i64, u64) {
        let mut side = side(0);
        let on = |next| Switch { prev: 0, next, prev_state: 0, syscall: NO_SYSCALL, descriptor: 0 };
        side.push(&on(TASK).write(5, 0), &[]);
        side.push(&at_socket(8, Kind::SocketReady, 120), &[]);
        side.push(&at_socket(10, Kind::SocketRecv, 120), &[]);
        if let Some((prev_state, syscall)) = away {
            let out = Switch { prev: TASK, next: 0, prev_state, syscall: syscall as u16, descriptor: 4 };
            side.push(&out.write(20, 0), &[]);
            side.push(&on(TASK).write(40, 0), &[]);
        }
        side.push(&at_socket(50, Kind::SocketSend, 530), &[]);
        assert_eq!(side.came[0].marks, [(20, 8)]);
        side.sent[0].marks[0]
    }

    #[test]
    fn an_answer_was_not_sent_before_its_task_was_last_seen_aside() {
        assert_eq!(not_sent_before(None), (29, 10));
        assert_eq!(not_sent_before(Some((1, libc::SYS_clock_nanosleep))), (29, 40), "it slept before it sent");
        assert_eq!(not_sent_before(Some((1, libc::SYS_sendto))), (29, 10), "some was sent before it had to wait");
        assert_eq!(not_sent_before(Some((0, i64::from(NO_SYSCALL)))), (29, 10), "it lost its CPU, in the call or not");
    }

    #[test]
    fn what_came_and_was_sent_is_bounded_in_each_second() {
        let mut side = side(0);
        for number in 0..10_000u32 {
            side.push(&at_socket(2_000_000_000 + u64::from(number), Kind::SocketReady, 101 + number), &[]);
        }
        assert_eq!(side.came[0].marks.len(), MOST_A_SECOND as usize);
        side.push(&at_socket(3_000_000_000, Kind::SocketReady, 20_000), &[]);
        assert_eq!(side.came[0].marks.last(), Some(&(19_900, 3_000_000_000)));
        let other = at_socket(3_000_000_000, Kind::SocketReady, 30_000);
        side.push(&Record { a: other.a + 1, ..other }, &[]);
        assert_eq!(side.came[0].marks.len(), MOST_A_SECOND as usize + 1, "another socket's is no message");
    }
}
