//! The steps of a response that only the client knows: before its first byte is sent, and after the server's last one.

use super::{Joiner, Waiting};
use crate::path::{Detail, Step};
use crate::tasks::State;
use weir_measure::part::Part;

impl Joiner {
    /// In the generator, and its connection being made: up to the send.
    pub(super) fn client_steps(&self, waiting: &Waiting, steps: &mut Vec<Step>, sent_ns: u64) {
        let request = &waiting.request;
        let connection = self.connections.get(&(waiting.lane, request.connection));
        let sent_ns = sent_ns.clamp(request.intended_ns, request.done_ns.max(request.intended_ns));
        let (mut from, mut to) = (sent_ns, sent_ns);
        if let Some(connection) = connection.filter(|_| request.opened_connection) {
            from = connection.told.connect_start_ns.clamp(request.intended_ns, sent_ns);
            // The TLS handshake belongs to the connection as much as TCP's own.
            to = if request.encrypted { sent_ns } else { connection.told.connected_ns.clamp(from, sent_ns) };
        }
        push_step(steps, request.intended_ns, from, Part::Generator, 0);
        push_step(steps, from, to, Part::Connect, 0);
        push_step(steps, to, sent_ns, Part::Generator, 0);
    }

    /// From the server's last send to the client: on the way, or the client's task not yet there.
    pub(super) fn response_steps(&self, waiting: &Waiting, steps: &mut Vec<Step>, sent_ns: u64) {
        let done_ns = waiting.request.done_ns;
        let Some(pid) = self.lanes.get(&waiting.lane) else {
            return push_step(steps, sent_ns, done_ns, Part::ResponseTransit, 0);
        };
        let from = steps.len();
        for spell in self.tasks.spells_back(*pid, sent_ns, done_ns) {
            let part = match spell.state {
                // On a CPU or on its way to one, it was late; blocked, it had nothing to take yet.
                State::Running { .. } | State::Runnable { .. } => Part::ClientWakeup,
                State::Blocked { .. } | State::Unknown => Part::ResponseTransit,
            };
            push_step(steps, spell.from_ns, spell.to_ns, part, *pid);
        }
        steps[from..].reverse();
    }
}

/// Appends a step of nobody else's, unless it is empty.
pub(super) fn push_step(steps: &mut Vec<Step>, from_ns: u64, to_ns: u64, part: Part, pid: u32) {
    if to_ns > from_ns {
        steps.push(Step { from_ns, to_ns, part, pid, waiter: 0, detail: Detail::None });
    }
}
