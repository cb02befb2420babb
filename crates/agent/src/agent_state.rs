//! What is known beyond a single process: classes, figures, relatives, who follows.

use crate::classes::Classes;
use crate::definitions::Kept;
use crate::finished::Finished;
use crate::folds::{Cells, Whose};
use crate::outlet::Outlet;
use crate::protocol::Counts;
use crate::recent::{Lately, MOST_RELATIVES, Recent, Traces};
use crate::running::Running;
use crate::spans::{Place, Spans};
use crate::subscription::Subscriber;
use crate::switches::Rules;
use crate::transaction::{Transaction, Wanted};
use crate::users::Users;
use crate::waits::{ThreadTime, Waits};
use std::sync::Arc;
use weir_measure::account::Reading;

/// Whole transactions of one batch.
pub const MOST_EXEMPLARS: usize = 1024;
const MINUTE_NS: u64 = 60_000_000_000;
/// Transactions of other hosts that are taken in at each pass.
const MOST_RECEIVED: usize = 4096;

/// All that is known beyond a single process.
pub struct AgentState {
    /// The host's name.
    pub host: String,
    /// Since 1970, nanoseconds less those of CLOCK_MONOTONIC.
    pub unix_offset_ns: i64,
    /// Classes, by number.
    pub classes: Classes,
    /// Definitions of all processes.
    pub kept: Kept,
    /// The switches that hold.
    pub rules: Rules,
    /// Transactions that may have children.
    pub spans: Spans,
    /// Figures of this pass.
    pub pass: Cells,
    /// What came in this pass.
    pub counts: Counts,
    /// Whole transactions that this pass brought for the store.
    pub exemplars: Vec<Transaction>,
    /// Children of running transactions that ended in other processes.
    pub children: Vec<Place>,
    /// Whole transactions that the batch still has room for.
    pub room_for_exemplars: usize,
    /// What has finished lately.
    pub recent: Recent,
    /// Users that were told lately.
    pub users: Users,
    /// The subscribers.
    pub subscribers: Vec<Subscriber>,
    /// Exporters.
    pub outlet: Option<Box<dyn Outlet>>,
    /// The source of what threads do and wait for.
    pub waits: Option<Box<dyn Waits>>,
    /// Transactions for which it did, and for which it could not.
    pub measured: [u64; 2],
    /// From which duration on a transaction is kept whole, however many there are.
    pub slow_ns: u64,
    traces: Traces,
    /// Finished ones whose parent is not known, until all processes were looked at.
    waiting: Vec<Finished>,
    /// What this pass has for those who follow.
    told: Vec<Arc<Transaction>>,
}

impl AgentState {
    /// Of a host, from now on.
    #[must_use]
    pub fn new(host: String, unix_offset_ns: i64, rules: Rules, slow_ns: u64) -> Self {
        Self {
            host,
            unix_offset_ns,
            classes: Classes::default(),
            kept: Kept::default(),
            rules,
            spans: Spans::default(),
            pass: Cells::default(),
            counts: Counts::default(),
            exemplars: Vec::new(),
            children: Vec::new(),
            room_for_exemplars: MOST_EXEMPLARS,
            recent: Recent::default(),
            users: Users::default(),
            subscribers: Vec::new(),
            outlet: None,
            waits: None,
            measured: [0; 2],
            slow_ns,
            traces: Traces::default(),
            waiting: Vec::new(),
            told: Vec::new(),
        }
    }

    /// What the threads of a transaction did and waited for from its start to its end.
    pub fn threads(&mut self, process: u32, running: &Running, end_ns: u64) -> Vec<ThreadTime> {
        let Some(waits) = &mut self.waits else { return Vec::new() };
        let mut of = |thread: u32, begun: Option<Reading>| {
            // The start record holds a reading of the starter only; `waits` still has older readings of other threads.
            let begun = begun.or_else(|| waits.read(process, thread, running.start_ns))?;
            let parts = waits.read(process, thread, end_ns)?.since(&begun)?;
            Some(ThreadTime { thread, parts })
        };
        let starter = of(running.thread, running.begun.as_deref().copied());
        let ender = running.ended_by_another().and_then(|thread| of(thread, None));
        let threads: Vec<ThreadTime> = starter.into_iter().chain(ender).collect();
        self.measured[usize::from(threads.is_empty())] += 1;
        threads
    }

    /// A transaction is over. Returns where its parent runs, if it does.
    #[inline]
    pub fn finished(&mut self, mut finished: Finished) -> Option<Place> {
        let Some(parent) = finished.parent else {
            self.count(finished);
            return None;
        };
        let Some(place) = self.spans.find(parent.span) else {
            self.waiting.push(finished);
            return None;
        };
        finished.parent_here = true;
        self.count(finished);
        place
    }

    /// Whether some transaction waits for its parent, which may run in a process that this pass did not look at.
    #[must_use]
    pub fn misses_parents(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// All processes were looked at: a parent that is not known now is another host's, or was lost.
    pub fn settle(&mut self) {
        for mut finished in std::mem::take(&mut self.waiting) {
            let place = finished.parent.and_then(|parent| self.spans.find(parent.span));
            finished.parent_here = place.is_some();
            self.children.extend(place.flatten());
            self.count(finished);
        }
        self.receive();
        if !self.told.is_empty() {
            let told = std::mem::take(&mut self.told);
            let mut missed = 0;
            self.subscribers.retain(|subscriber| subscriber.give(&told).inspect(|more| missed += more).is_some());
            self.counts.missed += missed;
        }
    }

    fn count(&mut self, finished: Finished) {
        let end_unix_ns = finished.end_ns().saturating_add_signed(self.unix_offset_ns);
        let minute = end_unix_ns / MINUTE_NS;
        let whose = Whose { minute, class: finished.class, user: finished.user.clone() };
        let (cell, others) = self.pass.of(whose);
        let Finished { status, duration_ns, blocked_ns, queued_ns, one_in, .. } = finished;
        cell.push(status, duration_ns, blocked_ns, queued_ns, one_in);
        if let Some(thread) = finished.threads.first() {
            cell.add_parts(&thread.parts, one_in);
        }
        self.counts.users_dropped += u64::from(others);
        self.counts.classes_dropped += u64::from(finished.class == 0);

        let related = finished.may_have_relatives();
        let of_interest = self.classes.get(finished.class).is_exemplar(minute, duration_ns, status)
            || duration_ns >= self.slow_ns
            || related && self.traces.has(finished.id.trace);
        let followed = !self.subscribers.is_empty() || self.outlet.as_ref().is_some_and(|outlet| !outlet.is_idle());
        if of_interest || followed {
            let transaction = finished.describe(&self.host, self.unix_offset_ns);
            if let Some(outlet) = &mut self.outlet {
                outlet.push(&transaction);
            }
            if of_interest {
                self.keep(transaction.clone(), related);
            }
            if !self.subscribers.is_empty() {
                self.told.push(Arc::new(transaction));
            }
        }
        self.recent.push(finished);
    }

    /// Keeps a transaction whole, and the first time the relatives that are known.
    fn keep(&mut self, transaction: Transaction, related: bool) {
        let trace = transaction.id.trace;
        self.exemplar(transaction);
        if related && !self.traces.has(trace) {
            self.traces.note(trace);
            for relative in self.recent.find(Wanted::Trace(trace), MOST_RELATIVES) {
                let described = self.described(&relative);
                self.exemplar(described);
            }
        }
    }

    fn exemplar(&mut self, transaction: Transaction) {
        if self.room_for_exemplars == 0 {
            self.counts.exemplars_dropped += 1;
            return;
        }
        self.room_for_exemplars -= 1;
        self.exemplars.push(transaction);
    }

    fn described(&self, lately: &Lately) -> Transaction {
        match lately {
            Lately::Here(finished) => finished.describe(&self.host, self.unix_offset_ns),
            Lately::Elsewhere(transaction) => Transaction::clone(transaction),
        }
    }

    /// Takes in what other hosts' agents told.
    fn receive(&mut self) {
        for _ in 0..MOST_RECEIVED {
            let Some(transaction) = self.outlet.as_mut().and_then(|outlet| outlet.received()) else { break };
            let transaction = Arc::new(transaction);
            if self.traces.has(transaction.id.trace) {
                self.exemplar(Transaction::clone(&transaction));
            }
            if !self.subscribers.is_empty() {
                self.told.push(Arc::clone(&transaction));
            }
            self.recent.push_other(transaction);
        }
    }

    /// Whole transactions that are known, by their begin, and how many more there are than `most`.
    #[must_use]
    pub fn find(&self, wanted: Wanted, most: usize) -> Vec<Transaction> {
        self.recent.find(wanted, most).iter().map(|lately| self.described(lately)).collect()
    }
}
