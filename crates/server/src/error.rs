//! Errors of this crate's operations, each with its remedy.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Why a server could not be set up; see [`crate::Server::bind`].
#[derive(Debug, Error)]
pub enum BindError {
    /// Another process listens on the address already.
    #[error("{addr} is taken by another process; choose another port with --listen, or port 0 for any free one")]
    AddressTaken {
        /// The address that was asked for.
        addr: SocketAddr,
    },
    /// The port is below the first unprivileged one.
    #[error("no permission to listen on {addr}; use a port from 1024 up, or grant CAP_NET_BIND_SERVICE")]
    NoPermission {
        /// The address that was asked for.
        addr: SocketAddr,
    },
    /// No interface of this machine has the address.
    #[error("this machine has no address {}; use 127.0.0.1 for itself only or 0.0.0.0 for every interface", addr.ip())]
    AddressNotHere {
        /// The address that was asked for.
        addr: SocketAddr,
    },
    /// The address is none that HTTP/3 can be spoken at.
    #[error("{addr} is no address of UDP; give HOST:PORT or :PORT for HTTP/3")]
    NotForQuic {
        /// The address as given.
        addr: String,
    },
    /// HTTP/3 was asked for without a certificate.
    #[error("HTTP/3 is never spoken in the clear; give a certificate and its key")]
    QuicWithoutTls,
    /// The list of addresses is empty.
    #[error("no address to listen on; give at least one")]
    NoAddress,
    /// The system refused a listening socket for another reason.
    #[error("cannot listen on {addr}: {source}")]
    Listen {
        /// The address that was asked for.
        addr: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// The system refused a Unix socket.
    #[error("cannot listen on {path}: {source}; give a path that no other server uses, in a directory that may be written", path = path.display())]
    ListenUnix {
        /// The path that was asked for.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The sockets of the server that is to be followed cannot be had.
    #[error(
        "cannot take sockets over from process {pid}: {source}; give the number of a running server, and be root or its user"
    )]
    Predecessor {
        /// The process.
        pid: u32,
        /// What the system said.
        source: io::Error,
    },
    /// The server that is to be followed listens at none of the addresses.
    #[error(
        "process {pid} listens {listens}, and this server nowhere there; give the same --listen, or another process"
    )]
    NothingTaken {
        /// The process.
        pid: u32,
        /// Where it listens, in words.
        listens: String,
    },
    /// HTTP/3 cannot be taken over from a process that has no way for the datagrams of its connections.
    #[error(
        "HTTP/3 at {addr} cannot be taken over from process {pid}, which is no weir that datagrams can be handed on to; leave HTTP/3 out, or end that process first"
    )]
    QuicTakenOver {
        /// The process.
        pid: u32,
        /// Where both would speak it.
        addr: SocketAddr,
    },
    /// More sockets of UDP than the loops can have.
    #[error(
        "process {pid} has more sockets of UDP than the {most} that so few loops can have; give more --loops, or fewer addresses"
    )]
    TooManyForQuic {
        /// The process.
        pid: u32,
        /// How many there may be.
        most: usize,
    },
    /// A descriptor that was given to this process is no listening socket.
    #[error("cannot listen on descriptor {fd}: {source}; give the number of a listening socket")]
    Inherited {
        /// The number that was given.
        fd: i32,
        /// What is wrong.
        source: io::Error,
    },
    /// The directory to serve does not exist.
    #[error("{path} does not exist; give a directory to serve", path = path.display())]
    RootMissing {
        /// The directory as given.
        path: PathBuf,
    },
    /// The path to serve is a file or something else.
    #[error("{path} is not a directory; give the directory that contains it", path = path.display())]
    RootNotDirectory {
        /// The directory as given.
        path: PathBuf,
    },
    /// Links are to be followed to where a server that confines itself does not reach.
    #[error(
        "links that lead anywhere (symlinks) lead to what a confined server does not reach; give --no-sandbox, or let them lead \"within\" the root"
    )]
    LinksOutOfReach,
    /// The directory cannot be opened.
    #[error("cannot open the directory {path}: {source}", path = path.display())]
    Root {
        /// The directory as given.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The access log cannot be opened for appending.
    #[error("cannot append to the access log {path}: {source}; create its directory, or use - for standard output", path = path.display())]
    AccessLog {
        /// The file as given.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file of activity cannot be used.
    #[error("cannot keep activity in {path}: {source}", path = path.display())]
    Activity {
        /// The file as given.
        path: PathBuf,
        /// Why not.
        source: crate::telemetry::activity::file::ActivityOpenError,
    },
    /// The user that the server is to run as does not exist.
    #[error("cannot run as {name}: {source}; give the name of a user of this system")]
    User {
        /// The name as given.
        name: String,
        /// What the system said.
        source: io::Error,
    },
    /// The address at which the server tells of itself cannot be used.
    #[error("cannot tell of itself at {addr}: {source}; give another address, or one that no other server uses")]
    Admin {
        /// The address that was asked for.
        addr: String,
        /// What the system said.
        source: io::Error,
    },
    /// A certificate or its key cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// io_uring was asked for, and the system does not give it.
    #[error(
        "io_uring cannot be used: {source}; it takes Linux 6.1, kernel.io_uring_disabled = 0 and no filter of system calls \
         that forbids it; --io auto does with epoll where it is missing"
    )]
    Ring {
        /// What the system said.
        source: io::Error,
    },
    /// The system gives no event queue, thread or descriptor.
    #[error("cannot set up an event loop: {source}; raise the limit of open files (ulimit -n)")]
    EventLoop {
        /// What the system said.
        source: io::Error,
    },
}

impl BindError {
    /// Why a root cannot be opened.
    pub(crate) fn of_root(path: &Path, source: io::Error) -> Self {
        let path = path.to_owned();
        match source.kind() {
            io::ErrorKind::NotFound => Self::RootMissing { path },
            io::ErrorKind::NotADirectory => Self::RootNotDirectory { path },
            _ => Self::Root { path, source },
        }
    }
}

/// Why certificates cannot be used; see [`crate::Options::certificates`].
#[derive(Debug, Error)]
pub enum TlsError {
    /// A file cannot be read, or is not PEM of the right kind.
    #[error("cannot take a certificate or key from {path}: {source}; give files in PEM", path = path.display())]
    Unreadable {
        /// The file as given.
        path: PathBuf,
        /// What is wrong.
        source: rustls_pki_types::pem::Error,
    },
    /// A file holds no certificate.
    #[error("{path} holds no certificate; give one in PEM, followed by those that lead to its authority", path = path.display())]
    NoCertificate {
        /// The file as given.
        path: PathBuf,
    },
    /// Certificate and key do not belong together, or are of a kind that is not known here.
    #[error("cannot use {certificate} with the key {key}: {source}; give the key that the certificate was made for",
        certificate = certificate.display(), key = key.display())]
    Unusable {
        /// The certificate as given.
        certificate: PathBuf,
        /// The key as given.
        key: PathBuf,
        /// What rustls said.
        source: rustls::Error,
    },
    /// What is to be sent along with a certificate is not what its authority says of it.
    #[error("cannot send {path} along with its certificate: {why}; get one by `openssl ocsp -respout FILE`, or leave `ocsp` away",
        path = path.display())]
    Staple {
        /// The file as given.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// There is no certificate at all.
    #[error("no certificate; give at least one")]
    None,
    /// The system gives no randomness.
    #[error("cannot set up TLS: {source}")]
    Setup {
        /// What rustls said.
        source: rustls::Error,
    },
}

/// Why a running server ended other than by being asked to; see [`crate::Server::run`].
#[derive(Debug, Error)]
pub enum RunError {
    /// A thread for a loop could not be started.
    #[error("cannot start a thread for an event loop: {source}; lower the number of loops")]
    Thread {
        /// What the system said.
        source: io::Error,
    },
    /// The server that is to be followed could not be asked to end.
    #[error("cannot end process {pid}: {source}; end it yourself and start this server again")]
    Predecessor {
        /// The process.
        pid: u32,
        /// What the system said.
        source: io::Error,
    },
    /// The kernel does not lead clients of HTTP/3 to their loops.
    #[error("cannot lead clients of HTTP/3 to their loops: {source}; give one loop (--loops 1), or leave HTTP/3 out")]
    Quic {
        /// What the system said.
        source: io::Error,
    },
    /// Root's rights could not be given up.
    #[error("cannot run as the user that was asked for: {source}; start it as root, or without --user")]
    Rights {
        /// What the system said.
        source: io::Error,
    },
    /// A cache for responses of upstreams cannot be opened.
    #[error("cannot keep responses in {directory}: {source}; give `disk` a directory that the server may write to", directory = directory.display())]
    Cache {
        /// The directory.
        directory: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Waiting for events failed.
    #[error("an event loop failed while waiting for events: {source}")]
    Wait {
        /// What the system said.
        source: io::Error,
    },
    /// A loop ended by a panic, which is a defect of this program.
    #[error("an event loop ended unexpectedly; please report this with the lines above")]
    Panicked,
}

/// Why a text is not an address to listen on; see [`crate::ListenAddr`].
#[derive(Debug, Error)]
pub enum ListenAddrError {
    /// There is no port, or it is not a number from 0 to 65535.
    #[error("`{text}` has no valid port; write HOST:PORT, for example 127.0.0.1:8080, :8080 or [::1]:8080")]
    Port {
        /// The text as given.
        text: String,
    },
    /// The host is neither an address nor a name that resolves.
    #[error("`{text}` names no address: {source}; write an IP address, IPv6 in brackets, or a name that resolves")]
    Host {
        /// The text as given.
        text: String,
        /// What the resolver said.
        source: io::Error,
    },
}
