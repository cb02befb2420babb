//! Lanes of CPUs beside an example.

use super::labels::label;
use weir_report::CpuSpell;
use weir_timeline::{Detail, Joiner};

/// Stretches of a CPU that are drawn; where there are more, the shortest are left out.
const MOST_OF_CPU: usize = 250;
/// CPUs that are drawn.
const MOST_CPUS: u32 = 16;

/// Who had the CPUs within a window, the times from its begin.
pub(super) fn on_cpus(joiner: &Joiner, from_ns: u64, to_ns: u64) -> Vec<CpuSpell> {
    let spells: Vec<_> = joiner.on_cpus(0..MOST_CPUS, from_ns, to_ns).filter(|(_, pid, ..)| *pid != 0).collect();
    let mut shown = Vec::new();
    for of_cpu in spells.chunk_by(|a, b| a.0 == b.0) {
        let mut longest: Vec<u64> = of_cpu.iter().map(|(_, _, from, to)| to - from).collect();
        longest.sort_unstable_by(|a, b| b.cmp(a));
        let least = longest.get(MOST_OF_CPU - 1).copied().unwrap_or(0);
        let kept = of_cpu.iter().filter(|(_, _, from, to)| to - from >= least).take(MOST_OF_CPU);
        shown.extend(kept.map(|(cpu, pid, from, to)| CpuSpell {
            cpu: *cpu,
            from_ns: from - from_ns,
            ns: to - from,
            task: label(joiner, Detail::Task(*pid), *from),
        }));
    }
    shown
}
