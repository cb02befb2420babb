//! What records tell that is no interaction: names, who runs where, who an end of a connection is, what a client calls
//! its requests.

use crate::fold::Framework;
use crate::paths::Label;
use crate::task::{Base, Owner};
use weir_wire::client::{ClientConnection, ClientRequest};
use weir_wire::task::Switch;
use weir_wire::{Kind, Record, Slot, text_from_slots};

/// Flag of [`Kind::Window`]: it ends.
const ENDS: u8 = 1;
/// The interaction of forks in our table: a job whose part has the name of its task.
const FORK: &str = "fork";

impl Framework {
    /// Takes what a record tells, before its rules. Returns whether it told something.
    pub(crate) fn learn(&mut self, record: &Record, payload: &[Slot], text: Option<&str>) -> bool {
        let (low, high) = record.a_halves();
        let Some(kind) = Kind::from_code(record.kind) else { return false };
        match kind {
            Kind::TaskName => {
                if self.names.name_task(low, high, &text_from_slots(payload)) {
                    self.renamed(low);
                }
            }
            Kind::Named => self.names.name_key(record.flags, record.a, &text_from_slots(payload)),
            Kind::Fork => self.forked(low, high, record.b as u32),
            Kind::Lost => self.counts.lost = self.counts.lost.saturating_add(record.a),
            Kind::Watched => self.watched |= record.a,
            Kind::Window if record.flags & ENDS != 0 => self.pause(),
            Kind::SocketOpen | Kind::SocketState | Kind::SocketReady | Kind::SocketPeer => {
                if let Some(over) = self.ends.told(record, payload) {
                    self.hang_up(over, kind == Kind::SocketState);
                }
            }
            Kind::ClientConnection => self.connected(record, payload),
            Kind::ClientRequest => self.named_by_client(record, payload, text),
            Kind::Window | Kind::ClockPair | Kind::CpuSteal | Kind::ClientLane => {}
            _ => return false,
        }
        true
    }

    /// What a record tells after its rules.
    pub(crate) fn learn_after(&mut self, record: &Record) {
        match Kind::from_code(record.kind) {
            Some(Kind::Switch) => {
                if let Some(switch) = Switch::read(record) {
                    self.runs(record.lane, switch.next);
                }
            }
            Some(Kind::Exit) => self.ends(record.a_halves().0),
            _ => {}
        }
    }

    fn forked(&mut self, parent: u32, child: u32, tgid: u32) {
        // The number may be given again.
        if self.tasks.get(&child).is_some_and(|task| task.ended) {
            self.retire(child);
        }
        self.names.inherit(parent, child, tgid);
        let now_ns = self.now_ns;
        let _ = self.task(child, now_ns);
    }

    /// A task has another name: its own work, and that which it was made for, is called so.
    fn renamed(&mut self, pid: u32) {
        let Some(task) = self.tasks.get(&pid) else { return };
        let base = task.base;
        if let Base::Job(key, _) = base
            && self.table.interactions[usize::from(key.0)].name == FORK
            && let Some(path) = self.jobs.get(&key).map(|job| job.path)
        {
            let (parent, label) = (self.paths.parent(path), self.names.task_label(pid));
            let path = self.paths.child(parent, label);
            if let Some(job) = self.jobs.get_mut(&key) {
                job.path = path;
            }
        }
        let now_ns = self.now_ns;
        self.go(pid, None, now_ns);
    }

    fn connected(&mut self, record: &Record, payload: &[Slot]) {
        let Some(connection) = ClientConnection::read(record, payload).filter(|connection| !connection.failed) else {
            return;
        };
        self.clients.connect((record.lane, connection.connection), connection.local, connection.remote);
    }

    /// A client has its response: the request is called so.
    fn named_by_client(&mut self, record: &Record, payload: &[Slot], text: Option<&str>) {
        let Some(request) = ClientRequest::read(record, payload) else { return };
        let addresses = self.clients.of_request((record.lane, request.connection));
        let end = addresses.and_then(|(local, remote)| self.ends.of_addresses(remote, local));
        let response_ns = request.done_ns.saturating_sub(request.intended_ns);
        let turn = |end: u32| (u64::from(end), request.request_offset);
        let found = end.is_some_and(|end| self.accounts.name(turn(end), text.unwrap_or_default(), response_ns));
        self.counts.names_unmatched += u64::from(!found);
    }

    /// An end of a connection is no more, or is another connection's.
    fn hang_up(&mut self, end: u32, forget: bool) {
        let now_ns = self.now_ns;
        for interaction in 0..self.table.interactions.len() as u16 {
            let key = (interaction, u64::from(end));
            if self.table.talks(interaction) && self.jobs.contains_key(&key) {
                self.end_job(key, now_ns);
            }
        }
        if forget {
            self.ends.forget(end);
        }
    }

    /// The words of a path from the root down.
    pub(crate) fn path_words(&self, path: u32) -> Vec<String> {
        self.paths.labels(path).into_iter().map(|label: Label| self.names.label(label)).collect()
    }

    /// Whether a task works for a transaction now.
    #[must_use]
    pub fn works_for_a_transaction(&self, pid: u32) -> bool {
        self.tasks.get(&pid).is_some_and(|task| task.place.owner != Owner::Background)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::Table;

    #[test]
    fn tasks_that_ended_long_ago_are_forgotten() {
        let mut framework = Framework::new(Table::ours());
        let mut push = |time_ns: u64, kind: Kind, a: u64, b: u64| {
            framework.push(&Record { time_ns, kind: kind as u16, a, b, ..Record::default() }, &[], None);
        };
        for child in 1..=6_000u64 {
            push(10 * child, Kind::Fork, 1 | (100 + child) << 32, 100 + child);
            push(10 * child + 5, Kind::Exit, 100 + child, 0);
        }
        // The parent, and the latest of those that have ended.
        assert_eq!(framework.tasks.len(), 1 + 4096);
        assert!(framework.tasks.contains_key(&6_100) && !framework.tasks.contains_key(&101));
        assert_eq!(framework.counts.left_out, 0);
    }
}
