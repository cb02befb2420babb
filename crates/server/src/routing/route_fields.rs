//! Fields of responses that routes set.

use super::fields::Fields;
use super::rules::Rules;
use super::settings::{Said, Settings};
use crate::exchange::life::Exchange;
use std::sync::Arc;

/// What one route sets.
#[derive(Debug, Clone, Default)]
pub(crate) struct RouteFields {
    /// In successes and redirects.
    success: Fields,
    /// In errors.
    error: Fields,
    /// What it has caches know, where its conditions were looked at.
    vary: Fields,
    /// Only in responses with one of these statuses; empty = in all.
    statuses: Vec<u16>,
}

impl RouteFields {
    /// Of what a route says, of the statuses that it is for, and of what caches have to tell responses apart by.
    pub(crate) fn new(said: &Said, statuses: &[u16], vary: Option<&str>) -> Self {
        let settings = Settings::of(std::iter::once(said));
        let vary = vary.map(|names| ("Vary".to_owned(), names.to_owned()));
        // Statuses that are named mean just these responses, errors as well.
        let error = if statuses.is_empty() { settings.error_fields } else { settings.fields.clone() };
        Self {
            success: settings.fields,
            error,
            vary: vary.map_or_else(Fields::default, |vary| Fields::new(&[&vary], &[])),
            statuses: statuses.to_vec(),
        }
    }
}

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
