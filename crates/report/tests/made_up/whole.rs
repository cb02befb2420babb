//! An explanation with every section: Apache, php-fpm and PostgreSQL; and one that is far too large.

use super::{hog, times};
use weir_measure::part::Part;
use weir_report::{
    Course, CourseSlice, CpuSpell, Example, ExampleStep, Explanation, HolderSpell, Holding, LongLived, MessageFigures,
    PercentileShares, Phase, ProcessShare, Query, Stack, WaitingEdge, Wakeups,
};

const APACHE: &str = "apache2 (1311)";
const PHP: &str = "php-fpm8.2 (1402)";
const LOCK: &str = "flock of /srv/app/cache.lock held by backup (977)";
const POSTGRES: &str = "postgres (1500)";

/// A PHP page through Apache, php-fpm and PostgreSQL, with a lock on the way.
fn page(sort: &str, at_ms: u64, lock_us: u64) -> Example {
    let us = |us: u64| us * 1_000;
    let steps = [
        (Part::RequestTransit, 20, "", ""),
        (Part::Run, 60, APACHE, ""),
        (Part::WaitCpu, 35, PHP, APACHE),
        (Part::Run, 850, PHP, ""),
        (Part::WaitLock, lock_us, PHP, LOCK),
        (Part::Run, 120, PHP, ""),
        (Part::WaitCpu, 18, POSTGRES, ""),
        (Part::Run, 640, POSTGRES, ""),
        (Part::WaitDisk, 210, POSTGRES, ""),
        (Part::Run, 90, POSTGRES, ""),
        (Part::Run, 430, PHP, ""),
        (Part::Run, 55, APACHE, ""),
        (Part::ResponseTransit, 25, "", ""),
        (Part::ClientWakeup, 22, "weir (1402)", ""),
    ];
    let mut from_ns = 0;
    let (mut made, mut cpus, mut holders) = (Vec::new(), Vec::new(), Vec::new());
    for (part, length_us, task, who) in steps {
        let (ns, task, who) = (us(length_us), task.to_owned(), who.to_owned());
        if part == Part::Run {
            cpus.push(CpuSpell { cpu: u32::from(task == POSTGRES), from_ns, ns, task: task.clone() });
        }
        if part == Part::WaitLock {
            cpus.push(CpuSpell { cpu: 1, from_ns, ns: ns / 2, task: "backup (977)".to_owned() });
            holders.extend([(Part::Run, from_ns), (Part::WaitDisk, from_ns + ns / 2)].map(|(part, from_ns)| {
                HolderSpell {
                    lock: who.clone(),
                    task: "backup (977)".to_owned(),
                    part: part.name().to_owned(),
                    from_ns,
                    ns: ns / 2,
                }
            }));
        }
        made.push(ExampleStep { part: part.name().to_owned(), from_ns, ns, task, who });
        from_ns += ns;
    }
    cpus.sort_by_key(|spell| (spell.cpu, spell.from_ns));
    let name = "GET /article.php".to_owned();
    Example {
        sort: sort.to_owned(),
        name,
        status: 200,
        response_ns: from_ns,
        at_ns: at_ms * 1_000_000,
        steps: made,
        cpus,
        holders,
    }
}

fn stack(class: &str, part: Part, frames: &str, samples: u64) -> Stack {
    let frames = frames.split(';').map(str::to_owned).collect();
    Stack { class: class.to_owned(), part: part.name().to_owned(), frames, samples, ns: samples * 1_000_000 }
}

/// Ten seconds in which it gets slow and fails for a while.
fn course() -> Course {
    let slice = |number: u64| {
        let slow = if (40..60).contains(&number) { 9.0 } else { 1.0 };
        CourseSlice {
            at_s: number as f64 / 10.0,
            answered: if number == 70 { 0 } else { 350 },
            errors: u64::from((45..50).contains(&number)) * 12,
            p50_ns: (number != 70).then_some((800e3 * slow) as u64),
            p99_ns: (number != 70).then_some((4_100e3 * slow) as u64 + number * 7_000),
            parts_ns: match number {
                70 => times(&[]),
                _ => times(&[(Part::Run, 300.0e3), (Part::WaitCpu, 450.0e3 * slow), (Part::WaitLock, 40.0e3)]),
            },
        }
    };
    Course { slice_s: 0.1, slices: (0..100).map(slice).collect() }
}

/// What stays open, of each kind.
fn long_lived() -> Vec<LongLived> {
    let way = |messages: u64, between_ns: Option<f64>| MessageFigures {
        messages,
        bytes: messages * 160,
        between_ns,
        between_ns_max: between_ns.map_or(0, |ns| (9.0 * ns) as u64),
    };
    let long = |kind: &str, name: &str, count, still_open, [received, sent]: [MessageFigures; 2], answered| LongLived {
        kind: kind.to_owned(),
        name: name.to_owned(),
        count,
        still_open,
        lasted_ns: 8.25e9,
        received,
        sent,
        answered,
        answer_ns: (answered > 0).then_some(412.0e3),
    };
    vec![
        long("websocket", "GET /talk", 14, 3, [way(8_120, Some(14.1e6)), way(8_120, Some(14.1e6))], 8_064),
        long("events", "GET /prices", 2, 2, [way(0, None), way(331, Some(50.0e6))], 0),
        long("grpc", "gRPC /grpc.health.v1.Health/Watch", 1, 0, [way(1, None), way(40, Some(20.0e6))], 0),
    ]
}

/// Every section has something to show.
pub(crate) fn whole() -> Explanation {
    let edge = |from: &str, to: &str, part: Part, count, mean_ns| WaitingEdge {
        from: from.to_owned(),
        to: to.to_owned(),
        part: part.name().to_owned(),
        count,
        mean_ns,
    };
    let phase = |name: &str, count, mean_ns, parts: &[(Part, f64)]| Phase {
        server: "apache".to_owned(),
        name: name.to_owned(),
        count,
        mean_ns,
        parts_ns: times(parts),
        elapsed_ns: 1.1 * mean_ns,
        elapsed_parts_ns: times(&[(Part::Run, 0.7 * mean_ns), (Part::WaitNetwork, 0.4 * mean_ns)]),
    };
    let process = |name: &str, run_ns, wait_ns| ProcessShare { name: name.to_owned(), run_ns, wait_ns };
    let query = |text: &str, count, mean_ns, max_ns| Query {
        server: "postgres".to_owned(),
        text: text.to_owned(),
        count,
        mean_ns,
        max_ns,
    };
    let percentile = |percentile, response_ns, [generator, network, server, unattributed]: [f64; 4]| PercentileShares {
        percentile,
        response_ns,
        generator,
        network,
        server,
        unattributed,
    };
    Explanation {
        percentiles: vec![
            percentile(50.0, 2.1e6, [0.012, 0.031, 0.957, 0.0]),
            percentile(90.0, 6.4e6, [0.02, 0.01, 0.97, 0.0]),
            percentile(99.0, 24.0e6, [0.7, 0.0, 0.295, 0.005]),
            percentile(99.9, 96.0e6, [0.9, 0.0, 0.08, 0.02]),
        ],
        phases: vec![
            phase("read_request", 35_127, 18.0e3, &[(Part::Run, 15.0e3), (Part::WaitCpu, 3.0e3)]),
            phase(
                "handler",
                35_127,
                2_600.0e3,
                &[(Part::WaitCpu, 2_310.0e3), (Part::Run, 250.0e3), (Part::WaitLock, 40.0e3)],
            ),
            phase("log", 35_127, 9.0e3, &[(Part::Run, 8.0e3), (Part::WaitDisk, 1.0e3)]),
        ],
        processes: vec![
            process("php-fpm8.2 (8 processes)", 1_400.0e3, 610.0e3),
            process("postgres (8 processes)", 730.0e3, 228.0e3),
            process("apache2 (32 processes)", 115.0e3, 12.0e3),
        ],
        waiting: vec![
            edge("apache2", "php-fpm8.2", Part::WaitProcess, 35_127, 2_300.0e3),
            edge("php-fpm8.2", "postgres", Part::WaitProcess, 70_254, 960.0e3),
            edge("php-fpm8.2", LOCK, Part::WaitLock, 401, 410.0e3),
            edge("postgres", "/dev/sda", Part::WaitDisk, 9_120, 210.0e3),
            edge("postgres", "postgres", Part::WaitLock, 12, 1.0e3),
        ],
        holders: vec![Holding {
            lock: "flock of /srv/app/cache.lock".to_owned(),
            holder: "backup".to_owned(),
            request: None,
            mean_ns: 410.0e3,
            parts_ns: times(&[]),
        }],
        course: Some(course()),
        decisions: vec![],
        long_lived: long_lived(),
        asked: vec![],
        queries: vec![
            query(
                "SELECT id, title, body FROM articles WHERE slug = ? ORDER BY published DESC LIMIT ?",
                35_127,
                640.0e3,
                18_300_000,
            ),
            query("UPDATE counters SET seen = seen + ? WHERE article = ?", 35_127, 300.0e3, 4_100_000),
        ],
        stacks: vec![
            stack(
                "GET /article.php",
                Part::Run,
                "main;php_execute_script;zend_execute_ex;[php] Article::render;preg_replace",
                420,
            ),
            stack(
                "GET /article.php",
                Part::Run,
                "main;php_execute_script;zend_execute_ex;[php] Article::load;json_decode",
                130,
            ),
            stack("GET /article.php", Part::Run, "main;php_execute_script;compile_file", 40),
            stack("GET /style.css", Part::Run, "main;ap_run_process_connection;ap_core_output_filter;writev", 55),
            stack(
                "GET /article.php",
                Part::WaitLock,
                "main;php_execute_script;zend_execute_ex;[php] Cache::get;flock",
                90,
            ),
        ],
        wakeups: Wakeups { accepted: 35_127, wakeups: 81_400, futile: 46_273, unseen: 0, futile_per_accepted: 1.317 },
        boundary: "from the time that the schedule intended to the last byte at the client".to_owned(),
        examples: vec![
            page("typical", 412, 30),
            page("typical", 2_412, 0),
            page("slow", 3_100, 41_000),
            page("slow", 6_100, 17_000),
        ],
        ..hog()
    }
}

/// More of everything than any page has room for.
pub(crate) fn huge() -> Explanation {
    let long = "a name that an admin made far longer than any person would read ".repeat(40);
    let many = |count: usize| (0..count).map(|number| format!("{number} {long}"));
    let mut explanation = whole();
    let mut example = page("slow", 1, 10);
    for (number, name) in many(400).enumerate() {
        let part = Part::ALL[number % Part::COUNT].name().to_owned();
        let from_ns = number as u64 * 10_000;
        example.steps.push(ExampleStep { part, from_ns, ns: 10_000, task: name.clone(), who: name.clone() });
        example.cpus.push(CpuSpell { cpu: number as u32 % 200, from_ns, ns: 9_000, task: name });
    }
    explanation.examples = vec![example; 8];
    let transaction = explanation.transactions[0].clone();
    explanation.transactions =
        many(5_000).map(|name| weir_report::Transaction { name, ..transaction.clone() }).collect();
    explanation.stacks = (0..60_000usize)
        .map(|number| Stack {
            class: format!("{} {long}", number % 300),
            part: Part::ALL[number % Part::COUNT].name().to_owned(),
            frames: (0..60).map(|depth| format!("f{} {long}", number * 7919 % (depth * depth + 1))).collect(),
            samples: 3,
            ns: 3_000_000,
        })
        .step_by(100)
        .collect();
    let query = explanation.queries[0].clone();
    explanation.queries = many(3_000).map(|text| Query { text, ..query.clone() }).collect();
    let edge = explanation.waiting[0].clone();
    explanation.waiting =
        many(3_000).map(|to| WaitingEdge { to, from: format!("{long} waits"), ..edge.clone() }).collect();
    let phase = explanation.phases[0].clone();
    explanation.phases = many(1_000).map(|name| Phase { name, ..phase.clone() }).collect();
    let process = explanation.processes[0].clone();
    explanation.processes = many(3_000).map(|name| ProcessShare { name, ..process.clone() }).collect();
    explanation.warnings = many(3_000).collect();
    explanation.subject = long.repeat(3_000);
    explanation
}
