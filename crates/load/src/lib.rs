//! Drives a web server over HTTP/1.1 or HTTP/2 and says what its user felt.
//!
//! [`run`] takes [`Options`] and gives a [`LoadReport`]; a [`Control`] shows the progress and ends a run early.
//! Arrivals of an open loop never wait for completions, and latency counts from the intended time.
//! Times are CLOCK_MONOTONIC nanoseconds: `sent` is read just before the system call that writes a request,
//! `first byte` and `done` just after the one that brought them.
//!
//! The way of a request is in `engine`; what happens to connections beside it in `lifecycle`; HTTP/2 has both of its own
//! in `http2`.
//! Knows nothing of the server that it drives, nor of the kernel's probes.
#![doc = include_str!("../doc/guide.md")]
#![warn(missing_docs)]

pub mod access_log;
mod account;
mod asks;
mod chunked;
mod clients;
mod connection;
// As http2.
#[doc(hidden)]
pub mod cookies;
pub mod directed;
mod engine;
mod error;
mod events;
mod failing;
mod framing;
mod health;
pub mod host;
// Open to the tests and fuzz targets of its readers only.
#[doc(hidden)]
pub mod http2;
mod kernel;
mod lifecycle;
mod observe;
mod options;
mod packed;
mod plan;
mod protocol;
pub mod reach;
mod read_ahead;
mod remarks;
mod report;
mod request;
// As http2.
#[doc(hidden)]
pub mod response;
mod ring;
mod run;
pub mod samples;
mod schedule;
mod secured;
mod series;
pub mod sessions;
mod slices;
mod slow;
mod sockets;
mod statuses;
mod tally;
mod through_ring;
mod transport;
mod trust;
mod unread;
mod url;
pub mod workload;

pub use asks::{
    Ask, Asks, NulListError, Order, UrlFileError, UrlListError, UrlListProblem, parse_server_list, parse_uri_log,
    parse_url_file, parse_url_list,
};
pub use clients::Fairness;
pub use error::LoadError;
/// A histogram of nanoseconds, as the report holds them.
pub type Histogram = hdrhistogram::Histogram<u64>;

pub use kernel::Calls;
pub use observe::Observer;
pub use options::{Control, Io, Options, Trust};
pub use packed::Packed;
pub use protocol::Protocol;
pub use reach::Reach;
pub use remarks::Remark;
pub use report::{Generator, LoadReport};
pub use request::{Request, RequestError, Version};
pub use run::run;
pub use schedule::{Profile, ProfileError, Schedule, StopRule, Stretch};
pub use secured::Secured;
pub use series::{Counts, Point, Sampling, Series, Strain};
pub use slow::{Link, SlowClient};
pub use sockets::Sockets;
pub use statuses::{Statuses, StatusesError};
pub use tally::Handshakes;
pub use trust::TlsSetupError;
pub use url::{Url, UrlError};
pub use weir_wire::client::{ClientRequest, Outcome};
