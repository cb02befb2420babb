//! Decisions that a run has already: told by the server's probe, or put into it before.

use super::written::Placed;
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use weir_adapt::Subject;
use weir_policy_runtime::remark_text;
use weir_timeline::{Remark, Remarks};
use weir_trace::{Entry, RunReader, Source};
use weir_wire::Kind;

/// Remarks of a run that are compared with.
const REMARKS_MAX: usize = 1 << 17;
/// So far from the end of its tick the same words are those of the same decision: a probe tells it moments after.
const SLACK_NS: u64 = 2_000_000_000;
/// Words that are shorter than this are not cut.
const CUT_BYTES_MIN: usize = 800;
/// Stands for a client's name, and in no word of ours.
const CLIENT: &str = "\u{1}";
/// Bytes of what a run has in place of a client's name.
const HASH_BYTES: usize = 17;

/// What a run tells of itself.
pub(super) struct Known {
    /// In the order of time, each with whether its decision was found.
    remarks: Vec<(Remark, bool)>,
    /// What the run has in place of the names of clients.
    clients: HashMap<String, String>,
    hasher: RandomState,
}

impl Known {
    pub(super) fn of(reader: &RunReader) -> Self {
        let tells = |entry: &Entry| matches!(entry, Entry::Source { source, .. } if [Source::Kernel.name(), Source::Decisions.name()].contains(&&**source));
        let mut remarks = Remarks::with_room(REMARKS_MAX);
        // No other source has remarks, and to look for them is to read the whole run.
        if reader.entries.iter().any(tells) {
            let mut line = weir_terminal::progress::Line::new();
            let mut records = 0u64;
            reader.merge().each(|sourced| {
                if [Kind::ProbeHit as u16, Kind::ProbeText as u16].contains(&sourced.record.kind) {
                    remarks.push(&sourced.record, sourced.name(sourced.record.b as u32).map(|name| &**name));
                }
                records += 1;
                if records.is_multiple_of(1 << 16) {
                    line.show(|| format!("looking for decisions in {records} events"));
                }
                true
            });
        }
        let mut remarks: Vec<_> = remarks.remarks.into_iter().map(|remark| (remark, false)).collect();
        remarks.sort_by_key(|(remark, _)| remark.at_ns);
        Self { remarks, clients: HashMap::new(), hasher: RandomState::new() }
    }

    /// Finds the remark of a decision, which is then no other one's.
    pub(super) fn take(&mut self, placed: &Placed) -> bool {
        let words = one_spaced(&remark_text(&placed.decision, |_| CLIENT.to_owned()));
        let from = self.remarks.partition_point(|(remark, _)| remark.at_ns + SLACK_NS < placed.at_ns);
        for (remark, is_taken) in &mut self.remarks[from..] {
            if remark.at_ns > placed.told_ns + SLACK_NS {
                break;
            }
            if *is_taken {
                continue;
            }
            if let Some(hash) = hash_in(&remark.text, &words) {
                *is_taken = true;
                if let Subject::Client { client, .. } = &placed.decision.subject {
                    self.clients.entry(client.clone()).or_insert_with(|| hash.to_owned());
                }
                return true;
            }
        }
        false
    }

    /// A decision as the run is to tell it: without names of clients, as it has none.
    pub(super) fn words(&self, placed: &Placed) -> String {
        remark_text(&placed.decision, |client| {
            let hash = || format!("h{:016x}", self.hasher.hash_one(client));
            self.clients.get(client).cloned().unwrap_or_else(hash)
        })
    }
}

/// As a probe's text is kept.
fn one_spaced(text: &str) -> String {
    text.replace('\0', " ").split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Whether a remark is these words, or their beginning where it was too long; what it has in place of a client's name,
/// if it has one.
fn hash_in<'t>(told: &'t str, words: &str) -> Option<&'t str> {
    let is_rest = |rest: &str, words: &str| {
        let cut = rest.strip_suffix('…').unwrap_or(rest);
        rest == words || (told.len() >= CUT_BYTES_MIN && words.starts_with(cut))
    };
    let Some((before, behind)) = words.split_once(CLIENT) else {
        return is_rest(told, words).then_some("");
    };
    let (hash, rest) = told.strip_prefix(before)?.split_at_checked(HASH_BYTES)?;
    let is_hash = hash.strip_prefix('h').is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
    (is_hash && is_rest(rest, behind)).then_some(hash)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_remark_is_found_by_its_words_with_any_hash_of_the_client() {
        let words = format!("greedy (p:1) for /** client {CLIENT} fired: shed 90%");
        let told = "greedy (p:1) for /** client h0123456789abcdef fired: shed 90%";
        assert_eq!(hash_in(told, &words), Some("h0123456789abcdef"));
        assert_eq!(hash_in("greedy (p:1) for /** client 192.0.2.7 fired: shed 90%", &words), None);
        assert_eq!(hash_in(&told.replace("90%", "80%"), &words), None);
        assert_eq!(hash_in("flash fired", "flash fired"), Some(""));
        assert_eq!(hash_in("flash", "flash fired"), None, "what is short was not cut");
        let long = format!("flash fired {}", "x".repeat(2000));
        assert_eq!(hash_in(&long[..880], &long), Some(""));
        assert_eq!(hash_in(&format!("{}…", &long[..1000]), &long), Some(""));
        assert_eq!(hash_in(&long[..880], &long.replace("fired", "ended")), None);
    }
}
