//! Explanations made up by hand: plausible, and the same each time.
#![allow(dead_code, reason = "each test uses some of them")]

use std::collections::BTreeMap;
use weir_measure::part::Part;
use weir_measure::summary::Summary;
use weir_report::{
    Cause, Example, ExampleStep, Explanation, Observer, Ratio, ServerCpu, SlowCause, Transaction, nanoseconds,
};

pub(crate) mod steps;
pub(crate) mod whole;

/// Times of parts, the others 0.
pub(crate) fn times(of: &[(Part, f64)]) -> [f64; Part::COUNT] {
    let mut parts = [0.0; Part::COUNT];
    for (part, ns) in of {
        parts[*part as usize] = *ns;
    }
    parts
}

/// A summary in microseconds: min, p50, mean, p90, p99, p99.9, max.
pub(crate) fn summary_us(count: u64, [min, p50, mean, p90, p99, p99_9, max]: [f64; 7]) -> Option<Summary> {
    let ns = |us: f64| (us * 1e3) as u64;
    let (mean, stdev) = (mean * 1e3, 2.1 * mean * 1e3);
    let (min, p50, p90, p99, p99_9, max) = (ns(min), ns(p50), ns(p90), ns(p99), ns(p99_9), ns(max));
    Some(Summary { count, min, mean, stdev, p50, p90, p99, p99_9, max })
}

/// A cause with its sentence.
pub(crate) fn cause(part: Part, mean_ns: f64, whole_ns: f64, who: &[(&str, f64)]) -> Cause {
    let share = mean_ns / whole_ns;
    let text = format!(
        "{:.0} % {}: {} of {} ({}){}",
        100.0 * share,
        part.words(),
        nanoseconds(mean_ns),
        nanoseconds(whole_ns),
        part.name(),
        named(who)
    );
    Cause { part: part.name().to_owned(), mean_ns, share, who: owned(who), held_by: vec![], requests: vec![], text }
}

/// A cause of the slowest with its sentence.
pub(crate) fn slow_cause(part: Part, slow_ns: f64, rest_ns: f64, share: f64, who: &[(&str, f64)]) -> SlowCause {
    let text = format!(
        "{:.0} % of the difference {}: {} against {} ({}){}",
        100.0 * share,
        part.words(),
        nanoseconds(slow_ns),
        nanoseconds(rest_ns),
        part.name(),
        named(who)
    );
    SlowCause { part: part.name().to_owned(), excess_ns: slow_ns - rest_ns, share, who: owned(who), text }
}

fn named(who: &[(&str, f64)]) -> String {
    let list: Vec<String> = who.iter().map(|(label, share)| format!("{label} {:.0} %", 100.0 * share)).collect();
    if list.is_empty() { String::new() } else { format!("; by {}", list.join(", ")) }
}

fn owned(who: &[(&str, f64)]) -> Vec<(String, f64)> {
    who.iter().map(|(label, share)| ((*label).to_owned(), *share)).collect()
}

/// Apache prefork whose CPU a hog takes.
pub(crate) fn hog() -> Explanation {
    let mean = times(&[
        (Part::Generator, 3.0e3),
        (Part::Connect, 41.0e3),
        (Part::RequestTransit, 24.0e3),
        (Part::AcceptQueue, 62.0e3),
        (Part::Run, 296.0e3),
        (Part::WaitCpu, 2_310.0e3),
        (Part::WaitDisk, 8.0e3),
        (Part::WaitLock, 15.0e3),
        (Part::ResponseTransit, 31.0e3),
        (Part::ClientWakeup, 54.0e3),
        (Part::Unattributed, 6.0e3),
    ]);
    let median = times(&[
        (Part::Generator, 2.0e3),
        (Part::Connect, 38.0e3),
        (Part::RequestTransit, 22.0e3),
        (Part::AcceptQueue, 30.0e3),
        (Part::Run, 281.0e3),
        (Part::WaitCpu, 402.0e3),
        (Part::ResponseTransit, 29.0e3),
        (Part::ClientWakeup, 36.0e3),
        (Part::Unattributed, 4.0e3),
    ]);
    let slow = times(&[
        (Part::Generator, 9.0e3),
        (Part::Connect, 60.0e3),
        (Part::RequestTransit, 31.0e3),
        (Part::AcceptQueue, 1_250.0e3),
        (Part::Run, 344.0e3),
        (Part::WaitCpu, 13_480.0e3),
        (Part::WaitDisk, 310.0e3),
        (Part::WaitLock, 120.0e3),
        (Part::ResponseTransit, 40.0e3),
        (Part::ClientWakeup, 210.0e3),
        (Part::Unattributed, 20.0e3),
    ]);
    let total = |parts: &[f64]| parts.iter().sum::<f64>();
    let whole = total(&mean);
    Explanation {
        version: "0.1.0".to_owned(),
        subject: "http://127.0.0.1:8080/".to_owned(),
        run: "weir-runs/2026-11-20-apache hog".to_owned(),
        host: "meadow, Linux 6.8.0-49-generic, 4 CPUs".to_owned(),
        duration_s: 10.02,
        requests: 35_127,
        rate_per_s: 3_505.7,
        bytes: 62_134_882,
        errors: BTreeMap::new(),
        status: BTreeMap::new(),
        dropped: 0,
        retried: 0,
        success_fraction: None,
        success_response_ns: None,
        response_ns: summary_us(35_127, [310.0, 844.0, whole / 1e3, 7_420.0, 12_900.0, 18_300.0, 27_650.0]),
        joined_fraction: 0.999_744,
        unjoinable: BTreeMap::from([("lost_events".to_owned(), 7), ("early_answer".to_owned(), 2)]),
        rung: "socket tracepoints".to_owned(),
        sum_of_parts_over_response: Ratio { min: 1.0, mean: 1.0, max: 1.0 },
        noise_floor: Some(0.034),
        stages_ns: None,
        server_cpu: ServerCpu {
            utilisation: 1.04,
            used_ns_per_request: 296.0e3,
            waited_ns_per_request: 2_310.0e3,
            switches_per_request: 3.4,
        },
        observer_cost: Observer {
            events: 882_640,
            bytes: 30_412_800,
            lost: 0,
            cpu_seconds: 0.313,
            cpu_share: 0.0312,
            events_per_request: 25.13,
            sources: Vec::new(),
        },
        parts_ns: mean,
        median_parts_ns: median,
        slow_parts_ns: slow,
        percentiles: Vec::new(),
        median_response_ns: total(&median),
        slow_response_ns: total(&slow),
        run_parts_ns: BTreeMap::new(),
        not_observed_why: BTreeMap::new(),
        not_observed: Part::NOT_OBSERVED.iter().map(|name| (*name).to_owned()).collect(),
        causes: vec![
            cause(Part::WaitCpu, 2_310.0e3, whole, &[("hog (4242)", 0.93), ("apache2 (1311)", 0.05)]),
            cause(Part::Run, 296.0e3, whole, &[]),
            cause(Part::AcceptQueue, 62.0e3, whole, &[]),
            cause(Part::ClientWakeup, 54.0e3, whole, &[]),
        ],
        slow_causes: vec![
            slow_cause(Part::WaitCpu, 13_480.0e3, 2_197.0e3, 0.869, &[("hog (4242)", 0.97)]),
            slow_cause(Part::AcceptQueue, 1_250.0e3, 50.0e3, 0.092, &[]),
        ],
        transactions: vec![Transaction {
            name: "GET /".to_owned(),
            count: 35_127,
            response_ns: summary_us(35_127, [310.0, 844.0, whole / 1e3, 7_420.0, 12_900.0, 18_300.0, 27_650.0]),
            parts_ns: mean,
            slow_parts_ns: slow,
        }],
        examples: steps::hog(),
        boundary: "from the time that the schedule intended to the last byte at the client".to_owned(),
        exchanges: BTreeMap::new(),
        long_lived: Vec::new(),
        objectives: vec![],
        phases: vec![],
        processes: vec![],
        waiting: vec![],
        holders: vec![],
        course: None,
        asked: vec![],
        queries: vec![],
        decisions: vec![],
        moves: None,
        hosts: Vec::new(),
        stacks: vec![],
        wakeups: weir_report::Wakeups::default(),
        warnings: vec![],
    }
}

/// nginx with a slow handler before others in one worker; several classes, failures and warnings.
pub(crate) fn worker_queue() -> Explanation {
    let mean = times(&[
        (Part::RequestTransit, 12.0e3),
        (Part::WorkerQueue, 1_912.0e3),
        (Part::Run, 143.0e3),
        (Part::WaitTimer, 402.0e3),
        (Part::WaitNetwork, 96.0e3),
        (Part::ResponseTransit, 11.0e3),
        (Part::ClientWakeup, 18.0e3),
    ]);
    let median = times(&[
        (Part::RequestTransit, 11.0e3),
        (Part::WorkerQueue, 60.0e3),
        (Part::Run, 18.0e3),
        (Part::ResponseTransit, 10.0e3),
        (Part::ClientWakeup, 5.0e3),
    ]);
    let slow = times(&[
        (Part::RequestTransit, 14.0e3),
        (Part::WorkerQueue, 171.0e6),
        (Part::Run, 3.1e6),
        (Part::WaitTimer, 14.2e6),
        (Part::WaitNetwork, 0.9e6),
        (Part::ClientWakeup, 22.0e3),
    ]);
    let total = |parts: &[f64]| parts.iter().sum::<f64>();
    let whole = total(&mean);
    let class = |name: &str, count: u64, factor: f64| Transaction {
        name: name.to_owned(),
        count,
        response_ns: summary_us(
            count,
            [24.0, 104.0, whole / 1e3, 640.0, 4_100.0, 22_000.0, 30.0e6].map(|us| us * factor),
        ),
        parts_ns: mean.map(|ns| ns * factor),
        slow_parts_ns: slow.map(|ns| ns * factor),
    };
    let mut transactions = vec![
        class("GET /static/**", 180_412, 0.6),
        class("GET /shop/{id}", 41_007, 1.0),
        class(
            "POST /api/v2/customers/{id}/addresses/{id}/a-path-that-an-admin-made-much-longer-than-any-table-would-like/confirm",
            20_311,
            1.4,
        ),
    ];
    transactions.extend((1..=24).map(|n| class(&format!("GET /report/{n:02}"), 900 - 30 * n, 1.0 + n as f64 / 10.0)));
    Explanation {
        subject: "http://shop.example:8081/shop/17".to_owned(),
        run: "/var/tmp/runs/nginx-slow-handler".to_owned(),
        requests: 249_812,
        rate_per_s: 4_163.5,
        duration_s: 60.0,
        bytes: 4_802_113_000,
        errors: BTreeMap::from([("connection_reset".to_owned(), 12), ("timeout".to_owned(), 131)]),
        status: BTreeMap::new(),
        dropped: 5_120,
        retried: 0,
        success_fraction: None,
        success_response_ns: None,
        response_ns: summary_us(249_812, [24.0, 104.0, whole / 1e3, 640.0, 4_100.0, 22_000.0, 30.0e6]),
        joined_fraction: 1.0,
        unjoinable: BTreeMap::new(),
        noise_floor: None,
        stages_ns: None,
        server_cpu: ServerCpu {
            utilisation: 0.595,
            used_ns_per_request: 143.0e3,
            waited_ns_per_request: 0.0,
            switches_per_request: 0.41,
        },
        observer_cost: Observer {
            events: 2_310_544,
            bytes: 88_000_000,
            lost: 512,
            cpu_seconds: 1.9,
            cpu_share: 0.0317,
            events_per_request: 9.25,
            sources: Vec::new(),
        },
        parts_ns: mean,
        median_parts_ns: median,
        slow_parts_ns: slow,
        median_response_ns: total(&median),
        slow_response_ns: total(&slow),
        causes: vec![
            cause(Part::WorkerQueue, 1_912.0e3, whole, &[("nginx (2001)", 1.0)]),
            cause(Part::WaitTimer, 402.0e3, whole, &[]),
            cause(Part::Run, 143.0e3, whole, &[]),
            cause(Part::WaitNetwork, 96.0e3, whole, &[("10.0.0.7:5432", 1.0)]),
        ],
        slow_causes: vec![
            slow_cause(Part::WorkerQueue, 171.0e6, 1.2e5, 0.93, &[("nginx (2001)", 1.0)]),
            slow_cause(Part::WaitTimer, 14.2e6, 2.6e5, 0.07, &[]),
        ],
        transactions,
        examples: steps::worker_queue(),
        boundary: "from the time that the schedule intended to the last byte at the client".to_owned(),
        exchanges: BTreeMap::new(),
        long_lived: Vec::new(),
        objectives: vec![],
        phases: vec![],
        processes: vec![],
        waiting: vec![],
        holders: vec![],
        course: None,
        asked: vec![],
        queries: vec![],
        decisions: vec![],
        moves: None,
        hosts: Vec::new(),
        stacks: vec![],
        wakeups: weir_report::Wakeups::default(),
        warnings: vec![
            "512 events were lost: the parts of some responses are unattributed".to_owned(),
            "the generator used 93 % of its CPU: it may be the bottleneck".to_owned(),
        ],
        ..hog()
    }
}

/// A run in which nothing happened.
pub(crate) fn empty() -> Explanation {
    Explanation {
        subject: String::new(),
        run: String::new(),
        host: String::new(),
        duration_s: 0.0,
        requests: 0,
        rate_per_s: 0.0,
        bytes: 0,
        response_ns: None,
        joined_fraction: 0.0,
        unjoinable: BTreeMap::new(),
        rung: String::new(),
        noise_floor: None,
        stages_ns: None,
        server_cpu: ServerCpu::default(),
        observer_cost: Observer {
            events: 0,
            bytes: 0,
            lost: 0,
            cpu_seconds: 0.0,
            cpu_share: 0.0,
            events_per_request: 0.0,
            sources: Vec::new(),
        },
        parts_ns: times(&[]),
        median_parts_ns: times(&[]),
        slow_parts_ns: times(&[]),
        median_response_ns: 0.0,
        slow_response_ns: 0.0,
        run_parts_ns: BTreeMap::new(),
        not_observed_why: BTreeMap::new(),
        not_observed: vec![],
        causes: vec![],
        slow_causes: vec![],
        transactions: vec![],
        examples: vec![],
        ..hog()
    }
}

/// Every text from outside says something that it should not.
pub(crate) fn hostile() -> Explanation {
    let evil =
        |place: &str| format!("</title><script>alert('{place}')</script>\"><img src=x onerror=a&b>\x1b[2J\u{202e}");
    let mut explanation = hog();
    explanation.subject = evil("subject");
    explanation.run = evil("run");
    explanation.host = evil("host");
    explanation.version = evil("version");
    explanation.rung = evil("rung");
    explanation.errors = BTreeMap::from([(evil("errors"), 3)]);
    explanation.unjoinable = BTreeMap::from([(evil("unjoinable"), 3)]);
    explanation.not_observed = vec![evil("not_observed")];
    explanation.warnings = vec![evil("warnings")];
    explanation.causes[0].text = evil("cause");
    explanation.causes[1].part = evil("cause part");
    explanation.slow_causes[0].text = evil("slow cause");
    explanation.slow_causes[0].part = evil("slow cause part");
    let mut other = explanation.transactions[0].clone();
    other.name = evil("class");
    explanation.transactions.push(other);
    explanation.examples = vec![Example {
        sort: "slow".to_owned(),
        name: evil("example"),
        status: 200,
        response_ns: 1_000,
        at_ns: 0,
        steps: vec![ExampleStep { part: evil("step"), from_ns: 0, ns: 1_000, task: evil("task"), who: evil("who") }],
        cpus: vec![weir_report::CpuSpell { cpu: 0, from_ns: 0, ns: 10, task: evil("cpu task") }],
        holders: vec![],
    }];
    let full = whole::whole();
    explanation.boundary = evil("boundary");
    explanation.phases =
        vec![weir_report::Phase { name: evil("phase"), server: evil("phase server"), ..full.phases[0].clone() }];
    explanation.processes = vec![weir_report::ProcessShare { name: evil("process"), ..full.processes[0].clone() }];
    explanation.waiting =
        vec![weir_report::WaitingEdge { from: evil("from"), to: evil("to"), ..full.waiting[0].clone() }];
    explanation.causes[0].part = Part::WaitLock.name().to_owned();
    explanation.holders = vec![weir_report::Holding {
        lock: evil("lock"),
        holder: evil("holder"),
        request: Some(evil("held request")),
        mean_ns: explanation.causes[0].mean_ns,
        parts_ns: times(&[]),
    }];
    explanation.decisions = vec![weir_report::Decided { at_s: -1.5, text: evil("decision") }];
    let moved = weir_report::Moved {
        at_s: 0.5,
        from: evil("old node"),
        to: evil("new node"),
        requests: 1,
        request: Some(evil("moved request")),
        stood_still_ns: Some(1.3e6),
        took_ns: Some(2.4e6),
        confirmed_s: Some(0.501),
        error_ns: None,
    };
    explanation.moves = Some(weir_report::Moves { requests: 1, moves: vec![moved] });
    explanation.queries =
        vec![weir_report::Query { text: evil("query"), server: evil("query server"), ..full.queries[0].clone() }];
    explanation.stacks =
        vec![weir_report::Stack { class: evil("stack class"), frames: vec![evil("frame")], ..full.stacks[0].clone() }];
    explanation
}
