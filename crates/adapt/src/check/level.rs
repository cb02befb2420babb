//! For whom a rule is looked at, and where metrics are measured.

use crate::language::syntax::{ActKind, Metric, Rule, When};
use crate::reading::Where;

/// For whom a rule is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Level {
    /// Once for each request or session, as it starts.
    Start,
    /// For each session, as it moves sessions or reads their links.
    Session,
    /// For each client, as it reads how much these ask for.
    Client,
    /// For each atom, as it reads atoms.
    Atom,
    /// Once, for all atoms that it is for together.
    Block,
}

/// For whom a rule is looked at: what it reads and does tells that.
pub(crate) fn level(rule: &Rule) -> Level {
    if rule.when == When::Start {
        return Level::Start;
    }
    let acts = rule.branches.iter().flat_map(|branch| &branch.acts);
    let for_sessions = acts.map(|act| &act.kind).any(|kind| {
        matches!(
            kind,
            ActKind::Best { .. } | ActKind::Switch(_) | ActKind::NextDown | ActKind::NextUp | ActKind::Use(_)
        )
    });
    let (mut sessions, mut clients, mut atoms) = (for_sessions, false, false);
    let conditions = rule.branches.iter().filter_map(|branch| branch.condition.as_ref());
    for condition in conditions.chain(&rule.stability.until) {
        condition.each(&mut |test| match scope(&test.metric) {
            Where::Session => sessions = true,
            Where::Client => clients = true,
            Where::Atom => atoms = true,
            Where::Node => {}
        });
    }
    if sessions {
        Level::Session
    } else if clients {
        Level::Client
    } else if atoms {
        Level::Atom
    } else {
        Level::Block
    }
}

/// Where a metric is measured.
pub(crate) fn scope(metric: &Metric) -> Where {
    match metric.scope.as_ref().map(|scope| &*scope.text) {
        Some("client") => metric.resource.place_at_clients(),
        Some("atom") => Where::Atom,
        Some(_) => Where::Node,
        None => metric.resource.usual_place(),
    }
}
