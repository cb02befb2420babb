//! Explanations from the server's sockets alone, without a client's events: whether to make one, what was seen beside
//! the responses, and warnings for the reader.

use crate::moves::EventsOf;
use crate::slo::Slo;
use crate::spans::ForeignSpan;
use std::collections::BTreeMap;
use std::path::PathBuf;
use weir_measure::objective::{Objective, ObjectiveFold};
use weir_report::{Explanation, LongLived, MessageFigures, ObjectiveResult};
use weir_timeline::{Exchanges, Joiner, LongKind, Messages, Response, Statistics, Unjoinable};
use weir_trace::{Entry, RunReader, Source};
use weir_wire::{Kind, Record};

/// Begin and end of a response time, from the server's side.
const BOUNDARY: &str = "from the arrival of the request's first byte at the server's socket to the last send of the response (sent, not acknowledged)";
/// Flag of [`Kind::Window`]: it ends.
const ENDS: u8 = 1;

/// How a run is to be looked at.
#[derive(Debug, Clone, Default)]
pub struct View {
    /// Explain from the server's side although a client has recorded its requests.
    pub server_side: bool,
    /// Ports that are encrypted, beside 443 and 8443.
    pub tls_ports: Vec<u16>,
    /// What is asked of the server, as it was given and as it is meant.
    pub objectives: Vec<(String, Objective)>,
    /// What members of a cluster told of sessions that moved.
    pub cluster: Vec<EventsOf>,
    /// Runs of other hosts that were recorded at the same time, to be explained together with it.
    pub others: Vec<PathBuf>,
    /// Requests are chosen to be handed on as spans.
    pub sampled: bool,
    /// Spans of existing instrumentation, to be laid beside the requests.
    pub beside: Option<Vec<ForeignSpan>>,
}

/// Why an objective of errors cannot be judged from the server's sockets alone, with the remedy; `None` without such an
/// objective.
pub fn refusal(objectives: &[Slo]) -> Option<String> {
    let errors = objectives.iter().find(|slo| matches!(slo.objective, Objective::Errors { .. }))?;
    Some(format!(
        "{:?} needs the status of each response, which the server's sockets do not show, and no pack either; a client sees it: let weir make the load (`weir explain --load URL`), or let `weir load --run RUN URL` write into the run that `weir record --run RUN` records, or ask for a time ('p99<200ms')",
        errors.text
    ))
}

impl View {
    /// Whether a run is explained from the server's side: it was asked for, or no client wrote to it.
    pub fn is_server_side(&self, reader: &RunReader) -> bool {
        let client = |entry: &Entry| matches!(entry, Entry::Source { source, .. } if source == Source::Client.name());
        self.server_side || !reader.entries.iter().any(client)
    }

    /// The joiner for it.
    pub(super) fn joiner(&self, reader: &RunReader) -> Joiner {
        let bounds = weir_timeline::Bounds::default();
        if self.is_server_side(reader) { Joiner::of_server(bounds, &self.tls_ports) } else { Joiner::new(bounds) }
    }
}

/// When a window ends, if that is what a record says.
pub(super) fn window_end_ns(record: &Record) -> Option<u64> {
    (record.kind == Kind::Window as u16 && record.flags & ENDS != 0).then_some(record.b)
}

/// For how long a run was watched, window by window.
#[derive(Debug, Default)]
pub(super) struct Watched {
    open_ns: Option<u64>,
    last_ns: u64,
    sum_ns: u64,
    windows: u64,
}

impl Watched {
    /// Takes a record; the edge of a window that ends.
    pub(super) fn push(&mut self, record: &Record) -> Option<u64> {
        self.last_ns = record.time_ns;
        let end_ns = window_end_ns(record);
        if let Some(end_ns) = end_ns {
            self.sum_ns += self.open_ns.take().map_or(0, |open_ns| end_ns.saturating_sub(open_ns));
        } else if record.kind == Kind::Window as u16 {
            self.open_ns = Some(record.b);
            self.windows += 1;
        }
        end_ns
    }

    /// The seconds that were watched, if these were windows with pauses between them.
    pub(super) fn seconds(&self) -> Option<f64> {
        let open_ns = self.open_ns.map_or(0, |open_ns| self.last_ns.saturating_sub(open_ns));
        (self.windows > 1).then_some((self.sum_ns + open_ns) as f64 / 1e9)
    }
}

/// The objectives of a view, judged.
#[derive(Debug)]
pub struct Objectives {
    folds: Vec<(String, ObjectiveFold)>,
    /// Answers with a status from 500 on: however soon they came, they have met no objective of time.
    refused: u64,
}

impl Objectives {
    /// Nothing was judged yet.
    pub fn new(view: &View) -> Self {
        Self {
            folds: view.objectives.iter().map(|(text, one)| (text.clone(), ObjectiveFold::new(*one))).collect(),
            refused: 0,
        }
    }

    /// Takes a response, cut or whole.
    pub fn push(&mut self, response: &Response<'_>) {
        let request = response.request;
        let refused = request.status >= 500;
        self.refused += u64::from(refused);
        for (_, fold) in &mut self.folds {
            match (fold.objective(), response.unjoinable) {
                // Sockets do not show whether a response is an error.
                (Objective::Errors { .. }, _) if request.status == 0 => {}
                (Objective::Latency { .. }, _) if refused => {}
                (_, Some(Unjoinable::Edge)) => fold.push_cut(request.intended_ns, request.done_ns),
                _ => fold.push(request.intended_ns, request.done_ns, refused),
            }
        }
    }

    /// A window ends, or the recording.
    pub fn edge(&mut self, edge_ns: u64) {
        self.folds.iter_mut().for_each(|(_, fold)| fold.edge(edge_ns));
    }

    /// The verdict on each; requests without a whole response have met none.
    pub fn judged(&self, failed: u64) -> Vec<(String, Objective, weir_measure::objective::Judged)> {
        let judged = |(text, fold): &(String, ObjectiveFold)| {
            let mut judged = fold.judged();
            let refused = if matches!(fold.objective(), Objective::Latency { .. }) { self.refused } else { 0 };
            judged.requests += failed + refused;
            judged.bad += failed + refused;
            (text.clone(), fold.objective(), judged)
        };
        self.folds.iter().map(judged).collect()
    }

    pub(super) fn results(&self, statistics: &Statistics) -> Vec<ObjectiveResult> {
        let judged = self.judged(statistics.failed.iter().sum()).into_iter();
        let result =
            |(text, objective, judged): (String, Objective, weir_measure::objective::Judged)| ObjectiveResult {
                text,
                met: judged.is_met(objective),
                requests: judged.requests,
                bad: judged.bad,
                unknown: judged.unknown,
                burn_rate: judged.burn_rate(objective),
            };
        judged.map(result).collect()
    }
}

/// Sets what differs in an explanation from the server's side.
pub(super) fn apply(explanation: &mut Explanation, statistics: &Statistics, watched: &Watched) {
    explanation.boundary = BOUNDARY.to_owned();
    explanation.exchanges = beside(&statistics.exchanges, watched.windows);
    explanation.long_lived = statistics.long_lived.iter().map(long_lived).collect();
    explanation.warnings.extend(warnings(statistics));
    if let Some(seconds) = watched.seconds().filter(|seconds| *seconds > 0.0) {
        // Nothing was recorded in the pauses: what was seen is of the windows' time.
        explanation.server_cpu.utilisation *= explanation.duration_s / seconds;
        explanation.duration_s = seconds;
        explanation.rate_per_s = statistics.requests as f64 / seconds;
    }
}

/// What stayed open and carried messages.
fn long_lived(all: &weir_timeline::LongLived) -> LongLived {
    let mean = |sum: u64, count: u64| (count > 0).then(|| sum as f64 / count as f64);
    let figures = |messages: &Messages| MessageFigures {
        messages: messages.count,
        bytes: messages.bytes,
        between_ns: mean(messages.between_ns, messages.betweens),
        between_ns_max: messages.between_ns_max,
    };
    let kind = match all.kind {
        LongKind::WebSocket => "websocket",
        LongKind::Events => "events",
        LongKind::Grpc => "grpc",
    };
    LongLived {
        kind: kind.to_owned(),
        name: all.name.to_string(),
        count: all.count,
        still_open: all.open,
        lasted_ns: mean(all.lasted_ns, all.count).unwrap_or(0.0),
        received: figures(&all.received),
        sent: figures(&all.sent),
        answered: all.answered,
        answer_ns: mean(all.answer_ns, all.answered),
    }
}

/// What sockets showed beside the responses, by name; without what did not occur.
fn beside(exchanges: &Exchanges, windows: u64) -> BTreeMap<String, u64> {
    let Exchanges {
        handshakes,
        several,
        overlapped,
        http2,
        http2_connections,
        streams,
        streams_nameless,
        streams_reset,
        http3,
        http3_given_up,
        grpc,
        grpc_failed,
        encrypted,
        interim,
        unanswered,
        cut,
        inner,
        unasked,
        resumed,
        forgotten,
        ..
    } = *exchanges;
    let all = [
        ("windows", windows),
        ("tls_handshakes", handshakes),
        ("in_several_pieces", several),
        ("overlapped", overlapped),
        ("http2", http2),
        ("http2_connections", http2_connections),
        ("streams", streams),
        ("streams_without_a_name", streams_nameless),
        ("streams_reset", streams_reset),
        ("http3", http3),
        ("http3_given_up", http3_given_up),
        ("grpc", grpc),
        ("grpc_failed", grpc_failed),
        ("encrypted", encrypted),
        ("after_100_continue", interim),
        ("unanswered", unanswered),
        ("cut_by_an_edge", cut),
        ("inner_requests", inner),
        ("sends_without_request", unasked),
        ("resumed_after_silence", resumed),
        ("connections_forgotten", forgotten),
    ];
    all.into_iter().filter(|(_, count)| *count > 0).map(|(name, count)| (name.to_owned(), count)).collect()
}

/// What a reader should know before trusting figures that come from sockets alone.
fn warnings(statistics: &Statistics) -> Vec<String> {
    let (exchanges, requests) = (&statistics.exchanges, statistics.requests.max(1));
    let mut warnings = Vec::new();
    if exchanges.overlapped * 100 > requests {
        warnings.push(format!(
            "before {} of {} responses had ended the client had sent more: HTTP/2 or pipelining, whose requests no socket tells apart; these are exchanges, of one or several requests, and their times are not those of requests",
            exchanges.overlapped, statistics.requests
        ));
    }
    if exchanges.http2 > 0 {
        warnings.push(format!(
            "{} exchanges on connections of HTTP/2 could not be followed from frame to frame (on {} connections that began in the clear), so their streams are not told apart: they are counted as unjoinable (http2) and are in no figure; a client that speaks HTTP/1.1 to this server (curl --http1.1, weir load) is explained",
            exchanges.http2, exchanges.http2_connections
        ));
    }
    if exchanges.streams_nameless > 0 {
        warnings.push(format!(
            "{} of {} streams of HTTP/2 have no name: their connection is older than the recording, so that its table of headers is not known, or a part of it was not seen",
            exchanges.streams_nameless, exchanges.streams
        ));
    }
    let whole = exchanges.encrypted.saturating_sub(exchanges.encrypted_streams);
    if whole > 0 {
        warnings.push(format!(
            "{whole} of {} responses came over TLS as whole exchanges, where no socket shows whether HTTP/2 is spoken; OpenSSL 3.0, crypto/tls of Go and weir's own server tell streams apart (see what weir said of TLS at its start), other libraries do not yet, nor do these with --no-tls-probes: there, with HTTP/2, streams that overlap are not told apart, and what counts as one response may be several",
            statistics.requests
        ));
    }
    if exchanges.cut * 20 > requests {
        warnings.push(format!(
            "{} requests were cut by an edge of the recording or of one of its windows and are left out, long ones more often than short ones; record for longer, or in longer windows (--window)",
            exchanges.cut
        ));
    }
    if exchanges.resumed > 0 {
        warnings.push(format!(
            "{} responses went on after five seconds of silence; what happened in these may be unattributed",
            exchanges.resumed
        ));
    }
    warnings
}
