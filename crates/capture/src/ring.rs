//! Reading the rings that the probes write, a ring for each CPU.

use crate::form::Form;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// Bytes before a ring's first word: a page, so that the position's cache line is not the slots'.
const HEAD_BYTES: usize = 4096;
/// Where a ring of the form without fetching counts what could not be told: behind four positions, four counts of
/// numbers and the depth (`bpf/ring.h`).
const LOST_BYTES: usize = 9 * 8;
/// Lanes of a ring in that form, for a task and for three sorts of interrupts; the first one is the ring itself.
const LANES: usize = 4;
/// Words of each further lane; one more has room than there are.
const LANE_WORDS: u64 = 512;
/// A slot whose time lies further back than this behind the newest one seen is from the lap before: not yet written.
const STALE_NS: u64 = 50_000_000;
/// Bits of the time in word 0.
const TIME_BITS: u32 = 44;

/// A part of a CPU's ring that is written by itself.
#[derive(Debug, Clone, Copy)]
struct Lane {
    cpu: usize,
    number: usize,
}

/// Why reading a lane ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stop {
    /// There is no more, or none that is old enough.
    End,
    /// A slot is reserved and not yet written.
    Unwritten,
}

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
    form: Form,
    /// One for each CPU and lane.
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
    pub(crate) fn stride(words: u64, form: Form) -> usize {
        let further = match form {
            Form::Whole => 0,
            Form::WithoutFetch => LANES * LANE_WORDS as usize,
        };
        HEAD_BYTES + (words as usize + further) * 8
    }

    pub(crate) fn map(fd: BorrowedFd<'_>, cpus: usize, words: u64, form: Form) -> io::Result<Self> {
        let length = cpus * Self::stride(words, form);
        // SAFETY: a new shared, read-only mapping of a map's descriptor; the kernel checks the length.
        let base =
            unsafe { libc::mmap(std::ptr::null_mut(), length, libc::PROT_READ, libc::MAP_SHARED, fd.as_raw_fd(), 0) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let cursors = vec![Cursor::default(); cpus * Self::lanes_of(form)];
        Ok(Self { base: base.cast(), length, words, form, cursors })
    }

    fn lanes_of(form: Form) -> usize {
        match form {
            Form::Whole => 1,
            Form::WithoutFetch => LANES,
        }
    }

    fn lanes(&self) -> usize {
        Self::lanes_of(self.form)
    }

    pub(crate) fn cpus(&self) -> usize {
        self.cursors.len() / self.lanes()
    }

    /// Events of a CPU that were overwritten before they could be read, or that the probes could not write.
    pub(crate) fn lost(&self, cpu: usize) -> u64 {
        let unread: u64 = self.cursors[cpu * self.lanes()..][..self.lanes()].iter().map(|cursor| cursor.lost).sum();
        let unwritten = match self.form {
            Form::Whole => 0,
            Form::WithoutFetch => self.at(cpu, LOST_BYTES).load(Ordering::Relaxed),
        };
        unread + unwritten
    }

    /// Appends what a CPU has written since, in the order of time, up to `now_ns` or a slot that is not yet written.
    pub(crate) fn drain(&mut self, cpu: usize, now_ns: u64, events: &mut Vec<RawEvent>) {
        let (begin, lanes) = (events.len(), self.lanes());
        let own = cpu * lanes..(cpu + 1) * lanes;
        let mut before = [Cursor::default(); LANES];
        before[..lanes].copy_from_slice(&self.cursors[own.clone()]);
        let mut until_ns = now_ns;
        for number in 0..lanes {
            if self.drain_lane(Lane { cpu, number }, (now_ns, now_ns), events) == Stop::Unwritten {
                until_ns = until_ns.min(self.cursors[own.start + number].newest_ns);
            }
        }
        // What a lane is about to tell may be older than what another one has told: that is left for the next look.
        if lanes > 1 && until_ns < now_ns {
            events.truncate(begin);
            self.cursors[own].copy_from_slice(&before[..lanes]);
            for number in 0..lanes {
                self.drain_lane(Lane { cpu, number }, (now_ns, until_ns), events);
            }
        }
        // An interrupt's event may stand before the one that it interrupted.
        events[begin..].sort_by_key(|event| event.time_ns);
    }

    /// Appends what is new in a lane, up to the second of the times; the first one is that of the look.
    fn drain_lane(&mut self, lane: Lane, (now_ns, until_ns): (u64, u64), events: &mut Vec<RawEvent>) -> Stop {
        let begin = events.len();
        let position = self.position(lane);
        let index = lane.cpu * self.lanes() + lane.number;
        let words = self.words_of(lane);
        let mut cursor = self.cursors[index];
        let mut stop = Stop::End;
        if position - cursor.read > words {
            // Overrun: what is oldest now may be overwritten while we look, so go on in the middle.
            let resume = position - words / 2;
            cursor.lost += (resume - cursor.read) / 2;
            cursor.read = resume;
        }
        while cursor.read < position {
            let word = self.word(lane, cursor.read);
            let time_ns = complete_time(word >> 20, now_ns);
            // Zero is a slot of the first lap; an old time is one of an earlier lap, which soon after boot, completed to
            // before it, is near the largest number: younger than now, too.
            // What is younger than this look is left for the next, so that every look ends at one time on all CPUs.
            if word == 0 || time_ns.saturating_add(STALE_NS) < cursor.newest_ns {
                stop = Stop::Unwritten;
                break;
            }
            if time_ns > until_ns {
                break;
            }
            let argument = self.word(lane, cursor.read + 1);
            cursor.newest_ns = cursor.newest_ns.max(time_ns);
            events.push(RawEvent { time_ns, code: word as u32 & 0xf_ffff, argument });
            cursor.read += 2;
        }
        fence(Ordering::Acquire);
        let first = position.min(cursor.read) - 2 * (events.len() - begin) as u64;
        if self.position(lane).saturating_sub(first) > words {
            // The probes lapped us while we copied: nothing of this batch can be trusted.
            cursor.lost += (events.len() - begin) as u64;
            events.truncate(begin);
        }
        self.cursors[index] = cursor;
        stop
    }

    /// Words of a lane.
    fn words_of(&self, lane: Lane) -> u64 {
        if lane.number == 0 { self.words } else { LANE_WORDS }
    }

    fn position(&self, lane: Lane) -> u64 {
        self.at(lane.cpu, lane.number * 8).load(Ordering::Acquire)
    }

    fn word(&self, lane: Lane, index: u64) -> u64 {
        let begin = if lane.number == 0 { 0 } else { self.words + (lane.number as u64 - 1) * LANE_WORDS };
        let word = begin + (index & (self.words_of(lane) - 1));
        self.at(lane.cpu, HEAD_BYTES + word as usize * 8).load(Ordering::Acquire)
    }

    fn at(&self, cpu: usize, offset: usize) -> &AtomicU64 {
        let offset = cpu * Self::stride(self.words, self.form) + offset;
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
    use std::io::{Seek, SeekFrom, Write};
    use std::os::fd::{AsFd, FromRawFd};

    const WORDS: u64 = 64;

    /// Rings in a file, written as the probes write them.
    struct Probes(std::fs::File);

    impl Probes {
        fn new(cpus: usize, form: Form) -> (Self, Rings) {
            // SAFETY: the name is a string that ends with a zero; the descriptor is new, and nothing else owns it.
            let mut file = unsafe { std::fs::File::from_raw_fd(libc::memfd_create(c"rings".as_ptr(), 0)) };
            file.write_all(&vec![0; cpus * Rings::stride(WORDS, form)]).unwrap();
            let rings = Rings::map(file.as_fd(), cpus, WORDS, form).unwrap();
            (Self(file), rings)
        }

        fn set(&mut self, rings: &Rings, cpu: usize, offset: usize, word: u64) {
            let at = cpu * Rings::stride(WORDS, rings.form) + offset;
            self.0.seek(SeekFrom::Start(at as u64)).unwrap();
            self.0.write_all(&word.to_ne_bytes()).unwrap();
        }

        fn put(&mut self, rings: &Rings, lane: Lane, slot: u64, time_ns: u64) {
            let begin = if lane.number == 0 { 0 } else { WORDS + (lane.number as u64 - 1) * LANE_WORDS };
            let at = HEAD_BYTES + 8 * (begin + (slot & (rings.words_of(lane) - 1))) as usize;
            self.set(rings, lane.cpu, at + 8, time_ns);
            self.set(rings, lane.cpu, at, time_ns << 20);
        }

        fn reserve(&mut self, rings: &Rings, lane: Lane, position: u64) {
            self.set(rings, lane.cpu, lane.number * 8, position);
        }
    }

    fn drained(rings: &mut Rings, cpu: usize, now_ns: u64) -> Vec<u64> {
        let mut events = Vec::new();
        rings.drain(cpu, now_ns, &mut events);
        assert!(events.iter().all(|event| event.argument == event.time_ns), "{events:?}");
        events.iter().map(|event| event.time_ns).collect()
    }

    #[test]
    fn lanes_are_told_as_one_in_the_order_of_time() {
        let (mut probes, mut rings) = Probes::new(2, Form::WithoutFetch);
        assert_eq!(rings.cpus(), 2);
        let (task, interrupt) = (Lane { cpu: 1, number: 0 }, Lane { cpu: 1, number: 3 });
        for (slot, time_ns) in [(0, 100), (2, 300)] {
            probes.put(&rings, task, slot, time_ns);
        }
        probes.reserve(&rings, task, 4);
        probes.put(&rings, interrupt, 0, 200);
        probes.reserve(&rings, interrupt, 2);
        assert_eq!(drained(&mut rings, 1, 1_000), [100, 200, 300]);
        assert_eq!(drained(&mut rings, 0, 1_000), [0; 0]);
        assert_eq!(drained(&mut rings, 1, 2_000), [0; 0]);
    }

    #[test]
    fn nothing_is_told_that_may_be_younger_than_what_is_yet_to_be_written() {
        let (mut probes, mut rings) = Probes::new(1, Form::WithoutFetch);
        let (task, interrupt) = (Lane { cpu: 0, number: 0 }, Lane { cpu: 0, number: 1 });
        probes.put(&rings, task, 0, 100);
        probes.reserve(&rings, task, 4); // the second slot is being written
        for (slot, time_ns) in [(0, 90), (2, 180)] {
            probes.put(&rings, interrupt, slot, time_ns);
        }
        probes.reserve(&rings, interrupt, 4);
        assert_eq!(drained(&mut rings, 0, 1_000), [90, 100]);
        probes.put(&rings, task, 2, 150);
        assert_eq!(drained(&mut rings, 0, 2_000), [150, 180]);
    }

    #[test]
    fn what_a_lane_loses_and_what_the_probes_could_not_write_is_counted() {
        for form in [Form::Whole, Form::WithoutFetch] {
            let (mut probes, mut rings) = Probes::new(1, form);
            let task = Lane { cpu: 0, number: 0 };
            for slot in 0..WORDS {
                probes.put(&rings, task, 2 * slot, 1_000 + slot);
            }
            probes.reserve(&rings, task, 2 * WORDS);
            // Twice as much was written as there is room for: half of the room is read.
            assert_eq!(drained(&mut rings, 0, 9_000).len() as u64, WORDS / 4);
            assert_eq!(rings.lost(0), WORDS * 3 / 4);
            if form == Form::WithoutFetch {
                probes.set(&rings, 0, LOST_BYTES, 7);
                assert_eq!(rings.lost(0), WORDS * 3 / 4 + 7);
            }
        }
    }

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
