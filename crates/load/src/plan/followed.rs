//! Which requests are looked at more closely: those with checks, and those that are counted apart.

use crate::Options;
use crate::checks::{Check, Keeps};
use crate::requests::Scope;
use crate::{Request, Url};

/// What is looked at of each request's responses.
#[derive(Debug)]
pub(crate) struct Followed {
    pub(crate) checks: Vec<Check>,
    /// What is kept of responses for them.
    pub(crate) keeps: Keeps,
    pub(crate) scopes: usize,
    /// By the entries of the plan's table.
    of_requests: Vec<OfRequest>,
}

/// What is looked at of one request.
#[derive(Debug)]
pub(crate) struct OfRequest {
    /// A bit for each check that is of it, and for each scope that it is in.
    pub(crate) checks: u64,
    pub(crate) scopes: u64,
    /// What it is called in words; without its query, which may hold secrets.
    pub(crate) name: String,
}

impl Followed {
    /// What the options ask for; `None` where that is nothing.
    pub(crate) fn new(options: &Options) -> Option<Self> {
        if options.checks.is_empty() && options.scopes.is_empty() {
            return None;
        }
        let of = |(url, request): (&Url, &Request)| OfRequest {
            checks: bits(&options.checks, |check: &Check| check.is_of(url, request)),
            scopes: bits(&options.scopes, |scope: &Scope| scope.contains(url, request)),
            name: format!("{} {}", request.method, url.target.split('?').next().unwrap_or_default()),
        };
        let given = options.requests.list.iter().map(|listed| (&listed.url, &listed.request));
        let one = options.requests.list.is_empty().then_some((&options.url, &options.request));
        Some(Self {
            checks: options.checks.clone(),
            keeps: options.checks.iter().fold(Keeps::default(), |keeps, check| keeps.and(check.keeps())),
            scopes: options.scopes.len(),
            of_requests: given.chain(one).map(of).collect(),
        })
    }

    /// What is looked at of an entry of the plan's table.
    pub(crate) fn of_request(&self, entry: usize) -> &OfRequest {
        &self.of_requests[entry]
    }
}

fn bits<T>(list: &[T], is_one: impl Fn(&T) -> bool) -> u64 {
    list.iter().enumerate().fold(0, |bits, (place, one)| bits | u64::from(is_one(one)) << place)
}
