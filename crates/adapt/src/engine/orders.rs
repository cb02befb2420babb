//! Turns what a rule does into orders: nodes are chosen, and what is so already is left out.

use super::context::EvalContext;
use super::intake::Engine;
use super::subject_mut::SubjectMut;
use crate::decision::Order;
use crate::policy::{Act, Classes, To};
use crate::reading::{NodeId, Resource};
use crate::series::Unknown;
use crate::state::{InForce, Placement, Scratch, Seen, State, Tracks};

/// What orders are made of.
pub(super) struct Orders<'o> {
    engine: &'o Engine,
    state: &'o State,
}

/// Where to, and in which variant there.
type Found = (NodeId, Option<usize>);

impl<'o> Orders<'o> {
    pub(super) fn of(engine: &'o Engine, state: &'o State) -> Self {
        Self { engine, state }
    }

    /// Turns the acts of a rule into orders, and updates what is in force. If one order cannot be given, as the
    /// readings of its nodes are unknown, nothing changes.
    pub(super) fn given(&self, acts: &[Act], subject: &mut SubjectMut<'_>) -> Result<Vec<Order>, (Resource, Unknown)> {
        let mut orders = Vec::new();
        match subject {
            SubjectMut::Session { atom, at, .. } => {
                let block = self.state.atoms[atom.0 as usize].block;
                let variants = block.map_or(&[][..], |block| &self.engine.policy.blocks[block as usize].variants);
                let mut next = **at;
                for act in acts {
                    orders.extend(self.for_session(act, &mut next, variants)?);
                }
                **at = next;
            }
            SubjectMut::Atom { in_force, .. }
            | SubjectMut::Block { in_force }
            | SubjectMut::Client { in_force, .. } => {
                orders.extend(acts.iter().filter_map(|act| self.for_atoms(act, in_force)));
            }
        }
        Ok(orders)
    }

    fn for_session(
        &self,
        act: &Act,
        at: &mut Placement,
        variants: &[String],
    ) -> Result<Option<Order>, (Resource, Unknown)> {
        let last = variants.len().saturating_sub(1);
        let variant = match act {
            Act::Place { by, targets, elsewhere } => {
                let (node, variant) = self.best(*by, targets, elsewhere.then_some(at.node))?;
                let next = Placement { node, variant: variant.unwrap_or(at.variant) };
                if next == *at {
                    return Ok(None);
                }
                let changed = (next.variant != at.variant).then(|| variants[next.variant].clone());
                if next.node == at.node {
                    at.variant = next.variant;
                    return Ok(changed.map(|variant| Order::Use { variant }));
                }
                *at = next;
                let node = self.state.nodes[node.0 as usize].name.clone();
                return Ok(Some(Order::Place { node, variant: changed }));
            }
            Act::Alert(text) => return Ok(Some(Order::Alert { text: text.clone() })),
            Act::Down => (at.variant + 1).min(last),
            Act::Up => at.variant.saturating_sub(1),
            Act::Use(variant) => *variant,
            // The checker keeps the others out of rules for sessions.
            _ => return Ok(None),
        };
        if variant == at.variant {
            return Ok(None);
        }
        at.variant = variant;
        Ok(Some(Order::Use { variant: variants[variant].clone() }))
    }

    fn for_atoms(&self, act: &Act, in_force: &mut InForce) -> Option<Order> {
        let pool = |pool: usize| self.engine.policy.pools[pool].name.clone();
        match act {
            Act::Replicate { copies, pool: on } => {
                let before = in_force.copies.replace((*copies, *on));
                (before != in_force.copies).then(|| Order::Replicate { copies: *copies, pool: pool(*on) })
            }
            Act::Spread { pool: over } => {
                let before = in_force.spread.replace(*over);
                (before != in_force.spread).then(|| Order::Spread { pool: pool(*over) })
            }
            Act::Shed(percent) => {
                let before = in_force.shed.replace(percent.to_bits());
                (before != in_force.shed).then_some(Order::Shed { percent: *percent })
            }
            Act::Stale(age_ms_max) => {
                let before = in_force.stale_ms.replace(*age_ms_max);
                (before != in_force.stale_ms).then_some(Order::Stale { age_ms_max: *age_ms_max })
            }
            Act::Grow { pool: of, by } => Some(Order::Grow { pool: pool(*of), by: *by }),
            Act::Shrink { pool: of, by } => Some(Order::Shrink { pool: pool(*of), by: *by }),
            // A rule that does this keeps, and fires once for that.
            Act::Workers { pool: of, workers } => Some(Order::Workers { pool: pool(*of), workers: *workers }),
            Act::Alert(text) => Some(Order::Alert { text: text.clone() }),
            // The checker keeps the others in rules for sessions.
            _ => None,
        }
    }

    /// What was ordered and ends with a release: copies, nodes, workers, shares and ages that are in force, but for those of classes
    /// that another rule has taken, which are its own.
    pub(super) fn ended(&self, acts: &[Act], taken: Classes, subject: &mut SubjectMut<'_>) -> Vec<Order> {
        let (SubjectMut::Atom { in_force, .. } | SubjectMut::Block { in_force } | SubjectMut::Client { in_force, .. }) =
            subject
        else {
            return Vec::new();
        };
        let pool = |pool: usize| self.engine.policy.pools[pool].name.clone();
        let left = acts.iter().filter(|act| !Classes::of(act).meets(taken));
        let ended = left.filter_map(|act| match act {
            Act::Replicate { copies, pool: on } => {
                (in_force.copies.take_if(|(of, at)| of == copies && at == on)).map(|_| (*copies, *on))?;
                Some(Order::Replicate { copies: *copies, pool: pool(*on) })
            }
            Act::Spread { pool: over } => {
                in_force.spread.take_if(|at| at == over)?;
                Some(Order::Spread { pool: pool(*over) })
            }
            Act::Shed(percent) => {
                in_force.shed.take_if(|bits| *bits == percent.to_bits())?;
                Some(Order::Shed { percent: *percent })
            }
            Act::Stale(age_ms_max) => {
                in_force.stale_ms.take_if(|in_force_ms| in_force_ms == age_ms_max)?;
                Some(Order::Stale { age_ms_max: *age_ms_max })
            }
            Act::Workers { pool: of, workers } => Some(Order::Workers { pool: pool(*of), workers: *workers }),
            _ => None,
        });
        ended.collect()
    }

    /// The best of the targets by their latest readings; the only one needs none. Nodes whose readings are missing or
    /// stale are not chosen.
    fn best(&self, by: Resource, targets: &[To], but: Option<NodeId>) -> Result<Found, (Resource, Unknown)> {
        if let [To::Node { node, variant }] = targets {
            // One that is down, drained or asleep is no target by its name either.
            let is_down = self.state.nodes.get(node.0 as usize).is_some_and(|node| node.down);
            return if is_down { Err((by, Unknown::Missing)) } else { Ok((*node, *variant)) };
        }
        let (mut tracks, mut scratch) = (Tracks::default(), Scratch::default());
        let State { now_ms, store, nodes, .. } = self.state;
        let context = EvalContext {
            engine: self.engine,
            now_ms: *now_ms,
            store,
            nodes,
            tracks: &mut tracks,
            scratch: &mut scratch,
            seen: &Seen::default(),
            by: None,
        };
        let mut best: Option<(f64, Found)> = None;
        let mut consider = |node: NodeId, variant: Option<usize>| {
            let Some(value) = context.latest(node, by) else { return };
            let value = if by.more_is_better() { -value } else { value };
            // Of equal ones the first.
            if best.is_none_or(|(least, _)| value < least) {
                best = Some((value, (node, variant)));
            }
        };
        for target in targets {
            match target {
                To::Node { node, variant } => consider(*node, *variant),
                To::AnyOf(pool) => {
                    let nodes = self.engine.policy.pools[*pool].nodes.iter();
                    nodes.filter(|node| Some(**node) != but).for_each(|node| consider(*node, None));
                }
            }
        }
        best.map(|(_, found)| found).ok_or((by, Unknown::Missing))
    }
}
