//! What the servers asked behind, as the wire told it.

use std::collections::BTreeMap;
use weir_measure::question::{QuestionFold, QuestionSums};
use weir_report::Asked;
use weir_timeline::Joiner;

/// Kinds of questions that a report lists, those that were waited for longest.
const MOST_ASKED: usize = 50;

/// The fold over questions.
#[derive(Debug, Default)]
pub(super) struct Questions {
    fold: QuestionFold,
    dropped: u64,
}

/// Questions of one shape to one peer, with how often each status answered them.
#[derive(Debug, Default)]
struct Kind {
    sums: QuestionSums,
    status: BTreeMap<String, u64>,
}

impl Questions {
    /// Takes what is over.
    pub(super) fn settle(&mut self, joiner: &mut Joiner) {
        let (ended, dropped) = joiner.take_questions();
        self.dropped += dropped;
        for one in ended {
            self.fold.push(one.peer, one.question, one.wait_ns, one.failed, one.answered);
        }
    }

    /// What is missing, in words.
    pub(super) fn warning(&self) -> Option<String> {
        let words = "questions to what the server asks were forgotten for want of memory";
        (self.dropped > 0).then(|| format!("{} {words}", self.dropped))
    }

    /// What the report shows of so many responses, whose mean time is given.
    pub(super) fn report(&self, joiner: &Joiner, responses: u64, mean_response_ns: f64) -> Vec<Asked> {
        let mut kinds: BTreeMap<(u32, &str), Kind> = BTreeMap::new();
        for ((peer, question), sums) in self.fold.kinds() {
            let text = joiner.text(question);
            let (shape, status) = text.split_once('\t').unwrap_or((text, ""));
            let kind = kinds.entry((peer, shape)).or_default();
            kind.sums.add(sums);
            if !status.is_empty() {
                *kind.status.entry(status.to_owned()).or_default() += sums.count;
            }
        }
        let responses = responses.max(1) as f64;
        let asked = kinds.into_iter().map(|((peer, shape), Kind { sums, status })| {
            let (peer, protocol) = joiner.text(peer).split_once('\t').unwrap_or((joiner.text(peer), ""));
            let of_all = sums.sum_ns as f64 / responses;
            Asked {
                peer: peer.to_owned(),
                protocol: protocol.to_owned(),
                question: shape.to_owned(),
                count: sums.count,
                per_response: sums.count as f64 / responses,
                share: if mean_response_ns > 0.0 { of_all / mean_response_ns } else { 0.0 },
                mean_ns: sums.mean_ns(),
                max_ns: sums.max_ns,
                status,
                failed: sums.failed,
                unanswered: sums.unanswered,
            }
        });
        let mut asked: Vec<Asked> = asked.collect();
        asked.sort_by(|one, other| other.share.total_cmp(&one.share).then_with(|| one.question.cmp(&other.question)));
        asked.truncate(MOST_ASKED);
        asked
    }
}
