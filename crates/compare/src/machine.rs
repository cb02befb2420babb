//! What else the machine does: the use of its CPUs by anybody, from `/proc/stat`.
use std::fs;

/// CPU time used by anybody so far on these CPUs (on all without any), also by other virtual
/// machines where the host tells, in nanoseconds; in steps of a tick, usually 10 ms. `None` where
/// the kernel does not say.
pub(crate) fn busy_ns(cpus: &[usize]) -> Option<u64> {
    // SAFETY: asks for a constant of the system.
    let ticks_per_s = u64::try_from(unsafe { libc::sysconf(libc::_SC_CLK_TCK) }).ok().filter(|ticks| *ticks > 0)?;
    Some(busy_ticks(&fs::read_to_string("/proc/stat").ok()?, cpus)? * (1_000_000_000 / ticks_per_s))
}

/// Sums `user nice system . . irq softirq steal` of the lines `cpuN`.
fn busy_ticks(statistics: &str, cpus: &[usize]) -> Option<u64> {
    let mut sum = None;
    for line in statistics.lines() {
        let Some((number, counts)) = line.strip_prefix("cpu").and_then(|rest| rest.split_once(' ')) else { continue };
        // The line of all CPUs together has no number.
        let Ok(number) = number.parse::<usize>() else { continue };
        if cpus.is_empty() || cpus.contains(&number) {
            let counts: Vec<u64> = counts.split_ascii_whitespace().map_while(|count| count.parse().ok()).collect();
            let busy = [0, 1, 2, 5, 6, 7].iter().filter_map(|index| counts.get(*index)).sum::<u64>();
            *sum.get_or_insert(0) += busy;
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn busy_time_is_summed_over_the_cpus_asked_for() {
        let statistics = "cpu  9 9 9 9 9 9 9 9 0 0\ncpu0 1 2 3 100 50 4 5 6 0 0\ncpu1 10 0 0 7 0 0 0 0 0 0\nintr 5\n";
        assert_eq!(busy_ticks(statistics, &[0]), Some(21));
        assert_eq!(busy_ticks(statistics, &[]), Some(31));
        assert_eq!(busy_ticks(statistics, &[7]), None);
        assert!(busy_ns(&[]).is_some());
    }
}
