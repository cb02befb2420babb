//! Which members are down: a detector without a clock; the time is given to it.

use crate::name::NodeNumber;
use std::collections::BTreeMap;
use std::time::Duration;

/// When a member counts as down, and as up again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DetectorSettings {
    /// Time between two heartbeats.
    pub interval: Duration,
    /// So many that miss one after the other mean down.
    pub misses: u32,
    /// So many that come one after the other mean up.
    pub returns: u32,
    /// When they are taken in.
    pub intake: BeatIntake,
}

/// When the thread of heartbeats takes in what has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BeatIntake {
    /// As it comes: a member counts as down as early as can be.
    AtOnce,
    /// When this side sends its own, so that it wakes once an interval: up to an interval later.
    WithOwn,
}

impl Default for DetectorSettings {
    fn default() -> Self {
        Self { interval: Duration::from_millis(10), misses: 3, returns: 3, intake: BeatIntake::AtOnce }
    }
}

/// The state of a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Health {
    /// It sends heartbeats.
    Up,
    /// It does not.
    Down,
}

/// A member has another state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Change {
    /// The member.
    pub node: NodeNumber,
    /// Its state from now on.
    pub health: Health,
}

#[derive(Debug, Clone, Copy)]
enum State {
    Up { last: Duration },
    Down { came: u32, last: Duration },
}

/// Counts the heartbeats of members. Times are those since any fixed moment.
#[derive(Debug)]
pub struct Detector {
    settings: DetectorSettings,
    nodes: BTreeMap<NodeNumber, State>,
    checked: Option<Duration>,
    pauses: u64,
}

impl Detector {
    /// Knows no member yet.
    pub fn new(settings: DetectorSettings) -> Self {
        Self { settings, nodes: BTreeMap::new(), checked: None, pauses: 0 }
    }

    /// Sets the members; a new one is down until its heartbeats come.
    pub fn set_nodes(&mut self, nodes: &[NodeNumber]) {
        self.nodes.retain(|node, _| nodes.contains(node));
        for node in nodes {
            self.nodes.entry(*node).or_insert(State::Down { came: 0, last: Duration::ZERO });
        }
    }

    /// A sign of life has come.
    pub fn heard(&mut self, node: NodeNumber, now: Duration) -> Option<Change> {
        let returns = self.settings.returns.max(1);
        let silence = self.silence();
        let state = self.nodes.get_mut(&node)?;
        match state {
            State::Up { last } => {
                *last = now.max(*last);
                None
            }
            State::Down { came, last } => {
                let goes_on = *came > 0 && now.saturating_sub(*last) <= silence;
                *came = if goes_on { *came + 1 } else { 1 };
                *last = now;
                if *came < returns {
                    return None;
                }
                *state = State::Up { last: now };
                Some(Change { node, health: Health::Up })
            }
        }
    }

    /// Looks for members that are down; to be called once an interval.
    pub fn check(&mut self, now: Duration) -> Vec<Change> {
        let interval = self.settings.interval;
        let since = self.checked.map_or(Duration::ZERO, |checked| now.saturating_sub(checked));
        self.checked = Some(now);
        // While this side stood still it heard nothing, and the silence is not the members'.
        let own_pause = if since > interval * 2 { since - interval } else { Duration::ZERO };
        self.pauses += u64::from(!own_pause.is_zero());
        let silence = self.silence();
        let mut changes = Vec::new();
        for (&node, state) in &mut self.nodes {
            let State::Up { last } = state else { continue };
            *last = (*last + own_pause).min(now);
            if now - *last > silence {
                *state = State::Down { came: 0, last: *last };
                changes.push(Change { node, health: Health::Down });
            }
        }
        changes
    }

    /// The state of a member; `None` if it is not known.
    pub fn health(&self, node: NodeNumber) -> Option<Health> {
        self.nodes.get(&node).map(|state| if matches!(state, State::Up { .. }) { Health::Up } else { Health::Down })
    }

    /// How often this side itself stood still.
    pub fn pauses(&self) -> u64 {
        self.pauses
    }

    /// The longest silence of a member that is up: half an interval more, as heartbeats do not come at even times.
    fn silence(&self) -> Duration {
        self.settings.interval * self.settings.misses.max(1) + self.settings.interval / 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn up(returns: u32) -> Detector {
        let mut detector = Detector::new(DetectorSettings { returns, ..DetectorSettings::default() });
        detector.set_nodes(&[1, 2]);
        for beat in 1..=returns {
            let change = detector.heard(1, 10 * MS * beat);
            assert_eq!(change.is_some(), beat == returns);
        }
        detector
    }

    #[test]
    fn three_that_miss_mean_down() {
        let mut detector = up(1);
        for at in 2..=4 {
            assert_eq!(detector.check(10 * MS * at + 4 * MS), []);
        }
        assert_eq!(detector.check(54 * MS), [Change { node: 1, health: Health::Down }]);
        assert_eq!(detector.check(64 * MS), []);
        assert_eq!(
            (detector.health(1), detector.health(2), detector.health(3)),
            (Some(Health::Down), Some(Health::Down), None)
        );
    }

    #[test]
    fn two_that_miss_do_not() {
        let mut detector = up(1);
        for at in 2..1_000 {
            if at % 3 == 0 {
                assert_eq!(detector.heard(1, 10 * MS * at), None);
            }
            assert_eq!(detector.check(10 * MS * at + 5 * MS), [], "{at}");
        }
    }

    #[test]
    fn a_pause_of_its_own_is_no_silence_of_others() {
        let mut detector = up(1);
        assert_eq!(detector.check(15 * MS), []);
        assert_eq!(detector.check(5_000 * MS), []);
        assert_eq!(detector.pauses(), 1);
        // Behind it, silence counts again.
        let downs: Vec<_> = (1..=5).flat_map(|at| detector.check(5_000 * MS + 10 * MS * at)).collect();
        assert_eq!(downs, [Change { node: 1, health: Health::Down }]);
    }

    #[test]
    fn single_heartbeats_do_not_bring_it_back() {
        let mut detector = up(3);
        for at in 5..9 {
            detector.check(10 * MS * at);
        }
        assert_eq!(detector.health(1), Some(Health::Down));
        for at in 0..50 {
            assert_eq!(detector.heard(1, (200 + 100 * at) * MS), None);
        }
        assert_eq!(detector.heard(1, 10_000 * MS), None);
        assert_eq!(detector.heard(1, 10_010 * MS), None);
        assert_eq!(detector.heard(1, 10_020 * MS), Some(Change { node: 1, health: Health::Up }));
    }
}
