//! Requests that an operator watches while they are answered: which ones, what is told of them, and to whom.
//!
//! Nothing here is asked for a request while no watcher is there: the loops learn of watchers by an order, and a request
//! passes through here only from then on. A loop decides by what is known at the beginning (client, host, path, method,
//! session) whether a request may be wanted, notes its steps, and gives them to a bounded queue at its end. The thread of
//! the admin address takes them, applies each filter whole, and writes to each watcher within that one's budget.

mod allowance;
mod bodies;
mod category;
mod head;
mod hub;
mod json;
mod question;
mod redaction;
mod seen;
mod sink;
mod steps;
mod underway;
mod watcher;
mod watchers;

pub use category::{WatchCategories, WatchCategory};
pub(crate) use hub::{BegunBefore, Hub, Watch};
pub(crate) use question::Subscription;
pub(crate) use redaction::{address_shown, path_shown, text_shown};
pub(crate) use seen::{CacheSeen, DecidedSeen, FileSeen, Network, RoutesSeen, RulesSeen, ScriptSeen};
pub(crate) use steps::{Steps, output, step};
pub(crate) use underway::{Beginning, Ending, Underway};
pub(crate) use watchers::Watchers;
