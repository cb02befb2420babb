//! A window as lines of text.

use super::order::Order;
use crate::table::{Table, cut};
use weir_record::live::{LiveWindow, ServerNow};
use weir_report::{clean, count, nanoseconds};

/// Causes of the chosen server that are shown.
const CAUSES_MAX: usize = 6;
/// Columns that a cause needs at least; where there are fewer, none is shown.
const CAUSE_MIN: usize = 24;
/// Ports that are shown of a server.
const PORTS_MAX: usize = 3;

/// The heading, the table, the causes of the chosen server, and what it costs.
pub(super) fn lines(window: &LiveWindow, order: &Order, width: usize) -> Vec<String> {
    let servers = order.of(window);
    let mut lines = vec![cut(&heading(window), width), String::new()];
    if servers.is_empty() {
        lines.push(cut("no server listens here (weir serve . is one to try this with)", width));
    } else {
        lines.extend(table(&servers, window, order, width));
    }
    let chosen = servers.iter().find(|one| Some(one.listener.root) == order.chosen);
    if let Some(server) = chosen {
        lines.push(String::new());
        lines.extend(causes(server).into_iter().map(|line| cut(&line, width)));
    }
    lines.push(String::new());
    lines.extend(remarks(window).into_iter().map(|line| cut(&line, width)));
    lines.push(cut(&cost(window), width));
    lines
}

fn heading(window: &LiveWindow) -> String {
    let requests: u64 = window.servers.iter().map(|one| one.figures.responses()).sum();
    let busy = window.servers.iter().filter(|one| one.figures.responses() > 0).count();
    let rate = rate(requests, window);
    let servers = weir_terminal::units::counted(window.servers.len() as u64, "server");
    format!("{servers}, {busy} busy, {rate} requests/s")
}

fn table(servers: &[&ServerNow], window: &LiveWindow, order: &Order, width: usize) -> Vec<String> {
    let mut table = Table::new(["SERVER", "PID", "PORT", "REQ/S", "P50", "P99", "UNANSWERED", "5XX", "CUT"]);
    for one in servers {
        let figures = &one.figures;
        let time = |which: fn(&weir_measure::summary::Summary) -> u64| {
            figures.response_ns.as_ref().map_or("-".to_owned(), |summary| nanoseconds(which(summary) as f64))
        };
        let mark = if Some(one.listener.root) == order.chosen { "> " } else { "" };
        let failed = if figures.with_status == 0 { "-".to_owned() } else { count(figures.failed) };
        table.push([
            format!("{mark}{}", clean(&one.listener.program)),
            one.listener.root.to_string(),
            ports(one),
            rate(figures.responses(), window),
            time(|summary| summary.p50),
            time(|summary| summary.p99),
            count(figures.unanswered),
            failed,
            count(figures.cut),
        ]);
    }
    let figures = table.lines(width);
    let begin = figures.iter().map(|line| line.chars().count()).max().unwrap_or(0);
    let Some(room) = width.checked_sub(begin + 2).filter(|room| *room >= CAUSE_MIN) else { return figures };
    let causes = std::iter::once("CAUSE".to_owned()).chain(servers.iter().map(|one| largest(one)));
    let line = |(line, cause): (String, String)| format!("{line:<begin$}  {}", cut(&cause, room)).trim_end().to_owned();
    figures.into_iter().zip(causes).map(line).collect()
}

/// The largest cause, with whom it is spent on.
fn largest(one: &ServerNow) -> String {
    let Some(cause) = one.figures.causes.first() else { return String::new() };
    let who = cause.who.first().map_or_else(String::new, |(who, _)| format!(": {}", clean(who)));
    format!("{:.0} % {}{who}", 100.0 * cause.share, cause.part)
}

fn causes(server: &ServerNow) -> Vec<String> {
    let name = format!("{} ({})", clean(&server.listener.program), server.listener.root);
    let figures = &server.figures;
    if figures.causes.is_empty() {
        return vec![format!("{name}: no request was seen whole in this interval")];
    }
    let causes = figures.causes.iter().take(CAUSES_MAX).enumerate();
    let first = server.listener.ports().first().copied().unwrap_or(0);
    let more = format!("{name}, the mean response; more of it: weir explain --port {first}");
    std::iter::once(more).chain(causes.map(|(at, cause)| format!("{}. {}", at + 1, clean(&cause.text)))).collect()
}

fn ports(one: &ServerNow) -> String {
    let ports: Vec<String> = one.listener.ports().iter().map(u16::to_string).collect();
    match ports.len() {
        0..=PORTS_MAX => ports.join(","),
        all => format!("{},+{}", ports[..PORTS_MAX].join(","), all - PORTS_MAX),
    }
}

fn rate(requests: u64, window: &LiveWindow) -> String {
    let rate = per_second(requests, window);
    if rate < 9.95 { format!("{rate:.1}") } else { count(rate.round() as u64) }
}

/// How many in a second of the time that was watched.
pub(super) fn per_second(requests: u64, window: &LiveWindow) -> f64 {
    let seconds = window.watched.as_secs_f64();
    if seconds > 0.0 { requests as f64 / seconds } else { 0.0 }
}

/// What is to be known of the window.
pub(super) fn remarks(window: &LiveWindow) -> Vec<String> {
    let mut remarks = Vec::new();
    let sum = |of: fn(&ServerNow) -> u64| window.servers.iter().map(of).sum::<u64>();
    let (cut, unjoinable) = (sum(|one| one.figures.cut), sum(|one| one.figures.unjoinable));
    if window.missed > 0 {
        remarks.push(format!("{} had too many events to be read", counted(window.missed, "interval")));
    }
    if cut * 20 > sum(|one| one.figures.responses()) {
        remarks.push(format!(
            "{} cut by the interval's edges, long ones more often: a longer --interval sees them whole",
            was(cut, "request")
        ));
    }
    if unjoinable > 0 {
        remarks.push(format!("{} not seen whole and left out", was(unjoinable, "request")));
    }
    if window.others > 0 {
        remarks.push(format!("{} at ports of no server in the table", was(window.others, "response")));
    }
    if window.hidden > 0 {
        remarks.push(format!(
            "{} held by processes that weir may not look at: run it as root (or with CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH), in the host's pid namespace",
            was(window.hidden as u64, "listening socket")
        ));
    }
    if !window.is_complete {
        remarks.push("not all processes were looked at: some servers may be missing".to_owned());
    }
    remarks
}

fn counted(number: u64, thing: &str) -> String {
    weir_terminal::units::counted(number, thing)
}

fn was(number: u64, thing: &str) -> String {
    format!("{} {}", counted(number, thing), if number == 1 { "was" } else { "were" })
}

fn cost(window: &LiveWindow) -> String {
    let cost = &window.cost;
    let percent = |share: f64| format!("{:.1} %", 100.0 * share);
    let why = if window.is_short { ", until there was enough" } else { "" };
    let lost = if cost.lost > 0 { format!(", {} events lost", count(cost.lost)) } else { String::new() };
    format!(
        "observing: {} of a CPU by weir top, at most {} by the probes ({} events); recorded {:.1} s of {:.1} s{why}, by {}{lost}",
        percent(cost.own_share()),
        percent(cost.probes_share_max()),
        count(cost.events),
        window.watched.as_secs_f64(),
        cost.elapsed.as_secs_f64(),
        window.rung
    )
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use std::collections::{BTreeMap, BTreeSet};
    use std::net::{IpAddr, Ipv4Addr};
    use std::time::Duration;
    use weir_capture::{Listener, Place};
    use weir_explain::by_server::ServerFigures;
    use weir_measure::summary::Summary;
    use weir_record::live::LiveCost;
    use weir_report::Cause;

    pub(crate) fn server(program: &str, root: u32, p99: u64) -> ServerNow {
        let place = Place { netns: 1, port: root as u16 };
        let summary =
            Summary { count: 100, min: 1, mean: 1.0, stdev: 0.0, p50: p99 / 2, p90: p99, p99, p99_9: p99, max: p99 };
        let cause = Cause {
            part: "wait_timer".to_owned(),
            mean_ns: 71.0,
            share: 0.71,
            who: Vec::new(),
            held_by: Vec::new(),
            requests: Vec::new(),
            text: "71 % sleeping: 71 ns of 100 ns (wait_timer)".to_owned(),
        };
        ServerNow {
            listener: Listener {
                root,
                program: program.to_owned(),
                places: BTreeMap::from([(place, IpAddr::V4(Ipv4Addr::LOCALHOST))]),
                pids: BTreeSet::from([root]),
            },
            figures: ServerFigures {
                response_ns: Some(summary),
                causes: vec![cause],
                unanswered: 3,
                cut: 40,
                ..ServerFigures::default()
            },
        }
    }

    pub(crate) fn window(servers: Vec<ServerNow>) -> LiveWindow {
        let cost =
            LiveCost { elapsed: Duration::from_secs(2), own: Duration::from_millis(40), events: 50_000, lost: 7 };
        let watched = Duration::from_millis(1_000);
        LiveWindow { servers, watched, cost, is_complete: true, rung: "socket tracepoints", ..LiveWindow::default() }
    }

    #[test]
    fn a_line_has_its_figures_and_no_terminal_is_commanded() {
        let window = window(vec![server("ng\x1b[2Jinx", 81, 9_100_000)]);
        let shown = lines(&window, &Order { chosen: Some(81), ..Order::default() }, 120);
        assert_eq!(shown[0], "1 server, 1 busy, 100 requests/s");
        let words: Vec<&str> = shown[3].split("  ").filter(|word| !word.is_empty()).map(str::trim).collect();
        assert_eq!(words[1..], ["81", "81", "100", "4.55 ms", "9.10 ms", "3", "-", "40", "71 % wait_timer"]);
        let text = shown.join("\n");
        assert!(!text.contains('\x1b') && text.contains("1. 71 % sleeping: 71 ns of 100 ns"), "{text}");
        assert!(text.contains("40 requests were cut by the interval's edges"), "{text}");
        let cost = "observing: 2.0 % of a CPU by weir top, at most 0.5 % by the probes (50,000 events); recorded 1.0 s of 2.0 s, by socket tracepoints, 7 events lost";
        assert_eq!(lines(&window, &Order::default(), 200).last().map(String::as_str), Some(cost));
    }

    #[test]
    fn no_line_is_wider_than_the_terminal() {
        let window = window(vec![server("a-server-with-a-long-name", 81, 1_000_000), server("b", 82, 5)]);
        for width in 30..160 {
            for line in lines(&window, &Order { chosen: Some(81), ..Order::default() }, width) {
                assert!(line.chars().count() <= width, "{width}: {line}");
            }
        }
    }

    #[test]
    fn nothing_is_said_to_be_nothing() {
        let shown = lines(&LiveWindow::default(), &Order::default(), 90);
        assert!(shown.iter().any(|line| line.starts_with("no server listens here")), "{shown:?}");
    }
}
