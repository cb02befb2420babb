//! Drives a web server over HTTP/1.1, HTTP/2 or HTTP/3, or one of gRPC or WebSockets, and says what its user felt.
//!
//! [`run`] takes [`Options`] and gives a [`LoadReport`]; a [`Control`] shows the progress and ends a run early.
//! Arrivals of an open loop never wait for completions, and latency counts from the intended time.
//! Times are CLOCK_MONOTONIC nanoseconds: `sent` is read just before the system call that writes a request,
//! `first byte` and `done` just after the one that brought them.
//!
//! `engine` is the loop of one thread: when the next request is due, and how a connection is made and ends. What a
//! version of HTTP does of its own, how a request goes out and how its response is read, stands in
//! `http1`, `http2` and `http3`; WebSockets have `websocket` and `tunneled`.
//! Knows nothing of the server that it drives, nor of the kernel's probes.
#![doc = include_str!("../doc/guide.md")]
#![warn(missing_docs)]

mod carried;
mod checks;
mod connect;
mod counts;
pub mod directed;
mod engine;
mod error;
pub mod grpc;
mod heads;
mod http1;
// Open to the tests and fuzz targets of its readers only.
#[doc(hidden)]
pub mod http2;
// As http2.
#[doc(hidden)]
pub mod http3;
mod observe;
mod options;
mod plan;
pub mod reach;
mod reflected;
mod report;
mod requests;
mod run;
pub mod samples;
mod schedule;
pub mod sessions;
mod slow;
// As http2.
#[doc(hidden)]
pub mod streamed;
mod tunneled;
// As http2.
#[doc(hidden)]
pub mod websocket;
pub mod workers;
pub mod workload;

pub use carried::CarriedError;
pub use checks::{BODY_KEPT_MAX, CHECKS_MAX, Check, CheckError, JsonPath};
pub use counts::{
    Calls, CheckReport, Counts, Fairness, GrpcDetail, GrpcReport, Handshakes, Histogram, Http3Counts, MixReport,
    Packed, Point, Reason, Remark, Sampling, ScopeReport, Series, SessionReport, SlowTrace, Slowest, Strain,
    StreamReport, WebSocketReport,
};
pub use error::LoadError;
pub use error::request::RequestError;
pub use error::tls_setup::TlsSetupError;
// As http2.
#[doc(hidden)]
pub use http1::response;
pub use observe::{Observer, Secured};
pub use options::{AnswerRule, Control, Grpc, Io, Options, WebSocket};
pub use reach::{Protocol, Reach, Sockets, Trust};
pub use report::{Clock, Fate, Generator, LoadReport, WorkerReport, WorkerShare};
// As http2.
pub use reflected::reflected;
#[doc(hidden)]
pub use requests::cookies;
pub use requests::{
    ListedRequest, NulListError, Order, Request, Scope, ScopeError, Statuses, StatusesError, Url, UrlError,
    UrlFileError, UrlListError, UrlListProblem, Version, access_log, grpc_status, host, parse_server_list,
    parse_uri_log, parse_url_file, parse_url_list,
};
pub use run::run;
pub use schedule::{Profile, ProfileError, Schedule, StopRule, Stretch};
pub use slow::{Link, SlowClient};
pub use streamed::{Form, FormError, Streaming};
pub use weir_wire::client::{ClientRequest, Outcome};
pub use workload::requests::Requests;
