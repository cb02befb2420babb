//! Warnings about routes.
use super::routes::RoutePlace;
use super::table::Reader;
use crate::config::options::Options;
use crate::routing::rules::Rules;
pub(super) fn look(_reader: &Reader<'_>, _rules: &Rules, _places: &[RoutePlace], _options: &Options) {}
