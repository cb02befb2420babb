//! Applications: what answers requests otherwise than by files, in the program that runs the server.

use super::reply::Reply;
use super::request_body::RequestBody;
use crate::exchange::wakes::{Address, Waked, Wakes};
use crate::http::framing::Framing;
use crate::http::request::Request;
use crate::io::ends::Ends;
use std::cell::OnceCell;
use std::fmt;
use std::net::IpAddr;
use std::os::fd::{OwnedFd, RawFd};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use weir_arm::Identity;

/// Answers the requests for some paths by code; see [`crate::HostRules::with_application`].
///
/// # Examples
///
/// An application that streams a request's body back, whatever its size, with at most 64 KiB of it held:
///
/// ```
/// use weir_server::{Aborted, Application, Handler, Reply, RequestBody, RequestHead, Wake};
///
/// #[derive(Debug)]
/// struct Echo;
///
/// impl Application for Echo {
///     fn begin(&self, _head: &RequestHead<'_>, _wake: Wake) -> Box<dyn Handler> {
///         Box::new(Echo)
///     }
/// }
///
/// impl Handler for Echo {
///     fn go_on(&mut self, body: &mut RequestBody, reply: &mut Reply) -> Result<(), Aborted> {
///         if !reply.has_begun() {
///             reply.begin(200, &[("Content-Type", "application/octet-stream")], None).map_err(|_| Aborted)?;
///         }
///         let taken = reply.write(body.bytes());
///         body.take(taken);
///         if body.is_ended() {
///             reply.end(&[]).map_err(|_| Aborted)?;
///         }
///         Ok(())
///     }
/// }
/// ```
pub trait Application: fmt::Debug + Send + Sync {
    /// Begins the answer to a request. It runs on the thread of the connection's loop and must not block.
    fn begin(&self, head: &RequestHead<'_>, wake: Wake) -> Box<dyn Handler>;
}

/// One request that an application answers. It stays on the thread of its loop. It is dropped when the response has been
/// sent, and also when the client has gone, its time is over or the server ends: that is how a handler is cancelled.
pub trait Handler: fmt::Debug {
    /// Goes on as far as is possible without blocking: takes from the body, gives to the reply. The loop calls it at
    /// first, then when more of the body has come, when the client has taken what was given, and when [`Wake::wake`]
    /// was called; now and then without any of these.
    ///
    /// # Errors
    ///
    /// [`Aborted`] if there is no honest way to go on: before the response has begun the client gets 502, after that the
    /// response is cut off so that the client can tell.
    fn go_on(&mut self, body: &mut RequestBody, reply: &mut Reply) -> Result<(), Aborted>;

    /// How far it is, in words, for people who watch the request; none if there is nothing to be said. Asked only while
    /// one does, behind [`Handler::go_on`].
    fn progress(&self) -> Option<String> {
        None
    }
}

/// A handler of a response that another server makes.
pub(crate) trait Continued: Handler {
    /// Ends as that: where the rest of the response comes from, for another server to go on with it. None if that is read by
    /// something else as well.
    fn pass_on(self: Box<Self>) -> Option<PassedOn>;
}

/// The rest of a response that another server makes, in the form of [`super::relayed_form`].
#[derive(Debug)]
pub(crate) struct PassedOn {
    pub(crate) socket: OwnedFd,
    /// What stands before what the socket still has, so that both together are a stream of that form.
    pub(crate) before: Vec<u8>,
}

/// The application cannot answer, or not go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the application gives up")]
pub struct Aborted;

/// What begins the answer to a request within its loop: upstreams, which share their connections within the loop.
pub(crate) trait Begin: fmt::Debug {
    /// Begins the answer. `is_whole` says that the request has no body, or that all of it has come.
    fn begin(self: Rc<Self>, head: &RequestHead<'_>, caller: &Caller<'_>, is_whole: bool) -> Box<dyn Handler>;
}

/// What answers a request that no file answers.
#[derive(Clone)]
pub(crate) enum Answerer {
    /// Code of the program that runs the server.
    Application(ApplicationHandle),
    /// Something of the loop, which has time-outs of its own.
    Local(Rc<dyn Begin>),
}

impl fmt::Debug for Answerer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Application(application) => application.fmt(formatter),
            Self::Local(local) => local.fmt(formatter),
        }
    }
}

/// The request that something answers, and the loop that it is of.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Caller<'l> {
    pub(crate) address: Address,
    wakes: &'l Arc<Wakes>,
}

impl Caller<'_> {
    /// Has its handler called again from any thread.
    pub(crate) fn wake(&self) -> Wake {
        let (wakes, address) = (Arc::clone(self.wakes), self.address);
        Wake(Arc::new(Waked { wakes, address, is_waked: AtomicBool::new(false) }))
    }
}

/// An application among the settings of a path.
#[derive(Clone)]
pub(crate) struct ApplicationHandle(pub(crate) Arc<dyn Application>);

impl fmt::Debug for ApplicationHandle {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

/// The same if it is the same value.
impl PartialEq for ApplicationHandle {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// The head of a request.
#[derive(Debug, Clone, Copy)]
pub struct RequestHead<'r> {
    pub(crate) request: &'r Request<'r>,
    pub(crate) client: IpAddr,
    /// The address at the other end of the socket: a proxy's, where one is trusted.
    pub(crate) peer: IpAddr,
    pub(crate) is_secure: bool,
    /// The socket of the connection, if it is of TCP or of the Unix domain.
    pub(crate) socket: Option<RawFd>,
    /// Both addresses of that connection, once they were asked for; none where nothing keeps them from one request to the
    /// next.
    pub(crate) ends: Option<&'r OnceCell<Box<Ends>>>,
    /// The user whose password was checked, if one was.
    pub(crate) user: Option<&'r str>,
    /// The business transaction that it is reported as, for those that answer it.
    pub(crate) arm: Option<Identity>,
}

impl<'r> RequestHead<'r> {
    /// The method, such as `POST`.
    pub fn method(&self) -> &'r str {
        self.request.method_text
    }

    /// The target as it came: a path and perhaps a query.
    pub fn target(&self) -> &'r str {
        self.request.target
    }

    /// The version of HTTP: 10, 11, 20 or 30.
    pub fn version(&self) -> u8 {
        match self.request.minor {
            0 => 10,
            1 => 11,
            2 => 20,
            _ => 30,
        }
    }

    /// Names and values of all fields in their order; in HTTP/2 and HTTP/3 names are in lower case, and fields whose
    /// name begins with a colon stand for the request line.
    pub fn fields(&self) -> impl Iterator<Item = (&'r str, &'r [u8])> + use<'r> {
        self.request.fields()
    }

    /// Bytes of the body, if the client says; 0 without a body.
    pub fn body_bytes(&self) -> Option<u64> {
        match self.request.framing {
            Framing::None if self.request.minor >= 2 => None,
            Framing::None => Some(0),
            Framing::Length(bytes) => Some(bytes),
            Framing::Chunked => None,
        }
    }

    /// The client's address, as a trusted proxy told it or as the socket has it.
    pub fn client(&self) -> IpAddr {
        self.client
    }

    /// Whether the connection is encrypted.
    pub fn is_secure(&self) -> bool {
        self.is_secure
    }
}

/// Has the loop of a connection call a handler again; from any thread.
#[derive(Debug, Clone)]
pub struct Wake(pub(crate) Arc<Waked>);

impl Wake {
    /// Has [`Handler::go_on`] called soon, if the request is still there. It never blocks for long, and calls that come
    /// before the loop has looked count as one.
    pub fn wake(&self) {
        if !self.0.is_waked.swap(true, Ordering::AcqRel) {
            self.0.wakes.add(Arc::clone(&self.0));
        }
    }
}

impl Wake {
    /// Another request of the same loop.
    pub(crate) fn caller(&self, address: Address) -> Caller<'_> {
        Caller { address, wakes: &self.0.wakes }
    }
}

/// What a loop gives the requests of applications.
#[derive(Debug)]
pub(crate) struct Applications {
    /// Requests that other threads want to go on.
    pub(crate) wakes: Arc<Wakes>,
    /// The connection that has its turn.
    pub(crate) token: u64,
    /// How long one may keep its client waiting, in milliseconds.
    pub(crate) patience_ms: u64,
}

impl Applications {
    pub(crate) fn new(wakes: Arc<Wakes>, patience: Duration) -> Self {
        let mut applications = Self { wakes, token: 0, patience_ms: 0 };
        applications.set_patience(patience);
        applications
    }

    pub(crate) fn set_patience(&mut self, patience: Duration) {
        self.patience_ms = u64::try_from(patience.as_millis()).unwrap_or(u64::MAX);
    }

    /// A request of a connection; the token is none over QUIC.
    pub(crate) fn caller(&self, token: Option<u64>, connection: u64) -> Caller<'_> {
        Caller { address: Address { token, connection }, wakes: &self.wakes }
    }
}
