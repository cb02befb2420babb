//! Little HTTP/1.1 endpoints of commands: the viewer's pages, metrics, the recording proxy.
//!
//! Not the server that weir measures or is: that one is the crate `weir-server`. Here a few people or one browser ask,
//! and handlers may block. Connections cost no thread, so that a browser may keep as many as it likes.
//!
//! # Example
//!
//! ```
//! use std::io::{Read, Write};
//! use std::sync::Arc;
//! use weir_endpoint::{Answer, Endpoint, Limits, Request};
//!
//! let handler = Arc::new(|request: Request| match request.target.as_str() {
//!     "/ready" => Answer::line(200, "yes"),
//!     _ => Answer::line(404, "no such page"),
//! });
//! let endpoint = Endpoint::start("127.0.0.1:0", Limits::default(), handler)?;
//! let mut client = std::net::TcpStream::connect(endpoint.address())?;
//! client.write_all(b"GET /ready HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
//! let mut response = String::new();
//! client.read_to_string(&mut response)?;
//! assert!(response.starts_with("HTTP/1.1 200 OK\r\n") && response.ends_with("yes\n"), "{response}");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod answer;
mod handover;
mod patient;
mod serving;

pub use answer::{Answer, Content, Done};
pub use handover::{Handed, Handover, Socket};
pub use serving::{BodyError, Endpoint, Handler, Limits, Request, StartError};
