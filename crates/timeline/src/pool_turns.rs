//! For whom a loop asked over a connection of a pool, told by what it did with the answer.
//!
//! Where requests wait for a pool's connections, a loop gives a connection on to one that waits before it answers the one
//! that had it: for which of them it asks then, nothing tells at that time. But it deals with one answer at a time. Between
//! the reading of an answer and that of the next one it gives the response to the request whose answer it was; or it asks
//! once more, for the same one. So a question is put down to a request in hindsight.
//! That holds for loops that answer only on an answer from behind, or at once. One that is seen to answer otherwise, as on a
//! timer, is left alone.

use rustc_hash::FxHashMap;

/// Connections of which a question is open; beyond, those are forgotten.
const MOST_OPEN: usize = 1 << 12;
/// Dealings of a request that are kept until it is known; one with more stays unknown.
const MOST_DEALINGS: usize = 64;
/// Sends and responses of one turn; with more it tells nothing.
const MOST_OF_A_TURN: usize = 8;
/// So many responses in turns are wanted for each one that was given otherwise.
const FOR_EACH_OTHER: u32 = 1_000;
/// Before so many turns a loop is not known.
const MOST_FIRST: u32 = 32;

/// A dealing with a connection to what is asked, by its time.
type Dealing = u64;

/// What a task did since it read an answer.
#[derive(Debug, Default)]
struct Turn {
    /// What is known of the request whose answer it was, if that is not known itself: its dealings so far.
    answered: Option<Vec<Dealing>>,
    /// To these clients' connections it gave.
    given: Vec<u32>,
    /// Over these connections it asked, and when.
    asked: Vec<(u32, Dealing)>,
}

/// The turns of a task.
#[derive(Debug, Default)]
pub(crate) struct PoolTurns {
    turn: Option<Turn>,
    /// By connection: the dealings of the request whose question is open there, which is not known.
    open: FxHashMap<u32, Vec<Dealing>>,
    /// Responses that were given in a turn, and without one.
    within: u32,
    without: u32,
    /// It took a request since the turn before was over.
    took: bool,
}

/// Dealings that were for a request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Known {
    pub(crate) request: u32,
    pub(crate) dealings: Vec<Dealing>,
}

impl PoolTurns {
    /// An answer is read, which may be for a request that is known; the turn before must be over.
    pub(crate) fn reads(&mut self, connection: u32, at_ns: Dealing, is_known: bool) {
        let open = self.open.remove(&connection).filter(|_| !is_known);
        let answered = open.map(|mut dealings| {
            dealings.push(at_ns);
            dealings
        });
        self.turn = Some(Turn { answered, ..Turn::default() });
    }

    /// A question is sent.
    pub(crate) fn asks(&mut self, connection: u32, at_ns: Dealing) {
        if let Some(turn) = self.turn.as_mut().filter(|turn| turn.asked.len() <= MOST_OF_A_TURN)
            && !turn.asked.iter().any(|(known, _)| *known == connection)
        {
            turn.asked.push((connection, at_ns));
        }
    }

    /// A client's request is taken; the turn before must be over.
    pub(crate) fn takes(&mut self) {
        self.took = true;
    }

    /// A piece of a response is given.
    pub(crate) fn gives(&mut self, request: u32) {
        match &mut self.turn {
            Some(turn) if turn.given.len() <= MOST_OF_A_TURN => {
                if !turn.given.contains(&request) {
                    turn.given.push(request);
                    self.within = self.within.saturating_add(1);
                }
            }
            Some(_) => {}
            // It may be answered at once.
            None if self.took => {}
            None => self.without = self.without.saturating_add(1),
        }
    }

    /// The turn is over: what it tells. `is_known` says of a dealing whether its request is known.
    pub(crate) fn ends(&mut self, is_known: impl Fn(Dealing) -> bool) -> Option<Known> {
        self.took = false;
        let Turn { answered, given, mut asked } = self.turn.take()?;
        if given.len() > MOST_OF_A_TURN || asked.len() > MOST_OF_A_TURN {
            return None;
        }
        asked.retain(|(_, at_ns)| !is_known(*at_ns));
        let told = match (answered, given.as_slice(), asked.as_slice()) {
            // The same request asks once more.
            (Some(mut dealings), [], [(connection, at_ns)]) if dealings.len() < MOST_DEALINGS => {
                dealings.push(*at_ns);
                self.open(*connection, dealings);
                return None;
            }
            (Some(dealings), [request], _) => Some(Known { request: *request, dealings }),
            _ => None,
        };
        // These are for others.
        if !given.is_empty() {
            asked.into_iter().for_each(|(connection, at_ns)| self.open(connection, vec![at_ns]));
        }
        let is_such = self.within >= MOST_FIRST && self.without.saturating_mul(FOR_EACH_OTHER) <= self.within;
        told.filter(|_| is_such)
    }

    /// What was known is over.
    pub(crate) fn forget(&mut self) {
        (self.turn, self.took) = (None, false);
        self.open.clear();
    }

    fn open(&mut self, connection: u32, dealings: Vec<Dealing>) {
        if self.open.len() >= MOST_OPEN {
            self.open.clear();
        }
        self.open.insert(connection, dealings);
    }

    /// How many things are held.
    pub(crate) fn held(&self) -> usize {
        self.open.values().map(|dealings| 1 + dealings.len()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A loop that was seen to answer in turns only.
    fn a_loop() -> PoolTurns {
        let mut turns = PoolTurns::default();
        for request in 0..MOST_FIRST {
            turns.reads(1, u64::from(request), true);
            turns.gives(1_000 + request);
            assert_eq!(turns.ends(|_| true), None);
        }
        turns
    }

    /// An answer for 7, which is known, hands its connection to one that waits; then that one is answered.
    fn handed_on(turns: &mut PoolTurns) {
        turns.reads(1, 100, true);
        turns.asks(1, 101);
        turns.gives(7);
        assert_eq!(turns.ends(|at_ns| at_ns != 101), None);
    }

    #[test]
    fn a_question_is_put_down_to_the_request_that_its_answer_answers() {
        let mut turns = a_loop();
        handed_on(&mut turns);
        // Its first answer has it ask once more; with the second it is answered, and another one gets the connection.
        turns.reads(1, 200, false);
        turns.asks(1, 201);
        assert_eq!(turns.ends(|_| false), None);
        turns.reads(1, 300, false);
        turns.asks(1, 301);
        turns.gives(8);
        assert_eq!(turns.ends(|_| false), Some(Known { request: 8, dealings: vec![101, 200, 201, 300] }));
        turns.reads(1, 400, false);
        turns.gives(9);
        assert_eq!(turns.ends(|_| false), Some(Known { request: 9, dealings: vec![301, 400] }));
    }

    #[test]
    fn of_two_nothing_is_told() {
        let mut turns = a_loop();
        handed_on(&mut turns);
        // Two are answered, or two questions asked, upon one answer.
        turns.reads(1, 200, false);
        turns.gives(8);
        turns.gives(9);
        assert_eq!(turns.ends(|_| false), None);
        handed_on(&mut turns);
        turns.reads(1, 200, false);
        turns.asks(1, 201);
        turns.asks(2, 202);
        assert_eq!(turns.ends(|_| false), None);
        turns.reads(1, 300, false);
        turns.gives(8);
        assert_eq!(turns.ends(|_| false), None);
    }

    #[test]
    fn a_loop_that_answers_otherwise_is_left_alone() {
        let mut turns = a_loop();
        turns.gives(5);
        handed_on(&mut turns);
        turns.reads(1, 200, false);
        turns.gives(8);
        assert_eq!(turns.ends(|_| false), None);
        // What is answered as soon as it is taken says nothing against it.
        let mut turns = a_loop();
        turns.takes();
        turns.gives(5);
        assert_eq!(turns.ends(|_| false), None);
        handed_on(&mut turns);
        turns.reads(1, 200, false);
        turns.gives(8);
        assert_eq!(turns.ends(|_| false).map(|known| known.request), Some(8));
    }

    proptest! {
        /// Only dealings that were told are put down to a request that was given to; and no more is kept than the bound.
        #[test]
        fn only_what_happened_is_told(steps in proptest::collection::vec((0u8..6, 1u32..6), 0..400)) {
            let mut turns = a_loop();
            let (mut dealings, mut given) = (Vec::new(), Vec::new());
            for (at, (sort, number)) in steps.into_iter().enumerate() {
                let at_ns = 10_000 + at as u64;
                match sort {
                    0 => turns.asks(number, at_ns),
                    1 => turns.gives(number),
                    2 => turns.takes(),
                    3 => turns.reads(number, at_ns, false),
                    4 => turns.forget(),
                    _ => {
                        if let Some(known) = turns.ends(|_| false) {
                            prop_assert!(given.contains(&known.request));
                            prop_assert!(known.dealings.iter().all(|one| dealings.contains(one)));
                        }
                    }
                }
                match sort {
                    0 | 3 => dealings.push(at_ns),
                    1 => given.push(number),
                    _ => {}
                }
                prop_assert!(turns.held() <= 5 * (MOST_DEALINGS + 3));
            }
        }
    }
}
