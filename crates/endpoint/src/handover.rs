//! Connections that another part of the program has accepted, and perhaps read the first bytes of.

use crate::patient::{Both, Patient};
use crate::serving::{Handler, Limits, StartError, answered, runtime};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::task::JoinSet;

/// A connection, which must not block.
#[derive(Debug)]
pub enum Socket {
    /// Over TCP.
    Tcp(std::net::TcpStream),
    /// At a Unix socket.
    Unix(std::os::unix::net::UnixStream),
}

/// A connection that is handed over.
pub struct Handed {
    /// The connection.
    pub socket: Socket,
    /// What was read of it.
    pub read: Vec<u8>,
    /// Answers its request.
    pub handler: Handler,
}

impl std::fmt::Debug for Handed {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Handed").field("socket", &self.socket).field("read", &self.read.len()).finish()
    }
}

/// Answers one request on each connection that is handed over, in threads as an [`Endpoint`](crate::Endpoint) has them.
///
/// A client that takes nothing of its answer for [`Limits::head`], or does not send its body in that time, is cut off.
#[derive(Debug)]
pub struct Handover {
    queue: Sender<(Handed, OwnedSemaphorePermit)>,
    places: Arc<Semaphore>,
    running: Mutex<Option<Running>>,
}

#[derive(Debug)]
struct Running {
    end: oneshot::Sender<Duration>,
    thread: JoinHandle<()>,
}

impl Handover {
    /// Starts its thread.
    ///
    /// # Errors
    /// [`StartError::Thread`].
    pub fn start(limits: Limits) -> Result<Self, StartError> {
        let limits = Limits { body_within: Some(limits.head), ..limits };
        let runtime = runtime(&limits)?;
        let places = Arc::new(Semaphore::new(limits.connections));
        let (queue, handed) = channel(limits.connections);
        let (end, ended) = oneshot::channel();
        let thread = std::thread::Builder::new()
            .name("weir-endpoint".to_owned())
            .spawn(move || {
                let patience = runtime.block_on(serve(handed, limits, ended));
                runtime.shutdown_timeout(patience);
            })
            .map_err(StartError::Thread)?;
        Ok(Self { queue, places, running: Mutex::new(Some(Running { end, thread })) })
    }

    /// Takes a connection, without waiting for anything.
    ///
    /// # Errors
    /// The connection, where [`Limits::connections`] are open or it has ended.
    pub fn take(&self, handed: Handed) -> Result<(), Handed> {
        let Ok(place) = Arc::clone(&self.places).try_acquire_owned() else { return Err(handed) };
        self.queue.try_send((handed, place)).map_err(|refused| refused.into_inner().0)
    }

    /// Takes no more connections, and gives answers that are under way a while to end.
    pub fn stop(&self, patience: Duration) {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(Running { end, thread }) = running {
            // What has ended by itself need not be told, and a panic was told by itself.
            let _ended = end.send(patience);
            let _joined = thread.join();
        }
    }
}

impl Drop for Handover {
    fn drop(&mut self) {
        self.stop(Duration::ZERO);
    }
}

async fn serve(
    mut handed: Receiver<(Handed, OwnedSemaphorePermit)>,
    limits: Limits,
    mut ended: oneshot::Receiver<Duration>,
) -> Duration {
    let desks = Arc::new(Semaphore::new(limits.handlers));
    let (open, mut connections) = (GracefulShutdown::new(), JoinSet::new());
    let patience = loop {
        let (next, place) = tokio::select! {
            patience = &mut ended => break patience.unwrap_or_default(),
            next = handed.recv() => match next {
                Some(next) => next,
                None => break Duration::ZERO,
            },
        };
        // A descriptor that the runtime does not take is closed.
        let Ok(stream) = stream_of(next.socket) else { continue };
        let stream = Patient::new(stream, next.read, limits.head);
        let (handler, desks, watcher) = (next.handler, Arc::clone(&desks), open.watcher());
        while connections.try_join_next().is_some() {}
        connections.spawn(async move {
            let service = service_fn(|request| answered(request, limits, Arc::clone(&handler), Arc::clone(&desks)));
            let mut builder = http1::Builder::new();
            builder.timer(TokioTimer::new()).header_read_timeout(limits.head).title_case_headers(true);
            builder.half_close(true).keep_alive(false);
            // Who breaks off or sends no HTTP has got its answer from the library.
            let _broken = watcher.watch(builder.serve_connection(TokioIo::new(stream), service)).await;
            drop(place);
        });
    };
    handed.close();
    // An answer that is cut off was under way for longer than the patience.
    let _late = tokio::time::timeout(patience, open.shutdown()).await;
    connections.shutdown().await;
    patience
}

fn stream_of(socket: Socket) -> io::Result<Box<dyn Both>> {
    Ok(match socket {
        Socket::Tcp(stream) => Box::new(tokio::net::TcpStream::from_std(stream)?),
        Socket::Unix(stream) => Box::new(tokio::net::UnixStream::from_std(stream)?),
    })
}
