//! A watched request from its beginning to its end.

use super::head;
use super::redaction::text_shown;
use super::seen::{
    ArmSeen, CacheSeen, DecidedSeen, FileSeen, HeadSeen, Network, RoutesSeen, RulesSeen, ScriptSeen, Seen, SwappedSeen,
    Timing,
};
use super::sink::Sink;
use super::steps::Steps;
use crate::http::request::Request;
use crate::policy::codec_swap::Swapped;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};
use weir_arm::{Handle, Identity};

/// When a request begins, and over which connection.
#[derive(Debug)]
pub(crate) struct Beginning {
    pub(crate) network: Network,
    pub(crate) at: Instant,
}

/// How a response ended.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ending {
    pub(crate) status: u16,
    pub(crate) is_complete: bool,
    /// Bytes of the body that the socket has taken.
    pub(crate) body_bytes: u64,
    /// The same with the head.
    pub(crate) sent_bytes: u64,
    /// The business transaction that it is told as.
    pub(crate) told_as: Option<Handle>,
}

/// A request under way. It is told when this is dropped, as cut off where nothing said before how it ended.
#[derive(Debug)]
pub(crate) struct Underway {
    seen: Seen,
    began: Instant,
    answered_us: Option<u64>,
    head_us: Option<u64>,
    /// The name that it has as a business transaction, and whose child it is then.
    transaction: Option<(String, Option<Identity>)>,
    steps: Steps,
    sink: Arc<Sink>,
}

impl Underway {
    pub(super) fn begin(
        Beginning { network, at }: Beginning,
        (request, name, path): (Option<&Request<'_>>, &[u8], Option<&[u8]>),
        sink: Arc<Sink>,
    ) -> Box<Self> {
        let head = request.map_or_else(HeadSeen::default, |request| head::of_request(request, name, path));
        Self::of(Seen { network, head, ..Seen::default() }, at, sink)
    }

    /// One that began before a watcher came; its method and target where they are known.
    pub(super) fn adopt(
        network: Network,
        (method, target): (Option<&str>, Option<&str>),
        sink: Arc<Sink>,
    ) -> Box<Self> {
        let head = head::of_noted(method.unwrap_or_default(), target.unwrap_or_default());
        let mut underway =
            Self::of(Seen { network, head, begun_before: true, ..Seen::default() }, Instant::now(), sink);
        // What answers was known before.
        underway.answered_us = Some(0);
        underway
    }

    fn of(seen: Seen, began: Instant, sink: Arc<Sink>) -> Box<Self> {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let at_unix_ns = u64::try_from(since.as_nanos()).unwrap_or(u64::MAX);
        let (seen, steps) = (Seen { at_unix_ns, ..seen }, Steps::since(began));
        Box::new(Self { seen, began, answered_us: None, head_us: None, transaction: None, steps, sink })
    }

    /// The file that answers one that began before.
    pub(crate) fn sends(&mut self, file: Option<FileSeen>) {
        self.seen.file = file;
    }

    /// How it is routed, the script that runs, and the upstream that is asked.
    pub(crate) fn routed(&mut self, routes: RoutesSeen, script: Option<ScriptSeen>, upstream: Option<String>) {
        (self.seen.routes, self.seen.script, self.seen.upstream) = (Some(routes), script, upstream);
    }

    /// Names of routes and tables, by which filters choose, and what the policy decided.
    pub(crate) fn ruled(&mut self, rules: RulesSeen) {
        self.seen.rules = rules;
    }

    /// The policy had the response go on in other variants.
    pub(crate) fn swapped(&mut self, swapped: &[Swapped]) {
        let rules = &mut self.seen.rules;
        for swap in swapped {
            let at_us = swap.at.saturating_duration_since(self.began).as_micros();
            let variant = text_shown(swap.variant.as_bytes());
            rules.swapped.push(SwappedSeen { at_us: u64::try_from(at_us).unwrap_or(u64::MAX), variant });
            let Some(by) = swap.by.as_ref().map(DecidedSeen::of) else {
                rules.undetermined = true;
                continue;
            };
            if !rules.decided.contains(&by) {
                rules.names.push(by.rule.clone());
                rules.decided.push(by);
            }
        }
    }

    /// The name that it has if it is told as a business transaction, and whose child it is then.
    pub(crate) fn transaction(&mut self, name: String, parent: Option<Identity>) {
        self.transaction = Some((name, parent));
    }

    /// Something was done since then that is of no request, and takes no time of this one. No step was told before.
    pub(crate) fn resume_since(&mut self, since: Instant) {
        self.began += since.elapsed();
        let takes_bodies = self.takes_bodies();
        self.steps = Steps::since(self.began);
        if takes_bodies {
            self.steps.take_bodies();
        }
    }

    /// Takes down what passes of the bodies of request and response.
    pub(super) fn take_bodies(&mut self) {
        self.steps.take_bodies();
    }

    /// Whether what passes of the bodies is taken down.
    pub(crate) fn takes_bodies(&self) -> bool {
        self.steps.room_for_request().is_some()
    }

    /// What answers is known: what caches did, and the file.
    pub(crate) fn answered(&mut self, cache: CacheSeen, file: Option<FileSeen>) {
        (self.seen.cache, self.seen.file) = (cache, file);
        self.answered_us = Some(micros(self.began));
    }

    /// The head of the response, in the form of HTTP/1; `is_late` says that something else than files has given it.
    pub(crate) fn headed(&mut self, head: &[u8], is_late: bool) {
        (self.seen.response.fields, self.seen.response.fields_left) = head::of_response(head);
        if is_late {
            self.head_us = Some(micros(self.began));
        }
    }

    /// Where those take steps down that answer in place of files.
    pub(crate) fn steps(&self) -> Steps {
        self.steps.clone()
    }

    /// It is over.
    pub(crate) fn end(mut self: Box<Self>, ending: Ending) {
        let response = &mut self.seen.response;
        response.status = ending.status;
        response.is_complete = ending.is_complete;
        (response.body_bytes, response.sent_bytes) = (ending.body_bytes, ending.sent_bytes);
        if let Some(handle) = ending.told_as {
            // Without the request, whose child it is cannot be known.
            let known = self.transaction.take().map(|(name, parent)| {
                let correlator = weir_arm::identity(handle, parent, false).correlator();
                (text_shown(name.as_bytes()), digits(&correlator))
            });
            let (transaction, correlator) = known.unzip();
            self.seen.arm = ArmSeen { told: true, transaction, correlator };
        }
    }
}

impl Drop for Underway {
    fn drop(&mut self) {
        let whole_us = micros(self.began);
        let answer_us = self.answered_us.unwrap_or(whole_us);
        let head_us = self.head_us.map(|head_us| head_us.saturating_sub(answer_us));
        let send_us = whole_us.saturating_sub(self.head_us.unwrap_or(answer_us));
        let mut seen = std::mem::take(&mut self.seen);
        seen.timing = Timing { answer_us, head_us, send_us, whole_us };
        let taken = self.steps.take();
        seen.steps = taken.steps;
        seen.bodies = taken.bodies;
        if let Some(script) = &mut seen.script {
            script.output = taken.output;
        }
        self.sink.give(seen);
    }
}

/// Two hexadecimal digits for each byte.
fn digits(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut out, byte| {
        // Writing to memory does not fail.
        let _ = write!(out, "{byte:02x}");
        out
    })
}

fn micros(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_micros()).unwrap_or(u64::MAX)
}
