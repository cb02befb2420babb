//! What is asked: one request, or many in an order.

mod choice;
mod nul_list;
mod prepared;
mod url_file;
mod url_list;

use crate::sessions::Sessions;
use crate::workload::Mix;
use crate::{LoadError, Options, Request, RequestError, Url};
use std::sync::Arc;

pub(crate) use choice::{Alias, Chooser};
pub use nul_list::{NulListError, parse_server_list, parse_uri_log};
pub(crate) use prepared::{Entry, Table};
pub use url_file::{UrlFileError, parse_url_file};
pub use url_list::{UrlListError, UrlListProblem, parse_url_list};

/// The most different requests of a run.
pub(crate) const ASKS_MAX: usize = 1_000_000;
/// The most hosts of a run.
pub(crate) const HOSTS_MAX: usize = 256;

/// What is asked beyond one constant request; by default nothing, so that the request of [`Options`] is the only one.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Asks {
    /// The requests; none = the one of [`Options::url`] and [`Options::request`], which otherwise play no part.
    pub list: Vec<Ask>,
    /// In which order they are asked.
    pub order: Order,
    /// Cookies that every request carries, name and value; with a jar they are what the jar begins with.
    pub cookies: Vec<(String, String)>,
    /// Whether each connection, as a user of its own, sends back the cookies that its responses set.
    pub cookie_jar: bool,
    /// Users who ask these requests in sessions, instead of in the order.
    pub sessions: Option<Sessions>,
    /// The files that are asked for, where the list has only a request for each kind of them ([`Mix::asks`]).
    pub mix: Option<Mix>,
    /// What the report is to say of where the requests came from, in words.
    pub notes: Vec<String>,
}

/// One of several requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ask {
    /// Where it goes.
    pub url: Url,
    /// What goes there.
    pub request: Request,
    /// How often it is asked in proportion to the others where the order is [`Order::Weighted`]; at least 1.
    pub weight: u32,
}

/// In which order several requests are asked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Order {
    /// One after the other, then from the first again; over all threads together.
    #[default]
    InTurn,
    /// At random, in proportion to their weights.
    Weighted {
        /// Where the random numbers begin: the same seed gives the same requests.
        seed: u64,
    },
    /// By this list of their places in [`Asks::list`], then from its beginning again; over all threads together.
    Listed(Arc<[u32]>),
}

impl Asks {
    /// The hosts that are asked, as URLs without a path, each once, in the order of their first requests.
    #[must_use]
    pub fn hosts(&self) -> Vec<&Url> {
        let mut hosts: Vec<&Url> = Vec::new();
        for ask in &self.list {
            if !hosts.iter().any(|host| host.is_same_host(&ask.url)) {
                hosts.push(&ask.url);
                if hosts.len() > HOSTS_MAX {
                    break;
                }
            }
        }
        hosts
    }

    /// Whether every write is a piece of the table, whose bytes stay the same until the run is over.
    pub(crate) fn are_ready_made(&self, pipeline: u32) -> bool {
        !self.cookie_jar && self.sessions.is_none() && self.mix.is_none() && (pipeline == 1 || self.list.len() <= 1)
    }

    /// Whether these requests can be asked with the other options.
    pub(crate) fn check(&self, options: &Options) -> Result<(), LoadError> {
        let wrong = |what| Err(LoadError::Options(what));
        if self.list.len() > ASKS_MAX {
            return wrong("there are more than 1000000 different requests");
        }
        let hosts = self.hosts().len();
        if hosts > HOSTS_MAX {
            return wrong("the requests go to more than 256 hosts");
        }
        if hosts as u64 * u64::from(options.connections) > 1_000_000 {
            return wrong("the number of connections, times that of the hosts, is at most 1000000");
        }
        if hosts > 1 && options.pipeline > 1 {
            return wrong("pipelining needs one host: the requests go to several");
        }
        if options.verbatim.is_some() && (!self.list.is_empty() || !self.cookies.is_empty() || self.cookie_jar) {
            return wrong("a request that is given byte for byte is the only one, and has no cookies put in");
        }
        if self.list.iter().any(|ask| ask.weight == 0) {
            return wrong("the weight of a request is at least 1");
        }
        if let Order::Listed(order) = &self.order
            && (order.is_empty() || order.iter().any(|ask| *ask as usize >= self.list.len().max(1)))
        {
            return wrong("the order of the requests is empty, or names one that is not there");
        }
        if let Some(mix) = &self.mix {
            mix.check(self, options)?;
        }
        if let Some(sessions) = &self.sessions {
            sessions.check(self, options)?;
        }
        for (name, value) in &self.cookies {
            if !is_cookie(name, value) {
                return Err(RequestError::Cookie { cookie: name.clone() }.into());
            }
        }
        Ok(())
    }
}

/// Whether a name and a value may stand in a Cookie header (RFC 6265 4.1.1; values more widely, as they are in use).
fn is_cookie(name: &str, value: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_graphic() && byte != b';';
    !name.is_empty() && name.bytes().all(|byte| is_plain(byte) && byte != b'=') && value.bytes().all(is_plain)
}
