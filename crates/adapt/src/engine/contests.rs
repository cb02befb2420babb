//! The methods of forecasts beside each other, for people who look: nothing here changes what is decided.

use super::context::EvalContext;
use super::intake::Engine;
use crate::forecast::{Contest, Forecast, METHODS, Said};
use crate::policy::Scope;
use crate::reading::AtomId;
use crate::state::{Scratch, Seen, State, Tracks};

/// Metrics of places on which methods are compared at most.
pub const CONTESTS_MAX: usize = 64;

/// The methods beside each other, by what they forecast.
#[derive(Debug, Clone, Default)]
pub struct Contests {
    all: Vec<Held>,
    /// Counts looks; what was looked at longest ago makes room.
    looks: u64,
}

#[derive(Debug, Clone)]
struct Held {
    metric: String,
    atom: Option<String>,
    contest: Contest,
    looked: u64,
}

/// Something that methods are compared on: the number of a metric, and an atom where it is of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Contested {
    metric: usize,
    atom: Option<AtomId>,
}

impl Contests {
    /// What each method said of a metric, of an atom where it is of one; `None` where they are not compared.
    pub fn of(&self, metric: &str, atom: Option<&str>) -> Option<[Said; METHODS]> {
        let held = self.all.iter().find(|held| held.metric == metric && held.atom.as_deref() == atom)?;
        Some(held.contest.said())
    }

    /// On how many series methods are compared.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    fn held(&mut self, metric: &str, atom: Option<&str>, new: impl FnOnce() -> Contest) -> &mut Contest {
        self.looks += 1;
        let known = self.all.iter().position(|held| held.metric == metric && held.atom.as_deref() == atom);
        let at = known.unwrap_or_else(|| {
            if self.all.len() >= CONTESTS_MAX {
                let oldest = (0..self.all.len()).min_by_key(|at| self.all[*at].looked);
                oldest.into_iter().for_each(|at| drop(self.all.swap_remove(at)));
            }
            let (metric, atom) = (metric.to_owned(), atom.map(str::to_owned));
            self.all.push(Held { metric, atom, contest: new(), looked: 0 });
            self.all.len() - 1
        });
        self.all[at].looked = self.looks;
        &mut self.all[at].contest
    }
}

impl Engine {
    /// What methods can be compared on: each metric that rules predict of nodes, pools and these atoms, at most
    /// [`CONTESTS_MAX`] in all; and how many there were more.
    pub fn contested(&self, atoms: &[AtomId]) -> (Vec<Contested>, usize) {
        let mut all = Vec::new();
        for (metric, of) in self.policy.metrics.iter().enumerate().filter(|(_, of)| of.predicted.is_some()) {
            match of.scope {
                // They are over before much is learnt of their forecasts.
                Scope::Session | Scope::Client => {}
                Scope::Atom => all.extend(atoms.iter().map(|atom| Contested { metric, atom: Some(*atom) })),
                _ => all.push(Contested { metric, atom: None }),
            }
        }
        let over = all.len().saturating_sub(CONTESTS_MAX);
        all.truncate(CONTESTS_MAX);
        (all, over)
    }

    /// Has the methods forecast one of these, and judges by the present what they said before.
    pub fn contest(&self, now_ms: u64, state: &State, of: Contested, contests: &mut Contests) {
        let Some(metric) = self.policy.metrics.get(of.metric) else { return };
        let Some(predicted) = metric.predicted else { return };
        let atom = match of.atom.map(|id| (id, state.atoms.get(id.0 as usize))) {
            Some((id, Some(atom))) => Some((id, atom)),
            Some((_, None)) => return,
            None => None,
        };
        let seen = atom.map_or_else(Seen::default, |(id, atom)| Seen::atom(id.0 as usize, atom));
        let path = atom.map(|(_, atom)| atom.path.as_str());
        let contest = contests.held(&metric.text, path, || Contest::new(self.method));
        let (mut scratch, mut tracks) = (Scratch::default(), Tracks::default());
        scratch.begin(self.policy.metrics.len());
        let State { store, nodes, .. } = state;
        let (scratch, tracks) = (&mut scratch, &mut tracks);
        let mut context =
            EvalContext { engine: self, now_ms, store, nodes, tracks, scratch, seen: &seen, by: Some(self.method) };
        let present = context.present(of.metric).ok();
        if let Some(present) = present {
            contest.came(present.at_ms, present.late_ms, present.value);
        }
        contest.look(now_ms, predicted.in_ms, self.method, |method| {
            context.by = Some(method);
            // What another method said is no answer of this one.
            context.scratch.begin(self.policy.metrics.len());
            let value = context.value(of.metric).ok()?;
            Some(Forecast { value: value.value, fit: value.fit? })
        });
    }
}
