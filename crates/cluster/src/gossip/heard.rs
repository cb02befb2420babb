//! What gossip has heard of each member, and how old it is.

use super::popular::{Asked, Slot};
use super::reading::{GossipTextError, Reading, Sites, number};
use crate::name::{NodeName, Role};
use chitchat::NodeState;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// The keys under which a member says it.
pub(super) const INTRODUCTION: &str = "i";
pub(super) const READING: &str = "r";
pub(super) const SITES: &str = "s";
pub(super) const RULES: &str = "w";
/// Bytes of what a member says of the rules over nodes.
pub const RULES_BYTES_MAX: usize = 32 << 10;
/// Bytes of the version of a program.
const VERSION_BYTES_MAX: usize = 40;

/// Who a member is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Introduction {
    /// What it may do.
    pub role: Role,
    /// The version of its program.
    pub version: String,
    /// When it started: seconds since 1970, by its own clock.
    pub since_unix_s: u64,
}

impl Introduction {
    pub(super) fn to_text(&self) -> String {
        format!("1 {} {} {}", self.role.word(), self.since_unix_s, self.version)
    }

    pub(super) fn parse(text: &str) -> Result<Self, GossipTextError> {
        let read = || {
            let mut words = text.splitn(4, ' ');
            let (form, role, since, version) = (words.next()?, words.next()?, words.next()?, words.next()?);
            let role = Role::ALL.into_iter().find(|known| known.word() == role).filter(|_| form == "1")?;
            let is_version = version.len() <= VERSION_BYTES_MAX && version.bytes().all(|byte| byte.is_ascii_graphic());
            is_version.then_some(Self { role, version: version.to_owned(), since_unix_s: number(since)? })
        };
        read().ok_or(GossipTextError { what: "introduction" })
    }
}

/// What was heard of a member.
#[derive(Debug, Clone, PartialEq)]
pub struct Heard {
    /// Its name.
    pub name: NodeName,
    /// Who it is, once it has said so.
    pub introduction: Option<Introduction>,
    /// Whether signs of life come.
    pub is_alive: bool,
    /// Its last reading; none of a member that serves nothing, such as the director.
    pub reading: Option<Reading>,
    /// How long ago its reading came, or what it said last where it has none.
    pub age: Duration,
    /// How long ago a sign of life came.
    pub silence: Duration,
    /// The versions of published sites that it has.
    pub sites: BTreeMap<String, u64>,
    /// What it is asked for most, the most asked first.
    pub popular: Vec<Asked>,
    /// What it says of the rules over nodes: a director what it wishes, a node what it does of that. Empty for nothing.
    pub rules: String,
}

/// The members that were heard of. A member that has started anew takes the place of its earlier start.
#[derive(Debug, Default)]
pub(super) struct Known(BTreeMap<NodeName, Entry>);

#[derive(Debug)]
struct Entry {
    /// Which start of the member, and which state of it.
    at: (u64, u64),
    changed: Instant,
    /// Its last sign of life, and when that came.
    beat: (u64, Instant),
    heard: Heard,
}

impl Known {
    /// Takes in what chitchat knows of a member's start.
    pub(super) fn take(&mut self, name: &NodeName, is_alive: bool, state: &NodeState, now: Instant) {
        let at = (state.chitchat_id().generation_id, state.max_version());
        if at.1 == 0 {
            return;
        }
        let beat = u64::from(state.heartbeat());
        if let Some(entry) = self.0.get_mut(name) {
            // Of two starts that which lives counts, and of two that do the later one.
            if entry.at.0 != at.0 && (is_alive, at.0) < (entry.heard.is_alive, entry.at.0) {
                return;
            }
            if entry.at.0 == at.0 {
                entry.heard.is_alive = is_alive;
                if beat > entry.beat.0 {
                    entry.beat = (beat, now);
                }
                if entry.at != at {
                    (entry.at, entry.changed, entry.heard) = (at, now, heard(name, is_alive, state));
                }
                return;
            }
        }
        let heard = heard(name, is_alive, state);
        self.0.insert(name.clone(), Entry { at, changed: now, beat: (beat, now), heard });
    }

    /// All that was heard, as of now.
    pub(super) fn all(&self, now: Instant) -> Vec<Heard> {
        let heard = |entry: &Entry| {
            let [age, silence] = [entry.changed, entry.beat.1].map(|since| now.saturating_duration_since(since));
            Heard { age, silence, ..entry.heard.clone() }
        };
        self.0.values().map(heard).collect()
    }
}

fn heard(name: &NodeName, is_alive: bool, state: &NodeState) -> Heard {
    let slot = |(key, value): (&str, &str)| {
        let is_slot = key.len() == 2 && key.bytes().all(|byte| byte.is_ascii_digit());
        is_slot.then(|| Slot::parse(value).ok()).flatten().and_then(|slot| slot.0)
    };
    let mut popular: Vec<Asked> = state.key_values().filter_map(slot).collect();
    popular.sort_by(|one, other| other.requests_per_s.total_cmp(&one.requests_per_s));
    Heard {
        name: name.clone(),
        introduction: state.get(INTRODUCTION).and_then(|text| Introduction::parse(text).ok()),
        is_alive,
        reading: state.get(READING).and_then(|text| Reading::parse(text).ok()),
        age: Duration::ZERO,
        silence: Duration::ZERO,
        sites: state.get(SITES).and_then(|text| Sites::parse(text).ok()).unwrap_or_default().0,
        popular,
        rules: state.get(RULES).filter(|text| text.len() <= RULES_BYTES_MAX).unwrap_or_default().to_owned(),
    }
}

/// Reads any text as an introduction and writes it again; for the fuzz target.
pub fn introduction_text(text: &str) -> Option<String> {
    Introduction::parse(text).ok().map(|introduction| introduction.to_text())
}

/// Reads any text as a list of sites and writes it again; for the fuzz target.
pub fn sites_text(text: &str) -> Option<String> {
    Sites::parse(text).ok().map(|sites| sites.to_text())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_introduction_is_read_again() {
        let introduction = Introduction { role: Role::Director, version: "0.1.0+x".to_owned(), since_unix_s: 17 };
        assert_eq!(Introduction::parse(&introduction.to_text()), Ok(introduction));
        for wrong in ["", "1 node 1", "1 king 1 0.1.0", "2 node 1 0.1.0", "1 node x 0.1.0", "1 node 1 0.1.0 more"] {
            assert!(Introduction::parse(wrong).is_err(), "{wrong}");
        }
    }
}
