//! Finds the requests that a move met: those of the same client's address and port at its time.

use super::clocks::{Placed, RunClock};
use super::told::{EventsOf, MoveTold, Side};
use std::collections::HashMap;
use std::net::SocketAddr;
use weir_report::{Moved, Moves};
use weir_terminal::units::counted;
use weir_timeline::Response;
use weir_trace::RunReader;

/// Moves that are kept; of more only their number is.
const MOVES_MAX: usize = 16_384;

/// Folds responses over the moves of a run.
#[derive(Debug, Default)]
pub(crate) struct MoveFold {
    /// Events were given, whether or not they tell of moves.
    is_asked: bool,
    /// Responses end where a node had them no more.
    is_server_side: bool,
    moves: Vec<Met>,
    by_client: HashMap<SocketAddr, Vec<usize>>,
    requests: u64,
    left_out: u64,
    /// Members whose clocks were not compared with the run's.
    uncompared: Vec<String>,
}

/// A move, and what it met.
#[derive(Debug)]
struct Met {
    told: MoveTold,
    over: Placed,
    /// From when on the session stood still, by the run's clock.
    frozen_ns: u64,
    confirmed_ns: Option<u64>,
    requests: u64,
    name: Option<String>,
    /// The last response of the client that began before.
    before: Option<(u64, String)>,
}

impl Met {
    fn slack_ns(&self) -> u64 {
        self.over.error_ns.unwrap_or(0)
    }

    fn overlaps(&self, from_ns: u64, to_ns: u64) -> bool {
        from_ns <= self.over.at_ns.saturating_add(self.slack_ns())
            && self.frozen_ns <= to_ns.saturating_add(self.slack_ns())
    }
}

impl MoveFold {
    /// For the moves of which members told.
    pub(crate) fn new(reader: &RunReader, all: &[EventsOf], is_server_side: bool) -> Self {
        let mut fold = Self { is_asked: !all.is_empty(), is_server_side, ..Self::default() };
        let Some(clock) = RunClock::of(reader) else { return fold };
        let mut known: HashMap<&str, usize> = HashMap::new();
        // What the old node tells comes first: it knows how long the session stood still.
        for side in [Side::Giver, Side::Taker, Side::Director] {
            for events in all {
                for one in events.moves.iter().filter(|one| one.side == side) {
                    let placed = clock.place(events, one.at, all);
                    match known.get(&*one.id) {
                        Some(index) if side == Side::Director => fold.moves[*index].confirmed_ns = Some(placed.at_ns),
                        Some(_) => {}
                        None if side == Side::Director => {}
                        None if fold.moves.len() >= MOVES_MAX => fold.left_out += 1,
                        None => {
                            known.insert(&one.id, fold.moves.len());
                            fold.take(one, placed, &events.member);
                        }
                    }
                }
            }
        }
        fold
    }

    fn take(&mut self, told: &MoveTold, over: Placed, member: &str) {
        if over.error_ns.is_none() && !self.uncompared.iter().any(|known| known == member) {
            self.uncompared.push(member.to_owned());
        }
        let still_us = told.freeze_us.or(told.total_us).unwrap_or(0);
        let frozen_ns = over.at_ns.saturating_sub(still_us.saturating_mul(1_000));
        let client = SocketAddr::new(told.client.ip().to_canonical(), told.client.port());
        self.by_client.entry(client).or_default().push(self.moves.len());
        let told = told.clone();
        self.moves.push(Met { told, over, frozen_ns, confirmed_ns: None, requests: 0, name: None, before: None });
    }

    /// Takes a response, cut or whole.
    pub(crate) fn push(&mut self, response: &Response<'_>) {
        let Some(client) = response.client else { return };
        let Some(indexes) = self.by_client.get(&client) else { return };
        let (from_ns, to_ns) = (response.request.intended_ns, response.request.done_ns);
        let mut is_met = false;
        for index in indexes {
            let met = &mut self.moves[*index];
            if met.overlaps(from_ns, to_ns) {
                met.requests += 1;
                met.name = Some(response.name.to_owned());
                is_met = true;
            } else if to_ns < met.frozen_ns && met.before.as_ref().is_none_or(|(before_ns, _)| *before_ns < from_ns) {
                met.before = Some((from_ns, response.name.to_owned()));
            }
        }
        self.requests += u64::from(is_met);
    }

    /// Moves within a time of the run.
    pub(crate) fn within(&self, first_ns: u64, last_ns: u64) -> usize {
        self.moves.iter().filter(|met| met.overlaps(first_ns, last_ns)).count()
    }

    /// What was found; `None` where no events were given.
    pub(crate) fn report(&mut self, (first_ns, last_ns): (u64, u64)) -> Option<Moves> {
        if self.is_asked && self.is_server_side {
            self.settle_given();
        }
        let at_s = |at_ns: u64| (i128::from(at_ns) - i128::from(first_ns)) as f64 / 1e9;
        let ns = |us: u64| us as f64 * 1e3;
        let is_of_run = |met: &&Met| met.requests > 0 || met.overlaps(first_ns, last_ns);
        let mut moves: Vec<Moved> = self
            .moves
            .iter()
            .filter(is_of_run)
            .map(|met| Moved {
                at_s: at_s(met.frozen_ns),
                from: met.told.from.clone(),
                to: met.told.to.clone(),
                requests: met.requests,
                request: met.name.clone(),
                stood_still_ns: met.told.freeze_us.map(ns),
                took_ns: met.told.total_us.map(ns),
                confirmed_s: met.confirmed_ns.map(at_s),
                error_ns: met.over.error_ns.map(|ns| ns as f64),
            })
            .collect();
        moves.sort_by(|a, b| a.at_s.total_cmp(&b.at_s));
        self.is_asked.then_some(Moves { requests: self.requests, moves })
    }

    /// At the old node a response ends with the last send before the move: what was under way then is the last one.
    fn settle_given(&mut self) {
        for met in &mut self.moves {
            if let Some((_, name)) = met.before.take().filter(|_| met.requests == 0 && met.told.under_way == Some(true))
            {
                (met.requests, met.name) = (1, Some(name));
                self.requests += 1;
            }
        }
    }

    /// What is to be known of it, in words.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        if !self.uncompared.is_empty() {
            warnings.push(format!(
                "moves that {} told of are placed by the time of day: how its clock stands to that of this run's machine is \
                 not known; give the events of a member of that machine as well, by another --cluster-events",
                self.uncompared.join(" and ")
            ));
        }
        if self.left_out > 0 {
            warnings.push(format!("{} were too many to be looked for", counted(self.left_out, "move")));
        }
        warnings
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::moves::told::Moment;
    use weir_wire::client::{ClientRequest, Outcome};

    const CLIENT: &str = "198.51.100.7:50123";

    fn told(id: &str, at_us: u64, freeze_us: u64) -> MoveTold {
        MoveTold {
            id: id.to_owned(),
            side: Side::Giver,
            at: Moment { unix_us: 0, monotonic_us: at_us },
            client: CLIENT.parse().expect("an address"),
            from: "n1".to_owned(),
            to: "n2".to_owned(),
            freeze_us: Some(freeze_us),
            total_us: Some(freeze_us + 500),
            under_way: Some(true),
        }
    }

    fn fold(is_server_side: bool, moves: &[MoveTold]) -> MoveFold {
        let mut fold = MoveFold { is_asked: true, is_server_side, ..MoveFold::default() };
        for one in moves {
            fold.take(one, Placed { at_ns: one.at.monotonic_us * 1_000, error_ns: Some(1_000) }, "n1");
        }
        fold
    }

    fn push(fold: &mut MoveFold, client: &str, (from_ns, to_ns): (u64, u64)) {
        let request = ClientRequest {
            connection: 1,
            intended_ns: from_ns,
            started_ns: from_ns,
            sent_ns: from_ns,
            first_byte_ns: from_ns,
            done_ns: to_ns,
            request_offset: 0,
            request_bytes: 1,
            response_offset: 0,
            response_bytes: 1,
            status: 200,
            name: 0,
            outcome: Outcome::Done,
            opened_connection: true,
            encrypted: false,
            retried: false,
            http_version: 0,
            stream: 0,
        };
        let client = Some(client.parse().expect("an address"));
        let (steps, phases) = (&[][..], &[][..]);
        fold.push(&Response {
            request: &request,
            client,
            server_end: None,
            name: "GET /a",
            steps,
            phases,
            server: None,
            unjoinable: None,
            trace: None,
        });
    }

    #[test]
    fn a_request_that_was_under_way_is_met_and_others_are_not() {
        // It stood still from 8 to 10 ms.
        let mut fold = fold(false, &[told("1.1", 10_000, 2_000)]);
        push(&mut fold, CLIENT, (1_000_000, 7_000_000));
        push(&mut fold, CLIENT, (7_500_000, 20_000_000));
        push(&mut fold, "198.51.100.7:50124", (7_500_000, 20_000_000));
        push(&mut fold, CLIENT, (20_000_000, 30_000_000));
        let moves = fold.report((1_000_000, 30_000_000)).expect("was asked");
        assert_eq!((moves.requests, moves.moves.len()), (1, 1));
        let moved = &moves.moves[0];
        assert_eq!((moved.requests, moved.request.as_deref(), moved.at_s), (1, Some("GET /a"), 0.007));
        assert_eq!((moved.stood_still_ns, moved.error_ns), (Some(2e6), Some(1e3)));
    }

    #[test]
    fn at_the_old_node_the_last_response_before_is_the_one_that_moved() {
        let idle = MoveTold { under_way: Some(false), ..told("1.2", 40_000, 1_000) };
        let mut fold = fold(true, &[told("1.1", 10_000, 2_000), idle]);
        push(&mut fold, CLIENT, (1_000_000, 7_000_000));
        push(&mut fold, CLIENT, (30_000_000, 35_000_000));
        let moves = fold.report((1_000_000, 50_000_000)).expect("was asked");
        assert_eq!((moves.requests, moves.moves.len()), (1, 2));
        assert_eq!(moves.moves.iter().map(|one| one.requests).collect::<Vec<_>>(), [1, 0]);
    }

    #[test]
    fn a_request_that_moved_twice_counts_once_and_moves_of_other_times_are_left_out() {
        let mut fold =
            fold(false, &[told("1.1", 10_000, 2_000), told("2.1", 12_000, 1_000), told("1.9", 900_000, 1_000)]);
        push(&mut fold, CLIENT, (1_000_000, 20_000_000));
        let moves = fold.report((1_000_000, 20_000_000)).expect("was asked");
        assert_eq!((moves.requests, moves.moves.len()), (1, 2));
        assert_eq!(MoveFold::default().report((0, 1)), None);
    }
}
