//! The bounds of a request: its memory, its CPU time, and how many run and wait at once.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use wasmtime::{Engine, ResourceLimiter};

/// How long a component computes until the next one may.
const TICK: Duration = Duration::from_millis(10);

/// The bounds, as the command line gives them.
#[derive(Clone, Debug)]
pub(crate) struct Limits {
    /// From a request's arrival to the end of its instance.
    pub(crate) timeout: Duration,
    /// CPU time of a request.
    pub(crate) cpu: Duration,
    /// Bytes of all memories of an instance.
    pub(crate) memory_bytes: usize,
    /// Elements of each table of an instance.
    pub(crate) table_elements: usize,
    /// Instances at once.
    pub(crate) instances: u32,
    /// Requests that wait for an instance.
    pub(crate) queue: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(60),
            cpu: Duration::from_secs(10),
            memory_bytes: 128 << 20,
            table_elements: 20_000,
            instances: 64,
            queue: 1024,
        }
    }
}

/// Which bound an instance has reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Bound {
    /// CPU time.
    #[error("it has used its CPU time (--cpu)")]
    Cpu,
    /// Time since the request came.
    #[error("it has not ended in time (--timeout)")]
    Time,
}

/// Keeps an instance's memories and tables within their bounds, and remembers what it has refused.
#[derive(Debug)]
pub(crate) struct Room {
    memory_left: usize,
    table_elements: usize,
    /// What was refused, in words.
    pub(crate) refused: Option<&'static str>,
}

impl Room {
    /// The room of a new instance.
    pub(crate) fn new(limits: &Limits) -> Self {
        Self { memory_left: limits.memory_bytes, table_elements: limits.table_elements, refused: None }
    }
}

impl ResourceLimiter for Room {
    fn memory_growing(&mut self, current: usize, desired: usize, _: Option<usize>) -> wasmtime::Result<bool> {
        let Some(left) = self.memory_left.checked_sub(desired.saturating_sub(current)) else {
            self.refused = Some("more memory was refused to it (--memory)");
            return Ok(false);
        };
        self.memory_left = left;
        Ok(true)
    }

    fn table_growing(&mut self, _: usize, desired: usize, _: Option<usize>) -> wasmtime::Result<bool> {
        let fits = desired <= self.table_elements;
        if !fits {
            self.refused = Some("a larger table was refused to it (--table)");
        }
        Ok(fits)
    }
}

/// The CPU time of one request, over all threads that have run it.
#[derive(Debug, Default)]
pub(crate) struct CpuTime {
    spent_ns: AtomicU64,
    /// Of the running thread's clock, when it began to run the request.
    began_ns: AtomicU64,
}

impl CpuTime {
    /// CPU time until now; to be asked by the thread that runs the request.
    pub(crate) fn used(&self) -> Duration {
        let now = thread_cpu_ns().saturating_sub(self.began_ns.load(Ordering::Relaxed));
        Duration::from_nanos(self.spent_ns.load(Ordering::Relaxed) + now)
    }
}

/// CPU time of this thread in nanoseconds (CLOCK_THREAD_CPUTIME_ID of clock_gettime(2)).
fn thread_cpu_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes into `time` alone, which lives until it returns.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// A future whose CPU time is counted.
pub(crate) struct Metered<F> {
    inner: Pin<Box<F>>,
    cpu: Arc<CpuTime>,
}

impl<F> Metered<F> {
    /// Counts the CPU time of `inner` in `cpu`.
    pub(crate) fn new(inner: F, cpu: Arc<CpuTime>) -> Self {
        Self { inner: Box::pin(inner), cpu }
    }
}

impl<F: Future> Future for Metered<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let began = thread_cpu_ns();
        self.cpu.began_ns.store(began, Ordering::Relaxed);
        let polled = self.inner.as_mut().poll(context);
        self.cpu.spent_ns.fetch_add(thread_cpu_ns().saturating_sub(began), Ordering::Relaxed);
        polled
    }
}

/// Lets each component compute for a while only, as long as any runs.
#[derive(Debug)]
pub(crate) struct Ticker {
    running: Arc<AtomicUsize>,
    thread: std::thread::Thread,
}

impl Ticker {
    /// Starts the thread that counts the engine's epochs.
    pub(crate) fn start(engine: Engine) -> std::io::Result<Self> {
        let running = Arc::new(AtomicUsize::new(0));
        let seen = running.clone();
        let body = move || loop {
            if seen.load(Ordering::SeqCst) == 0 {
                std::thread::park();
            }
            std::thread::sleep(TICK);
            engine.increment_epoch();
        };
        let thread = std::thread::Builder::new().name("ticker".to_owned()).spawn(body)?.thread().clone();
        Ok(Self { running, thread })
    }

    /// Says that a request runs, until what is returned is dropped.
    pub(crate) fn begin(&self) -> Ticking {
        if self.running.fetch_add(1, Ordering::SeqCst) == 0 {
            self.thread.unpark();
        }
        Ticking(self.running.clone())
    }
}

/// A request that runs.
#[derive(Debug)]
pub(crate) struct Ticking(Arc<AtomicUsize>);

impl Drop for Ticking {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Lets in as many requests at once as there are instances, and as many wait as the queue holds.
#[derive(Debug)]
pub(crate) struct Gate {
    places: Arc<Semaphore>,
    waiting: AtomicU32,
    queue: u32,
}

/// Why a request gets no instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Closed {
    /// The queue is full.
    #[error("the queue is full (--queue)")]
    Full,
    /// It has waited too long.
    #[error("there was no free instance in time (--instances)")]
    Late,
}

impl Gate {
    /// A gate of these bounds.
    pub(crate) fn new(limits: &Limits) -> Self {
        let places = Arc::new(Semaphore::new(limits.instances as usize));
        Self { places, waiting: AtomicU32::new(0), queue: limits.queue }
    }

    /// Waits for a place, in the order of arrival.
    pub(crate) async fn enter(&self, patience: Duration) -> Result<OwnedSemaphorePermit, Closed> {
        if let Ok(permit) = self.places.clone().try_acquire_owned() {
            return Ok(permit);
        }
        let _waits = Waits::begin(self)?;
        match tokio::time::timeout(patience, self.places.clone().acquire_owned()).await {
            Ok(Ok(permit)) => Ok(permit),
            _ => Err(Closed::Late),
        }
    }
}

/// A request that waits; a dropped one, whose client has gone away, waits no more.
struct Waits<'a>(&'a Gate);

impl<'a> Waits<'a> {
    fn begin(gate: &'a Gate) -> Result<Self, Closed> {
        let before = gate.waiting.fetch_add(1, Ordering::SeqCst);
        let waits = Self(gate);
        if before >= gate.queue { Err(Closed::Full) } else { Ok(waits) }
    }
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memories_share_one_bound() {
        let mut room = Room::new(&Limits { memory_bytes: 100, ..Limits::default() });
        assert!(room.memory_growing(0, 60, None).unwrap());
        assert!(room.memory_growing(0, 30, None).unwrap());
        assert!(room.memory_growing(60, 70, None).unwrap());
        assert!(room.refused.is_none());
        assert!(!room.memory_growing(70, 71, None).unwrap());
        assert!(room.refused.is_some());
    }

    #[tokio::test]
    async fn the_queue_is_bounded_and_a_place_comes_free() {
        let gate = Gate::new(&Limits { instances: 1, queue: 1, ..Limits::default() });
        let first = gate.enter(Duration::from_secs(1)).await.unwrap();
        assert_eq!(gate.enter(Duration::from_millis(5)).await.err(), Some(Closed::Late));
        let full = async {
            while gate.waiting.load(Ordering::SeqCst) == 0 {
                tokio::task::yield_now().await;
            }
            let closed = gate.enter(Duration::from_secs(60)).await.err();
            drop(first);
            closed
        };
        let (second, third) = tokio::join!(gate.enter(Duration::from_secs(60)), full);
        assert!(second.is_ok());
        assert_eq!(third, Some(Closed::Full));
        assert_eq!(gate.waiting.load(Ordering::SeqCst), 0);
    }
}
