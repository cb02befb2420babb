//! What a book counts, what it hands out, and its bounds.

use super::*;
use weir_server::LeaseClock;

fn begin(ledger: &mut Ledger, path: &str, is_refused: bool) -> Ticket {
    let (place, _) = ledger.place(path, 0, 1, || Some(0));
    ledger.came(1, 1, 1);
    ledger.begin(place, is_refused)
}

#[test]
fn a_client_is_told_once_and_a_place_that_is_known_is_that_of_its_path() {
    let mut ledger = Ledger::default();
    let mut taken = Taken::default();
    for _ in 0..2 {
        for number in 0..1000 {
            assert_eq!(ledger.came(number % 10, number % 5, 1), Some((number % 10) as u32));
        }
        let ticket = begin(&mut ledger, "/a", false);
        assert!(!ledger.again(1, (ledger.period() + 1, 1), None), "of another period");
        assert!(!ledger.again(1, (ledger.period(), 10), None), "of no client");
        assert!(ledger.again(1, (ledger.period(), 1), None));
        (0..2).for_each(|_| assert!(!ledger.end(1, ticket, false)));
        ledger.take(&mut taken, false);
        let seen = taken.seen.iter().map(|seen| (seen.client, seen.network, seen.requests));
        let mut clients: Vec<_> = seen.collect();
        clients.sort_unstable();
        let expected = (0..10).map(|client| (client, client % 5, if client == 1 { 102 } else { 100 }));
        assert_eq!(clients, expected.collect::<Vec<_>>());
    }
    let mut ledger = Ledger::default();
    let never = || -> Option<usize> { panic!("it is known") };
    let (one, other) = (ledger.place("/a", 0, 1, || Some(3)).0, ledger.place("/b", 0, 1, || None).0);
    let known = [ledger.known(one), ledger.known(other)];
    assert_eq!(ledger.place("/a", known[0], 1, never), (one, Some(3)));
    assert_eq!(ledger.place("/b", known[1], 1, never), (other, None));
    assert_eq!(ledger.place("/a", known[0], 2, || Some(4)), (one, Some(4)), "of another policy");
    assert_eq!(ledger.known(NOWHERE), 0);
}

#[test]
fn what_is_under_way_comes_back_to_zero_in_any_order() {
    let mut ledger = Ledger::default();
    let (first, refused) = (begin(&mut ledger, "/a", false), begin(&mut ledger, "/b", true));
    let first = ledger.is_session(1, first, Ruled::default());
    let second = begin(&mut ledger, "/b", false);
    let second = ledger.is_session(1, second, Ruled::default());
    let under_way = |ledger: &Ledger| ledger.atoms.iter().map(|atom| atom.under_way).collect::<Vec<_>>();
    assert_eq!(under_way(&ledger), [1, 1]);
    assert!(!ledger.end(1, refused, true), "what was refused has not failed, and is no session");
    assert!(!ledger.end(1, second, true) && ledger.end(1, first, false), "the last one ends the session");
    assert!(!ledger.end(1, first, false), "one end too many has no session");
    assert_eq!(under_way(&ledger), [0, 0]);
    let mut taken = Taken::default();
    ledger.take(&mut taken, false);
    let tally = |requests, refused, failed| Tally { requests, refused, failed, waited_ns: 0 };
    assert_eq!(taken.tallies, [(0, tally(1, 0, 0), 0), (1, tally(2, 1, 1), 0)]);
    ledger.take(&mut taken, false);
    assert!(taken.tallies.is_empty() && ledger.live.is_empty());
}

#[test]
fn what_was_decided_before_is_not_obeyed_after_what_was_decided_later() {
    let mut ledger = Ledger::default();
    let ticket = begin(&mut ledger, "/a", false);
    ledger.is_session(1, ticket, Ruled { looks: Some(0), decided: 4 });
    let [small, half, full]: [Arc<str>; 3] = ["small", "half", "full"].map(Arc::from);
    let wanted = |ledger: &mut Ledger, now_ms| ledger.looked(1, now_ms, None).map(|variant| variant.to_string());
    assert!(ledger.want(1, &small, 4), "it is here");
    assert_eq!(wanted(&mut ledger, 0), None, "that was decided for the session before it");
    assert!(ledger.want(1, &half, 5));
    assert_eq!(wanted(&mut ledger, 100).as_deref(), Some("half"));
    // A tick decided, and the connection looked again before the decision arrived.
    assert_eq!(ledger.looked(1, 200, Some((Arc::clone(&full), 7))).as_deref(), Some("full"));
    assert!(ledger.want(1, &small, 6));
    assert_eq!(wanted(&mut ledger, 300), None);
    assert_eq!((ledger.looks(1, 389), ledger.looks(1, 390), ledger.looks(2, 390)), (None, Some(0), None));
    ledger.forget_sessions();
    assert_eq!(ledger.looks(1, 390), None, "the rules do not know it");
}

#[test]
fn a_session_goes_on_until_the_rules_are_told_of_a_tick() {
    let (mut ledger, mut taken) = (Ledger::default(), Taken::default());
    let link = Link { bandwidth_bps: Some(1e6), rtt_s: None };
    let beginning = Beginning { now: (2, 1), place: 0, link };
    let session = |ledger: &mut Ledger, connection| {
        let ticket = begin(ledger, "/a", false);
        let ticket = ledger.is_session(connection, ticket, Ruled::default());
        ledger.may_go_on(connection, beginning);
        ticket
    };
    let first = session(&mut ledger, 1);
    assert!(!ledger.end(1, first, false), "it is kept");
    for other in [
        Beginning { now: (4, 1), ..beginning },
        Beginning { place: 1, ..beginning },
        Beginning { link: Link::default(), ..beginning },
    ] {
        assert_eq!(ledger.go_on(1, other, Ticket::of(0, false), None), None);
    }
    assert_eq!(ledger.go_on(2, beginning, Ticket::of(0, false), None), None, "another connection");
    for _ in 0..3 {
        let ticket = begin(&mut ledger, "/a", false);
        let ticket = ledger.go_on(1, beginning, ticket, Some(link)).expect("it is like the first one");
        assert!(!ledger.end(1, ticket, false));
    }
    let under_way = session(&mut ledger, 2);
    ledger.take(&mut taken, false);
    assert_eq!((&taken.ended[..], ledger.live.len()), (&[1][..], 1), "only who has a response stays");
    let mut passed = PassedSessions::default();
    ledger.take_passed(&mut passed);
    assert_eq!(passed.drain().map(|(_, _, sessions)| sessions).collect::<Vec<_>>(), [3]);
    let between = session(&mut ledger, 3);
    assert!(ledger.end(3, between, false), "the rules are about to look");
    ledger.ticked();
    assert!(ledger.end(2, under_way, false), "it is of the tick before");
    // An idle session takes no room from a live one, and other rules end it.
    let kept: Vec<_> = (10..10 + IDLE_MAX as u64 + 1).map(|number| (number, session(&mut ledger, number))).collect();
    let told = kept.into_iter().filter(|(number, ticket)| ledger.end(*number, *ticket, false)).count();
    assert_eq!((told, ledger.live.len()), (1, IDLE_MAX));
    ledger.forget_sessions();
    assert!(ledger.live.is_empty() && ledger.ended.is_empty());
    let kept = session(&mut ledger, 5);
    ledger.end(5, kept, false);
    (10..10 + LIVE_MAX as u64).for_each(|number| {
        assert!(ledger.has_room(number));
        session(&mut ledger, number);
    });
    assert_eq!((&ledger.ended[..], ledger.dropped().connections), (&[5][..], 0));
}

#[test]
fn everything_has_a_bound_and_counts_what_it_drops() {
    let mut ledger = Ledger::default();
    let mut tickets = Vec::new();
    for number in 0..70_000_u64 {
        let (place, _) = ledger.place(&format!("/{number}"), 0, 1, || Some(0));
        assert_eq!(ledger.came(number, number, 1).is_some(), number < SEEN_MAX as u64);
        let ticket = ledger.begin(place, false);
        tickets.push(if ledger.has_room(number) {
            ledger.is_session(number, ticket, Ruled::default())
        } else {
            ticket
        });
    }
    let dropped = ledger.dropped();
    assert_eq!((ledger.atoms.len(), ledger.live.len(), ledger.seen.len()), (PATHS_MAX, LIVE_MAX, SEEN_MAX));
    assert_eq!((dropped.paths, dropped.connections), (70_000 - PATHS_MAX as u64, 70_000 - LIVE_MAX as u64));
    assert_eq!(dropped.clients, 70_000 - SEEN_MAX as u64);
    let sessions = tickets.iter().enumerate().filter(|(number, ticket)| ledger.end(*number as u64, **ticket, false));
    assert_eq!(sessions.count(), LIVE_MAX);
    assert!(ledger.live.is_empty() && ledger.atoms.iter().all(|atom| atom.under_way == 0));
}

#[test]
fn what_is_answered_by_leases_counts_as_if_it_had_been_asked() {
    let (mut ledger, mut taken, mut passed) = (Ledger::default(), Taken::default(), PassedSessions::default());
    let clock = Arc::new(LeaseClock::default());
    let link = Link { bandwidth_bps: Some(1e6), rtt_s: None };
    let ticket = begin(&mut ledger, "/a", false);
    let kind = ledger.passed(ticket.place(), link);
    let known = ledger.known(ticket.place());
    let lease = |at| Arc::new(Lease::new(&clock, at, true));
    let first = lease(0);
    assert!(!ledger.lend(&first, known, 1, kind), "a client that was not seen");
    assert!(ledger.lend(&first, known, 0, kind));
    assert!((0..3).all(|_| first.begin()));
    first.end(true);
    ledger.take(&mut taken, false);
    let tally = |requests, failed| Tally { requests, refused: 0, failed, waited_ns: 0 };
    assert_eq!(taken.tallies, [(0, tally(4, 1), 3)]);
    assert_eq!(taken.seen.iter().map(|seen| (seen.client, seen.requests)).collect::<Vec<_>>(), [(1, 4)]);
    // Until the rules are told of a tick.
    assert!(first.begin());
    clock.move_on();
    ledger.take_passed(&mut passed);
    assert!(!first.begin());
    let sessions = passed.drain().map(|(path, of, sessions)| (path.to_string(), of, sessions)).collect::<Vec<_>>();
    assert_eq!(sessions, [("/a".to_owned(), link, 5)]);
    first.end(false);
    ledger.end(1, ticket, false);
    ledger.take(&mut taken, false);
    assert_eq!(taken.tallies, [(0, tally(1, 0), 2)]);
    assert_eq!(taken.seen.iter().map(|seen| seen.requests).collect::<Vec<_>>(), [1]);
    (0..2).for_each(|_| first.end(false));
    // What the loop has given back is forgotten behind its last count.
    drop(first);
    ledger.take(&mut taken, false);
    assert_eq!(taken.tallies, [(0, tally(0, 0), 0)]);
    ledger.take(&mut taken, false);
    assert!(taken.tallies.is_empty());
    // There is a bound, and what has ended makes room.
    begin(&mut ledger, "/a", false);
    let leases: Vec<_> = (0..1024).map(|_| lease(1)).collect();
    assert!(leases.iter().all(|lease| ledger.lend(lease, known, 0, None)));
    leases[7].begin();
    assert!((0..300).all(|_| !ledger.lend(&lease(1), known, 0, None)));
    clock.move_on();
    ledger.take(&mut taken, false);
    begin(&mut ledger, "/a", false);
    let let_now = (0..2000).map(|_| lease(2)).filter(|one| ledger.lend(one, known, 0, None)).collect::<Vec<_>>();
    assert_eq!(let_now.len(), 1023, "one has a response under way");
    leases[7].end(false);
    ledger.take(&mut taken, false);
    assert_eq!(taken.tallies, [(0, tally(1, 0), 2)], "two were never over");
}

#[test]
fn quiet_paths_give_their_places_to_others_and_those_without_one_are_counted() {
    let mut ledger = Ledger { paths_max: 1000, ..Ledger::default() };
    let mut taken = Taken::default();
    let tick = |ledger: &mut Ledger, taken: &mut Taken| ledger.take(taken, false);
    let held = begin(&mut ledger, "/held", false);
    for number in 1..1000 {
        let ticket = begin(&mut ledger, &format!("/{number}"), false);
        ledger.end(1, ticket, false);
    }
    let of_first = ledger.known(1);
    tick(&mut ledger, &mut taken);
    assert_eq!((taken.paths.len(), taken.tallies.len()), (1000, 1000));
    // There is no room for another one while these may be asked for still, but its requests are counted.
    for _ in 0..50 {
        let ticket = begin(&mut ledger, "/late", false);
        assert_eq!(ticket.place(), NOWHERE);
    }
    begin(&mut ledger, "/later", false);
    tick(&mut ledger, &mut taken);
    assert_eq!(taken.placeless, [(Box::from("/late"), 50), (Box::from("/later"), 1)]);
    assert_eq!(ledger.dropped().paths, 51);
    for _ in 0..=QUIET_TICKS {
        let ticket = begin(&mut ledger, "/7", false);
        ledger.end(1, ticket, false);
        tick(&mut ledger, &mut taken);
    }
    assert_eq!((ledger.free.len(), ledger.places.len()), (FREED_MAX, 1000 - FREED_MAX), "not all at once");
    let late = begin(&mut ledger, "/late", false);
    assert_ne!(late.place(), NOWHERE);
    tick(&mut ledger, &mut taken);
    assert_eq!(
        taken.paths.iter().map(|(place, path)| (*place, &**path)).collect::<Vec<_>>(),
        [(late.place(), "/late")]
    );
    assert!(taken.placeless.is_empty());
    // In the end the others are those that are asked for, and who is under way.
    for _ in 0..20 {
        let ticket = begin(&mut ledger, "/7", false);
        ledger.end(1, ticket, false);
        ledger.take(&mut taken, true);
    }
    let mut left: Vec<_> = ledger.places.keys().map(ToString::to_string).collect();
    left.sort();
    assert_eq!(left, ["/7", "/held", "/late"]);
    // What was known of a place that is another path's now is known no more.
    for number in 0..997 {
        begin(&mut ledger, &format!("/new/{number}"), false);
    }
    let (place, pattern) = ledger.place("/1", of_first, 1, || Some(9));
    assert_eq!((place, pattern), (NOWHERE, Some(9)));
    assert!(!ledger.end(1, held, false) && ledger.atoms[held.place() as usize].under_way == 0);
}
