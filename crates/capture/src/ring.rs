//! Reading the rings that the probes write, a ring for each CPU.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// Bytes before a ring's first word: a page, so that the position's cache line is not the slots'.
const HEAD_BYTES: usize = 4096;
/// A slot whose time lies further back than this behind the newest one seen is from the lap before: not yet written.
const STALE_NS: u64 = 50_000_000;
/// Bits of the time in word 0.
const TIME_BITS: u32 = 44;

/// One event as the probes write it, its time completed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RawEvent {
    pub(crate) time_ns: u64,
    /// Kind in the low six bits, sub-code above.
    pub(crate) code: u32,
    pub(crate) argument: u64,
}

/// The mapped rings.
#[derive(Debug)]
pub(crate) struct Rings {
    base: *const u8,
    length: usize,
    words: u64,
    cursors: Vec<Cursor>,
}

// SAFETY: the mapping is shared memory that outlives the struct's moves; only atomics read it.
unsafe impl Send for Rings {}

#[derive(Debug, Default, Clone, Copy)]
struct Cursor {
    read: u64,
    newest_ns: u64,
    lost: u64,
}

impl Rings {
    /// Bytes of one CPU's ring.
    pub(crate) fn stride(words: u64) -> usize {
        HEAD_BYTES + words as usize * 8
    }

    pub(crate) fn map(fd: BorrowedFd<'_>, cpus: usize, words: u64) -> io::Result<Self> {
        let length = cpus * Self::stride(words);
        // SAFETY: a new shared, read-only mapping of a map's descriptor; the kernel checks the length.
        let base =
            unsafe { libc::mmap(std::ptr::null_mut(), length, libc::PROT_READ, libc::MAP_SHARED, fd.as_raw_fd(), 0) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Self { base: base.cast(), length, words, cursors: vec![Cursor::default(); cpus] })
    }

    pub(crate) fn cpus(&self) -> usize {
        self.cursors.len()
    }

    /// Events of a CPU that were overwritten before they could be read.
    pub(crate) fn lost(&self, cpu: usize) -> u64 {
        self.cursors[cpu].lost
    }

    /// Appends what a CPU has written since, in the order of time, up to `now_ns` or a slot that is not yet written.
    pub(crate) fn drain(&mut self, cpu: usize, now_ns: u64, events: &mut Vec<RawEvent>) {
        let begin = events.len();
        let position = self.position(cpu);
        let mut cursor = self.cursors[cpu];
        if position - cursor.read > self.words {
            // Overrun: what is oldest now may be overwritten while we look, so go on in the middle.
            let resume = position - self.words / 2;
            cursor.lost += (resume - cursor.read) / 2;
            cursor.read = resume;
        }
        while cursor.read < position {
            let word = self.word(cpu, cursor.read);
            let time_ns = complete_time(word >> 20, now_ns);
            // Zero is a slot of the first lap; an old time is one of an earlier lap, which soon after boot, completed to
            // before it, is near the largest number: younger than now, too.
            // What is younger than this look is left for the next, so that every look ends at one time on all CPUs.
            if word == 0 || time_ns.saturating_add(STALE_NS) < cursor.newest_ns || time_ns > now_ns {
                break;
            }
            let argument = self.word(cpu, cursor.read + 1);
            cursor.newest_ns = cursor.newest_ns.max(time_ns);
            events.push(RawEvent { time_ns, code: word as u32 & 0xf_ffff, argument });
            cursor.read += 2;
        }
        fence(Ordering::Acquire);
        let first = position.min(cursor.read) - 2 * (events.len() - begin) as u64;
        if self.position(cpu).saturating_sub(first) > self.words {
            // The probes lapped us while we copied: nothing of this batch can be trusted.
            cursor.lost += (events.len() - begin) as u64;
            events.truncate(begin);
        }
        self.cursors[cpu] = cursor;
        // An interrupt's event may stand before the one that it interrupted.
        events[begin..].sort_by_key(|event| event.time_ns);
    }

    fn position(&self, cpu: usize) -> u64 {
        self.at(cpu, 0).load(Ordering::Acquire)
    }

    fn word(&self, cpu: usize, index: u64) -> u64 {
        self.at(cpu, HEAD_BYTES + (index & (self.words - 1)) as usize * 8).load(Ordering::Acquire)
    }

    fn at(&self, cpu: usize, offset: usize) -> &AtomicU64 {
        let offset = cpu * Self::stride(self.words) + offset;
        debug_assert!(offset + 8 <= self.length);
        // SAFETY: cpu is below the number of rings and the offset within one, so the word lies in the mapping, which
        // lives as long as `self`; the kernel writes it concurrently, hence the atomic.
        unsafe { &*self.base.add(offset).cast::<AtomicU64>() }
    }
}

impl Drop for Rings {
    fn drop(&mut self) {
        // SAFETY: the mapping made by `map`, of this length; no reference into it outlives `self`.
        unsafe { libc::munmap(self.base.cast_mut().cast(), self.length) };
    }
}

/// Completes a 44-bit time (it wraps after 4.9 hours) by the time of reading.
fn complete_time(low: u64, now_ns: u64) -> u64 {
    let span = 1u64 << TIME_BITS;
    let candidate = now_ns & !(span - 1) | low;
    // An event cannot be later than its reading, but for the nanoseconds between the two clock reads.
    if candidate > now_ns.saturating_add(STALE_NS) { candidate.wrapping_sub(span) } else { candidate }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_completed_over_a_wrap() {
        let span = 1u64 << TIME_BITS;
        for time in [5, span - 7, span + 3, 9 * span - 1, 9 * span] {
            for delay in [0, 10, 1_000_000_000] {
                assert_eq!(complete_time(time & (span - 1), time + delay), time);
            }
        }
    }
}
