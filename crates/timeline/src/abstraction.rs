//! The abstract events behind the actual ones: a table for each source.
//!
//! A requester asks an object (request), the object takes it up (accept), is done (finish), and the requester pauses
//! meanwhile (wait): Horikawa (2000), section 2.
//! What is stored are the actual events; this table is all that knows what they mean for the formulas.

use weir_measure::usage::Verb;
use weir_wire::client::ClientRequest;
use weir_wire::task::Switch;
use weir_wire::{Kind, Record, Slot};

/// An entity that asks or is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Object {
    /// A task, by its number.
    Task(u32),
    /// The CPUs: a task asks for any one of them.
    Cpus,
    /// A connection of the server, by its socket.
    Connection(u32),
    /// A connection of the load generator: (lane, number).
    Client(u32, u64),
    /// The server as a client sees it.
    Server,
}

/// An abstract event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AbstractEvent {
    /// When, nanoseconds.
    pub at_ns: u64,
    /// What.
    pub verb: Verb,
    /// Who asks.
    pub requester: Object,
    /// Who is asked.
    pub object: Object,
}

/// When it was, who asks, who is asked.
type Between = (u64, Object, Object);

/// One row: an actual kind gives an abstract verb between two objects, if its condition holds.
struct Rule {
    kind: Kind,
    verb: Verb,
    between: fn(&Record, &[Slot]) -> Option<Between>,
}

/// The scheduler's and the sockets' source.
const KERNEL: &[Rule] = &[
    Rule { kind: Kind::Waking, verb: Verb::Request, between: woken },
    Rule { kind: Kind::Switch, verb: Verb::Finish, between: leaving },
    Rule { kind: Kind::Switch, verb: Verb::Request, between: leaving_unwillingly },
    Rule { kind: Kind::Switch, verb: Verb::Wait, between: leaving_to_wait },
    Rule { kind: Kind::Switch, verb: Verb::Accept, between: entering },
    Rule { kind: Kind::SocketReady, verb: Verb::Request, between: at_connection },
    Rule { kind: Kind::SocketRecv, verb: Verb::Accept, between: at_connection },
    Rule { kind: Kind::SocketSend, verb: Verb::Finish, between: at_connection },
];

/// The load generator's source; a request is told at its end, with all its times.
const CLIENT: &[Rule] = &[
    Rule { kind: Kind::ClientRequest, verb: Verb::Request, between: client_intends },
    Rule { kind: Kind::ClientRequest, verb: Verb::Accept, between: client_is_answered },
    Rule { kind: Kind::ClientRequest, verb: Verb::Finish, between: client_is_done },
];

/// Hands every abstract event of a record to `take`.
pub fn abstract_events(record: &Record, payload: &[Slot], mut take: impl FnMut(AbstractEvent)) {
    for rule in KERNEL.iter().chain(CLIENT) {
        if record.kind == rule.kind as u16
            && let Some((at_ns, requester, object)) = (rule.between)(record, payload)
        {
            take(AbstractEvent { at_ns, verb: rule.verb, requester, object });
        }
    }
}

fn woken(record: &Record, _: &[Slot]) -> Option<Between> {
    Some((record.time_ns, Object::Task(record.a_halves().1), Object::Cpus))
}

fn leaving(record: &Record, _: &[Slot]) -> Option<Between> {
    let switch = Switch::read(record).filter(|switch| switch.prev != 0)?;
    Some((record.time_ns, Object::Task(switch.prev), Object::Cpus))
}

fn leaving_unwillingly(record: &Record, slots: &[Slot]) -> Option<Between> {
    Switch::read(record).filter(|switch| switch.prev_state == 0).and_then(|_| leaving(record, slots))
}

fn leaving_to_wait(record: &Record, slots: &[Slot]) -> Option<Between> {
    Switch::read(record).filter(|switch| switch.prev_state != 0).and_then(|_| leaving(record, slots))
}

fn entering(record: &Record, _: &[Slot]) -> Option<Between> {
    let switch = Switch::read(record).filter(|switch| switch.next != 0)?;
    Some((record.time_ns, Object::Task(switch.next), Object::Cpus))
}

fn at_connection(record: &Record, _: &[Slot]) -> Option<Between> {
    Some((record.time_ns, Object::Connection(record.a_halves().0), Object::Server))
}

fn client(record: &Record, slots: &[Slot], at: fn(&ClientRequest) -> u64) -> Option<Between> {
    let request = ClientRequest::read(record, slots)?;
    Some((at(&request), Object::Client(record.lane, request.connection), Object::Server))
}

fn client_intends(record: &Record, slots: &[Slot]) -> Option<Between> {
    client(record, slots, |request| request.intended_ns)
}

fn client_is_answered(record: &Record, slots: &[Slot]) -> Option<Between> {
    client(record, slots, |request| request.first_byte_ns)
}

fn client_is_done(record: &Record, slots: &[Slot]) -> Option<Between> {
    client(record, slots, |request| request.done_ns)
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_wire::task::NO_SYSCALL;

    #[test]
    fn a_switch_is_the_end_of_one_use_and_the_beginning_of_another() {
        let switch = Switch { prev: 7, next: 8, prev_state: 1, syscall: NO_SYSCALL, descriptor: 0 };
        let mut events = Vec::new();
        abstract_events(&switch.write(100, 0), &[], |event| events.push((event.verb, event.requester)));
        assert_eq!(
            events,
            [(Verb::Finish, Object::Task(7)), (Verb::Wait, Object::Task(7)), (Verb::Accept, Object::Task(8))]
        );
    }

    #[test]
    fn a_preempted_task_asks_again_at_once_and_the_idle_one_never_does() {
        let switch = Switch { prev: 7, next: 0, prev_state: 0, syscall: NO_SYSCALL, descriptor: 0 };
        let mut events = Vec::new();
        abstract_events(&switch.write(100, 0), &[], |event| events.push((event.verb, event.requester)));
        assert_eq!(events, [(Verb::Finish, Object::Task(7)), (Verb::Request, Object::Task(7))]);
    }
}
