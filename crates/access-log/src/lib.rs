//! Access logs of web servers as neutral logged requests, in the formats that servers, proxies and load balancers write:
//! Common and Combined Log Format with their kin, the W3C's, objects of JSON, and the records of the World Cup of 1998.
//!
//! [`Source::open`] recognises a log, also one that gzip has compressed; [`Requests`] reads its lines in bounded memory,
//! [`Entry::parse`] one of them; [`world_cup`] has the records. [`LeftOut`] counts what is no request, by reason.
//! This crate does not know what is done with the requests.
//!
//! `source.rs` recognises a log by its first bytes and undoes gzip; `requests.rs` reads its lines by `format.rs`, `text.rs`,
//! `elb.rs`, `squid.rs`, `w3c.rs` and `json.rs`, and `world_cup.rs` its records.
//!
//! # Example
//!
//! ```
//! use weir_access_log::Source;
//!
//! let log = r#"192.0.2.1 - - [26/Nov/2026:09:30:00 +0000] "GET /index.html HTTP/1.1" 200 2326
//! 192.0.2.2 - - [26/Nov/2026:09:30:01 +0000] "-" 408 -
//! "#;
//! let Source::Lines(mut requests) = Source::open(log.as_bytes())? else { panic!("these are lines") };
//! let (_, request) = requests.next_request()?.expect("a first line");
//! let request = request.expect("it is a request");
//! assert_eq!((&*request.target, request.status, request.bytes), ("/index.html", Some(200), Some(2326)));
//! let (line, request) = requests.next_request()?.expect("a second line");
//! let reason = request.expect_err("its client sent no request");
//! assert!(line == 2 && reason.is_understood(), "{}", reason.words());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod calendar;
mod container;
mod duration;
mod elb;
mod entry;
mod escape;
mod format;
mod gzip;
mod json;
mod lines;
mod reason;
mod requests;
mod source;
mod squid;
mod text;
mod time;
mod w3c;
pub mod world_cup;

pub use container::Container;
pub use entry::Entry;
pub use lines::LINE_BYTES_MAX;
pub use reason::{LeftOut, Reason, TOLD_MAX};
pub use requests::{Parts, Requests};
pub use source::{Source, SourceError};
