//! What new rules take over from the former ones: readings, their seasons, and the errors of forecasts. So a forecast
//! of a day does not begin anew when a policy is read again.

use super::intake::Engine;
use crate::log::{Entry, Owner, Recorded};
use crate::reading::{AtomId, Of, Reading, Resource, Where};
use crate::state::{Slots, State};

impl Engine {
    /// The known readings of nodes and of these atoms that some rule of this engine asks for, as entries that can be
    /// told to it and recorded. There are at most `most` entries; those of one node or atom come all or not at all.
    /// Sessions and clients come and go, so they begin anew.
    pub fn handed(&self, former: &State, atoms: &[AtomId], most: usize) -> Vec<Entry> {
        let nodes = former.nodes.iter().map(|node| (Where::Node, Owner::Node(node.name.clone()), node.slots()));
        let atoms = atoms.iter().filter_map(|id| former.atoms.get(id.0 as usize));
        let atoms = atoms.map(|atom| (Where::Atom, Owner::Atom(atom.path.clone()), atom.slots()));
        let (mut all, mut own) = (Vec::new(), Vec::new());
        for (place, owner, slots) in nodes.chain(atoms) {
            own.clear();
            let is_asked = |resource: &Resource| self.window_ms(*resource, place).is_some();
            for resource in Resource::ALL.into_iter().filter(is_asked) {
                handed(former, (resource, &owner), slots, &mut own);
            }
            if all.len() + own.len() > most {
                break;
            }
            all.append(&mut own);
        }
        all
    }

    /// Takes what is handed over, at the present.
    pub fn take_handed(&self, now_ms: u64, handed: &[Entry], state: &mut State) {
        for Entry { at_ms, what } in handed {
            match what {
                Recorded::Reading { resource, of, value, valid_ms } => {
                    let Some(of) = self.known(of, state) else { continue };
                    let valid_ms = valid_ms.unwrap_or(0);
                    let reading = Reading { resource: *resource, of, value: *value, at_ms: *at_ms, valid_ms };
                    self.read(now_ms, &[reading], state);
                }
                Recorded::Season { resource, of, season } => self.take_season((*resource, of), season, state),
                _ => {}
            }
        }
    }

    /// Goes on with what repeated in readings that others were told.
    pub(crate) fn take_season(
        &self,
        (resource, of): (Resource, &Owner),
        season: &crate::forecast::HoltWinters,
        state: &mut State,
    ) {
        let slots = match self.known(of, state) {
            Some(Of::Node(id)) => state.nodes.get(id.0 as usize).map(|node| *node.slots()),
            Some(Of::Atom(id)) => state.atoms.get(id.0 as usize).map(|atom| *atom.slots()),
            _ => None,
        };
        if let Some(series) = slots.and_then(|slots| state.store.get_mut(&slots, resource)) {
            series.take_season(season);
        }
    }

    fn known(&self, owner: &Owner, state: &mut State) -> Option<Of> {
        match owner {
            Owner::Node(name) => self.node(state, name).map(Of::Node),
            Owner::Atom(path) => self.atom(state, path).map(Of::Atom),
            Owner::Session(_) | Owner::Client(_) => None,
        }
    }

    /// Goes on with the errors of forecasts of metrics that are the same here.
    pub fn take_errors(&self, former: &Self, from: &State, state: &mut State) {
        let State { tracks, atoms, .. } = state;
        let metric_of = |number: usize| {
            let text = &former.policy.metrics.get(number)?.text;
            self.policy.metrics.iter().position(|metric| metric.predicted.is_some() && metric.text == *text)
        };
        tracks.take_over(&from.tracks, |metric, place| {
            let metric = metric_of(metric)?;
            let Some(atom) = from.atoms.get(place as usize) else { return Some((metric, place)) };
            let known = atoms.iter().position(|known| known.path == atom.path)?;
            Some((metric, known as u32))
        });
    }
}

/// What is known of a resource of a place.
fn handed(former: &State, (resource, of): (Resource, &Owner), slots: &Slots, to: &mut Vec<Entry>) {
    let Ok(series) = former.store.get(slots, resource) else { return };
    let valid_ms = Some(series.valid_ms());
    let mut last_ms = 0;
    for sample in series.samples() {
        last_ms = sample.at_ms;
        let what = Recorded::Reading { resource, of: of.clone(), value: sample.value, valid_ms };
        to.push(Entry { at_ms: sample.at_ms, what });
    }
    if let Some(season) = series.season() {
        let what = Recorded::Season { resource, of: of.clone(), season: Box::new(season.clone()) };
        to.push(Entry { at_ms: last_ms, what });
    }
}
