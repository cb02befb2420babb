//! A fast static web server: one event loop a core, shared-nothing, over epoll; HTTP/1 and HTTP/2, in the clear and
//! over TLS, and HTTP/3.
//!
//! # The way of a request
//!
//! A request for a cached file passes these files, in this order, and no others:
//!
//! 1. `event_loop.rs` waits for sockets that are ready and hands each to its connection;
//! 2. `connection.rs` receives, splits the input into requests and keeps the order of responses;
//! 3. `request.rs` parses a head and decides how the request is framed (RFC 9112);
//! 4. `site.rs` turns the request into a [`Response`];
//! 5. `cache.rs` finds the content without a system call;
//! 6. `head.rs` renders the status line and the fields that change from response to response;
//! 7. `send.rs` writes head and content in one system call, or remembers how far it came.
//!
//! The bytes pass `transport.rs`, and over TLS `tls/`; `client.rs` gives the connection to `http2/` where the client
//! speaks that, which asks the same `front/` and `site.rs` and has files of its own for the other steps.
//! HTTP/3 comes by `quic/`, which has a UDP socket in the same loop, and is spoken by `http3/`.
//! Where there is io_uring, `ring/` brings what plain-text connections receive and takes what they answer.
//! What all connections of a loop share is in `workbench.rs`.
//! Everything else runs only when something is out of the ordinary: a path that needs decoding
//! (`target.rs`), content that is not in memory (`root.rs`, `atom.rs`), conditions (`conditional.rs`), ranges
//! (`range.rs`), a directory (`listing.rs`), an error (`error_page.rs`), an access log (`access_log/`) or business
//! transactions (`arm_rules.rs`, `arm_requests.rs`), hosts of a configuration (`config/`, `front/`), an adviser with
//! rules for a path (`advice.rs`, `advisory.rs`, `site/governed.rs`), orders (`control.rs`) or bounds (`throttle.rs`).
//!
//! # Staleness
//!
//! The kernel reports changes in the directories of cached files (`watches.rs`), and a loop reads these reports before
//! the requests that arrive at the same time: a request that was sent after a change gets the new content, unless it
//! arrives while the loop still works on requests from before the change. Where the kernel does not report changes
//! (network file systems, symbolic links, several hard links) the server checks a cached file at most once a second;
//! elsewhere at most once a minute, for writes through a memory mapping, which the kernel does not report either.
//!
//! # Example
//!
//! ```no_run
//! use std::sync::atomic::AtomicBool;
//! use weir_server::{Options, Server};
//!
//! let server = Server::bind(Options::new("/srv/www"))?;
//! println!("{:?}", server.local_addrs());
//! let stop = AtomicBool::new(false);
//! let counts = server.run(&stop)?;
//! println!("{} requests", counts.requests);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#[macro_use]
mod counters;
mod certificates;
mod config;
mod error;
mod event_loop;
mod exchange;
mod files;
mod http;
mod http1;
mod http2;
mod http3;
mod io;
mod loop_state;
mod media;
mod pages;
mod policy;
mod process;
mod quic;
mod routing;
mod site;
mod telemetry;
mod tls;
mod transport;

pub use certificates::settings::CertificateFiles;
pub use config::options::Options;
pub use config::{
    ConfigurationError, EXAMPLE as EXAMPLE_CONFIGURATION, HostRules, Mistake, parse_configuration, read_configuration,
};
pub use counters::rounds::Waits;
pub use counters::{Counters, Counts};
pub use error::{BindError, ListenAddrError, RunError, TlsError};
pub use event_loop::server::Server;
pub use files::settings::{Compression, Symlinks};
pub use http::limits::{Limits, Timeouts};
pub use http::media_type::is_media_type;
pub use http::response::{AtomId, Digest, Part, Piece, Response, Variant};
pub use io::listen::{ListenAddr, Local, LocalAddr};
pub use io::way::Io;
pub use policy::advice::{Advice, Adviser, Link, Names, Question};
pub use policy::control::Control;
pub use policy::insight::{Described, Insight};
pub use policy::lease::{Lease, LeaseClock, LeaseCounts};
pub use policy::link_prior::{Expected, ExpectedOf};
pub use policy::settings::{Placed, PolicyOptions};
pub use policy::throttle::Throttle;
pub use process::reload::Reloader;
pub use process::resume::{Resumed, Resumer, Unfinished};
pub use site::settings::SiteWord;
pub use telemetry::access_log::settings::{AccessLog, LogFormat, LogTarget, OwnFormat, Rotation};
pub use telemetry::admin::{Admin, AdminError, AdminToken, Teller};
pub use telemetry::arm_rules::{ArmRules, ArmRulesError};
