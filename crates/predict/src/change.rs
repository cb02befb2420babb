//! What is to be different from the trace.

use crate::trace::{Trace, Visit, Work};

/// A part of the work that is made faster or taken away.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Speed {
    /// Whose work: the name of a pool or its beginning, behind a colon a part or phase; or a text of a label.
    pub what: String,
    /// The share of its time that is saved, 0 to 1.
    pub saved: f64,
}

/// All that is to be different.
#[derive(Debug, Clone, PartialEq, Default, serde::Serialize)]
pub struct Change {
    /// So many times the recorded rate, or of the recorded clients where these ask one request after the other.
    pub rate_factor: Option<f64>,
    /// Requests a second.
    pub rate_per_s: Option<f64>,
    /// Clients that ask one request after the other.
    pub clients: Option<u32>,
    /// Connections of the client.
    pub connections: Option<u32>,
    /// Workers of pools, by name or its beginning.
    pub workers: Vec<(String, u32)>,
    /// CPUs of the server.
    pub cores: Option<u32>,
    /// Faster parts.
    pub faster: Vec<Speed>,
    /// The share that other programs keep of what they had of the CPUs while requests waited for them, 0 to 1.
    pub others: Option<f64>,
}

/// Why a change is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChangeError {
    /// It is not of the form.
    #[error("{text:?} is not of the form {form}")]
    Form {
        /// What was given.
        text: String,
        /// What would be right.
        form: &'static str,
    },
    /// No pool has this name.
    #[error("no pool is called {name:?}; the trace has {known}")]
    Pool {
        /// The name.
        name: String,
        /// The pools of the trace.
        known: String,
    },
    /// No work has this name.
    #[error("nothing that requests did is called {name:?}; the trace has {known}")]
    Work {
        /// The name.
        name: String,
        /// What is known.
        known: String,
    },
    /// A change of the rate where clients ask one after the other.
    #[error(
        "the recorded clients ask one request after the other, so no rate is set; say clients=N, or record a load with \
         a rate (weir load --rate)"
    )]
    ClosedRate,
    /// A change of clients where requests come by a schedule.
    #[error("the recorded requests come by a schedule, whose rate is to be changed; say rate=2x or rate=500/s")]
    OpenClients,
}

const AT: &str = "rate=2x, rate=500/s, clients=20 or connections=64";
const WORKERS: &str = "POOL=N, with N from 1 to 100000";
const FASTER: &str = "'NAME 30%', with at most 100 %";
/// Names that an error shows at most.
const SHOWN: usize = 24;

impl Change {
    /// Takes an `--at`.
    ///
    /// # Errors
    /// It is not of the form `rate=2x`, `rate=500/s`, `clients=20` or `connections=64`, with positive numbers.
    pub fn at(&mut self, text: &str) -> Result<(), ChangeError> {
        let wrong = || ChangeError::Form { text: text.to_owned(), form: AT };
        let (name, value) = text.split_once('=').ok_or_else(wrong)?;
        let number = |text: &str| positive(text).ok_or_else(wrong);
        let count = || value.trim().parse().ok().filter(|n| (1..=100_000).contains(n)).ok_or_else(wrong);
        match (name.trim(), value.trim()) {
            ("rate", value) if value.ends_with('x') => self.rate_factor = Some(number(&value[..value.len() - 1])?),
            ("rate", value) => self.rate_per_s = Some(number(value.strip_suffix("/s").unwrap_or(value))?),
            ("clients", _) => self.clients = Some(count()?),
            ("connections", _) => self.connections = Some(count()?),
            _ => return Err(wrong()),
        }
        Ok(())
    }

    /// Takes a `--workers`.
    ///
    /// # Errors
    /// It is not of the form `POOL=N`.
    pub fn worker(&mut self, text: &str) -> Result<(), ChangeError> {
        let wrong = || ChangeError::Form { text: text.to_owned(), form: WORKERS };
        let (name, value) = text.split_once('=').filter(|(name, _)| !name.is_empty()).ok_or_else(wrong)?;
        let workers = value.parse().ok().filter(|n| (1..=100_000).contains(n)).ok_or_else(wrong)?;
        self.workers.push((name.to_owned(), workers));
        Ok(())
    }

    /// Takes a `--faster`.
    ///
    /// # Errors
    /// It is not of the form `NAME 30%`.
    pub fn fast(&mut self, text: &str) -> Result<(), ChangeError> {
        let wrong = || ChangeError::Form { text: text.to_owned(), form: FASTER };
        let (what, saved) = text.trim().rsplit_once(' ').ok_or_else(wrong)?;
        let saved = share(saved).ok_or_else(wrong)?;
        let what = Some(what.trim().to_owned()).filter(|what| !what.is_empty()).ok_or_else(wrong)?;
        self.faster.push(Speed { what, saved });
        Ok(())
    }

    /// A trace as it would be, but for its rate.
    ///
    /// # Errors
    /// A pool or work is not in the trace, or the change does not fit its arrivals.
    pub fn applied(&self, trace: &Trace) -> Result<Trace, ChangeError> {
        let mut changed = trace.clone();
        if trace.clients.is_some() && self.rate_per_s.is_some() {
            return Err(ChangeError::ClosedRate);
        }
        if trace.clients.is_none() && self.clients.is_some() {
            return Err(ChangeError::OpenClients);
        }
        if let Some(clients) = &mut changed.clients {
            let factor = self.rate_factor.unwrap_or(1.0);
            *clients = self.clients.unwrap_or((f64::from(*clients) * factor).round().max(1.0) as u32);
            changed.connections = changed.connections.map(|_| *clients);
        }
        changed.connections = self.connections.or(changed.connections);
        match self.cores {
            // The client keeps its own.
            Some(cores) if cores < trace.cpus && trace.client_ns > 0.0 => changed.server_cpus = Some(cores.max(1)),
            Some(cores) => (changed.cpus, changed.server_cpus) = (cores.max(1), None),
            None => {}
        }
        for (name, workers) in &self.workers {
            let Some(pool) = changed.pools.iter_mut().find(|pool| is_called(&pool.name, name)) else {
                let known: Vec<&str> = trace.pools.iter().map(|pool| pool.name.as_str()).collect();
                return Err(ChangeError::Pool { name: name.clone(), known: listed(&known) });
            };
            (pool.workers, pool.is_limit) = (*workers, true);
        }
        if let Some(kept) = self.others {
            let visits = changed.requests.iter_mut().flat_map(|request| &mut request.visits);
            visits.filter(|visit| visit.work == Work::Others).for_each(|visit| visit.ns *= kept.clamp(0.0, 1.0));
        }
        for speed in &self.faster {
            quicken(&mut changed, speed)?;
        }
        Ok(changed)
    }

    /// Requests a second at which a trace's would come; `None` where clients ask one after the other.
    #[must_use]
    pub fn rate(&self, trace: &Trace) -> Option<f64> {
        let rate = self.rate_per_s.unwrap_or(trace.rate_per_s() * self.rate_factor.unwrap_or(1.0));
        trace.clients.is_none().then_some(rate)
    }
}

/// Nanoseconds of a mean request that are meant by a name, as `--faster` takes it; 0 where it means nothing of the trace.
#[must_use]
pub fn time_of(trace: &Trace, what: &str) -> f64 {
    let meant = Meant::of(trace, what);
    let visits = trace.requests.iter().flat_map(|request| &request.visits).filter(|visit| meant.has(visit));
    visits.map(|visit| visit.ns).sum::<f64>() / trace.requests.len().max(1) as f64
}

/// What a name means of a trace.
struct Meant {
    labels: Vec<bool>,
    locks: Vec<bool>,
}

impl Meant {
    fn of(trace: &Trace, what: &str) -> Self {
        let (lock, file) = (what.strip_prefix("lock:"), what.strip_prefix("file:"));
        let label = |label: &String| match (lock, file) {
            (Some(name), _) => is_part(label, Some("wait_lock")) && texts(label).any(|text| is_named(text, name)),
            (_, Some(name)) => texts(label).any(|text| is_named(text, name)),
            _ => is_meant(label, what),
        };
        let lock = |known: &String| lock.map_or(known == what, |name| is_named(known, name));
        let locks = trace.locks.iter().map(|known| file.is_none() && lock(known)).collect();
        Self { labels: trace.labels.iter().map(label).collect(), locks }
    }

    fn has(&self, visit: &Visit) -> bool {
        let is = |all: &[bool], at: u16| all.get(usize::from(at)).copied().unwrap_or(false);
        is(&self.labels, visit.label) || visit.lock.is_some_and(|lock| is(&self.locks, lock))
    }
}

/// Shortens what fits.
fn quicken(trace: &mut Trace, speed: &Speed) -> Result<(), ChangeError> {
    let meant = Meant::of(trace, &speed.what);
    let mut found = 0usize;
    let left = (1.0 - speed.saved).clamp(0.0, 1.0);
    for visit in trace.requests.iter_mut().flat_map(|request| &mut request.visits) {
        if meant.has(visit) {
            visit.ns *= left;
            found += 1;
        }
    }
    // What a task does behind its responses is its work too.
    for pool in trace.pools.iter_mut().filter(|pool| is_meant(&pool.name, &speed.what)) {
        pool.after_ns *= left;
    }
    if found == 0 {
        let locks: Vec<String> = trace.locks.iter().map(|lock| format!("lock:{lock}")).collect();
        let labels = trace.labels.iter().filter(|label| !label.is_empty());
        let known: Vec<&str> = locks.iter().chain(labels).map(String::as_str).collect();
        return Err(ChangeError::Work { name: speed.what.clone(), known: listed(&known) });
    }
    Ok(())
}

/// The texts of a label behind its process and part: a phase, a lock, a file.
fn texts(label: &str) -> impl Iterator<Item = &str> {
    label.split_once(':').map_or("", |(_, rest)| rest).split('|').skip(1)
}

/// Whether a label is of a part.
fn is_part(label: &str, part: Option<&str>) -> bool {
    label.split_once(':').and_then(|(_, rest)| rest.split('|').next()) == part
}

/// Whether a lock or file is meant: its whole text, a word of it, or the end of its path.
fn is_named(text: &str, name: &str) -> bool {
    let ends = |word: &str| word == name || word.strip_suffix(name).is_some_and(|before| before.ends_with('/'));
    !name.is_empty() && (text == name || text.split(' ').any(ends))
}

/// Whether a label is what a user means: its whole, a part of it behind a colon, or one that begins as its first word
/// does (`postgres:run`, `postgres`, `php:Shop::prices`).
fn is_meant(label: &str, what: &str) -> bool {
    if label.is_empty() || what.is_empty() {
        return false;
    }
    if label == what {
        return true;
    }
    let (pool, rest) = label.split_once(':').unwrap_or((label, ""));
    match what.split_once(':') {
        None => is_called(pool, what) || rest.split('|').any(|word| word == what),
        Some((first, second)) => {
            let is_pool = is_called(pool, first);
            (is_pool && rest.split('|').any(|word| word == second)) || rest.split('|').any(|word| word == what)
        }
    }
}

/// Whether a pool of this name is meant: `fpm` and `php` are `php-fpm8.2`.
fn is_called(name: &str, meant: &str) -> bool {
    name == meant || name.starts_with(meant) || name.split(['-', '_', ' ']).any(|word| word.starts_with(meant))
}

fn listed(names: &[&str]) -> String {
    let shown = names.iter().take(SHOWN).copied().collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(SHOWN) {
        0 if names.is_empty() => "none".to_owned(),
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

fn positive(text: &str) -> Option<f64> {
    text.trim().parse().ok().filter(|number: &f64| number.is_finite() && *number > 0.0)
}

/// A share of one, as `30%`.
fn share(text: &str) -> Option<f64> {
    let number = text.trim().strip_suffix('%')?.trim().parse::<f64>().ok()?;
    (number > 0.0 && number <= 100.0).then_some(number / 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_means_a_pool_a_part_or_a_phase() {
        for (label, what) in [
            ("postgres:run", "postgres:run"),
            ("postgres:run", "postgres"),
            ("php-fpm8.2:run", "fpm"),
            ("php-fpm8.2:run|php:Shop::prices", "php:Shop::prices"),
            ("php-fpm8.2:run|Shop::prices", "php:Shop::prices"),
            ("gunicorn:wait_timer", "gunicorn:wait_timer"),
        ] {
            assert!(is_meant(label, what), "{label} is {what}");
        }
        for (label, what) in [("postgres:run", "postgres:wait_lock"), ("nginx:run", "apache2"), ("", ""), ("a:run", "")]
        {
            assert!(!is_meant(label, what), "{label} is not {what}");
        }
    }

    #[test]
    fn a_lock_or_a_file_is_meant_by_its_name() {
        for (text, name) in [
            ("flock /run/shop.lock", "flock /run/shop.lock"),
            ("flock /run/shop.lock", "/run/shop.lock"),
            ("flock /run/shop.lock", "shop.lock"),
            ("/var/log/access.log", "access.log"),
        ] {
            assert!(is_named(text, name), "{text} is {name}");
        }
        for (text, name) in [("flock /run/shop.lock", "op.lock"), ("flock /run/a", "lock"), ("/a/b", ""), ("", "a")] {
            assert!(!is_named(text, name), "{text} is not {name}");
        }
        let mut trace = Trace::default();
        trace.locks.push("flock /run/shop.lock".to_owned());
        let (_, stack) = (trace.label(""), trace.stack(&[]));
        let labels = ["php:run", "php:wait_lock|flock /run/shop.lock", "php:wait_disk|/data/a", "php:run|/data/a"];
        let numbers = labels.map(|label| trace.label(label));
        let visits = numbers.map(|label| Visit {
            stack,
            work: Work::Cpu,
            lock: (label == numbers[0]).then_some(0),
            ns: f64::from(label),
            label,
        });
        trace.requests.push(crate::Request { visits: visits.to_vec(), ..crate::Request::default() });
        for (what, ns) in [
            ("lock:shop.lock", 3.0),
            ("flock /run/shop.lock", 3.0),
            ("lock:/data/a", 0.0),
            ("file:a", 7.0),
            ("file:/data/a", 7.0),
            ("file:shop.lock", 2.0),
            ("wait_disk", 3.0),
        ] {
            assert!((time_of(&trace, what) - ns).abs() < 1e-9, "{what}: {}", time_of(&trace, what));
        }
        let mut change = Change::default();
        change.fast("lock:other 30%").expect("right");
        let refused = change.applied(&trace).expect_err("no such lock").to_string();
        assert!(refused.contains("lock:flock /run/shop.lock"), "{refused}");
    }

    #[test]
    fn what_is_asked_is_read_or_refused() {
        let mut change = Change::default();
        change.at("rate=2x").and_then(|()| change.at("connections=64")).expect("right");
        change.at("rate=500/s").and_then(|()| change.worker("fpm=16")).expect("right");
        change.fast("postgres:run 30%").expect("right");
        assert_eq!((change.rate_factor, change.rate_per_s, change.connections), (Some(2.0), Some(500.0), Some(64)));
        assert_eq!(change.workers, [("fpm".to_owned(), 16)]);
        assert!((change.faster[0].saved - 0.3).abs() < 1e-12);
        for wrong in ["rate", "rate=0x", "rate=-3", "rate=infx", "clients=0", "clients=1.5", "x=1"] {
            assert!(change.at(wrong).is_err(), "{wrong}");
        }
        for wrong in ["fpm", "=3", "fpm=0", "fpm=x"] {
            assert!(change.worker(wrong).is_err(), "{wrong}");
        }
        for wrong in ["30%", "php 30", "php 101%", "php 0%", "php NaN%"] {
            assert!(change.fast(wrong).is_err(), "{wrong}");
        }
    }
}
