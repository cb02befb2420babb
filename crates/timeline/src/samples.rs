//! Whose sample it is: joins sampled stacks with responses by task and time.

use crate::join::Response;
use crate::step::Step;
use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use weir_measure::part::Part;
use weir_wire::stack::StackSample;
use weir_wire::{Record, Slot};

/// Samples that are remembered for responses that are yet to end: 20 minutes of two CPUs' at 99 Hz.
const MOST_SAMPLES: usize = 1 << 18;
/// Steps that wait for samples; beyond, the oldest responses are looked at before all their samples may have come.
const MOST_STEPS: usize = 1 << 20;
/// A sample is told so much later than it was taken, at most; nanoseconds.
const DELAY_NS: u64 = 500_000_000;

/// A sample's share in a response, or in none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attributed {
    /// The response's transaction class; `None` if the sample belongs to no response.
    pub class: Option<u32>,
    /// The part in which it was; where it belongs to none, `run` if the task had a CPU.
    pub part: Option<Part>,
    /// The task.
    pub pid: u32,
    /// The stack, by the number that it was told under.
    pub node: u32,
    /// The time that it stands for, nanoseconds of the response.
    pub ns: u64,
}

/// A response whose samples may still come.
#[derive(Debug)]
struct Held {
    due_ns: u64,
    class: u32,
    /// By task, then by time.
    steps: Box<[Step]>,
}

#[derive(Debug, Clone, Copy)]
struct Sample {
    told: StackSample,
    used: bool,
}

/// Samples and responses that wait for each other.
#[derive(Debug, Default)]
pub struct Samples {
    /// By task, in the order of time.
    samples: FxHashMap<u32, VecDeque<Sample>>,
    /// The same in the order in which they were told: (task, time).
    order: VecDeque<(u32, u64)>,
    responses: VecDeque<Held>,
    steps: usize,
    any: bool,
}

impl Samples {
    /// Takes a record, a sample or not; `take` gets what can be said by now.
    pub fn push(&mut self, record: &Record, payload: &[Slot], take: &mut dyn FnMut(Attributed)) {
        if let Some(told) = StackSample::read(record, payload) {
            self.any = true;
            let of_task = self.samples.entry(told.pid).or_default();
            let at = of_task.partition_point(|one| one.told.at_ns <= told.at_ns);
            of_task.insert(at, Sample { told, used: false });
            self.order.push_back((told.pid, told.at_ns));
            if self.order.len() > MOST_SAMPLES {
                self.forget_oldest(take);
            }
        }
        while self.responses.front().is_some_and(|held| held.due_ns < record.time_ns || self.steps > MOST_STEPS) {
            self.resolve_first(take);
        }
    }

    /// Takes a response of a class at the time of the present record.
    pub fn response(&mut self, class: u32, response: &Response<'_>, now_ns: u64) {
        self.steps_of(class, response.steps, now_ns);
    }

    fn steps_of(&mut self, class: u32, steps: &[Step], now_ns: u64) {
        // A recording without stacks pays nothing here.
        if !self.any {
            return;
        }
        let mut steps: Box<[Step]> = steps.iter().filter(|step| step.pid != 0).copied().collect();
        if steps.is_empty() {
            return;
        }
        steps.sort_by_key(|step| (step.pid, step.from_ns));
        self.steps += steps.len();
        self.responses.push_back(Held { due_ns: now_ns.saturating_add(DELAY_NS), class, steps });
    }

    /// The recording is over: says what is left to be said.
    pub fn finish(&mut self, take: &mut dyn FnMut(Attributed)) {
        while !self.responses.is_empty() {
            self.resolve_first(take);
        }
        while !self.order.is_empty() {
            self.forget_oldest(take);
        }
    }

    /// How many things are held in memory.
    #[must_use]
    pub fn held(&self) -> usize {
        self.order.len() + self.steps
    }

    fn resolve_first(&mut self, take: &mut dyn FnMut(Attributed)) {
        let Some(Held { class, steps, .. }) = self.responses.pop_front() else { return };
        self.steps -= steps.len();
        for of_task in steps.chunk_by(|one, next| one.pid == next.pid) {
            let Some(samples) = self.samples.get_mut(&of_task[0].pid) else { continue };
            let begin_ns = of_task[0].from_ns;
            let end_ns = of_task.iter().map(|step| step.to_ns).max().unwrap_or(begin_ns);
            let first = samples.partition_point(|sample| sample.told.at_ns < begin_ns);
            for sample in samples.iter_mut().skip(first).take_while(|sample| sample.told.at_ns < end_ns) {
                let Some((part, within_ns)) = part_of(of_task, &sample.told) else { continue };
                sample.used = true;
                let StackSample { pid, node, weight_ns, blocked, .. } = sample.told;
                // A wait that is longer than the time between two looks is met for sure, and told once; of the shorter
                // ones each is met with the probability of its length over that time, and so stands for it all.
                let ns = if blocked { within_ns.max(weight_ns) } else { weight_ns };
                take(Attributed { class: Some(class), part: Some(part), pid, node, ns });
            }
        }
    }

    fn forget_oldest(&mut self, take: &mut dyn FnMut(Attributed)) {
        let Some((pid, at_ns)) = self.order.pop_front() else { return };
        let Some(samples) = self.samples.get_mut(&pid) else { return };
        let at = samples.partition_point(|sample| sample.told.at_ns < at_ns);
        if let Some(Sample { told, used: false }) = samples.remove(at) {
            let part = (!told.blocked).then_some(Part::Run);
            take(Attributed { class: None, part, pid, node: told.node, ns: told.weight_ns });
        }
        if samples.is_empty() {
            self.samples.remove(&pid);
        }
    }
}

/// In which part of a response a task's sample was, and how long that lasted there.
///
/// Between two of the task's steps the request was with another process. If the task was blocked meanwhile, it waited
/// for that process, whose own steps stand in the place of the wait.
fn part_of(steps: &[Step], sample: &StackSample) -> Option<(Part, u64)> {
    let after = steps.partition_point(|step| step.from_ns <= sample.at_ns);
    let step = steps.get(after.checked_sub(1)?)?;
    if sample.at_ns < step.to_ns {
        return Some((step.part, step.to_ns - step.from_ns));
    }
    let next = steps.get(after).filter(|_| sample.blocked)?;
    Some((Part::WaitProcess, next.from_ns.saturating_sub(step.to_ns)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::step::Detail;
    use proptest::prelude::*;

    fn step(pid: u32, from_ns: u64, to_ns: u64, part: Part) -> Step {
        Step { from_ns, to_ns, part, pid, waiter: 0, detail: Detail::None }
    }

    fn sample(samples: &mut Samples, pid: u32, node: u32, at_ns: u64, blocked: bool, out: &mut Vec<Attributed>) {
        let (record, slots) = StackSample { pid, node, at_ns, weight_ns: 10, blocked }.write(at_ns + 5);
        samples.push(&record, &slots, &mut |one| out.push(one));
    }

    #[test]
    fn a_sample_belongs_to_the_part_in_which_its_task_was() {
        let (mut samples, mut out) = (Samples::default(), Vec::new());
        sample(&mut samples, 7, 1, 105, false, &mut out);
        sample(&mut samples, 7, 2, 150, true, &mut out);
        sample(&mut samples, 7, 3, 250, true, &mut out);
        sample(&mut samples, 8, 4, 250, false, &mut out);
        sample(&mut samples, 7, 5, 900, true, &mut out);
        let steps = [
            step(7, 100, 120, Part::Run),
            step(7, 120, 200, Part::WaitDisk),
            step(8, 200, 300, Part::Run),
            step(7, 300, 310, Part::Run),
        ];
        samples.steps_of(3, &steps, 400);
        assert!(out.is_empty(), "its samples may still come");
        samples.finish(&mut |one| out.push(one));
        let (class, pid) = (Some(3), 7);
        assert_eq!(
            out,
            [
                Attributed { class, part: Some(Part::Run), pid, node: 1, ns: 10 },
                Attributed { class, part: Some(Part::WaitDisk), pid, node: 2, ns: 80 },
                Attributed { class, part: Some(Part::WaitProcess), pid, node: 3, ns: 100 },
                Attributed { class, part: Some(Part::Run), pid: 8, node: 4, ns: 10 },
                Attributed { class: None, part: None, pid, node: 5, ns: 10 },
            ]
        );
        assert_eq!(samples.held(), 0);
    }

    proptest! {
        /// Waits of any length, looked at each 100 ns from a random moment on, are estimated without bias.
        #[test]
        fn waits_are_estimated_without_bias(length in 1u64..1000) {
            const LOOK: u64 = 100;
            let mut sum = 0;
            for begin in 0..LOOK {
                let (mut samples, mut out) = (Samples::default(), Vec::new());
                samples.any = true;
                let from = 1000 + begin;
                if let Some(at_ns) = (0..40).map(|look| look * LOOK).find(|at| (from..from + length).contains(at)) {
                    let (record, slots) =
                        StackSample { pid: 7, node: 1, at_ns, weight_ns: LOOK, blocked: true }.write(at_ns);
                    samples.push(&record, &slots, &mut |_| ());
                }
                samples.steps_of(0, &[step(7, from, from + length, Part::WaitLock)], 5000);
                samples.finish(&mut |one| out.push(one));
                sum += out.iter().map(|one| one.ns).sum::<u64>();
            }
            prop_assert_eq!(sum, length * LOOK);
        }

        #[test]
        fn memory_stays_within_its_bounds_and_no_sample_is_lost(
            told in proptest::collection::vec((0u32..4, 0u64..2000, any::<bool>(), 0u64..400), 0..300)
        ) {
            let (mut samples, mut out) = (Samples::default(), Vec::new());
            for (index, (pid, at_ns, blocked, length)) in told.iter().enumerate() {
                sample(&mut samples, *pid, index as u32, *at_ns, *blocked, &mut out);
                samples.steps_of(1, &[step(*pid, *at_ns, at_ns + length, Part::Run)], at_ns + length);
            }
            samples.finish(&mut |one| out.push(one));
            let mut nodes: Vec<u32> = out.iter().map(|one| one.node).collect();
            nodes.sort_unstable();
            nodes.dedup();
            prop_assert_eq!(nodes.len(), told.len());
            prop_assert_eq!(samples.held(), 0);
        }
    }
}
