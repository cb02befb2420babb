//! Requests of users: over which connection they go, and what comes of them.

use crate::behaviour::{Answer, AnsweredBy, Ask, Failing, Fields, Redirected, Timings};
use crate::metrics::{Builtin, RequestTags};
use crate::run::director::{Phase, Runner};
use crate::run::flow::Told;
use crate::run::incoming::{Over, Parts, parts};
use crate::run::outgoing;
use crate::run::plan::{LINKS_OF_A_USER, TIMEOUT_MAX};
use crate::run::scripts::monotonic_ns;
use crate::run::sockets::SocketAt;
use crate::run::timers::Timer;
use crate::run::user::{Busy, Doing, Pending, Room, Stage, Waits};
use crate::run::words::words_of;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::SystemTime;
use weir_load::Outcome;
use weir_load::directed::{Orders, Way, Ways};

/// How often it is seen whether a name has been looked up, in nanoseconds.
const NAMES_NS: u64 = 500_000;
/// How exactly times of requests are kept, in nanoseconds.
const OVERDUE_NS: u64 = 10_000_000;
/// The most requests at once.
const ASKS_MAX: usize = 1000;

/// A request of a user's.
#[derive(Debug, Clone, Copy)]
struct At {
    user: u32,
    place: u32,
}

impl Runner {
    /// Requests of a user, all at once.
    pub(crate) fn ask(&mut self, user: u32, mut asks: Vec<Ask>, now_ns: u64, orders: &mut Orders) {
        asks.truncate(ASKS_MAX);
        let own = &mut self.users[user as usize];
        let intended_ns = now_ns - std::mem::take(&mut own.lag_ns);
        let pending = asks.into_iter().map(|ask| Pending {
            deadline_ns: now_ns.saturating_add(ask.timeout.min(TIMEOUT_MAX).as_nanos() as u64),
            ask,
            stage: Stage::Queued,
            intended_ns,
            asked_ns: now_ns,
            script_ns: 0,
            sent_bytes: 0,
            received_bytes: 0,
            redirects: Vec::new(),
            is_resent: false,
            answer: None,
        });
        let pending: Vec<_> = pending.collect();
        let count = pending.len();
        own.doing = Doing::Waits(Waits { left: count, pending });
        own.epoch = own.epoch.wrapping_add(1);
        for place in 0..count as u32 {
            self.place(At { user, place }, now_ns, orders);
        }
        self.see_whether_answered(user, orders);
    }

    /// Finds a connection for a request and sends it, if there is one.
    fn place(&mut self, at: At, now_ns: u64, orders: &mut Orders) {
        let own = &mut self.users[at.user as usize];
        let epoch = own.epoch;
        let Some(pending) = own.pending(at.place) else { return };
        if pending.deadline_ns < self.overdue_ns {
            self.overdue_ns = pending.deadline_ns;
            self.timers.push(pending.deadline_ns, Timer::Overdue);
        }
        let server = match self.ways.find(&pending.ask.url, pending.ask.at) {
            Way::Known(server) => server,
            Way::Sought => {
                pending.stage = Stage::Names;
                self.timers.push(now_ns + NAMES_NS, Timer::Names { user: at.user, epoch });
                return;
            }
            Way::None(words) => return self.fail(at, Outcome::ConnectFailed, words),
        };
        let own = &mut self.users[at.user as usize];
        let room = own.take_link(server, at.place);
        let jar = own.jar.clone();
        let script_ns = self.scripts.all_ns;
        let Some(pending) = own.pending(at.place) else { return };
        let link = match room {
            Room::Link(link) => link,
            Room::Instead(link) => {
                orders.close(at.user * LINKS_OF_A_USER + link);
                link
            }
            Room::None => {
                pending.stage = Stage::Queued;
                return;
            }
        };
        match outgoing::bytes(&pending.ask, &jar) {
            Ok(bytes) => {
                pending.stage = Stage::OnLink(link);
                pending.script_ns = script_ns;
                pending.sent_bytes += bytes.len() as u64;
                self.links_busy += 1;
                let request = Ways::request(server, pending.ask.method == "HEAD");
                orders.request(at.user * LINKS_OF_A_USER + link, request, &bytes);
            }
            Err(words) => {
                own.links[link as usize].busy = Busy::Nothing;
                self.fail(at, Outcome::Other, words);
            }
        }
    }

    /// All of what was asked on a link is answered.
    pub(crate) fn link_answered(&mut self, link: u32, kept: bool, orders: &mut Orders) {
        let (user, place) = (link / LINKS_OF_A_USER, link % LINKS_OF_A_USER);
        let over = self.watch.lock().last.take();
        let Some(own) = self.users[user as usize].links.get_mut(place as usize) else { return };
        own.is_open = kept;
        let pending = match std::mem::take(&mut own.busy) {
            Busy::Request(pending) => pending,
            Busy::Socket(socket) => {
                let at = SocketAt { user, socket, link: place };
                return match over {
                    Some(over) => self.socket_answered(at, over, orders),
                    None => self.socket_ended(at, Outcome::Malformed, orders),
                };
            }
            Busy::Nothing => return,
        };
        self.links_busy -= 1;
        let Some(over) = over else { return };
        self.answered_part(At { user, place: pending }, over, orders);
        self.go_on_with(user, orders);
    }

    /// The connection of a link ended, or was never made.
    pub(crate) fn link_ended(&mut self, link: u32, outcome: Outcome, orders: &mut Orders) {
        let (user, place) = (link / LINKS_OF_A_USER, link % LINKS_OF_A_USER);
        let over = self.watch.lock().last.take().filter(|over| over.request.outcome == outcome);
        let Some(own) = self.users[user as usize].links.get_mut(place as usize) else { return };
        let was_open = std::mem::take(&mut own.is_open);
        let pending = match std::mem::take(&mut own.busy) {
            Busy::Request(pending) => pending,
            Busy::Socket(socket) => return self.socket_ended(SocketAt { user, socket, link: place }, outcome, orders),
            Busy::Nothing => return,
        };
        self.links_busy -= 1;
        let at = At { user, place: pending };
        let unanswered = over.as_ref().is_none_or(|over| over.request.first_byte_ns == 0);
        let stale = was_open && unanswered && matches!(outcome, Outcome::Closed | Outcome::Reset);
        if let Some(pending) = self.users[user as usize].pending(at.place)
            && stale
            && !pending.is_resent
            && matches!(pending.ask.method.as_str(), "GET" | "HEAD" | "OPTIONS" | "PUT" | "DELETE" | "TRACE")
        {
            // The server closed a kept connection as the request came: it is sent once more (RFC 9112 9.3.1).
            pending.is_resent = true;
            self.resent += 1;
            self.place(at, monotonic_ns(), orders);
        } else {
            self.fail(at, outcome, words_of(outcome).to_owned());
        }
        self.go_on_with(user, orders);
    }

    /// A link is free, or a request done.
    fn go_on_with(&mut self, user: u32, orders: &mut Orders) {
        self.place_queued(user, Stage::Queued, orders);
        self.see_whether_answered(user, orders);
    }

    fn place_queued(&mut self, user: u32, stage: Stage, orders: &mut Orders) {
        let now_ns = monotonic_ns();
        let Doing::Waits(waits) = &self.users[user as usize].doing else { return };
        let places: Vec<u32> =
            (0..waits.pending.len() as u32).filter(|at| waits.pending[*at as usize].stage == stage).collect();
        places.into_iter().for_each(|place| self.place(At { user, place }, now_ns, orders));
    }

    /// Names may have been looked up.
    pub(crate) fn look_for_names(&mut self, user: u32, epoch: u32, _: u64, orders: &mut Orders) {
        if self.users[user as usize].epoch == epoch {
            self.place_queued(user, Stage::Names, orders);
            self.see_whether_answered(user, orders);
        }
    }

    /// Requests may have taken longer than they may.
    pub(crate) fn look_at_overdue(&mut self, now_ns: u64, orders: &mut Orders) {
        let mut next_ns = u64::MAX;
        for user in 0..self.users.len() as u32 {
            let own = &mut self.users[user as usize];
            let Doing::Waits(waits) = &own.doing else { continue };
            let mut overdue = Vec::new();
            for (place, pending) in waits.pending.iter().enumerate() {
                match pending.stage {
                    Stage::Done => {}
                    _ if pending.deadline_ns > now_ns => next_ns = next_ns.min(pending.deadline_ns),
                    stage => overdue.push((place as u32, stage)),
                }
            }
            for (place, stage) in &overdue {
                if let Stage::OnLink(link) = *stage {
                    let link_state = &mut self.users[user as usize].links[link as usize];
                    (link_state.busy, link_state.is_open) = (Busy::Nothing, false);
                    self.links_busy -= 1;
                    orders.close(user * LINKS_OF_A_USER + link);
                }
                self.fail(At { user, place: *place }, Outcome::TimedOut, words_of(Outcome::TimedOut).to_owned());
            }
            if !overdue.is_empty() {
                self.go_on_with(user, orders);
            }
        }
        self.overdue_ns = u64::MAX;
        if next_ns < u64::MAX {
            self.overdue_ns = next_ns.max(now_ns + OVERDUE_NS);
            self.timers.push(self.overdue_ns, Timer::Overdue);
        }
    }

    /// A whole answer came, which may lead on.
    fn answered_part(&mut self, at: At, over: Over, orders: &mut Orders) {
        let links = self.links_busy;
        let jar = self.users[at.user as usize].jar.clone();
        let Some(pending) = self.users[at.user as usize].pending(at.place) else { return };
        let script_ns = self.scripts.within(pending.script_ns, links);
        let (timings, taken_ns) = timings(pending, &over, script_ns);
        self.scripts.taken_out_ns += taken_ns;
        pending.received_bytes += over.request.response_bytes;
        let status = over.request.status;
        let is_head = pending.ask.method == "HEAD";
        let wants_body = pending.ask.keep == crate::behaviour::Kept::Body && !is_head;
        let parts = parts(&over.raw, is_head, wants_body);
        self.cut_answers += u64::from(parts.is_cut && wants_body);
        let latency_ns = over.request.done_ns.saturating_sub(pending.intended_ns).saturating_sub(taken_ns);
        if !pending.ask.cookies.without_jar {
            let (mut jar, now) = (jar.lock(), SystemTime::now());
            parts.headers.values("set-cookie").for_each(|value| jar.set(value, &pending.ask.url, now));
        }
        let next = match parts.headers.values("location").next() {
            Some(location) if pending.ask.redirects_max > 0 => outgoing::redirected(&pending.ask, status, location),
            _ => None,
        };
        self.watch.lock().give_back(over.raw.bytes);
        let sent_bytes = u64::from(over.request.request_bytes);
        let whole = Whole { status, timings, latency_ns, sent_bytes, received_bytes: over.request.response_bytes };
        match next {
            Some(next) => {
                let before = std::mem::replace(&mut pending.ask, next);
                let now_ns = monotonic_ns();
                pending.redirects.push(Redirected { url: before.url.clone(), status, timings });
                (pending.intended_ns, pending.asked_ns) = (now_ns, now_ns);
                pending.deadline_ns = now_ns.saturating_add(before.timeout.min(TIMEOUT_MAX).as_nanos() as u64);
                pending.is_resent = false;
                self.count(at, &before, &whole, true, None);
                self.place(at, now_ns, orders);
            }
            None => self.answer(at, &whole, parts),
        }
    }

    fn answer(&mut self, at: At, whole: &Whole, parts: Parts) {
        let Some(pending) = self.users[at.user as usize].pending(at.place) else { return };
        let ask = pending.ask.take();
        let status = whole.status;
        let is_expected = ask.expected.as_ref().map_or((200..400).contains(&status), |ok| ok.contains(status));
        self.count(at, &ask, whole, is_expected, None);
        let Some(pending) = self.users[at.user as usize].pending(at.place) else { return };
        pending.answer = Some(Answer {
            by: AnsweredBy::Status(status),
            url: ask.url,
            method: ask.method,
            headers: parts.headers,
            body: parts.body,
            is_cut: parts.is_cut,
            timings: whole.timings,
            latency_ns: whole.latency_ns,
            sent_bytes: pending.sent_bytes,
            received_bytes: pending.received_bytes,
            redirects: std::mem::take(&mut pending.redirects),
            is_expected,
        });
        pending.stage = Stage::Done;
        self.done(at.user);
    }

    /// A request has no answer.
    fn fail(&mut self, at: At, outcome: Outcome, words: String) {
        let now_ns = monotonic_ns();
        let Some(pending) = self.users[at.user as usize].pending(at.place) else { return };
        let told: Arc<str> = Arc::from(format!("{} {}: {words}", pending.ask.method, place_of(&pending.ask)));
        let ask = pending.ask.clone();
        let whole = Whole {
            status: 0,
            timings: Timings { blocked_ns: now_ns.saturating_sub(pending.asked_ns), ..Timings::default() },
            latency_ns: now_ns.saturating_sub(pending.intended_ns),
            sent_bytes: pending.sent_bytes,
            received_bytes: 0,
        };
        pending.answer = Some(Answer {
            by: AnsweredBy::Nothing(Failing { outcome, words }),
            url: ask.url.clone(),
            method: ask.method.clone(),
            headers: Fields::default(),
            body: Vec::new(),
            is_cut: false,
            timings: whole.timings,
            latency_ns: whole.latency_ns,
            sent_bytes: pending.sent_bytes,
            received_bytes: pending.received_bytes,
            redirects: std::mem::take(&mut pending.redirects),
            is_expected: false,
        });
        pending.stage = Stage::Done;
        self.done(at.user);
        self.unanswered.count(&told);
        self.count(at, &ask, &whole, false, Some(outcome));
    }

    fn done(&mut self, user: u32) {
        if let Doing::Waits(waits) = &mut self.users[user as usize].doing {
            waits.left -= 1;
        }
    }

    /// Tells a behaviour its answers, if all are there.
    fn see_whether_answered(&mut self, user: u32, orders: &mut Orders) {
        let own = &mut self.users[user as usize];
        if !matches!(&own.doing, Doing::Waits(waits) if waits.left == 0) || self.phase == Phase::Over {
            return;
        }
        let Doing::Waits(waits) = std::mem::replace(&mut own.doing, Doing::Works) else { return };
        let answers = waits.pending.into_iter().filter_map(|pending| pending.answer).collect();
        self.resume(user, Told::Answered(answers), orders);
    }

    fn count(&mut self, at: At, ask: &Ask, whole: &Whole, is_expected: bool, outcome: Option<Outcome>) {
        self.handle.requests.fetch_add(1, Ordering::Relaxed);
        self.handle.failed.fetch_add(u64::from(!is_expected), Ordering::Relaxed);
        let scenario = match self.users[at.user as usize].whose {
            crate::behaviour::User::Of { scenario, .. } => Some(&self.plan.scenarios[scenario].tags),
            _ => None,
        };
        let tags = RequestTags { ask, scenario, status: whole.status, is_expected, outcome };
        let times = &whole.timings;
        let ms = |ns: u64| ns as f64 / 1e6;
        let mut metrics = self.metrics.lock();
        for (metric, value) in [
            (Builtin::HttpReqs, 1.0),
            (Builtin::HttpReqDuration, ms(times.duration_ns())),
            (Builtin::HttpReqLatency, ms(whole.latency_ns)),
            (Builtin::HttpReqBlocked, ms(times.blocked_ns)),
            (Builtin::HttpReqConnecting, ms(times.connecting_ns)),
            (Builtin::HttpReqTlsHandshaking, ms(times.handshaking_ns)),
            (Builtin::HttpReqSending, ms(times.sending_ns)),
            (Builtin::HttpReqWaiting, ms(times.waiting_ns)),
            (Builtin::HttpReqReceiving, ms(times.receiving_ns)),
            (Builtin::HttpReqFailed, f64::from(u8::from(!is_expected))),
            (Builtin::DataSent, whole.sent_bytes as f64),
            (Builtin::DataReceived, whole.received_bytes as f64),
        ] {
            metrics.count(metric, value, &tags);
        }
    }
}

/// What is known of a request that is over.
#[derive(Debug, Clone, Copy)]
struct Whole {
    status: u16,
    timings: Timings,
    latency_ns: u64,
    sent_bytes: u64,
    received_bytes: u64,
}

/// The parts of a request's time, without time in behaviours; and how much of that was taken out.
fn timings(pending: &Pending, over: &Over, script_ns: u64) -> (Timings, u64) {
    let request = &over.request;
    let mut times = Timings {
        blocked_ns: request.sent_ns.saturating_sub(pending.asked_ns),
        waiting_ns: request.first_byte_ns.saturating_sub(request.sent_ns),
        receiving_ns: request.done_ns.saturating_sub(request.first_byte_ns),
        ..Timings::default()
    };
    if let Some(made) = over.made.filter(|_| request.opened_connection) {
        times.blocked_ns = made.begin_ns.saturating_sub(pending.asked_ns);
        let reached_ns = if made.reached_ns > 0 { made.reached_ns } else { made.ready_ns };
        times.connecting_ns = reached_ns.saturating_sub(made.begin_ns);
        times.handshaking_ns = made.ready_ns.saturating_sub(reached_ns);
    }
    let of_waiting = script_ns.min(times.waiting_ns);
    let of_receiving = (script_ns - of_waiting).min(times.receiving_ns);
    times.waiting_ns -= of_waiting;
    times.receiving_ns -= of_receiving;
    (times, of_waiting + of_receiving)
}

/// A request in few words: its name, or its address.
fn place_of(ask: &Ask) -> String {
    ask.tag("name").map_or_else(|| ask.url.to_string(), str::to_owned)
}
