//! Steps of made-up responses.

use weir_measure::part::Part;
use weir_report::{Example, ExampleStep};

/// A response of steps without gaps: part, microseconds, task, who.
fn response(sort: &str, name: &str, at_ms: u64, steps: &[(Part, f64, &str, &str)]) -> Example {
    let mut from_ns = 0;
    let mut made = Vec::new();
    for (part, us, task, who) in steps {
        let ns = (us * 1e3) as u64;
        made.push(ExampleStep {
            part: part.name().to_owned(),
            from_ns,
            ns,
            task: (*task).to_owned(),
            who: (*who).to_owned(),
        });
        from_ns += ns;
    }
    Example {
        sort: sort.to_owned(),
        name: name.to_owned(),
        status: 200,
        response_ns: from_ns,
        at_ns: at_ms * 1_000_000,
        steps: made,
        cpus: vec![],
        holders: vec![],
    }
}

/// Four typical and four slow responses of Apache behind a hog.
pub(crate) fn hog() -> Vec<Example> {
    let apache = "apache2 (1311)";
    let one = |sort: &str, at_ms: u64, waits: &[f64]| {
        let mut steps = vec![
            (Part::Generator, 2.0, "", ""),
            (Part::Connect, 38.0, "", ""),
            (Part::RequestTransit, 21.0, "", ""),
            (Part::AcceptQueue, 12.0 + waits[0] / 20.0, "", ""),
        ];
        for wait in waits {
            steps.push((Part::WaitCpu, *wait, apache, "hog (4242)"));
            steps.push((Part::Run, 250.0 / waits.len() as f64, apache, ""));
        }
        steps.push((Part::WaitDisk, waits[0] / 30.0, apache, ""));
        steps.push((Part::Run, 26.0, apache, ""));
        steps.push((Part::ResponseTransit, 28.0, "", ""));
        steps.push((Part::ClientWakeup, 31.0, "weir (1402)", ""));
        response(sort, "GET /", at_ms, &steps)
    };
    vec![
        one("typical", 412, &[410.0]),
        one("typical", 1_871, &[190.0, 202.0]),
        one("typical", 5_133, &[120.0, 180.0, 131.0]),
        one("typical", 7_040, &[455.0]),
        one("slow", 3_127, &[12_003.0, 8_001.0, 6_900.0]),
        one("slow", 3_128, &[12_000.0, 9_999.0]),
        one("slow", 6_402, &[19_400.0]),
        one("slow", 8_833, &[4_000.0, 4_003.0, 3_998.0, 4_001.0]),
    ]
}

/// Typical responses of 100 us, a slow one of half a minute with many steps, and others between.
pub(crate) fn worker_queue() -> Vec<Example> {
    let nginx = "nginx: worker process that an admin gave a name beyond all measure (2001)";
    let short = |at_ms: u64, queue: f64| {
        let steps = [
            (Part::RequestTransit, 11.0, "", ""),
            (Part::WorkerQueue, queue, nginx, nginx),
            (Part::Run, 18.0, nginx, ""),
            (Part::ResponseTransit, 10.0, "", ""),
            (Part::ClientWakeup, 5.0, "weir (1999)", ""),
        ];
        response("typical", "GET /static/site.css", at_ms, &steps)
    };
    let mut longest = vec![(Part::RequestTransit, 14.0, "", ""), (Part::WorkerQueue, 23.9e6, nginx, nginx)];
    for _ in 0..150 {
        longest.push((Part::Run, 21.0, nginx, ""));
        longest.push((Part::WaitTimer, 14_000.0, nginx, ""));
    }
    let long_name = "POST /api/v2/customers/4711/addresses/17/a-path-that-an-admin-made-much-longer-than-any-table-would-like/confirm";
    // Its steps were too many to be kept.
    let mut cut = response("slow", long_name, 3_000, &longest);
    cut.response_ns += 4_000_000_000;
    let slow = |at_ms: u64, queue: f64| {
        let steps = [
            (Part::WorkerQueue, queue, nginx, nginx),
            (Part::Run, 300.0, nginx, ""),
            (Part::WaitNetwork, 4_200.0, nginx, "10.0.0.7:5432"),
            (Part::Run, 120.0, nginx, ""),
            (Part::ResponseTransit, 10.0, "", ""),
        ];
        response("slow", "GET /shop/17?q=1", at_ms, &steps)
    };
    vec![
        short(12, 60.0),
        short(977, 61.5),
        short(20_411, 59.0),
        short(41_000, 60.3),
        cut,
        slow(3_100, 210_000.0),
        slow(3_200, 120_000.0),
        slow(3_300, 20_000.0),
    ]
}
