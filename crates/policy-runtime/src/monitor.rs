//! How this node is: its CPUs and memory by /proc, its requests by the server's own counts, what they wait for by its
//! loops' timestamps and by the scheduler's account of each loop (schedstat).

use rustc_hash::FxHashMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Instant;
use weir_adapt::Resource;
use weir_measure::part::Part;
use weir_measure::queueing::at_once;
use weir_server::{Counters, Counts, Waits};

/// Where the threads of this process are told of.
const TASKS: &str = "/proc/self/task";
/// The names of the server's loops begin so.
const LOOPS: &str = "weir-loop";
/// Looks from one list of the loops to the next.
const LIST_EVERY: u32 = 10;
/// Bytes of a file that is read; all that is wanted stands at its beginning.
const HEAD_BYTES: usize = 4096;

/// Looks at the node again and again: the readings that rules have of it.
#[derive(Debug)]
pub struct Monitor {
    counters: Counters,
    /// Opened before the server gives up the rest of the file system.
    stat: Option<File>,
    meminfo: Option<File>,
    last: Option<Look>,
    /// What requests waited for between the last two looks.
    waits: Vec<Wait>,
    looks: u32,
    /// The loops' accounts by the number of their threads.
    accounts: FxHashMap<u64, Option<(File, u64)>>,
}

/// What one look found.
#[derive(Debug)]
struct Look {
    at: Instant,
    counts: Counts,
    /// Ticks of all CPUs: in use, and all.
    cpu: Option<(u64, u64)>,
    refused: u64,
    waits: Waits,
}

/// What requests waited for, by the part of a response that it is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Wait {
    pub(crate) part: Part,
    /// The mean of each request, in seconds.
    pub(crate) wait_s: f64,
    /// How many waited on average.
    pub(crate) queue: f64,
}

/// The readings of a look, each with its resource and in the unit of that.
pub type Readings = Vec<(Resource, f64)>;

impl Monitor {
    /// Of the server with these counters. To be made before that confines itself.
    pub fn open(counters: Counters) -> Self {
        let (stat, meminfo) = (File::open("/proc/stat").ok(), File::open("/proc/meminfo").ok());
        Self { counters, stat, meminfo, last: None, waits: Vec::new(), looks: 0, accounts: FxHashMap::default() }
    }

    /// Looks; `refused` are the requests that rules have refused so far, which are no errors of the server's. The first
    /// look has no rates, waits and errors: those are of the time since the look before.
    pub fn look(&mut self, refused: u64) -> Readings {
        let mut readings = Vec::with_capacity(Resource::ALL.len());
        let waited_ns = self.waited_ns();
        let now = Look {
            at: Instant::now(),
            counts: self.counters.read(),
            cpu: self.cpu(),
            refused,
            waits: self.counters.waits(),
        };
        if let Some((used, all)) = self.memory() {
            readings.push((Resource::Mem, used));
            readings.push((Resource::MemShare, 100.0 * used / all));
        }
        let mut active = self.counters.active() as f64;
        if let Some(last) = self.last.replace(now)
            && let Some(now) = &self.last
        {
            let seconds = now.at.duration_since(last.at).as_secs_f64().max(1e-3);
            if let (Some((used, all)), Some((used_before, all_before))) = (now.cpu, last.cpu)
                && all > all_before
            {
                let share = used.saturating_sub(used_before) as f64 / (all - all_before) as f64;
                readings.push((Resource::Cpu, (100.0 * share).min(100.0)));
            }
            let requests = (now.counts.requests - last.counts.requests) as f64;
            let errors = now.counts.server_errors - last.counts.server_errors;
            let refused = now.refused - last.refused;
            let errors = errors.saturating_sub(refused) as f64;
            readings.push((Resource::Rate, requests / seconds));
            readings.push((Resource::Errors, errors / seconds));
            readings.push((Resource::ErrorShare, error_percent(requests, refused, errors)));
            let bits = 8.0 * (now.counts.bytes_sent - last.counts.bytes_sent) as f64;
            readings.push((Resource::Bandwidth, bits / seconds));
            let between = |now: u64, before: u64| now.saturating_sub(before);
            let queued_ns = between(now.waits.queued_ns, last.waits.queued_ns);
            let parked_ns = between(now.waits.parked_ns, last.waits.parked_ns);
            let looked_ns = between(now.waits.looked_ns, last.waits.looked_ns);
            let parts = [
                (Part::WorkerQueue, Some(queued_ns.saturating_add(parked_ns))),
                (Part::WaitCpu, waited_ns),
                (Part::WaitDisk, Some(looked_ns)),
            ];
            self.waits = waits_of(&parts, requests, seconds);
            readings.push((Resource::Wait, self.waits.iter().map(|wait| wait.wait_s).sum()));
            readings.push((Resource::Queue, self.waits.iter().map(|wait| wait.queue).sum()));
            // Requests that wait behind a bound are under way already, so `parked_ns` is left out.
            active += queued_ns as f64 / 1e9 / seconds;
        }
        readings.push((Resource::Active, active));
        self.looks = self.looks.wrapping_add(1);
        readings
    }

    /// What requests waited for between the last two looks.
    pub(crate) fn waits(&self) -> &[Wait] {
        &self.waits
    }

    /// Ticks of all CPUs together since the machine started: in use, and all.
    fn cpu(&self) -> Option<(u64, u64)> {
        cpu_of(&head(self.stat.as_ref()?)?)
    }

    /// Bytes in use, and all of them.
    fn memory(&self) -> Option<(f64, f64)> {
        memory_of(&head(self.meminfo.as_ref()?)?)
    }

    /// Nanoseconds that the loops were ready to run and had no CPU, since the last look; `None` where the system does not
    /// tell.
    fn waited_ns(&mut self) -> Option<u64> {
        if self.looks.is_multiple_of(LIST_EVERY) || self.accounts.values().all(Option::is_none) {
            self.list();
        }
        let mut sum = None;
        for account in self.accounts.values_mut() {
            let Some((file, before)) = account else { continue };
            match head(file).and_then(|text| text.split(' ').nth(1)?.trim().parse::<u64>().ok()) {
                Some(waited_ns) => {
                    sum = Some(sum.unwrap_or(0) + waited_ns.saturating_sub(*before));
                    *before = waited_ns;
                }
                // The thread is over.
                None => *account = None,
            }
        }
        sum
    }

    fn list(&mut self) {
        for entry in std::fs::read_dir(TASKS).into_iter().flatten().flatten() {
            let Some(number) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
            let account = self.accounts.entry(number).or_default();
            if account.is_some() {
                continue;
            }
            // A thread gets its name when it has begun, so that one without may have it by now.
            *account = account_of(&entry.path());
        }
    }
}

/// Waits by part, of nanoseconds that so many requests waited in so many seconds; what is not known is left out.
fn waits_of(parts: &[(Part, Option<u64>)], requests: f64, seconds: f64) -> Vec<Wait> {
    let all_s: f64 = parts.iter().filter_map(|(_, ns)| *ns).map(|ns| ns as f64 / 1e9).sum();
    // Where more wait than were answered, as behind a bound, they are those whose mean it is.
    let of = requests.max(all_s / seconds).max(1.0);
    let known = parts.iter().filter_map(|(part, ns)| Some((*part, (*ns)? as f64)));
    known.map(|(part, ns)| Wait { part, wait_s: ns / 1e9 / of, queue: at_once(of / seconds, ns / of) }).collect()
}

/// The account of a thread and what it has waited before, which is no part of the next look; `None`: it is no loop.
fn account_of(folder: &Path) -> Option<(File, u64)> {
    let name = std::fs::read_to_string(folder.join("comm")).ok()?;
    let file = name.starts_with(LOOPS).then(|| File::open(folder.join("schedstat")).ok()).flatten()?;
    let before = head(&file)?.split(' ').nth(1)?.trim().parse().ok()?;
    Some((file, before))
}

fn head(file: &File) -> Option<String> {
    let mut bytes = [0; HEAD_BYTES];
    let count = file.read_at(&mut bytes, 0).ok()?;
    // Both tell in ASCII.
    Some(String::from_utf8_lossy(&bytes[..count]).into_owned())
}

/// The first line of /proc/stat: user, nice, system, idle, iowait, irq, softirq, steal; the guests are in user already.
fn cpu_of(text: &str) -> Option<(u64, u64)> {
    let ticks = text.lines().next()?.strip_prefix("cpu ")?.split_whitespace().take(8);
    let ticks: Vec<u64> = ticks.map(|word| word.parse().ok()).collect::<Option<_>>()?;
    let all: u64 = ticks.iter().sum();
    (ticks.len() >= 5).then(|| (all - ticks[3] - ticks[4], all))
}

/// The share of errors in percent, of the requests that no rule refused: what is refused is neither served nor an error, and
/// a rule that refuses because of errors must not make them fewer by that.
fn error_percent(requests: f64, refused: u64, errors: f64) -> f64 {
    (100.0 * errors / (requests - refused as f64).max(1.0)).min(100.0)
}

/// Memory that programs could not have: all but what is available, as it would be without swapping.
fn memory_of(text: &str) -> Option<(f64, f64)> {
    let kib = |name: &str| -> Option<f64> {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        line.trim().strip_suffix(" kB")?.parse().ok()
    };
    let (all, available) = (kib("MemTotal")?, kib("MemAvailable")?);
    (all > 0.0).then_some((1024.0 * (all - available).max(0.0), 1024.0 * all))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_that_of_each_and_a_queue_that_of_all() {
        let parts = [(Part::WorkerQueue, Some(30_000_000_000)), (Part::WaitCpu, None), (Part::WaitDisk, Some(0))];
        let near = |found: f64, expected: f64| assert!((found - expected).abs() < 1e-9, "{found}, not {expected}");
        let waits = waits_of(&parts, 6000.0, 2.0);
        assert_eq!(waits.iter().map(|wait| wait.part).collect::<Vec<_>>(), [Part::WorkerQueue, Part::WaitDisk]);
        // 15 wait at any time: 3,000 a second for 5 ms each.
        near(waits[0].wait_s, 0.005);
        near(waits[0].queue, 15.0);
        // None was answered: each of 15 has waited for those two seconds.
        let waits = waits_of(&parts, 0.0, 2.0);
        near(waits[0].wait_s, 2.0);
        near(waits[0].queue, 15.0);
        near(waits[1].wait_s + waits[1].queue, 0.0);
    }

    #[test]
    fn the_share_of_errors_is_of_what_no_rule_refused() {
        // Of 100 requests 90 were refused by a rule, and 5 of the other 10 failed.
        assert_eq!(error_percent(100.0, 90, 5.0), 50.0);
        assert_eq!(error_percent(100.0, 0, 5.0), 5.0);
        assert_eq!(error_percent(100.0, 100, 0.0), 0.0);
        // Those that fail may have come before the look.
        assert_eq!(error_percent(0.0, 0, 3.0), 100.0);
    }

    #[test]
    fn the_systems_files_are_read() {
        assert_eq!(cpu_of("cpu  100 5 50 800 40 3 2 0 9 0\ncpu0 1 1 1 1\n"), Some((160, 1000)));
        assert_eq!(cpu_of("intr 5\n"), None);
        assert_eq!(
            memory_of("MemTotal:  1000 kB\nMemFree: 5 kB\nMemAvailable:    400 kB\n"),
            Some((614_400.0, 1_024_000.0))
        );
        assert_eq!(memory_of("MemTotal: 1000 kB\n"), None);
        // Those of this machine, too.
        assert!(cpu_of(&head(&File::open("/proc/stat").expect("there")).expect("read")).is_some());
        assert!(memory_of(&head(&File::open("/proc/meminfo").expect("there")).expect("read")).is_some());
    }
}
