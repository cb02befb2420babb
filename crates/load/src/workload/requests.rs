//! What is asked: one request, or many in an order.

use crate::requests::Url;
use crate::requests::listed::{HOSTS_MAX, ListedRequest, Order};
use crate::sessions::session::Sessions;
use crate::workload::mix::Mix;

/// What is asked beyond one constant request; by default nothing, so that the request of [`crate::Options`] is the
/// only one.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Requests {
    /// The requests; none = the one of [`crate::Options::url`] and [`crate::Options::request`], which otherwise play
    /// no part.
    pub list: Vec<ListedRequest>,
    /// In which order they are asked.
    pub order: Order,
    /// Cookies that every request carries, name and value; with a jar they are what the jar begins with.
    pub cookies: Vec<(String, String)>,
    /// Whether each connection, as a user of its own, sends back the cookies that its responses set.
    pub cookie_jar: bool,
    /// Users who ask these requests in sessions, instead of in the order.
    pub sessions: Option<Sessions>,
    /// The files that are asked for, where the list has only a request for each kind of them ([`Mix::requests`]).
    pub mix: Option<Mix>,
    /// Whether each request says of which trace it is (W3C Trace Context's `traceparent`), with ids from this seed.
    pub traces: Option<u64>,
    /// What the report is to say of where the requests came from, in words.
    pub notes: Vec<String>,
}

impl Requests {
    /// The hosts that are asked, as URLs without a path, each once, in the order of their first requests.
    #[must_use]
    pub fn hosts(&self) -> Vec<&Url> {
        let mut hosts: Vec<&Url> = Vec::new();
        for listed in &self.list {
            if !hosts.iter().any(|host| host.is_same_host(&listed.url)) {
                hosts.push(&listed.url);
                if hosts.len() > HOSTS_MAX {
                    break;
                }
            }
        }
        hosts
    }

    /// Whether every write is a piece of the table, whose bytes stay the same until the run is over.
    pub(crate) fn are_ready_made(&self, pipeline: u32) -> bool {
        !self.cookie_jar
            && self.traces.is_none()
            && self.sessions.is_none()
            && self.mix.is_none()
            && (pipeline == 1 || self.list.len() <= 1)
    }
}
