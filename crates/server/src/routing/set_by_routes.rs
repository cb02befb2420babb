//! The fields that the routes of one request set.

use super::fields::Fields;
use super::rules::Rules;
use crate::exchange::life::Exchange;
use std::sync::Arc;

/// What the routes of one request set.
#[derive(Debug, Clone)]
pub(super) struct SetByRoutes {
    pub(super) rules: Arc<Rules>,
    pub(super) host: u16,
    /// Routes that set fields, a bit each.
    pub(super) sets: u128,
    /// Routes of whose conditions caches must know.
    pub(super) varies: u128,
}

impl SetByRoutes {
    /// What is changed in responses with a status, in the order in which it is.
    pub(super) fn of(&self, status: u16) -> impl Iterator<Item = &Fields> {
        let all = &self.rules.hosts[usize::from(self.host)].route_fields;
        all.iter().enumerate().flat_map(move |(number, fields)| {
            let is_of = |set: u128| set >> number & 1 == 1;
            let is_set = is_of(self.sets) && (fields.statuses.is_empty() || fields.statuses.contains(&status));
            let own = if status < 400 { &fields.success } else { &fields.error };
            [is_set.then_some(own), is_of(self.varies).then_some(&fields.vary)].into_iter().flatten()
        })
    }

    /// Changes the head of a response; whether there was something to change.
    pub(super) fn apply(&self, out: &mut Exchange, is_secure: bool) -> bool {
        self.of(out.status).for_each(|fields| fields.apply(out, is_secure));
        self.sets | self.varies != 0
    }
}
