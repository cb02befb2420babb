//! What an event means by its name and its named fields, for formats that describe their own fields.
//!
//! The names are those of the kernel's tracepoints, and those that LTTng gives them.

use crate::event::{state_of_letters, state_of_number, writes};
use crate::meaning::Meaning;
use crate::{Call, Disk, Task, What, Within, calls};

/// The fields of an event, by their names.
pub(crate) trait Fields<'a> {
    /// A number.
    fn number(&self, name: &str) -> Option<i64>;
    /// A text.
    fn text(&self, name: &str) -> Option<&'a str>;

    /// The first of several names that is there.
    fn any(&self, names: &[&str]) -> Option<i64> {
        names.iter().find_map(|name| self.number(name))
    }
}

/// The meaning of an event; `name` without its system.
pub(crate) fn meaning<'a>(name: &'a str, fields: &impl Fields<'a>) -> Meaning<'a> {
    let what = match name {
        "sched_switch" => switch(fields),
        "sched_waking" => waking(fields),
        "sched_process_fork" => fork(fields),
        "task_rename" => task(fields, &["pid", "tid"], "newcomm").map(|task| What::Named { task, process: None }),
        "sched_process_exec" => Some(What::Exec),
        "sched_process_exit" => Some(What::Exit),
        "block_rq_issue" => disk(fields, What::DiskBegins),
        "block_rq_complete" => disk(fields, What::DiskEnds),
        "sys_enter" => call(fields, "").map(What::CallBegins),
        "sys_exit" => ended(fields, ""),
        _ => {
            let begins = ["sys_enter_", "syscall_entry_"].iter().find_map(|prefix| name.strip_prefix(prefix));
            let ends = ["sys_exit_", "syscall_exit_"].iter().find_map(|prefix| name.strip_prefix(prefix));
            match (begins, ends) {
                (Some(called), _) => call(fields, called).map(What::CallBegins),
                (_, Some(called)) => ended(fields, called),
                _ => return Meaning::None,
            }
        }
    };
    what.map_or(Meaning::Cut, Meaning::Is)
}

fn task<'a>(fields: &impl Fields<'a>, numbers: &[&str], name: &str) -> Option<Task<'a>> {
    Some(Task { number: fields.any(numbers)? as u32, name: fields.text(name)? })
}

fn switch<'a>(fields: &impl Fields<'a>) -> Option<What<'a>> {
    let state = match fields.number("prev_state") {
        Some(number) => state_of_number(number),
        None => state_of_letters(fields.text("prev_state")?)?,
    };
    let from = task(fields, &["prev_pid", "prev_tid"], "prev_comm")?;
    Some(What::Switch { from, state, to: task(fields, &["next_pid", "next_tid"], "next_comm")? })
}

fn waking<'a>(fields: &impl Fields<'a>) -> Option<What<'a>> {
    let task = task(fields, &["pid", "tid"], "comm")?;
    let flags = fields.number("common_flags");
    Some(What::Waking { task, within: flags.map_or(Within::NotTold, |flags| Within::of_flags(flags as u8)) })
}

fn fork<'a>(fields: &impl Fields<'a>) -> Option<What<'a>> {
    // LTTng tells the child's thread and process apart; the kernel's tracepoint has the thread's number alone.
    let process = fields.number("child_tid").and_then(|_| fields.number("child_pid"));
    Some(What::Fork {
        parent: fields.any(&["parent_tid", "parent_pid"])? as u32,
        child: task(fields, &["child_tid", "child_pid"], "child_comm")?,
        process: process.map(|process| process as u32),
    })
}

fn disk<'a>(fields: &impl Fields<'a>, what: fn(Disk) -> What<'a>) -> Option<What<'a>> {
    // LTTng has the operation as bits of the kernel's, whose lowest says that it writes.
    let writes = match fields.text("rwbs") {
        Some(letters) => writes(letters),
        None => fields.number("rwbs").map(|bits| bits & 1 != 0),
    };
    Some(what(Disk {
        device: fields.number("dev")? as u32,
        sector: fields.number("sector")?.cast_unsigned(),
        sectors: fields.number("nr_sector")? as u32,
        writes,
    }))
}

/// A call, by its name, or by its number where the event has no name.
fn call<'a>(fields: &impl Fields<'a>, name: &'a str) -> Option<Call<'a>> {
    let told = fields.any(&["__syscall_nr", "id", "nr"]).filter(|_| name.is_empty());
    let number = if name.is_empty() { calls::number(told?) } else { calls::number_of(name) };
    let name = if name.is_empty() { number.map_or("", calls::name_of) } else { name };
    // Each call has another name for its first argument; these are the ones of descriptors.
    let first = fields.any(&["fd", "args", "out_fd", "epfd", "n", "which_clock"]).map(i64::cast_unsigned);
    Some(Call { name, number, first })
}

fn ended<'a>(fields: &impl Fields<'a>, name: &'a str) -> Option<What<'a>> {
    let call = call(fields, name)?;
    Some(What::CallEnds { call: Call { first: None, ..call }, result: fields.number("ret")? })
}
