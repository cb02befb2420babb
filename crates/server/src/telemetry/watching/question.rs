//! What a client of `/watch` asks for: the filter, the categories, the budget, the number of requests.

use super::category::{UnknownCategory, WatchCategories, WatchCategory};
use crate::http::query;
use crate::telemetry::request_filter::{RequestFilter, RequestFilterError};
use thiserror::Error;

/// Bytes a second that a watcher gets unless it says otherwise, and between which bounds it may.
const BUDGET_BYTES_PER_S: u32 = 64 << 10;
const BUDGET_BYTES_PER_S_MIN: u32 = 1 << 10;
const BUDGET_BYTES_PER_S_MAX: u32 = 1 << 20;

/// What a watcher wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Subscription {
    pub(super) filter: RequestFilter,
    pub(super) show: WatchCategories,
    pub(super) budget_bytes_per_s: u32,
    /// Requests after which it ends.
    pub(super) requests_max: Option<u64>,
}

/// Why nothing can be watched so.
#[derive(Debug, PartialEq, Eq, Error)]
pub(crate) enum SubscriptionError {
    /// The filter is none.
    #[error(transparent)]
    Filter(#[from] RequestFilterError),
    /// A category is none.
    #[error(transparent)]
    Category(#[from] UnknownCategory),
    /// The budget is none.
    #[error("budget is {0:?}; give 1024 to 1048576 bytes a second")]
    Budget(String),
    /// The number of requests is none.
    #[error("requests is {0:?}; give a number from 1 on")]
    Requests(String),
    /// There is no such parameter.
    #[error("there are filter, show, budget and requests, and no {0:?}")]
    Parameter(String),
}

impl Subscription {
    /// Whether it asks for bodies, which takes a right.
    pub(crate) fn takes_bodies(&self) -> bool {
        self.show.has(WatchCategory::Bodies)
    }

    /// What a query asks for, as in `/watch?filter=status%3D5xx&show=head,response`.
    ///
    /// # Errors
    ///
    /// [`SubscriptionError`], which says what could be given.
    pub(crate) fn read(query: &str) -> Result<Self, SubscriptionError> {
        let mut read = Self {
            filter: RequestFilter::default(),
            show: WatchCategories::all(),
            budget_bytes_per_s: BUDGET_BYTES_PER_S,
            requests_max: None,
        };
        for (name, value) in query::pairs(query).filter(|(name, value)| !(name.is_empty() && value.is_empty())) {
            match name.as_str() {
                "filter" => read.filter = value.parse()?,
                "show" => read.show = value.parse()?,
                "budget" => {
                    let budget = value.parse().ok();
                    let is_within = |budget: &u32| (BUDGET_BYTES_PER_S_MIN..=BUDGET_BYTES_PER_S_MAX).contains(budget);
                    let budget = budget.filter(is_within).ok_or_else(|| SubscriptionError::Budget(short(&value)));
                    read.budget_bytes_per_s = budget?;
                }
                "requests" => {
                    let requests = value.parse().ok().filter(|requests: &u64| *requests > 0);
                    read.requests_max = Some(requests.ok_or_else(|| SubscriptionError::Requests(short(&value)))?);
                }
                _ => return Err(SubscriptionError::Parameter(short(&name))),
            }
        }
        Ok(read)
    }
}

fn short(text: &str) -> String {
    text.chars().take(40).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_is_read_or_refused_in_words() {
        let read = Subscription::read("filter=status%3D5xx+host%3Da&show=head,response&budget=2048&requests=3");
        let read = read.expect("a subscription");
        assert_eq!((read.filter.to_string().as_str(), read.budget_bytes_per_s), ("host=a status=5xx", 2048));
        assert_eq!((read.show.to_string().as_str(), read.requests_max), ("head,response", Some(3)));
        assert!(Subscription::read("").is_ok());
        for bad in
            ["budget=1", "budget=99999999", "requests=0", "show=x", "filter=x%3D1", "bodies=1", "filter=status%3E3"]
        {
            assert!(Subscription::read(bad).is_err(), "{bad}");
        }
    }
}
