//! What threads do and wait for, as the kernel's probes tell it, for the agent.

use weir_agent::Waits;
use weir_agent::waits::CaptureStatus;
use weir_capture::{CaptureError, TaskEvents};
use weir_measure::account::Reading;
use weir_timeline::Accounts;

/// How often what is too old is forgotten.
const TRIM_NS: u64 = 1_000_000_000;

/// The probes, and the accounts of what they tell.
#[derive(Debug)]
pub(super) struct Captured {
    events: TaskEvents,
    accounts: Accounts,
    taken: u64,
    trimmed_ns: u64,
}

impl Captured {
    /// Attaches the probes; they watch no task yet.
    pub(super) fn start() -> Result<Self, CaptureError> {
        Ok(Self { events: TaskEvents::start()?, accounts: Accounts::default(), taken: 0, trimmed_ns: 0 })
    }
}

impl Waits for Captured {
    fn follow(&mut self, process: u32) {
        let (tasks, since_ns) = self.events.follow(process);
        // Before its first events are taken: one of them may be the making of a thread.
        self.accounts.open(process, tasks, since_ns);
    }

    fn look(&mut self) {
        let (accounts, mut taken) = (&mut self.accounts, 0);
        let now_ns = self.events.take(|record| {
            accounts.take(record);
            taken += 1;
        });
        self.taken += taken;
        self.accounts.settle(now_ns);
        if now_ns.saturating_sub(self.trimmed_ns) >= TRIM_NS {
            self.trimmed_ns = now_ns;
            self.accounts.trim();
        }
    }

    fn read(&mut self, process: u32, thread: u32, at_ns: u64) -> Option<Reading> {
        // Lanes are read behind the last look: what they tell of may be younger.
        if at_ns > self.accounts.upto_ns() {
            self.look();
        }
        self.accounts.read(process, thread, at_ns)
    }

    fn status(&self) -> CaptureStatus {
        let (threads, refused) = self.accounts.counts();
        CaptureStatus {
            threads: threads as u64,
            events: self.taken,
            lost: self.events.lost(),
            refused,
            ..CaptureStatus::default()
        }
    }
}
