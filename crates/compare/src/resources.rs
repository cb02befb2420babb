//! Memory and context switches of a server's processes, from `/proc`.
use std::fs;
use std::io;
use std::path::Path;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::measured_slice::Memory;

/// The least time between two looks at the memory.
const LOOK_EACH: Duration = Duration::from_millis(100);
/// A look may take this part of the time: reading goes through a process' page tables, and the more there are the longer
/// it takes.
const SHARE: u32 = 200;

/// Memory of processes, each shared page divided among those that share it (`Pss` of `smaps_rollup`, proc(5)), in bytes;
/// `None` if the kernel tells it of none of them.
pub(crate) fn memory_bytes(processes: &[libc::pid_t]) -> Option<u64> {
    let of = |pid: &libc::pid_t| {
        let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
        let kilobytes = text.lines().find_map(|line| line.strip_prefix("Pss:"))?;
        kilobytes.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()
    };
    processes.iter().filter_map(of).reduce(|sum, next| sum + next).map(|kilobytes| kilobytes * 1024)
}

/// Context switches of a thread so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ThreadSwitches {
    thread: libc::pid_t,
    /// Of its own, as it waited for something.
    voluntary: u64,
    /// Forced by the kernel.
    involuntary: u64,
}

/// Context switches so far of each thread.
pub(crate) fn switches(processes: &[libc::pid_t]) -> Vec<ThreadSwitches> {
    let mut found = Vec::new();
    for pid in processes {
        let threads = fs::read_dir(format!("/proc/{pid}/task"));
        for entry in threads.into_iter().flatten().flatten() {
            let Some(thread) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
            if let Some((voluntary, involuntary)) = of_thread(&entry.path().join("status")) {
                found.push(ThreadSwitches { thread, voluntary, involuntary });
            }
        }
    }
    found
}

/// How often the threads that were there both times were switched meanwhile, and how often by force; `None` without any.
pub(crate) fn switches_between(before: &[ThreadSwitches], after: &[ThreadSwitches]) -> Option<(u64, u64)> {
    let grown = |now: &ThreadSwitches| {
        let then = before.iter().find(|other| other.thread == now.thread)?;
        let involuntary = now.involuntary.checked_sub(then.involuntary)?;
        Some((now.voluntary.checked_sub(then.voluntary)? + involuntary, involuntary))
    };
    after.iter().filter_map(grown).reduce(|sum, next| (sum.0 + next.0, sum.1 + next.1))
}

/// `voluntary_ctxt_switches` and `nonvoluntary_ctxt_switches` (proc(5)).
fn of_thread(status: &Path) -> Option<(u64, u64)> {
    let text = fs::read_to_string(status).ok()?;
    let of = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<u64>().ok());
    Some((of("voluntary_ctxt_switches:")?, of("nonvoluntary_ctxt_switches:")?))
}

/// Looks at the memory of a server from time to time, in a thread of its own.
pub(crate) struct MemoryWatch {
    stop: Sender<()>,
    thread: JoinHandle<Option<Memory>>,
}

impl MemoryWatch {
    /// Begins to look at what `processes` tells at each look.
    pub(crate) fn start(processes: impl Fn() -> io::Result<Vec<libc::pid_t>> + Send + 'static) -> io::Result<Self> {
        let (stop, stopped) = mpsc::channel();
        let watch = move || {
            let (mut sum, mut peak_bytes, mut looks) = (0.0, 0, 0);
            loop {
                let began = Instant::now();
                if let Some(bytes) = processes().ok().and_then(|found| memory_bytes(&found)) {
                    sum += bytes as f64;
                    peak_bytes = peak_bytes.max(bytes);
                    looks += 1;
                }
                match stopped.recv_timeout(LOOK_EACH.max(began.elapsed() * SHARE)) {
                    Err(RecvTimeoutError::Timeout) => {}
                    Ok(()) | Err(RecvTimeoutError::Disconnected) => break,
                }
            }
            (looks > 0).then(|| Memory { mean_bytes: sum / f64::from(looks), peak_bytes, looks })
        };
        Ok(Self { stop, thread: thread::Builder::new().name("memory".to_owned()).spawn(watch)? })
    }

    /// Ends it.
    pub(crate) fn finish(self) -> Option<Memory> {
        // If the message cannot be sent, the thread has ended already.
        let _told = self.stop.send(());
        self.thread.join().ok().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_memory_and_switches_are_seen() {
        // SAFETY: has no preconditions.
        let pid = unsafe { libc::getpid() };
        let thread = |thread, count| ThreadSwitches { thread, voluntary: count, involuntary: count };
        let before = (memory_bytes(&[pid]), switches(&[pid]));
        let large = std::hint::black_box(vec![1_u8; 64 << 20]);
        // Only now: on a busy machine a look takes long, and the next one comes 200 times as much later.
        let watch = MemoryWatch::start(move || Ok(vec![pid])).expect("a thread");
        thread::sleep(Duration::from_millis(250));
        let (grown, after) = (memory_bytes(&[pid]), switches(&[pid]));
        let memory = watch.finish().expect("looked at");
        if let (Some(small), Some(grown)) = (before.0, grown) {
            assert!(grown > small + (60 << 20), "{small} {grown}");
            assert!(memory.peak_bytes > 60 << 20 && memory.mean_bytes <= memory.peak_bytes as f64, "{memory:?}");
        }
        assert!(switches_between(&before.1, &after).is_some_and(|(all, involuntary)| all > 0 && involuntary <= all));
        assert_eq!(switches_between(&[thread(1, 5)], &[thread(2, 9)]), None);
        assert_eq!(switches_between(&[thread(1, 5)], &[thread(1, 9), thread(3, 9)]), Some((8, 4)));
        drop(large);
    }
}
