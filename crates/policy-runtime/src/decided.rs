//! Which rules have decided about a request, for operators who watch it. Nothing here is on the way of other requests.

use rustc_hash::FxHashMap;
use std::mem::{Discriminant, discriminant};
use weir_adapt::{Decision, Order, Subject};
use weir_server::DecidedBy;

/// The rules whose orders loops carry out at present: which one refuses a share of what, and which one lets answers be
/// old.
#[derive(Debug, Clone, Default)]
pub(crate) struct InForce(FxHashMap<(Discriminant<Order>, Subject), DecidedBy>);

/// Whose orders are looked for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sought<'a> {
    pub(crate) path: &'a str,
    /// The pattern of its rules.
    pub(crate) glob: &'a str,
    /// The client by the name that rules know it by.
    pub(crate) client: &'a str,
    pub(crate) is_refused: bool,
}

impl InForce {
    /// An order for all requests of a subject begins to hold, or does not hold any more.
    pub(crate) fn note(&mut self, decision: &Decision, order: &Order, begins: bool) {
        if !matches!(order, Order::Shed { .. } | Order::Stale { .. }) {
            return;
        }
        let key = (discriminant(order), decision.subject.clone());
        if begins {
            self.0.insert(key, decided_by(decision, order.to_string()));
        } else {
            self.0.remove(&key);
        }
    }

    /// Those that hold for a request: of one that was refused the rules that refuse a share of its like, else those that
    /// let its answer be old.
    pub(crate) fn of(&self, sought: &Sought<'_>) -> Vec<DecidedBy> {
        let kind = if sought.is_refused { Order::Shed { percent: 0.0 } } else { Order::Stale { age_ms_max: 0 } };
        let subjects = [
            Subject::Atoms(sought.glob.to_owned()),
            Subject::Atom(sought.path.to_owned()),
            Subject::Client { client: sought.client.to_owned(), atoms: sought.glob.to_owned() },
        ];
        let found = subjects.into_iter().filter_map(|subject| self.0.get(&(discriminant(&kind), subject)));
        found.cloned().collect()
    }
}

/// What was decided for a session behind the first so many decisions.
pub(crate) fn of_session(decisions: &[Decision], session: u64, before: u64) -> Vec<DecidedBy> {
    let is_its = |subject: &Subject| matches!(subject, Subject::Session { number, .. } if *number == session);
    let its = decisions.iter().filter(|decision| decision.number > before && is_its(&decision.subject));
    let fired = its.filter(|decision| decision.outcome.is_fired());
    fired
        .map(|decision| {
            let orders: Vec<String> = decision.orders.iter().map(ToString::to_string).collect();
            decided_by(decision, orders.join(", "))
        })
        .collect()
}

/// What was decided last for a session.
pub(crate) fn last_of_session(decisions: &[Decision], session: u64) -> Option<DecidedBy> {
    let at = decisions.iter().rposition(|decision| {
        decision.outcome.is_fired() && matches!(decision.subject, Subject::Session { number, .. } if number == session)
    })?;
    of_session(&decisions[at..=at], session, 0).pop()
}

fn decided_by(decision: &Decision, orders: String) -> DecidedBy {
    DecidedBy { rule: decision.rule.clone(), file: decision.file.clone(), line: decision.line, orders }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_adapt::Outcome;

    fn decision(number: u64, rule: &str, subject: Subject, orders: Vec<Order>) -> Decision {
        Decision {
            number,
            at_ms: 0,
            rule: rule.into(),
            file: "a.policy".into(),
            line: 7,
            subject,
            outcome: Outcome::Fired,
            orders,
            readings: Vec::new(),
        }
    }

    fn names(found: &[DecidedBy]) -> Vec<&str> {
        found.iter().map(|by| by.rule.as_str()).collect()
    }

    #[test]
    fn orders_that_hold_are_found_by_what_they_are_for() {
        let (shed, stale) = (Order::Shed { percent: 25.0 }, Order::Stale { age_ms_max: 5000 });
        let client = |client: &str| Subject::Client { client: client.into(), atoms: "/a/*".into() };
        let mut in_force = InForce::default();
        for (rule, subject, order) in [
            ("all", Subject::Atoms("/a/*".into()), &shed),
            ("one", Subject::Atom("/a/b".into()), &shed),
            ("greedy", client("192.0.2.7"), &shed),
            ("old", Subject::Atoms("/a/*".into()), &stale),
            ("workers", Subject::Atoms("/a/*".into()), &Order::Workers { pool: "p".into(), workers: 3 }),
        ] {
            in_force.note(&decision(1, rule, subject, Vec::new()), order, true);
        }
        let sought = Sought { path: "/a/b", glob: "/a/*", client: "192.0.2.7", is_refused: true };
        assert_eq!(names(&in_force.of(&sought)), ["all", "one", "greedy"]);
        assert_eq!(in_force.of(&sought)[0].orders, "shed 25%");
        let other = Sought { path: "/a/c", client: "192.0.2.8", ..sought };
        assert_eq!(names(&in_force.of(&other)), ["all"]);
        assert_eq!(names(&in_force.of(&Sought { is_refused: false, ..sought })), ["old"]);
        in_force.note(&decision(2, "all", Subject::Atoms("/a/*".into()), Vec::new()), &shed, false);
        assert!(in_force.of(&other).is_empty());
    }

    #[test]
    fn what_was_decided_for_another_session_or_before_is_not_of_this_one() {
        let of = |number| Subject::Session { number, atom: "/a".into() };
        let choose = || vec![Order::Use { variant: "small".into() }];
        let mut decisions: Vec<Decision> =
            [(1, 5), (2, 6), (3, 5)].map(|(number, session)| decision(number, "pick", of(session), choose())).into();
        decisions[1].outcome = Outcome::Limited;
        let found = of_session(&decisions, 5, 1);
        assert_eq!((found.len(), found[0].orders.as_str(), found[0].line), (1, "use small", 7));
        decisions.push(decision(4, "back", of(5), choose()));
        assert_eq!(last_of_session(&decisions, 5).map(|by| by.rule), Some("back".to_owned()));
        assert!(last_of_session(&decisions, 6).is_none() && last_of_session(&[], 5).is_none());
        decisions.pop();
        assert!(of_session(&decisions, 6, 0).is_empty() && of_session(&decisions, 5, 3).is_empty());
    }
}
