//! The page, as Markdown: no number on it is typed.

use std::fmt::Write;

use weir_measure::comparison::Estimate;

use crate::measured::{Experiment, Measured, Quantity, Switched};
use crate::paper::{Overhead, Paper};
use crate::responses::Responses;

/// Above this part of the CPUs, others are a warning.
const BUSY: f64 = 0.1;
/// What is asked of a page's CPU time with mod_arm on.
const PAGE_MOST: f64 = 1.01;
/// What is asked of a small file's, microseconds.
const FILE_MOST_US: f64 = 0.4;
/// What is asked of phparm, microseconds a transaction.
const PHPARM_MOST_US: f64 = 1.0;
/// Transactions of the page that phparm is measured with (site/transactions.php).
const PHPARM_CALLS: f64 = 100.0;
/// What is asked of the responses, percent.
const ERROR_MOST: f64 = 1.0;
/// What is asked of the agent: pages a second, and the part of a CPU for them.
const AGENT_PAGES_PER_S: f64 = 10_000.0;
const AGENT_MOST: f64 = 0.01;

/// The mean of an instrument, milliseconds.
type Mean = dyn Fn(&Responses) -> Option<f64>;

/// All that the page is made of.
pub(crate) struct Found<'a> {
    pub(crate) paper: &'a Paper,
    pub(crate) measured: &'a Measured,
    /// As many processes as users, and fewer.
    pub(crate) open: Option<&'a Responses>,
    pub(crate) congested: Option<&'a Responses>,
    /// What `weir arm show` says of a page of Adminer.
    pub(crate) adminer: Option<&'a str>,
    /// Lines of `name: value` on where and when.
    pub(crate) surroundings: &'a str,
}

/// Writes it.
pub(crate) fn write(found: &Found<'_>) -> String {
    let mut text = String::new();
    let about = &found.paper.about;
    let of = |name: &str| values(found.surroundings, name).next().unwrap_or("not recorded").to_owned();
    let versions = values(found.surroundings, "version").collect::<Vec<_>>().join("; ");
    line(&mut text, "<!-- Written by `make study-arm`: change the plans or paper.toml, and run it again. -->");
    line(&mut text, "# ARM in Apache and PHP, again\n");
    line(&mut text, &format!("This is {}, once more.", about.title));
    line(
        &mut text,
        "The paper put ARM, the standard by which programs tell of their transactions, into Apache (mod_arm) and PHP (phparm), and measured what that costs and how well it measures.",
    );
    line(
        &mut text,
        "It listed what would be done about both, and here it is done: the same study with today's Apache and PHP, and modules that write ARM 4.0 for `weir agent`.",
    );
    line(&mut text, "Machines are decades apart, so what can be compared are ratios within one.\n");
    line(&mut text, "| | then | now |\n|---|---|---|");
    line(
        &mut text,
        &format!(
            "| machine | {} | {} CPUs ({}), Linux {}, {}; Apache on one CPU; load, database and agent on the other |",
            about.machine,
            of("cpus"),
            of("model"),
            of("kernel"),
            of("date")
        ),
    );
    line(&mut text, &format!("| programs | {} | {versions} |", about.servers));
    line(
        &mut text,
        &format!(
            "| method | {} | `weir load`: five users at a time, each asking again when it has its page; a page asks a PostgreSQL in a network namespace of its own four times; {} |",
            about.method,
            sizes(found.measured)
        ),
    );
    warnings(&mut text, found);
    table_of_overhead(&mut text, found);
    table_of_files(&mut text, found.measured.files.as_ref());
    table_of_switches(&mut text, &found.measured.switched);
    table_of_responses(&mut text, found);
    asked(&mut text, found);
    if let Some(tree) = found.adminer {
        line(&mut text, "\n## A program of others\n");
        line(
            &mut text,
            "Adminer, as Debian packages it, without a change: `ArmMatch` names its pages, and PHP tells each call of its database. `weir arm show` of the page that lists a table's rows:\n",
        );
        line(&mut text, &format!("```\n{}\n```", tree.trim_end()));
    }
    published(&mut text, found.paper);
    line(&mut text, END);
    text
}

const END: &str = "
## Again

```sh
make study-arm            # under 30 minutes, as root, and this page is written anew
make study-arm QUICK=1    # three minutes, to see that all works; its page says nothing
```

After Ctrl-C the same command goes on where it ended.
The plans are in `plans/`, each one for [`weir compare`](../../docs/how-to/is-it-faster.md), too; the paper's figures are in `paper.toml`, the page that is asked for in `site/`.";

fn sizes(measured: &Measured) -> String {
    let each = measured.each().map(|(name, experiment)| {
        let (blocks, seconds) = experiment.size();
        format!("{name}: {blocks} blocks of {seconds} s")
    });
    each.collect::<Vec<_>>().join(", ")
}

fn warnings(text: &mut String, found: &Found<'_>) {
    for (name, experiment) in found.measured.each() {
        let (errors, all) = experiment.errors();
        if errors > 0 {
            line(text, &format!("\n> **Warning:** {name}: {errors} of {all} requests failed or had an error status."));
        }
        if let Some(foreign) = experiment.foreign().filter(|foreign| *foreign > BUSY) {
            line(
                text,
                &format!(
                    "\n> **Warning:** {name}: in half of the slices others took {:.0} % of the CPUs or more. Ratios hold within their intervals.",
                    foreign * 100.0
                ),
            );
        }
    }
}

fn table_of_overhead(text: &mut String, found: &Found<'_>) {
    line(text, "\n## Table 1: what it costs\n");
    line(
        text,
        "CPU time for a page, and pages a second; in brackets what it is against the first row, with the 95 % interval of the median over blocks.",
    );
    line(
        text,
        "The figures of a row are medians of their own, and need not have the ratio beside them, which is that within blocks.\n",
    );
    line(text, "| | then: Apache | then: agent | then: pages/s | now: Apache | now: agent | now: pages/s |");
    line(text, "|---|---:|---:|---:|---:|---:|---:|");
    let base = &found.paper.overhead[0];
    for row in &found.paper.overhead {
        let then = [
            shown_then(row, row.apache_ms, base.apache_ms, " ms", 3),
            shown_then(row, row.agent_ms, base.agent_ms, " ms", 3),
            shown_then(row, row.pages_per_s, base.pages_per_s, "", 0),
        ];
        // An agent's part of a page is some microseconds today.
        let ms = |ns: f64| if ns < 1e5 { format!("{:.2} us", ns / 1e3) } else { format!("{:.3} ms", ns / 1e6) };
        let now = [
            shown_now(found.measured.pages.as_ref(), row, Quantity::Cpu, &ms),
            shown_now(found.measured.agent.as_ref(), row, Quantity::Cpu, &ms),
            shown_now(found.measured.pages.as_ref(), row, Quantity::Rate, &|rate| format!("{rate:.0}")),
        ];
        let name = row.now.as_ref().map_or_else(|| row.test.clone(), |now| format!("{}; now: {now}", row.test));
        line(text, &format!("| {name} | {} | {} |", then.join(" | "), now.join(" | ")));
    }
    if let Some(noise) = found.measured.pages.as_ref().and_then(|pages| pages.noise(Quantity::Cpu)) {
        line(text, &format!("\nThe baseline against itself, in Apache's CPU time: {}.", change(&noise)));
    }
    line(
        text,
        "All Apaches write a log with the time of each response (`%D`); the second row's has the first byte as well.",
    );
    line(text, "The paper prints +1304 % for phparm's agent, which its own figures make +1034 %.");
}

fn shown_then(row: &Overhead, own: Option<f64>, base: Option<f64>, unit: &str, decimals: usize) -> String {
    let Some(own) = own else { return "-".to_owned() };
    match base.filter(|_| !row.printed.is_empty()) {
        Some(base) => format!("{own:.decimals$}{unit} ({:+.1} %)", (own / base - 1.0) * 100.0),
        None => format!("{own:.decimals$}{unit}"),
    }
}

fn shown_now(
    experiment: Option<&Experiment>,
    row: &Overhead,
    quantity: Quantity,
    number: &dyn Fn(f64) -> String,
) -> String {
    let Some(value) = experiment.and_then(|found| found.value(&row.ours, quantity)) else {
        return "not measured".to_owned();
    };
    let ratio = experiment.filter(|_| row.ours != "baseline").and_then(|found| found.ratio(&row.ours, quantity));
    ratio.map_or_else(|| number(value.point), |ratio| format!("{} ({})", number(value.point), change(&ratio)))
}

fn table_of_files(text: &mut String, files: Option<&Experiment>) {
    line(text, "\n## A small file\n");
    line(
        text,
        "The paper has no figures of this: a file of 1 KB, over connections that are held open, where the module's own work is not hidden by a page's.\n",
    );
    line(text, "| | CPU time | against the first |\n|---|---:|---:|");
    for subject in ["baseline", "mod_arm on", "mod_arm off"] {
        let value = files.and_then(|files| files.value(subject, Quantity::Cpu));
        let value = value.map_or_else(|| "not measured".to_owned(), |value| format!("{:.2} us", value.point / 1e3));
        let more = files.filter(|_| subject != "baseline").and_then(|files| more_us(files, subject));
        let more = more
            .map_or_else(|| "-".to_owned(), |(point, low, high)| format!("{point:+.2} us ({low:+.2} to {high:+.2})"));
        line(text, &format!("| {subject} | {value} | {more} |"));
    }
}

/// Microseconds of CPU time that a subject takes more for a request than the first: the median and its interval.
fn more_us(experiment: &Experiment, subject: &str) -> Option<(f64, f64, f64)> {
    let base = experiment.value("baseline", Quantity::Cpu)?.point / 1e3;
    let ratio = experiment.ratio(subject, Quantity::Cpu)?;
    let more = |ratio: f64| (ratio - 1.0) * base;
    Some((more(ratio.point), more(ratio.interval.low), more(ratio.interval.high)))
}

fn table_of_switches(text: &mut String, switched: &Switched) {
    line(text, "\n## On and off in one Apache\n");
    line(
        text,
        "Two Apaches differ by some percent even where they are the same, as their memory lies elsewhere. So this is one, whose transactions `weir arm on` and `weir arm off` switch in turn, in pairs of slices; what a module takes while it is off is told by instructions (PROMISES.md).\n",
    );
    line(text, "| | pairs | off | on against off | |\n|---|---:|---:|---:|---:|");
    let rows = [
        ("a small file, mod_arm", switched.file),
        ("a page, mod_arm", switched.page),
        ("a page of a hundred empty transactions, phparm", switched.phparm),
    ];
    for (name, cost) in rows {
        let Some(cost) = cost else {
            line(text, &format!("| {name} | not measured | | | |"));
            continue;
        };
        let (ratio, low, high) = cost.ratio();
        let (more, least, most) = cost.more_us();
        let percent = |ratio: f64| 100.0 * (ratio - 1.0);
        line(
            text,
            &format!(
                "| {name} | {} | {:.2} us | {:+.2} % ({:+.2} to {:+.2}) | {more:+.2} us ({least:+.2} to {most:+.2}) |",
                cost.pairs,
                cost.off_ns / 1e3,
                percent(ratio),
                percent(low),
                percent(high),
            ),
        );
    }
}

fn table_of_responses(text: &mut String, found: &Found<'_>) {
    line(text, "\n## Table 2: what it measures\n");
    line(text, "All instruments at once, on the same pages: means, and by how much they fall short of the client's.");
    line(
        text,
        "Open: as many processes as users. Congested, as the paper's system was: two processes for five users, and a connection for each page.",
    );
    line(
        text,
        "What a module within Apache cannot see is what passed before Apache had the connection; `weir explain` captured that from the kernel in the same run, and the row before the last adds it.\n",
    );
    line(text, "| | then | now, open | now, congested |\n|---|---:|---:|---:|");
    let then = |module: &str| {
        let row = found.paper.response.iter().find(|row| row.module == module);
        row.map_or_else(
            || "-".to_owned(),
            |row| {
                let error = row.error_percent.map_or_else(String::new, |error| format!(" ({error:.0} % off)"));
                format!("{:.2} ms{error}", row.mean_s * 1e3)
            },
        )
    };
    let now = |of: &Mean| {
        let cell = |found: Option<&Responses>| match found.and_then(|found| Some((found, of(found)?))) {
            Some((found, ms)) if ms == found.client_ms => format!("{ms:.2} ms"),
            Some((found, ms)) => format!("{ms:.2} ms ({:.1} % off)", found.error_percent(ms)),
            None => "not measured".to_owned(),
        };
        format!("{} | {}", cell(found.open), cell(found.congested))
    };
    let rows: [(&str, &str, &Mean); 7] = [
        ("the client (then OpenSTA, now `weir load`)", "OpenSTA", &|found| Some(found.client_ms)),
        ("first byte (then mod_log_firstbyte, now `%^FB`)", "mod_log_firstbyte", &|found| found.first_byte_ms),
        ("Apache's own `%D`", "", &|found| found.apache_ms),
        ("mod_arm's note in the log, without an agent", "", &|found| found.note_ms),
        ("mod_arm", "mod_arm", &|found| found.mod_arm_ms),
        ("mod_arm and what was captured before and behind it", "", &Responses::with_queue_ms),
        ("phparm", "phparm", &|found| found.phparm_ms),
    ];
    for (name, module, of) in rows {
        line(text, &format!("| {name} | {} | {} |", then(module), now(of)));
    }
    for (name, found) in [("open", found.open), ("congested", found.congested)] {
        if let Some(found) = found {
            let (pages, queued, way_back) = (found.pages, found.queued_ms, found.way_back_ms);
            line(
                text,
                &format!(
                    "\n{name}: {pages} pages, of which {queued:.2} ms each passed before a process of Apache had read of them, and {way_back:.2} ms when it had sent them."
                ),
            );
        }
    }
}

/// What was asked of the modules, and whether it was reached: a rule, so that the words follow from the numbers.
fn asked(text: &mut String, found: &Found<'_>) {
    line(text, "\n## What was asked of it\n");
    line(text, "Reached: the whole interval lies on the right side. Not reached: on the wrong one.\n");
    line(text, "| asked | measured | |\n|---|---|---|");
    let pages = found.measured.pages.as_ref();
    let switched = &found.measured.switched;
    let on = switched.page.map(|page| page.ratio());
    let percent = |(point, low, high): (f64, f64, f64)| {
        let of = |ratio: f64| 100.0 * (ratio - 1.0);
        format!("{:+.2} %, {:+.2} to {:+.2}", of(point), of(low), of(high))
    };
    let reached = on.map(|on| between(on, PAGE_MOST));
    row(text, "mod_arm on: at most +1 % CPU time for a page", on.map(percent), reached);
    let half = on.map(|(_, low, high)| (high - low) / 2.0);
    let half_is = half.map(|half| Some(half <= 0.005));
    let half = half.map(|half| format!("{:.2} %", half * 100.0));
    row(text, "the interval of that: at most 0.5 % to each side", half, half_is);
    let off = pages.and_then(|pages| pages.ratio("mod_arm off", Quantity::Cpu));
    // Where the baseline differs from itself as much, it may be nothing but where their memory lies.
    let noise = pages.and_then(|pages| pages.noise(Quantity::Cpu));
    let is_noise = |off: &Estimate| {
        noise.is_some_and(|noise| off.interval.low <= noise.interval.high && noise.interval.low <= off.interval.high)
    };
    let is_same =
        off.map(|off| if off.interval.contains(1.0) { Some(true) } else { (!is_noise(&off)).then_some(false) });
    row(text, "mod_arm off: not to be told from not loaded", off.as_ref().map(change), is_same);
    let each = |(point, low, high): (f64, f64, f64)| (point / PHPARM_CALLS, low / PHPARM_CALLS, high / PHPARM_CALLS);
    let micros = |(point, low, high): (f64, f64, f64)| format!("{point:+.2} us ({low:+.2} to {high:+.2})");
    let file = switched.file.map(|cost| cost.more_us());
    let phparm = switched.phparm.map(|cost| each(cost.more_us()));
    for (words, more, most) in [
        ("mod_arm on: at most +0.4 us for a small file", file, FILE_MOST_US),
        ("phparm: at most +1 us a transaction", phparm, PHPARM_MOST_US),
    ] {
        row(text, words, more.map(micros), more.map(|more| between(more, most)));
    }
    for (name, found) in [("open", found.open), ("congested", found.congested)] {
        let error = found.and_then(|found| Some(found.error_percent(found.with_queue_ms()?)));
        let words =
            format!("mod_arm with what was captured before and behind it: within 1 % of the client's mean ({name})");
        let shown = error.map(|error| format!("{error:.2} % off"));
        row(text, &words, shown, error.map(|error| Some(error.abs() <= ERROR_MOST)));
    }
    let agent = found.measured.agent.as_ref();
    let share = agent.and_then(|agent| {
        Some((agent.value("mod_arm on", Quantity::Share)?, agent.value("mod_arm on", Quantity::Rate)?))
    });
    let shown = share.map(|(share, rate)| format!("{:.2} % at {:.0} pages/s", share.point * 100.0, rate.point));
    // At the rate that was measured only: what an agent takes is not proportional to its rate.
    let reached =
        share.map(|(share, rate)| (rate.point >= AGENT_PAGES_PER_S).then_some(share.interval.high <= AGENT_MOST));
    row(text, "the agent: at most 1 % of a CPU at 10,000 pages/s", shown, reached);
}

/// Whether an interval is below a bound; `None` = it cannot be told.
fn between((_, low, high): (f64, f64, f64), most: f64) -> Option<bool> {
    if high <= most {
        return Some(true);
    }
    (low > most).then_some(false)
}

fn row(text: &mut String, asked: &str, measured: Option<String>, reached: Option<Option<bool>>) {
    let word = match reached {
        Some(Some(true)) => "**reached**",
        Some(Some(false)) => "**not reached**",
        Some(None) => "cannot tell",
        None => "",
    };
    line(text, &format!("| {asked} | {} | {word} |", measured.unwrap_or_else(|| "not measured".to_owned())));
}

fn published(text: &mut String, paper: &Paper) {
    line(text, "\n## What others say of today's instrumentations\n");
    line(
        text,
        "Published by others, on other machines, and not measured here, as none of these can be had from the distribution's packages.\n",
    );
    line(text, "| | published |\n|---|---|");
    for published in &paper.published {
        line(text, &format!("| {} | {} |", published.what, published.figure));
    }
}

/// A ratio as a change in percent, with its interval.
fn change(ratio: &Estimate) -> String {
    let percent = |ratio: f64| (ratio - 1.0) * 100.0;
    format!(
        "{:+.2} %, {:+.2} to {:+.2}",
        percent(ratio.point),
        percent(ratio.interval.low),
        percent(ratio.interval.high)
    )
}

/// The values of a name in lines of `name: value`.
fn values<'a>(text: &'a str, name: &str) -> impl Iterator<Item = &'a str> {
    text.lines()
        .filter_map(|line| line.split_once(": "))
        .filter(move |(known, _)| *known == name)
        .map(|(_, value)| value)
}

fn line(text: &mut String, words: &str) {
    // Writing to a string cannot fail.
    let _infallible = writeln!(text, "{words}");
}
