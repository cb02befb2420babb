//! What a loop's statistics count, what they hand out, and their bounds.

use super::*;
use weir_server::LeaseClock;

fn begin(loop_stats: &mut LoopStats, path: &str, is_refused: bool) -> Ticket {
    let (place, _) = loop_stats.place(path, 0, 1, || Some(0));
    loop_stats.came(1, 1, 1);
    loop_stats.begin(place, is_refused)
}

#[test]
fn a_client_is_told_once_and_a_place_that_is_known_is_that_of_its_path() {
    let mut loop_stats = LoopStats::default();
    let mut taken = Taken::default();
    for _ in 0..2 {
        for number in 0..1000 {
            assert_eq!(loop_stats.came(number % 10, number % 5, 1), Some((number % 10) as u32));
        }
        let ticket = begin(&mut loop_stats, "/a", false);
        assert!(!loop_stats.again(1, (loop_stats.period() + 1, 1), None), "of another period");
        assert!(!loop_stats.again(1, (loop_stats.period(), 10), None), "of no client");
        assert!(loop_stats.again(1, (loop_stats.period(), 1), None));
        (0..2).for_each(|_| assert!(!loop_stats.end(1, ticket, false)));
        loop_stats.take(&mut taken, false);
        let seen = taken.seen.iter().map(|seen| (seen.client, seen.network, seen.requests));
        let mut clients: Vec<_> = seen.collect();
        clients.sort_unstable();
        let expected = (0..10).map(|client| (client, client % 5, if client == 1 { 102 } else { 100 }));
        assert_eq!(clients, expected.collect::<Vec<_>>());
    }
    let mut loop_stats = LoopStats::default();
    let never = || -> Option<usize> { panic!("it is known") };
    let (one, other) = (loop_stats.place("/a", 0, 1, || Some(3)).0, loop_stats.place("/b", 0, 1, || None).0);
    let known = [loop_stats.known(one), loop_stats.known(other)];
    assert_eq!(loop_stats.place("/a", known[0], 1, never), (one, Some(3)));
    assert_eq!(loop_stats.place("/b", known[1], 1, never), (other, None));
    assert_eq!(loop_stats.place("/a", known[0], 2, || Some(4)), (one, Some(4)), "of another policy");
    assert_eq!(loop_stats.known(NOWHERE), 0);
}

#[test]
fn what_is_under_way_comes_back_to_zero_in_any_order() {
    let mut loop_stats = LoopStats::default();
    let (first, refused) = (begin(&mut loop_stats, "/a", false), begin(&mut loop_stats, "/b", true));
    let first = loop_stats.is_session(1, first, Ruled::default());
    let second = begin(&mut loop_stats, "/b", false);
    let second = loop_stats.is_session(1, second, Ruled::default());
    let under_way = |loop_stats: &LoopStats| loop_stats.atoms.iter().map(|atom| atom.under_way).collect::<Vec<_>>();
    assert_eq!(under_way(&loop_stats), [1, 1]);
    assert!(!loop_stats.end(1, refused, true), "what was refused has not failed, and is no session");
    assert!(!loop_stats.end(1, second, true) && loop_stats.end(1, first, false), "the last one ends the session");
    assert!(!loop_stats.end(1, first, false), "one end too many has no session");
    assert_eq!(under_way(&loop_stats), [0, 0]);
    let mut taken = Taken::default();
    loop_stats.take(&mut taken, false);
    let tally = |requests, refused, failed| Tally { requests, refused, failed, waited_ns: 0 };
    assert_eq!(taken.tallies, [(0, tally(1, 0, 0), 0), (1, tally(2, 1, 1), 0)]);
    loop_stats.take(&mut taken, false);
    assert!(taken.tallies.is_empty() && loop_stats.live.is_empty());
}

#[test]
fn what_was_decided_before_is_not_obeyed_after_what_was_decided_later() {
    let mut loop_stats = LoopStats::default();
    let ticket = begin(&mut loop_stats, "/a", false);
    loop_stats.is_session(1, ticket, Ruled { looks: Some(0), decided: 4 });
    let [small, half, full]: [Arc<str>; 3] = ["small", "half", "full"].map(Arc::from);
    let wanted =
        |loop_stats: &mut LoopStats, now_ms| loop_stats.looked(1, now_ms, None).map(|variant| variant.to_string());
    assert!(loop_stats.want(1, &small, 4), "it is here");
    assert_eq!(wanted(&mut loop_stats, 0), None, "that was decided for the session before it");
    assert!(loop_stats.want(1, &half, 5));
    assert_eq!(wanted(&mut loop_stats, 100).as_deref(), Some("half"));
    // A tick decided, and the connection looked again before the decision arrived.
    assert_eq!(loop_stats.looked(1, 200, Some((Arc::clone(&full), 7))).as_deref(), Some("full"));
    assert!(loop_stats.want(1, &small, 6));
    assert_eq!(wanted(&mut loop_stats, 300), None);
    assert_eq!((loop_stats.looks(1, 389), loop_stats.looks(1, 390), loop_stats.looks(2, 390)), (None, Some(0), None));
    loop_stats.forget_sessions();
    assert_eq!(loop_stats.looks(1, 390), None, "the rules do not know it");
}

#[test]
fn a_session_goes_on_until_the_rules_are_told_of_a_tick() {
    let (mut loop_stats, mut taken) = (LoopStats::default(), Taken::default());
    let link = Link { bandwidth_bps: Some(1e6), rtt_s: None };
    let beginning = Beginning { now: (2, 1), place: 0, link };
    let session = |loop_stats: &mut LoopStats, connection| {
        let ticket = begin(loop_stats, "/a", false);
        let ticket = loop_stats.is_session(connection, ticket, Ruled::default());
        loop_stats.may_go_on(connection, beginning);
        ticket
    };
    let first = session(&mut loop_stats, 1);
    assert!(!loop_stats.end(1, first, false), "it is kept");
    for other in [
        Beginning { now: (4, 1), ..beginning },
        Beginning { place: 1, ..beginning },
        Beginning { link: Link::default(), ..beginning },
    ] {
        assert_eq!(loop_stats.go_on(1, other, Ticket::of(0, false), None), None);
    }
    assert_eq!(loop_stats.go_on(2, beginning, Ticket::of(0, false), None), None, "another connection");
    for _ in 0..3 {
        let ticket = begin(&mut loop_stats, "/a", false);
        let ticket = loop_stats.go_on(1, beginning, ticket, Some(link)).expect("it is like the first one");
        assert!(!loop_stats.end(1, ticket, false));
    }
    let under_way = session(&mut loop_stats, 2);
    loop_stats.take(&mut taken, false);
    assert_eq!((&taken.ended[..], loop_stats.live.len()), (&[1][..], 1), "only who has a response stays");
    let mut passed = PassedSessions::default();
    loop_stats.take_passed(&mut passed);
    assert_eq!(passed.drain().map(|(_, _, sessions)| sessions).collect::<Vec<_>>(), [3]);
    let between = session(&mut loop_stats, 3);
    assert!(loop_stats.end(3, between, false), "the rules are about to look");
    loop_stats.ticked();
    assert!(loop_stats.end(2, under_way, false), "it is of the tick before");
    // An idle session takes no room from a live one, and other rules end it.
    let kept: Vec<_> =
        (10..10 + IDLE_MAX as u64 + 1).map(|number| (number, session(&mut loop_stats, number))).collect();
    let told = kept.into_iter().filter(|(number, ticket)| loop_stats.end(*number, *ticket, false)).count();
    assert_eq!((told, loop_stats.live.len()), (1, IDLE_MAX));
    loop_stats.forget_sessions();
    assert!(loop_stats.live.is_empty() && loop_stats.ended.is_empty());
    let kept = session(&mut loop_stats, 5);
    loop_stats.end(5, kept, false);
    (10..10 + LIVE_MAX as u64).for_each(|number| {
        assert!(loop_stats.has_room(number));
        session(&mut loop_stats, number);
    });
    assert_eq!((&loop_stats.ended[..], loop_stats.dropped().connections), (&[5][..], 0));
}

#[test]
fn everything_has_a_bound_and_counts_what_it_drops() {
    let mut loop_stats = LoopStats::default();
    let mut tickets = Vec::new();
    for number in 0..70_000_u64 {
        let (place, _) = loop_stats.place(&format!("/{number}"), 0, 1, || Some(0));
        assert_eq!(loop_stats.came(number, number, 1).is_some(), number < SEEN_MAX as u64);
        let ticket = loop_stats.begin(place, false);
        tickets.push(if loop_stats.has_room(number) {
            loop_stats.is_session(number, ticket, Ruled::default())
        } else {
            ticket
        });
    }
    let dropped = loop_stats.dropped();
    assert_eq!((loop_stats.atoms.len(), loop_stats.live.len(), loop_stats.seen.len()), (PATHS_MAX, LIVE_MAX, SEEN_MAX));
    assert_eq!((dropped.paths, dropped.connections), (70_000 - PATHS_MAX as u64, 70_000 - LIVE_MAX as u64));
    assert_eq!(dropped.clients, 70_000 - SEEN_MAX as u64);
    let sessions =
        tickets.iter().enumerate().filter(|(number, ticket)| loop_stats.end(*number as u64, **ticket, false));
    assert_eq!(sessions.count(), LIVE_MAX);
    assert!(loop_stats.live.is_empty() && loop_stats.atoms.iter().all(|atom| atom.under_way == 0));
}

#[test]
fn what_is_answered_by_leases_counts_as_if_it_had_been_asked() {
    let (mut loop_stats, mut taken, mut passed) = (LoopStats::default(), Taken::default(), PassedSessions::default());
    let clock = Arc::new(LeaseClock::default());
    let link = Link { bandwidth_bps: Some(1e6), rtt_s: None };
    let ticket = begin(&mut loop_stats, "/a", false);
    let kind = loop_stats.passed(ticket.place(), link);
    let known = loop_stats.known(ticket.place());
    let lease = |at| Arc::new(Lease::new(&clock, at, true));
    let first = lease(0);
    assert!(!loop_stats.lend(&first, known, 1, kind), "a client that was not seen");
    assert!(loop_stats.lend(&first, known, 0, kind));
    assert!((0..3).all(|_| first.begin()));
    first.end(true);
    loop_stats.take(&mut taken, false);
    let tally = |requests, failed| Tally { requests, refused: 0, failed, waited_ns: 0 };
    assert_eq!(taken.tallies, [(0, tally(4, 1), 3)]);
    assert_eq!(taken.seen.iter().map(|seen| (seen.client, seen.requests)).collect::<Vec<_>>(), [(1, 4)]);
    // Until the rules are told of a tick.
    assert!(first.begin());
    clock.move_on();
    loop_stats.take_passed(&mut passed);
    assert!(!first.begin());
    let sessions = passed.drain().map(|(path, of, sessions)| (path.to_string(), of, sessions)).collect::<Vec<_>>();
    assert_eq!(sessions, [("/a".to_owned(), link, 5)]);
    first.end(false);
    loop_stats.end(1, ticket, false);
    loop_stats.take(&mut taken, false);
    assert_eq!(taken.tallies, [(0, tally(1, 0), 2)]);
    assert_eq!(taken.seen.iter().map(|seen| seen.requests).collect::<Vec<_>>(), [1]);
    (0..2).for_each(|_| first.end(false));
    // What the loop has given back is forgotten behind its last count.
    drop(first);
    loop_stats.take(&mut taken, false);
    assert_eq!(taken.tallies, [(0, tally(0, 0), 0)]);
    loop_stats.take(&mut taken, false);
    assert!(taken.tallies.is_empty());
    // There is a bound, and what has ended makes room.
    begin(&mut loop_stats, "/a", false);
    let leases: Vec<_> = (0..1024).map(|_| lease(1)).collect();
    assert!(leases.iter().all(|lease| loop_stats.lend(lease, known, 0, None)));
    leases[7].begin();
    assert!((0..300).all(|_| !loop_stats.lend(&lease(1), known, 0, None)));
    clock.move_on();
    loop_stats.take(&mut taken, false);
    begin(&mut loop_stats, "/a", false);
    let let_now = (0..2000).map(|_| lease(2)).filter(|one| loop_stats.lend(one, known, 0, None)).collect::<Vec<_>>();
    assert_eq!(let_now.len(), 1023, "one has a response under way");
    leases[7].end(false);
    loop_stats.take(&mut taken, false);
    assert_eq!(taken.tallies, [(0, tally(1, 0), 2)], "two were never over");
}

#[test]
fn quiet_paths_give_their_places_to_others_and_those_without_one_are_counted() {
    let mut loop_stats = LoopStats { paths_max: 1000, ..LoopStats::default() };
    let mut taken = Taken::default();
    let tick = |loop_stats: &mut LoopStats, taken: &mut Taken| loop_stats.take(taken, false);
    let held = begin(&mut loop_stats, "/held", false);
    for number in 1..1000 {
        let ticket = begin(&mut loop_stats, &format!("/{number}"), false);
        loop_stats.end(1, ticket, false);
    }
    let of_first = loop_stats.known(1);
    tick(&mut loop_stats, &mut taken);
    assert_eq!((taken.paths.len(), taken.tallies.len()), (1000, 1000));
    // There is no room for another one while these may be asked for still, but its requests are counted.
    for _ in 0..50 {
        let ticket = begin(&mut loop_stats, "/late", false);
        assert_eq!(ticket.place(), NOWHERE);
    }
    begin(&mut loop_stats, "/later", false);
    tick(&mut loop_stats, &mut taken);
    assert_eq!(taken.placeless, [(Box::from("/late"), 50), (Box::from("/later"), 1)]);
    assert_eq!(loop_stats.dropped().paths, 51);
    for _ in 0..=QUIET_TICKS {
        let ticket = begin(&mut loop_stats, "/7", false);
        loop_stats.end(1, ticket, false);
        tick(&mut loop_stats, &mut taken);
    }
    assert_eq!((loop_stats.free.len(), loop_stats.places.len()), (FREED_MAX, 1000 - FREED_MAX), "not all at once");
    let late = begin(&mut loop_stats, "/late", false);
    assert_ne!(late.place(), NOWHERE);
    tick(&mut loop_stats, &mut taken);
    assert_eq!(
        taken.paths.iter().map(|(place, path)| (*place, &**path)).collect::<Vec<_>>(),
        [(late.place(), "/late")]
    );
    assert!(taken.placeless.is_empty());
    // In the end the others are those that are asked for, and who is under way.
    for _ in 0..20 {
        let ticket = begin(&mut loop_stats, "/7", false);
        loop_stats.end(1, ticket, false);
        loop_stats.take(&mut taken, true);
    }
    let mut left: Vec<_> = loop_stats.places.keys().map(ToString::to_string).collect();
    left.sort();
    assert_eq!(left, ["/7", "/held", "/late"]);
    // What was known of a place that is another path's now is known no more.
    for number in 0..997 {
        begin(&mut loop_stats, &format!("/new/{number}"), false);
    }
    let (place, pattern) = loop_stats.place("/1", of_first, 1, || Some(9));
    assert_eq!((place, pattern), (NOWHERE, Some(9)));
    assert!(!loop_stats.end(1, held, false) && loop_stats.atoms[held.place() as usize].under_way == 0);
}
