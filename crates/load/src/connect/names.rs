//! Names that are resolved again while a run goes on: by a thread of the host's own, as a resolver may take its time.
//!
//! A loop asks where an address is wanted and the last answer is too old; it looks for the answer later, and goes on with
//! everything else meanwhile. At most one question is under way and one waits, however many ask.

use crate::LoadError;
use crate::connect::endpoints::Endpoints;
use crate::connect::kernel::monotonic_ns;
use crate::reach::resolve::{self, Again, Family};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The most addresses that a name may come to have beside those of the begin.
pub(crate) const LATER_MAX: usize = 256;

/// A name, and which of its addresses can be used.
#[derive(Debug, Clone)]
pub(crate) struct Name {
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) family: Family,
    /// Whether addresses of IPv4 and IPv6 fit the addresses that connections come from.
    pub(crate) fits: (bool, bool),
}

/// Why a name led to no address.
#[derive(Debug, thiserror::Error)]
enum LookupError {
    /// The resolver has none.
    #[error(transparent)]
    Resolver(#[from] LoadError),
    /// Those that it has cannot be reached from here.
    #[error("{host}: it has no address of the source addresses' version any more")]
    Version {
        /// The name.
        host: String,
    },
}

/// The addresses of one host's name.
#[derive(Debug)]
pub(crate) struct Names {
    shared: Arc<Shared>,
    ask: SyncSender<()>,
    ttl_ns: u64,
}

/// What is known of a name for a connection.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Looked {
    /// The answer of this number is fresh enough.
    Known(u64),
    /// A question that was asked for it failed, for this reason.
    Failed(String),
    /// It was asked, and the answer is awaited.
    Awaited,
}

#[derive(Debug)]
struct Shared {
    endpoints: Arc<Endpoints>,
    /// When the last question began, answered or not; 0 = none has.
    began_ns: AtomicU64,
    /// When the questions began that were answered last, and that failed last; 0 = none has.
    looked_ns: AtomicU64,
    failed_ns: AtomicU64,
    /// The number of the answer in use: it grows with each change.
    number: AtomicU64,
    told: Mutex<Told>,
}

#[derive(Debug, Default)]
struct Told {
    /// Places of the addresses in use.
    in_use: Vec<usize>,
    questions: u64,
    failures: u64,
    failure: String,
    changes: u64,
    /// Addresses that there was no room for.
    passed_over: u64,
}

impl Shared {
    fn told(&self) -> MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the answer to a question that began at a time.
    fn take(&self, began_ns: u64, answer: Result<Vec<SocketAddr>, LookupError>) {
        let mut told = self.told();
        told.questions += 1;
        let addresses = match answer {
            Ok(addresses) => addresses,
            Err(failure) => {
                told.failures += 1;
                told.failure = failure.to_string();
                self.failed_ns.store(began_ns, Ordering::Release);
                return;
            }
        };
        let places: Vec<usize> = addresses.iter().filter_map(|address| self.endpoints.place_of(*address)).collect();
        told.passed_over += (addresses.len() - places.len()) as u64;
        let mut sorted = [places.clone(), told.in_use.clone()];
        sorted.iter_mut().for_each(|places| places.sort_unstable());
        // Resolvers give the addresses of a name in any order: that alone is no change.
        if sorted[0] != sorted[1] && !places.is_empty() {
            told.in_use = places;
            told.changes += 1;
            self.number.fetch_add(1, Ordering::Release);
        }
        self.looked_ns.store(began_ns, Ordering::Release);
    }
}

impl Names {
    /// The addresses of a name that was just resolved to `endpoints`.
    pub(crate) fn new(name: Name, again: Again, endpoints: &Arc<Endpoints>) -> Result<Self, LoadError> {
        let shared = Arc::new(Shared {
            endpoints: Arc::clone(endpoints),
            began_ns: AtomicU64::new(0),
            looked_ns: AtomicU64::new(monotonic_ns()),
            failed_ns: AtomicU64::new(0),
            number: AtomicU64::new(0),
            told: Mutex::new(Told { in_use: (0..endpoints.first().len()).collect(), ..Told::default() }),
        });
        let (ask, asked) = sync_channel(1);
        let of_thread = Arc::clone(&shared);
        // It is not waited for at the end: a resolver that does not answer would hold the report up.
        std::thread::Builder::new()
            .name("weir-names".to_owned())
            .spawn(move || resolve(&name, &of_thread, &asked))
            .map_err(|cause| LoadError::System { what: "making a thread", cause })?;
        Ok(Self { shared, ask, ttl_ns: again.ttl_ns() })
    }

    /// What is known for a connection that was begun at this time; where it is not enough, the resolver is asked.
    pub(crate) fn look(&self, begun_ns: u64) -> Looked {
        let looked_ns = self.shared.looked_ns.load(Ordering::Acquire);
        if looked_ns.saturating_add(self.ttl_ns) >= begun_ns {
            return Looked::Known(self.shared.number.load(Ordering::Acquire));
        }
        if self.shared.failed_ns.load(Ordering::Acquire) >= begun_ns {
            let told = self.shared.told();
            return Looked::Failed(told.failure.clone());
        }
        if self.shared.began_ns.load(Ordering::Acquire) < begun_ns {
            // Where one waits already, that begins later than now.
            let _ = self.ask.try_send(());
        }
        Looked::Awaited
    }

    /// Places of the addresses in use.
    pub(crate) fn in_use(&self) -> Vec<usize> {
        self.shared.told().in_use.clone()
    }

    /// What is to be known of it at the end, in words, if anything is.
    pub(crate) fn words(&self, host: &str) -> Option<String> {
        let told = self.shared.told();
        if told.changes + told.failures + told.passed_over == 0 {
            return None;
        }
        let list = |places: &[usize]| {
            let each = places.iter().map(|place| self.shared.endpoints[*place].to_string());
            each.collect::<Vec<_>>().join(", ")
        };
        let mut words = format!("{host} was resolved again {} times", told.questions);
        if told.changes > 0 {
            words.push_str(&format!("; its addresses changed {} times, last to {}", told.changes, list(&told.in_use)));
        }
        if told.failures > 0 {
            words.push_str(&format!("; {} of these failed, last so: {}", told.failures, told.failure));
        }
        if told.passed_over > 0 {
            words.push_str(&format!("; {} addresses were one too many and not used", told.passed_over));
        }
        Some(words)
    }
}

/// Answers questions until no more can come.
fn resolve(name: &Name, shared: &Shared, asked: &Receiver<()>) {
    while asked.recv().is_ok() {
        let began_ns = monotonic_ns();
        shared.began_ns.store(began_ns, Ordering::Release);
        let answer = resolve::addresses(&name.host, name.port, name.family, &[]);
        let fitting = answer.map_err(LookupError::from).and_then(|mut addresses| {
            addresses.retain(|address| if address.is_ipv4() { name.fits.0 } else { name.fits.1 });
            match addresses.is_empty() {
                true => Err(LookupError::Version { host: name.host.clone() }),
                false => Ok(addresses),
            }
        });
        shared.take(began_ns, fitting);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn address(last: u8) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, last], 80))
    }

    fn names(again: Again) -> Names {
        let endpoints = Arc::new(Endpoints::new(vec![address(1).into()], 2));
        let name = Name { host: "localhost".into(), port: 80, family: Family::V4, fits: (true, true) };
        Names::new(name, again, &endpoints).expect("a thread")
    }

    #[test]
    fn an_answer_counts_for_its_time() {
        let names = names(Again::After(Duration::from_secs(1)));
        let begun_ns = names.shared.looked_ns.load(Ordering::Relaxed);
        assert_eq!(names.look(begun_ns + 1_000_000_000), Looked::Known(0));
        names.shared.take(begun_ns + 5, Ok(vec![address(2), address(1)]));
        assert_eq!((names.look(begun_ns + 1_000_000_005), names.in_use()), (Looked::Known(1), vec![1, 0]));
        names.shared.take(begun_ns + 6, Ok(vec![address(1), address(2)]));
        assert_eq!(names.look(begun_ns), Looked::Known(1), "another order is no change");
        // One that failed counts for connections that were begun before it.
        let failure = LookupError::Version { host: "h".into() };
        let words = failure.to_string();
        names.shared.take(begun_ns + 3_000_000_000, Err(failure));
        assert_eq!(names.look(begun_ns + 2_999_999_999), Looked::Failed(words));
        names.shared.take(begun_ns + 7, Ok(vec![address(3), address(4), address(5)]));
        let words = names.words("h").expect("something is to be told");
        for part in ["4 times", "changed 2 times, last to 127.0.0.3:80", "1 of these failed", "2 addresses were"] {
            assert!(words.contains(part), "{part}: {words}");
        }
    }

    #[test]
    fn the_resolver_is_asked_where_the_answer_is_too_old() {
        let names = names(Again::Each);
        let begun_ns = monotonic_ns();
        for _ in 0..5_000 {
            match names.look(begun_ns) {
                Looked::Awaited => std::thread::sleep(Duration::from_millis(1)),
                known => {
                    assert_eq!(known, Looked::Known(0));
                    return assert!(names.words("localhost").is_none(), "nothing changed");
                }
            }
        }
        panic!("localhost is known to every resolver");
    }
}
