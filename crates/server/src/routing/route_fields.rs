//! Fields of responses that routes set.

use super::fields::Fields;
use super::settings::{Said, Settings};

/// What one route sets.
#[derive(Debug, Clone, Default)]
pub(crate) struct RouteFields {
    /// In successes and redirects.
    pub(super) success: Fields,
    /// In errors.
    pub(super) error: Fields,
    /// What it has caches know, where its conditions were looked at.
    pub(super) vary: Fields,
    /// Only in responses with one of these statuses; empty = in all.
    pub(super) statuses: Vec<u16>,
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
