//! The socket, its connections, and the way of a request through gate, instance and response.

use crate::components::Components;
use crate::grants::Grants;
use crate::instance::{Breakage, Job};
use crate::limits::{Closed, Gate, Limits, Ticker};
use crate::log::Log;
use crate::options::Options;
use crate::response::{self, Instance, ResponseBody};
use http::{Request, Response, StatusCode};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use std::convert::Infallible;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::net::{UnixListener, UnixStream};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{Semaphore, oneshot, watch};
use tokio::task::JoinHandle;

/// Connections beyond those of requests that run and wait: idle ones that the server before keeps.
const CONNECTIONS_SPARE: usize = 1024;
/// How often files are looked at.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// How often refused requests are told.
const TELL_EVERY: Duration = Duration::from_secs(10);
/// How long requests may go on when the program is asked to end.
const END_PATIENCE: Duration = Duration::from_secs(10);
/// Bytes of a request's path in the log.
const PATH_BYTES_MAX: usize = 200;

/// Why the program cannot serve.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ServerError {
    /// The socket cannot be had.
    #[error("{}: {error}; --socket names a path in a directory that this user may write to", path.display())]
    Socket {
        /// The socket.
        path: PathBuf,
        /// What the system says.
        error: io::Error,
    },
    /// Another program serves on the socket.
    #[error("{}: another program listens there; end it, or give another --socket", .0.display())]
    Taken(PathBuf),
    /// There is a file of another kind in the socket's place.
    #[error("{}: there is a file that is no socket; give another --socket", .0.display())]
    NoSocket(PathBuf),
    /// Threads or signals cannot be had.
    #[error("cannot start threads: {0}; raise ulimit -u or lower --threads")]
    Threads(#[from] io::Error),
}

/// Serves until SIGTERM or SIGINT.
pub(crate) fn run(options: Options, components: Arc<Components>, log: Log) -> Result<(), ServerError> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(options.threads).enable_all().build()?;
    let ended = runtime.block_on(serve(options, components, log));
    // Blocking file work of components ends by itself.
    runtime.shutdown_timeout(Duration::from_secs(1));
    ended
}

async fn serve(options: Options, components: Arc<Components>, log: Log) -> Result<(), ServerError> {
    let listener = listen(&options.socket, options.mode)?;
    let connections_max = (options.limits.instances + options.limits.queue) as usize + CONNECTIONS_SPARE;
    let server = Arc::new(Server {
        gate: Gate::new(&options.limits),
        ticker: Ticker::start(components.engine().clone())?,
        components,
        grants: Arc::new(options.grants),
        limits: options.limits,
        log,
        requests: AtomicU64::new(0),
        refused: AtomicU64::new(0),
    });
    let (mut terminated, mut interrupted) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let watching = tokio::spawn(server.clone().look_at_files());
    let telling = tokio::spawn(server.clone().tell_refusals());
    let connections = Arc::new(Semaphore::new(connections_max));
    let (end, ends) = watch::channel(());
    server.log.line(&format!("weir-wasm: serves on {}", options.socket.display()));
    loop {
        let accepted = tokio::select! {
            accepted = accept(&listener, &connections) => accepted,
            _ = terminated.recv() => break,
            _ = interrupted.recv() => break,
        };
        match accepted {
            Ok((stream, permit)) => {
                let (server, ends) = (server.clone(), ends.clone());
                tokio::spawn(async move {
                    connection(server, stream, ends).await;
                    drop(permit);
                });
            }
            Err(error) => {
                server.log.line(&format!("weir-wasm: no connection is accepted: {error}; raise ulimit -n"));
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
    let _ = fs::remove_file(&options.socket);
    drop((listener, end));
    let all = u32::try_from(connections_max).unwrap_or(u32::MAX);
    let _ = tokio::time::timeout(END_PATIENCE, connections.acquire_many(all)).await;
    watching.abort();
    telling.abort();
    Ok(())
}

/// Makes the socket, in place of one that a killed program has left.
fn listen(path: &Path, mode: u32) -> Result<UnixListener, ServerError> {
    let failed = |error| ServerError::Socket { path: path.to_owned(), error };
    if let Ok(metadata) = fs::symlink_metadata(path) {
        use std::os::unix::fs::FileTypeExt;
        if !metadata.file_type().is_socket() {
            return Err(ServerError::NoSocket(path.to_owned()));
        }
        if std::os::unix::net::UnixStream::connect(path).is_ok() {
            return Err(ServerError::Taken(path.to_owned()));
        }
        fs::remove_file(path).map_err(failed)?;
    }
    // SAFETY: the call changes a number of this process; no other thread makes files yet.
    let before = unsafe { libc::umask(0o177) };
    let bound = UnixListener::bind(path);
    // SAFETY: as above.
    unsafe { libc::umask(before) };
    let listener = bound.map_err(failed)?;
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).map_err(failed)?;
    Ok(listener)
}

async fn accept(
    listener: &UnixListener,
    connections: &Arc<Semaphore>,
) -> io::Result<(UnixStream, Option<tokio::sync::OwnedSemaphorePermit>)> {
    let permit = connections.clone().acquire_owned().await.ok();
    let (stream, _) = listener.accept().await?;
    Ok((stream, permit))
}

/// Serves a connection until it ends, or until its request has ended when the program is asked to.
async fn connection(server: Arc<Server>, stream: UnixStream, mut ends: watch::Receiver<()>) {
    let service = service_fn(move |request| {
        let server = server.clone();
        async move { Ok::<_, Infallible>(server.answer(request).await) }
    });
    let connection = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    // Errors of connections are the clients' that go away, and responses that stay incomplete, which are logged.
    tokio::select! {
        _ = connection.as_mut() => return,
        _ = ends.changed() => {}
    }
    connection.as_mut().graceful_shutdown();
    let _ = connection.await;
}

/// What all requests share.
struct Server {
    components: Arc<Components>,
    grants: Arc<Grants>,
    limits: Limits,
    gate: Gate,
    ticker: Ticker,
    log: Log,
    requests: AtomicU64,
    refused: AtomicU64,
}

impl Server {
    async fn look_at_files(self: Arc<Self>) {
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            let components = self.components.clone();
            // Only a panic of the compiler is an error here: the components stay as they are.
            if tokio::task::spawn_blocking(move || components.refresh()).await.is_err() {
                self.log.line("weir-wasm: the compiler has failed; what was loaded before stays");
            }
        }
    }

    async fn tell_refusals(self: Arc<Self>) {
        let mut told = 0;
        loop {
            tokio::time::sleep(TELL_EVERY).await;
            let refused = self.refused.load(Ordering::Relaxed);
            if refused > told {
                let more = refused - told;
                self.log.line(&format!("weir-wasm: {more} requests got 503 for want of an instance, {refused} in all"));
                told = refused;
            }
        }
    }

    async fn answer(self: Arc<Self>, request: Request<Incoming>) -> Response<ResponseBody> {
        let came = Instant::now();
        if !request.headers().contains_key(http::header::HOST) && request.uri().authority().is_none() {
            return response::text(StatusCode::BAD_REQUEST, "The request names no host.");
        }
        let Some(served) = self.components.of_path(request.uri().path()) else {
            return response::text(StatusCode::NOT_FOUND, "There is no such component.");
        };
        let permit = match self.gate.enter(self.limits.timeout).await {
            Ok(permit) => permit,
            Err(closed) => return self.refuse(closed),
        };
        let number = self.requests.fetch_add(1, Ordering::Relaxed) + 1;
        let origin = format!("{} request {number}", served.name);
        let name = format!("{origin} ({})", shown(&request));
        let (method, breakage) = (request.method().clone(), Breakage::default());
        let job = Job {
            served,
            grants: self.grants.clone(),
            limits: self.limits.clone(),
            log: self.log.clone(),
            origin,
            came,
            breakage: breakage.clone(),
        };
        let (send, receive) = oneshot::channel();
        let (log, ticking, told) = (self.log.clone(), self.ticker.begin(), name.clone());
        let task = tokio::spawn(async move {
            let ended = job.run(request, send).await;
            drop((ticking, permit));
            ended.map_err(|failed| {
                log.line(&format!("{told}: {failed}"));
                failed.status()
            })
        });
        let instance = Instance::new(task.abort_handle());
        let wrong = match receive.await {
            Ok(Ok(response)) if !response.status().is_informational() => {
                return response::streamed(response, &method, instance, breakage, (self.log.clone(), name));
            }
            Ok(Ok(response)) => format!("its response has the status {}", response.status().as_u16()),
            Ok(Err(error)) => format!("it gives no response: {error:?}"),
            Err(_) => return failure(task).await,
        };
        self.log.line(&format!("{name}: {wrong}"));
        response::text(StatusCode::BAD_GATEWAY, "The component gives no response.")
    }

    fn refuse(&self, closed: Closed) -> Response<ResponseBody> {
        self.refused.fetch_add(1, Ordering::Relaxed);
        response::text(StatusCode::SERVICE_UNAVAILABLE, &format!("Try again: {closed}."))
    }
}

/// What the client gets of an instance that has ended without a response; the log has more.
async fn failure(task: JoinHandle<Result<(), StatusCode>>) -> Response<ResponseBody> {
    match task.await {
        Ok(Err(StatusCode::GATEWAY_TIMEOUT)) => {
            response::text(StatusCode::GATEWAY_TIMEOUT, "The component has not answered in time.")
        }
        Ok(Err(StatusCode::INTERNAL_SERVER_ERROR)) | Err(_) => {
            response::text(StatusCode::INTERNAL_SERVER_ERROR, "The component has failed.")
        }
        Ok(_) => response::text(StatusCode::BAD_GATEWAY, "The component has not answered."),
    }
}

/// Method and path for the log, within a bound; the query, which may be private, stays out.
fn shown(request: &Request<Incoming>) -> String {
    let path = request.uri().path();
    // The URI type holds visible ASCII alone, so that any byte is a place to cut.
    format!("{} {}", request.method(), path.get(..PATH_BYTES_MAX).unwrap_or(path))
}
