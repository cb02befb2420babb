//! What the probes in the servers' programs say of a run: phases, queries, and what its rules decided.

use crate::questions::Questions;
use std::sync::Arc;
use weir_measure::part::{Part, PartTimes};
use weir_measure::phase::{PhaseFold, QueryFold};
use weir_report::{Decided, Phase, Query};
use weir_timeline::{Joiner, Remarks, Response};
use weir_trace::Sourced;
use weir_wire::Kind;
use weir_wire::client::ClientRequest;
use weir_wire::quic::Quic;

/// Queries that a report lists.
const MOST_QUERIES: usize = 50;
/// Records between two looks at what has ended.
const BETWEEN: u32 = 1024;

/// The folds over phases and queries.
#[derive(Debug, Default)]
pub(super) struct WorkFolds {
    phases: PhaseFold,
    queries: QueryFold,
    pub(super) questions: Questions,
    waited: u32,
    /// What there was no room for: hits of probes, and ends of phases and queries.
    forgotten: u64,
}

/// The text that a record names by its dictionary.
pub(super) fn name_of<'a>(sourced: &'a Sourced<'_>) -> Option<&'a Arc<str>> {
    sourced.name(name_id_of(sourced)?)
}

/// The number of that text in the dictionary of its stream.
pub(super) fn name_id_of(sourced: &Sourced<'_>) -> Option<u32> {
    if let Some(request) = ClientRequest::read(&sourced.record, sourced.payload) {
        return Some(request.name);
    }
    let named = [Kind::ProbeHit as u16, Kind::ProbeText as u16, Kind::Asked as u16].contains(&sourced.record.kind);
    let named = named || Quic::read(&sourced.record).is_some_and(Quic::is_named);
    named.then_some(sourced.record.b as u32)
}

/// What the server's rules decided, with times from the first request on.
pub(super) fn decisions(remarks: &Remarks, first_ns: u64) -> Vec<Decided> {
    let at_s = |at_ns: u64| (i128::from(at_ns) - i128::from(first_ns)) as f64 / 1e9;
    remarks.remarks.iter().map(|one| Decided { at_s: at_s(one.at_ns), text: one.text.clone() }).collect()
}

/// What is missing of them, in words.
pub(super) fn decisions_left_out(remarks: &Remarks) -> Option<String> {
    let words =
        "decisions of the server's rules were too many to be listed; `weir serve --decisions FILE` writes them all";
    (remarks.left_out > 0).then(|| format!("{} {words}", remarks.left_out))
}

impl WorkFolds {
    /// Takes a response's phases.
    pub(super) fn push(&mut self, response: &Response<'_>) {
        let arrived_ns = response.server.map_or(0, |server| server.arrived_ns);
        for stretch in response.phases {
            let begin_ns = stretch.is_first.then(|| stretch.from_ns.saturating_sub(arrived_ns));
            self.phases.push(stretch.phase, stretch.part as usize, stretch.to_ns - stretch.from_ns, begin_ns);
        }
    }

    /// Takes what has ended meanwhile, every now and then.
    pub(super) fn settle(&mut self, joiner: &mut Joiner, at_end: bool) {
        self.waited += 1;
        if self.waited < BETWEEN && !at_end {
            return;
        }
        self.waited = 0;
        let ended = joiner.take_ended();
        self.forgotten += ended.dropped + ended.forgotten;
        for passage in &ended.passages {
            self.phases.pass(passage.phase, &passage.parts_ns);
        }
        self.questions.settle(joiner);
        for query in &ended.queries {
            self.queries.push(query.phase, query.text, query.ns);
        }
    }

    /// What is missing, in words.
    pub(super) fn warning(&self) -> Option<String> {
        let words = "hits of probes were forgotten for want of memory before their requests ended: phases and queries are \
                     incomplete; fewer probes or a lower rate keep them";
        (self.forgotten > 0).then(|| format!("{} {words}", self.forgotten))
    }

    /// What the report shows: times of phases are for each of the joined responses.
    pub(super) fn report(&self, joiner: &Joiner, responses: u64) -> (Vec<Phase>, Vec<Query>) {
        let mean = |ns: u64| ns as f64 / responses.max(1) as f64;
        let means = |parts: &PartTimes| -> [f64; Part::COUNT] { std::array::from_fn(|part| mean(parts[part])) };
        let phases = self.phases.phases().into_iter().map(|(number, sums)| {
            let name = joiner.phase(number).clone();
            Phase {
                server: name.server,
                name: name.name,
                count: sums.count,
                mean_ns: mean(sums.parts_ns.iter().sum()),
                parts_ns: means(&sums.parts_ns),
                elapsed_ns: mean(sums.passages_ns.iter().sum()),
                elapsed_parts_ns: means(&sums.passages_ns),
            }
        });
        let queries = self.queries.largest(MOST_QUERIES).into_iter().map(|((server, text), sums)| Query {
            server: joiner.phase(server).server.clone(),
            text: joiner.text(text).to_owned(),
            count: sums.count,
            mean_ns: sums.sum_ns as f64 / sums.count.max(1) as f64,
            max_ns: sums.max_ns,
        });
        (phases.collect(), queries.collect())
    }
}
