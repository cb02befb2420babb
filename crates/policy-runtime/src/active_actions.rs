//! Carries out orders, and knows which of them hold at the moment.

use crate::decided::InForce;
use crate::rulebook::variant_of;
use crate::server_actions::ServerActions;
use crate::shed::Shed;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::hash::Hash;
use std::sync::Arc;
use weir_adapt::{Decision, Order, Outcome, Policy, Subject};

/// Loops that orders may ask for beside the usual ones.
const LOOPS_MORE_MAX: usize = 64;

/// Orders that hold.
#[derive(Debug, Default)]
pub(crate) struct ActiveActions {
    pub(crate) sheds: FxHashMap<String, Arc<Shed>>,
    pub(crate) atom_sheds: FxHashMap<String, Arc<Shed>>,
    /// Of clients, of what they ask for of a pattern: by the client's name and the pattern.
    pub(crate) client_sheds: FxHashMap<(String, String), Arc<Shed>>,
    /// How old answers may be, in milliseconds: of patterns, and of single atoms.
    pub(crate) stale_ms: FxHashMap<String, u64>,
    pub(crate) atom_stale_ms: FxHashMap<String, u64>,
    /// The rules that have ordered these.
    pub(crate) by_rules: InForce,
    /// Copies beyond the first, by pattern or path; each is one more loop.
    copies: BTreeMap<String, u32>,
    /// Nodes of the pools that serve as well, by pattern or path.
    spreads: BTreeMap<String, u32>,
    /// By how many nodes each pool has grown.
    grown: BTreeMap<String, u32>,
    loops_more: u32,
    /// Workers of upstreams, by their names.
    workers: BTreeMap<String, u32>,
}

/// What came of orders beside what the server does.
#[derive(Debug, Default)]
pub(crate) struct Outcomes {
    /// Texts of alerts.
    pub(crate) alerts: Vec<String>,
    /// Sessions with their atoms and the variants that they go on with, and the number of the decision.
    pub(crate) variants: Vec<(u64, String, String, u64)>,
    /// Whether loops are to answer otherwise than before: refuse other shares, or what may be old.
    pub(crate) advice_changed: bool,
}

impl ActiveActions {
    /// Carries out what was decided. On one node its loops stand for the nodes of pools.
    pub(crate) fn carry_out(
        &mut self,
        decisions: &[Decision],
        policy: &Policy,
        actions: Option<&dyn ServerActions>,
    ) -> Outcomes {
        let mut outcomes = Outcomes::default();
        for decision in decisions {
            let begins = match decision.outcome {
                Outcome::Fired => true,
                // Of a rule that was superseded those are told that no other rule has taken over.
                Outcome::Released | Outcome::Superseded => false,
                _ => continue,
            };
            for order in &decision.orders {
                self.by_rules.note(decision, order, begins);
                self.order(order, decision, begins, policy, actions, &mut outcomes);
            }
        }
        self.spread(actions);
        outcomes
    }

    fn order(
        &mut self,
        order: &Order,
        decision: &Decision,
        begins: bool,
        policy: &Policy,
        actions: Option<&dyn ServerActions>,
        outcomes: &mut Outcomes,
    ) {
        match (&decision.subject, order) {
            (_, Order::Alert { text }) => outcomes.alerts.extend(begins.then(|| text.clone())),
            (Subject::Session { number, atom }, order) => {
                let variant = variant_of(order).filter(|_| begins);
                let variant = variant.map(|variant| (*number, atom.clone(), variant.to_owned(), decision.number));
                outcomes.variants.extend(variant);
            }
            (Subject::Client { client, atoms }, Order::Shed { percent }) => {
                put(&mut self.client_sheds, (client.clone(), atoms.clone()), begins, || Arc::new(Shed::new(*percent)));
                outcomes.advice_changed = true;
            }
            // The checker keeps the others out of rules for clients.
            (Subject::Client { .. }, _) => {}
            (Subject::Atoms(of) | Subject::Atom(of), Order::Shed { percent }) => {
                let of_atom = matches!(decision.subject, Subject::Atom(_));
                let sheds = if of_atom { &mut self.atom_sheds } else { &mut self.sheds };
                put(sheds, of.clone(), begins, || Arc::new(Shed::new(*percent)));
                outcomes.advice_changed = true;
            }
            (Subject::Atoms(of) | Subject::Atom(of), Order::Stale { age_ms_max }) => {
                let of_atom = matches!(decision.subject, Subject::Atom(_));
                let ages = if of_atom { &mut self.atom_stale_ms } else { &mut self.stale_ms };
                put(ages, of.clone(), begins, || *age_ms_max);
                outcomes.advice_changed = true;
            }
            (Subject::Atoms(of) | Subject::Atom(of), order) => self.order_loops(order, of, begins, policy, actions),
        }
    }

    /// What is ordered of the loops for atoms, by their pattern or path: copies, loops that serve as well, and growth.
    fn order_loops(
        &mut self,
        order: &Order,
        of: &str,
        begins: bool,
        policy: &Policy,
        actions: Option<&dyn ServerActions>,
    ) {
        let nodes = |pool: &String| policy.pool_nodes(pool).unwrap_or(0).min(LOOPS_MORE_MAX) as u32;
        match order {
            Order::Replicate { copies, pool } if begins => {
                self.copies.insert(of.to_owned(), (copies.saturating_sub(1)).min(nodes(pool)));
                if let Some(actions) = actions {
                    actions.pin(of);
                    actions.warm(of);
                }
            }
            Order::Replicate { .. } => {
                self.copies.remove(of);
                if let Some(actions) = actions {
                    actions.unpin(of);
                }
            }
            Order::Spread { pool } if begins => drop(self.spreads.insert(of.to_owned(), nodes(pool))),
            Order::Spread { .. } => drop(self.spreads.remove(of)),
            Order::Grow { pool, by } if begins => {
                let grown = self.grown.entry(pool.clone()).or_default();
                *grown = grown.saturating_add(*by).min(nodes(pool));
            }
            Order::Shrink { pool, by } if begins => {
                let grown = self.grown.entry(pool.clone()).or_default();
                *grown = grown.saturating_sub(*by);
            }
            Order::Workers { pool, workers } => {
                for upstream in policy.pool_members(pool) {
                    if begins {
                        self.workers.insert(upstream.to_owned(), *workers);
                    } else {
                        self.workers.remove(upstream);
                    }
                    if let Some(actions) = actions {
                        actions.workers(upstream, begins.then_some(*workers));
                    }
                }
            }
            // Growth lasts until it is taken back; the others have nothing to do with loops.
            _ => {}
        }
    }

    /// The loops that all orders together ask for: of copies and pools that serve, too, the most, and what has grown.
    fn spread(&mut self, actions: Option<&dyn ServerActions>) {
        let most = self.copies.values().chain(self.spreads.values()).copied().max().unwrap_or(0);
        let grown: u32 = self.grown.values().sum();
        let loops_more = (most + grown).min(LOOPS_MORE_MAX as u32);
        if loops_more != self.loops_more {
            self.loops_more = loops_more;
            if let Some(actions) = actions {
                actions.spread(loops_more);
            }
        }
    }

    pub(crate) fn loops_more(&self) -> u32 {
        self.loops_more
    }

    /// Takes back everything: the rules that ordered it are no more.
    pub(crate) fn take_back(&mut self, actions: Option<&dyn ServerActions>) {
        actions.iter().for_each(|actions| self.copies.keys().for_each(|glob| actions.unpin(glob)));
        actions.iter().for_each(|actions| self.workers.keys().for_each(|upstream| actions.workers(upstream, None)));
        let loops_more = self.loops_more;
        *self = Self { loops_more, ..Self::default() };
        self.spread(actions);
    }

    /// Has upstreams use the workers that are ordered, also those that a reload has made anew.
    pub(crate) fn hold_workers(&self, actions: Option<&dyn ServerActions>) {
        if let Some(actions) = actions {
            self.workers.iter().for_each(|(upstream, workers)| actions.workers(upstream, Some(*workers)));
        }
    }

    /// Has the loops take up an order, with which they take up that other rules hold.
    pub(crate) fn say_again(&self, actions: Option<&dyn ServerActions>) {
        actions.iter().for_each(|actions| actions.spread(self.loops_more));
    }
}

/// Puts what begins to hold among what holds, and removes what does not hold any more.
fn put<K: Eq + Hash, V>(holds: &mut FxHashMap<K, V>, of: K, begins: bool, what: impl FnOnce() -> V) {
    if begins {
        holds.insert(of, what());
    } else {
        holds.remove(&of);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    #[derive(Default)]
    struct Noted(Mutex<Vec<String>>);

    impl Noted {
        fn note(&self, what: String) {
            self.0.lock().expect("one thread").push(what);
        }
    }

    impl ServerActions for Noted {
        fn pin(&self, glob: &str) {
            self.note(format!("pin {glob}"));
        }
        fn unpin(&self, glob: &str) {
            self.note(format!("unpin {glob}"));
        }
        fn warm(&self, glob: &str) {
            self.note(format!("warm {glob}"));
        }
        fn spread(&self, loops_more: u32) {
            self.note(format!("spread {loops_more}"));
        }
        fn workers(&self, upstream: &str, workers: Option<u32>) {
            self.note(format!("workers {upstream} {workers:?}"));
        }
    }

    fn decision(outcome: Outcome, orders: Vec<Order>) -> Decision {
        Decision {
            number: 1,
            at_ms: 0,
            rule: "r".into(),
            file: "f".into(),
            line: 1,
            subject: Subject::Atoms("/news/*".into()),
            outcome,
            orders,
            readings: Vec::new(),
        }
    }

    #[test]
    fn what_is_ordered_is_done_and_what_is_released_is_undone() {
        let text = "pool main = { n1, b, c }; pool spare = { d, e };\n\
                    atom \"/news/*\" { rule r: every 5s if cpu > 90% then replicate to 3 on main until cpu < 50%; }";
        let (policy, _) = Policy::read("x.policy", text).unwrap_or_else(|mistakes| panic!("{mistakes:?}"));
        let (actions, mut active_actions) = (Noted::default(), ActiveActions::default());
        let said = |actions: &Noted| std::mem::take(&mut *actions.0.lock().expect("one thread"));
        let orders = vec![
            Order::Replicate { copies: 3, pool: "main".into() },
            Order::Spread { pool: "spare".into() },
            Order::Shed { percent: 5.0 },
            Order::Stale { age_ms_max: 30_000 },
            Order::Alert { text: "hot".into() },
        ];
        let outcomes = active_actions.carry_out(&[decision(Outcome::Fired, orders.clone())], &policy, Some(&actions));
        assert_eq!(said(&actions), ["pin /news/*", "warm /news/*", "spread 2"]);
        assert_eq!((outcomes.alerts.len(), outcomes.advice_changed, active_actions.sheds.len()), (1, true, 1));
        assert_eq!(active_actions.stale_ms.get("/news/*"), Some(&30_000));
        let grow = vec![Order::Grow { pool: "spare".into(), by: 9 }];
        active_actions.carry_out(&[decision(Outcome::Fired, grow)], &policy, Some(&actions));
        assert_eq!(said(&actions), ["spread 4"], "a pool has no more nodes than it has");
        let outcomes = active_actions.carry_out(&[decision(Outcome::Released, orders)], &policy, Some(&actions));
        assert_eq!((outcomes.alerts.len(), active_actions.sheds.len(), active_actions.stale_ms.len()), (0, 0, 0));
        assert_eq!(said(&actions), ["unpin /news/*", "spread 2"]);
        active_actions.take_back(Some(&actions));
        assert_eq!(said(&actions), ["spread 0"]);
        // What one client loses is its own.
        let greedy = |outcome, client: &str| {
            let subject = Subject::Client { client: client.into(), atoms: "/news/*".into() };
            Decision { subject, ..decision(outcome, vec![Order::Shed { percent: 90.0 }]) }
        };
        let fired = ["192.0.2.7", "192.0.2.8"].map(|client| greedy(Outcome::Fired, client));
        assert!(active_actions.carry_out(&fired, &policy, Some(&actions)).advice_changed);
        assert_eq!(
            (active_actions.client_sheds.len(), active_actions.sheds.len(), active_actions.atom_sheds.len()),
            (2, 0, 0)
        );
        active_actions.carry_out(&[greedy(Outcome::Released, "192.0.2.7")], &policy, Some(&actions));
        assert_eq!(active_actions.client_sheds.keys().map(|(client, _)| &**client).collect::<Vec<_>>(), ["192.0.2.8"]);
    }

    #[test]
    fn workers_are_ordered_of_each_upstream_of_a_pool_until_the_release() {
        let text = "pool apps = { php, shop };\n\
                    atom \"/**\" { rule r: every 1s if queue@php > 3jobs then workers 9 of apps until queue@php < 1jobs; }";
        let (policy, _) = Policy::read("x.policy", text).unwrap_or_else(|mistakes| panic!("{mistakes:?}"));
        let (actions, mut active_actions) = (Noted::default(), ActiveActions::default());
        let said = |actions: &Noted| std::mem::take(&mut *actions.0.lock().expect("one thread"));
        let order = || vec![Order::Workers { pool: "apps".into(), workers: 9 }];
        active_actions.carry_out(&[decision(Outcome::Fired, order())], &policy, Some(&actions));
        assert_eq!(said(&actions), ["workers php Some(9)", "workers shop Some(9)"]);
        active_actions.hold_workers(Some(&actions));
        assert_eq!(said(&actions).len(), 2, "a reload may have forgotten them");
        active_actions.carry_out(&[decision(Outcome::Released, order())], &policy, Some(&actions));
        assert_eq!(said(&actions), ["workers php None", "workers shop None"]);
        active_actions.carry_out(&[decision(Outcome::Fired, order())], &policy, Some(&actions));
        active_actions.take_back(Some(&actions));
        assert_eq!(said(&actions)[2..], ["workers php None", "workers shop None"]);
        active_actions.hold_workers(Some(&actions));
        assert!(said(&actions).is_empty());
    }

    #[test]
    fn what_a_superseded_rule_had_ordered_beside_is_undone() {
        let text = "pool main = { n1, b, c }; pool spare = { d, e }; pool more = { f };\n\
                    atom \"/news/*\" { rule r: every 5s if cpu > 90% then replicate to 3 on main until cpu < 50%; }";
        let (policy, _) = Policy::read("x.policy", text).unwrap_or_else(|mistakes| panic!("{mistakes:?}"));
        let (actions, mut active_actions) = (Noted::default(), ActiveActions::default());
        let copies = Order::Replicate { copies: 3, pool: "main".into() };
        let spread = |pool: &str| Order::Spread { pool: pool.into() };
        let first = decision(Outcome::Fired, vec![copies.clone(), spread("spare")]);
        active_actions.carry_out(&[first], &policy, Some(&actions));
        let second = decision(Outcome::Fired, vec![spread("more")]);
        active_actions.carry_out(&[second, decision(Outcome::Superseded, vec![copies])], &policy, Some(&actions));
        let said = actions.0.lock().expect("one thread").clone();
        assert_eq!(said, ["pin /news/*", "warm /news/*", "spread 2", "unpin /news/*", "spread 1"]);
        assert!(active_actions.copies.is_empty());
    }
}
