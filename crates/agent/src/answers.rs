//! What the agent answers.

use crate::folds::{Cell, Whose};
use crate::host;
use crate::intake::Intake;
use crate::protocol::{AgentStatus, Answer, Ask, By, ClassLine, List, Refused, Switch, Top, TopRow};
use crate::waits::CaptureStatus;
use std::collections::{BTreeMap, HashMap};
use weir_measure::part::{Part, PartTimes};

const MOST_ROWS: usize = 1000;
const MOST_REFUSED: usize = 100;

pub(crate) fn answer(intake: &mut Intake, ask: &Ask) -> Answer {
    if matches!(ask, Ask::List | Ask::Top { .. }) {
        intake.round_off(host::now_ns());
    }
    match ask {
        Ask::Status => Answer::Status(Box::new(status(intake))),
        Ask::List => Answer::List(list(intake)),
        Ask::Top { seconds, by } => Answer::Top(top(intake, *seconds, *by)),
        Ask::Switches => Answer::Switches { rules: intake.state.rules.each().to_vec() },
        Ask::Switch { application, transaction, to } => switch(intake, application, transaction.as_deref(), *to),
        // Asked elsewhere: the answer needs the keeper, or a queue.
        Ask::Show { .. } | Ask::Kept { .. } | Ask::Tail(_) => {
            Answer::Error { message: "this is asked otherwise".to_owned() }
        }
    }
}

pub(crate) fn status(intake: &Intake) -> AgentStatus {
    let mut counts = intake.counts;
    counts.add(&intake.state.counts);
    let refused = intake.refused().take(MOST_REFUSED);
    AgentStatus {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        pid: std::process::id(),
        host: intake.state.host.clone(),
        directory: intake.parts.directory.path().display().to_string(),
        up_s: intake.up_ns() as f64 / 1e9,
        cpu_ns: host::cpu_ns(),
        resident_bytes: host::resident_bytes(),
        processes: intake.clients.len() as u32,
        running: intake.clients.values().map(|client| client.pairing().running_count() as u64).sum(),
        subscribers: intake.state.subscribers.len() as u32,
        counts,
        refused: refused.map(|(at, reason)| Refused { announcement: at.name(), reason: reason.to_owned() }).collect(),
        capture: intake.state.waits.as_ref().map(|waits| {
            let [measured, not_measured] = intake.state.measured;
            CaptureStatus { measured, not_measured, ..waits.status() }
        }),
        warnings: intake.warnings(),
    }
}

fn list(intake: &Intake) -> List {
    let mut processes: HashMap<u32, u32> = HashMap::new();
    for client in intake.clients.values() {
        let mut classes: Vec<u32> = client.classes().collect();
        classes.sort_unstable();
        classes.dedup();
        classes.into_iter().for_each(|class| *processes.entry(class).or_default() += 1);
    }
    let state = &intake.state;
    let known =
        state.classes.each().filter(|(number, class)| processes.contains_key(number) || class.outcomes.all() > 0);
    let mut classes: Vec<ClassLine> = known
        .map(|(number, class)| ClassLine {
            application: class.application.to_string(),
            transaction: class.transaction.to_string(),
            processes: processes.get(&number).copied().unwrap_or(0),
            transactions: class.outcomes.all(),
            failed: class.outcomes.failed.saturating_add(class.outcomes.unfinished),
            switch: state.rules.of(&class.application, &class.transaction),
        })
        .collect();
    classes.sort_by(|one, other| (&one.application, &one.transaction).cmp(&(&other.application, &other.transaction)));
    let mut processes: Vec<_> = intake.clients.values().map(crate::client::Client::line).collect();
    processes.sort_by_key(|process| process.pid);
    List { classes, processes }
}

fn top(intake: &Intake, seconds: u32, by: By) -> Top {
    let key = |whose: &Whose| (whose.class, if by == By::User { whose.user.clone() } else { None });
    let (sums, of_ns) = intake.minute.sum(seconds.clamp(5, 60), host::now_ns(), key);
    let mut running: HashMap<u32, u32> = HashMap::new();
    if by == By::Class {
        for client in intake.clients.values() {
            for one in client.pairing().running() {
                *running.entry(client.class(usize::from(one.transaction))).or_default() += 1;
            }
        }
    }
    let of_s = (of_ns as f64 / 1e9).max(1e-3);
    let classes: HashMap<u32, &crate::classes::Class> = intake.state.classes.each().collect();
    let mut rows: Vec<TopRow> = Vec::new();
    let idle = running.keys().filter(|class| by == By::Class && !sums.contains_key(&(**class, None)));
    let nothing = Cell::default();
    let idle = idle.map(|class| ((*class, None), &nothing));
    let each = sums.iter().map(|(key, cell)| (key.clone(), cell)).chain(idle);
    for ((number, user), cell) in each {
        let Some(class) = classes.get(&number) else { continue };
        let transactions = cell.outcomes.all();
        let sum_ns = cell.durations.sum_ns();
        rows.push(TopRow {
            application: class.application.to_string(),
            transaction: class.transaction.to_string(),
            user: user.as_deref().map(str::to_owned),
            transactions,
            rate_per_s: transactions as f64 / of_s,
            failed: cell.outcomes.failed.saturating_add(cell.outcomes.unfinished),
            aborted: cell.outcomes.aborted,
            mean_ns: cell.durations.mean_ns(),
            p50_ns: cell.durations.quantile_ns(0.5),
            p90_ns: cell.durations.quantile_ns(0.9),
            p99_ns: cell.durations.quantile_ns(0.99),
            max_ns: cell.durations.max_ns(),
            blocked_share: if sum_ns == 0 { 0.0 } else { cell.blocked_ns as f64 / sum_ns as f64 },
            parts: cell.parts.as_deref().map(shares).unwrap_or_default(),
            running: running.get(&number).copied().unwrap_or(0),
            switch: if by == By::Class {
                intake.state.rules.of(&class.application, &class.transaction)
            } else {
                Switch::On
            },
        });
    }
    rows.sort_by(|one, other| {
        let names = |row: &TopRow| (row.application.clone(), row.transaction.clone(), row.user.clone());
        other.transactions.cmp(&one.transactions).then_with(|| names(one).cmp(&names(other)))
    });
    let more = rows.len().saturating_sub(MOST_ROWS) as u32;
    rows.truncate(MOST_ROWS);
    Top { seconds: of_s, rows, more, processes: intake.clients.len() as u32, lost: intake.counts.lost() }
}

/// Parts as shares of their sum, by name.
fn shares(parts: &PartTimes) -> BTreeMap<String, f64> {
    let all = parts.iter().fold(0u64, |all, ns| all.saturating_add(*ns)).max(1);
    let each = Part::ALL.iter().zip(parts).filter(|(_, ns)| **ns > 0);
    each.map(|(part, ns)| (part.name().to_owned(), *ns as f64 / all as f64)).collect()
}

fn switch(intake: &mut Intake, application: &str, transaction: Option<&str>, to: Option<Switch>) -> Answer {
    if let Err(error) = intake.state.rules.set(application, transaction, to) {
        return Answer::Error { message: error.to_string() };
    }
    let warning = intake.state.rules.keep().err().map(|error| error.to_string());
    let (mut processes, mut definitions) = (0, 0);
    for client in intake.clients.values() {
        let changed = client.set_switches(&intake.state);
        processes += u32::from(changed > 0);
        definitions += changed;
    }
    Answer::Switched { processes, definitions, rules: intake.state.rules.each().to_vec(), warning }
}
