//! Sampled stacks by transaction class and part, for the report and for other tools of flame charts.

use std::collections::HashMap;
use std::fmt::Write;
use weir_measure::part::Part;
use weir_measure::stacks::{Place, Seen, StackFold};
use weir_report::Stack;
use weir_timeline::{Attributed, Joiner, Response, Samples, Stacks};
use weir_wire::{Kind, Record, Slot, text_from_slots};

/// Stacks that are told apart while a run is read.
const MOST_PLACES: usize = 1 << 17;
/// Stacks that a report gives, those that stand for the most time.
const MOST_STACKS: usize = 1000;
/// Names of processes that are told apart.
const MOST_PROCESSES: usize = 1 << 12;
/// Remarks of the sampler's that become warnings.
const MOST_NOTES: usize = 32;
/// What all further stacks of a class and part are called.
const OTHER: &str = "(other)";
/// The class of samples that belong to no response.
const NO_REQUEST: &str = "(no request)";
/// The part of tasks that were blocked meanwhile.
const IDLE: &str = "(blocked)";

/// Class and part.
type Where = (Option<u32>, Option<Part>);

/// What a run tells of stacks.
pub(super) struct StackSection {
    samples: Samples,
    stacks: Stacks,
    seen: Counts,
    notes: Vec<String>,
    now_ns: u64,
}

/// Samples of responses' time on the CPU, by where the task was.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Modes {
    /// In the program.
    pub(super) user: Seen,
    /// In the kernel.
    pub(super) kernel: Seen,
}

/// Counts by place, with the names of processes.
struct Counts {
    fold: StackFold,
    processes: Vec<String>,
    by_name: HashMap<String, u32>,
}

impl StackSection {
    pub(super) fn new() -> Self {
        let seen = Counts { fold: StackFold::new(MOST_PLACES), processes: Vec::new(), by_name: HashMap::new() };
        Self { samples: Samples::default(), stacks: Stacks::default(), seen, notes: Vec::new(), now_ns: 0 }
    }

    /// Takes the next record.
    pub(super) fn push(&mut self, joiner: &Joiner, record: &Record, payload: &[Slot]) {
        self.now_ns = record.time_ns;
        self.stacks.push(record, payload);
        if record.kind == Kind::StackNote as u16 && self.notes.len() < MOST_NOTES {
            self.notes.push(text_from_slots(payload));
        }
        let (stacks, seen) = (&self.stacks, &mut self.seen);
        self.samples.push(record, payload, &mut |one| seen.push(joiner, stacks, one));
    }

    /// Takes a response of a class.
    pub(super) fn response(&mut self, class: u32, response: &Response<'_>) {
        self.samples.response(class, response, self.now_ns);
    }

    /// The run is over.
    pub(super) fn finish(&mut self, joiner: &Joiner) {
        let (stacks, seen) = (&self.stacks, &mut self.seen);
        self.samples.finish(&mut |one| seen.push(joiner, stacks, one));
    }

    /// What the sampler remarked.
    pub(super) fn notes(&self) -> &[String] {
        &self.notes
    }

    /// What the samples say of responses' time on the CPU.
    pub(super) fn modes(&self) -> Modes {
        let mut modes = Modes::default();
        for (place, seen) in self.seen.fold.snapshot() {
            if place.class.is_some() && place.part == Some(Part::Run) && place.stack != Place::OTHER {
                let mode = if self.stacks.in_kernel(place.stack) { &mut modes.kernel } else { &mut modes.user };
                add(mode, seen);
            }
        }
        modes
    }

    /// The stacks that stand for the most time, the others of their class and part as one; `classes` are the names.
    pub(super) fn stacks(&self, classes: &[String]) -> Vec<Stack> {
        // Different addresses of one function are one frame by now.
        let mut merged: HashMap<(Where, Vec<String>), Seen> = HashMap::new();
        for (place, seen) in self.seen.fold.snapshot() {
            let frames = match place.stack {
                Place::OTHER => vec![OTHER.to_owned()],
                number => {
                    let process = self.seen.processes.get(place.process as usize).map_or(OTHER, String::as_str);
                    let frames = self.stacks.frames(number);
                    std::iter::once(process.to_owned()).chain(frames.iter().map(ToString::to_string)).collect()
                }
            };
            add(merged.entry(((place.class, place.part), frames)).or_default(), seen);
        }
        let mut all: Vec<_> = merged.into_iter().collect();
        all.sort_by(|(one, a), (other, b)| b.ns.cmp(&a.ns).then_with(|| one.cmp(other)));
        let mut rest: HashMap<Where, Seen> = HashMap::new();
        for ((at, _), seen) in all.iter().skip(MOST_STACKS) {
            add(rest.entry(*at).or_default(), *seen);
        }
        all.truncate(MOST_STACKS);
        let mut rest: Vec<_> = rest.into_iter().collect();
        rest.sort_by_key(|(key, _)| *key);
        all.extend(rest.into_iter().map(|(at, seen)| ((at, vec![OTHER.to_owned()]), seen)));
        let name =
            |class: Option<u32>| class.and_then(|class| classes.get(class as usize)).map_or(NO_REQUEST, |name| name);
        all.into_iter()
            .map(|(((class, part), frames), Seen { samples, ns })| Stack {
                class: name(class).to_owned(),
                part: part.map_or(IDLE, Part::name).to_owned(),
                frames,
                samples,
                ns,
            })
            .collect()
    }
}

impl Counts {
    fn push(&mut self, joiner: &Joiner, stacks: &Stacks, one: Attributed) {
        let name = joiner.task_name(one.pid).map_or("(unnamed)", |task| task.name.as_str());
        let process = match self.by_name.get(name) {
            Some(number) => *number,
            None if self.processes.len() >= MOST_PROCESSES => Place::OTHER,
            None => {
                let number = self.processes.len() as u32;
                self.processes.push(name.to_owned());
                self.by_name.insert(name.to_owned(), number);
                number
            }
        };
        let stack = stacks.number(one.node);
        self.fold.push(Place { class: one.class, part: one.part, process, stack }, one.ns);
    }
}

fn add(to: &mut Seen, more: Seen) {
    to.samples += more.samples;
    to.ns += more.ns;
}

/// The stacks as folded lines, which other tools of flame charts read: `class;part;process;outermost;...;innermost N`,
/// N in microseconds.
pub fn folded(stacks: &[Stack]) -> String {
    let mut text = String::new();
    // A semicolon separates frames, and a line is a stack.
    let plain = |name: &str| name.replace(';', ":").replace(['\n', '\r'], " ");
    for stack in stacks.iter().filter(|stack| stack.ns >= 500) {
        let names =
            [stack.class.as_str(), stack.part.as_str()].into_iter().chain(stack.frames.iter().map(String::as_str));
        let line = names.map(plain).collect::<Vec<_>>().join(";");
        // Writing to text cannot fail.
        let _ = writeln!(text, "{line} {}", (stack.ns + 500) / 1000);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stack(class: &str, part: &str, frames: &[&str], ns: u64) -> Stack {
        let frames = frames.iter().map(|&frame| frame.to_owned()).collect();
        Stack { class: class.to_owned(), part: part.to_owned(), frames, samples: 1, ns }
    }

    #[test]
    fn folded_lines_are_what_other_tools_read() {
        let stacks = [
            stack("GET /a", "run", &["nginx", "main", "ngx_worker_process_cycle"], 30_303_030),
            stack("GET /a", "wait_disk", &["nginx", "main", "vfs_read_[k]"], 1_499),
            stack("(no request)", "run", &["php", "php: f (a;b.php:3)\n"], 10_000_000),
            stack("GET /a", "run", &["nginx", "too_short_to_show"], 499),
        ];
        let expected = "\
GET /a;run;nginx;main;ngx_worker_process_cycle 30303
GET /a;wait_disk;nginx;main;vfs_read_[k] 1
(no request);run;php;php: f (a:b.php:3)  10000
";
        assert_eq!(folded(&stacks), expected);
    }
}
