//! Wake-ups of the server's tasks that wait for work, and those for nothing.

use std::collections::HashMap;
use weir_measure::wakeups::{Place, WakeupFold};
use weir_report::Wakeups;
use weir_timeline::{Joiner, Wait, wait_of};
use weir_wire::task::{Switch, TaskState};
use weir_wire::{Kind, Record};

/// Tasks that are followed.
const MOST_TASKS: usize = 1 << 16;
/// CPUs that are told apart.
const MOST_CPUS: usize = 8192;
/// Connections whose first byte is awaited.
const MOST_CONNECTIONS: usize = 1 << 16;
/// Flag of [`Kind::Window`]: it ends.
const ENDS: u8 = 1;

/// The fold over a run's records.
pub(super) struct WakeupCount {
    fold: WakeupFold,
    /// Who has each CPU, where that is known.
    current: Vec<Option<u32>>,
    /// Connections from which no task has received yet, with when they were made.
    fresh: HashMap<u32, u64>,
    accepted: u64,
}

impl WakeupCount {
    pub(super) fn new() -> Self {
        Self { fold: WakeupFold::new(MOST_TASKS), current: Vec::new(), fresh: HashMap::new(), accepted: 0 }
    }

    /// Takes a record.
    pub(super) fn push(&mut self, joiner: &Joiner, record: &Record) {
        if let Some(switch) = Switch::read(record) {
            self.switch(joiner, record, switch);
            return;
        }
        let (low, _) = record.a_halves();
        match Kind::from_code(record.kind) {
            Some(Kind::TaskState) => {
                if let Some(told) = TaskState::read(record) {
                    let place = place_of(told.state, told.syscall, told.descriptor);
                    self.fold.found(told.pid, place);
                }
            }
            Some(Kind::Lost) => {
                self.fold.misses(record.a);
                if let Some(current) = self.current.get_mut(record.lane as usize) {
                    *current = None;
                }
            }
            Some(Kind::Window) if record.flags & ENDS != 0 => {
                self.fold.pause();
                self.current.clear();
                self.fresh.clear();
            }
            Some(Kind::Exit) => self.fold.ended(low),
            Some(Kind::ListenReady) => self.accepted += 1,
            Some(Kind::SocketOpen) if self.fresh.len() < MOST_CONNECTIONS => {
                self.fresh.insert(low, record.time_ns);
            }
            Some(Kind::SocketState) => {
                self.fresh.remove(&low);
            }
            Some(Kind::SocketSend) => self.fold.touched(self.running(record.lane)),
            Some(Kind::SocketRecv) => {
                let pid = self.running(record.lane);
                self.fold.touched(pid);
                if let Some(made_ns) = self.fresh.remove(&low) {
                    self.fold.accepted_early(pid, made_ns);
                }
            }
            _ => {}
        }
    }

    fn running(&self, cpu: u32) -> u32 {
        self.current.get(cpu as usize).copied().flatten().unwrap_or(0)
    }

    fn switch(&mut self, joiner: &Joiner, record: &Record, switch: Switch) {
        let cpu = record.lane as usize;
        if cpu >= MOST_CPUS {
            return;
        }
        if self.current.len() <= cpu {
            self.current.resize(cpu + 1, None);
        }
        self.current[cpu] = Some(switch.next);
        if switch.prev_state == 0 {
            self.fold.is_preempted(switch.prev);
        } else if switch.prev != 0 && (self.fold.follows(switch.prev) || joiner.serves(switch.prev)) {
            let place = place_of(switch.prev_state, switch.syscall, switch.descriptor);
            self.fold.waits(switch.prev, place, record.time_ns);
        }
        // A task that waited and now has a CPU was woken; the time of the wake-up does not matter here.
        self.fold.runs(switch.next);
    }

    /// The counts of the whole recording.
    pub(super) fn report(&self) -> Wakeups {
        let counts = self.fold.snapshot();
        Wakeups {
            accepted: self.accepted,
            wakeups: counts.wakeups,
            futile: counts.futile,
            unseen: counts.unseen,
            futile_per_accepted: counts.futile as f64 / self.accepted.max(1) as f64,
        }
    }
}

/// Where a task waits, if it waits for descriptors.
fn place_of(state: u8, syscall: u16, descriptor: u16) -> Option<Place> {
    (state != 0 && wait_of(state, syscall) == Wait::Descriptor).then_some((syscall, descriptor))
}
