//! A fast static web server: one event loop a core, shared-nothing, over io_uring or epoll; HTTP/1 and HTTP/2, in the
//! clear and over TLS, and HTTP/3.
//!
//! # Rooms
//!
//! The folders stand in an order: each imports only what stands before it, and a test holds this.
//!
//! | room | what it holds |
//! |---|---|
//! | `error` | the errors of this crate, each with its remedy |
//! | `io/` | sockets, epoll, clocks, listeners, inotify, users; no HTTP |
//! | `counters/` | what the server counts and drops; static probes |
//! | `http/` | requests, responses, fields, ranges, codings, targets, limits; no socket, no file |
//! | `pages/`, `media/` | includes, taken apart; formats of sound |
//! | `files/` | content, cache, what loops share, encodings, watches, the root |
//! | `policy/` | questions to the policy runtime: advice, leases, links, bounds |
//! | `certificates/` | certificates, keys, tickets, OCSP responses, challenges of ACME |
//! | `telemetry/` | access log, history of requests, activity, admin page, business transactions (ARM) |
//! | `exchange/` | the life of a request: its body, the response's source and how it is sent, applications |
//! | `tls/`, `transport/` | what the bytes of a connection go through: TLS, the socket, io_uring |
//! | `upstream/` | servers that are asked over HTTP, FastCGI, SCGI or uwsgi |
//! | `site/` | what answers for a path below a root |
//! | `routing/` | hosts, tables of paths, access, passwords, rates, redirects, rewrites |
//! | `config/` | the file of configuration; it puts together what each room lets a caller choose |
//! | `process/` | confinement, reload, responses and sessions that another process goes on with |
//! | `loop_state/` | what all connections of a loop share |
//! | `http1/`, `http2/`, `http3/`, `quic/` | the protocols |
//! | `event_loop/` | drives all of it on one core; the server that starts the loops |
//!
//! # The way of a request
//!
//! A request for a cached file over a kept HTTP/1.1 connection passes these files in this order:
//!
//! 1. `event_loop/driver.rs` waits for sockets that are ready and gives each connection its turn;
//! 2. `http1/connection.rs` receives, splits the input into requests and keeps the order of responses;
//! 3. `http/parse.rs` parses a head, and `http/request.rs` decides how the request is framed (RFC 9112);
//! 4. `site/response.rs` turns the request into a [`Response`];
//! 5. `files/cache.rs` finds the content without a system call;
//! 6. `files/head.rs` renders the status line and the fields that change from response to response;
//! 7. `exchange/send.rs` writes head and content in one system call, or remembers how far it came.
//!
//! `transport/` carries the bytes. With a configuration `routing/response.rs` stands before 4, with rules `policy/questions.rs` within it.
//! HTTP/2 and HTTP/3 ask the same `routing/` and `site/`.
//!
//! # Staleness
//!
//! The kernel reports changes in the directories of cached files (`files/watches.rs`), and a loop reads these reports
//! before the requests that arrive at the same time: a request that was sent after a change gets the new content,
//! unless it arrives while the loop still works on requests from before the change. Where the kernel reports no changes
//! (network file systems, symbolic links, several hard links) the server checks a cached file at most once a second;
//! elsewhere at most once a minute, for writes through a memory mapping, which the kernel does not report either.
//!
//! # Example
//!
//! ```
//! use std::io::{Read, Write};
//! use std::sync::atomic::{AtomicBool, Ordering};
//! use weir_server::{Options, Server};
//!
//! let folder = tempfile::tempdir()?;
//! std::fs::write(folder.path().join("hello.txt"), "hello")?;
//! let mut options = Options::new(folder.path());
//! options.listen = vec!["127.0.0.1:0".parse()?];
//! options.loops = 1;
//! let server = Server::bind(options)?;
//! let mut client = std::net::TcpStream::connect(server.local_addrs()[0])?;
//! let (stop, mut response) = (AtomicBool::new(false), String::new());
//! let (received, counts) = std::thread::scope(|scope| {
//!     let running = scope.spawn(|| server.run(&stop));
//!     let received = client
//!         .write_all(b"GET /hello.txt HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
//!         .and_then(|()| client.read_to_string(&mut response));
//!     stop.store(true, Ordering::Relaxed);
//!     (received, running.join().expect("the server does not panic"))
//! });
//! received?;
//! assert!(response.starts_with("HTTP/1.1 200 OK\r\n") && response.ends_with("\r\n\r\nhello"), "{response}");
//! assert_eq!(counts?.requests, 1);
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
mod upstream;

pub use certificates::challenges::{ChallengeError, Challenges, ObtainedStatus};
pub use certificates::settings::{CertificateFiles, ObtainBy, ObtainOptions};
pub use certificates::tickets::{SharedTickets, TicketSecret};
pub use config::explanation::{RouteQuestion, RouteQuestionError, explain_route};
pub use config::options::Options;
pub use config::{
    ConfigurationError, EXAMPLE as EXAMPLE_CONFIGURATION, HostRules, ScriptMount, ScriptServerOptions, ScriptServerTls,
    parse_configuration, parse_script_server, read_configuration, read_script_server,
};
pub use counters::php_watch::{PhpPoolStatus, PhpWatch, StuckWorker};
pub use counters::waits::Waits;
pub use counters::{Counters, Counts};
pub use error::{BindError, ListenAddrError, RunError, TlsError};
pub use event_loop::server::Server;
pub use exchange::application::{Aborted, Application, Handler, RequestHead, Wake};
pub use exchange::elsewhere::{ContentAway, Elsewhere, IncomingContent, WantedContent};
pub use exchange::reply::{OFFERED_BYTES_MAX, Reply, ReplyError};
pub use exchange::request_body::{HELD_BYTES_MAX, RequestBody};
pub use files::settings::{Compression, Symlinks, UnknownSymlinks};
pub use http::limits::{Limits, Timeouts};
pub use http::media_type::is_media_type;
pub use http::response::{Digest, Part, Piece, ResourceId, Response, Variant};
pub use io::connection_facts::ConnectionFacts;
pub use io::listen::{ListenAddr, Local, LocalAddr};
pub use io::user::become_user;
pub use io::way::{Io, UnknownIo};
pub use policy::advice::{Advice, Adviser, DecidedBy, DecidedQuestion, Link, Names, Question};
pub use policy::control::Control;
pub use policy::insight::{Described, Insight, UpstreamNow};
pub use policy::lease::{Lease, LeaseClock, LeaseCounts};
pub use policy::link_prior::{Expected, ExpectedOf};
pub use policy::popularity::AskedPath;
pub use policy::session_copies::{SessionCopies, SessionCopy, TlsKeys};
pub use policy::sessions::{AdoptError, OpenSession, SessionSummary, TakeError, TakenRelay, TakenSession};
pub use policy::settings::{Placed, PolicyOptions};
pub use policy::throttle::Throttle;
pub use policy::throttle_law::{Stages, StagesError};
pub use process::confine::confine_script_server;
pub use process::reload::Reloader;
pub use process::resume::{Resumed, Resumer, Unfinished};
pub use process::session::{place_session, rewind_session};
pub use routing::explanation::{
    RouteAnswer, RouteExplanation, RouteScript, RouteServer, RouteStep, RouteTable, RouteUpstream, RoutedHost,
};
pub use site::settings::SiteWord;
pub use telemetry::access_log::format::FormatError as LogFormatError;
pub use telemetry::access_log::settings::{AccessLog, LogFormat, LogTarget, OwnFormat, Rotation};
pub use telemetry::activity::file::ActivityOpenError;
pub use telemetry::activity::format::{ActivityError, Figures, Mark, MarkKind};
pub use telemetry::activity::reading::{Activity, ActivityFileError};
pub use telemetry::activity::shown::{ACTIVITY_HOURS_MAX, ACTIVITY_STEPS_MAX, ShownActivity};
pub use telemetry::admin::{
    Admin, AdminDoor, AdminError, AdminPages, AdminRights, AdminSocket, AdminToken, AdminVisit, Teller,
    UnknownAdminRight,
};
pub use telemetry::arm_rules::{ArmRules, ArmRulesError};
pub use telemetry::request_filter::{FilterKey, RequestFacts, RequestFilter, RequestFilterError};
pub use telemetry::watching::{WatchCategories, WatchCategory};
pub use upstream::php_pool::PhpPool;
pub use upstream::script_pool::{ScriptPool, ScriptWay};
pub use weir_diagnostic::Mistake;
#[doc(hidden)]
pub use weir_wire::static_probe;
