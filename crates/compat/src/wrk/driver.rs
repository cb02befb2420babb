//! Asks a script what is sent next, and gives it what came.
//!
//! ```text
//! arrives -> delay() -> pause -> request() -> all answered, each given to response() -> delay() -> ...
//!                                         \-> the connection ended -> a moment -> request() -> ...
//! ```
//!
//! What a script takes of the loop's time is counted apart. A response that came while the loop was in a script is read
//! late; so of its latency is taken what scripts took since the loop could have read it. Where the loop had to wait, that
//! is the end of the wait; elsewhere the begin of the turn before, or when its request went out. Whether it had to wait is
//! asked only behind turns with much time in scripts, as the question costs a system call.

use super::pipeline::{self, Part as Request};
use super::script::{Script, ScriptError};
use super::tally::{Manner, Seen, Shared};
use super::thread::Thread;
use super::watchdog::Part;
use crate::system::{monotonic_ns, waits};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use weir_load::directed::{Director, Orders};
use weir_load::{Control, Outcome};

/// How long a connection waits that could not be made, or broke.
const AFTER_FAILURE: Duration = Duration::from_millis(1);
/// From so much time in scripts on it is asked whether the loop then had to wait, in nanoseconds.
const MUCH_NS: u64 = 50_000;
/// With more connections than these a turn of the loop may not read all that came.
const READ_IN_A_TURN: usize = 256;
/// The places of the requests in the list of the engine: with a body in the response, and without.
const GET: u32 = 0;
const HEAD: u32 = 1;

/// What became of a script when the run is over.
pub(super) type Ended = Arc<Mutex<Option<Result<Script, ScriptError>>>>;

/// A connection.
#[derive(Debug, Default, Clone, Copy)]
struct Link {
    /// Responses that are still to come.
    awaited: usize,
    /// The time of all scripts when its requests went out.
    script_ns: u64,
}

/// Drives the connections of a thread by its script.
#[derive(Debug)]
pub(super) struct Driver {
    /// None once it is given back.
    script: Option<Script>,
    thread: Arc<Thread>,
    shared: Shared,
    control: Arc<Control>,
    /// Whether `response` and `delay` are called.
    responds: bool,
    delays: bool,
    /// Whether what `request` gives is taken apart: it is several requests.
    is_pipeline: bool,
    links: Vec<Link>,
    text: Vec<u8>,
    calls: u64,
    /// Time that scripts took so far, at the begin of this turn, and of the one before.
    script_ns: u64,
    turn_ns: u64,
    last_turn_ns: u64,
    /// How often the loop had waited at the begin of this turn, until its first response, if that is asked.
    waits: Option<i64>,
    ended: Ended,
    /// Why the script cannot go on.
    wrong: Option<ScriptError>,
}

/// What a driver is told of the run.
#[derive(Debug, Clone, Copy)]
pub(super) struct Plan {
    pub(super) delays: bool,
    pub(super) is_pipeline: bool,
}

impl Driver {
    pub(super) fn new(
        script: Script,
        plan: Plan,
        thread: Arc<Thread>,
        shared: Shared,
        control: Arc<Control>,
        ended: Ended,
    ) -> Self {
        let responds = shared.lock().manner == Manner::Kept;
        Self {
            script: Some(script),
            thread,
            shared,
            control,
            responds,
            delays: plan.delays,
            is_pipeline: plan.is_pipeline,
            links: Vec::new(),
            text: Vec::new(),
            calls: 0,
            script_ns: 0,
            turn_ns: 0,
            last_turn_ns: 0,
            waits: None,
            ended,
            wrong: None,
        }
    }

    /// Whether the script takes part no more.
    fn is_over(&self) -> bool {
        self.wrong.is_some() || self.thread.is_stopped()
    }

    /// Ends the run of this thread.
    fn stop(&mut self, wrong: Option<ScriptError>) {
        if self.wrong.is_none() {
            self.wrong = wrong;
        }
        self.shared.lock().stopped = true;
        self.control.stop();
    }

    /// A link is over, and none comes in its place: the loop would begin another at once.
    fn over(orders: &mut Orders) {
        orders.stop();
        orders.over();
    }

    /// Asks the script; what it gives, if it goes on.
    fn ask<R>(&mut self, question: impl FnOnce(&Script) -> Result<(R, u64), ScriptError>) -> Option<R> {
        let script = self.script.as_ref()?;
        match question(script) {
            Ok((given, took_ns)) => {
                self.script_ns += took_ns;
                self.calls += 1;
                if self.thread.is_stopped() {
                    self.stop(None);
                }
                Some(given)
            }
            Err(wrong) => {
                self.stop(Some(wrong));
                None
            }
        }
    }

    /// Goes on with a link on which nothing is under way.
    fn go_on(&mut self, link: u32, orders: &mut Orders) {
        if self.is_over() || self.shared.lock().is_past_end(monotonic_ns()) {
            return Self::over(orders);
        }
        if !self.delays {
            return self.request(link, orders);
        }
        match self.ask(Script::delay) {
            Some(milliseconds) if !self.is_over() => orders.wake(Duration::from_millis(milliseconds), link),
            _ => Self::over(orders),
        }
    }

    /// Sends what the script gives next.
    fn request(&mut self, link: u32, orders: &mut Orders) {
        let mut text = std::mem::take(&mut self.text);
        text.clear();
        let asked = self.ask(|script| script.request(&mut text).map(|took_ns| ((), took_ns)));
        if asked.is_none() || self.is_over() {
            self.text = text;
            return Self::over(orders);
        }
        let place = &mut self.links[link as usize];
        (place.script_ns, place.awaited) = (self.script_ns, 1);
        let kind = |is_head| if is_head { HEAD } else { GET };
        if !self.is_pipeline && !text.is_empty() {
            orders.request(link, kind(pipeline::is_head(&text)), &text);
        } else {
            match pipeline::split(&text) {
                Ok(requests) => {
                    place.awaited = requests.len();
                    let mut at = 0;
                    for Request { is_head, bytes } in requests {
                        orders.request(link, kind(is_head), &text[at..at + bytes]);
                        at += bytes;
                    }
                }
                Err(wrong) => {
                    let place = self.script.as_ref().map(|script| script.place(Part::Request)).unwrap_or_default();
                    self.stop(Some(ScriptError::NoRequest { place, wrong }));
                    Self::over(orders);
                }
            }
        }
        self.text = text;
    }

    /// Gives a response to the script.
    fn respond(&mut self, connection: u64, status: u16) {
        let reply = self.shared.lock().take_reply(connection);
        let given =
            |script: &Script| script.response(status, reply.fields(), &reply.content).map(|took_ns| ((), took_ns));
        self.ask(given);
        self.shared.lock().give_back(connection, reply);
    }
}

impl Director for Driver {
    fn arrives(&mut self, _: u64, orders: &mut Orders) {
        let link = self.links.len() as u32;
        self.links.push(Link::default());
        self.go_on(link, orders);
    }

    fn answered(&mut self, link: u32, connection: u64, status: u16) {
        if self.is_over() {
            return;
        }
        if self.waits.take().is_some_and(|before| waits() > before) {
            // Nothing was there at the begin of this turn.
            self.last_turn_ns = self.turn_ns;
        }
        let all = self.links.len();
        let place = &mut self.links[link as usize];
        place.awaited = place.awaited.saturating_sub(1);
        let sent_ns = place.script_ns;
        let since_ns = if all > READ_IN_A_TURN { sent_ns } else { sent_ns.max(self.last_turn_ns) };
        let script_ns = self.script_ns.saturating_sub(since_ns);
        let seen = Seen { connection, is_last: place.awaited == 0, script_ns };
        {
            let mut inner = self.shared.lock();
            if inner.is_past_end(monotonic_ns()) {
                return;
            }
            inner.seen.push(seen);
        }
        if self.responds {
            self.respond(connection, status);
        }
    }

    fn idle(&mut self, link: u32, _: bool, orders: &mut Orders) {
        self.go_on(link, orders);
    }

    fn ended(&mut self, link: u32, _: Outcome, orders: &mut Orders) {
        match self.is_over() {
            true => Self::over(orders),
            false => orders.wake(AFTER_FAILURE, link),
        }
    }

    fn turns(&mut self) {
        (self.last_turn_ns, self.turn_ns) = (self.turn_ns, self.script_ns);
        self.waits = (self.turn_ns - self.last_turn_ns > MUCH_NS).then(waits);
    }

    fn wakes(&mut self, token: u32, orders: &mut Orders) {
        match self.is_over() {
            true => Self::over(orders),
            false => self.request(token, orders),
        }
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        {
            let mut inner = self.shared.lock();
            inner.tally.script_ns += self.script_ns;
            inner.tally.calls += self.calls;
        }
        let script = self.script.take();
        let ended = match self.wrong.take() {
            Some(wrong) => Some(Err(wrong)),
            None => script.map(Ok),
        };
        *self.ended.lock().unwrap_or_else(PoisonError::into_inner) = ended;
    }
}
