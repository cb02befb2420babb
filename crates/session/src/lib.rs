//! Functional web tests and recorded sessions.
//!
//! A file - a specification of HTTP::WebTest ([`specification`], [`interpret`]), sessions of HTTP::Monkeywrench
//! ([`literal`], [`monkeywrench`]), an HTTP Archive ([`har`], [`replay`]) - becomes a [`suite`], which the [`runner`] runs
//! with the [`client`]; the [`report`] says what became of it.
//! A [`recording`] is made by the [`recorder`], without [`secrets`], and written in the forms of other tools by
//! [`convert`].
//!
//! # Example
//!
//! ```
//! use std::path::Path;
//! use std::sync::Arc;
//! use weir_endpoint::{Answer, Endpoint, Limits};
//! use weir_session::client::{Client, Trust};
//! use weir_session::{interpret, report, runner, specification};
//!
//! let page = Arc::new(|_request| Answer::whole(200, "text/html", "<title>Hello</title>"));
//! let server = Endpoint::start("127.0.0.1:0", Limits::default(), page)?;
//! let text = format!(
//!     "test_name = the start page\n url = http://{}/\n text_require = ( Hello )\nend_test\n",
//!     server.address()
//! );
//! let no_variable = |_: &str| None;
//! let suite = interpret::suite(&specification::parse(&text, &no_variable)?, Path::new("."))?;
//! let outcomes = runner::run(&suite, &Client::new(&Trust::Anything)?, &mut |_| ());
//! // The status and the text are as expected.
//! assert_eq!(report::totals(&outcomes), (0, 2), "{}", report::text(&outcomes));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod client;
pub mod content;
pub mod convert;
pub mod cookies;
mod forgiving;
pub mod har;
pub mod interpret;
pub mod literal;
pub mod monkeywrench;
pub mod page;
pub mod pattern;
pub mod recorder;
pub mod recording;
pub mod replay;
pub mod report;
pub mod runner;
pub mod secrets;
pub mod specification;
pub mod suite;
mod trust;
