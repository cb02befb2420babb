//! How often clients are looked at, so that many that bring little cost little, and none loses records by it.

use crate::client::Client;
use crate::pairing::Limits;
use std::collections::BTreeMap;
use std::time::Duration;

/// Looks that find nothing until a client is looked at less often.
const IDLE_LOOKS: u32 = 10;
/// From so many clients on, those that bring little are looked at less often, too.
const MANY: usize = 64;
/// Idle and slow clients get a look every so many passes: with a subscriber, without one, and at most with very many
/// clients.
const FOLLOWED_EVERY: u64 = 2;
const IDLE_EVERY: u64 = 4;
const MOST_EVERY: u64 = 20;
/// Every how many passes it is seen whether one of them has a lane that fills: of each, two lines of memory that hardly
/// ever are in a cache.
const FILLING_EVERY: u64 = 5;
/// After how many beats figures are added up, and at most with very many clients; sooner if a lane needs it.
const ROUND_OFF_BEATS: u64 = 5;
const MOST_ROUND_OFF_BEATS: u64 = 20;
/// How full a lane may be at a look; at more, the next look comes sooner.
const WANTED_FILL: f32 = 0.125;
/// The shortest time between two passes.
pub(crate) const SHORTEST_WAIT: Duration = Duration::from_millis(1);
/// Running transactions of all processes, and bytes of what is told of them; beyond, each gets a small share.
const MOST_RUNNING: usize = 131_072;
const MOST_ATTRIBUTE_BYTES: usize = 16 << 20;

/// Whether there are so many clients that some are left out of a pass though they bring something.
pub(crate) fn are_many(clients: usize) -> bool {
    clients > MANY
}

/// How often clients are looked at.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pace {
    /// Every how many passes those are looked at that bring little.
    every: u64,
    clients: usize,
}

impl Pace {
    /// The pace for so many clients. With a subscriber (`is_followed`) the looks come more often.
    pub(crate) fn of(clients: usize, is_followed: bool) -> Self {
        let for_many = ((clients / MANY) as u64).clamp(IDLE_EVERY, MOST_EVERY);
        Self { every: if is_followed { FOLLOWED_EVERY } else { for_many }, clients }
    }

    /// The same pace, but each pass looks at all clients.
    pub(crate) fn of_all(self) -> Self {
        Self { every: 1, ..self }
    }

    /// Whether a client is looked at in this pass.
    fn when(self, pass: u64, turn: Turn) -> When {
        let pass = pass + u64::from(turn.number);
        let may_wait = match turn.speed {
            Speed::Fast => false,
            Speed::Slow => are_many(self.clients),
            Speed::Idle => true,
        };
        if !may_wait || pass.is_multiple_of(self.every) {
            When::Now
        } else if pass.is_multiple_of(FILLING_EVERY) {
            // One that suddenly brings much shows it in words that are mapped: that is seen without a system call.
            When::IfFilling
        } else {
            When::Later
        }
    }

    /// How long figures may wait to be added up and noted, nanoseconds: each time costs something for each client.
    pub(crate) fn round_off_ns(self, beat: Duration) -> u64 {
        let beats = ((self.clients / MANY) as u64).clamp(ROUND_OFF_BEATS, MOST_ROUND_OFF_BEATS);
        beats * beat.as_nanos() as u64
    }
}

enum When {
    Now,
    IfFilling,
    Later,
}

/// Whose turn it may be, in few bytes: of very many clients hardly any is looked at in a pass, and those that are not
/// are not touched.
#[derive(Debug, Clone, Copy)]
struct Turn {
    number: u32,
    speed: Speed,
}

/// How much a client brings.
#[derive(Debug, Clone, Copy)]
enum Speed {
    /// So much that it is looked at in each pass.
    Fast,
    /// Little: among many clients it may wait.
    Slow,
    /// Nothing for long: it may wait.
    Idle,
}

/// All clients' turns.
#[derive(Debug, Default)]
pub(crate) struct Turns(Vec<Turn>);

impl Turns {
    /// A client has come.
    pub(crate) fn add(&mut self, number: u32) {
        self.0.push(Turn { number, speed: Speed::Fast });
    }

    /// Looks at each client whose turn it is in this pass, and forgets those that are gone.
    pub(crate) fn take(
        &mut self,
        pace: Pace,
        pass: u64,
        clients: &mut BTreeMap<u32, Client>,
        mut look: impl FnMut(&mut Client),
    ) {
        self.0.retain_mut(|turn| {
            let when = pace.when(pass, *turn);
            if matches!(when, When::Later) {
                return true;
            }
            let Some(client) = clients.get_mut(&turn.number) else { return false };
            if matches!(when, When::Now) || client.is_filling() {
                look(client);
                turn.speed = match client.is_slow {
                    _ if client.idle >= IDLE_LOOKS => Speed::Idle,
                    true => Speed::Slow,
                    false => Speed::Fast,
                };
            }
            true
        });
    }
}

/// What all clients together take up here.
#[derive(Debug, Default)]
pub(crate) struct Held {
    running: usize,
    attribute_bytes: usize,
}

impl Held {
    /// A client was looked at: what it takes up now counts in the place of what it took up before.
    pub(crate) fn follow(&mut self, client: &mut Client) {
        let now = (client.pairing().running_count(), client.pairing().attribute_bytes());
        let before = std::mem::replace(&mut client.held, now);
        self.running = self.running.saturating_sub(before.0) + now.0;
        self.attribute_bytes = self.attribute_bytes.saturating_sub(before.1) + now.1;
    }

    /// What each of them may take up.
    pub(crate) fn limits(&self) -> Limits {
        Limits {
            running: if self.running < MOST_RUNNING { 65_536 } else { 256 },
            attribute_bytes: if self.attribute_bytes < MOST_ATTRIBUTE_BYTES { 4 << 20 } else { 16 << 10 },
        }
    }
}

/// When to look again: sooner where lanes fill quickly, and slowly back where they do not.
pub(crate) fn next_wait(wait: Duration, fill: f32, beat: Duration) -> Duration {
    if fill > WANTED_FILL {
        wait.mul_f32(WANTED_FILL / fill).max(SHORTEST_WAIT)
    } else {
        (wait + wait / 4 + SHORTEST_WAIT).min(beat)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_come_sooner_where_lanes_fill_and_slowly_go_back() {
        let beat = Duration::from_millis(100);
        assert_eq!(next_wait(beat, 0.0, beat), beat);
        assert_eq!(next_wait(beat, 1.0, beat), beat / 8);
        assert_eq!(next_wait(SHORTEST_WAIT, 1.0, beat), SHORTEST_WAIT);
        let mut wait = SHORTEST_WAIT;
        let steps = (0..100).take_while(|_| {
            wait = next_wait(wait, 0.1, beat);
            wait < beat
        });
        assert!((5..30).contains(&steps.count()));
    }

    #[test]
    fn many_clients_are_looked_at_less_often_without_a_subscriber() {
        let every = |clients, followed| Pace::of(clients, followed).every;
        assert_eq!([every(1, false), every(100, false), every(500, false), every(5000, false)], [4, 4, 7, 20]);
        assert_eq!([every(1, true), every(5000, true)], [2, 2]);
        let beat = Duration::from_millis(100);
        assert_eq!(Pace::of(5000, false).of_all().every, 1);
        let round_off = |clients| Pace::of(clients, false).round_off_ns(beat) / 1_000_000;
        assert_eq!([round_off(1), round_off(500), round_off(5000)], [500, 700, 2000]);
    }
}
