//! The parts of every request of a simulated world are what truly happened there.

use crate::world;

use weir_measure::part::Part;
use world::{Model, Plan, base_seed, join, simulate};

/// Simulates a world and compares every request with the truth, to the nanosecond.
fn check(plan: Plan) {
    let what = format!("{plan:?}");
    let (events, truths) = simulate(plan);
    let (told, statistics) = join(&events);
    assert_eq!(truths.len() as u64, statistics.requests, "{what}");
    assert_eq!(statistics.joined, statistics.requests, "{what}: {statistics:?}");
    assert_eq!((statistics.gaps, statistics.moved), (0, 0), "{what}");
    for told in &told {
        told.check();
        let same = |truth: &&world::Truth| {
            truth.connection == told.request.connection && truth.offset == told.request.request_offset
        };
        let truth = truths.iter().find(same).expect("the world knows its requests");
        let server = told.server.expect("it is joined");
        assert_eq!((server.arrived_ns, server.picked_ns, server.sent_ns), (truth.arrived, truth.picked, truth.sent));
        if told.parts() == truth.parts {
            continue;
        }
        let differing =
            Part::ALL.into_iter().filter(|part| told.parts()[*part as usize] != truth.parts[*part as usize]);
        let listed = differing.map(|part| {
            format!("{}: {} but truly {}", part.name(), told.parts()[part as usize], truth.parts[part as usize])
        });
        let listed: Vec<_> = listed.collect();
        let times = (truth.arrived, truth.picked, truth.sent);
        panic!("{what}: connection {} at {}, {times:?}: {listed:#?} {:#?}", truth.connection, truth.offset, told.steps);
    }
}

#[test]
fn any_world_is_told_to_the_nanosecond() {
    for seed in base_seed()..base_seed() + 1_500 {
        check(Plan::any(seed));
    }
}

#[test]
fn each_model_is_told_with_everything_at_once() {
    for model in [Model::Processes, Model::Threads, Model::Events] {
        for seed in base_seed()..base_seed() + 40 {
            let mut plan = Plan::any(seed);
            plan.model = model;
            (plan.hog, plan.sleeps, plan.downstream, plan.split) = (true, true, true, true);
            plan.locks = model != Model::Events;
            plan.offload = model == Model::Threads;
            check(plan);
        }
    }
}

/// What a task does for a request after its last send cannot be told from what it does for the next one. It is the one
/// thing that the definitions cannot see; the boundaries, the sums and the waits that the server's task does not end
/// itself stay exact.
#[test]
fn what_follows_the_last_send_moves_no_boundary() {
    for seed in base_seed()..base_seed() + 100 {
        let (events, truths) = simulate(Plan { tail_ns: 7_000, ..Plan::any(seed) });
        let (told, statistics) = join(&events);
        assert_eq!(statistics.joined, statistics.requests);
        for one in told {
            one.check();
            let same = |truth: &&world::Truth| {
                truth.connection == one.request.connection && truth.offset == one.request.request_offset
            };
            let truth = truths.iter().find(same).expect("the world knows its requests");
            let server = one.server.expect("it is joined");
            assert_eq!(
                (server.arrived_ns, server.picked_ns, server.sent_ns),
                (truth.arrived, truth.picked, truth.sent)
            );
            for part in [Part::Generator, Part::Connect, Part::ResponseTransit, Part::ClientWakeup, Part::WaitLock] {
                assert_eq!(one.parts()[part as usize], truth.parts[part as usize], "{}", part.name());
            }
        }
    }
}
