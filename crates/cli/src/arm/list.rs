//! `weir arm list`: which applications, transactions and processes the agent knows.

use super::asking::Where;
use super::top::switch_text;
use super::words::{full_name, json, unexpected};
use crate::schemas::Named;
use crate::table::Table;
use std::process::ExitCode;
use weir_agent::protocol::{AgentStatus, Answer, Ask, List, Rule};
use weir_report::{clean, count};

const EXAMPLES: &str = "\
Examples:
  weir arm list
      everything
  weir arm list --json | jq -r '.processes[] | select(.lost > 0) | .command'

Exit status: 0, or 1 if no agent answers.";

/// List applications, their transactions with their switches, processes, and programs that the agent does not read, and
/// why.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    #[command(flatten)]
    place: Where,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// What is printed as JSON.
#[derive(Debug, serde::Serialize)]
struct Listed {
    #[serde(flatten)]
    list: List,
    rules: Vec<Rule>,
    agent: AgentStatus,
}

pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let mut connection = args.place.connect()?;
    let list = match connection.ask_for_answer(&Ask::List)? {
        Answer::List(list) => list,
        other => return Err(unexpected(&other)),
    };
    let rules = match connection.ask_for_answer(&Ask::Switches)? {
        Answer::Switches { rules } => rules,
        other => return Err(unexpected(&other)),
    };
    let agent = match connection.ask_for_answer(&Ask::Status)? {
        Answer::Status(status) => *status,
        other => return Err(unexpected(&other)),
    };
    let listed = Listed { list, rules, agent };
    weir_terminal::output::print(&if args.json {
        json(&Named::new("weir-arm-list/1", &listed))?
    } else {
        text(&listed, weir_terminal::output::table_columns())
    })?;
    Ok(ExitCode::SUCCESS)
}

fn text(listed: &Listed, width: usize) -> String {
    let mut lines = Vec::new();
    let mut classes = Table::new(["TRANSACTION", "ENDED", "FAILED", "PROCESSES", "SWITCH"]);
    for class in &listed.list.classes {
        classes.push([
            full_name(&class.application, &class.transaction),
            count(class.transactions),
            count(class.failed),
            count(class.processes.into()),
            switch_text(class.switch),
        ]);
    }
    if classes.is_empty() {
        lines.push(format!("no transaction is known: nothing here calls ARM (in {})", clean(&listed.agent.directory)));
    } else {
        lines.extend(classes.lines(width));
    }
    let mut processes = Table::new(["PROCESS", "RUNNING", "RECORDS", "LOST", "LEFT OUT", "UID"]);
    for process in &listed.list.processes {
        let applications = process.applications.join(", ");
        processes.push([
            clean(&format!("{}[{}] {applications}", process.command, process.pid)),
            count(process.running.into()),
            count(process.records),
            count(process.lost),
            count(process.skipped),
            process.uid.to_string(),
        ]);
    }
    if !processes.is_empty() {
        lines.push(String::new());
        lines.extend(processes.lines(width));
    }
    if !listed.rules.is_empty() {
        lines.extend([String::new(), "switches that were set:".to_owned()]);
        lines.extend(listed.rules.iter().map(rule_text));
    }
    if !listed.agent.warnings.is_empty() {
        lines.extend([String::new(), "what does not work:".to_owned()]);
        lines.extend(
            listed.agent.warnings.iter().map(|warning| weir_report::hanging(&format!("  {warning}"), 4, width)),
        );
    }
    if !listed.agent.refused.is_empty() {
        lines.extend([String::new(), "not read:".to_owned()]);
        lines.extend(
            listed.agent.refused.iter().map(|refused| {
                weir_report::hanging(&format!("  {}: {}", refused.announcement, refused.reason), 4, width)
            }),
        );
    }
    lines.join("\n") + "\n"
}

/// A rule in words.
pub(super) fn rule_text(rule: &Rule) -> String {
    let name = match (&*rule.application, &rule.transaction) {
        ("*", None) => "everything".to_owned(),
        (application, None) => format!("{application} (all of it)"),
        (application, Some(transaction)) => format!("{application}/{transaction}"),
    };
    format!("  {}: {}", clean(&name), switch_text(rule.to))
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_agent::protocol::Refused;

    #[test]
    fn what_does_not_work_is_said_in_words() {
        let agent = AgentStatus {
            directory: "/run/weir/arm".into(),
            warnings: vec!["figures cannot be kept now: the disk is full".into()],
            refused: vec![Refused { announcement: "12-3".into(), reason: "it is root's\x1b[2J".into() }],
            ..AgentStatus::default()
        };
        let text = text(&Listed { list: List::default(), rules: Vec::new(), agent }, 100);
        assert!(text.starts_with("no transaction is known: nothing here calls ARM (in /run/weir/arm)\n"), "{text}");
        assert!(text.contains("what does not work:\n  figures cannot be kept now: the disk is full\n"), "{text}");
        assert!(text.contains("not read:\n  12-3: it is root's") && !text.contains('\x1b'), "{text}");
    }
}
