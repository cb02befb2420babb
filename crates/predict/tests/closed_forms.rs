//! Networks against closed forms and examples of the literature, and the simulator against both.
// scripts/test: patient

use proptest::prelude::*;
use weir_measure::queueing;
use weir_predict::mva::{Servers, approximate, convolution, exact, linearizer, solved};
use weir_predict::{
    Arrivals, Change, Disk, Outcome, Pool, Refusal, Request, Service, Trace, Unsupported, Visit, Work, demand, predict,
    simulate, what_if,
};

const MS: f64 = 1e6;

fn near(what: &str, is: f64, expected: f64, within: f64) {
    let off = is / expected - 1.0;
    println!("{what}: {is:.5}, expected {expected:.5}, {:+.2} %", off * 100.0);
    assert!(off.abs() < within, "{what}: {is} is not {expected}");
}

fn exponential(random: &mut fastrand::Rng) -> f64 {
    -(1.0 - random.f64()).ln()
}

/// Requests of a rate, each a visit to a pool's task.
fn trace(
    cpus: u32,
    pool: (Service, u32),
    rate_per_s: f64,
    mut visit: impl FnMut(&mut fastrand::Rng) -> (Work, f64),
) -> Trace {
    let mut random = fastrand::Rng::with_seed(7);
    let mut trace = Trace { cpus, ..Trace::default() };
    let (service, workers) = pool;
    trace.pools.push(Pool { name: "web".to_owned(), service, workers, is_limit: true, after_ns: 0.0, held_ns: 0.0 });
    let (_, stack, label) = (trace.stack(&[]), trace.stack(&[0]), trace.label("web:run"));
    let (_, class) = (trace.label(""), trace.class("GET /"));
    let mut at_ns = 0.0;
    for _ in 0..4_000 {
        at_ns += exponential(&mut random) * 1e9 / rate_per_s;
        let (work, ns) = visit(&mut random);
        let visits = vec![Visit { stack, work, lock: None, ns, label }];
        trace.requests.push(Request { at_ns: at_ns as u64, response_ns: ns, class, visits });
    }
    trace
}

fn mean(outcome: &Outcome) -> f64 {
    outcome.responses_ns.iter().sum::<f64>() / outcome.responses_ns.len() as f64
}

/// Lazowska et al., "Quantitative System Performance" (1984), section 6.4: a CPU of 0.605 s, two disks of 2.1 and 1.35
/// s, think time 15 s; three customers have a throughput of 0.1515 and a response of 4.8 s... by hand from the
/// recursion.
#[test]
fn the_recursion_is_that_of_the_textbook() {
    let demands = vec![vec![0.605, 2.1, 1.35]];
    let one = exact(&[1], &[15.0], &demands).expect("small");
    near("one customer", one.throughput[0], 1.0 / (15.0 + 4.055), 1e-12);
    // With two, each finds what one has there.
    let x = one.throughput[0];
    let two: f64 = demands[0].iter().map(|demand| demand * (1.0 + x * demand)).sum();
    near("two customers", exact(&[2], &[15.0], &demands).expect("small").throughput[0], 2.0 / (15.0 + two), 1e-12);
    let same = convolution(
        2,
        &[
            Servers { demand_ns: 0.605, servers: Some(1) },
            Servers { demand_ns: 2.1, servers: Some(1) },
            Servers { demand_ns: 1.35, servers: Some(1) },
            Servers { demand_ns: 15.0, servers: None },
        ],
    );
    near("by convolution", same.throughput[0], 2.0 / (15.0 + two), 1e-9);
}

/// The machine repairman: N machines that run for Z and are repaired in S by one or more repairmen; by the balance of
/// its birth and death process.
#[test]
fn machines_are_repaired() {
    for (machines, repairmen, run, repair) in [(5usize, 1u32, 10.0, 2.0), (40, 3, 30.0, 2.5), (200, 8, 100.0, 5.0)] {
        let (mut weights, mut weight): (Vec<f64>, f64) = (vec![1.0], 1.0);
        for broken in 1..=machines {
            let repaired = (broken as f64).min(f64::from(repairmen)) / repair;
            weight *= (machines - broken + 1) as f64 / run / repaired;
            weights.push(weight);
        }
        let all: f64 = weights.iter().sum();
        let running: f64 = weights.iter().enumerate().map(|(broken, w)| (machines - broken) as f64 * w / all).sum();
        let stations =
            [Servers { demand_ns: repair, servers: Some(repairmen) }, Servers { demand_ns: run, servers: None }];
        near("repairs", convolution(machines, &stations).throughput[0], running / run, 1e-6);
    }
}

/// Two classes: the exact solution of each population holds by Little's law, and the approximation lies near.
#[test]
fn the_approximation_lies_near_the_exact_solution() {
    let demands = vec![vec![1.0, 2.0, 0.5], vec![3.0, 0.5, 1.0]];
    let (customers, think) = ([10, 6], [20.0, 10.0]);
    let right = exact(&customers, &think, &demands).expect("small");
    let nearly = approximate(&[10.0, 6.0], &think, &demands);
    for class in 0..2 {
        near("throughput", nearly.throughput[class], right.throughput[class], 0.1);
        let whole = think[class] + right.residence_ns[class].iter().sum::<f64>();
        near("Little's law", right.throughput[class] * whole, customers[class] as f64, 1e-9);
    }
    assert!(exact(&[2000, 2000, 2000], &[1.0; 3], &vec![vec![1.0; 3]; 3]).is_none(), "too many populations");
}

/// Linearizer lies ten times nearer than Bard and Schweitzer, and stands in where the exact solution is too large.
#[test]
fn linearizer_lies_nearer() {
    let demands = vec![vec![1.0, 2.0, 0.5], vec![3.0, 0.5, 1.0]];
    for customers in [[10, 6], [3, 2], [1, 30]] {
        let think = [20.0, 10.0];
        let right = exact(&customers, &think, &demands).expect("small");
        let off = |solved: &weir_predict::mva::Closed| {
            let each = solved.throughput.iter().zip(&right.throughput).map(|(is, right)| (is / right - 1.0).abs());
            each.fold(0.0, f64::max)
        };
        let (fine, coarse) = (
            off(&linearizer(&customers, &think, &demands)),
            off(&approximate(&customers.map(|count| count as f64), &think, &demands)),
        );
        println!("{customers:?}: Linearizer {:.4} % off, Bard and Schweitzer {:.3} %", fine * 100.0, coarse * 100.0);
        assert!(fine < 0.005 && fine < coarse / 4.0, "{fine} and {coarse}");
    }
    let (customers, think) = ([2_000, 2_000, 2_000], [500.0; 3]);
    let demands = vec![vec![1.0, 2.0], vec![2.0, 1.0], vec![0.5, 0.5]];
    assert!(exact(&customers, &think, &demands).is_none());
    let large = solved(&customers, &think, &demands);
    let busy = |at: usize| demands.iter().zip(&large.throughput).map(|(demand, rate)| demand[at] * rate).sum::<f64>();
    for full in [busy(0), busy(1)] {
        near("both stations are full", full, 1.0, 0.01);
    }
}

#[test]
fn one_and_several_servers_with_exponential_times() {
    for (servers, load) in [(1u32, 0.5), (1, 0.8), (4, 0.8)] {
        let rate = 1000.0 * load * f64::from(servers);
        let trace = trace(64, (Service::Holding, servers), rate, |random| (Work::Delay, MS * exponential(random)));
        let outcome = simulate(&trace, Arrivals::Drawn(rate), 200_000, 3);
        let wait_ns = queueing::mean_wait_ns(servers, rate, MS).expect("stable");
        near("M/M/c", mean(&outcome), MS + wait_ns, 0.04);
        near("throughput", outcome.throughput_per_s, rate, 0.02);
        near("Little's law", outcome.under_way, rate * mean(&outcome) / 1e9, 0.04);
        near("busy workers", outcome.workers_busy[0], load * f64::from(servers), 0.02);
    }
}

/// A CPU that serves in turns much shorter than the work is one that all share: the mean is S / (1 - load) for any
/// distribution.
#[test]
fn a_cpu_in_turns_is_a_shared_one() {
    for variable in [false, true] {
        let work = |random: &mut fastrand::Rng| {
            let ns = if variable { if random.u8(..10) == 0 { 550.0 * MS } else { 50.0 * MS } } else { 100.0 * MS };
            (Work::Cpu, ns)
        };
        let trace = trace(1, (Service::Holding, 100_000), 7.0, work);
        near("M/G/1-PS", mean(&simulate(&trace, Arrivals::Drawn(7.0), 60_000, 5)), 100.0 * MS / 0.3, 0.08);
    }
}

#[test]
fn closed_clients_are_as_by_the_exact_solution() {
    for (clients, cpus, workers) in [(1u32, 1u32, 8u32), (6, 2, 64), (20, 2, 64)] {
        let mut trace = trace(cpus, (Service::Holding, workers), 10.0, |random| (Work::Cpu, MS * exponential(random)));
        for request in &mut trace.requests {
            let visit = request.visits[0];
            request.visits.push(Visit { work: Work::Delay, ns: 4.0 * MS, ..visit });
        }
        trace.clients = Some(clients);
        let stations = [Servers { demand_ns: MS, servers: Some(cpus) }, Servers { demand_ns: 4.0 * MS, servers: None }];
        let expected = convolution(clients as usize, &stations).throughput[0] * 1e9;
        let outcome = simulate(&trace, Arrivals::Clients(clients), 60_000, 11);
        near("throughput", outcome.throughput_per_s, expected, 0.03);
    }
}

/// A page of 10 ms that waits for a query of 20 ms at a database, in a pool of workers.
fn shop(workers: u32, rate_per_s: f64) -> Trace {
    let mut trace =
        trace(8, (Service::Holding, workers), rate_per_s, |random| (Work::Cpu, 10.0 * MS * exponential(random)));
    trace.requests.truncate(1_500);
    let (database, label) = (1, trace.label("postgres:run"));
    let service = Service::Holding;
    trace.pools.push(Pool {
        name: "postgres".to_owned(),
        service,
        workers: 1,
        is_limit: false,
        after_ns: 0.0,
        held_ns: 0.0,
    });
    let stack = trace.stack(&[0, database]);
    for request in &mut trace.requests {
        request.visits.push(Visit { stack, work: Work::Cpu, lock: None, ns: 20.0 * MS, label });
    }
    let outcome = simulate(&trace, Arrivals::AsRecorded, 0, 1);
    let mean = mean(&outcome);
    trace.requests.iter_mut().for_each(|request| request.response_ns = mean);
    trace
}

fn asked(at: &str) -> Change {
    let mut change = Change::default();
    change.at(at).expect("right");
    change
}

#[test]
fn a_prediction_names_the_bottleneck_and_where_it_saturates() {
    let trace = shop(4, 50.0);
    let told = predict(&trace, &asked("rate=2x"), 1).expect("it is supported");
    assert_eq!(told.bottleneck.name, "web");
    near("saturation", told.bottleneck.most_per_s, 4.0 / 0.03, 0.02);
    let figures = told.predicted.expect("below saturation");
    near("throughput", figures.throughput_per_s.value, 100.0, 0.03);
    assert!(figures.mean_ns.low <= figures.mean_ns.value && figures.mean_ns.value <= figures.mean_ns.high);
    assert!(figures.p50_ns.value < figures.p95_ns.value && figures.p95_ns.value < figures.p99_ns.value);
    // Beyond it there is no response time, and what is served stays at the bound.
    let full = predict(&trace, &asked("rate=3x"), 1).expect("it is supported");
    assert_eq!(full.predicted, None);
    near("throughput", full.throughput_per_s, 4.0 / 0.03, 0.02);
    // A faster query and more workers move it.
    let mut faster = asked("rate=3x");
    faster.fast("postgres:run 50%").expect("right");
    near("faster", predict(&trace, &faster, 1).expect("it is supported").bottleneck.most_per_s, 200.0, 0.02);
    let mut wider = asked("rate=3x");
    wider.worker("web=40").expect("right");
    let wider = predict(&trace, &wider, 1).expect("it is supported");
    assert_eq!(wider.bottleneck.name, "CPU");
    assert!(wider.predicted.is_some());
}

#[test]
fn what_no_trace_tells_is_refused() {
    let trace = shop(4, 50.0);
    let refused = |change: &Change| predict(&trace, change, 1).expect_err("refused").to_string();
    let mut change = Change::default();
    change.worker("tomcat=3").expect("right");
    assert!(refused(&change).contains("no pool is called"), "{}", refused(&change));
    let mut change = Change::default();
    change.fast("mysql:run 30%").expect("right");
    assert!(refused(&change).contains("postgres:run"), "{}", refused(&change));
    assert!(refused(&asked("clients=3")).contains("rate="), "{}", refused(&asked("clients=3")));
    let mut slow = trace.clone();
    slow.requests.iter_mut().for_each(|request| request.response_ns *= 3.0);
    let refusal = predict(&slow, &asked("rate=1.2x"), 1).expect_err("not repeated");
    assert!(matches!(refusal, Refusal::Trace(Unsupported::NotRepeated { .. })), "{refusal}");
}

/// Requests of a server that has to wake up: they take 3 ms where it was idle for 10 ms or more, and else 1 ms.
fn sleepy(rate_per_s: f64) -> Trace {
    let mut trace = trace(8, (Service::Holding, 1_000), rate_per_s, |_| (Work::Delay, MS));
    let mut idle_since_ns = 0.0f64;
    for request in &mut trace.requests {
        let at_ns = request.at_ns as f64;
        let ns = if at_ns - idle_since_ns >= 10.0 * MS { 3.0 * MS } else { MS };
        request.visits[0].ns = ns;
        request.response_ns = ns;
        idle_since_ns = idle_since_ns.max(at_ns + ns);
    }
    trace
}

/// Of requests that are dear behind a pause fewer are at a higher rate, and more at a lower one.
#[test]
fn pauses_are_as_long_as_the_rate_makes_them() {
    let mean = |trace: &Trace| trace.requests.iter().map(|request| request.response_ns).sum::<f64>() / 4_000.0;
    let mut trace = sleepy(50.0);
    trace.requests.truncate(1_000);
    for (asked_for, rate) in [("rate=4x", 200.0), ("rate=0.5x", 25.0)] {
        let told = predict(&trace, &asked(asked_for), 1).expect("it is supported").predicted.expect("below saturation");
        near("mean response", told.mean_ns.value, mean(&sleepy(rate)), 0.06);
    }
}

/// What is shortened for all of them shortens their queue as well: as the simulation of shorter work says.
#[test]
fn a_faster_query_shortens_the_queue_too() {
    let (trace, mut change) = (shop(2, 50.0), Change::default());
    change.fast("postgres:run 30%").expect("right");
    let told = what_if(&trace, &change, 1).expect("it is supported");
    // 6 of 30 ms are saved, and the workers are busy for 60 instead of 75 % of their time.
    assert!(told.recorded[1] - told.predicted[1] > 12.0 * MS, "{told:?}");
    near("own share", told.own_share, 20.0 * MS / told.recorded[1], 0.01);
}

/// While a worker waits for another program to leave its CPU it serves no other request; the CPUs are full by what the
/// server runs.
#[test]
fn a_worker_that_waits_for_another_program_serves_none() {
    let of = |others_ms: f64, run_ms: f64| {
        let work = |random: &mut fastrand::Rng| (Work::Cpu, run_ms * MS * exponential(random));
        let mut trace = trace(2, (Service::Holding, 1), 350.0, work);
        for request in &mut trace.requests {
            let runs = request.visits[0];
            let ns = runs.ns / run_ms * others_ms;
            request.visits.insert(0, Visit { work: Work::Others, ns, ..runs });
        }
        trace
    };
    let (trace, alone) = (of(1.0, 1.0), of(0.0, 2.0));
    let mean_of = |trace: &Trace| mean(&simulate(trace, Arrivals::AsRecorded, 0, 1));
    near("the mean response", mean_of(&trace), mean_of(&alone), 1e-6);
    let full_at = |name: &str| demand(&trace).stations.iter().find(|of| of.name == name).map(|of| of.most_per_s);
    near("a task is full", full_at("web").expect("a pool"), 500.0, 0.05);
    near("CPUs are full", full_at("CPU").expect("CPUs"), 2_000.0, 0.05);
}

/// A disk that takes so many requests at once is a station of as many servers, whose waiting times are those of M/M/c.
#[test]
fn a_disk_is_a_station_with_a_queue() {
    for (servers, rate) in [(1, 350.0), (4, 1_600.0)] {
        let work = |random: &mut fastrand::Rng| (Work::Disk(0), 2.0 * MS * exponential(random));
        let mut trace = trace(8, (Service::Holding, 1_000), rate, work);
        trace.disks.push(Disk { name: "disk vda".to_owned(), servers });
        let wait_ns = queueing::mean_wait_ns(servers, rate, 2.0 * MS).expect("stable");
        near("M/M/c", mean(&simulate(&trace, Arrivals::Drawn(rate), 200_000, 3)), 2.0 * MS + wait_ns, 0.06);
        let first = &demand(&trace).stations[0];
        assert_eq!((first.name.as_str(), first.servers), ("disk vda", servers));
    }
}

/// Work under a lock is done one after the other, however many workers and CPUs there are.
#[test]
fn a_lock_serves_one() {
    let mut trace = trace(8, (Service::Holding, 100), 10.0, |_| (Work::Cpu, 10.0 * MS));
    trace.locks.push("flock /tmp/l".to_owned());
    trace.requests.iter_mut().for_each(|request| request.visits[0].lock = Some(0));
    trace.clients = Some(16);
    let outcome = simulate(&trace, Arrivals::Clients(16), 2_000, 1);
    near("throughput", outcome.throughput_per_s, 100.0, 0.02);
    assert_eq!(demand(&trace).stations[0].name, "flock /tmp/l");
}

/// A task that is kept behind its response keeps others waiting as one whose response takes as much longer.
#[test]
fn a_task_that_is_kept_is_busy() {
    let mean_of = |visit_ms: f64, kept_ms: f64| {
        let mut trace = trace(8, (Service::Holding, 2), 200.0, |_| (Work::Delay, visit_ms * MS));
        trace.pools[0].held_ns = kept_ms * MS;
        near("saturation", demand(&trace).most_per_s(), 2e3 / 7.0, 1e-9);
        mean(&simulate(&trace, Arrivals::AsRecorded, 0, 1))
    };
    near("the mean response", mean_of(1.0, 6.0), mean_of(7.0, 0.0) - 6.0 * MS, 1e-6);
}

/// What is done under a lock is done faster, and the queue for it goes: as it is with a lock that is held for less.
#[test]
fn a_faster_lock_shortens_its_queue() {
    let with = |ns: f64| {
        let mut trace = trace(8, (Service::Holding, 100), 80.0, |_| (Work::Cpu, ns));
        trace.requests.truncate(1_500);
        trace.locks.push("flock /run/shop.lock".to_owned());
        trace.requests.iter_mut().for_each(|request| request.visits[0].lock = Some(0));
        let mean = mean(&simulate(&trace, Arrivals::AsRecorded, 0, 1));
        trace.requests.iter_mut().for_each(|request| request.response_ns = mean);
        (trace, mean)
    };
    let ((trace, now_ns), (_, then_ns), mut change) = (with(10.0 * MS), with(7.0 * MS), Change::default());
    change.fast("lock:shop.lock 30%").expect("right");
    let told = what_if(&trace, &change, 1).expect("it is supported");
    near("the mean response", told.predicted[1], then_ns, 0.02);
    assert!(now_ns - then_ns > 10.0 * MS, "3 ms of it are not in the queue: {now_ns}, {then_ns}");
}

#[test]
fn demands_are_told_by_class_and_object() {
    let mut trace = shop(4, 50.0);
    let list = trace.class("GET /list");
    let (web, database) = (trace.requests[0].visits[0].label, trace.requests[0].visits[1].label);
    for request in trace.requests.iter_mut().step_by(3) {
        request.class = list;
        request.visits.retain(|visit| visit.label == web);
    }
    let classes = demand(&trace).classes;
    assert_eq!(
        classes.iter().map(|class| (class.class.as_str(), class.requests)).collect::<Vec<_>>(),
        [("GET /", 1_000), ("GET /list", 500)]
    );
    let of = |class: usize, object: &str| classes[class].of.iter().find(|of| of.object == object);
    let query = of(0, "postgres").expect("it asks the database");
    assert_eq!((query.part.as_str(), query.work, query.lock.as_deref()), ("run", Work::Cpu, None));
    near("a query", query.demand_ns, 20.0 * MS, 1e-9);
    assert!(of(1, "postgres").is_none() && of(1, "web").is_some(), "{database}: {classes:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn no_throughput_is_above_a_bound(
        clients in 1u32..40, cpus in 1u32..5, workers in 1u32..12, cpu_ms in 0.1f64..5.0, delay_ms in 0.0f64..20.0,
        looping in any::<bool>(), seed in any::<u64>(),
    ) {
        let service = if looping { Service::Looping } else { Service::Holding };
        let mut trace = trace(cpus, (service, workers), 10.0, |_| (Work::Cpu, cpu_ms * MS));
        trace.requests.truncate(300);
        for request in &mut trace.requests {
            let visit = request.visits[0];
            request.visits.push(Visit { work: Work::Delay, ns: delay_ms * MS, ..visit });
        }
        trace.clients = Some(clients);
        let outcome = simulate(&trace, Arrivals::Clients(clients), 1_500, seed);
        let most = demand(&trace).most_per_s().min(f64::from(clients) * 1e3 / (cpu_ms + delay_ms));
        // At either end of what is counted a response may be cut.
        prop_assert!(outcome.throughput_per_s <= most * 1.05, "{} above {}", outcome.throughput_per_s, most);
        prop_assert!(outcome.cpus_busy <= f64::from(cpus) + 1e-6);
        let alone = (cpu_ms + delay_ms) * MS;
        prop_assert!(outcome.responses_ns.iter().all(|ns| *ns >= alone * 0.999));
    }
}
