//! Perfetto's bundles of the kernel's events, one of a CPU each.

use crate::event::shortened;
use crate::fields::{Fields, meaning};
use crate::protobuf::{Field, Message, packed};
use crate::{Counts, Event, Markers, Skipped, Task, What, Within};
use rustc_hash::FxHashMap;
use std::borrow::Cow;

/// CPUs whose running task is remembered.
const CPUS_MAX: usize = 8192;

/// A kind of event: its field in a bundle's event, its name, and the names of its own fields by their numbers.
type Known = (u32, &'static str, &'static [(u32, &'static str)]);

const KNOWN: &[Known] = &[
    (4, "sched_switch", &[(1, "prev_comm"), (2, "prev_pid"), (4, "prev_state"), (5, "next_comm"), (6, "next_pid")]),
    (20, "sched_waking", &[(1, "comm"), (2, "pid")]),
    (45, "block_rq_issue", &[(1, "dev"), (2, "sector"), (3, "nr_sector"), (5, "rwbs")]),
    (125, "block_rq_complete", &[(1, "dev"), (2, "sector"), (3, "nr_sector"), (5, "rwbs")]),
    (236, "task_rename", &[(1, "pid"), (2, "oldcomm"), (3, "newcomm")]),
    (237, "sched_process_exec", &[(1, "filename"), (2, "pid")]),
    (238, "sched_process_exit", &[(1, "comm"), (2, "pid")]),
    (239, "sched_process_fork", &[(1, "parent_comm"), (2, "parent_pid"), (3, "child_comm"), (4, "child_pid")]),
    (329, "sys_enter", &[(1, "id"), (2, "args")]),
    (330, "sys_exit", &[(1, "id"), (2, "ret")]),
    (3, "print", &[(2, "buf")]),
];

/// The running task of each CPU, as its switches tell.
#[derive(Debug, Default)]
pub(crate) struct Ftrace {
    running: Vec<Option<(u32, String)>>,
    /// Names of events that only their number tells.
    unknown: FxHashMap<u32, String>,
}

struct Values<'a> {
    names: &'static [(u32, &'static str)],
    bytes: &'a [u8],
    flags: Option<u64>,
}

impl<'a> Values<'a> {
    fn field(&self, name: &str) -> Option<Field<'a>> {
        let (number, _) = self.names.iter().find(|(_, known)| *known == name)?;
        Message::new(self.bytes).find(|(own, _)| own == number).map(|(_, field)| field)
    }

    fn shown(&self, name: &str) -> Option<Cow<'a, str>> {
        match self.field(name)? {
            Field::Number(number) => Some(Cow::Owned(number.cast_signed().to_string())),
            text => text.text().map(Cow::Borrowed),
        }
    }
}

impl<'a> Fields<'a> for Values<'a> {
    fn number(&self, name: &str) -> Option<i64> {
        if name == "common_flags" {
            return self.flags.map(u64::cast_signed);
        }
        match self.field(name)? {
            Field::Number(number) => Some(number.cast_signed()),
            // Repeated numbers may be packed: the first is asked for.
            Field::Bytes(bytes) if name == "args" => packed(bytes).next().map(u64::cast_signed),
            // What a writer leaves out is 0.
            Field::Bytes(_) => None,
        }
    }

    fn text(&self, name: &str) -> Option<&'a str> {
        self.field(name)?.text()
    }
}

impl Ftrace {
    pub(crate) fn bundle(
        &mut self,
        bytes: &[u8],
        markers: &Markers,
        counts: &mut Counts,
        take: &mut impl FnMut(Event<'_>),
    ) {
        const CPU: u32 = 1;
        const EVENT: u32 = 2;
        const IS_LOSSY: u32 = 3;
        const COMPACT: u32 = 4;
        let told = Message::new(bytes).find(|(number, _)| *number == CPU);
        let cpu = told.and_then(|(_, field)| field.number()).unwrap_or(0) as u32;
        counts.on_cpu(cpu);
        for (number, field) in Message::new(bytes) {
            match (number, field) {
                (EVENT, Field::Bytes(event)) => self.event(cpu, event, markers, counts, take),
                (COMPACT, Field::Bytes(compact)) => self.compact(cpu, compact, counts, take),
                // How many were lost is not told: at least one.
                (IS_LOSSY, Field::Number(is)) if is != 0 => {
                    counts.lost += 1;
                    let what = What::Lost(1);
                    take(Event { at_ns: 0, cpu: Some(cpu), task: None, process: None, what });
                }
                _ => {}
            }
        }
    }

    fn event(
        &mut self,
        cpu: u32,
        bytes: &[u8],
        markers: &Markers,
        counts: &mut Counts,
        take: &mut impl FnMut(Event<'_>),
    ) {
        let (mut at_ns, mut task, mut flags, mut own) = (None, None, None, None);
        for (number, field) in Message::new(bytes) {
            match (number, field) {
                (1, Field::Number(number)) => at_ns = Some(number),
                (2, Field::Number(number)) => task = Some(number as u32),
                (5, Field::Number(number)) => flags = Some(number),
                (number, Field::Bytes(bytes)) => own = Some((number, bytes)),
                _ => {}
            }
        }
        let Some((number, bytes)) = own else { return counts.skip(Skipped::FormatNotTold) };
        let Some((_, name, names)) = KNOWN.iter().find(|(known, ..)| *known == number) else {
            let name = self.unknown.entry(number).or_insert_with(|| format!("ftrace event {number}"));
            counts.event(name);
            return counts.skip(Skipped::NotMapped);
        };
        counts.event(name);
        let Some(at_ns) = at_ns else { return counts.skip(Skipped::NoTime) };
        let values = Values { names, bytes, flags };
        let what = meaning(name, &values).counted(name, counts);
        if let What::Switch { to, .. } = what {
            self.runs(cpu, to);
        }
        let event = Event { at_ns, cpu: Some(cpu), task, process: None, what };
        take(event);
        markers.told(name, |name| values.shown(name), |mark| take(Event { what: What::Mark(mark), ..event }));
    }

    fn runs(&mut self, cpu: u32, task: Task<'_>) {
        let cpu = cpu as usize;
        if cpu < CPUS_MAX {
            if self.running.len() <= cpu {
                self.running.resize(cpu + 1, None);
            }
            // Its memory serves the next name.
            let (number, name) = self.running[cpu].get_or_insert_default();
            *number = task.number;
            name.clear();
            name.push_str(shortened(task.name));
        }
    }

    /// Switches and wakings as columns, of which a switch tells only who comes: who leaves came before.
    fn compact(&mut self, cpu: u32, bytes: &[u8], counts: &mut Counts, take: &mut impl FnMut(Event<'_>)) {
        let mut told = Columns { names: Vec::new(), columns: [&[]; 13] };
        for (number, field) in Message::new(bytes) {
            match (number, field) {
                (5, field) => told.names.push(field.text().unwrap_or_default()),
                (number, Field::Bytes(column)) => {
                    if let Some(room) = told.columns.get_mut(number as usize) {
                        *room = column;
                    }
                }
                _ => {}
            }
        }
        self.switches(cpu, &told, counts, take);
        wakings(cpu, &told, counts, take);
    }

    fn switches(&mut self, cpu: u32, told: &Columns<'_>, counts: &mut Counts, take: &mut impl FnMut(Event<'_>)) {
        let [_, times, states, tasks, _, _, called, ..] = told.columns;
        let mut at_ns = 0u64;
        let rows = packed(times).zip(packed(states)).zip(packed(tasks)).zip(packed(called));
        for (((since, state), task), index) in rows {
            at_ns = at_ns.wrapping_add(since);
            counts.event("sched_switch");
            let Some(to) = told.task(task, index) else {
                counts.skip(Skipped::FieldMissing);
                continue;
            };
            match self.running.get(cpu as usize).and_then(Option::as_ref) {
                Some((number, name)) => {
                    let from = Task { number: *number, name };
                    let state = crate::event::state_of_number(state.cast_signed());
                    let what = What::Switch { from, state, to };
                    take(Event { at_ns, cpu: Some(cpu), task: Some(*number), process: None, what });
                }
                None => counts.skip(Skipped::Unreferenced),
            }
            self.runs(cpu, to);
        }
    }
}

/// The columns of a bundle, by the numbers of their fields, and the names that they refer to.
struct Columns<'a> {
    names: Vec<&'a str>,
    columns: [&'a [u8]; 13],
}

impl<'a> Columns<'a> {
    fn task(&self, number: u64, name: u64) -> Option<Task<'a>> {
        let name = self.names.get(usize::try_from(name).ok()?)?;
        Some(Task { number: number as u32, name })
    }
}

fn wakings(cpu: u32, told: &Columns<'_>, counts: &mut Counts, take: &mut impl FnMut(Event<'_>)) {
    let [_, _, _, _, _, _, _, times, tasks, _, _, called, flags] = told.columns;
    let (mut at_ns, mut flags) = (0u64, packed(flags));
    for ((since, task), index) in packed(times).zip(packed(tasks)).zip(packed(called)) {
        at_ns = at_ns.wrapping_add(since);
        counts.event("sched_waking");
        let within = flags.next().map_or(Within::NotTold, |flags| Within::of_flags(flags as u8));
        let Some(task) = told.task(task, index) else {
            counts.skip(Skipped::FieldMissing);
            continue;
        };
        // Who ran then, the CPU's switches tell.
        take(Event { at_ns, cpu: Some(cpu), task: None, process: None, what: What::Waking { task, within } });
    }
}
