//! What each request did.

use std::collections::HashMap;
use weir_measure::class::{Classes, Grouping};
use weir_measure::part::Part;
use weir_timeline::{Detail, Joiner, Response, Step, label};

/// Requests that are kept; beyond, the first ones stand for all.
const MOST_REQUESTS: usize = 60_000;
/// Steps of all of them.
const MOST_STEPS: usize = 6_000_000;
/// Texts that are told apart.
const MOST_TEXTS: usize = 4096;
const MOST_CLASSES: usize = 64;

/// A stretch of a request's time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stretch {
    pub(super) from_ns: u64,
    pub(super) to_ns: u64,
    pub(super) part: Part,
    /// Whose time it was; 0 where it was none's.
    pub(super) pid: u32,
    /// The task that waited for that one.
    pub(super) waiter: u32,
    /// The task that has the lock, or CPU, that is waited for; 0 for none.
    pub(super) holder: u32,
    /// What it was spent on: a number of [`Ways::texts`]; of a lock its name.
    pub(super) text: u32,
    /// The phase that it was in: a number of [`Ways::texts`].
    pub(super) phase: u32,
}

/// A request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Way {
    pub(super) at_ns: u64,
    pub(super) done_ns: u64,
    pub(super) picked_ns: u64,
    pub(super) sent_ns: u64,
    pub(super) class: u32,
    pub(super) connection: u64,
    pub(super) opened_connection: bool,
    pub(super) stretches: Vec<Stretch>,
}

/// All requests.
#[derive(Debug)]
pub(super) struct Ways {
    pub(super) all: Vec<Way>,
    /// Names of tasks.
    pub(super) names: HashMap<u32, String>,
    /// 0 is the empty one.
    pub(super) texts: Vec<String>,
    numbers: HashMap<String, u32>,
    classes: Classes,
    /// Requests beyond the bound.
    pub(super) beyond: u64,
    steps: usize,
    last_ns: u64,
}

impl Ways {
    pub(super) fn new(grouping: Grouping) -> Self {
        Self {
            all: Vec::new(),
            names: HashMap::new(),
            texts: vec![String::new()],
            numbers: HashMap::new(),
            classes: Classes::new(grouping, MOST_CLASSES),
            beyond: 0,
            steps: 0,
            last_ns: 0,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// The end of the last request that was told.
    pub(super) fn last_ns(&self) -> u64 {
        self.last_ns
    }

    /// The name of a class.
    pub(super) fn class(&self, number: u32) -> String {
        self.classes.names().get(number as usize).cloned().unwrap_or_default()
    }

    fn text(&mut self, text: String) -> u32 {
        if text.is_empty() {
            return 0;
        }
        if let Some(number) = self.numbers.get(&text) {
            return *number;
        }
        if self.texts.len() >= MOST_TEXTS {
            return 0;
        }
        let number = self.texts.len() as u32;
        self.texts.push(text.clone());
        self.numbers.insert(text, number);
        number
    }

    /// Takes a response that was joined.
    pub(super) fn push(&mut self, joiner: &Joiner, response: &Response<'_>) {
        let request = response.request;
        self.last_ns = self.last_ns.max(request.done_ns);
        if self.all.len() >= MOST_REQUESTS || self.steps + response.steps.len() > MOST_STEPS {
            self.beyond += 1;
            return;
        }
        let Some(server) = response.server else { return };
        let mut steps = Vec::with_capacity(response.steps.len());
        for step in response.steps {
            self.name(joiner, step);
            let holder = match step.detail {
                Detail::Lock(_, holder) => holder,
                Detail::Task(task) if step.part == Part::WaitCpu => task,
                _ => 0,
            };
            let text = match step.detail {
                Detail::None | Detail::Task(_) => 0,
                detail => self.text(label(joiner, detail, step.from_ns)),
            };
            let Step { from_ns, to_ns, part, pid, waiter, .. } = *step;
            steps.push(Stretch { from_ns, to_ns, part, pid, waiter, holder, text, phase: 0 });
        }
        let mut stretches = with_clients_waits(joiner, steps);
        for phase in response.phases {
            let name = joiner.phase(phase.phase);
            let number = self.text(format!("{}:{}", name.server, name.name));
            stretches = cut(&stretches, phase.from_ns, phase.to_ns, |stretch| {
                if stretch.part == phase.part {
                    stretch.phase = number;
                }
            });
        }
        self.steps += stretches.len();
        let class = self.classes.number(response.name);
        self.all.push(Way {
            at_ns: request.intended_ns,
            done_ns: request.done_ns,
            picked_ns: server.picked_ns,
            sent_ns: server.sent_ns,
            class,
            connection: request.connection,
            opened_connection: request.opened_connection,
            stretches,
        });
    }

    fn name(&mut self, joiner: &Joiner, step: &Step) {
        for pid in [step.pid, step.waiter] {
            if pid != 0
                && !self.names.contains_key(&pid)
                && let Some(name) = joiner.task_name_at(pid, step.from_ns)
            {
                self.names.insert(pid, name.name.clone());
            }
        }
    }
}

/// Stretches, those of the client cut where another task has the CPU that the client's task waits for: that is their
/// holder.
fn with_clients_waits(joiner: &Joiner, mut stretches: Vec<Stretch>) -> Vec<Stretch> {
    let Some(pid) = stretches.iter().rev().find(|stretch| is_late(stretch) && stretch.pid != 0).map(|last| last.pid)
    else {
        return stretches;
    };
    let late: Vec<(u64, u64)> =
        stretches.iter().filter(|stretch| is_late(stretch)).map(|late| (late.from_ns, late.to_ns)).collect();
    for (holder, from_ns, to_ns) in late.iter().flat_map(|late| joiner.waits_for_cpu(pid, late.0, late.1)) {
        stretches = cut(&stretches, from_ns, to_ns, |stretch| stretch.holder = holder);
    }
    stretches
}

/// Whether a stretch is the client's own lateness: before it sends, or until it takes the response.
pub(super) fn is_late(stretch: &Stretch) -> bool {
    stretch.part == Part::ClientWakeup || (stretch.part == Part::Generator && stretch.text == 0)
}

/// Stretches, cut at the ends of a time, with a change of what lies within.
pub(super) fn cut(
    stretches: &[Stretch],
    from_ns: u64,
    to_ns: u64,
    mut change: impl FnMut(&mut Stretch),
) -> Vec<Stretch> {
    let mut all = Vec::with_capacity(stretches.len() + 2);
    for stretch in stretches {
        let (begin, end) = (stretch.from_ns.max(from_ns), stretch.to_ns.min(to_ns));
        if begin >= end {
            all.push(*stretch);
            continue;
        }
        let mut inner = Stretch { from_ns: begin, to_ns: end, ..*stretch };
        change(&mut inner);
        let before = Stretch { to_ns: begin, ..*stretch };
        let after = Stretch { from_ns: end, ..*stretch };
        all.extend([before, inner, after].into_iter().filter(|stretch| stretch.to_ns > stretch.from_ns));
    }
    all
}

/// Whether a part is the time of a server, or of a process that it waits for.
pub(super) fn is_servers(part: Part) -> bool {
    !matches!(part, Part::Generator | Part::Connect | Part::RequestTransit | Part::ResponseTransit | Part::ClientWakeup)
}
