//! What an engine is at, for people who look: nothing here changes what it decides.

use super::context::EvalContext;
use super::intake::{Engine, ForecastErrors};
use crate::decision::{Cited, Subject};
use crate::forecast::{Errors, Method};
use crate::policy::Scope;
use crate::reading::{AtomId, Resource, Where};
use crate::series::Unknown;
use crate::state::{Instance, Scratch, Seen, State, Tracks};

/// A rule that has fired and was not released yet.
#[derive(Debug, Clone, PartialEq)]
pub struct Active {
    /// The rule's name.
    pub rule: String,
    /// Its line, from 1.
    pub line: usize,
    /// For whom it fired.
    pub subject: Subject,
    /// When, in milliseconds of the clock of ticks.
    pub since_ms: u64,
    /// What its condition reads now, and what its `until` waits for.
    pub readings: Vec<Cited>,
}

/// A forecast of the present.
#[derive(Debug, Clone, PartialEq)]
pub struct ForecastNow {
    /// The metric as the policy has it.
    pub metric: String,
    /// What its values measure.
    pub resource: Resource,
    /// The atom's path, where it is of one.
    pub atom: Option<String>,
    /// How it is made.
    pub method: Method,
    /// The value and how well it fits the past (R2), or why there is none.
    pub value: Result<(f64, f64), Unknown>,
    /// How wrong earlier ones were, of all places.
    pub errors: Errors,
}

impl Engine {
    /// How far back some rule looks at a resource of such a place, in milliseconds; `None`: no rule asks for it.
    pub fn window_ms(&self, resource: Resource, place: Where) -> Option<u64> {
        self.windows[place as usize][resource.index()]
    }

    /// Rules that are active, at most so many.
    pub fn active(&self, now_ms: u64, state: &State, most: usize) -> Vec<Active> {
        let policy = &self.policy;
        // Nearly all are at rest: of these nothing is looked up.
        let of =
            |(instance, rule): (&Instance, usize), seen: &dyn Fn() -> Seen| Some((instance.active()?, rule, seen()));
        let own = state.own.iter().zip(policy.own_rules.iter().copied()).filter_map(|(instance, rule)| {
            let subject = || Subject::Atoms(policy.blocks[policy.rules[rule].block].glob.text().to_owned());
            of((instance, rule), &Seen::default).map(|found| (found, subject()))
        });
        let atoms = state.atoms.iter().enumerate().flat_map(|(at, atom)| {
            let rules = atom.block.map_or(&[][..], |block| &policy.blocks[block as usize].atom_rules);
            atom.instances.iter().zip(rules.iter().copied()).filter_map(move |one| {
                of(one, &|| Seen::atom(at, atom)).map(|found| (found, Subject::Atom(atom.path.clone())))
            })
        });
        let sessions = state.sessions.iter().flatten().flat_map(|session| {
            let atom = &state.atoms[session.atom.0 as usize];
            let rules = atom.block.map_or(&[][..], |block| &policy.blocks[block as usize].session_rules);
            session.instances.iter().zip(rules.iter().copied()).filter_map(move |one| {
                let subject = || Subject::Session { number: session.number, atom: atom.path.clone() };
                of(one, &|| Seen::session(session, &state.atoms, &state.clients)).map(|found| (found, subject()))
            })
        });
        let clients = state.clients.values().flat_map(|client| {
            client.parts.iter().zip(policy.client_blocks.iter()).flat_map(move |(part, &block)| {
                let block = &policy.blocks[block];
                part.instances.iter().zip(block.client_rules.iter().copied()).filter_map(move |one| {
                    let (name, atoms) = (&client.name, block.glob.text());
                    let subject = || Subject::Client { client: name.clone(), atoms: atoms.to_owned() };
                    of(one, &|| Seen::client(client)).map(|found| (found, subject()))
                })
            })
        });
        let (mut scratch, mut tracks) = (Scratch::default(), Tracks::default());
        scratch.begin(policy.metrics.len());
        let told = |(((branch, since_ms), rule, seen), subject): (((u32, u64), usize, Seen), Subject)| {
            let rule = &policy.rules[rule];
            let State { store, nodes, .. } = state;
            scratch.next_subject();
            let mut context = EvalContext {
                engine: self,
                now_ms,
                store,
                nodes,
                tracks: &mut tracks,
                scratch: &mut scratch,
                seen: &seen,
                by: None,
            };
            let mut readings = Vec::new();
            let condition = rule.branches.get(branch as usize).and_then(|branch| branch.condition.as_ref());
            condition.into_iter().chain(&rule.until).for_each(|test| context.cite(test, &mut readings));
            Active { rule: rule.name.clone(), line: rule.line, subject, since_ms, readings }
        };
        own.chain(atoms).chain(clients).chain(sessions).take(most).map(told).collect()
    }

    /// What is forecast now: of nodes and pools, and of these atoms.
    pub fn forecasts(&self, now_ms: u64, state: &State, atoms: &[AtomId]) -> Vec<ForecastNow> {
        let errors = self.forecast_errors(state);
        let predicted = self.policy.metrics.iter().enumerate().filter(|(_, metric)| metric.predicted.is_some());
        let known = |id: &AtomId| Some((*id, state.atoms.get(id.0 as usize)?));
        let atoms: Vec<_> = atoms.iter().filter_map(known).map(Some).collect();
        let (mut scratch, mut tracks, mut all) = (Scratch::default(), Tracks::default(), Vec::new());
        for ((number, metric), ForecastErrors { errors, .. }) in predicted.zip(errors) {
            let of = match metric.scope {
                Scope::Session | Scope::Client => continue,
                Scope::Atom if !atoms.is_empty() => &atoms[..],
                _ => &[None],
            };
            for of in of {
                scratch.begin(self.policy.metrics.len());
                let seen = of.map_or_else(Seen::default, |(id, atom)| Seen::atom(id.0 as usize, atom));
                let State { store, nodes, .. } = state;
                // What an evaluation notes of its forecasts goes into tracks of its own, so that decisions stay what they are.
                let (scratch, tracks, seen) = (&mut scratch, &mut tracks, &seen);
                let mut context = EvalContext { engine: self, now_ms, store, nodes, tracks, scratch, seen, by: None };
                let value = context.value(number).map(|value| (value.value, value.fit.unwrap_or(0.0)));
                all.push(ForecastNow {
                    metric: metric.text.clone(),
                    resource: metric.resource,
                    atom: of.map(|(_, atom)| atom.path.clone()),
                    method: self.method,
                    value,
                    errors,
                });
            }
        }
        all
    }
}
