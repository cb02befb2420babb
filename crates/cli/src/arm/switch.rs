//! `weir arm on`, `off` and `sample`: what is recorded, at once and without a reload.

use super::asking::Where;
use super::list::rule_text;
use super::top::switch_text;
use super::words::unexpected;
use crate::schemas::Named;
use anyhow::anyhow;
use std::process::ExitCode;
use weir_agent::protocol::{Answer, Ask, Switch};
use weir_report::{clean, count};

const ON_EXAMPLES: &str = "\
Examples:
  weir arm on shop/search
      every search of the application shop is recorded
  weir arm on '*'
      everything is recorded, except what has a rule of its own
  weir arm on --forget shop/search
      its own rule is removed, so that the application's holds again

A transaction's own rule overrides its application's, which overrides that of
'*'. Rules outlive processes and the agent, and hold for later processes.
Only the agent's user and root may set them.

Exit status: 0, or 1 if no agent answers or it refuses.";

const OFF_EXAMPLES: &str = "\
Examples:
  weir arm off shop/search
      no search of the application shop is recorded
  weir arm off shop
      nothing of shop is recorded, except transactions with a rule of their own
  weir arm off --application a/b --transaction c
      names that contain a slash

In a program that is switched off, a start and a stop cost about what they cost
without an agent. Rules outlive processes and the agent; undo: weir arm on.

Exit status: 0, or 1 if no agent answers or it refuses.";

const SAMPLE_EXAMPLES: &str = "\
Examples:
  weir arm sample 1/10 shop/search
      one search in ten is recorded, and counts for ten
  weir arm sample 5% shop
      one in twenty transactions of the whole application

Rates and percentiles stand for all transactions: each recorded one counts also
for those that were left out.

Exit status: 0, or 1 if no agent answers or it refuses.";

/// What is switched.
#[derive(Debug, clap::Args)]
struct What {
    /// APPLICATION or APPLICATION/TRANSACTION; '*' is every application
    #[arg(value_name = "APPLICATION[/TRANSACTION]", required_unless_present = "application")]
    name: Option<String>,

    /// The application, if a name contains a slash
    #[arg(long, value_name = "NAME", conflicts_with = "name")]
    application: Option<String>,

    /// The transaction, if a name contains a slash
    #[arg(long, value_name = "NAME", requires = "application")]
    transaction: Option<String>,

    #[command(flatten)]
    place: Where,

    /// Print the agent's answer as JSON
    #[arg(long)]
    json: bool,
}

/// Record an application or one of its transactions, at once.
#[derive(Debug, clap::Args)]
#[command(after_help = ON_EXAMPLES)]
pub(super) struct OnArgs {
    #[command(flatten)]
    what: What,

    /// Remove the rule instead, so that the more general one holds again
    #[arg(long)]
    forget: bool,
}

/// Stop recording an application or one of its transactions, at once.
#[derive(Debug, clap::Args)]
#[command(after_help = OFF_EXAMPLES)]
pub(super) struct OffArgs {
    #[command(flatten)]
    what: What,
}

/// Record a sample of an application's transactions, at once.
#[derive(Debug, clap::Args)]
#[command(after_help = SAMPLE_EXAMPLES)]
pub(super) struct SampleArgs {
    /// How many are recorded: 1/10, 10% or 10 (one of ten)
    #[arg(value_name = "SHARE", value_parser = one_in)]
    share: u32,

    #[command(flatten)]
    what: What,
}

pub(super) fn on(args: &OnArgs) -> anyhow::Result<ExitCode> {
    switch(&args.what, (!args.forget).then_some(Switch::On))
}

pub(super) fn off(args: &OffArgs) -> anyhow::Result<ExitCode> {
    switch(&args.what, Some(Switch::Off))
}

pub(super) fn sample(args: &SampleArgs) -> anyhow::Result<ExitCode> {
    switch(&args.what, Some(if args.share == 1 { Switch::On } else { Switch::OneIn(args.share) }))
}

fn switch(what: &What, to: Option<Switch>) -> anyhow::Result<ExitCode> {
    let (application, transaction) = names(what);
    let asked = Ask::Switch { application: application.clone(), transaction: transaction.clone(), to };
    let answer = what.place.ask(&asked)?;
    let Answer::Switched { processes, definitions, rules, warning } = &answer else { return Err(unexpected(&answer)) };
    if what.json {
        weir_terminal::output::print(&super::words::json(&Named::new("weir-arm-switch/1", &answer))?)?;
    } else {
        let name = match (&*application, transaction) {
            ("*", None) => "everything".to_owned(),
            (_, None) => application,
            (_, Some(transaction)) => format!("{application}/{transaction}"),
        };
        let to = to.map_or("no rule of its own".to_owned(), switch_text);
        let mut text = format!("{}: {to}, ", clean(&name));
        text.push_str(&match processes {
            0 => "which changes nothing in the processes that run now".to_owned(),
            _ => format!("changed in {} (transactions: {})", some(*processes), count((*definitions).into())),
        });
        text.push_str(if rules.is_empty() { "; no rule is set\n" } else { "; the rules from now on:\n" });
        rules.iter().for_each(|rule| text.push_str(&format!("{}\n", rule_text(rule))));
        weir_terminal::output::print(&text)?;
    }
    if let Some(warning) = warning {
        eprintln!("weir: {}", clean(warning));
    }
    Ok(ExitCode::SUCCESS)
}

fn some(processes: u32) -> String {
    format!("{} process{}", count(processes.into()), if processes == 1 { "" } else { "es" })
}

/// Application and transaction: what stands before the first slash, and behind it.
fn names(what: &What) -> (String, Option<String>) {
    match (&what.application, &what.name) {
        (Some(application), _) => (application.clone(), what.transaction.clone()),
        (None, name) => {
            let name = name.as_deref().unwrap_or("*");
            match name.split_once('/') {
                Some((application, transaction)) => (application.to_owned(), Some(transaction.to_owned())),
                None => (name.to_owned(), None),
            }
        }
    }
}

/// Reads `1/10`, `10%` or `10` as one of ten.
fn one_in(text: &str) -> anyhow::Result<u32> {
    let refused = || anyhow!("{text:?} is no share; write 1/10, 10% or 10, each of which is one of ten");
    let whole = |text: &str| text.parse::<u32>().ok().filter(|number| (1..u32::MAX).contains(number));
    if let Some(percent) = text.strip_suffix('%') {
        let percent: f64 = percent.trim().parse().map_err(|_| refused())?;
        let one_in = (100.0 / percent).round();
        return if percent > 0.0 && percent <= 100.0 && one_in < 4e9 { Ok(one_in as u32) } else { Err(refused()) };
    }
    whole(text.strip_prefix("1/").unwrap_or(text)).ok_or_else(refused)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_read_as_people_write_them() {
        for (text, expected) in [("1/10", 10), ("10%", 10), ("10", 10), ("100%", 1), ("1", 1), ("0.1%", 1000)] {
            assert_eq!(one_in(text).ok(), Some(expected), "{text}");
        }
        for bad in ["", "0", "0%", "2/10", "-1", "101%", "ten", "nan%", "4294967295"] {
            assert!(one_in(bad).is_err(), "{bad}");
        }
    }
}
