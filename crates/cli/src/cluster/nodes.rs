//! `weir cluster nodes`: how each node stands, by what it gossips, and which versions it has.

use super::directory_place::DirectoryPlace;
use super::gossiping;
use super::members::MembersFile;
use super::overview::{MemberNow, Overview, ReadingNow, cells, site_words, state_words, strain_cells};
use super::printed::print_json;
use super::published::directory_of;
use crate::table::Table;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use weir_cluster::NodeNumber;
use weir_directory::Member;

const EXAMPLES: &str = "\
Examples:
  weir cluster nodes /etc/weir/cluster
      on a node or on the director: what each node does, as it was heard here
  weir cluster nodes /etc/weir/cluster --json
      the same for programs

Where no node runs, the directory says which nodes are present.";

/// Show how each node stands, and which versions it has.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// The cluster's directory
    #[arg(value_name = "DIR")]
    folder: PathBuf,

    /// As JSON
    #[arg(long)]
    json: bool,
}

/// A node.
#[derive(Debug, Serialize)]
struct Row {
    number: NodeNumber,
    name: String,
    address: String,
    /// `alive`, `draining`, `silent` or `unheard`; where no member runs here `present`, `absent` or `unknown`.
    state: String,
    age_s: Option<f64>,
    silence_s: Option<f64>,
    version: Option<String>,
    up_since_unix_s: Option<u64>,
    reading: Option<ReadingNow>,
    sites: BTreeMap<String, u64>,
}

pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let members = MembersFile::read(&args.folder)?;
    let overview = gossiping::ask_if_there(&args.folder)?;
    let entered = match (&overview, &members.directory) {
        (None, Some(_)) => entered(&args.folder)?,
        _ => Vec::new(),
    };
    let row = |(number, name, address): (NodeNumber, &str, String)| {
        let heard = overview.as_ref().and_then(|overview| overview.members.iter().find(|member| member.name == name));
        match heard {
            Some(member) => of_gossip(member, address),
            None => of_directory(number, name, address, (members.directory.as_ref(), &entered)),
        }
    };
    let nodes = members.nodes.iter();
    let nodes =
        nodes.map(|(number, (reached, _))| (*number, reached.member.name.as_str(), reached.address.to_string()));
    let rows: Vec<Row> = nodes.map(row).collect();
    if args.json {
        return print_json("nodes", &rows);
    }
    weir_terminal::output::print(&(text(&rows, overview.as_ref()) + &active_director(&args.folder, &members)?))?;
    Ok(ExitCode::SUCCESS)
}

/// Which of two directors is active, as the directory has it; nothing without one or the other.
fn active_director(folder: &Path, members: &MembersFile) -> anyhow::Result<String> {
    let (Some(second), Some(_)) = (&members.standby, &members.directory) else { return Ok(String::new()) };
    let holder = directory_of(folder)?.holder(super::pair::LOCK)?.into_value();
    Ok(match holder {
        Some(holder) => format!("director {} is active\n", holder.holder),
        None => format!("neither {} nor {} is active\n", members.director.member.name, second.member.name),
    })
}

fn entered(folder: &Path) -> anyhow::Result<Vec<Member>> {
    Ok(directory_of(folder)?.nodes()?.into_value())
}

fn of_gossip(member: &MemberNow, address: String) -> Row {
    Row {
        number: member.number,
        name: member.name.clone(),
        address,
        state: member.state.word().to_owned(),
        age_s: member.age_s,
        silence_s: member.silence_s,
        version: member.version.clone(),
        up_since_unix_s: member.up_since_unix_s,
        reading: member.reading,
        sites: member.sites.clone(),
    }
}

fn of_directory(
    number: NodeNumber,
    name: &str,
    address: String,
    (place, entered): (Option<&DirectoryPlace>, &[Member]),
) -> Row {
    let entered = entered.iter().find(|member| member.node.name == name);
    // Without a directory no node says whether it is there.
    let state = match (place, entered) {
        (None, _) => "unknown",
        (_, Some(Member { is_present: true, .. })) => "present",
        _ => "absent",
    };
    let facts = entered.into_iter().flat_map(|member| &member.node.facts);
    let site = |(fact, version): (&String, &String)| {
        Some((fact.strip_prefix(crate::serve_cluster::FACT)?.to_owned(), version.parse().unwrap_or(0)))
    };
    Row {
        number,
        name: name.to_owned(),
        address,
        state: state.to_owned(),
        age_s: None,
        silence_s: None,
        version: None,
        up_since_unix_s: None,
        reading: None,
        sites: facts.filter_map(site).collect(),
    }
}

fn text(rows: &[Row], overview: Option<&Overview>) -> String {
    let mut table = Table::new([
        "NODE", "NUMBER", "STATE", "REQ/S", "OPEN", "SENDING", "OUT", "CPU", "AGE", "ADDRESS", "SITES", "QUEUE",
        "WAIT", "ERRORS/S", "MEM",
    ]);
    for row in rows {
        let heard = overview.and_then(|overview| overview.members.iter().find(|member| member.name == row.name));
        let none = || "-".to_owned();
        let [requests, open, sending, out, cpu, age] = heard.map_or_else(|| std::array::from_fn(|_| none()), cells);
        let [queue, wait, errors, mem] = heard.map_or_else(|| std::array::from_fn(|_| none()), strain_cells);
        let state = heard.map_or_else(|| row.state.clone(), state_words);
        table.push([
            row.name.clone(),
            row.number.to_string(),
            state,
            requests,
            open,
            sending,
            out,
            cpu,
            age,
            row.address.clone(),
            site_words(&row.sites),
            queue,
            wait,
            errors,
            mem,
        ]);
    }
    table.lines(weir_terminal::output::table_columns()).join("\n") + "\n"
}
