//! What the servers did for the responses: phases, processes, queries, decisions, moves, and wake-ups for nothing.

use super::bars::stacked;
use super::escape::{escaped, extent, short, time};
use super::evidence::key_figure;
use super::tables::framed;
use crate::units::{bytes, count, decimal, figure, percent, share};
use crate::{Explanation, MessageFigures};

/// Rows that are shown at once of each table, and at all.
const SHOWN: usize = 15;
const MOST: usize = 200;
/// Characters of a query.
const MOST_TEXT: usize = 1000;

/// Phases of the servers' own work.
pub(super) fn phases(explanation: &Explanation) -> String {
    let whole: f64 = explanation.parts_ns.iter().sum();
    let rows = explanation.phases.iter().map(|phase| {
        let of_parts: f64 = phase.parts_ns.iter().sum();
        let bar = if of_parts > 0.0 {
            stacked(&format!("{}, {}", phase.server, phase.name), &phase.parts_ns, of_parts, 16)
        } else {
            String::new()
        };
        format!(
            "<tr><td class=\"name\">{}</td><th scope=\"row\" class=\"name\">{}</th><td class=\"n spare\">{}</td><td class=\"n\">{}</td>\
             <td class=\"share\"><div>{}<span>{}</span></div></td><td class=\"inline\">{bar}</td><td class=\"n spare\">{}</td></tr>\n",
            escaped(&phase.server),
            escaped(&phase.name),
            count(phase.count),
            time(phase.mean_ns),
            meter(share(phase.mean_ns, whole)),
            super::escape::part_of(share(phase.mean_ns, whole)),
            if phase.elapsed_ns > 0.0 { time(phase.elapsed_ns) } else { "-".to_owned() },
        )
    });
    table(
        "phases",
        "Phases",
        "<th scope=\"col\">Server</th><th scope=\"col\">Phase</th><th scope=\"col\" class=\"n spare\">Times</th><th scope=\"col\" class=\"n\">Of each response</th>\
         <th scope=\"col\" class=\"n\">Share</th><th scope=\"col\" class=\"inline\">Parts</th>\
         <th scope=\"col\" class=\"n spare\">At the server</th>",
        &rows.collect::<Vec<_>>(),
        "In the order in which a response passes them, as the probes in the servers' programs mark them; a phase may hold others. Of each response: while it was under way. At the server: all that its tasks spent in the phase, whether or not a response waited for it.",
    )
}

/// What each process had of the responses.
pub(super) fn processes(explanation: &Explanation) -> String {
    let processes = &explanation.processes;
    let longest = processes.iter().map(|one| one.run_ns + one.wait_ns).fold(0.0, f64::max);
    let rows = processes.iter().map(|one| {
        let (run, wait) = (share(one.run_ns, longest), share(one.wait_ns, longest));
        format!(
            "<tr><th scope=\"row\" class=\"name\">{}</th><td class=\"n\">{}</td><td class=\"n\">{}</td>\
             <td class=\"inline two\"><svg class=\"meter\" aria-hidden=\"true\" width=\"100%\" height=\"14\"><rect class=\"ran\" width=\"{}\" height=\"14\"/>\
             <rect class=\"waited\" x=\"{}\" width=\"{}\" height=\"14\"/></svg></td></tr>\n",
            escaped(&one.name),
            time(one.run_ns),
            time(one.wait_ns),
            extent(run),
            extent(run),
            extent(wait),
        )
    });
    table(
        "processes",
        "Processes",
        "<th scope=\"col\">Process</th><th scope=\"col\" class=\"n\">Ran</th><th scope=\"col\" class=\"n\">Waited</th>\
         <th scope=\"col\" class=\"inline two\">Ran, then waited</th>",
        &rows.collect::<Vec<_>>(),
        "Means of each response. Waiting counts where a response was with the process; what it waited for is in the parts.",
    )
}

/// Queries that responses waited for.
pub(super) fn queries(explanation: &Explanation) -> String {
    let rows = explanation.queries.iter().map(|query| {
        format!(
            "<tr><th scope=\"row\" class=\"name query\"><code>{}</code></th><td class=\"n\">{}</td><td class=\"n\">{}</td>\
             <td class=\"n\">{}</td><td class=\"n\">{}</td><td>{}</td></tr>\n",
            short(&query.text, MOST_TEXT),
            time(share(query.mean_ns * query.count as f64, explanation.requests as f64)),
            count(query.count),
            time(query.mean_ns),
            time(query.max_ns as f64),
            escaped(&query.server),
        )
    });
    table(
        "queries",
        "Queries",
        "<th scope=\"col\">Query</th><th scope=\"col\" class=\"n\">Of each response</th><th scope=\"col\" class=\"n\">Runs</th>\
         <th scope=\"col\" class=\"n\">Mean</th><th scope=\"col\" class=\"n\">Longest</th><th scope=\"col\">Database</th>",
        &rows.collect::<Vec<_>>(),
        "A question mark stands for a literal.",
    )
}

/// What the servers asked behind.
pub(super) fn asked(explanation: &Explanation) -> String {
    let rows = explanation.asked.iter().map(|asked| {
        format!(
            "<tr><th scope=\"row\" class=\"name query\"><code>{}</code></th><td>{}</td><td class=\"n\">{}</td>\
             <td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"name\">{}</td></tr>\n",
            short(&asked.question, MOST_TEXT),
            escaped(&format!("{} {}", asked.protocol, asked.peer)),
            count(asked.count),
            percent(asked.share),
            time(asked.mean_ns),
            time(asked.max_ns as f64),
            escaped(&asked.outcomes()),
        )
    });
    let rows: Vec<String> = rows.collect();
    if rows.is_empty() {
        return String::new();
    }
    table(
        "asked",
        "Asked behind",
        "<th scope=\"col\">Question</th><th scope=\"col\">Of</th><th scope=\"col\" class=\"n\">Count</th>\
         <th scope=\"col\" class=\"n\">Share</th><th scope=\"col\" class=\"n\">Mean wait</th>\
         <th scope=\"col\" class=\"n\">Longest</th><th scope=\"col\">Status</th>",
        &rows,
        "As the wire told it, without values. A wait ends with the first bytes of the answer; shares are of the responses' time, \
         and questions that were open at the same time count each.",
    )
}

/// What stays open: WebSockets, streams of events, calls of gRPC that stream, with their messages.
pub(super) fn long_lived(explanation: &Explanation) -> String {
    // Below a figure, in lines of their own.
    let below = |lines: &[String]| {
        lines.iter().map(|line| format!("<br><span class=\"aside\">{line}</span>")).collect::<String>()
    };
    let way = |figures: &MessageFigures| {
        let mut lines = vec![escaped(&bytes(figures.bytes))];
        if let Some(ns) = figures.between_ns {
            lines.push(format!("{} apart", time(ns)));
            lines.push(format!("at most {}", time(figures.between_ns_max as f64)));
        }
        format!("<td class=\"n\">{}{}</td>", count(figures.messages), below(&lines))
    };
    let rows = explanation.long_lived.iter().map(|long| {
        let open = (long.still_open > 0).then(|| format!("{} still open", count(long.still_open)));
        let answer = long.answer_ns.map_or_else(
            || "-".to_owned(),
            |ns| format!("{}{}", time(ns), below(&[format!("{} known", count(long.answered))])),
        );
        format!(
            "<tr><th scope=\"row\" class=\"name\">{}</th><td>{}</td><td class=\"n\">{}{}</td><td class=\"n\">{}</td>{}{}\
             <td class=\"n\">{answer}</td></tr>\n",
            short(&long.name, MOST_TEXT),
            long.words(),
            count(long.count),
            below(open.as_slice()),
            time(long.lasted_ns),
            way(&long.received),
            way(&long.sent),
        )
    });
    table(
        "long-lived",
        "What stays open",
        "<th scope=\"col\">Name</th><th scope=\"col\">What</th><th scope=\"col\" class=\"n\">How many</th>\
         <th scope=\"col\" class=\"n\">Seen for, each</th><th scope=\"col\" class=\"n\">Received messages</th>\
         <th scope=\"col\" class=\"n\">Sent messages</th><th scope=\"col\" class=\"n\">Answer after</th>",
        &rows.collect::<Vec<_>>(),
        "No responses among the others: how long these last says nothing of the server. A message answers another one where \
         the same task gave it after it had taken that one, with nothing taken from elsewhere in between.",
    )
}

/// What the server's rules decided.
pub(super) fn decisions(explanation: &Explanation) -> String {
    let rows = explanation.decisions.iter().map(|decided| {
        format!(
            "<tr><td class=\"n\">{} s</td><th scope=\"row\" class=\"name query\">{}</th></tr>\n",
            decimal(decided.at_s, 3),
            short(&decided.text, MOST_TEXT),
        )
    });
    table(
        "decisions",
        "Decisions",
        "<th scope=\"col\" class=\"n\">At</th><th scope=\"col\">Rule, subject, outcome and readings</th>",
        &rows.collect::<Vec<_>>(),
        "Of the rules of weir serve --policy; times count from the first request.",
    )
}

/// Hosts whose runs were explained together.
pub(super) fn hosts(explanation: &Explanation) -> String {
    let rows = explanation.hosts.iter().map(|host| {
        format!(
            "<tr><th scope=\"row\" class=\"name\">{}</th><td class=\"name\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td>\
             <td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td></tr>\n",
            short(&host.name, MOST_TEXT),
            short(&host.run, MOST_TEXT),
            count(host.connections),
            time(host.clock_error_ns),
            time(host.clock_typical_error_ns),
            count(host.messages),
            count(host.contradicting),
        )
    });
    let rows: Vec<String> = rows.collect();
    if rows.is_empty() {
        return String::new();
    }
    table(
        "hosts",
        "Hosts",
        "<th scope=\"col\">Host</th><th scope=\"col\">Run</th><th scope=\"col\" class=\"n\">Connections with the others</th>\
         <th scope=\"col\" class=\"n\">Clock right within</th><th scope=\"col\" class=\"n\">Typically</th>\
         <th scope=\"col\" class=\"n\">Messages</th><th scope=\"col\" class=\"n\">Contradicting</th>",
        &rows,
        "Times are by the clock of the first host. Messages between the hosts bound what the others' clocks differ from it: \
         none arrives before it is sent; those that do contradict.",
    )
}

/// Sessions that moved between nodes of a cluster.
pub(super) fn moves(explanation: &Explanation) -> String {
    let Some(told) = &explanation.moves else { return String::new() };
    let optional = |ns: Option<f64>| ns.map_or_else(|| "-".to_owned(), time);
    let rows = told.moves.iter().map(|moved| {
        format!(
            "<tr><td class=\"n\">{} s</td><th scope=\"row\" class=\"name\">{}</th><td class=\"name\">{}</td><td class=\"name\">{}</td>\
             <td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td></tr>\n",
            decimal(moved.at_s, 6),
            moved.request.as_ref().map_or_else(|| "-".to_owned(), |name| short(name, MOST_TEXT)),
            short(&moved.from, MOST_TEXT),
            short(&moved.to, MOST_TEXT),
            optional(moved.stood_still_ns),
            optional(moved.took_ns),
            moved.confirmed_s.map_or_else(|| "-".to_owned(), |at_s| format!("{} s", decimal(at_s, 6))),
            moved.error_ns.map_or_else(|| "not known".to_owned(), time),
        )
    });
    table(
        "moves",
        "Moves between nodes",
        "<th scope=\"col\" class=\"n\">At</th><th scope=\"col\">Request under way</th><th scope=\"col\">From</th>\
         <th scope=\"col\">To</th><th scope=\"col\" class=\"n\">Stood still</th><th scope=\"col\" class=\"n\">Took</th>\
         <th scope=\"col\" class=\"n\">Confirmed at</th><th scope=\"col\" class=\"n\">Error of times</th>",
        &rows.collect::<Vec<_>>(),
        &format!(
            "{} of {} requests were under way when their session moved. Times count from the first request, by the clock of \
             this run; the error is what clocks of other machines may differ from it.",
            count(told.requests),
            count(explanation.requests)
        ),
    )
}

/// Wake-ups after which a task found nothing to do.
pub(super) fn wakeups(explanation: &Explanation) -> String {
    let wakeups = &explanation.wakeups;
    if wakeups.wakeups == 0 {
        return String::new();
    }
    let futile = share(wakeups.futile as f64, wakeups.wakeups as f64);
    let (futile_each, of_what) = wakeups.futile_for_each(explanation.requests);
    let figures = [
        key_figure("Futile", &decimal(futile_each, 2), &format!("for each {of_what}")),
        key_figure("Wake-ups", &count(wakeups.wakeups), "of the server&#39;s idle tasks"),
        key_figure("For nothing", &count(wakeups.futile), &format!("{} of them", super::escape::part_of(futile))),
        key_figure("Accepted", &figure(wakeups.accepted as f64), "connections"),
    ];
    let unseen = match wakeups.unseen {
        0 => String::new(),
        some => {
            format!(" {} events are missing from the recording: around these, wake-ups may be missed.", count(some))
        }
    };
    format!(
        "<section aria-labelledby=\"wakeups-h\"><h2 id=\"wakeups-h\">Wake-ups</h2><dl class=\"figures\">{}</dl>\
         <p class=\"note\">A wake-up is futile if the task found nothing to accept or to receive and waited again: many tasks wait at one socket, and one is served.{unseen}</p></section>\n",
        figures.concat()
    )
}

/// A bar of a share.
fn meter(share: f64) -> String {
    format!(
        "<svg class=\"meter\" aria-hidden=\"true\" height=\"8\"><rect class=\"ran\" width=\"{}\" height=\"8\"/></svg>",
        extent(share)
    )
}

/// A section of a table; rows beyond the first unfold.
fn table(id: &str, title: &str, head: &str, rows: &[String], note: &str) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let whole = |rows: &[String]| {
        format!("{}<thead><tr>{head}</tr></thead>\n<tbody>{}</tbody></table></div>", framed(title), rows.concat())
    };
    let (shown, folded) = rows.split_at(rows.len().min(SHOWN));
    let beyond = rows.len().saturating_sub(MOST);
    let rest = if beyond > 0 { format!(", the last {beyond} of them in the JSON only") } else { String::new() };
    let more = if folded.is_empty() {
        String::new()
    } else {
        let folded = &folded[..folded.len() - beyond];
        format!("<details><summary>{} more{rest}</summary>{}</details>", rows.len() - SHOWN, whole(folded))
    };
    format!(
        "<section aria-labelledby=\"{id}-h\"><h2 id=\"{id}-h\">{title}</h2>{}{more}<p class=\"note\">{note}</p></section>\n",
        whole(shown)
    )
}
