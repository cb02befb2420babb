//! Simple queueing arithmetic: what a change of a queue's servers would do to the mean response.
//!
//! Operational laws (Denning and Buzen, 1978, "The Operational Analysis of Queueing Network Models") need no
//! assumption about distributions: Little's law, and the asymptotic bounds of a closed system. Erlang's C formula
//! assumes Poisson arrivals and exponential service, and is said to be an estimate where it is used.

/// A mean saving as an estimate with its range, nanoseconds of each response; `low <= likely <= high`, all at least 0.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Saving {
    /// What is saved if all that speaks against it is true.
    pub low_ns: f64,
    /// What to expect.
    pub likely_ns: f64,
    /// What is saved at best.
    pub high_ns: f64,
}

impl Saving {
    /// A saving from three figures, put in order and never negative.
    #[must_use]
    pub fn of(low_ns: f64, likely_ns: f64, high_ns: f64) -> Self {
        let high_ns = high_ns.max(0.0);
        let low_ns = low_ns.clamp(0.0, high_ns);
        Self { low_ns, likely_ns: likely_ns.clamp(low_ns, high_ns), high_ns }
    }

    /// Shares of a part that would go away.
    #[must_use]
    pub fn shares(part_ns: f64, low: f64, likely: f64, high: f64) -> Self {
        Self::of(part_ns * low, part_ns * likely, part_ns * high)
    }

    /// The saving, but never more than the whole.
    #[must_use]
    pub fn at_most(self, whole_ns: f64) -> Self {
        let whole_ns = whole_ns.max(0.0);
        Self::of(self.low_ns.min(whole_ns), self.likely_ns.min(whole_ns), self.high_ns.min(whole_ns))
    }
}

/// Requests that are at a place on average, by Little's law, from how many pass it a second and how long each is there.
#[must_use]
pub fn at_once(rate_per_s: f64, time_ns: f64) -> f64 {
    rate_per_s * time_ns / 1e9
}

/// The least that requests wait at a station with so many servers, nanoseconds each.
///
/// No more than `servers` can be in service at once; by Little's law all others that are there wait.
#[must_use]
pub fn least_wait_ns(rate_per_s: f64, at_station_ns: f64, servers: f64) -> f64 {
    if rate_per_s <= 0.0 { 0.0 } else { (at_station_ns - servers * 1e9 / rate_per_s).max(0.0) }
}

/// Servers for a station at which so many requests are at once: the load and twice its square root, so that few wait
/// (square-root staffing; Halfin and Whitt, 1981). At least one.
#[must_use]
pub fn staffed(load: f64) -> u32 {
    // Loads beyond any real pool saturate; the cast does so by definition.
    (load.max(0.0) + 2.0 * load.max(0.0).sqrt()).ceil().max(1.0) as u32
}

/// What a response takes when no request queues any more, but all share the CPUs: bounds of a closed system.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Shared {
    /// The mean response now, nanoseconds.
    pub response_ns: f64,
    /// The queueing in it that would go away, nanoseconds.
    pub queue_ns: f64,
    /// Requests that are in flight.
    pub in_flight: f64,
    /// CPUs that serve them.
    pub cpus: f64,
    /// CPU time of a request that is certain, nanoseconds.
    pub cpu_low_ns: f64,
    /// CPU time of a request if all that is not known to be waiting is CPU, nanoseconds.
    pub cpu_high_ns: f64,
}

impl Shared {
    /// What is saved when the queue goes away.
    ///
    /// At best all of the queueing, but the CPUs still need `in_flight * cpu / cpus` for one round of all requests
    /// (asymptotic bound). At worst every request finds all others at the CPUs. The likely figure lies in the middle.
    #[must_use]
    pub fn saving(&self) -> Saving {
        let Self { response_ns, queue_ns, in_flight, cpus, cpu_low_ns, cpu_high_ns } = *self;
        let (cpus, alone_ns) = (cpus.max(1.0), (response_ns - queue_ns).max(0.0));
        let best_ns = alone_ns.max(in_flight * cpu_low_ns / cpus);
        let worst_ns =
            alone_ns.max(in_flight * cpu_high_ns / cpus) + (cpus.min(in_flight) - 1.0).max(0.0) * cpu_low_ns / cpus;
        let saved = |after_ns: f64| (response_ns - after_ns).clamp(0.0, queue_ns.max(0.0));
        let (low, high) = (saved(worst_ns), saved(best_ns));
        Saving::of(low, (low + high) / 2.0, high)
    }
}

/// The probability that a request waits at a station with `servers` servers and `load` of them needed on average, by
/// Erlang's C formula; 1 where the load is too much for them.
#[must_use]
pub fn erlang_c(servers: u32, load: f64) -> f64 {
    if load <= 0.0 {
        return 0.0;
    }
    if load >= f64::from(servers) {
        return 1.0;
    }
    // Erlang's B by its recursion, which neither overflows nor loses digits.
    let mut blocked = 1.0;
    for number in 1..=servers {
        blocked = load * blocked / (f64::from(number) + load * blocked);
    }
    let busy = load / f64::from(servers);
    blocked / (1.0 - busy * (1.0 - blocked))
}

/// The mean wait at such a station, nanoseconds; `None` where the load is too much and the queue grows without end.
#[must_use]
pub fn mean_wait_ns(servers: u32, rate_per_s: f64, service_ns: f64) -> Option<f64> {
    let load = at_once(rate_per_s, service_ns);
    (load < f64::from(servers)).then(|| erlang_c(servers, load) * service_ns / (f64::from(servers) - load))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn known_values() {
        // One server: the probability is the load. Two servers at load 1: 1/3 (Kleinrock 1975, section 3.5).
        assert!((erlang_c(1, 0.5) - 0.5).abs() < 1e-12 && (erlang_c(2, 1.0) - 1.0 / 3.0).abs() < 1e-12);
        // M/M/1 at half load waits as long as it serves.
        assert!((mean_wait_ns(1, 500.0, 1e6).expect("stable") - 1e6).abs() < 1e-3);
        assert_eq!((mean_wait_ns(1, 1000.0, 1e6), erlang_c(3, 7.0), erlang_c(3, 0.0)), (None, 1.0, 0.0));
        // Eight clients at a pool of one, 100 responses a second: seven of the eight wait, 70 of 80 ms.
        assert!((least_wait_ns(100.0, 80e6, 1.0) - 70e6).abs() < 1.0);
        assert_eq!((least_wait_ns(0.0, 1.0, 1.0), staffed(8.0), staffed(0.0)), (0.0, 14, 1));
    }

    #[test]
    fn a_pool_of_sleepers_saves_its_queue_and_a_pool_of_computers_shares_the_cpus() {
        let pool =
            Shared { response_ns: 80e6, queue_ns: 70e6, in_flight: 8.0, cpus: 2.0, cpu_low_ns: 0.0, cpu_high_ns: 10e6 };
        let saving = pool.saving();
        assert_eq!((saving.high_ns, saving.low_ns), (70e6, 40e6));
        let computing = Shared { cpu_low_ns: 10e6, ..pool }.saving();
        assert!(computing.high_ns <= 40e6 && computing.low_ns < computing.high_ns);
    }

    proptest! {
        #[test]
        fn a_saving_is_ordered_and_never_more_than_the_queue(
            response in 0.0..1e9f64, queue in 0.0..1.0f64, in_flight in 0.0..1e4f64, cpus in 0.0..256f64,
            low in 0.0..1e8f64, high in 0.0..1e8f64,
        ) {
            let queue_ns = response * queue;
            let shared = Shared { response_ns: response, queue_ns, in_flight, cpus, cpu_low_ns: low, cpu_high_ns: low + high };
            let saving = shared.saving();
            prop_assert!(0.0 <= saving.low_ns && saving.low_ns <= saving.likely_ns && saving.likely_ns <= saving.high_ns);
            prop_assert!(saving.high_ns <= queue_ns);
        }

        #[test]
        fn more_servers_wait_less(servers in 1u32..200, load in 0.0..150f64) {
            let (fewer, more) = (erlang_c(servers, load), erlang_c(servers + 1, load));
            prop_assert!((0.0..=1.0).contains(&fewer) && more <= fewer + 1e-12);
        }
    }
}
