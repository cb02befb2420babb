//! How many requests a disk works on at once, and how long each waited in its queue.
//!
//! The records of a device's requests say when it got each and when it was done. While more are with it, it ends more of
//! them in a second, up to as many as it works on at once: beyond, they wait in its queue, and the first that came is the
//! first that it works on. Where no queue was seen the device may work on any number, and what a request waits for it stays
//! a delay.

use std::collections::BTreeMap;
use weir_predict::Trace;
use weir_wire::watched::{DiskRequest, NAMED_DEVICE};
use weir_wire::{Kind, Record, Slot, text_from_slots};

/// Devices that are told apart.
const MOST_DEVICES: usize = 32;
/// Requests that are kept of each; of a busier one the first ones tell.
const MOST_REQUESTS: usize = Trace::DISK_REQUESTS_MAX;
/// Requests from which on their mean counts.
const ENOUGH: usize = 100;
/// So many times what is worked on at once has to be left by such requests, or there was no queue.
const QUEUE: f64 = 1.5;
/// Requests that are looked at for one wait.
const MOST_OF_A_WAIT: usize = 256;
/// A wait for a disk ends so soon behind the end of its request, nanoseconds.
const APART_NS: u64 = 1_000_000;

/// What was recorded of all devices.
#[derive(Debug, Default)]
pub(super) struct Disks {
    devices: BTreeMap<u32, Vec<One>>,
    names: BTreeMap<u32, String>,
    /// Requests beyond the bounds.
    untold: u64,
}

/// A request of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct One {
    from_ns: u64,
    to_ns: u64,
    /// The task that handed it to the device.
    pid: u32,
}

/// The end of a request of any device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct End {
    at_ns: u64,
    pid: u32,
    /// A number of [`Queued::all`].
    disk: Option<u16>,
    /// When the device had it, and when it began to work on it.
    from_ns: u64,
    begun_ns: u64,
}

/// Devices that had a queue.
#[derive(Debug, Default)]
pub(super) struct Queued {
    pub(super) all: Vec<weir_predict::Disk>,
    /// Requests of which it is not known how long they were in a queue.
    pub(super) untold: u64,
    ends: Vec<End>,
}

impl Disks {
    /// Takes a record of the kernel.
    pub(super) fn push(&mut self, record: &Record, payload: &[Slot]) {
        if record.kind == Kind::Named as u16 && record.flags == NAMED_DEVICE && self.names.len() < MOST_DEVICES {
            self.names.insert(record.a as u32, text_from_slots(payload));
        }
        let Some(request) = DiskRequest::read(record) else { return };
        if self.devices.len() >= MOST_DEVICES && !self.devices.contains_key(&request.device) {
            self.untold += 1;
            return;
        }
        let requests = self.devices.entry(request.device).or_default();
        if requests.len() < MOST_REQUESTS {
            let to_ns = record.time_ns;
            requests.push(One { from_ns: to_ns.saturating_sub(request.duration_ns), to_ns, pid: request.pid });
        } else {
            self.untold += 1;
        }
    }

    /// The devices that had a queue.
    pub(super) fn queued(self) -> Queued {
        let mut queued = Queued { untold: self.untold, ..Queued::default() };
        for (device, mut requests) in self.devices {
            requests.sort_unstable_by_key(|one| one.to_ns);
            let servers = at_once(&requests, &under_way(&requests));
            let disk = servers.map(|servers| {
                let known = self.names.get(&device).map(|name| format!("disk {name}"));
                let name = known.unwrap_or_else(|| format!("disk {}:{}", device >> 20, device & 0xf_ffff));
                queued.all.push(weir_predict::Disk { name, servers });
                (queued.all.len() - 1) as u16
            });
            let servers = servers.map_or(usize::MAX, |servers| servers as usize);
            queued.ends.extend(requests.iter().enumerate().map(|(number, one)| {
                // It was begun when one of those before it was ended, so that fewer than these were left.
                let free_ns = number.checked_sub(servers).map_or(0, |before| requests[before].to_ns);
                let begun_ns = free_ns.clamp(one.from_ns, one.to_ns);
                End { at_ns: one.to_ns, pid: one.pid, disk, from_ns: one.from_ns, begun_ns }
            }));
        }
        queued.ends.sort_unstable();
        queued
    }
}

impl Queued {
    /// The disk that a task's wait was for, and how long that worked on it without its queue, nanoseconds; `None` where it
    /// is not known, or had no queue.
    pub(super) fn work(&self, pid: u32, from_ns: u64, to_ns: u64) -> Option<(u16, f64)> {
        let first = self.ends.partition_point(|end| end.at_ns <= from_ns);
        let behind = self.ends.partition_point(|end| end.at_ns <= to_ns.saturating_add(APART_NS));
        let ended = &self.ends[first..behind];
        // The task's own requests, or the last one, which the kernel may have made for it.
        let own = ended.iter().rev().take(MOST_OF_A_WAIT).find(|end| end.pid == pid);
        let last = own.or(ended.last())?;
        let is_its = |end: &&End| end.disk == last.disk && end.pid == last.pid && (own.is_some() || *end == last);
        let its = || ended.iter().rev().take(MOST_OF_A_WAIT).filter(is_its);
        let within = |at_ns: u64| at_ns.clamp(from_ns, to_ns);
        let there_ns = covered(its().map(|end| (within(end.from_ns), within(end.at_ns))).collect());
        let worked_ns = covered(its().map(|end| (within(end.begun_ns), within(end.at_ns))).collect());
        Some((last.disk?, (to_ns - from_ns - (there_ns - worked_ns)) as f64))
    }
}

/// How long one or more of these times last, nanoseconds.
fn covered(mut times: Vec<(u64, u64)>) -> u64 {
    times.sort_unstable();
    let (mut sum_ns, mut end_ns) = (0, 0);
    for (from_ns, to_ns) in times {
        sum_ns += to_ns.saturating_sub(from_ns.max(end_ns));
        end_ns = end_ns.max(to_ns);
    }
    sum_ns
}

/// From when on how many of a device's requests were under way, by time.
fn under_way(requests: &[One]) -> Vec<(u64, u32)> {
    // Where one ends as another begins the end is first.
    let mut changes: Vec<(u64, bool)> =
        requests.iter().flat_map(|one| [(one.from_ns, true), (one.to_ns, false)]).collect();
    changes.sort_unstable();
    let mut count = 0u32;
    let counted = changes.into_iter().map(|(at_ns, begins)| {
        count = if begins { count + 1 } else { count.saturating_sub(1) };
        (at_ns, count)
    });
    counted.collect()
}

/// On how many requests a device works at once: as many as it ends in the time that one takes which found none under way,
/// while as many or more are left behind each end; `None` where it is not known, or never had many more than that.
fn at_once(requests: &[One], under_way: &[(u64, u32)]) -> Option<u32> {
    let found_none = |from_ns: u64| {
        let before = under_way.partition_point(|(at_ns, _)| *at_ns < from_ns);
        before.checked_sub(1).is_none_or(|before| under_way[before].1 == 0)
    };
    let mut alone: Vec<u64> =
        requests.iter().filter(|one| found_none(one.from_ns)).map(|one| one.to_ns - one.from_ns).collect();
    if alone.len() < ENOUGH {
        return None;
    }
    let half = alone.len() / 2;
    let alone_ns = *alone.select_nth_unstable(half).1 as f64;
    // How many each end left behind, and when the next one was.
    let ends: Vec<(u64, u32)> = under_way.windows(2).filter(|two| two[1].1 < two[0].1).map(|two| two[1]).collect();
    let mut gaps: Vec<(u32, u64)> = ends.windows(2).map(|two| (two[0].1, two[1].0 - two[0].0)).collect();
    gaps.sort_unstable_by(|one, other| other.cmp(one));
    let (mut sum_ns, mut servers) = (0.0, 0.0f64);
    for (number, (_, gap_ns)) in gaps.iter().enumerate().take_while(|(_, (left, _))| *left > 0) {
        sum_ns += *gap_ns as f64;
        if number + 1 >= ENOUGH {
            servers = servers.max(alone_ns * (number + 1) as f64 / sum_ns.max(1.0));
        }
    }
    let servers = servers.round().max(1.0);
    // So many were left by a hundred of the ends.
    let many = gaps.get(ENOUGH - 1)?.0;
    (f64::from(many) >= QUEUE * servers).then_some(servers as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn record(from_ns: u64, to_ns: u64) -> Record {
        let a = 7 | 254u64 << 52;
        Record { kind: Kind::DiskRequest as u16, time_ns: to_ns, a, b: to_ns - from_ns, ..Record::default() }
    }

    /// Requests that come at random to a device that works on some at once, each for 2 ms: as a queue would serve them.
    fn served(servers: usize, mean_gap_ns: f64) -> Disks {
        let (mut random, mut free, mut at_ns) = (crate::model::tests::numbers(5), vec![0u64; servers], 0);
        let mut disks = Disks::default();
        for _ in 0..4_000 {
            at_ns += (-(1.0 - random()).ln() * mean_gap_ns) as u64;
            let server = (0..servers).min_by_key(|server| free[*server]).expect("there is one");
            let end_ns = at_ns.max(free[server]) + 2 * MS;
            free[server] = end_ns;
            disks.push(&record(at_ns, end_ns), &[]);
        }
        disks
    }

    #[test]
    fn a_queue_tells_on_how_many_a_disk_works() {
        for servers in [1, 3] {
            let queued = served(servers, 2.4 * MS as f64 / servers as f64).queued();
            assert_eq!(queued.all.iter().map(|disk| disk.servers).collect::<Vec<_>>(), [servers as u32]);
            assert_eq!(queued.all[0].name, "disk 254:0");
        }
        assert!(served(64, 2.0 * MS as f64).queued().all.is_empty(), "as many as came were worked on");
    }

    #[test]
    fn requests_of_a_busy_disk_beyond_the_bound_are_counted() {
        let mut disks = Disks::default();
        let beyond = 7;
        for number in 0..(MOST_REQUESTS + beyond) as u64 {
            disks.push(&record(number * MS, number * MS + 1), &[]);
        }
        assert_eq!(disks.queued().untold, beyond as u64);
        assert_eq!(served(1, 2.4 * MS as f64).queued().untold, 0);
    }

    #[test]
    fn a_wait_is_divided_into_work_and_queue() {
        let mut disks = served(1, 2.4 * MS as f64);
        let begin_ns = 60_000 * MS;
        // The second comes 1 ms later, and each is worked on for 2 ms.
        for (from_ms, to_ms) in [(0, 2), (1, 4)] {
            disks.push(&record(begin_ns + from_ms * MS, begin_ns + to_ms * MS), &[]);
        }
        let queued = disks.queued();
        let worked_ms = |pid| {
            let (disk, worked_ns) = queued.work(pid, begin_ns + MS, begin_ns + 4 * MS).expect("it is known");
            assert_eq!(disk, 0);
            worked_ns / MS as f64
        };
        // Made by the kernel for another task: the last that ended, which was in the queue for 1 ms.
        assert!((worked_ms(8) - 2.0).abs() < 1e-9, "{}", worked_ms(8));
        // Where both are the task's own, one of them was worked on all the time.
        assert!((worked_ms(7) - 3.0).abs() < 1e-9, "{}", worked_ms(7));
        assert_eq!(queued.work(7, begin_ns + 10 * MS, begin_ns + 12 * MS), None, "none of its requests ended then");
    }
}
