//! What a task has in hand: for whose request it asks others, or hands work on.
//!
//! A task that deals with one client at a time asks for that one. An event loop takes several requests and answers before it
//! goes on with any, so what it touched last does not tell for whom it asks next. Where one alone can be meant it is told,
//! else that it is one of several.

/// The owner of what was asked for one of several requests: it is not known for which.
pub(crate) const SEVERAL: u32 = u32::MAX;

/// Requests that are told apart; of a loop that has more in hand, what it asks is for one of several.
const MOST: usize = 64;

/// How a task deals with requests.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// One after the other, as far as is known.
    #[default]
    InTurn,
    /// It was seen to answer one after it had taken the next: each that it takes it goes on with at once.
    Loop,
    /// It was seen to answer another one before it went on with what it had taken.
    Defers,
}

/// Requests by their client's connection.
#[derive(Debug, Default)]
pub(crate) struct InHand {
    way: Way,
    /// Brought by their client, and not answered.
    open: Vec<u32>,
    /// Brought since the task last waited for readiness, by their client or by an answer, and not gone on with.
    fresh: Vec<u32>,
    /// Brought by their client, and neither answered nor asked for.
    untouched: Vec<u32>,
    /// More were brought than are told apart, and what is left of these is not known until none waits.
    is_beyond: bool,
    /// To this one the task gave last, and nothing was brought since.
    given: u32,
    /// What it asked last: the request that it was at, and the socket; nothing was brought or given since.
    asked: Option<(u32, u32)>,
}

impl InHand {
    /// A client's request is taken.
    pub(crate) fn takes(&mut self, request: u32) {
        self.hears(request);
        add(&mut self.open, request);
        self.is_beyond |= self.untouched.len() >= MOST;
        add(&mut self.untouched, request);
    }

    /// An answer for a request is taken, or another thread brings it back.
    pub(crate) fn hears(&mut self, request: u32) {
        (self.given, self.asked) = (0, None);
        if request != 0 && request != SEVERAL {
            add(&mut self.fresh, request);
        }
    }

    /// A piece of a response is given. Whether the task is a loop where another request waits of which nothing was asked yet:
    /// then what it asked just before may have been for that one, which got a connection from this one.
    pub(crate) fn gives(&mut self, request: u32) -> bool {
        if let Some(place) = self.open.iter().position(|one| *one == request) {
            self.open.remove(place);
            if place < self.open.len() && self.way == Way::InTurn {
                self.way = Way::Loop;
            }
        }
        self.remove(request);
        (self.given, self.asked) = (request, None);
        self.way != Way::InTurn && !self.untouched.is_empty()
    }

    /// Whether a request was taken from its client, and not answered.
    pub(crate) fn has(&self, request: u32) -> bool {
        request != 0 && self.open.contains(&request)
    }

    /// The task waits until anything is ready: it has gone on with all that it could.
    pub(crate) fn rests(&mut self) {
        self.fresh.clear();
        self.asked = None;
    }

    /// What was known is over.
    pub(crate) fn forget(&mut self) {
        *self = Self { way: self.way, ..Self::default() };
    }

    /// For whose request a task hands work to another thread that was last `at` this one's.
    pub(crate) fn hands_out(&mut self, at: u32) -> u32 {
        // It goes on with an answer, and it is not known whose that is.
        if at == SEVERAL {
            return SEVERAL;
        }
        let answered = at != 0 && self.given == at;
        let owner = match (self.way, self.fresh.as_slice()) {
            (Way::InTurn, _) | (_, []) => at,
            // It has answered that one, and goes on with another.
            (_, [only]) if answered => {
                self.way = Way::Defers;
                *only
            }
            (Way::Loop, _) => at,
            (Way::Defers, [only]) => *only,
            (Way::Defers, _) => SEVERAL,
        };
        self.remove(owner);
        owner
    }

    /// For whose request a task asks over a socket that was last `at` this one's. Its next request may have come together
    /// with the one that it has answered, so an answer tells nothing of a loop that is not known to defer. One that asks
    /// twice, over two sockets, while another request waits of which nothing was asked, has taken both before it went on
    /// with the first of them, as loops do that call what they have in a row (asyncio).
    pub(crate) fn asks(&mut self, at: u32, socket: u32) -> u32 {
        let waits = |request: &u32| *request != at && self.untouched.contains(request);
        if self.asked.is_some_and(|(by, over)| by == at && over != socket) && self.fresh.iter().any(waits) {
            // What it asked before may have been for that one.
            self.way = Way::Defers;
            add(&mut self.fresh, at);
        }
        self.asked = Some((at, socket));
        let owner = match self.way {
            Way::Defers => self.one_of_all(at),
            Way::InTurn | Way::Loop => at,
        };
        self.remove(owner);
        owner
    }

    /// It asks for a request over a connection that was made for it.
    pub(crate) fn asks_over_its_own(&mut self, request: u32) {
        self.asked = None;
        self.remove(request);
    }

    /// The one for which a loop asks that defers, if no other can be meant: those that were brought since it rested, and those
    /// that wait, maybe for the connection over which it asks. One that is told as one of several stays among them until it is
    /// answered, for it may not have been the one.
    fn one_of_all(&self, at: u32) -> u32 {
        let waits = self.untouched.iter().filter(|one| !self.fresh.contains(one));
        let mut all = self.fresh.iter().chain(waits);
        match (all.next(), all.next()) {
            _ if at == SEVERAL || self.is_beyond => SEVERAL,
            (None, _) => at,
            (Some(only), None) => *only,
            (Some(_), Some(_)) => SEVERAL,
        }
    }

    fn remove(&mut self, request: u32) {
        self.fresh.retain(|one| *one != request);
        self.untouched.retain(|one| *one != request);
        self.is_beyond &= !self.untouched.is_empty();
    }
}

fn add(to: &mut Vec<u32>, request: u32) {
    if to.contains(&request) {
        return;
    }
    // The oldest is a client's that was never answered.
    if to.len() >= MOST {
        to.remove(0);
    }
    to.push(request);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn a_loop() -> InHand {
        let mut hand = InHand::default();
        hand.takes(1);
        hand.takes(2);
        hand.gives(1);
        hand.rests();
        hand
    }

    #[test]
    fn who_was_not_seen_to_be_a_loop_asks_for_what_it_is_at() {
        let mut hand = InHand::default();
        hand.takes(7);
        hand.takes(8);
        assert_eq!(hand.asks(8, 90), 8);
    }

    #[test]
    fn one_at_a_time_asks_for_itself() {
        let mut hand = a_loop();
        hand.takes(7);
        assert_eq!([hand.asks(7, 90), hand.asks(7, 90)], [7, 7]);
        // A piece of the response goes out before the next question.
        hand.gives(7);
        assert_eq!(hand.asks(7, 90), 7);
        hand.takes(8);
        assert_eq!(hand.asks(8, 90), 8);
    }

    #[test]
    fn a_loop_that_does_not_defer_asks_for_what_it_took_last() {
        let mut hand = a_loop();
        hand.takes(7);
        hand.takes(8);
        assert_eq!([hand.asks(8, 90), hand.asks(8, 90)], [8, 8]);
    }

    /// A loop takes 7, answers 8 whose pool was done, and then goes on with 7.
    #[test]
    fn a_loop_goes_on_with_what_it_took_before() {
        let mut hand = a_loop();
        hand.takes(7);
        hand.gives(8);
        // Over a socket it may ask for a request that came together with the one that it has answered.
        assert_eq!(hand.asks(8, 90), 8);
        assert_eq!(hand.hands_out(8), 7);
    }

    /// As asyncio does it: 5 and 6 get answers, 5 asks again, 6 is answered, and then one that waited asks over 6's connection.
    #[test]
    fn one_that_waited_for_a_connection_is_one_of_several() {
        let mut hand = InHand { way: Way::Defers, ..InHand::default() };
        (5..=9).for_each(|request| hand.takes(request));
        hand.rests();
        assert_eq!([hand.asks(5, 90), hand.asks(6, 91)], [SEVERAL; 2]);
        hand.rests();
        hand.hears(5);
        hand.hears(6);
        assert_eq!(hand.asks(6, 90), SEVERAL);
        hand.gives(6);
        assert_eq!(hand.asks(6, 91), SEVERAL);
        // At the end one is left, and nothing else can be meant.
        for request in [5, 7, 8] {
            hand.gives(request);
        }
        assert_eq!(hand.asks(8, 90), 9);
    }

    /// 5 gets a connection of its own, so that it does not wait for another one's when 7 asks.
    #[test]
    fn one_with_a_connection_of_its_own_does_not_wait() {
        let mut hand = InHand { way: Way::Defers, ..InHand::default() };
        hand.takes(5);
        hand.asks_over_its_own(5);
        hand.takes(7);
        assert_eq!(hand.asks(7, 91), 7);
    }

    #[test]
    fn of_more_than_are_told_apart_none_is_told() {
        let mut hand = InHand { way: Way::Defers, ..InHand::default() };
        (1..=MOST as u32 + 2).for_each(|request| hand.takes(request));
        for request in 3..MOST as u32 + 2 {
            hand.gives(request);
        }
        assert_eq!(hand.asks(MOST as u32 + 2, 90), SEVERAL, "1 and 2 wait as well");
    }

    #[test]
    fn a_loop_that_took_two_asks_for_one_of_them() {
        let mut hand = a_loop();
        hand.takes(3);
        hand.gives(2);
        assert_eq!(hand.hands_out(2), 3);
        hand.takes(7);
        hand.takes(8);
        assert_eq!([hand.asks(8, 90), hand.asks(8, 90)], [SEVERAL; 2]);
        // What it hears next may be 7's, and 8 may still wait: it is known when 8 is answered.
        hand.rests();
        hand.hears(7);
        assert_eq!(hand.asks(7, 90), SEVERAL);
        hand.gives(8);
        assert_eq!(hand.asks(7, 90), 7);
    }

    /// 7 waits for a connection, which 6 gives to it before it is answered.
    #[test]
    fn a_loop_where_others_wait_may_have_asked_for_them() {
        let mut hand = a_loop();
        hand.gives(2);
        hand.takes(6);
        assert_eq!(hand.asks(6, 90), 6);
        hand.takes(7);
        hand.rests();
        hand.hears(6);
        assert!(hand.gives(6));
        assert!(!hand.gives(7));
    }

    /// It takes 7 and 8, and asks for 7 and then for 8, each over a connection of its own.
    #[test]
    fn a_loop_that_asks_twice_for_two_has_taken_both_first() {
        for (socket, told) in [(91, SEVERAL), (90, 8)] {
            let mut hand = InHand::default();
            hand.takes(7);
            hand.takes(8);
            assert_eq!(hand.asks(8, 90), 8, "it is not known yet");
            assert_eq!(hand.asks(8, socket), told);
            // A request by itself is told.
            hand.rests();
            hand.gives(7);
            hand.takes(9);
            assert_eq!(hand.asks(9, 92), 9);
        }
        // Nothing else waits: it asks two others for the same request.
        let mut hand = InHand::default();
        hand.takes(7);
        assert_eq!([hand.asks(7, 90), hand.asks(7, 91)], [7, 7]);
    }

    proptest! {
        /// It is told of no request but those that were brought, or that the task was at; and no more is kept than the bound.
        #[test]
        fn only_what_was_brought_is_told(steps in proptest::collection::vec((0u8..5, 1u32..200), 0..300)) {
            let mut hand = a_loop();
            let mut brought = std::collections::BTreeSet::new();
            for (sort, request) in steps {
                match sort {
                    0 => hand.takes(request),
                    1 => hand.hears(request),
                    2 => drop(hand.gives(request)),
                    3 => hand.rests(),
                    _ => {
                        let owner = if request % 2 == 0 { hand.asks(request, 90) } else { hand.hands_out(request) };
                        prop_assert!(owner == SEVERAL || owner == request || brought.contains(&owner));
                    }
                }
                if sort < 2 {
                    brought.insert(request);
                }
                let lists = [&hand.fresh, &hand.untouched, &hand.open];
                prop_assert!(lists.into_iter().all(|list| list.len() <= MOST));
            }
        }
    }
}
