//! Why a run cannot be made.

use crate::error::outcomes::outcome_of_connect;
use crate::{RequestError, TlsSetupError};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use weir_wire::client::Outcome;

/// Why a run could not be made, or could not go on.
///
/// Failures of single requests are no such error: they are counted in the report.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The request cannot be built.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// TLS cannot be set up.
    #[error(transparent)]
    TlsSetup(#[from] TlsSetupError),
    /// Options that cannot go together, or are out of range.
    #[error("{0}")]
    Options(&'static str),
    /// The host has no address.
    #[error("{host}: no such host ({cause}); check its spelling, or try: getent hosts {host}")]
    UnknownHost {
        /// The host.
        host: String,
        /// What the resolver said.
        cause: io::Error,
    },
    /// Not one connection could be made.
    #[error("{address}: cannot be reached ({cause}); does a server listen there? On its host, check with: ss -ltn 'sport = :{}'", address.port())]
    Unreachable {
        /// The address that was tried last.
        address: SocketAddr,
        /// What the kernel said.
        cause: io::Error,
    },
    /// Not one connection of HTTP/3 could be made.
    #[error("{address}: cannot be reached by HTTP/3 ({cause}); does a server listen to UDP there? On its host, check with: ss -lun 'sport = :{}'", address.port())]
    UnreachableByUdp {
        /// The address that was tried last.
        address: SocketAddr,
        /// What the kernel said.
        cause: io::Error,
    },
    /// Not one connection could be made to the Unix socket, or its name is none.
    #[error("{}: no Unix socket that can be connected to ({cause}); does a server listen there? See: ss -lxn", path.display())]
    UnixSocket {
        /// The socket's path.
        path: PathBuf,
        /// What the kernel said.
        cause: io::Error,
    },
    /// The proxy let not one connection through, or cannot be reached.
    #[error("{proxy}: no connection through the proxy: {cause}")]
    Proxy {
        /// The proxy, without credentials.
        proxy: String,
        /// What the proxy or the kernel said.
        cause: String,
    },
    /// An address that connections are to come from is not one of this host's.
    #[error("{address}: connections cannot come from there ({cause}); this host's addresses: ip address")]
    Source {
        /// The address.
        address: IpAddr,
        /// What the kernel said.
        cause: io::Error,
    },
    /// Not one TLS handshake succeeded.
    #[error("{host}: no TLS session could be agreed on: {cause}{}", crate::error::tls_words::advice(cause))]
    Tls {
        /// The host.
        host: String,
        /// What the TLS library or the kernel said.
        cause: String,
    },
    /// The server does not speak HTTP/2.
    #[error("{host}: does not speak HTTP/2 there ({cause}); without --http2 it is asked over HTTP/1.1")]
    NotHttp2 {
        /// The host.
        host: String,
        /// How that was seen.
        cause: String,
    },
    /// The server opens no WebSockets over HTTP/2.
    #[error(
        "{host}: opens no WebSockets over HTTP/2: its settings lack SETTINGS_ENABLE_CONNECT_PROTOCOL (RFC 8441 3); switch \
         that on there, or leave --http2 out and open them over HTTP/1.1"
    )]
    NoTunnels {
        /// The host.
        host: String,
    },
    /// The server does not speak HTTP/2, over which gRPC goes.
    #[error(
        "{host}: does not speak HTTP/2 there ({cause}), over which gRPC goes; is it another port, or grpcs:// in place of \
         grpc://?"
    )]
    NotGrpc {
        /// The host.
        host: String,
        /// How that was seen.
        cause: String,
    },
    /// The server does not speak HTTP/3.
    #[error("{host}: does not speak HTTP/3 there ({cause}); without --http3 it is asked over TCP")]
    NotHttp3 {
        /// The host.
        host: String,
        /// How that was seen.
        cause: String,
    },
    /// The limit on open files is lower than the connections need.
    #[error(
        "{connections} connections need {needed} open files, and the limit is {limit}; raise it: ulimit -n {needed}"
    )]
    OpenFiles {
        /// Connections that were asked for.
        connections: u32,
        /// Descriptors that they need.
        needed: u64,
        /// The hard limit of the process.
        limit: u64,
    },
    /// The thread cannot be put on the CPU that was asked for.
    #[error("CPU {cpu}: the generator cannot be pinned to it ({cause}); nproc says how many there are")]
    Cpu {
        /// The CPU.
        cpu: usize,
        /// What the kernel said.
        cause: io::Error,
    },
    /// A system call that cannot fail in a healthy system did.
    #[error("{what} failed: {cause}")]
    System {
        /// What was tried.
        what: &'static str,
        /// What the kernel said.
        cause: io::Error,
    },
    /// A thread of the generator ended in a panic, which is a fault of ours.
    #[error("a thread of the generator panicked; please report this")]
    Panicked,
}

impl LoadError {
    /// Its name for programs: that of the outcome that the requests would have had, where there is one, such as
    /// `refused`, `connect_timeout`, `tls` or `proxy`; else `unknown_host`, `not_http2`, `not_grpc`, `not_http3`, `options`, `source`, `cpu`, `system`
    /// or `panicked`.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Unreachable { cause, .. } | Self::UnreachableByUdp { cause, .. } | Self::UnixSocket { cause, .. } => {
                outcome_of_connect(cause).name()
            }
            Self::Proxy { .. } => Outcome::Proxy.name(),
            Self::Tls { .. } => Outcome::Tls.name(),
            Self::OpenFiles { .. } => Outcome::NoDescriptors.name(),
            Self::UnknownHost { .. } => "unknown_host",
            Self::NotHttp2 { .. } => "not_http2",
            Self::NotGrpc { .. } => "not_grpc",
            Self::NotHttp3 { .. } => "not_http3",
            Self::NoTunnels { .. } => "no_extended_connect",
            Self::Request(_) | Self::TlsSetup(_) | Self::Options(_) => "options",
            Self::Source { .. } => "source",
            Self::Cpu { .. } => "cpu",
            Self::System { .. } => "system",
            Self::Panicked => "panicked",
        }
    }
}
