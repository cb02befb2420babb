//! The endpoint itself: one thread for all connections, a bounded number of others for handlers.

use crate::answer::{Answer, Pieces};
use http_body_util::BodyExt;
use hyper::Response;
use hyper::body::{Body, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::{Semaphore, oneshot};
use tokio::task::JoinSet;

/// So long may a body that is too large take until it is answered so: who still sends when the connection is closed would
/// not hear of it.
const TOO_LARGE: Duration = Duration::from_secs(20);
/// So long are handlers waited for whose clients were cut off at the end, so that they can say what they know.
const CUT_OFF: Duration = Duration::from_millis(200);
/// After an error of accept (no descriptors left, say) it is tried again so much later.
const AFTER_ERROR: Duration = Duration::from_millis(50);

/// How much an endpoint takes on.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Connections at a time; further ones wait in the kernel's queue.
    pub connections: usize,
    /// Handlers at a time, each in a thread that ends once it is idle; further requests wait, one a connection.
    pub handlers: usize,
    /// A request's body may have so many bytes.
    pub body_bytes: usize,
    /// So long may a connection take for the head of its next request, idle ones included.
    pub head: Duration,
    /// So long may a body take; none: as long as its client likes, as with large uploads.
    pub body_within: Option<Duration>,
}

impl Default for Limits {
    /// What a browser or two need: 256 connections, 8 handlers, no large bodies, 30 s for heads.
    fn default() -> Self {
        Self { connections: 256, handlers: 8, body_bytes: 64 << 10, head: Duration::from_secs(30), body_within: None }
    }
}

/// Why a request's body is not there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BodyError {
    /// More bytes than [`Limits::body_bytes`].
    #[error("the request's body is too large")]
    TooLarge,
    /// The client went, or what it sent is no body.
    #[error("the request's body broke off")]
    BrokenOff,
}

/// A request.
#[derive(Debug)]
pub struct Request {
    /// GET, POST and so on, as it was sent.
    pub method: String,
    /// The request's target (RFC 9112, 3.2).
    pub target: String,
    /// Header fields in their order, names in small letters; what is not UTF-8 in a value is replaced.
    pub headers: Vec<(String, String)>,
    /// The whole body.
    pub body: Result<Vec<u8>, BodyError>,
}

impl Request {
    /// The first header field of a name in small letters.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str())
    }
}

/// Answers requests; it may block, and runs several times at once.
pub type Handler = Arc<dyn Fn(Request) -> Answer + Send + Sync>;

/// Why an endpoint does not begin.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// No address.
    #[error("{address} is no HOST:PORT: {source}")]
    Address {
        /// What was given.
        address: String,
        /// Why.
        source: io::Error,
    },
    /// The address cannot be listened at.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The last address that was tried.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// No thread for it.
    #[error("cannot start a thread for an endpoint: {0}")]
    Thread(io::Error),
}

/// An endpoint that listens as long as it lives.
#[derive(Debug)]
pub struct Endpoint {
    address: SocketAddr,
    end: Option<oneshot::Sender<Duration>>,
    thread: Option<JoinHandle<()>>,
}

impl Endpoint {
    /// Begins to listen at an address or name with its port; 0 is any free one.
    ///
    /// # Errors
    /// [`StartError`].
    pub fn start(address: &str, limits: Limits, handler: Handler) -> Result<Self, StartError> {
        let addresses =
            address.to_socket_addrs().map_err(|source| StartError::Address { address: address.to_owned(), source })?;
        let mut refused = StartError::Address { address: address.to_owned(), source: io::ErrorKind::NotFound.into() };
        for address in addresses {
            match std::net::TcpListener::bind(address) {
                Ok(listener) => return Self::over(listener, limits, handler),
                Err(source) => refused = StartError::Listen { address, source },
            }
        }
        Err(refused)
    }

    fn over(listener: std::net::TcpListener, limits: Limits, handler: Handler) -> Result<Self, StartError> {
        let address = listener.local_addr().map_err(StartError::Thread)?;
        listener.set_nonblocking(true).map_err(StartError::Thread)?;
        let runtime = runtime(&limits)?;
        let listener = {
            let _entered = runtime.enter();
            TcpListener::from_std(listener).map_err(StartError::Thread)?
        };
        let (end, ended) = oneshot::channel();
        let thread = std::thread::Builder::new()
            .name("weir-endpoint".to_owned())
            .spawn(move || {
                let patience = runtime.block_on(listen(listener, limits, handler, ended));
                runtime.shutdown_timeout(patience);
            })
            .map_err(StartError::Thread)?;
        Ok(Self { address, end: Some(end), thread: Some(thread) })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Takes no more requests and gives those that are under way a while to end.
    pub fn stop(&mut self, patience: Duration) {
        if let Some(end) = self.end.take() {
            // Who listens no more has ended already.
            let _ended = end.send(patience);
        }
        if let Some(thread) = self.thread.take() {
            // A handler that panicked has been told by the panic itself.
            let _joined = thread.join();
        }
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        self.stop(Duration::ZERO);
    }
}

/// Drives connections in the thread that runs it, and handlers in a bounded number of others.
pub(crate) fn runtime(limits: &Limits) -> Result<Runtime, StartError> {
    tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .max_blocking_threads(limits.handlers)
        .thread_name("weir-endpoint")
        .build()
        .map_err(StartError::Thread)
}

/// Takes connections until the end is asked for, and lets them end; how long handlers may take still.
async fn listen(
    listener: TcpListener,
    limits: Limits,
    handler: Handler,
    mut ended: oneshot::Receiver<Duration>,
) -> Duration {
    let places = Arc::new(Semaphore::new(limits.connections));
    // Who sends a body holds one of these while it is taken in, so that memory for bodies has a bound.
    let desks = Arc::new(Semaphore::new(limits.handlers));
    let (open, mut connections) = (GracefulShutdown::new(), JoinSet::new());
    let patience = loop {
        let place = tokio::select! {
            patience = &mut ended => break patience.unwrap_or_default(),
            place = Arc::clone(&places).acquire_owned() => place,
        };
        let stream = tokio::select! {
            patience = &mut ended => break patience.unwrap_or_default(),
            taken = listener.accept() => taken,
        };
        let Ok((stream, _)) = stream else {
            tokio::time::sleep(AFTER_ERROR).await;
            continue;
        };
        // A client that is gone needs no delay switched off.
        let _gone = stream.set_nodelay(true);
        let (handler, desks, watcher) = (Arc::clone(&handler), Arc::clone(&desks), open.watcher());
        while connections.try_join_next().is_some() {}
        connections.spawn(async move {
            let service = service_fn(|request| answered(request, limits, Arc::clone(&handler), Arc::clone(&desks)));
            let mut builder = http1::Builder::new();
            // As most servers write them, and as old programs look for them.
            builder.timer(TokioTimer::new()).header_read_timeout(limits.head).title_case_headers(true);
            // Who has said all that it wants may still wait for the answer.
            builder.half_close(true);
            // Who breaks off or sends no HTTP has got its answer from the library.
            let _broken = watcher.watch(builder.serve_connection(TokioIo::new(stream), service)).await;
            drop(place);
        });
    };
    drop(listener);
    let begin = Instant::now();
    // Idle connections are closed at once, others after their answer.
    let is_late = tokio::time::timeout(patience, open.shutdown()).await.is_err();
    connections.shutdown().await;
    patience.saturating_sub(begin.elapsed()).max(if is_late { CUT_OFF } else { Duration::ZERO })
}

pub(crate) async fn answered(
    request: hyper::Request<Incoming>,
    limits: Limits,
    handler: Handler,
    desks: Arc<Semaphore>,
) -> Result<Response<Pieces>, std::convert::Infallible> {
    let (head, body) = request.into_parts();
    let desk = if body.is_end_stream() { None } else { desks.acquire_owned().await.ok() };
    let body = taken_in(body, limits.body_bytes);
    let body = match limits.body_within {
        Some(most) => tokio::time::timeout(most, body).await.unwrap_or(Err(BodyError::BrokenOff)),
        None => body.await,
    };
    let fields = head.headers.iter();
    let fields =
        fields.map(|(name, value)| (name.as_str().to_owned(), String::from_utf8_lossy(value.as_bytes()).into_owned()));
    let asked = Request {
        method: head.method.as_str().to_owned(),
        target: head.uri.to_string(),
        headers: fields.collect(),
        body,
    };
    let (sender, receiver) = oneshot::channel();
    tokio::task::spawn_blocking(move || {
        let (response, pump) = handler(asked).into_response();
        drop(desk);
        // If the client has gone, the receiver is gone, too; the pump finds that by itself.
        let _gone = sender.send(response);
        if let Some(pump) = pump {
            pump.run();
        }
    });
    // Without a response the handler has panicked.
    let response = receiver.await.unwrap_or_else(|_| {
        Answer::line(500, "this request could not be answered: a fault of weir's, told on its standard error")
            .into_response()
            .0
    });
    Ok(response)
}

/// A whole body of at most so many bytes. One that is larger is read past for a while.
async fn taken_in(mut body: Incoming, most: usize) -> Result<Vec<u8>, BodyError> {
    let mut bytes = Vec::new();
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(|_| BodyError::BrokenOff)?.into_data() else { continue };
        if bytes.len() + data.len() > most {
            drop(bytes);
            let rest = async { while body.frame().await.is_some_and(|frame| frame.is_ok()) {} };
            let _late = tokio::time::timeout(TOO_LARGE, rest).await;
            return Err(BodyError::TooLarge);
        }
        bytes.extend_from_slice(&data);
    }
    Ok(bytes)
}
