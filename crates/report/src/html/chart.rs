//! The chart of a response: a row for the response, for each task, lock and CPU, on one axis that can be zoomed.

use super::escape::{escaped, fraction, time};
use super::palette::part_named;
use super::rows;
use super::ticks::{round_ticks, tick};
use crate::culprit::lock_and_holder;
use crate::units::{nanoseconds, share};
use crate::{Example, ExampleStep, HolderSpell};
use rows::{Row, RowSort};
use weir_measure::part::Part;

/// Pixels of a row and between two.
const ROW: usize = 20;
const PITCH: usize = 24;
/// Arrows that are drawn; a chart of more would be black.
const MOST_ARROWS: usize = 120;

/// The chart, with `name` as what the address of the page calls it by.
pub(super) fn chart(example: &Example, name: &str) -> String {
    let rows = rows::of(example);
    if example.response_ns == 0 || rows.len() < 2 {
        return String::new();
    }
    let scale_ns = example.response_ns as f64;
    let names: String = rows.iter().map(row_name).collect();
    let drawn: String = rows.iter().enumerate().map(|(index, row)| row_marks(example, row, index, scale_ns)).collect();
    let ticks: String = round_ticks(scale_ns)
        .iter()
        // At the very end there is no room for it.
        .filter(|ns| **ns < 0.94 * scale_ns)
        .map(|ns| format!("<i style=\"left:{}\">{}</i>", fraction(share(*ns, scale_ns)), tick(*ns)))
        .collect();
    let height = rows.len() * PITCH;
    format!(
        "<div class=\"chart\" data-zoom=\"{name}\" data-ns=\"{}\"><div class=\"chart-names\" aria-hidden=\"true\">{names}</div>\
         <div class=\"pane\" tabindex=\"0\" role=\"group\" aria-label=\"Chart of {}, {}; its steps stand in the table below\">\
         <div class=\"inner\" style=\"height:{}px\"><div class=\"ticks\" aria-hidden=\"true\">{ticks}</div>{drawn}{}</div></div></div>\n",
        example.response_ns,
        escaped(&example.name),
        time(scale_ns),
        height + 22,
        arrows(example, &rows, scale_ns, height),
    )
}

fn row_name(row: &Row) -> String {
    let class = match row.sort {
        RowSort::Response => "of-response",
        RowSort::Task => "of-task",
        RowSort::Lock => "of-lock",
        RowSort::Cpu(_) => "of-cpu",
    };
    format!("<span class=\"{class}\" title=\"{0}\">{0}</span>", escaped(&row.label))
}

fn row_marks(example: &Example, row: &Row, index: usize, scale_ns: f64) -> String {
    let top = 22 + index * PITCH;
    let place = |from_ns: u64, ns: u64| {
        let (left, width) = (fraction(share(from_ns as f64, scale_ns)), fraction(share(ns as f64, scale_ns)));
        format!("style=\"left:{left};width:{width};top:{top}px\"")
    };
    let of_step = |step: &ExampleStep| {
        let class = part_named(&step.part).unwrap_or(Part::Unattributed).name();
        let mut hint =
            format!("{}: {} from {}", step.part, nanoseconds(step.ns as f64), nanoseconds(step.from_ns as f64));
        for (label, text) in [("task", &step.task), ("on", &step.who)] {
            if !text.is_empty() {
                hint.push_str(&format!("; {label} {text}"));
            }
        }
        format!(
            "<span class=\"s p-{class}\" data-part=\"{class}\" {} title=\"{}\">{}</span>",
            place(step.from_ns, step.ns),
            escaped(&hint),
            escaped(&step.part)
        )
    };
    if row.sort == RowSort::Lock {
        return example.steps.iter().filter(|step| row.has(step)).map(|step| held(example, step, place)).collect();
    }
    let steps = example.steps.iter().filter(|step| row.has(step)).map(of_step).collect::<String>();
    let own = |task: &str| example.steps.iter().any(|step| step.task == task);
    let spells = example.cpus.iter().filter(|spell| row.shows(spell)).map(|spell| {
        let class = if own(&spell.task) { "mine" } else { "other" };
        let hint = format!(
            "CPU {}: {} for {} from {}",
            spell.cpu,
            spell.task,
            nanoseconds(spell.ns as f64),
            nanoseconds(spell.from_ns as f64)
        );
        let task = escaped(&spell.task);
        format!(
            "<span class=\"s {class}\" {} title=\"{}\">{task}</span>",
            place(spell.from_ns, spell.ns),
            escaped(&hint)
        )
    });
    steps + &spells.collect::<String>()
}

/// Who had a lock during a wait for it, and what that task did: the waiter's own state stands in its own row.
fn held(example: &Example, step: &ExampleStep, place: impl Fn(u64, u64) -> String) -> String {
    let end_ns = step.from_ns.saturating_add(step.ns);
    let within = |spell: &&HolderSpell| {
        spell.lock == step.who && spell.from_ns >= step.from_ns && spell.from_ns.saturating_add(spell.ns) <= end_ns
    };
    let spells: Vec<String> = example
        .holders
        .iter()
        .filter(within)
        .map(|spell| {
            let class = part_named(&spell.part).unwrap_or(Part::Unattributed).name();
            let hint = format!(
                "{} has it: {} for {} from {}; {} waits",
                spell.task,
                class,
                nanoseconds(spell.ns as f64),
                nanoseconds(spell.from_ns as f64),
                step.task
            );
            let (place, hint) = (place(spell.from_ns, spell.ns), escaped(&hint));
            let text = escaped(&format!("{}: {class}", spell.task));
            format!("<span class=\"s p-{class}\" data-part=\"{class}\" {place} title=\"{hint}\">{text}</span>")
        })
        .collect();
    if !spells.is_empty() {
        return spells.concat();
    }
    let (lock, holder) = lock_and_holder(&step.who);
    let text = holder.map_or("holder not known".to_owned(), |holder| format!("held by {holder}"));
    let hint = format!(
        "{lock}: {text}, for {} from {}; {} waits",
        nanoseconds(step.ns as f64),
        nanoseconds(step.from_ns as f64),
        step.task
    );
    format!(
        "<span class=\"s other\" {} title=\"{}\">{}</span>",
        place(step.from_ns, step.ns),
        escaped(&hint),
        escaped(&text)
    )
}

/// Who handed the response on to whom, or woke whom, as far as the steps tell.
fn arrows(example: &Example, rows: &[Row], scale_ns: f64, height: usize) -> String {
    let row_of = |task: &str| rows.iter().position(|row| row.sort == RowSort::Task && row.label == task);
    let mut lines = Vec::new();
    for pair in example.steps.windows(2) {
        let [before, after] = pair else { continue };
        let at_ns = after.from_ns;
        let handed = !before.task.is_empty() && !after.task.is_empty() && before.task != after.task;
        let woke = before.part == Part::WaitLock.name() || before.part == Part::WaitProcess.name();
        let from = match (handed, woke) {
            (true, _) => row_of(&before.task),
            (false, true) => row_of(&before.who),
            (false, false) => None,
        };
        if let (Some(from), Some(to)) = (from, row_of(&after.task))
            && from != to
        {
            lines.push((at_ns, from, to));
        }
    }
    lines.truncate(MOST_ARROWS);
    if lines.is_empty() {
        return String::new();
    }
    let drawn: String = lines
        .into_iter()
        .map(|(at_ns, from, to)| {
            let x = fraction(share(at_ns as f64, scale_ns));
            let edge = |row: usize, below: bool| 22 + row * PITCH + if below { ROW } else { 0 };
            let (y1, y2) = (edge(from, to > from), edge(to, to < from));
            let head = if to > from { "M0 0L-3.5 -7H3.5Z" } else { "M0 0L-3.5 7H3.5Z" };
            format!(
                "<line x1=\"{x}\" x2=\"{x}\" y1=\"{y1}\" y2=\"{y2}\"/><svg x=\"{x}\" y=\"{y2}\"><path d=\"{head}\"/></svg>"
            )
        })
        .collect();
    format!("<svg class=\"arrows\" aria-hidden=\"true\" width=\"100%\" height=\"{}\">{drawn}</svg>", height + 22)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CpuSpell;

    fn step(part: Part, from_ns: u64, ns: u64, task: &str, who: &str) -> ExampleStep {
        ExampleStep { part: part.name().to_owned(), from_ns, ns, task: task.to_owned(), who: who.to_owned() }
    }

    #[test]
    fn tasks_locks_and_cpus_have_rows_and_arrows_lead_between_tasks() {
        let example = Example {
            sort: "slow".to_owned(),
            name: "GET /".to_owned(),
            status: 200,
            response_ns: 1_000,
            at_ns: 0,
            steps: vec![
                step(Part::RequestTransit, 0, 100, "", ""),
                step(Part::Run, 100, 200, "apache2 (1)", ""),
                step(Part::Run, 300, 300, "php-fpm (2)", ""),
                step(Part::WaitLock, 600, 300, "php-fpm (2)", "/tmp/lock"),
                step(Part::Run, 900, 100, "apache2 (1)", ""),
            ],
            cpus: vec![CpuSpell { cpu: 1, from_ns: 300, ns: 300, task: "php-fpm (2)".to_owned() }],
            holders: Vec::new(),
        };
        let chart = chart(&example, "slow-1");
        for expected in ["apache2 (1)", "php-fpm (2)", "lock /tmp/lock", "CPU 1", "left:30%;width:30%"] {
            assert!(chart.contains(expected), "{expected} is missing in {chart}");
        }
        assert_eq!(chart.matches("<line ").count(), 2, "{chart}");
        assert_eq!(chart.matches("class=\"s mine\"").count(), 1);
    }

    #[test]
    fn the_row_of_a_lock_shows_who_has_it_and_what_that_does_not_who_waits() {
        let who = "flock of /tmp/x held by cron (9)";
        let holder = |part: Part, from_ns, ns| HolderSpell {
            lock: who.to_owned(),
            task: "cron (9)".to_owned(),
            part: part.name().to_owned(),
            from_ns,
            ns,
        };
        let mut example = Example {
            sort: "slow".to_owned(),
            name: "GET /".to_owned(),
            status: 200,
            response_ns: 1_000,
            at_ns: 0,
            steps: vec![
                step(Part::Run, 0, 100, "php-fpm (2)", ""),
                step(Part::WaitLock, 100, 800, "php-fpm (2)", who),
                step(Part::WaitLock, 900, 100, "php-fpm (2)", "flock of /tmp/x"),
            ],
            cpus: vec![],
            holders: vec![holder(Part::Run, 100, 300), holder(Part::WaitTimer, 400, 500)],
        };
        let drawn = chart(&example, "slow-1");
        assert_eq!(drawn.matches("class=\"of-lock\"").count(), 1, "one lock, with both of its holders");
        for expected in [">cron (9): run<", ">cron (9): wait_timer<", ">holder not known<", "p-wait_timer"] {
            assert!(drawn.contains(expected), "{expected} is missing in {drawn}");
        }
        assert!(!drawn.contains(">php-fpm (2)</span></div>") && drawn.matches("p-wait_lock").count() == 4, "{drawn}");
        example.holders.clear();
        assert!(chart(&example, "slow-1").contains(">held by cron (9)<"));
    }
}
