//! The agent with clients that are written word by word.
// scripts/test: serves

mod damage;
mod figures;
mod kills;
mod library;
mod memory;
mod notes;
mod transactions;
mod writer;

use std::path::Path;
use std::time::{Duration, Instant};
use weir_agent::protocol::{AgentStatus, Answer, Ask, List, Top};
use weir_agent::transaction::Transaction;
use weir_agent::{Agent, Settings, Subscription};

/// An agent of a directory of its own, which looks often.
pub(crate) fn settings(directory: &Path) -> Settings {
    Settings {
        directory: directory.to_owned(),
        host: "here".to_owned(),
        beat: Duration::from_millis(10),
        batch: Duration::from_millis(100),
        ..Settings::default()
    }
}

pub(crate) fn agent(directory: &Path) -> Agent {
    Agent::start(settings(directory), None, None).expect("it starts")
}

pub(crate) fn status(agent: &Agent) -> AgentStatus {
    match agent.ask(Ask::Status) {
        Answer::Status(status) => *status,
        other => panic!("{other:?}"),
    }
}

pub(crate) fn top(agent: &Agent) -> Top {
    match agent.ask(Ask::Top { seconds: 60, by: weir_agent::protocol::By::Class }) {
        Answer::Top(top) => top,
        other => panic!("{other:?}"),
    }
}

pub(crate) fn list(agent: &Agent) -> List {
    match agent.ask(Ask::List) {
        Answer::List(list) => list,
        other => panic!("{other:?}"),
    }
}

/// Waits until something holds; it has ten seconds.
pub(crate) fn wait_for(what: &str, mut holds: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_secs(10);
    while !holds() {
        assert!(Instant::now() < until, "{what}: it does not come");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// The next transactions of a subscription.
pub(crate) fn next(subscription: &Subscription, count: usize) -> Vec<Transaction> {
    let mut found = Vec::new();
    wait_for("transactions", || {
        found.extend(subscription.take(Duration::from_millis(20)).iter().map(|it| Transaction::clone(it)));
        found.len() >= count
    });
    assert_eq!(found.len(), count, "{found:#?}");
    found
}
