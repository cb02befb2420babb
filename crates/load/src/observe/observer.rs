//! Observers of a run: each sees every request and its response at once and without loss.

use crate::Secured;
use weir_wire::client::ClientRequest;

/// Looks at one loop's requests as they happen, in the loop's own thread.
///
/// What an observer does takes time from its loop: it should count, not write.
/// Unlike a ring of events it loses nothing, and it sees the bytes of responses, which no event carries.
/// A loop without an observer pays one comparison for each reception.
///
/// ```no_run
/// use std::sync::{Arc, Mutex};
/// use weir_load::{ClientRequest, Control, Observer, Options, Url};
///
/// struct Times(Arc<Mutex<Vec<u64>>>);
///
/// impl Observer for Times {
///     fn request(&mut self, request: &ClientRequest) {
///         self.0.lock().unwrap().push(request.done_ns - request.started_ns);
///     }
/// }
///
/// let times = Arc::new(Mutex::new(Vec::new()));
/// let mut options = Options::new(Url::parse("http://127.0.0.1:8080/").unwrap());
/// options.observers = vec![Box::new(Times(Arc::clone(&times)))];
/// weir_load::run(options, &Control::default()).unwrap();
/// println!("{} requests", times.lock().unwrap().len());
/// ```
pub trait Observer: Send {
    /// The run begins at this time, CLOCK_MONOTONIC nanoseconds; called once, before everything else.
    fn begins(&mut self, at_ns: u64) {
        let _ = at_ns;
    }

    /// A connection is about to be made; `connection` is the generator's number of it, unique in the run.
    fn opens(&mut self, connection: u64) {
        let _ = connection;
    }

    /// The other end took a connection at this time (CLOCK_MONOTONIC nanoseconds), and a proxy's consent or TLS follows;
    /// not called where neither does.
    fn reached(&mut self, connection: u64, at_ns: u64) {
        let _ = (connection, at_ns);
    }

    /// A connection can carry requests since `ready_ns`, TLS and a proxy's consent included; its connect call began at
    /// `begin_ns`. Both are CLOCK_MONOTONIC nanoseconds.
    fn connected(&mut self, connection: u64, begin_ns: u64, ready_ns: u64) {
        let _ = (connection, begin_ns, ready_ns);
    }

    /// A connection is encrypted from now on.
    fn secured(&mut self, session: &Secured<'_>) {
        let _ = session;
    }

    /// A connection carries no more requests, or was never made.
    fn closes(&mut self, connection: u64) {
        let _ = connection;
    }

    /// Bytes of the response that is awaited on a connection came, decrypted; heads, chunk frames and all.
    ///
    /// Not called over HTTP/2, where the bytes of several responses alternate.
    fn received(&mut self, connection: u64, bytes: &[u8]) {
        let _ = (connection, bytes);
    }

    /// A request is over: answered, or failed for good.
    ///
    /// All bytes since the last call with this connection's number were its response's.
    fn request(&mut self, request: &ClientRequest);
}

impl std::fmt::Debug for dyn Observer {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Observer")
    }
}
