//! CLOCK_MONOTONIC, read at half the price: by the CPU's counter, which each thread sets by the clock every millisecond.
//!
//! The kernel's own reading waits until every earlier instruction is done, and costs as much as all else of a start.
//! Where the kernel itself goes by this counter, what lies between two readings of it can be had from the counter alone.
//! A thread's time never goes back: where it is found to differ from the clock, it runs a little faster or slower until
//! they agree.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicU32, AtomicU64, Ordering, compiler_fence};

/// Ticks after which the clock is asked again: 0.5 to 2 ms.
const MOST_TICKS: u64 = 1 << 21;
/// Ticks within which the clock must have answered; else the thread was interrupted meanwhile.
const MOST_TICKS_OF_ASKING: u64 = 1 << 10;
/// Questions of which the shortest counts: an answer is as exact as its question was short.
const QUESTIONS: usize = 3;
/// Vain questions in a row after which the counter is left alone: it may be slow here, as in some virtual machines.
const MOST_VAIN: u32 = 16;
/// How old the difference to the real time may be, nanoseconds: where that is set anew, what is told by it is wrong for
/// as long.
const MOST_OFFSET_AGE: u64 = 10_000_000;
/// Nanoseconds that may be made up for by running faster or slower.
const MOST_DIFFERENCE: u64 = 10_000;

/// Whether the counter may be used: 0 = not asked yet, 1 = yes, 2 = no.
static USABLE: AtomicU8 = AtomicU8::new(0);
/// Nanoseconds of 2^32 ticks, as all threads have found; 0 = not known yet.
static TRUE_PACE: AtomicU64 = AtomicU64::new(0);

/// What a thread knows of the clock. Its fields are atomic only because a signal's handler may see them.
pub(crate) struct Clock {
    /// The counter, and the time at it, from which the time of now is reckoned.
    ticks: AtomicU64,
    time_ns: AtomicU64,
    /// Nanoseconds of 2^32 ticks as it runs now; 0 = the clock is to be asked.
    pace: AtomicU64,
    /// The counter and the clock at the begin of what will next show the counter's true pace.
    asked_ticks: AtomicU64,
    asked_ns: AtomicU64,
    /// The last that was shown was not what all had found before.
    doubts: AtomicBool,
    vain: AtomicU32,
    /// The real time less this one, and when that was asked; 0 = never.
    unix_offset_ns: AtomicI64,
    unix_asked_ns: AtomicU64,
}

impl Clock {
    pub(crate) const fn new() -> Self {
        Self {
            ticks: AtomicU64::new(0),
            time_ns: AtomicU64::new(0),
            pace: AtomicU64::new(0),
            asked_ticks: AtomicU64::new(0),
            asked_ns: AtomicU64::new(0),
            doubts: AtomicBool::new(false),
            vain: AtomicU32::new(0),
            unix_offset_ns: AtomicI64::new(0),
            unix_asked_ns: AtomicU64::new(0),
        }
    }

    /// CLOCK_MONOTONIC in nanoseconds.
    #[inline(always)]
    pub(crate) fn now_ns(&self) -> u64 {
        let pace = self.pace.load(Ordering::Relaxed);
        if pace != 0 {
            let since = counter().wrapping_sub(self.ticks.load(Ordering::Relaxed));
            if since < MOST_TICKS {
                return self.time_ns.load(Ordering::Relaxed) + ((since * pace) >> 32);
            }
        }
        self.ask()
    }

    /// CLOCK_MONOTONIC at a real time that has passed, both in nanoseconds; a time that is still to come is now.
    pub(crate) fn at_unix_ns(&self, unix_ns: i64) -> u64 {
        self.at_unix_ns_by(self.now_ns(), unix_ns)
    }

    /// The same for who has just read this clock.
    #[inline(always)]
    pub(crate) fn at_unix_ns_by(&self, now_ns: u64, unix_ns: i64) -> u64 {
        if now_ns.wrapping_sub(self.unix_asked_ns.load(Ordering::Relaxed)) > MOST_OFFSET_AGE {
            self.ask_unix();
        }
        let at_ns = unix_ns.saturating_sub(self.unix_offset_ns.load(Ordering::Relaxed));
        u64::try_from(at_ns).unwrap_or(0).min(now_ns)
    }

    #[cold]
    #[inline(never)]
    fn ask_unix(&self) {
        let mut real = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        let now_ns = exact_ns();
        // SAFETY: the place is this function's own. CLOCK_REALTIME exists everywhere, so it cannot fail.
        unsafe { libc::clock_gettime(libc::CLOCK_REALTIME, &raw mut real) };
        let unix_ns = real.tv_sec.wrapping_mul(1_000_000_000).wrapping_add(real.tv_nsec);
        self.unix_offset_ns.store(unix_ns.saturating_sub(now_ns as i64), Ordering::Relaxed);
        // A signal's handler that finds no difference of now asks for itself.
        compiler_fence(Ordering::SeqCst);
        self.unix_asked_ns.store(now_ns, Ordering::Relaxed);
    }

    /// Asks the clock, and sets the counter's pace by it.
    #[cold]
    #[inline(never)]
    fn ask(&self) -> u64 {
        if USABLE.load(Ordering::Relaxed) != 1 || self.vain.load(Ordering::Relaxed) >= MOST_VAIN {
            return exact_ns();
        }
        let pace = self.pace.swap(0, Ordering::Relaxed);
        // From here on a signal's handler finds no pace, and asks for itself; what it sets, is then set again.
        compiler_fence(Ordering::SeqCst);
        let asked = [(); QUESTIONS].map(|()| (counter(), exact_ns(), counter()));
        let length = |(before, _, after): &(u64, u64, u64)| after.wrapping_sub(*before);
        let (before, time_ns, after) = asked.into_iter().min_by_key(length).unwrap_or_default();
        let ticks = before.wrapping_add(after.wrapping_sub(before) / 2);
        if after.wrapping_sub(before) > MOST_TICKS_OF_ASKING {
            self.vain.fetch_add(1, Ordering::Relaxed);
            return time_ns.max(self.reckoned(ticks, pace));
        }
        self.vain.store(0, Ordering::Relaxed);
        let true_pace = self.learn(ticks, time_ns);
        let reckoned = self.reckoned(ticks, pace);
        // After a pause, or as much as a step of the clock: there is nothing to be continued.
        let is_continued = reckoned != 0 && reckoned.abs_diff(time_ns) < MOST_DIFFERENCE;
        let (from_ns, next) = if is_continued {
            let correction = ((i128::from(time_ns) - i128::from(reckoned)) << 32) / i128::from(MOST_TICKS);
            (reckoned, (i128::from(true_pace) + correction).max(1) as u64)
        } else {
            (time_ns.max(reckoned), true_pace)
        };
        self.ticks.store(ticks, Ordering::Relaxed);
        self.time_ns.store(from_ns, Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
        self.pace.store(if true_pace == 0 { 0 } else { next }, Ordering::Relaxed);
        from_ns
    }

    /// The time at a reading of the counter, as it would have run on; 0 = it stood still for too long.
    fn reckoned(&self, ticks: u64, pace: u64) -> u64 {
        let since = ticks.wrapping_sub(self.ticks.load(Ordering::Relaxed));
        if pace == 0 || since > 2 * MOST_TICKS {
            return 0;
        }
        self.time_ns.load(Ordering::Relaxed) + ((since * pace) >> 32)
    }

    /// The counter's true pace; 0 = not known yet, or in doubt.
    fn learn(&self, ticks: u64, time_ns: u64) -> u64 {
        let known = TRUE_PACE.load(Ordering::Relaxed);
        let passed_ticks = ticks.wrapping_sub(self.asked_ticks.load(Ordering::Relaxed));
        if passed_ticks < MOST_TICKS / 8 {
            // Too short to show anything: the questions' own length would count.
            return known;
        }
        self.asked_ticks.store(ticks, Ordering::Relaxed);
        let passed_ns = time_ns.wrapping_sub(self.asked_ns.swap(time_ns, Ordering::Relaxed));
        // 0.1 to 10 ticks a nanosecond, over a time in which the machine has hardly slept.
        let is_sound = passed_ticks < 1 << 36 && passed_ns > passed_ticks / 10 && passed_ns / 10 < passed_ticks;
        if !is_sound {
            return known;
        }
        let shown = ((u128::from(passed_ns) << 32) / u128::from(passed_ticks)) as u64;
        let differs = known != 0 && known.abs_diff(shown) > known / 100;
        if differs && !self.doubts.swap(true, Ordering::Relaxed) {
            return 0;
        }
        self.doubts.store(false, Ordering::Relaxed);
        // Each question is off by some nanoseconds: a smooth mean is better than the last.
        let learnt = if known == 0 || differs { shown } else { known - known / 8 + shown / 8 };
        TRUE_PACE.store(learnt, Ordering::Relaxed);
        learnt
    }
}

/// The clock itself, by the vDSO.
pub(crate) fn exact_ns() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the place is this function's own. CLOCK_MONOTONIC exists everywhere, so it cannot fail.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// The CPU's counter.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn counter() -> u64 {
    // SAFETY: every such CPU has it. Where a process forbids it to itself, the kernel's clock is forbidden as well.
    unsafe { std::arch::x86_64::_rdtsc() }
}

#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
fn counter() -> u64 {
    0
}

/// Finds out, once, whether the kernel itself goes by the counter: then it runs evenly, and alike on all CPUs.
pub(crate) fn find_out() {
    if USABLE.load(Ordering::Relaxed) != 0 {
        return;
    }
    let path = c"/sys/devices/system/clocksource/clocksource0/current_clocksource";
    let mut said = [0; 4];
    // SAFETY: a constant path; the read fills at most these bytes.
    let length = unsafe {
        let descriptor = libc::open(path.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC);
        if descriptor < 0 {
            0
        } else {
            let length = libc::read(descriptor, said.as_mut_ptr().cast(), said.len());
            libc::close(descriptor);
            length
        }
    };
    let is_usable = cfg!(target_arch = "x86_64") && length == 4 && said == *b"tsc\n";
    USABLE.store(if is_usable { 1 } else { 2 }, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_clock_and_never_goes_back() {
        find_out();
        let clock = Clock::new();
        let (mut last, mut by_counter, mut far) = (0, 0_u64, 0_u64);
        let end = exact_ns() + 150_000_000;
        while exact_ns() < end {
            // Pauses of all lengths, from none to some milliseconds.
            if last % 97 == 0 {
                std::thread::sleep(std::time::Duration::from_micros(last % 5000));
            }
            let before = exact_ns();
            let now = clock.now_ns();
            let after = exact_ns();
            assert!(now >= last, "{now} after {last}");
            assert!(now + 20_000 > before && now < after + 20_000, "{before} {now} {after}");
            far += u64::from(now + 100 < before || now > after + 100);
            by_counter += 1;
            last = now;
        }
        // Almost always it is right to 100 ns and the length of the questions themselves.
        assert!(by_counter > 1000 && far * 50 < by_counter, "{far} of {by_counter}");
    }

    /// How a clock of its own is off by more than a millisecond, if it is.
    fn fault_of_real_times() -> Option<String> {
        let clock = Clock::new();
        let unix_ns = || {
            let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
            since.map_or(0, |since| since.as_nanos() as i64)
        };
        [0, 1, 12, 0, 0].into_iter().find_map(|pause_ms| {
            std::thread::sleep(std::time::Duration::from_millis(pause_ms));
            let (before, real, after) = (exact_ns(), unix_ns(), exact_ns());
            let found = clock.at_unix_ns(real);
            let earlier = clock.at_unix_ns(real - 2_000_000_000);
            let is_right = found + 1_000_000 > before
                && found < after + 1_000_000
                && found.abs_diff(earlier).abs_diff(2_000_000_000) < 1_000_000;
            (!is_right).then(|| format!("{before} {found} {after}, {earlier}"))
        })
    }

    #[test]
    fn a_real_time_is_found_on_it() {
        find_out();
        // The CPU may be lost between the two clocks' readings, of which the difference is taken: seldom time after time.
        let faults: Vec<String> = (0..5).map_while(|_| fault_of_real_times()).collect();
        assert!(faults.len() < 5, "{faults:?}");
        let clock = Clock::new();
        assert!(clock.at_unix_ns(i64::MAX) <= exact_ns() + 20_000);
        assert_eq!((clock.at_unix_ns(i64::MIN), clock.at_unix_ns(0)), (0, 0));
    }

    #[test]
    fn a_counter_that_jumps_is_no_harm() {
        find_out();
        let clock = Clock::new();
        for jump in [0, 1 << 20, 1 << 30, u64::MAX / 2, u64::MAX - 5] {
            for _ in 0..100 {
                let _ = clock.now_ns();
            }
            std::thread::sleep(std::time::Duration::from_millis(2));
            let _ = clock.now_ns();
            clock.ticks.store(clock.ticks.load(Ordering::Relaxed).wrapping_sub(jump), Ordering::Relaxed);
            clock.asked_ticks.store(clock.asked_ticks.load(Ordering::Relaxed).wrapping_sub(jump), Ordering::Relaxed);
            for _ in 0..3 {
                std::thread::sleep(std::time::Duration::from_millis(3));
                let _ = clock.now_ns();
            }
            // Between the two, however long the CPU is lost meanwhile.
            let (before, now, after) = (exact_ns(), clock.now_ns(), exact_ns());
            assert!(now + 1_000_000 > before && now < after + 1_000_000, "{jump}: {before} {now} {after}");
        }
    }
}
