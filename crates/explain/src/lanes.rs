//! Lanes of CPUs and of those who held its locks beside an example.

use weir_report::{CpuSpell, HolderSpell};
use weir_timeline::{Detail, Joiner, Step, label};

/// Stretches of a CPU that are drawn; where there are more, the shortest are left out.
const MOST_OF_CPU: usize = 250;
/// CPUs that are drawn.
const MOST_CPUS: u32 = 16;

/// Stretches of holders that are drawn; what is left out is told by the steps, which name the holder.
const MOST_OF_HOLDERS: usize = 400;

/// What those did who held locks while a response waited for them, the times from its begin.
pub(super) fn of_holders(joiner: &Joiner, steps: &[Step], begin_ns: u64) -> Vec<HolderSpell> {
    let mut told: Vec<HolderSpell> = Vec::new();
    for step in steps {
        let Detail::Lock(number, holder) = step.detail else { continue };
        if holder == step.pid {
            continue;
        }
        let mut states: Vec<_> = joiner.states_back(holder, step.from_ns, step.to_ns).take(MOST_OF_HOLDERS).collect();
        states.reverse();
        let (task, lock) = (label(joiner, Detail::Task(holder), step.from_ns), joiner.text(number).to_owned());
        told.extend(states.into_iter().map(|(part, from_ns, to_ns)| HolderSpell {
            lock: lock.clone(),
            task: task.clone(),
            part: part.name().to_owned(),
            from_ns: from_ns.saturating_sub(begin_ns),
            ns: to_ns - from_ns,
        }));
        told.truncate(MOST_OF_HOLDERS);
    }
    told
}

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
