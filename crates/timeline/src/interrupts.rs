//! What interrupts and the hypervisor took of a task's time on the CPU.

use crate::notes::{INTERRUPTS, Interrupt};
use crate::refinement::Refine;
use crate::step::Step;
use crate::tasks::State;
use weir_wire::watched::{NAMED_INTERRUPT, SOFT_INTERRUPT, STOLEN, TICK};

/// No interrupt lasts longer: beyond this none is looked for that may have begun before.
const LONGEST_NS: u64 = 10_000_000;

/// Soft interrupts by number, as in include/linux/interrupt.h.
const SOFT: [&str; 10] = ["hi", "timer", "net_tx", "net_rx", "block", "irq_poll", "tasklet", "sched", "hrtimer", "rcu"];

/// Cuts a stretch of running at the interrupts within.
pub(crate) fn divide(refine: &mut Refine<'_>, step: Step, steps: &mut Vec<Step>) {
    let mut within: Vec<Interrupt> = Vec::new();
    for spell in refine.tasks.spells_back(step.pid, step.from_ns, step.to_ns) {
        if let State::Running { cpu } = spell.state {
            let near = refine.notes.interrupts(cpu, spell.from_ns);
            let near = near.take_while(|one| one.to_ns < spell.to_ns.saturating_add(LONGEST_NS));
            within.extend(near.filter(|one| one.from_ns < spell.to_ns).map(|one| Interrupt {
                from_ns: one.from_ns.max(spell.from_ns),
                to_ns: one.to_ns.min(spell.to_ns),
                ..*one
            }));
        }
    }
    let watched = refine.notes.was_watched(INTERRUPTS, step.from_ns, step.to_ns);
    if watched {
        refine.division.watched_ns += step.to_ns - step.from_ns;
    }
    // One that interrupted another one lies within it: the outer one comes first, and has it all.
    within.sort_unstable_by_key(|one| (one.from_ns, std::cmp::Reverse(one.to_ns)));
    let mut at_ns = step.from_ns;
    for one in within {
        let (from_ns, to_ns) = (one.from_ns.clamp(at_ns, step.to_ns), one.to_ns.clamp(at_ns, step.to_ns));
        if to_ns <= from_ns {
            continue;
        }
        if from_ns > at_ns {
            steps.push(Step { from_ns: at_ns, to_ns: from_ns, ..step });
        }
        let text = words(refine, &one);
        steps.push(refine.named(Step { from_ns, to_ns, ..step }, &text));
        if watched && one.sort == STOLEN {
            refine.division.stolen_ns += to_ns - from_ns;
        } else if watched {
            refine.division.interrupt_ns += to_ns - from_ns;
        }
        at_ns = to_ns;
    }
    if at_ns < step.to_ns {
        steps.push(Step { from_ns: at_ns, ..step });
    }
}

fn words(refine: &Refine<'_>, interrupt: &Interrupt) -> String {
    match interrupt.sort {
        SOFT_INTERRUPT => {
            let name = SOFT.get(interrupt.number as usize).copied().unwrap_or("of another sort");
            format!("soft interrupt {name}")
        }
        TICK => "the CPU's timer interrupt".to_owned(),
        STOLEN => "the hypervisor".to_owned(),
        _ => match refine.notes.name(NAMED_INTERRUPT, interrupt.number) {
            Some(name) => name.to_string(),
            None => format!("interrupt {}", interrupt.number),
        },
    }
}
