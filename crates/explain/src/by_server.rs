//! Figures of a window for each of several servers that are recorded at once: by the folds of an explanation.

use crate::pieces::pieces_of;
use crate::words;
use std::collections::HashMap;
use weir_measure::response::{Piece, ResponseFold};
use weir_measure::summary::Summary;
use weir_report::Cause;
use weir_timeline::{Joiner, Labels, Response, ServerEnd, Unjoinable};

/// Servers that are told apart; a fold takes some 300 KB.
pub const SERVERS_MAX: usize = 128;

/// What was seen of a server in a window.
#[derive(Debug, Clone, Default)]
pub struct ServerFigures {
    /// Their response times, from the arrival of the first byte at the server's socket to the last send, nanoseconds;
    /// `None` without a response.
    pub response_ns: Option<Summary>,
    /// What the mean response is spent on, largest first.
    pub causes: Vec<Cause>,
    /// Requests that were never answered: the connection closed, or nothing came for minutes.
    pub unanswered: u64,
    /// Responses whose status is known: over HTTP/2 and 3, and where a probe tells it.
    pub with_status: u64,
    /// Those of them with a status from 500 on.
    pub failed: u64,
    /// Requests that an edge of the window cut; they are in no other figure.
    pub cut: u64,
    /// Requests of which not all was seen; they are in no other figure.
    pub unjoinable: u64,
}

impl ServerFigures {
    /// Responses that were seen from begin to end.
    #[must_use]
    pub fn responses(&self) -> u64 {
        self.response_ns.map_or(0, |summary| summary.count)
    }

    /// What went wrong as far as is known: unanswered requests, and statuses from 500 on.
    #[must_use]
    pub fn errors(&self) -> u64 {
        self.unanswered + self.failed
    }
}

/// The fold of one server.
#[derive(Debug, Default)]
struct Folded {
    responses: Option<ResponseFold>,
    figures: ServerFigures,
}

/// Folds the responses of a window by server.
#[derive(Debug)]
pub struct ServerFolds {
    by_end: HashMap<ServerEnd, usize>,
    folds: Vec<Folded>,
    labels: Labels,
    pieces: Vec<Piece>,
    /// Responses of servers that are not among those named.
    others: u64,
}

/// What came of a window.
#[derive(Debug, Clone, Default)]
pub struct ByServer {
    /// In the order in which the servers were named.
    pub servers: Vec<ServerFigures>,
    /// Responses of servers that were not among them.
    pub others: u64,
}

impl ServerFolds {
    /// Folds for servers, each named by its ends of connections; those beyond [`SERVERS_MAX`] count among the others.
    #[must_use]
    pub fn new(servers: &[Vec<ServerEnd>]) -> Self {
        let named = servers.iter().take(SERVERS_MAX).enumerate();
        let by_end = named.flat_map(|(at, ends)| ends.iter().map(move |end| (*end, at))).collect();
        let folds = servers.iter().map(|_| Folded::default()).collect();
        Self { by_end, folds, labels: Labels::new(), pieces: Vec::new(), others: 0 }
    }

    /// The server of an end; where the recording does not know the network namespace, by the port alone.
    fn server_of(&self, end: ServerEnd) -> Option<usize> {
        let by_port = || self.by_end.iter().find(|(known, _)| known.port == end.port).map(|(_, at)| *at);
        self.by_end.get(&end).copied().or_else(|| if end.netns == 0 { by_port() } else { None })
    }

    /// Takes a response, cut or whole.
    pub fn push(&mut self, joiner: &Joiner, response: &Response<'_>) {
        let Some(at) = response.server_end.and_then(|end| self.server_of(end)) else {
            self.others += 1;
            return;
        };
        let Some(Folded { responses, figures }) = self.folds.get_mut(at) else { return };
        match response.unjoinable {
            Some(Unjoinable::Edge) => figures.cut += 1,
            Some(_) => figures.unjoinable += 1,
            None => {
                pieces_of(joiner, &mut self.labels, response, &mut self.pieces);
                let fold = responses.get_or_insert_with(ResponseFold::new);
                fold.push(response.time_ns(), &self.pieces);
                figures.with_status += u64::from(response.request.status != 0);
                figures.failed += u64::from(response.request.status >= 500);
            }
        }
    }

    /// The figures, after the joiner's last response.
    #[must_use]
    pub fn finish(mut self, joiner: &Joiner) -> ByServer {
        for (end, count) in joiner.unanswered() {
            if let Some(folded) = self.server_of(end).and_then(|at| self.folds.get_mut(at)) {
                folded.figures.unanswered += count;
            }
        }
        let labels = &self.labels;
        let finished = |Folded { responses, figures }| match responses {
            Some(fold) => ServerFigures {
                response_ns: Summary::of(fold.times()),
                causes: words::causes(&fold.all(), labels.texts()),
                ..figures
            },
            None => figures,
        };
        ByServer { servers: self.folds.into_iter().map(finished).collect(), others: self.others }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_measure::part::Part;
    use weir_timeline::{Bounds, Detail, Step};
    use weir_wire::client::{ClientRequest, Outcome};

    const HOST: u32 = 4_026_531_840;

    fn end(netns: u32, port: u16) -> ServerEnd {
        ServerEnd { netns, port }
    }

    fn push(folds: &mut ServerFolds, at: ServerEnd, time_ns: u64, status: u16, unjoinable: Option<Unjoinable>) {
        let request = ClientRequest {
            connection: 1,
            intended_ns: 100,
            started_ns: 100,
            sent_ns: 100,
            first_byte_ns: 100,
            done_ns: 100 + time_ns,
            request_offset: 0,
            request_bytes: 10,
            response_offset: 0,
            response_bytes: 10,
            status,
            name: 0,
            outcome: Outcome::Done,
            opened_connection: false,
            encrypted: false,
            retried: false,
            http_version: 0,
            stream: 0,
        };
        let middle_ns = 100 + time_ns / 4;
        let step = |from_ns, to_ns, part| Step { from_ns, to_ns, part, pid: 7, waiter: 0, detail: Detail::None };
        let steps = [step(100, middle_ns, Part::Run), step(middle_ns, 100 + time_ns, Part::WaitTimer)];
        let server_end = Some(at);
        let response = Response {
            request: &request,
            client: None,
            server_end,
            name: ":80",
            steps: &steps,
            phases: &[],
            server: None,
            unjoinable,
            trace: None,
        };
        folds.push(&Joiner::new(Bounds::default()), &response);
    }

    #[test]
    fn each_server_has_its_own_figures_and_strangers_are_counted() {
        let named = [vec![end(HOST, 80), end(HOST, 443)], vec![end(7, 80)]];
        let mut folds = ServerFolds::new(&named);
        push(&mut folds, end(HOST, 80), 4_000, 0, None);
        push(&mut folds, end(HOST, 443), 4_000, 503, None);
        push(&mut folds, end(HOST, 443), 9_000, 0, Some(Unjoinable::Edge));
        push(&mut folds, end(7, 80), 8_000, 200, None);
        push(&mut folds, end(8, 80), 8_000, 200, None);
        // On a rung that knows no network namespaces the port decides.
        push(&mut folds, end(0, 443), 4_000, 0, Some(Unjoinable::NoArrival));
        let ByServer { servers, others } = folds.finish(&Joiner::new(Bounds::default()));
        let [first, second] = &servers[..] else { panic!("{servers:?}") };
        assert_eq!((first.responses(), second.responses(), others), (2, 1, 1));
        assert_eq!((first.errors(), first.with_status, first.cut, first.unjoinable), (1, 1, 1, 1));
        let cause = &first.causes[0];
        assert_eq!((cause.part.as_str(), cause.share), ("wait_timer", 0.75));
        assert_eq!(second.response_ns.map(|summary| summary.p50 / 10), Some(800));
    }

    #[test]
    fn what_is_beyond_the_bound_is_counted() {
        let named: Vec<Vec<ServerEnd>> = (1..=SERVERS_MAX as u16 + 5).map(|port| vec![end(1, port)]).collect();
        let mut folds = ServerFolds::new(&named);
        for port in 1..=named.len() as u16 {
            push(&mut folds, end(1, port), 1_000, 0, None);
        }
        let told = folds.finish(&Joiner::new(Bounds::default()));
        assert_eq!((told.others, told.servers.len()), (5, named.len()));
    }
}
