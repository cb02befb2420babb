//! Waiting for a CPU because a cgroup's quota is used up, not because others have it.

use crate::refinement::Refine;
use crate::step::{Detail, Step};
use weir_wire::watched::NAMED_CGROUP;

/// An idle CPU takes at most this long to wake up for a task; beyond that, something holds the task back.
const WAKING_UP_NS: u64 = 200_000;
/// No period of a quota is longer.
const LONGEST_NS: u64 = 1_000_000_000;

/// Names the quota that held a task back.
pub(crate) fn name(refine: &mut Refine<'_>, step: Step) -> Step {
    let process = refine.process(step.pid);
    let Some(throttled) = refine.notes.throttled(process, step.from_ns, step.to_ns) else { return step };
    let held_back = match step.detail {
        // While the quota holds the cgroup back none of its tasks has the CPU in question. Others may, and it would have
        // been theirs anyhow for a while; but not for as long as the quota held back.
        Detail::Task(holder) => {
            let own = refine.notes.share_quota(process, refine.process(holder), throttled.cgroup);
            !own && whole_wait(refine, &step) >= throttled.held_ns / 4
        }
        _ => step.to_ns - step.from_ns > WAKING_UP_NS,
    };
    let within = step.from_ns >= throttled.from_ns;
    match refine.notes.name(NAMED_CGROUP, throttled.cgroup) {
        Some(name) if held_back && within => {
            let text = format!("the CPU quota of cgroup {name}");
            refine.named(step, &text)
        }
        _ => step,
    }
}

/// How long the task waited for a CPU in all, of which a step may be a piece, nanoseconds.
fn whole_wait(refine: &Refine<'_>, step: &Step) -> u64 {
    let begin_ns = refine.tasks.state_since(step.pid, step.from_ns.saturating_add(1));
    let later = refine.tasks.spells_back(step.pid, step.from_ns, step.from_ns.saturating_add(LONGEST_NS));
    later.last().map_or(0, |spell| spell.to_ns.saturating_sub(begin_ns))
}
