//! How a loop's figures of each interval reach the collector while it runs, without a lock or an allocation.
//!
//! A loop records latencies into one histogram. When an interval is over it takes an empty one in its place and hands
//! the full one to the collector over a bounded channel, which empties it and gives it back.
//! Where none is back in time the loop goes on with the one that it has: nothing is lost, the slice only gets longer.

use crate::counts::histogram::Histogram;
use crate::counts::histogram::histogram;
use crate::counts::series::{Counts, Sampling, Series, Slice, Strain};
use crate::counts::tally::Tally;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};

/// Histograms of a loop beside the one in use.
const SPARES: usize = 2;

/// What goes over the channel.
#[derive(Debug)]
struct Handed {
    lane: usize,
    /// The thread's number.
    task: i32,
    /// Begin and end, from the start of the run.
    begin_ns: u64,
    end_ns: u64,
    counts: Counts,
    connections: i64,
    latency: Histogram,
}

/// The loop's end.
#[derive(Debug)]
pub(crate) struct Slices {
    lane: usize,
    task: i32,
    start_ns: u64,
    interval_ns: u64,
    begin_ns: u64,
    next_ns: u64,
    before: Counts,
    connections_before: u32,
    out: SyncSender<Handed>,
    back: Receiver<Histogram>,
    /// An empty histogram for which the channel had no room to take a full one.
    held: Option<Histogram>,
}

impl Slices {
    /// Says that the calling thread is the loop's.
    pub(crate) fn begin(&mut self) {
        // SAFETY: the call takes nothing and cannot fail.
        self.task = unsafe { libc::gettid() };
    }

    /// When the interval is over.
    #[inline]
    pub(crate) fn next_ns(&self) -> u64 {
        self.next_ns
    }

    /// Hands out what was counted since the last time, if the interval is over.
    pub(crate) fn hand_out(&mut self, tally: &mut Tally, connections: u32, now_ns: u64) {
        if now_ns < self.next_ns {
            return;
        }
        let intervals = (now_ns - self.start_ns) / self.interval_ns + 1;
        self.next_ns = self.start_ns.saturating_add(intervals.saturating_mul(self.interval_ns));
        let Some(empty) = self.held.take().or_else(|| self.back.try_recv().ok()) else { return };
        let handed = self.slice(tally, empty, connections, now_ns);
        match self.out.try_send(handed) {
            Ok(()) => {
                self.before = tally.counts();
                self.connections_before = connections;
                self.begin_ns = now_ns;
            }
            Err(TrySendError::Full(handed) | TrySendError::Disconnected(handed)) => {
                self.held = Some(std::mem::replace(&mut tally.latency, handed.latency));
            }
        }
    }

    /// Hands out what is left when the loop is over, and waits until there is room for it.
    pub(crate) fn close(mut self, tally: &mut Tally, now_ns: u64) {
        let empty = self.held.take().unwrap_or_else(histogram);
        let handed = self.slice(tally, empty, 0, now_ns);
        // The collector lives as long as any loop. If it is gone, the slice is lost.
        let _ = self.out.send(handed);
    }

    fn slice(&self, tally: &mut Tally, empty: Histogram, connections: u32, now_ns: u64) -> Handed {
        Handed {
            lane: self.lane,
            task: self.task,
            begin_ns: self.begin_ns.saturating_sub(self.start_ns),
            end_ns: now_ns.saturating_sub(self.start_ns),
            counts: tally.counts().with(&self.before, |now, before| now - before),
            connections: i64::from(connections) - i64::from(self.connections_before),
            latency: std::mem::replace(&mut tally.latency, empty),
        }
    }
}

/// The other end: takes slices in until the last loop is over.
#[derive(Debug)]
pub(crate) struct Collector {
    from: Receiver<Handed>,
    back: Vec<SyncSender<Histogram>>,
    looks: Vec<Option<Look>>,
}

/// What the kernel says of a loop's thread.
#[derive(Debug, Clone, Copy)]
struct Look {
    end_ns: u64,
    ran_ns: u64,
    waited_ns: u64,
}

/// The ends for so many loops, all of which begin at `start_ns`.
pub(crate) fn channel(sampling: Sampling, lanes: u32, start_ns: u64) -> (Vec<Slices>, Collector) {
    let (out, from) = sync_channel(lanes as usize * SPARES);
    let interval_ns = sampling.interval_ns().max(1);
    let (mut slices, mut back) = (Vec::new(), Vec::new());
    for lane in 0..lanes as usize {
        let (give, take) = sync_channel(SPARES);
        for _ in 0..SPARES {
            // The channel was made with room for them.
            let _ = give.try_send(histogram());
        }
        slices.push(Slices {
            lane,
            task: 0,
            start_ns,
            interval_ns,
            begin_ns: start_ns,
            next_ns: start_ns.saturating_add(interval_ns),
            before: Counts::default(),
            connections_before: 0,
            out: out.clone(),
            back: take,
            held: None,
        });
        back.push(give);
    }
    let looks = vec![Some(Look { end_ns: 0, ran_ns: 0, waited_ns: 0 }); lanes as usize];
    (slices, Collector { from, back, looks })
}

impl Collector {
    /// Gives slices away as they come, until every loop has let go of its end.
    pub(crate) fn collect(mut self, mut take: impl FnMut(&Slice<'_>)) {
        while let Ok(mut handed) = self.from.recv() {
            let strain = self.strain(handed.lane, handed.end_ns, handed.task);
            take(&Slice {
                begin_ns: handed.begin_ns,
                end_ns: handed.end_ns,
                counts: handed.counts,
                latency: &handed.latency,
                connections: handed.connections,
                strain,
            });
            handed.latency.reset();
            // A loop that is over needs none back.
            let _ = self.back[handed.lane].try_send(handed.latency);
        }
    }

    /// What a loop's thread did since the last look at it.
    fn strain(&mut self, lane: usize, end_ns: u64, task: i32) -> Strain {
        let now = Look::at(task, end_ns);
        let before = std::mem::replace(&mut self.looks[lane], now);
        let (Some(now), Some(before)) = (now, before) else { return Strain::default() };
        let wall_ns = now.end_ns.saturating_sub(before.end_ns).max(1) as f64;
        let share = |now: u64, before: u64| (now.saturating_sub(before) as f64 / wall_ns).min(1.0);
        Strain { cpu_share: share(now.ran_ns, before.ran_ns), runnable_share: share(now.waited_ns, before.waited_ns) }
    }
}

impl Look {
    fn at(task: i32, end_ns: u64) -> Option<Self> {
        let text = std::fs::read_to_string(format!("/proc/self/task/{task}/schedstat")).ok()?;
        let mut numbers = text.split_whitespace().map_while(|number| number.parse().ok());
        Some(Self { end_ns, ran_ns: numbers.next()?, waited_ns: numbers.next()? })
    }
}

/// Locks a series. It is whole between any two of its operations, even if a thread panicked meanwhile.
pub(crate) fn locked(series: &Mutex<Series>) -> std::sync::MutexGuard<'_, Series> {
    series.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
