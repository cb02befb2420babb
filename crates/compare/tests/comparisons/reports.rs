//! Verdicts, warnings and reports of outcomes made by hand: all are pure functions.
use crate::support;

use support::{command, plain_load, plan};
use weir_compare::{
    Block, BlockSlice, CpuAccounting, Ending, Fairness, Host, LoadDetails, LoadTool, Metric, Observed, Outcome,
    PageContext, Pair, Role, Slice, html_report, json_report, junit_report, markdown_report, reasons, subject_facts,
    terminal_details, terminal_report, verdicts, warnings,
};
use weir_measure::comparison::Verdict;
use weir_measure::part::Part;

/// A slice of a second at 10,000 requests for factor 1.
pub(crate) fn slice(cpu_factor: f64, rate_factor: f64, generator_cpu_share: f64) -> Slice {
    Slice {
        tool: LoadTool::Wrk,
        requests: (10_000.0 * rate_factor) as u64,
        errors: 0,
        duration_s: 1.0,
        wall_s: 1.0,
        rate_per_s: 10_000.0 * rate_factor,
        server_cpu_ns: (50_000_000.0 * cpu_factor) as u64,
        generator_cpu_ns: (1e9 * generator_cpu_share) as u64,
        generator_cpu_share,
        foreign_cpu_share: Some(0.01),
        cpu_ns_per_request: 5_000.0 * cpu_factor,
        server_system_ns: None,
        bytes: None,
        latency: None,
        memory: None,
        switches: None,
        involuntary_switches: None,
        details: LoadDetails::default(),
    }
}

/// Ten blocks of these two, eight of them with A once more, each swinging by up to 1 %.
#[expect(clippy::needless_pass_by_value, reason = "made where it is given")]
pub(crate) fn outcome(a: Slice, b: Slice) -> Outcome {
    let pair = Pair::of_servers(command("old"), command("new 'x y'"), &plain_load());
    let mut planned = plan(pair, 8081, 8082);
    planned.pinning.server = "0".parse().ok();
    planned.pinning.load = "1".parse().ok();
    let swung = |slice: &Slice, index: usize| {
        let swing = 1.0 + 0.002 * (index % 5) as f64;
        Slice {
            rate_per_s: slice.rate_per_s * swing,
            cpu_ns_per_request: slice.cpu_ns_per_request * swing,
            ..slice.clone()
        }
    };
    let block = |index: usize| {
        let slice = |role, slice| BlockSlice { role, slice };
        let mut slices = vec![slice(Role::Subject(0), swung(&a, index)), slice(Role::Subject(1), swung(&b, index * 3))];
        slices.extend((index < 8).then(|| slice(Role::Again, swung(&a, index * 2))));
        Block { case: 0, life: index, slices, failed: Vec::new() }
    };
    Outcome {
        plan: planned,
        accounting: CpuAccounting::ControlGroup,
        restarted: false,
        ending: Ending::Done,
        blocks: (0..10).map(block).collect(),
        observed: Vec::new(),
        unobserved: None,
    }
}

fn verdict_of(outcome: &Outcome, metric: Metric) -> Verdict {
    verdicts(outcome).into_iter().find(|judgement| judgement.metric == metric).expect("every metric is judged").verdict
}

#[test]
fn both_metrics_are_judged_in_their_own_direction() {
    let found = outcome(slice(1.0, 1.0, 0.5), slice(1.3, 1.3, 0.5));
    assert_eq!(verdict_of(&found, Metric::CpuNsPerRequest), Verdict::Worse);
    assert_eq!(verdict_of(&found, Metric::RatePerS), Verdict::Better);
    let found = outcome(slice(1.0, 1.0, 0.5), slice(1.01, 0.99, 0.5));
    assert_eq!(verdict_of(&found, Metric::CpuNsPerRequest), Verdict::TheSame);
    assert_eq!(verdict_of(&found, Metric::RatePerS), Verdict::TheSame);
    assert_eq!(warnings(&found), Vec::<String>::new());
}

#[test]
fn a_throughput_that_the_generator_set_is_not_the_servers() {
    let throughput = |share_a, rate_b, share_b| {
        let found = outcome(slice(1.0, 1.0, share_a), slice(1.0, rate_b, share_b));
        assert!(warnings(&found).iter().any(|warning| warning.contains("load generator")));
        assert_eq!(verdict_of(&found, Metric::CpuNsPerRequest), Verdict::TheSame);
        verdict_of(&found, Metric::RatePerS)
    };
    assert_eq!(throughput(0.99, 1.0, 0.99), Verdict::CannotTell);
    // B could have done even more, A not.
    assert_eq!(throughput(0.5, 1.3, 0.99), Verdict::Better);
    assert_eq!(throughput(0.99, 0.7, 0.5), Verdict::Worse);
    // B could have done more than it was seen to.
    assert_eq!(throughput(0.5, 0.7, 0.99), Verdict::CannotTell);
}

#[test]
fn what_a_reader_must_know_is_said() {
    let warned = |change: fn(&mut Outcome), what: &str| {
        let mut found = outcome(slice(1.0, 1.0, 0.5), slice(1.0, 1.0, 0.5));
        change(&mut found);
        let all = warnings(&found);
        assert!(all.iter().any(|warning| warning.contains(what)), "{what}: {all:?}");
    };
    warned(|found| found.blocks[0].slices[1].slice.errors = 3, "3 errors");
    warned(
        |found| found.blocks.iter_mut().for_each(|block| block.slices[0].slice.foreign_cpu_share = Some(0.4)),
        "others used 20 % of the CPUs",
    );
    warned(|found| found.ending = Ending::Interrupted, "10 blocks complete");
    warned(|found| found.ending = Ending::Budget, "the budget of time ended it");
    warned(|found| found.ending = Ending::Failed("server B died".to_owned()), "server B died");
    warned(|found| found.accounting = CpuAccounting::ProcessTree, "process tree");
    warned(|found| found.plan.pinning.load = found.plan.pinning.server.clone(), "share a CPU");
    warned(|found| found.blocks.iter_mut().for_each(|block| block.slices.truncate(2)), "--aa");
    warned(|found| found.blocks.drain(..7).for_each(drop), "3 blocks are too few for a verdict among 2 comparisons");
    warned(
        |found| {
            for again in
                found.blocks.iter_mut().flat_map(|block| &mut block.slices).filter(|found| found.role == Role::Again)
            {
                again.slice.cpu_ns_per_request *= 1.2;
            }
        },
        "the second slice differs from the first by +20",
    );
}

#[test]
fn the_terminal_has_units_words_and_the_way_back() {
    let found = outcome(slice(1.0, 1.0, 0.5), slice(1.3, 0.99, 0.97));
    let text = terminal_report(&found, "weir compare --a old --seed 7", false);
    for part in [
        "5.02 us",
        "6.53 us",
        "10.0k/s",
        "worse: B takes 30.",
        "cannot tell: the load generator was the limit",
        "10 blocks, A twice in 8 of them",
        "about eight times of ten",
        "new 'x y' (CPU 0) at http://127.0.0.1:8082/",
        "control group",
        "again: weir compare --a old --seed 7",
        "warning: ",
    ] {
        assert!(text.contains(part), "{part:?} is missing from\n{text}");
    }
    assert!(!text.contains('\x1b'));
    assert!(text.lines().count() <= 24, "one screen:\n{text}");
    assert!(terminal_report(&found, "", true).contains("\x1b[31m"));
}

#[test]
fn json_has_the_same_and_every_raw_block() {
    let found = outcome(slice(1.0, 1.0, 0.5), slice(1.3, 1.0, 0.5));
    let report = json_report(&found, "weir compare").expect("numbers and texts");
    let cpu = &report["cases"][0]["results"][0];
    assert_eq!(cpu["metric"], "cpu_ns_per_request");
    assert_eq!(cpu["verdict"], "worse");
    assert_eq!(cpu["ratio"]["blocks"], 10);
    assert!(cpu["ratio"]["low"].as_f64() <= cpu["ratio"]["median"].as_f64());
    assert_eq!((&cpu["subject"], &cpu["baseline"]), (&"B".into(), &"A".into()));
    assert!(cpu["corrected_probability"].as_f64() > cpu["probability"].as_f64());
    assert_eq!(report["blocks"].as_array().map(Vec::len), Some(10));
    assert_eq!(report["blocks"][0]["slices"][0]["requests"], 10_000);
    assert_eq!(report["plan"]["subjects"][1]["name"], "B");
    // Every fact comes back, so that later versions can judge old outcomes anew.
    let facts = serde_json::to_string(&found).expect("numbers and texts");
    assert_eq!(serde_json::from_str::<Outcome>(&facts).expect("our own"), found);
}

#[test]
fn what_each_subject_did_and_used_is_summed_up() {
    let mut found = outcome(slice(1.0, 1.0, 0.5), slice(1.3, 1.0, 0.5));
    let counts = |name: &str, count| [(name.to_owned(), count)].into_iter().collect();
    for slice in found.blocks.iter_mut().map(|block| &mut block.slices[1].slice) {
        slice.server_system_ns = Some(slice.server_cpu_ns / 4);
        (slice.switches, slice.involuntary_switches) = (Some(20_000), Some(5_000));
        slice.bytes = Some(1_000_000);
        slice.details.failures = counts("timeout", 2);
        slice.details.statuses = counts("404", 7);
        slice.details.fairness = Some(Fairness {
            clients: 10,
            least_bytes: 5,
            most_bytes: 50,
            least_requests: 1,
            most_requests: 10,
            jain_bytes: 0.5,
            jain_requests: 0.5,
        });
    }
    let parts_ns = [("run".to_owned(), 30.0), ("wait_lock".to_owned(), 10.0)].into_iter().collect();
    let boundary = "all of it".to_owned();
    found.observed = vec![Observed { case: 0, subject: 1, requests: 5, boundary, response_ns: 40.0, parts_ns }];
    let facts = subject_facts(&found, 0);
    assert_eq!(
        (facts[0].slices, facts[0].user_ns_per_request, facts[0].fairness, &facts[0].parts),
        (10, None, None, &None)
    );
    let b = &facts[1];
    assert_eq!((b.user_ns_per_request, b.system_ns_per_request), (Some(4875.0), Some(1625.0)));
    assert_eq!((b.switches_per_request, b.involuntary_switches_per_request), (Some(2.0), Some(0.5)));
    assert_eq!((b.bytes_per_request, b.bytes_per_s), (Some(100.0), Some(1e6)));
    assert_eq!(
        (b.failures["timeout"], b.statuses["404"], b.fairness.map(|found| found.most_bytes)),
        (20, 70, Some(50.0))
    );
    let parts: Vec<_> = b.parts.iter().flat_map(|found| &found.parts).map(|part| (part.part, part.mean_ns)).collect();
    assert_eq!(parts, [("run", 30.0), ("wait_lock", 10.0)]);
    let report = json_report(&found, "").expect("numbers and texts");
    assert_eq!(report["cases"][0]["subjects"][1]["parts"]["parts"][1]["part"], "wait_lock");
    let text = serde_json::to_string(&found).expect("numbers and texts");
    assert_eq!(serde_json::from_str::<Outcome>(&text).expect("our own"), found);
    // A folder of the form before has none of it.
    let mut old = serde_json::to_value(&found.blocks[0]).expect("numbers and texts");
    for slice in old["slices"].as_array_mut().expect("slices") {
        let keys = ["involuntary_switches", "failures", "statuses", "curve", "fairness"];
        keys.iter().for_each(|key| drop(slice.as_object_mut().expect("an object").remove(*key)));
    }
    let old: Block = serde_json::from_value(old).expect("blocks without it");
    assert_eq!(old.slices[1].slice.details, LoadDetails::default());
}

/// An observed slice of a subject that waits so long for a lock.
fn observed(subject: usize, lock_ns: f64, swing: f64) -> Observed {
    let parts_ns =
        [("run", 100_000.0), ("wait_lock", lock_ns), ("wait_cpu", 5_000.0 * swing), ("connect", 900.0 * swing)];
    let parts_ns: std::collections::BTreeMap<String, f64> =
        parts_ns.into_iter().map(|(name, ns)| (name.to_owned(), ns * (1.0 + 0.001 * swing))).collect();
    let response_ns = parts_ns.values().sum();
    Observed { case: 0, subject, requests: 100, boundary: "all".to_owned(), response_ns, parts_ns }
}

#[test]
fn what_makes_a_subject_slower_is_named() {
    let mut found = outcome(slice(1.3, 1.3, 0.5), slice(1.0, 1.0, 0.5));
    for (index, swing) in [1.0, 3.0, 2.0].into_iter().enumerate() {
        found.observed.push(observed(0, 10_000.0, swing));
        found.observed.push(observed(1, 410_000.0, 4.0 - swing));
        // Less than three slices of either tell nothing.
        assert_eq!(reasons(&found, 0)[0].response.is_some(), index == 2);
    }
    let why = &reasons(&found, 0)[0];
    let response = why.response.as_ref().expect("three slices of both");
    assert_eq!(response.parts.iter().map(|part| part.part).collect::<Vec<_>>(), [Part::WaitLock]);
    let part = response.parts[0];
    assert!((390_000.0..410_000.0).contains(&part.difference_ns), "{part:?}");
    assert!(part.low_ns <= part.difference_ns && part.difference_ns <= part.high_ns, "{part:?}");
    assert!((part.difference_ns + response.others_ns - response.difference_ns).abs() < 1e-6, "{response:?}");
    let words =
        "why              B's response is 400.8 us longer when observed: waits 400.8 us longer for a lock; all else is";
    let text = terminal_report(&found, "", false);
    assert!(text.contains(words), "{text}");
    assert!(markdown_report(&found, "").contains("Why: B's response is 400.8 us longer"));
    assert!(junit_report(&found, None).contains("waits 400.8 us longer for a lock"));
    let report = json_report(&found, "").expect("numbers and texts");
    assert_eq!(report["cases"][0]["reasons"][0]["response"]["parts"][0]["part"], "wait_lock");
    // What was counted from the server's side on one of both is not held against the other.
    found.observed[1].boundary = "less".to_owned();
    assert_eq!(reasons(&found, 0)[0].response, None);
    // No verdict, no reason.
    let mut same = outcome(slice(1.0, 1.0, 0.5), slice(1.0, 1.0, 0.5));
    same.observed = found.observed.clone();
    same.observed[1].boundary = "all".to_owned();
    assert!(reasons(&same, 0)[0].response.is_some());
    assert!(!terminal_report(&same, "", false).contains("why "));
}

#[test]
fn more_cpu_is_told_apart_into_the_kernels_and_its_own() {
    let mut found = outcome(slice(1.0, 1.0, 0.5), slice(1.5, 1.0, 0.5));
    for slice in found.blocks.iter_mut().flat_map(|block| &mut block.slices) {
        let requests = slice.slice.requests;
        slice.slice.server_cpu_ns = requests * if slice.role == Role::Subject(1) { 7_500 } else { 5_000 };
        slice.slice.server_system_ns = Some(requests * if slice.role == Role::Subject(1) { 4_500 } else { 2_000 });
    }
    let why = &reasons(&found, 0)[0];
    assert_eq!((why.system_ns, why.user_ns), (Some(2_500.0), None));
    let text = terminal_report(&found, "", false);
    assert!(text.contains("B runs 2.50 us more in the kernel for a request"), "{text}");
    let text = terminal_details(&found);
    assert!(text.contains("CPU in the kernel, a request") && text.contains("4.50 us"), "{text}");
}

#[test]
fn a_subject_that_only_fails_gets_no_verdict_and_a_warning_at_the_top() {
    let mut found = outcome(slice(1.0, 1.0, 0.5), slice(0.5, 2.0, 0.5));
    for slice in found.blocks.iter_mut().map(|block| &mut block.slices[1].slice) {
        slice.errors = slice.requests;
        slice.details.statuses = [("404".to_owned(), slice.requests)].into_iter().collect();
    }
    assert!(verdicts(&found).iter().all(|found| found.verdict == Verdict::CannotTell && found.only_failures));
    let text = terminal_report(&found, "", false);
    assert!(text.starts_with("warning: B answered nothing but errors: 200"), "{text}");
    assert!(text.contains("of status 404") && text.contains("no verdict: one of both answered nothing but errors"));
    assert!(markdown_report(&found, "").contains("# Comparison of servers\n\n> **Warning:** B answered nothing but"));
    // One that answered well once is judged.
    let slice = &mut found.blocks[0].slices[1].slice;
    (slice.errors, slice.details.statuses) = (0, [("304".to_owned(), 7)].into_iter().collect());
    assert!(verdicts(&found).iter().all(|found| !found.only_failures));
}

#[test]
fn markdown_has_a_row_for_each_metric_and_escapes_what_is_not_ours() {
    let mut found = outcome(slice(1.0, 1.0, 0.5), slice(1.3, 1.0, 0.5));
    found.plan.cases[0].name = "a | b <script>".to_owned();
    found.plan.subjects[1].name = "new*".to_owned();
    let text = markdown_report(&found, "weir compare `x`");
    for part in [
        "## a \\| b &lt;script&gt;",
        "| CPU per request | new\\* | 5.02 us | 6.53 us | **1.3",
        "worse: new\\* takes 30.",
        "`` weir compare `x` ``",
    ] {
        assert!(text.contains(part), "{part:?} is missing from\n{text}");
    }
    let rows: Vec<&str> = text.lines().filter(|line| line.starts_with('|')).collect();
    let columns = |row: &&str| row.replace("\\|", "").matches('|').count();
    assert_eq!(rows.len(), 4);
    assert!(rows.iter().all(|row| columns(row) == 8), "{text}");
}

#[test]
fn junit_fails_where_something_is_worse() {
    let mut found = outcome(slice(1.0, 1.0, 0.5), slice(1.3, 1.0, 0.97));
    let text = junit_report(&found, None);
    assert!(text.contains("tests=\"4\" failures=\"1\" errors=\"0\" skipped=\"1\""), "{text}");
    assert!(
        text.contains("name=\"B against A: CPU per request\">\n    <failure message=\"worse: B takes 30."),
        "{text}"
    );
    found.ending = Ending::Failed("\"no\" <room>\u{1}".to_owned());
    let text = junit_report(&found, None);
    assert!(text.contains("errors=\"1\"") && text.contains("&quot;no&quot; &lt;room&gt;?"), "{text}");
}

#[test]
fn the_page_has_the_numbers_of_the_json_and_escapes_what_is_not_ours() {
    let mut found = outcome(slice(1.0, 1.0, 0.5), slice(1.3, 0.99, 0.5));
    let part = |(name, ns): (&str, f64)| (name.to_owned(), ns);
    found.observed = [("run", 900.0), ("wait_lock", 100.0)]
        .map(|(name, ns)| Observed {
            case: 0,
            subject: usize::from(name == "run"),
            requests: 1234,
            boundary: "as the client sees it".to_owned(),
            response_ns: ns,
            parts_ns: [part((name, ns))].into(),
        })
        .to_vec();
    found.plan.subjects[1].name = "<new> & \"B\"".to_owned();
    let host = Host { processor: "<P>".to_owned(), cpus: 2, ..Host::default() };
    let context = PageContext { command: "weir compare --a '<x>' --seed 7", host: &host, at_s: 0, trends: None };
    let page = html_report(&found, &context);
    let json = json_report(&found, context.command).expect("numbers and texts");
    for result in json["cases"][0]["results"].as_array().expect("results") {
        let number = |of: &str, key: &str| result[of][key].as_f64().expect("a number");
        for text in [
            format!("<td class=\"n\">{:.3}</td>", number("ratio", "median")),
            format!("{:.3}\u{a0}to\u{a0}{:.3}", number("ratio", "low"), number("ratio", "high")),
            format!("{:.3}\u{a0}to\u{a0}{:.3}", number("noise", "low"), number("noise", "high")),
        ] {
            assert!(page.contains(&text), "{text:?} of {} is missing", result["metric"]);
        }
    }
    let of = |slice: usize| json["blocks"][5]["slices"][slice]["cpu_ns_per_request"].as_f64().expect("a number");
    assert!(page.contains(&format!("<td class=\"n\">6</td><td class=\"n\">{:.4}</td>", of(1) / of(0))), "block 6");
    for text in [
        "<h1>&lt;new&gt; &amp; &quot;B&quot; against A is worse in CPU per request, the same in throughput.</h1>",
        "worse: &lt;new&gt; &amp; &quot;B&quot; takes 30.",
        "&lt;P&gt;, 2 CPUs",
        "<dd>1970-01-01 00:00:00 UTC</dd>",
        "<code>weir compare --a &#39;&lt;x&gt;&#39; --seed 7</code>",
        "1,234 responses, as the client sees it",
        "<td class=\"n\">wait_lock</td>",
    ] {
        assert!(page.contains(text), "{text:?} is missing");
    }
    assert!(!page.contains("<new>") && !page.contains("<P>") && !page.contains("Since earlier results"));
}
