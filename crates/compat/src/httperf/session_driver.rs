//! Connections and sessions under way: which call goes over which connection, and what a reply leads to.
//!
//! ```text
//! arrives -> calls go out -> all answered -> pause -> next calls go out -> ... -> complete
//!                        \-> a connection ended -> the same calls over another, or the session failed
//! ```

use super::calls::{Call, Calls};
use super::page;
use super::printing::Printing;
use super::uris::Uris;
use super::watch::{Inner, Shared};
use super::workload::{Next, Progress, Workload};
use std::collections::VecDeque;
use std::sync::{Arc, PoisonError};
use weir_load::Outcome;
use weir_load::directed::{Director, Orders};

/// How often in a row a session's connection may end without an answer where sessions go on after failures.
const ATTEMPTS_MAX: u32 = 100;
/// The most objects that are fetched for one page, frames and what is in them included.
const OBJECTS_MAX: usize = 10_000;
/// Of a cookie, as much as the original keeps.
const COOKIE_BYTES_MAX: usize = 245;

/// What the options say of how calls are made.
#[derive(Debug)]
pub(super) struct Manner {
    pub(super) calls: Calls,
    /// The servers, each for the next connection.
    pub(super) servers: Vec<String>,
    pub(super) max_connections: u32,
    pub(super) max_piped: usize,
    pub(super) failure_status: Option<u16>,
    pub(super) retry: bool,
    pub(super) cookies: bool,
    /// Where relative addresses of a page begin.
    pub(super) directory: String,
    pub(super) printing: Printing,
}

/// Decides what is asked.
#[derive(Debug)]
pub(super) struct SessionDriver {
    manner: Manner,
    workload: Workload,
    uris: Uris,
    shared: Shared,
    users: Vec<User>,
    free: Vec<u32>,
    next_server: usize,
    /// The number of the next call.
    number: u64,
}

/// A connection or session under way.
#[derive(Debug, Default)]
struct User {
    active: bool,
    begin_ns: u64,
    progress: Progress,
    links: Vec<Place>,
    /// Calls of the step that found no room yet.
    waiting: VecDeque<Call>,
    /// Calls of the step that comes after the pause.
    next: Vec<Call>,
    cookie: Option<Vec<u8>>,
    failed: bool,
    /// Objects of this page that were found.
    objects: usize,
    replies: u32,
    connections: u32,
}

/// A place for one of its connections.
#[derive(Debug, Default)]
struct Place {
    /// Whether there is a connection, and to which server.
    open: bool,
    server: usize,
    /// Calls that are not answered.
    pending: VecDeque<Call>,
    /// Whether the connection has brought a reply.
    successful: bool,
    attempts: u32,
}

impl SessionDriver {
    pub(super) fn new(manner: Manner, workload: Workload, uris: Uris, shared: Shared) -> Self {
        Self { manner, workload, uris, shared, users: Vec::new(), free: Vec::new(), next_server: 0, number: 0 }
    }

    /// Whether users are sessions.
    pub(super) fn has_sessions(&self) -> bool {
        self.workload.has_sessions()
    }

    /// Links of a user: a connection has one.
    pub(super) fn links(&self) -> u32 {
        if self.workload.has_sessions() { self.manner.max_connections } else { 1 }
    }

    fn with<R>(&self, look: impl FnOnce(&mut Inner) -> R) -> R {
        look(&mut self.shared.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Goes on with a user whose calls are all answered.
    fn go_on(&mut self, id: u32, orders: &mut Orders) {
        let user = &mut self.users[id as usize];
        match self.workload.next(&mut user.progress, &mut self.uris, &mut self.number) {
            Next::Complete => self.finish(id, orders),
            Next::NoMore => {
                orders.stop();
                self.finish(id, orders);
            }
            Next::Calls(calls, pause) => {
                user.next = calls;
                match pause.is_zero() {
                    true => self.begin_step(id, orders),
                    false => orders.wake(pause, id),
                }
            }
        }
    }

    fn begin_step(&mut self, id: u32, orders: &mut Orders) {
        let user = &mut self.users[id as usize];
        let calls = std::mem::take(&mut user.next);
        if self.uris.are_told() {
            calls.iter().for_each(|call| self.manner.printing.accessing(&call.uri));
        }
        let user = &mut self.users[id as usize];
        user.objects = 0;
        user.waiting.extend(calls);
        self.send(id, orders);
    }

    /// Sends calls as far as connections have room.
    fn send(&mut self, id: u32, orders: &mut Orders) {
        let most = if self.workload.has_sessions() { self.manner.max_piped } else { usize::MAX };
        let links = self.links();
        for _ in 0..self.users[id as usize].waiting.len() {
            let user = &mut self.users[id as usize];
            let Some(place) = user.links.iter().position(|place| place.pending.len() < most) else { return };
            let Some(call) = user.waiting.pop_front() else { return };
            self.request(id, place, &call, links, orders);
            self.users[id as usize].links[place].pending.push_back(call);
        }
    }

    fn request(&mut self, id: u32, place: usize, call: &Call, links: u32, orders: &mut Orders) {
        let user = &mut self.users[id as usize];
        let link = &mut user.links[place];
        if !link.open {
            (link.open, link.successful, link.server) = (true, false, self.next_server);
            self.next_server = (self.next_server + 1) % self.manner.servers.len();
        }
        let server = link.server;
        let calls = &self.manner.calls;
        let bytes = calls.bytes(call, &self.manner.servers[server], user.cookie.as_deref());
        self.manner.printing.request(call.number, &bytes);
        let kind = 2 * server as u32 + u32::from(calls.is_head(call));
        orders.request(id * links + place as u32, kind, &bytes.all);
    }

    /// Ends a user: closes its connections and counts it.
    fn finish(&mut self, id: u32, orders: &mut Orders) {
        let links = self.links();
        let user = &mut self.users[id as usize];
        for (place, link) in user.links.iter_mut().enumerate() {
            if link.open {
                orders.close(id * links + place as u32);
            }
            *link = Place::default();
        }
        orders.over();
        user.active = false;
        let (failed, replies, connections, begin_ns) = (user.failed, user.replies, user.connections, user.begin_ns);
        user.waiting.clear();
        user.next.clear();
        self.free.push(id);
        if self.workload.has_sessions() {
            self.with(|inner| inner.session_over(failed, replies, connections, begin_ns));
        }
    }

    fn fail(&mut self, id: u32, orders: &mut Orders) {
        self.users[id as usize].failed = true;
        self.finish(id, orders);
    }

    /// The user and the place of a link, if that is still theirs.
    fn find(&self, link: u32) -> Option<(u32, usize)> {
        let (id, place) = (link / self.links(), (link % self.links()) as usize);
        self.users.get(id as usize).filter(|user| user.active).map(|_| (id, place))
    }

    /// What a reply brings besides its content.
    fn look_at(&mut self, id: u32, place: usize, connection: u64, call: &Call, status: u16) {
        let user = &mut self.users[id as usize];
        let server = &self.manner.servers[user.links[place].server];
        let shared = Arc::clone(&self.shared);
        let mut inner = shared.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(reply) = inner.reply(connection) else { return };
        self.manner.printing.reply(call.number, reply);
        if self.manner.cookies
            && let Some(value) = reply.header("set-cookie")
        {
            let end = value.iter().position(|byte| *byte == b';').unwrap_or(value.len());
            user.cookie = Some(value[..end.min(COOKIE_BYTES_MAX)].to_vec());
        }
        if matches!(self.workload, Workload::Pages { .. }) {
            let is_page =
                reply.header("content-type").is_some_and(|kind| kind.to_ascii_lowercase().starts_with(b"text/html"));
            let mut found = match is_page {
                true => page::embedded(&reply.content, server, &self.manner.directory),
                false => Vec::new(),
            };
            if status / 100 == 3
                && let Some(to) = reply.header("location").and_then(|to| std::str::from_utf8(to).ok())
            {
                found.extend(page::path(to, server, &self.manner.directory));
            }
            // Frames may hold themselves.
            found.truncate(OBJECTS_MAX.saturating_sub(user.objects));
            user.objects += found.len();
            for uri in found {
                user.waiting.push_back(Call::get(self.number, uri));
                self.number += 1;
            }
        }
    }
}

impl Director for SessionDriver {
    fn arrives(&mut self, intended_ns: u64, orders: &mut Orders) {
        let links = self.links() as usize;
        let id = self.free.pop().unwrap_or_else(|| {
            self.users.push(User::default());
            self.users.len() as u32 - 1
        });
        let mut user = User { active: true, begin_ns: intended_ns, progress: self.workload.begin(), ..User::default() };
        user.links.resize_with(links, Place::default);
        orders.forget(id * links as u32);
        self.users[id as usize] = user;
        self.go_on(id, orders);
    }

    fn answered(&mut self, link: u32, connection: u64, status: u16) {
        let Some((id, place)) = self.find(link) else { return };
        let user = &mut self.users[id as usize];
        user.replies += 1;
        let own = &mut user.links[place];
        user.connections += u32::from(!own.successful);
        (own.successful, own.attempts) = (true, 0);
        let Some(call) = own.pending.front().cloned() else { return };
        // Before its place is free: what a page embeds goes out while the page still has its connection.
        self.look_at(id, place, connection, &call, status);
        let user = &mut self.users[id as usize];
        user.links[place].pending.pop_front();
        if self.workload.has_sessions() && self.manner.failure_status == Some(status) {
            match self.manner.retry {
                true => user.waiting.push_front(call),
                false => user.failed = true,
            }
        }
    }

    fn idle(&mut self, link: u32, kept: bool, orders: &mut Orders) {
        let Some((id, place)) = self.find(link) else { return };
        let has_sessions = self.workload.has_sessions();
        let user = &mut self.users[id as usize];
        user.links[place].open &= kept;
        if user.failed {
            return self.finish(id, orders);
        }
        if has_sessions && kept && self.manner.calls.is_old() {
            orders.close(link);
            user.links[place].open = false;
        }
        if !user.waiting.is_empty() {
            return self.send(id, orders);
        }
        if user.links.iter().any(|place| !place.pending.is_empty()) {
            return;
        }
        let user = &mut self.users[id as usize];
        if !kept && !has_sessions {
            let mut progress = user.progress.clone();
            let mut rest = Uris::One(String::new());
            if self.workload.next(&mut progress, &mut rest, &mut 0) != Next::Complete {
                // The server closed before all of the connection's calls were made.
                self.with(|inner| inner.connection_failed(Outcome::Closed));
                return self.fail(id, orders);
            }
        }
        self.go_on(id, orders);
    }

    fn ended(&mut self, link: u32, outcome: Outcome, orders: &mut Orders) {
        let Some((id, place)) = self.find(link) else { return };
        self.with(|inner| inner.connection_failed(outcome));
        let user = &mut self.users[id as usize];
        let own = &mut user.links[place];
        own.open = false;
        own.attempts += 1;
        let timed_out = matches!(outcome, Outcome::TimedOut);
        let goes_on = (own.successful || self.manner.retry) && own.attempts <= ATTEMPTS_MAX;
        if !self.workload.has_sessions() || timed_out || !goes_on || user.failed {
            return self.fail(id, orders);
        }
        // The calls that are not answered go out again, over another connection.
        let calls: Vec<Call> = own.pending.iter().cloned().collect();
        let links = self.links();
        for call in calls {
            self.request(id, place, &call, links, orders);
        }
    }

    fn wakes(&mut self, token: u32, orders: &mut Orders) {
        if self.users[token as usize].active {
            self.begin_step(token, orders);
        }
    }
}
