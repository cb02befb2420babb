//! What the benchmarks of switches share: a server's CPU time per request with something on, against off, in pairs of
//! slices of one run of one server. Unlike two servers beside each other they have the same memory, and the same
//! neighbours on the machine.

use anyhow::bail;
use std::path::Path;
use std::time::Duration;
use weir_measure::comparison::{Bootstrap, PairedRatios, median};
use weir_wire::client::ClientRequest;
use weir_wire::{Consumer, Record};

/// One pair of slices.
#[derive(Debug, Clone, Copy)]
pub struct Pair {
    /// Server CPU time per request while it is off, nanoseconds.
    pub off_ns: f64,
    /// The same while it is on.
    pub on_ns: f64,
    /// Requests a second while it is off.
    pub rate_off: f64,
}

/// Slices of a load that runs.
#[derive(Debug)]
pub struct Slices<'a> {
    /// The server's processes: the sum over all their threads is its CPU time.
    pub pids: Vec<u32>,
    /// The generator's own events: they count the requests.
    pub done: &'a mut Consumer,
    /// How long a slice is.
    pub length: Duration,
}

impl Slices<'_> {
    /// Pairs of slices; `toggle` switches on or off, and waits until it is.
    ///
    /// # Errors
    ///
    /// Those of `toggle`, and a slice without requests.
    pub fn pairs(
        &mut self,
        count: u32,
        seed: u64,
        mut toggle: impl FnMut(bool) -> anyhow::Result<()>,
    ) -> anyhow::Result<Vec<Pair>> {
        let mut coin = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut pairs = Vec::new();
        std::thread::sleep(Duration::from_millis(500));
        for _ in 0..count {
            // Xorshift: the order within a pair must not follow anything that the machine does regularly.
            coin ^= coin << 13;
            coin ^= coin >> 7;
            coin ^= coin << 17;
            let on_first = coin & 1 == 1;
            let mut slices = [(0.0, 0.0); 2];
            for on in if on_first { [true, false] } else { [false, true] } {
                toggle(on)?;
                slices[usize::from(on)] = self.slice()?;
            }
            pairs.push(Pair { off_ns: slices[0].0, on_ns: slices[1].0, rate_off: slices[0].1 });
        }
        toggle(false)?;
        Ok(pairs)
    }

    /// (server CPU ns per request, requests a second) of a slice.
    fn slice(&mut self) -> anyhow::Result<(f64, f64)> {
        self.done.drain(usize::MAX, |_, _| {});
        let (begin, cpu_before) = (monotonic_ns(), cpu_ns(&self.pids));
        let end = begin + self.length.as_nanos() as u64;
        let mut finished: Vec<u64> = Vec::new();
        let mut note = |record: Record, slots: &[[u64; 4]]| {
            if ClientRequest::read(&record, slots).is_some() {
                finished.push(record.time_ns);
            }
        };
        while monotonic_ns() < end {
            std::thread::sleep(Duration::from_millis(20));
            self.done.drain(usize::MAX, &mut note);
        }
        let (cpu_after, end) = (cpu_ns(&self.pids), monotonic_ns());
        std::thread::sleep(Duration::from_millis(2));
        self.done.drain(usize::MAX, &mut note);
        let requests = finished.iter().filter(|at| (begin..end).contains(*at)).count();
        if requests == 0 {
            bail!("no requests in a slice");
        }
        Ok(((cpu_after - cpu_before) as f64 / requests as f64, requests as f64 * 1e9 / (end - begin) as f64))
    }
}

/// What pairs tell.
#[derive(Debug, Clone, Copy, serde::Serialize)]
pub struct Cost {
    /// How many there were.
    pub pairs: usize,
    /// Requests a second while it was off: the median.
    pub rate_off: f64,
    /// Server CPU time per request while it was off, nanoseconds: the median.
    pub off_ns: f64,
    /// The same while it was on.
    pub on_ns: f64,
    /// On against off, within pairs: the median.
    pub ratio: f64,
    /// The lower end of its 95 % interval.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

impl Cost {
    /// The median over pairs with its interval by bootstrap.
    ///
    /// # Errors
    ///
    /// Where there are no pairs.
    pub fn of(pairs: &[Pair], seed: u64) -> anyhow::Result<Self> {
        let mut ratios = PairedRatios::default();
        for pair in pairs {
            ratios.push(pair.off_ns, pair.on_ns)?;
        }
        let estimate = ratios.snapshot(&Bootstrap::with_seed(seed))?;
        let middle = |value: fn(&Pair) -> f64| median(&pairs.iter().map(value).collect::<Vec<_>>()).unwrap_or(f64::NAN);
        Ok(Self {
            pairs: pairs.len(),
            rate_off: middle(|pair| pair.rate_off),
            off_ns: middle(|pair| pair.off_ns),
            on_ns: middle(|pair| pair.on_ns),
            ratio: estimate.point,
            low: estimate.interval.low,
            high: estimate.interval.high,
        })
    }

    /// Two lines: `head` and what was spent, and the cost by its name.
    #[must_use]
    pub fn told(&self, head: &str, name: &str) -> String {
        let percent = |ratio: f64| 100.0 * (ratio - 1.0);
        let ns = |ratio: f64| (ratio - 1.0) * self.off_ns;
        format!(
            "{head}, {} pairs: {:.0} requests/s, server CPU {:.2} us/request off, {:.2} us on\n\
             {name} {:+.2} % (95 % interval {:+.2} to {:+.2} %), {:+.0} ns/request ({:+.0} to {:+.0})",
            self.pairs,
            self.rate_off,
            self.off_ns / 1e3,
            self.on_ns / 1e3,
            percent(self.ratio),
            percent(self.low),
            percent(self.high),
            ns(self.ratio),
            ns(self.low),
            ns(self.high),
        )
    }
}

/// Time on a CPU of every thread of these processes, nanoseconds, from schedstat (proc: Documentation/scheduler/sched-stats).
#[must_use]
pub fn cpu_ns(pids: &[u32]) -> u64 {
    let tasks = pids.iter().flat_map(|pid| std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten());
    let times = tasks.flatten().filter_map(|task| {
        let text = std::fs::read_to_string(task.path().join("schedstat")).ok()?;
        text.split(' ').next()?.parse::<u64>().ok()
    });
    times.sum()
}

/// A process and all below it.
#[must_use]
pub fn family(pid: u32) -> Vec<u32> {
    let mut found = vec![pid];
    let mut at = 0;
    while at < found.len() {
        let tasks = Path::new("/proc").join(found[at].to_string()).join("task");
        for task in std::fs::read_dir(tasks).into_iter().flatten().flatten() {
            let children = std::fs::read_to_string(task.path().join("children")).unwrap_or_default();
            found.extend(children.split_whitespace().filter_map(|child| child.parse::<u32>().ok()));
        }
        at += 1;
    }
    found
}

/// The clock that a generator's events bear, nanoseconds.
#[must_use]
pub fn monotonic_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a timespec of ours; the call writes it and nothing else.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Keeps this thread, and those that it starts, on a CPU.
///
/// # Errors
///
/// Where the kernel refuses.
pub fn pin_to(cpu: usize) -> anyhow::Result<()> {
    // SAFETY: a zeroed cpu_set_t is the empty set, and CPU_SET writes within it for a CPU below 1024.
    let outcome = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set)
    };
    if outcome != 0 {
        bail!("cannot pin to CPU {cpu}: {}", std::io::Error::last_os_error());
    }
    Ok(())
}
