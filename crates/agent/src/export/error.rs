//! What may keep an exporter from starting.

use std::io;
use std::net::SocketAddr;

/// Why an exporter cannot be started.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The address cannot be that of an OTLP receiver.
    #[error(
        "{address} is no address of an OTLP receiver: write http://HOST:4318 or https://HOST (OTLP over HTTP; gRPC is not spoken)"
    )]
    Endpoint {
        /// As it was given.
        address: String,
    },
    /// A header field cannot be sent.
    #[error("the header field {name:?} cannot be sent: its name or its value has characters that HTTP does not allow")]
    Header {
        /// Its name.
        name: String,
    },
    /// An address to listen at cannot be had.
    #[error("cannot listen at {address}: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// Agents that talk over a network need a key.
    #[error(
        "agents of several hosts need a key of {least} to {most} bytes that all of them know: write one into a file that only root may read (head -c 32 /dev/urandom | base64 > FILE), copy it to each host, and name it"
    )]
    Key {
        /// The fewest bytes.
        least: usize,
        /// The most.
        most: usize,
    },
    /// Another agent's name and port.
    #[error("{address:?} names no other agent: write HOST:PORT")]
    Peer {
        /// As it was given.
        address: String,
    },
    /// More other agents than are served.
    #[error("at most {most} other agents can be told")]
    Peers {
        /// How many.
        most: usize,
    },
    /// The system gives no thread.
    #[error("cannot start a thread: {source}")]
    Thread {
        /// Why.
        source: io::Error,
    },
}
