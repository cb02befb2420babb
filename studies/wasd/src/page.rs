//! The page, as Markdown.
use std::fmt::Write;

use anyhow::Context;
use weir_measure::comparison::Estimate;
use weir_measure::family::holm;

use crate::held::Held;
use crate::layout::{Layout, Pair, Section, Table};
use crate::measured::{Measured, Place, Quantity, Ratio, digits};
use crate::paper::Paper;
use crate::surroundings::Surroundings;

/// A comparison of the paper with ours beside it.
#[derive(Debug)]
pub(crate) struct Compared {
    /// The index of its section.
    pub(crate) section: usize,
    /// What the paper says.
    pub(crate) says: String,
    /// The paper's ratio; `None` where it only has words.
    pub(crate) paper: Option<f64>,
    /// Ours.
    pub(crate) ours: Vec<Ours>,
}

/// One of ours.
#[derive(Debug)]
pub(crate) struct Ours {
    pub(crate) title: String,
    pub(crate) quantity: Quantity,
    /// `None` where it was not measured.
    pub(crate) ratio: Option<Ratio>,
    pub(crate) held: Held,
}

/// Makes all comparisons of the page; what chance may have made is corrected for all of them together.
pub(crate) fn compare(paper: &Paper, layout: &Layout, measured: &Measured) -> anyhow::Result<Vec<Compared>> {
    let ratio_of = |pair: &Pair| measured.ratio(&Place::read(&pair.over)?, &Place::read(&pair.under)?, pair.quantity);
    let claims = || {
        let numbered = layout.sections.iter().enumerate();
        numbered.flat_map(|(index, section)| section.claims.iter().map(move |claim| (index, claim)))
    };
    let ratios: Vec<Option<Ratio>> =
        claims().flat_map(|(_, claim)| &claim.ours).map(ratio_of).collect::<anyhow::Result<_>>()?;
    let probabilities: Vec<Option<f64>> =
        ratios.iter().map(|ratio| ratio.and_then(|ratio| ratio.probability)).collect();
    let mut corrected = ratios.into_iter().zip(holm(&probabilities));
    claims()
        .map(|(section, claim)| {
            let ratio = claim.paper_ratio(paper)?;
            let ours = claim.ours.iter().zip(&mut corrected).map(|(pair, (found, probability))| Ours {
                title: pair.title.clone(),
                quantity: pair.quantity,
                ratio: found,
                held: match (ratio, claim.goal, found) {
                    (Some(ratio), _, Some(found)) => Held::of(claim.claim, ratio, &found.estimate, probability),
                    (None, Some(goal), Some(found)) => Held::of_goal(goal, &found.estimate),
                    (None, None, _) => Held::Unsaid,
                    (_, _, None) => Held::TooFew,
                },
            });
            let ours = ours.collect();
            Ok(Compared { section, says: claim.says.clone(), paper: ratio, ours })
        })
        .collect()
}

/// Writes the page. `picture` is the name of the file beside it.
pub(crate) fn write(
    paper: &Paper,
    layout: &Layout,
    measured: &Measured,
    surroundings: &Surroundings,
    compared: &[Compared],
    picture: &str,
) -> anyhow::Result<String> {
    let mut text = String::new();
    let about = &paper.about;
    let now = Now { layout, measured, surroundings };
    let head = &layout.head;
    line(&mut text, &format!("<!-- {} -->\n# {}\n", head.comment, head.title));
    line(&mut text, &format!("The paper is \"{}\".", about.title));
    line(&mut text, &format!("{}\n", head.text.trim()));
    line(&mut text, "| | then | now |\n|---|---|---|");
    line(&mut text, &format!("| machine | {} | {} |", cell(&about.machine), cell(&now.machine())));
    line(&mut text, &format!("| servers | {} | {} |", cell(&about.servers), cell(&now.servers())));
    line(&mut text, &format!("| method | {} | {} |", cell(&about.method), cell(&now.method())));
    line(
        &mut text,
        &format!(
            "| others on the machine | \"a lightly-loaded\" machine; \"on a clustered, multi-user system too many things vary slightly all the time\" | {} |",
            cell(&now.others())
        ),
    );
    for (place, errors, requests) in measured.errors() {
        line(
            &mut text,
            &format!("\n> **Warning:** {place}: {errors} of {requests} requests failed or had an error status."),
        );
    }
    let foreign = layout.plans.iter().filter_map(|plan| measured.foreign(plan)).map(|(median, _)| median);
    let foreign = foreign.fold(0.0, f64::max);
    if foreign > BUSY {
        let percent = foreign * 100.0;
        line(
            &mut text,
            &format!(
                "\n> **Warning:** the machine was busy: in half of the slices of a plan others took {percent:.0} % of the CPUs or more. Ratios hold within their intervals, which are wide; the figures themselves are those of a crowd."
            ),
        );
    }
    line(&mut text, "\n## What held and what changed\n");
    line(&mut text, &format!("{}\n", tally(compared)));
    line(&mut text, &format!("![The paper's ratios and ours, on one scale]({picture})\n"));
    line(&mut text, READING);
    for (index, section) in layout.sections.iter().enumerate() {
        let own: Vec<&Compared> = compared.iter().filter(|compared| compared.section == index).collect();
        claims(&mut text, section, &own);
    }
    for section in &layout.sections {
        line(&mut text, &format!("\n## {}\n", section.title));
        line(&mut text, section.text.trim());
        for table in &section.tables {
            write_table(&mut text, paper, measured, table)?;
        }
        for absent in &section.absent {
            line(&mut text, &format!("\n**Not there:** {absent}"));
        }
    }
    line(&mut text, &format!("\n## Again\n\n{}", layout.head.again.trim()));
    Ok(text)
}

/// Above this part of the CPUs, others are a warning.
const BUSY: f64 = 0.1;

const READING: &str = "\
Ratios (of requests a second, where nothing else is said) are the medians over blocks of what one subject did divided by what another did in the same block, with their 95 % bootstrap interval.
The words follow a rule: *held* where our interval lies on the paper's side of 1 and chance (signed ranks, corrected for all comparisons of this page) is below 5 %, *more* or *less than then* where it leaves out the paper's ratio; *changed* where it lies on the other side; *cannot tell* where neither can be said.
What was about the same then is so now where our interval lies within 10 % of 1.
(+) marks a ratio of rates or times where the load generator was at its limit (above 95 % of its CPU) on either side: the server could do more there, and the CPU time says which is ahead.";

/// How many comparisons held and changed.
fn tally(compared: &[Compared]) -> String {
    let asked = compared.iter().filter(|claim| claim.paper.is_some()).flat_map(|claim| &claim.ours);
    let words: Vec<Option<bool>> = asked.map(|ours| ours.held.is_so()).collect();
    let count = |word: Option<bool>| words.iter().filter(|found| **found == word).count();
    format!(
        "Of {} ratios of today that stand beside one of the paper's, {} say that what it found holds, {} that it does not, and {} cannot tell.",
        words.len(),
        count(Some(true)),
        count(Some(false)),
        count(None)
    )
}

/// What is said of our side.
struct Now<'a> {
    layout: &'a Layout,
    measured: &'a Measured,
    surroundings: &'a Surroundings,
}

impl Now<'_> {
    fn machine(&self) -> String {
        let get = |name| self.surroundings.get(name).unwrap_or("not recorded");
        format!(
            "{} CPUs ({}), Linux {}, {}; server and load on one machine, each on a CPU of its own, over the loopback interface",
            get("cpus"),
            get("model"),
            get("kernel"),
            get("date")
        )
    }

    fn servers(&self) -> String {
        self.surroundings.all("version").collect::<Vec<_>>().join("; ")
    }

    fn method(&self) -> String {
        let plans = self.layout.plans.iter().filter_map(|name| self.measured.experiments.get(name));
        let slices: usize = plans.flat_map(|found| &found.blocks).map(|block| block.slices.len()).sum();
        let planned = self.layout.plans.iter().find_map(|name| self.measured.experiments.get(name));
        let how = planned.map_or_else(String::new, |found| {
            let repetitions = &found.plan.repetitions;
            format!(
                ", {} s each after {} s of warm-up, up to {} blocks a case",
                repetitions.block_s, repetitions.warm_up_s, repetitions.blocks
            )
        });
        format!(
            "`weir compare` and `weir load`, a connection for each request, one or ten at a time; no access log, no look-up of names; {slices} slices{how}, interleaved in an order drawn for each block"
        )
    }

    fn others(&self) -> String {
        let loads: Vec<&str> = self.surroundings.all("load average").collect();
        let foreign: Vec<String> = self
            .layout
            .plans
            .iter()
            .filter_map(|plan| {
                let (median, most) = self.measured.foreign(plan)?;
                Some(format!("{plan} {:.0} % (at most {:.0} %)", median * 100.0, most * 100.0))
            })
            .collect();
        let noise = self.layout.plans.iter().filter_map(|plan| {
            let [rate, cpu] = [Quantity::Rate, Quantity::Cpu].map(|quantity| self.measured.noise(plan, quantity));
            let [rate, cpu] = [rate?, cpu?].map(|found| interval(&found, &|value| format!("{value:.2}")));
            Some(format!("{plan} {rate} in throughput, {cpu} in CPU time"))
        });
        format!(
            "load averages before each plan: {}; others took of the CPUs, in the median slice: {}; the first subject of a case differs from itself by up to: {}",
            loads.join(", "),
            foreign.join(", "),
            noise.collect::<Vec<_>>().join("; ")
        )
    }
}

fn claims(text: &mut String, section: &Section, compared: &[&Compared]) {
    let mut is_begun = false;
    for compared in compared {
        if !is_begun {
            line(text, &format!("\n**{}**\n", section.title));
            line(text, "| the paper | then | now | ratio (95 % interval) | |\n|---|---:|---|---|---|");
            is_begun = true;
        }
        for (index, ours) in compared.ours.iter().enumerate() {
            let (says, then) = match index {
                0 => {
                    (cell(&compared.says), compared.paper.map_or_else(|| "-".to_owned(), |paper| format!("{paper:.2}")))
                }
                _ => (String::new(), String::new()),
            };
            let of = match ours.quantity {
                Quantity::Rate | Quantity::Megabytes => "",
                Quantity::Cpu => ", CPU time",
                Quantity::P99 => ", 99th percentile",
                Quantity::Evenness => ", evenness",
            };
            let title = cell(&ours.title);
            line(
                text,
                &format!("| {says} | {then} | {title}{of} | {} | {} |", shown(ours.ratio.as_ref()), ours.held.words()),
            );
        }
    }
}

/// A ratio in words of the page.
pub(crate) fn shown(ratio: Option<&Ratio>) -> String {
    ratio.map_or_else(
        || "not measured".to_owned(),
        |ratio| {
            let limited = if ratio.is_limited { " (+)" } else { "" };
            let number = |value: f64| if value < 100.0 { format!("{value:.2}") } else { digits(value) };
            format!("{} ({}){limited}", number(ratio.estimate.point), interval(&ratio.estimate, &number))
        },
    )
}

fn write_table(text: &mut String, paper: &Paper, measured: &Measured, table: &Table) -> anyhow::Result<()> {
    let theirs = table.paper.as_deref().map(|id| paper.table(id)).transpose()?;
    match theirs {
        Some(theirs) => line(text, &format!("\n**{}**, section {} of the paper.", cell(&theirs.title), theirs.section)),
        None => line(text, "\nThe paper has no figures of this."),
    }
    if !table.note.is_empty() {
        line(text, table.note.trim());
    }
    for (index, quantity) in table.quantities.iter().enumerate() {
        let theirs = theirs.filter(|_| index == 0);
        let columns = theirs.map(|theirs| theirs.columns.as_slice()).unwrap_or_default();
        line(text, &format!("\nNow: {}.\n", quantity.heading()));
        let then: String = columns.iter().map(|column| format!(" then: {} |", cell(column))).collect();
        let now: String = table.columns.iter().map(|column| format!(" {} |", cell(column))).collect();
        line(text, &format!("| |{then}{now}"));
        line(text, &format!("|---|{}", "---:|".repeat(columns.len() + table.columns.len())));
        for (number, row) in table.rows.iter().enumerate() {
            let their_row = table.paper.as_deref().map(|id| paper.table(id)).transpose()?;
            let their_row = their_row.and_then(|theirs| theirs.rows.get(number));
            let label = row.label.clone().or_else(|| their_row.map(crate::paper::Row::name));
            let label = label.with_context(|| format!("a row of {} has no label", table.plan))?;
            let then: String = match (theirs, their_row) {
                (Some(_), Some(row)) => row.figures.iter().map(|figure| format!(" {figure} |")).collect(),
                (Some(theirs), None) => " |".repeat(theirs.columns.len()),
                (None, _) => String::new(),
            };
            let now = (0..table.columns.len()).map(|column| {
                let Some(place) = table.place(row, column)? else { return Ok(" - |".to_owned()) };
                let limited = match quantity {
                    Quantity::Cpu => false,
                    _ => measured.is_limited(&place)?,
                };
                let found = measured.value(&place, *quantity)?;
                Ok(format!(" {}{} |", value(found.as_ref(), *quantity), if limited { " (+)" } else { "" }))
            });
            let now = now.collect::<anyhow::Result<String>>()?;
            line(text, &format!("| {} |{then}{now}", cell(&label)));
        }
    }
    Ok(())
}

/// A figure of ours with its interval.
pub(crate) fn value(found: Option<&Estimate>, quantity: Quantity) -> String {
    found.map_or_else(
        || "not measured".to_owned(),
        |found| format!("{} ({})", quantity.shown(found.point), interval(found, &|value| quantity.shown(value))),
    )
}

fn interval(found: &Estimate, number: &dyn Fn(f64) -> String) -> String {
    format!("{} to {}", number(found.interval.low), number(found.interval.high))
}

fn line(text: &mut String, words: &str) {
    // Writing to a string cannot fail.
    let _infallible = writeln!(text, "{words}");
}

/// What stands in a cell as it is.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('<', "&lt;")
}
