//! What the console shows of business transactions: what `weir arm top` and `weir arm show` tell, and the latest
//! transactions that the agent has kept whole.

use super::asking::Where;
use super::show::{details, not_known, threads};
use super::top::{Sort, sort, time_per_s};
use super::words::unexpected;
use crate::schemas::Named;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::PathBuf;
use weir_agent::protocol::{Answer, Ask, By, Filter, Top};
use weir_agent::transaction::{Transaction, TransactionIdError, Wanted};
use weir_agent::tree::{self, Line};
use weir_console::TopOrder;

/// An agent as the console asks it.
#[derive(Debug)]
pub(crate) struct Agent(Where);

/// Why the page is told nothing.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PageError {
    /// It is no id of a transaction.
    #[error(transparent)]
    NoId(#[from] TransactionIdError),
    /// The agent knows no such transaction.
    #[error("{0}")]
    NotKnown(String),
    /// The agent does not answer, or refuses.
    #[error("{0:#}")]
    Agent(#[from] anyhow::Error),
}

impl Agent {
    /// That of a directory, or the usual one.
    pub(crate) fn new(directory: Option<PathBuf>) -> Self {
        Self(Where::of(directory))
    }

    pub(crate) fn directory(&self) -> PathBuf {
        self.0.directory()
    }

    /// What `weir arm top --json` prints, with its part of the time of all and of failures for each row; and what does
    /// not work.
    pub(crate) fn top(&self, seconds: u32, order: TopOrder) -> Result<Value, PageError> {
        let mut connection = self.0.connect()?;
        let mut top = match connection.ask_for_answer(&Ask::Top { seconds, by: By::Class })? {
            Answer::Top(top) => top,
            other => return Err(unexpected(&other).into()),
        };
        let status = match connection.ask_for_answer(&Ask::Status)? {
            Answer::Status(status) => *status,
            other => return Err(unexpected(&other).into()),
        };
        sort(
            &mut top,
            match order {
                TopOrder::Time => Sort::Time,
                TopOrder::Rate => Sort::Rate,
                TopOrder::P99 => Sort::P99,
                TopOrder::Failed => Sort::Failed,
            },
        );
        let mut told = serde_json::to_value(Named::new("weir-arm-top/1", &top)).map_err(anyhow::Error::from)?;
        let rows = told["rows"].as_array_mut().into_iter().flatten();
        for (told, (row, share)) in rows.zip(top.rows.iter().zip(shares(&top))) {
            told["time_share"] = share.into();
            told["failed_share"] = (row.failed as f64 / row.transactions.max(1) as f64).into();
        }
        told["rate_per_s"] = top.rows.iter().map(|row| row.rate_per_s).sum::<f64>().into();
        told["host"] = status.host.into();
        told["warnings"] = status.warnings.into();
        told["not_read"] = status.refused.iter().map(|one| format!("{}: {}", one.announcement, one.reason)).collect();
        Ok(told)
    }

    /// The latest ones that are kept, the newest first.
    pub(crate) fn kept(&self, filter: Filter, most: u32) -> Result<Value, PageError> {
        let (transactions, looked_at) = match self.0.ask(&Ask::Kept { filter, most })? {
            Answer::Kept { transactions, looked_at } => (transactions, looked_at),
            other => return Err(unexpected(&other).into()),
        };
        let transactions: Vec<Value> = transactions.iter().map(facts).collect();
        Ok(json!({ "transactions": transactions, "looked_at": looked_at }))
    }

    /// The tree of a transaction's trace, as `weir arm show` prints it.
    pub(crate) fn trace(&self, id: &str) -> Result<Value, PageError> {
        id.parse::<Wanted>()?;
        let mut connection = self.0.connect()?;
        let (transactions, missing) = match connection.ask_for_answer(&Ask::Show { id: id.to_owned() })? {
            Answer::Trace { transactions, missing } => (transactions, missing),
            other => return Err(unexpected(&other).into()),
        };
        if transactions.is_empty() {
            return Err(PageError::NotKnown(not_known(id)));
        }
        let captures = match connection.ask_for_answer(&Ask::Status)? {
            Answer::Status(status) => status.capture.is_some(),
            other => return Err(unexpected(&other).into()),
        };
        Ok(told(&transactions, missing, captures))
    }
}

/// The time of each row as a part of that of all rows.
fn shares(top: &Top) -> Vec<f64> {
    let all: f64 = top.rows.iter().map(time_per_s).sum();
    top.rows.iter().map(|row| if all > 0.0 { time_per_s(row) / all } else { 0.0 }).collect()
}

/// What names a transaction, and how it ended. Times of the clock are in microseconds: a page counts to 2^53.
fn facts(transaction: &Transaction) -> Value {
    json!({
        "id": transaction.id,
        "application": transaction.application,
        "name": transaction.name,
        "user": transaction.user,
        "host": transaction.host,
        "command": transaction.process.command,
        "pid": transaction.process.pid,
        "status": transaction.status,
        "is_failure": transaction.status.is_failure(),
        "one_in": transaction.one_in,
        "begin_unix_us": transaction.start_unix_ns / 1_000,
        "end_unix_us": transaction.end_unix_ns() / 1_000,
        "duration_ns": transaction.duration_ns,
    })
}

fn told(transactions: &[Transaction], missing: u32, captures: bool) -> Value {
    let lines = tree::lines(transactions);
    let hosts: BTreeSet<&str> = transactions.iter().map(|transaction| &*transaction.host).collect();
    let processes: BTreeSet<_> =
        transactions.iter().map(|transaction| (&transaction.host, transaction.process.pid)).collect();
    let trace = lines.first().map(|line| line.transaction.id.trace_text());
    let lines: Vec<Value> = lines.iter().map(|line| line_told(line, captures)).collect();
    json!({
        "trace": trace,
        "transactions": transactions.len(),
        "processes": processes.len(),
        "hosts": hosts,
        "missing": missing,
        "lines": lines,
    })
}

fn line_told(line: &Line<'_>, captures: bool) -> Value {
    let mut told = facts(line.transaction);
    told["depth"] = line.depth.into();
    told["is_last"] = line.last.into();
    told["unknown_parent"] = line.transaction.parent.filter(|_| line.stray).map(|parent| parent.to_string()).into();
    told["offset_ns"] = line.offset_ns.into();
    told["own_ns"] = line.parts.own_ns.into();
    told["children_ns"] = line.parts.children_ns.into();
    told["blocked_ns"] = line.parts.blocked_ns.into();
    told["queued_ns"] = line.parts.queued_ns.into();
    told["told"] = threads(line.transaction, captures).into_iter().chain(details(line.transaction)).collect();
    told
}

#[cfg(test)]
mod tests {
    use super::super::sample::one;
    use super::*;
    use weir_agent::protocol::{Switch, TopRow};
    use weir_agent::transaction::Status;

    #[test]
    fn a_tree_is_told_with_its_times_and_parts() {
        let mut all = [one(1, None, 0, 10_000_000), one(2, Some(1), 2_000_000, 3_000_000), one(3, Some(9), 0, 5)];
        all[1].status = Status::Failed;
        let told = told(&all, 3, true);
        assert_eq!((&told["trace"], &told["missing"]), (&format!("{:032x}", 7).into(), &3.into()));
        let lines = told["lines"].as_array().expect("lines");
        let child = lines.iter().find(|line| line["name"] == "t2").expect("the child");
        assert_eq!((&child["depth"], &child["offset_ns"]), (&1.into(), &2_000_000.into()));
        assert_eq!((&lines[0]["children_ns"], &lines[0]["own_ns"]), (&3_000_000.into(), &7_000_000.into()));
        assert_eq!((&child["is_failure"], &child["begin_unix_us"]), (&true.into(), &1_700_000_000_002_000_u64.into()));
        let stray = lines.iter().find(|line| line["name"] == "t3").expect("it is of its own");
        assert!(stray["unknown_parent"].is_string() && stray["told"][0] == "waits: not measured", "{stray}");
    }

    #[test]
    fn shares_of_time_add_up_to_all() {
        let row = |rate_per_s, mean_ns| TopRow {
            application: "shop".into(),
            transaction: "pay".into(),
            user: None,
            transactions: 1,
            rate_per_s,
            failed: 0,
            aborted: 0,
            mean_ns,
            p50_ns: 0,
            p90_ns: 0,
            p99_ns: 0,
            max_ns: 0,
            blocked_share: 0.0,
            parts: std::collections::BTreeMap::new(),
            running: 0,
            switch: Switch::On,
        };
        let top = Top { rows: vec![row(10.0, 100), row(1.0, 3_000)], ..Top::default() };
        assert_eq!(shares(&top), [0.25, 0.75]);
        assert_eq!(shares(&Top { rows: vec![row(0.0, 0)], ..Top::default() }), [0.0]);
    }
}
