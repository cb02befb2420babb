//! The console of a running server at its own admin address.

use super::live::Server;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use weir_console::Mounted;
use weir_endpoint::{Answer, Handed, Handover, Limits, Request, Socket, StartError};
use weir_server::{AdminDoor, AdminPages, AdminSocket, AdminVisit};

/// Four watches, and the questions of a few pages beside them.
const HANDLERS: usize = 8;
/// Connections at a time, each for one request.
const CONNECTIONS: usize = 32;
/// How long a client may take nothing of its answer, and for the body of a request.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long answers may take that are under way when the server ends.
const END: Duration = Duration::from_millis(200);

/// The console, which has threads from its first request on.
#[derive(Debug, Default)]
pub(crate) struct OwnConsole(Mutex<State>);

#[derive(Debug, Default)]
enum State {
    #[default]
    Asleep,
    Runs {
        handover: Handover,
        mounted: Arc<Mounted>,
    },
    Ended,
}

impl State {
    fn begin(door: &AdminDoor) -> Result<Self, StartError> {
        let limits = Limits { connections: CONNECTIONS, handlers: HANDLERS, head: PATIENCE, ..Limits::default() };
        let server = Arc::new(Server::within(door.clone()));
        let mounted = Arc::new(Mounted::new(weir_terminal::VERSION.to_owned(), server));
        Ok(Self::Runs { handover: Handover::start(limits)?, mounted })
    }
}

impl AdminPages for OwnConsole {
    fn take(&self, visit: AdminVisit, door: &AdminDoor) -> Result<(), AdminVisit> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if matches!(*state, State::Asleep) {
            match State::begin(door) {
                Ok(begun) => *state = begun,
                // Without a thread it is as busy as it can be; the next request tries again.
                Err(error) => tracing::warn!(%error, "the console of the admin address does not begin"),
            }
        }
        let State::Runs { handover, mounted } = &*state else { return Err(visit) };
        let (mounted, may_ask) = (Arc::clone(mounted), visit.may_ask);
        let handler = Arc::new(move |request: Request| -> Answer { mounted.answer(&request, may_ask) });
        let socket = match visit.socket {
            AdminSocket::Tcp(stream) => Socket::Tcp(stream),
            AdminSocket::Unix(stream) => Socket::Unix(stream),
        };
        handover.take(Handed { socket, read: visit.read, handler }).map_err(|back| {
            let socket = match back.socket {
                Socket::Tcp(stream) => AdminSocket::Tcp(stream),
                Socket::Unix(stream) => AdminSocket::Unix(stream),
            };
            AdminVisit { socket, read: back.read, may_ask }
        })
    }

    fn end(&self) {
        let state = std::mem::replace(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner), State::Ended);
        if let State::Runs { handover, .. } = state {
            handover.stop(END);
        }
    }
}
