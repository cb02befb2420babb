//! How this node is: its CPUs and memory by /proc, its requests by the server's own counts, the waits of its loops by
//! the scheduler's account of each (schedstat).

use rustc_hash::FxHashMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::Instant;
use weir_adapt::Resource;
use weir_server::{Counters, Counts};

/// Where the threads of this process are told of.
const TASKS: &str = "/proc/self/task";
/// The names of the server's loops begin so.
const LOOPS: &str = "weir-loop";
/// Looks from one list of the loops to the next.
const LIST_EVERY: u32 = 10;
/// Bytes of a file that is read; all that is wanted stands at its beginning.
const HEAD_BYTES: usize = 4096;

/// Looks at the node again and again.
#[derive(Debug)]
pub(crate) struct Monitor {
    counters: Counters,
    /// Opened before the server gives up the rest of the file system.
    stat: Option<File>,
    meminfo: Option<File>,
    last: Option<Look>,
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
}

/// The readings of a look, each with its resource.
pub(crate) type Readings = Vec<(Resource, f64)>;

impl Monitor {
    /// To be made before the server confines itself.
    pub(crate) fn open(counters: Counters) -> Self {
        let (stat, meminfo) = (File::open("/proc/stat").ok(), File::open("/proc/meminfo").ok());
        Self { counters, stat, meminfo, last: None, looks: 0, accounts: FxHashMap::default() }
    }

    /// Looks; `refused` are the requests that rules have refused so far, which are no errors of the server's. The first
    /// look has no rates.
    pub(crate) fn look(&mut self, refused: u64) -> Readings {
        let mut readings = Vec::with_capacity(Resource::ALL.len());
        let waited_ns = self.waited_ns();
        let now = Look { at: Instant::now(), counts: self.counters.read(), cpu: self.cpu(), refused };
        if let Some((used, all)) = self.memory() {
            readings.push((Resource::Mem, used));
            readings.push((Resource::MemShare, 100.0 * used / all));
        }
        readings.push((Resource::Active, self.counters.active() as f64));
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
            let errors = errors.saturating_sub(now.refused - last.refused) as f64;
            readings.push((Resource::Rate, requests / seconds));
            readings.push((Resource::Errors, errors / seconds));
            readings.push((Resource::ErrorShare, 100.0 * errors / requests.max(1.0)));
            let bits = 8.0 * (now.counts.bytes_sent - last.counts.bytes_sent) as f64;
            readings.push((Resource::Bandwidth, bits / seconds));
            if let Some(waited_ns) = waited_ns {
                let waited_s = waited_ns as f64 / 1e9;
                readings.push((Resource::Wait, waited_s / requests.max(1.0)));
                // Those that wait are the rate times the wait of each (Little).
                readings.push((Resource::Queue, waited_s / seconds));
            }
        }
        self.looks = self.looks.wrapping_add(1);
        readings
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
            self.accounts.entry(number).or_insert_with(|| {
                let folder = entry.path();
                let name = std::fs::read_to_string(folder.join("comm")).ok()?;
                let file = name.starts_with(LOOPS).then(|| File::open(folder.join("schedstat")).ok()).flatten()?;
                // What it has waited before is no part of the next look.
                let before = head(&file)?.split(' ').nth(1)?.trim().parse().ok()?;
                Some((file, before))
            });
        }
    }
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
