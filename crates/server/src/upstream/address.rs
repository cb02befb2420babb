//! Names of upstreams and their addresses. A thread of its own looks names up again and again, as getaddrinfo(3)
//! blocks; loops read the results without a lock.
//!
//! getaddrinfo does not say how long an answer holds, so that the configuration does (`resolve`). If a name cannot be
//! looked up, the last addresses stay.

use std::fmt;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

/// Names that are looked up; further ones have no address.
pub(crate) const NAMES_MAX: usize = 1024;
/// Addresses of a name that count.
const ADDRESSES_MAX: usize = 64;
/// How soon a name is looked up again that could not be.
const AGAIN_AFTER_FAILURE: Duration = Duration::from_secs(1);

/// A name and its addresses.
#[derive(Debug)]
pub(crate) struct Resolved {
    name: String,
    port: u16,
    every: Duration,
    /// Goes up with each change of the addresses; 0 = there were none yet.
    generation: AtomicU64,
    addresses: Mutex<Arc<[SocketAddr]>>,
}

/// What a loop has read of a name.
#[derive(Debug, Clone)]
pub(crate) struct Reading {
    generation: u64,
    addresses: Arc<[SocketAddr]>,
}

impl Default for Reading {
    fn default() -> Self {
        Self { generation: 0, addresses: Arc::from([]) }
    }
}

impl Resolved {
    /// The addresses, in their order; none if the name was never looked up well. As long as they are the same, this
    /// is the read of one atomic.
    pub(crate) fn addresses<'r>(&self, reading: &'r mut Reading) -> &'r [SocketAddr] {
        let generation = self.generation.load(Ordering::Acquire);
        if generation != reading.generation {
            // The lock is held for a copy of a pointer only.
            *reading = Reading { generation, addresses: Arc::clone(&locked(&self.addresses)) };
        }
        &reading.addresses
    }

    /// Whether it ever had addresses.
    pub(crate) fn is_known(&self) -> bool {
        self.generation.load(Ordering::Acquire) > 0
    }

    fn put(&self, mut addresses: Vec<SocketAddr>) {
        // Servers of names answer in another order each time.
        addresses.sort_unstable();
        addresses.dedup();
        addresses.truncate(ADDRESSES_MAX);
        let mut own = locked(&self.addresses);
        if **own != *addresses {
            *own = addresses.into();
            self.generation.fetch_add(1, Ordering::Release);
        }
    }
}

/// Looks up names. It ends with the last handle; a look-up that is under way ends by itself.
#[derive(Debug)]
pub(crate) struct Resolver {
    shared: Arc<Shared>,
}

/// How a name and a port are looked up.
type Lookup = Box<dyn Fn(&str, u16) -> io::Result<Vec<SocketAddr>> + Send>;

struct Shared {
    queue: Mutex<Queue>,
    changed: Condvar,
}

#[derive(Default)]
struct Queue {
    names: Vec<Entry>,
    is_over: bool,
}

struct Entry {
    of: Weak<Resolved>,
    due: Instant,
    state: State,
}

/// What became of the last look-up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    New,
    Good,
    Failed,
}

impl fmt::Debug for Shared {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} names", locked(&self.queue).names.len())
    }
}

impl Resolver {
    /// Starts the thread; before the process is confined, as the system's look-up reads files and opens sockets.
    /// `notice` is told of names that cannot be looked up, once until they can.
    ///
    /// # Errors
    ///
    /// There is no further thread.
    pub(crate) fn start(notice: fn(&str)) -> io::Result<Self> {
        Self::start_with(notice, Box::new(|name, port| Ok((name, port).to_socket_addrs()?.collect())))
    }

    fn start_with(notice: fn(&str), lookup: Lookup) -> io::Result<Self> {
        let shared = Arc::new(Shared { queue: Mutex::default(), changed: Condvar::new() });
        let own = Arc::clone(&shared);
        std::thread::Builder::new().name("weir-names".to_owned()).spawn(move || run(&own, notice, &lookup))?;
        Ok(Self { shared })
    }

    /// A name that is looked up every so often from now on, until the last handle of it is gone. None if there are
    /// [`NAMES_MAX`] already.
    pub(crate) fn name(&self, name: &str, port: u16, every: Duration) -> Option<Arc<Resolved>> {
        let mut queue = locked(&self.shared.queue);
        queue.names.retain(|entry| entry.of.strong_count() > 0);
        let is_same = |of: &Resolved| of.name == name && of.port == port && of.every == every;
        if let Some(known) = queue.names.iter().filter_map(|entry| entry.of.upgrade()).find(|of| is_same(of)) {
            return Some(known);
        }
        if queue.names.len() >= NAMES_MAX {
            return None;
        }
        let of = Arc::new(Resolved {
            name: name.to_owned(),
            port,
            every,
            generation: AtomicU64::new(0),
            addresses: Mutex::new(Arc::from([])),
        });
        queue.names.push(Entry { of: Arc::downgrade(&of), due: Instant::now(), state: State::New });
        self.shared.changed.notify_all();
        Some(of)
    }

    /// Waits until each name was looked up once, well or not, at most so long. For the start of a server.
    pub(crate) fn wait_first(&self, at_most: Duration) {
        let has_new = |queue: &mut Queue| queue.names.iter().any(|entry| entry.state == State::New);
        let waited = self.shared.changed.wait_timeout_while(locked(&self.shared.queue), at_most, has_new);
        drop(waited);
    }
}

impl Drop for Resolver {
    fn drop(&mut self) {
        locked(&self.shared.queue).is_over = true;
        self.shared.changed.notify_all();
    }
}

fn run(shared: &Shared, notice: fn(&str), lookup: &Lookup) {
    let mut queue = locked(&shared.queue);
    while !queue.is_over {
        queue.names.retain(|entry| entry.of.strong_count() > 0);
        let now = Instant::now();
        let next = queue.names.iter().min_by_key(|entry| entry.due).map(|entry| (entry.due, entry.of.clone()));
        let Some((due, of)) = next else {
            queue = shared.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
            continue;
        };
        if due > now {
            let waited = shared.changed.wait_timeout(queue, due - now);
            queue = waited.unwrap_or_else(PoisonError::into_inner).0;
            continue;
        }
        drop(queue);
        let Some(resolved) = of.upgrade() else {
            queue = locked(&shared.queue);
            continue;
        };
        let found = lookup(&resolved.name, resolved.port).and_then(|addresses| {
            if addresses.is_empty() { Err(io::Error::other("it has no address")) } else { Ok(addresses) }
        });
        let (state, after) = match &found {
            Ok(_) => (State::Good, resolved.every),
            Err(_) => (State::Failed, resolved.every.min(AGAIN_AFTER_FAILURE)),
        };
        let failure = found.map(|addresses| resolved.put(addresses)).err();
        queue = locked(&shared.queue);
        let entry = queue.names.iter_mut().find(|entry| Weak::ptr_eq(&entry.of, &of));
        if let Some(entry) = entry {
            if let (Some(error), true) = (failure, entry.state != State::Failed) {
                let kept = if resolved.is_known() { "its last addresses stay" } else { "it has no address" };
                notice(&format!("the upstream {} cannot be looked up: {error}; {kept}", resolved.name));
            }
            (entry.state, entry.due) = (state, Instant::now() + after);
        }
        shared.changed.notify_all();
    }
}

/// What a lock guards is whole at every time, so that a thread that panicked left nothing half done.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;

    const SHORT: Duration = Duration::from_millis(5);
    const LONG: Duration = Duration::from_secs(20);

    fn ignore(_: &str) {}

    fn until(what: impl Fn() -> bool) {
        let begin = Instant::now();
        while !what() {
            assert!(begin.elapsed() < LONG, "it never happens");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn addresses_are_read_anew_only_when_they_change() {
        let round = Arc::new(AtomicUsize::new(0));
        let own = Arc::clone(&round);
        let resolver = Resolver::start_with(
            ignore,
            Box::new(move |name, port| {
                assert_eq!(name, "app");
                if port == 81 {
                    return Err(io::Error::other("no answer for this port"));
                }
                let addresses =
                    [[10, 0, 0, 1], [10, 0, 0, 2], [10, 0, 0, 3]].map(|address| SocketAddr::from((address, port)));
                match own.fetch_add(1, Ordering::Relaxed) {
                    // Another order is no change.
                    0 => Ok(vec![addresses[0], addresses[1]]),
                    1..=5 => Ok(vec![addresses[1], addresses[0], addresses[0]]),
                    6..=10 => Err(io::Error::other("no answer")),
                    11..=15 => Ok(Vec::new()),
                    _ => Ok(vec![addresses[2]]),
                }
            }),
        )
        .expect("starts");
        let of = resolver.name("app", 80, SHORT).expect("room");
        assert!(Arc::ptr_eq(&of, &resolver.name("app", 80, SHORT).expect("room")));
        resolver.wait_first(LONG);
        let mut reading = Reading::default();
        let two: [SocketAddr; 2] = [([10, 0, 0, 1], 80).into(), ([10, 0, 0, 2], 80).into()];
        assert_eq!(of.addresses(&mut reading), two);
        until(|| round.load(Ordering::Relaxed) > 13);
        assert_eq!((of.addresses(&mut reading), of.generation.load(Ordering::Relaxed)), (&two[..], 1));
        until(|| of.generation.load(Ordering::Relaxed) == 2);
        assert_eq!(of.addresses(&mut reading), [([10, 0, 0, 3], 80).into()]);
        drop(of);
        assert_eq!(resolver.name("app", 81, LONG).map(|of| of.is_known()), Some(false));
    }

    #[test]
    fn a_name_that_is_not_there_is_told_once_and_others_go_on() {
        static TOLD: AtomicUsize = AtomicUsize::new(0);
        fn count(told: &str) {
            assert!(told.contains("gone.invalid cannot be looked up"), "{told}");
            TOLD.fetch_add(1, Ordering::Relaxed);
        }
        let rounds = Arc::new(AtomicUsize::new(0));
        let own = Arc::clone(&rounds);
        let lookup: Lookup = Box::new(move |name, port| {
            own.fetch_add(1, Ordering::Relaxed);
            if name == "localhost" { Ok(vec![([127, 0, 0, 1], port).into()]) } else { Err(io::Error::other("no")) }
        });
        let resolver = Resolver::start_with(count, lookup).expect("starts");
        let (gone, here) = (resolver.name("gone.invalid", 80, SHORT), resolver.name("localhost", 81, SHORT));
        let (gone, here) = (gone.expect("room"), here.expect("room"));
        resolver.wait_first(LONG);
        until(|| rounds.load(Ordering::Relaxed) > 10);
        assert!(!gone.is_known() && gone.addresses(&mut Reading::default()).is_empty());
        assert_eq!(here.addresses(&mut Reading::default()), [([127, 0, 0, 1], 81).into()]);
        assert_eq!(TOLD.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn names_have_a_bound_and_go_with_their_handles() {
        let resolver =
            Resolver::start_with(ignore, Box::new(|_, port| Ok(vec![([127, 0, 0, 1], port).into()]))).expect("starts");
        let all: Vec<_> = (0..NAMES_MAX).filter_map(|number| resolver.name(&number.to_string(), 1, LONG)).collect();
        assert_eq!((all.len(), resolver.name("more", 1, LONG).is_none()), (NAMES_MAX, true));
        drop(all);
        assert!(resolver.name("more", 1, LONG).is_some());
        let shared = Arc::downgrade(&resolver.shared);
        drop(resolver);
        until(|| shared.strong_count() == 0);
    }

    #[test]
    fn the_system_is_asked() {
        let resolver = Resolver::start(ignore).expect("starts");
        let of = resolver.name("localhost", 8080, LONG).expect("room");
        resolver.wait_first(LONG);
        let mut reading = Reading::default();
        assert!(of.addresses(&mut reading).iter().all(|address| address.ip().is_loopback() && address.port() == 8080));
    }
}
