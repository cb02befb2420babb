//! `weir cluster top`: what the nodes of a cluster do, and what it is asked for most.

use super::gossiping;
use super::overview::{Overview, cells, rate, state_words, strain_cells};
use super::printed::print_json;
use crate::refreshed;
use crate::table::{Table, cut};
use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use weir_report::{bytes, clean};
use weir_terminal::units;

const EXAMPLES: &str = "\
Examples:
  weir cluster top /etc/weir/cluster
      on a node or on the director, updated each second; Ctrl-C ends it
  weir cluster top /etc/weir/cluster --once | head
      one table of text
  weir cluster top /etc/weir/cluster --json | jq '.top.paths[0]'

The nodes gossip their readings each second, so that they may be some seconds
old: AGE says how old. WEIGHT, for new connections, and PACKETS/S, sent on to
the node, are the director's own, and shown on its machine. What is asked for
most is told each 10 s. It counts files that nodes serve from their caches, and
only those of nodes that are not silent.

Exit status: 0, or 1 if no member runs here.";

/// Show what the cluster is asked for, live on a terminal.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// The cluster's directory
    #[arg(value_name = "DIR")]
    folder: PathBuf,

    /// How often to update the tables
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = units::duration)]
    every: Duration,

    /// Print them once, as happens by itself where standard output is no terminal
    #[arg(long)]
    once: bool,

    /// Print them once as JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let ask = || gossiping::ask(&args.folder);
    if args.json {
        return print_json("top", &ask()?);
    }
    if args.once || !std::io::stdout().is_terminal() {
        let shown = lines(&ask()?, weir_terminal::output::table_columns());
        weir_terminal::output::print(&(shown.join("\n") + "\n"))?;
    } else {
        refreshed::show(args.every, ask, lines)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The heading and both tables.
fn lines(overview: &Overview, width: usize) -> Vec<String> {
    let mut nodes = Table::new([
        "NODE",
        "STATE",
        "REQ/S",
        "OPEN",
        "SENDING",
        "OUT",
        "CPU",
        "WEIGHT",
        "PACKETS/S",
        "AGE",
        "QUEUE",
        "WAIT",
        "ERRORS/S",
        "MEM",
    ]);
    for member in &overview.members {
        let [requests, open, sending, out, cpu, age] = cells(member);
        let name = if member.number == 0 { format!("{} (director)", member.name) } else { member.name.clone() };
        let weight = member.weight.map_or_else(|| "-".to_owned(), |weight| weight.to_string());
        let packets = member.packets_per_s.map_or_else(|| "-".to_owned(), rate);
        let [queue, wait, errors, mem] = strain_cells(member);
        let state = state_words(member);
        nodes.push([name, state, requests, open, sending, out, cpu, weight, packets, age, queue, wait, errors, mem]);
    }
    let mut paths = Table::new(["PATH", "REQ/S", "SHARE", "NODES"]);
    for path in &overview.paths {
        let mut names = path.nodes.join(" ");
        if path.more_nodes > 0 {
            names.push_str(&format!(" and {}", path.more_nodes));
        }
        let share = format!("{:.1} %", path.share * 100.0);
        paths.push([clean(&path.path), rate(path.requests_per_s), share, names]);
    }
    let mut lines = vec![cut(&heading(overview), width), String::new()];
    lines.extend(nodes.lines(width));
    lines.push(String::new());
    if paths.is_empty() {
        lines.push(cut("no node has said yet what it is asked for (it does within 10 s of requests)", width));
    } else {
        lines.extend(paths.lines(width));
    }
    lines
}

/// How many nodes are there, and what all of them do.
pub(super) fn heading(overview: &Overview) -> String {
    let nodes = || overview.members.iter().filter(|member| member.number > 0);
    let there = nodes().filter(|member| member.state.is_there());
    let (count, all) = (there.clone().count() as u64, nodes().count() as u64);
    let readings = || there.clone().filter_map(|member| member.reading);
    let requests: f64 = readings().map(|reading| reading.requests_per_s).sum();
    let sent: u64 = readings().map(|reading| reading.sent_bytes_per_s).sum();
    format!(
        "{count} of {} there, {} requests/s, {}/s out, as {} hears it",
        units::counted(all, "node"),
        rate(requests),
        bytes(sent),
        overview.told_by
    )
}

#[cfg(test)]
mod tests {
    use super::super::overview::{GossipNow, MemberNow, PathNow, ReadingNow, State, StrainNow};
    use super::*;
    use std::collections::BTreeMap;

    fn member(number: u16, state: State) -> MemberNow {
        let reading = ReadingNow {
            requests_per_s: 1234.0,
            open_connections: 17,
            sending_sessions: 3,
            sent_bytes_per_s: 2_000_000,
            cpu_share: 0.25,
            strain: Some(StrainNow {
                queue: 2.5,
                wait_s: 0.000_35,
                mem_bytes: 3 << 30,
                mem_share: 0.381,
                errors_per_s: 0.2,
                error_share: 0.01,
            }),
        };
        MemberNow {
            number,
            name: format!("n{number}"),
            role: "node".to_owned(),
            state,
            age_s: Some(1.24),
            silence_s: Some(0.96),
            version: None,
            up_since_unix_s: None,
            reading: (number > 0).then_some(reading),
            sites: BTreeMap::new(),
            weight: (number > 0).then_some(500),
            packets_per_s: (number > 0).then_some(1_234.0),
        }
    }

    #[test]
    fn what_is_silent_is_not_added_and_no_terminal_is_commanded() {
        let path = PathNow {
            path: "/\x1b[2Ja".to_owned(),
            requests_per_s: 617.0,
            share: 0.5,
            nodes: vec!["n1".to_owned()],
            more_nodes: 2,
        };
        let overview = Overview {
            told_by: "n1".to_owned(),
            members: vec![member(0, State::Alive), member(1, State::Draining), member(2, State::Silent)],
            paths: vec![path],
            gossip: GossipNow { sent_bytes: 0, received_bytes: 0, forged: 0, replayed: 0, refused: 0 },
        };
        let lines = lines(&overview, 160);
        assert!(lines[0].starts_with("1 of 2 nodes there, 1,234 requests/s, "), "{}", lines[0]);
        assert!(lines[3].starts_with("n0 (director)") && lines[3].contains("alive"), "{}", lines[3]);
        assert!(lines[5].contains("silent for 1 s") && lines[5].contains("1.2 s"), "{}", lines[5]);
        assert!(lines[5].ends_with(" 2.5  350 us       0.2  38 %"), "{}", lines[5]);
        assert!(lines[8].ends_with("617  50.0 %  n1 and 2"), "{}", lines[8]);
        assert!(!lines.join("").contains('\x1b'), "{lines:?}");
    }
}
