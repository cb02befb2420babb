//! Reports requests as business transactions (ARM), by the rules of `arm_rules.rs`.
//!
//! A transaction begins when the request's bytes were received and ends when the socket has taken the last byte of the
//! response; the clock is read once for all requests that were received together. It gets its name only after it was
//! answered, so that requests for missing files cannot use up the names.

use crate::http::basic_user;
use crate::http::request::Request;
use crate::http::target;
use crate::telemetry::arm_rules::{ArmRules, Place, User};
use foldhash::fast::RandomState;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use weir_arm::{Begin, CORRELATED, DefinitionWriter, Field, Handle, Identity, Pieces, Sort};

/// Names of transactions that paths give; all further ones are reported under one name.
const NAMES_MOST: usize = 1000;
/// Paths whose name a loop remembers.
const KNOWN_MOST: usize = 4096;
/// The name of what is one too many.
const OTHER: &str = "(other)";
/// The name of what no file or pattern names.
const ERROR: &str = "(error)";
/// The version of ARM in use.
const STANDARD: u8 = 4;

/// Statuses of the standard.
const GOOD: u32 = 0;
const ABORTED: u32 = 1;
const FAILED: u32 = 2;

/// In the place of the time of the first bytes: the end is told, and in the place of the begin the handle stands.
const ENDED: u64 = u64::MAX;

/// Slots of the metrics, and the place of the method in the context.
const STATUS: usize = 0;
const BYTES: usize = 1;
const FIRST_BYTE: usize = 2;
const METHOD: u8 = 0;

/// Formats of addresses, as the standard numbers them: with a port.
const IPV4_PORT: i16 = 2;
const IPV6_PORT: i16 = 4;

/// A metric: its name, its unit, its format and usage as the standard numbers them.
struct Metric {
    name: &'static str,
    unit: &'static str,
    format: u8,
    usage: u8,
}

impl Metric {
    #[inline(always)]
    const fn of(&self, value: u64) -> weir_arm::Metric {
        weir_arm::Metric { format: self.format, usage: self.usage, value }
    }
}

/// By their slots.
const METRICS: [Metric; 3] = [
    // A number that is a name, and the transaction's status.
    Metric { name: "status", unit: "", format: 7, usage: 2 },
    // Gauges of 64 bits; the first is the transaction's size.
    Metric { name: "bytes", unit: "bytes", format: 5, usage: 1 },
    Metric { name: "first-byte", unit: "us", format: 5, usage: 0 },
];

/// What a response has with it that is told; not told = a handle of 0.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Told {
    handle: Handle,
    began_ns: u64,
    /// When its first bytes went out, if others were left; 0 = they all went at once.
    first_sent_ns: u64,
}

impl Default for Told {
    fn default() -> Self {
        Self { handle: Handle(0), began_ns: 0, first_sent_ns: 0 }
    }
}

impl Told {
    pub(crate) fn is_told(&self) -> bool {
        self.handle.0 != 0
    }

    /// The handle of the transaction that it is, or was before its end was told or taken off it.
    pub(crate) fn was_told(&self) -> Option<Handle> {
        if self.first_sent_ns == ENDED {
            Some(Handle(self.began_ns))
        } else {
            Some(self.handle).filter(|_| self.is_told())
        }
    }

    /// What those get to know of the transaction that answer its request elsewhere: theirs are its children.
    pub(crate) fn identity(&self, request: &Request<'_>) -> Option<Identity> {
        self.is_told().then(|| weir_arm::identity(self.handle, parent_of(request), false))
    }

    /// It is not counted: it ends elsewhere.
    pub(crate) fn discard(&mut self) {
        let handle = std::mem::take(self).handle;
        if handle.0 != 0 {
            weir_arm::discard(handle);
        }
    }

    /// Some of it went out, and some did not.
    pub(crate) fn sent_some(&mut self) {
        if self.is_told() && self.first_sent_ns == 0 {
            self.first_sent_ns = weir_arm::now_ns();
        }
    }
}

/// Names that were given out, by the place that they belong to: the same in all loops.
pub(crate) type Names = Mutex<HashMap<(usize, String), u16>>;

/// What a loop needs to tell its requests.
#[derive(Debug)]
pub(crate) struct ArmRequests {
    rules: Arc<ArmRules>,
    places: Vec<Numbers>,
    names: Arc<Names>,
    /// Place and transaction of a path that was there. Only of paths that are written as they are: so what a client
    /// asks for can be looked for before it is resolved.
    known: HashMap<Box<[u8]>, (usize, u16), RandomState>,
    decoded: Vec<u8>,
}

/// What a place is to ARM.
#[derive(Debug)]
struct Numbers {
    application: u16,
    metrics: [u16; METRICS.len()],
    instance: u16,
    running: i64,
    /// Requests since the last that was told.
    since_last: u32,
}

/// When requests that were received together were received.
#[derive(Debug, Default)]
pub(crate) struct Received {
    ns: u64,
    /// When the head of the first was begun, if that was earlier; else 0.
    begun_ns: u64,
}

impl Received {
    /// The first of them was begun earlier: what was saved of it says when.
    pub(crate) fn since(&mut self, saved_ns: &mut u64) {
        if *saved_ns != 0 {
            self.begun_ns = std::mem::take(saved_ns);
        }
    }

    /// What is left of them is taken up only now.
    pub(crate) fn waited(&mut self) {
        self.begun_ns = self.ns;
        self.ns = 0;
    }
}

impl ArmRequests {
    /// Defines what is known beforehand; `None` = the rules tell nothing.
    pub(crate) fn new(rules: &Arc<ArmRules>, names: &Arc<Names>) -> Option<Self> {
        if !rules.places.iter().any(|place| place.is_on) {
            return None;
        }
        let mut requests = Self {
            rules: Arc::clone(rules),
            places: rules.places.iter().map(Numbers::define).collect(),
            names: Arc::clone(names),
            known: HashMap::default(),
            decoded: Vec::new(),
        };
        for (number, place) in rules.places.iter().enumerate().filter(|(_, place)| place.is_on) {
            for name in place.matches.iter().filter_map(|one| one.fixed_name()).chain(place.transaction.as_deref()) {
                requests.transaction(number, name);
            }
        }
        Some(requests)
    }

    /// Tells that a request began, if its place, its client and the samples want it; `answered` says its status as far as
    /// it is known, and whether it is answered elsewhere, where it may have children.
    pub(crate) fn begin(
        &mut self,
        request: &Request<'_>,
        answered: impl FnOnce() -> (u16, bool),
        peer: SocketAddr,
        received: &mut Received,
    ) -> Told {
        let begun_ns = std::mem::take(&mut received.begun_ns);
        // Before the clock is asked, which is dearer than this.
        if !weir_arm::listening() {
            return Told::default();
        }
        let (status, asks) = answered();
        if received.ns == 0 {
            received.ns = weir_arm::now_ns();
        }
        if let Some(known) = self.known.get(request.target.as_bytes()) {
            let times_ns = [begun_ns, received.ns];
            return self.begin_named(request, (*known, asks), request.target.as_bytes(), peer, times_ns);
        }
        self.begin_resolved(request, (status, asks), peer, [begun_ns, received.ns])
    }

    /// The same for a path that is not known, or not written as it is.
    #[cold]
    #[inline(never)]
    fn begin_resolved(
        &mut self,
        request: &Request<'_>,
        (status, asks): (u16, bool),
        peer: SocketAddr,
        times_ns: [u64; 2],
    ) -> Told {
        let mut decoded = std::mem::take(&mut self.decoded);
        let found = target::resolve(request.target, true, &mut decoded);
        // What leads nowhere belongs to the server as a whole.
        let (path, query) = found.map_or((&b""[..], &b""[..]), |found| (found.path, found.query));
        let named = self.named(path, query, status);
        let told = self.begin_named(request, (named, asks), path, peer, times_ns);
        self.decoded = decoded;
        told
    }

    #[inline(always)]
    fn begin_named(
        &mut self,
        request: &Request<'_>,
        ((number, transaction), asks): ((usize, u16), bool),
        path: &[u8],
        peer: SocketAddr,
        [begun_ns, received_ns]: [u64; 2],
    ) -> Told {
        let (place, numbers) = (&self.rules.places[number], &mut self.places[number]);
        if !place.is_on || !(place.clients.is_empty() || place.clients.iter().any(|client| client.holds(peer.ip()))) {
            return Told::default();
        }
        numbers.since_last += 1;
        if numbers.since_last < place.one_in {
            return Told::default();
        }
        numbers.since_last = 0;
        let parent = parent_of(request);
        let flags = if asks { CORRELATED } else { 0 };
        let instance = numbers.instance;
        let begin = Begin { transaction, instance, flags, parent, arrival_ns: begun_ns };
        let told = Beginning { request, path, peer, user: &place.user };
        let handle = weir_arm::start_request_at(
            &begin,
            place.one_in,
            received_ns,
            |room| told.tell(room),
            |telling| {
                let _ = told.tell(telling);
            },
        );
        Told { handle, began_ns: received_ns, first_sent_ns: 0 }
    }

    /// The name that a request's transaction has, for those who watch the request; nothing is defined by it.
    #[cold]
    pub(crate) fn name_shown(&mut self, request: &Request<'_>, status: u16) -> String {
        let found = target::resolve(request.target, true, &mut self.decoded);
        let (path, query) = found.map_or((&b""[..], &b""[..]), |found| (found.path, found.query));
        let number = self.rules.place_of(path);
        let name = name_of(&self.rules.places[number], path, query, status < 400);
        let names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        let is_known = names.len() < NAMES_MOST || names.contains_key(&(number, name.clone()));
        if is_known { name } else { OTHER.to_owned() }
    }

    /// The place that a path belongs to, and the number of its transaction.
    fn named(&mut self, path: &[u8], query: &[u8], status: u16) -> (usize, u16) {
        if let Some(known) = self.known.get(path) {
            return *known;
        }
        let rules = Arc::clone(&self.rules);
        let number = rules.place_of(path);
        let place = &rules.places[number];
        if !place.is_on {
            return (number, 0);
        }
        let is_there = status < 400;
        let name = name_of(place, path, query, is_there);
        let transaction = self.transaction(number, &name);
        let depends_on_query = place.matches.iter().any(|one| one.has_query);
        if is_there && !depends_on_query && is_plain(path) && self.known.len() < KNOWN_MOST {
            self.known.insert(path.into(), (number, transaction));
        }
        (number, transaction)
    }

    /// The number of a place's transaction, which is defined when it is first asked for.
    fn transaction(&mut self, number: usize, name: &str) -> u16 {
        // A thread that panicked with the lock held left whole entries.
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        let is_full = names.len() >= NAMES_MOST && !names.contains_key(&(number, name.to_owned()));
        let name = if is_full { OTHER } else { name };
        let (place, numbers) = (&self.rules.places[number], &self.places[number]);
        let key = (number, name.to_owned());
        *names.entry(key).or_insert_with(|| numbers.define_transaction(name, place.info.as_deref()))
    }
}

impl Drop for ArmRequests {
    fn drop(&mut self) {
        for numbers in &self.places {
            weir_arm::end_instance(numbers.running);
        }
    }
}

impl Numbers {
    fn define(place: &Place) -> Self {
        if !place.is_on {
            return Self { application: 0, metrics: [0; METRICS.len()], instance: 0, running: 0, since_last: 0 };
        }
        let application = weir_arm::define(Sort::Application, STANDARD, 0, |definition| {
            definition.piece(Field::Name, 0, place.application.as_bytes());
        });
        let metrics = METRICS.map(|metric| {
            weir_arm::define(Sort::Metric, STANDARD, application, |definition| {
                definition.piece(Field::Name, 0, metric.name.as_bytes());
                definition.piece(Field::MetricFormat, 0, &[metric.format, metric.usage]);
                definition.piece(Field::MetricUnit, 0, metric.unit.as_bytes());
            })
        });
        let instance = weir_arm::define(Sort::Instance, STANDARD, application, |definition| {
            if let Some(group) = &place.group {
                definition.piece(Field::Group, 0, group.as_bytes());
            }
            if let User::Named(user) = &place.user {
                definition.piece(Field::User, 0, user.as_bytes());
            }
        });
        let running = weir_arm::begin_instance(instance);
        // The first request is told.
        Self { application, metrics, instance, running, since_last: place.one_in - 1 }
    }

    fn define_transaction(&self, name: &str, info: Option<&str>) -> u16 {
        weir_arm::define(Sort::Transaction, STANDARD, self.application, |definition: &mut DefinitionWriter| {
            definition.piece(Field::Name, 0, name.as_bytes());
            definition.piece(Field::ContextName, METHOD, b"method");
            if let Some(info) = info {
                definition.piece(Field::PropertyName, 0, b"info");
                definition.piece(Field::PropertyValue, 0, info.as_bytes());
            }
            for (slot, number) in (0..).zip(self.metrics) {
                definition.piece(Field::MetricBinding, slot, &number.to_ne_bytes());
            }
        })
    }
}

/// How a response ended.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Outcome {
    pub(crate) status: u16,
    pub(crate) is_finished: bool,
    /// Bytes of the body that the socket has taken.
    pub(crate) body_bytes: u64,
}

/// Tells that a response was sent, or that no more of it can be.
#[inline]
pub(crate) fn end(told: &mut Told, outcome: Outcome) {
    let (handle, status, ending) = ending_of(told, outcome);
    stop(handle, status, ending);
}

/// What there is to be told of the end of a response, which tells nothing more itself.
#[inline(always)]
fn ending_of(told: &mut Told, outcome: Outcome) -> (Handle, u32, Ending) {
    let Told { handle, began_ns, first_sent_ns } = *told;
    // Those who watch the request are still to be told of it.
    *told = Told { handle: Handle(0), began_ns: handle.0, first_sent_ns: ENDED };
    let status = match outcome.status {
        _ if !outcome.is_finished => ABORTED,
        500.. => FAILED,
        _ => GOOD,
    };
    let ending = Ending {
        status: u64::from(outcome.status),
        bytes: outcome.body_bytes,
        first_byte_us: (first_sent_ns != 0).then(|| first_sent_ns.saturating_sub(began_ns) / 1000),
    };
    (handle, status, ending)
}

#[inline(always)]
fn stop(handle: Handle, status: u32, ending: Ending) {
    weir_arm::stop_request(
        handle,
        status,
        |room, _| ending.tell(room),
        |telling, _| {
            let _ = ending.tell(telling);
        },
    );
}

/// The end of a response that is still to go out: told when it has gone, and as aborted where it never does.
#[derive(Debug)]
pub(crate) struct Owed {
    handle: Handle,
    status: u32,
    ending: Ending,
}

impl Owed {
    /// Of a response, which tells nothing more itself.
    pub(crate) fn of(told: &mut Told, outcome: Outcome) -> Self {
        let (handle, status, ending) = ending_of(told, outcome);
        Self { handle, status, ending }
    }

    /// It has gone.
    pub(crate) fn tell(mut self) {
        // A handle of 0 reports nothing.
        stop(std::mem::replace(&mut self.handle, Handle(0)), self.status, self.ending);
    }
}

impl Drop for Owed {
    fn drop(&mut self) {
        stop(self.handle, ABORTED, self.ending);
    }
}

/// What is told with a begin.
struct Beginning<'r> {
    request: &'r Request<'r>,
    path: &'r [u8],
    peer: SocketAddr,
    user: &'r User,
}

impl Beginning<'_> {
    /// `None` = there is no room for it.
    #[inline(always)]
    fn tell(&self, to: &mut impl Pieces) -> Option<()> {
        match self.peer {
            SocketAddr::V4(peer) => {
                let ([a, b, c, d], [high, low]) = (peer.ip().octets(), peer.port().to_be_bytes());
                to.address(IPV4_PORT, &[a, b, c, d, high, low])?;
            }
            SocketAddr::V6(peer) => {
                let mut bytes = [0; 18];
                bytes[..16].copy_from_slice(&peer.ip().octets());
                bytes[16..].copy_from_slice(&peer.port().to_be_bytes());
                to.address(IPV6_PORT, &bytes)?;
            }
        }
        to.piece(Field::ContextValue, METHOD, self.request.method_text.as_bytes())?;
        to.piece(Field::Uri, 0, self.path)?;
        let mut told = Some(());
        if *self.user == User::OfRequest {
            basic_user::of(self.request.authorization, |user| told = to.piece(Field::User, 0, user));
        }
        told
    }
}

/// What is told with an end.
#[derive(Debug, Clone, Copy)]
struct Ending {
    status: u64,
    bytes: u64,
    first_byte_us: Option<u64>,
}

impl Ending {
    /// `None` = there is no room for it.
    #[inline(always)]
    fn tell(&self, to: &mut impl Pieces) -> Option<()> {
        let numbers = [METRICS[STATUS].of(self.status), METRICS[BYTES].of(self.bytes)];
        match self.first_byte_us {
            None => to.numbers(STATUS as u8, numbers),
            Some(first) => {
                let [status, bytes] = numbers;
                to.numbers(STATUS as u8, [status, bytes, METRICS[FIRST_BYTE].of(first)])
            }
        }
    }
}

/// Whether a path, asked for as it is, leads to itself: names with a question mark in them, for one, do not.
fn is_plain(path: &[u8]) -> bool {
    let text = std::str::from_utf8(path);
    text.is_ok_and(|text| {
        target::resolve(text, true, &mut Vec::new()).is_ok_and(|found| found.path == path && found.query.is_empty())
    })
}

/// The name of a request: that of the first pattern that is found in it, of its place, or its path.
///
/// What is not there has no name that it makes up: else it could use up all of them.
fn name_of(place: &Place, path: &[u8], query: &[u8], is_there: bool) -> String {
    let text = String::from_utf8_lossy(path);
    let with_query = || text.to_string() + &String::from_utf8_lossy(query);
    let mut found = place.matches.iter().filter(|one| is_there || one.fixed_name().is_some());
    let found = found.find_map(|one| if one.has_query { one.name_of(&with_query()) } else { one.name_of(&text) });
    let otherwise = || if is_there { crate::telemetry::arm_rules::shortened(&text) } else { ERROR.to_owned() };
    found.or_else(|| place.transaction.clone()).unwrap_or_else(otherwise)
}

/// Whose child a request is, by its header `ARM-Correlator` or else `traceparent`.
pub(crate) fn parent_of(request: &Request<'_>) -> Option<Identity> {
    let of_correlator = request.arm_correlator.and_then(|digits| {
        let mut bytes = [0; 512];
        let bytes = bytes.get_mut(..digits.len() / 2).filter(|_| digits.len().is_multiple_of(2))?;
        let digit = |digit: u8| char::from(digit).to_digit(16);
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            // Two hexadecimal digits make a byte.
            *byte = (digit(pair[0])? * 16 + digit(pair[1])?) as u8;
        }
        Identity::of_correlator(bytes)
    });
    of_correlator.or_else(|| Identity::of_traceparent(std::str::from_utf8(request.traceparent?).ok()?))
}
