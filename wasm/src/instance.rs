//! One request's instance: made for it alone, run within its bounds, dropped with all that it kept.

use crate::components::Served;
use crate::grants::Grants;
use crate::limits::{Bound, CpuTime, Limits, Metered, Room};
use crate::log::{GuestText, Log};
use http::Request;
use hyper::body::Incoming;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;
use tokio::sync::oneshot;
use wasmtime::component::ResourceTable;
use wasmtime::{Store, UpdateDeadline};
use wasmtime_wasi::{WasiCtx, WasiCtxBuilder, WasiCtxView, WasiView};
use wasmtime_wasi_http::p2::bindings::http::types::{ErrorCode, Scheme};
use wasmtime_wasi_http::p2::body::HyperOutgoingBody;
use wasmtime_wasi_http::{Error, RequestOptions, WasiBody, WasiHttpCtx, WasiHttpCtxView, WasiHttpHooks, WasiHttpView};

/// The response, or why the component refuses to give one.
pub(crate) type Answer = Result<hyper::Response<HyperOutgoingBody>, ErrorCode>;

/// What an instance has of the host.
pub(crate) struct State {
    table: ResourceTable,
    wasi: WasiCtx,
    http: WasiHttpCtx,
    outgoing: Outgoing,
    room: Room,
}

impl WasiView for State {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        WasiCtxView { ctx: &mut self.wasi, table: &mut self.table }
    }
}

impl WasiHttpView for State {
    fn http(&mut self) -> WasiHttpCtxView<'_> {
        WasiHttpCtxView { ctx: &mut self.http, table: &mut self.table, hooks: &mut self.outgoing }
    }
}

/// Requests that the component sends: only to servers that are granted.
struct Outgoing {
    grants: Arc<Grants>,
    log: Log,
    origin: String,
}

/// The end of a request that goes on by itself behind its head.
type Rest = Box<dyn Future<Output = Result<(), Error>> + Send>;
/// An outgoing request under way.
type Sending = Box<dyn Future<Output = Result<(http::Response<WasiBody>, Rest), Error>> + Send>;

impl WasiHttpHooks for Outgoing {
    fn send_request(&mut self, request: Request<WasiBody>, options: Option<RequestOptions>, _: Rest) -> Sending {
        use http_body_util::BodyExt;
        if !self.grants.allow(request.uri()) {
            let authority = request.uri().authority().map_or("", |authority| authority.as_str());
            let origin = &self.origin;
            self.log.line(&format!("{origin}: it may not ask {authority}; --allow-host {authority} would grant it"));
            return Box::new(async { Err(Error::HttpRequestDenied) });
        }
        Box::new(async move {
            let (response, rest) = wasmtime_wasi_http::default_send_request(request, options).await?;
            Ok((response.map(BodyExt::boxed_unsync), Box::new(rest) as Rest))
        })
    }
}

/// Why a request has failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failed {
    /// A bound is reached.
    #[error("{0}")]
    Bound(#[from] Bound),
    /// No instance could be made.
    #[error("it cannot be instantiated: {0}")]
    Start(String),
    /// The instance has trapped; which memory or table was refused to it before, if any.
    #[error("it has trapped: {trap}{}", refused.map(|what| format!("; {what}")).unwrap_or_default())]
    Trap {
        /// What the engine says.
        trap: String,
        /// What was refused.
        refused: Option<&'static str>,
    },
    /// It has returned without a response.
    #[error("it has returned without a response")]
    Silent,
}

impl Failed {
    /// The status of the response, if there is none yet.
    pub(crate) fn status(&self) -> http::StatusCode {
        match self {
            Self::Bound(_) => http::StatusCode::GATEWAY_TIMEOUT,
            Self::Start(_) | Self::Trap { .. } => http::StatusCode::INTERNAL_SERVER_ERROR,
            Self::Silent => http::StatusCode::BAD_GATEWAY,
        }
    }
}

/// Whether an instance has ended without finishing its response.
///
/// A body whose instance has trapped ends like a finished one, so that its reader asks here.
#[derive(Clone, Debug, Default)]
pub(crate) struct Breakage(Arc<AtomicBool>);

impl Breakage {
    /// Whether the instance has trapped or was ended.
    pub(crate) fn has_happened(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

/// Stands for an instance that runs; dropped before its store, it says that the instance broke off.
struct Running {
    breakage: Breakage,
    has_returned: bool,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.breakage.0.store(!self.has_returned, Ordering::SeqCst);
    }
}

/// A request, and what its instance is made of.
pub(crate) struct Job {
    /// The component.
    pub(crate) served: Arc<Served>,
    /// What it may use.
    pub(crate) grants: Arc<Grants>,
    /// Its bounds.
    pub(crate) limits: Limits,
    /// Where its texts go.
    pub(crate) log: Log,
    /// What stands before its lines: component and request.
    pub(crate) origin: String,
    /// When the request came.
    pub(crate) came: Instant,
    /// Where it says that it broke off.
    pub(crate) breakage: Breakage,
}

impl Job {
    /// Answers the request, whose response goes out by `answer` as soon as its head is there.
    pub(crate) async fn run(self, request: Request<Incoming>, answer: oneshot::Sender<Answer>) -> Result<(), Failed> {
        let cpu = Arc::new(CpuTime::default());
        let left = self.limits.timeout.saturating_sub(self.came.elapsed());
        let work = Metered::new(self.work(request, answer, cpu.clone()), cpu);
        tokio::time::timeout(left, work).await.unwrap_or(Err(Failed::Bound(Bound::Time)))
    }

    async fn work(
        self,
        request: Request<Incoming>,
        answer: oneshot::Sender<Answer>,
        cpu: Arc<CpuTime>,
    ) -> Result<(), Failed> {
        let start = |error: wasmtime::Error| Failed::Start(format!("{error:#}"));
        let mut store = self.store(cpu).map_err(start)?;
        // Locals are dropped in reverse order: this one before the store, which ends the body.
        let mut running = Running { breakage: self.breakage.clone(), has_returned: false };
        let scheme = scheme(&request);
        let request = store.data_mut().http().new_incoming_request(scheme, request).map_err(start)?;
        let is_set = Arc::new(AtomicBool::new(false));
        let noted = is_set.clone();
        let send = move |answered| {
            noted.store(true, Ordering::Relaxed);
            // An error means that the client has gone away.
            let _ = answer.send(answered);
        };
        let out = store.data_mut().http().new_response_outparam_from_callback(send).map_err(start)?;
        let proxy = match self.served.ready.instantiate_async(&mut store).await {
            Ok(proxy) => proxy,
            Err(error) => return Err(failed(&error, &store).unwrap_or_else(|| start(error))),
        };
        let handled = proxy.wasi_http_incoming_handler().call_handle(&mut store, request, out).await;
        running.has_returned = handled.is_ok();
        match handled {
            Ok(()) if is_set.load(Ordering::Relaxed) => Ok(()),
            Ok(()) => Err(Failed::Silent),
            Err(error) => Err(failed(&error, &store).unwrap_or_else(|| trapped(&error, &store))),
        }
    }

    fn store(&self, cpu: Arc<CpuTime>) -> wasmtime::Result<Store<State>> {
        let mut context = WasiCtxBuilder::new();
        let text = |stream| GuestText::new(self.log.clone(), format!("{} {stream}", self.origin));
        context.stdout(text("stdout")).stderr(text("stderr"));
        self.grants.give(&mut context)?;
        let outgoing = Outgoing { grants: self.grants.clone(), log: self.log.clone(), origin: self.origin.clone() };
        let state = State {
            table: ResourceTable::new(),
            wasi: context.build(),
            http: WasiHttpCtx::new(),
            outgoing,
            room: Room::new(&self.limits),
        };
        let mut store = Store::new(self.served.ready.engine(), state);
        store.limiter(|state| &mut state.room);
        let bound = self.limits.cpu;
        store.set_epoch_deadline(1);
        store.epoch_deadline_callback(move |_| {
            if cpu.used() > bound {
                return Err(wasmtime::Error::new(Bound::Cpu));
            }
            // Other requests of this thread go first.
            Ok(UpdateDeadline::Yield(1))
        });
        Ok(store)
    }
}

/// Whether the client speaks HTTPS, as the server before says.
fn scheme(request: &Request<Incoming>) -> Scheme {
    match request.headers().get("x-forwarded-proto") {
        Some(value) if value.as_bytes().eq_ignore_ascii_case(b"https") => Scheme::Https,
        _ => Scheme::Http,
    }
}

/// The bound that an error stands for, if any.
fn failed(error: &wasmtime::Error, store: &Store<State>) -> Option<Failed> {
    if let Some(bound) = error.downcast_ref::<Bound>() {
        return Some(Failed::Bound(*bound));
    }
    store.data().room.refused.is_some().then(|| trapped(error, store))
}

/// A trap in one line: the engine's reason without its list of functions.
fn trapped(error: &wasmtime::Error, store: &Store<State>) -> Failed {
    let cause = error.root_cause().to_string();
    let line = cause.lines().next().unwrap_or("unknown");
    let trap = line.strip_prefix("wasm trap: ").unwrap_or(line).to_owned();
    Failed::Trap { trap, refused: store.data().room.refused }
}
