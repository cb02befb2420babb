//! The page of an experiment: what it says and holds, and in a real browser that it fits, makes no error and obeys keys.

use tempfile::TempDir;
use weir_measure::comparison::{Estimate, Interval, Verdict};
use weir_measure::part::Part;
use weir_report::{
    Compared, ComparedCase, ComparedPoint, ComparedResult, ComparedSeries, ComparedSubject, compared_html,
};
use weir_testkit::browser::Browser;
use weir_testkit::require;

const HOSTILE: &str = "\"><script>alert(1)</script><b>&\u{202e}";

fn estimate(point: f64, reach: f64, blocks: usize) -> Estimate {
    Estimate { point, interval: Interval { low: point / reach, high: point * reach }, blocks }
}

fn result(subject: &str, metric: &str, point: f64, verdict: Verdict) -> ComparedResult {
    let wave = |block: usize| 1.0 + 0.02 * ((block * 7 % 11) as f64 / 5.0 - 1.0);
    let far = |block: usize| if block == 13 { 3.0 } else { 1.0 };
    ComparedResult {
        subject: subject.to_owned(),
        metric: metric.to_owned(),
        baseline_value: "5.75 us".to_owned(),
        value: "6.43 us".to_owned(),
        ratio: Some(estimate(point, 1.02, 20)),
        noise: Some(estimate(0.985, 1.02, 10)),
        verdict,
        words: format!("{verdict:?}: {subject} takes 10.7 % more of it"),
        chance: Some(0.0004),
        smallest_found: Some(0.031),
        ratios: (1..=20).map(|block| (block, point * wave(block) * far(block))).collect(),
        repeated: (1..=20).step_by(2).map(|block| (block, 0.985 * wave(block + 3))).collect(),
    }
}

fn subject(name: &str, factor: f64) -> ComparedSubject {
    let curve = [0.0, 10.0, 25.0, 50.0, 75.0, 90.0, 95.0, 99.0, 99.5, 99.9, 99.95, 99.99, 100.0];
    let mut parts = [0.0; Part::COUNT];
    for (part, us) in
        [(Part::RequestTransit, 9.0), (Part::Run, 31.0), (Part::WaitLock, 12.0), (Part::ResponseTransit, 6.0)]
    {
        parts[part as usize] = us * 1e3 * if part == Part::WaitLock { factor.powi(9) } else { factor };
    }
    ComparedSubject {
        name: name.to_owned(),
        requests: 150_000,
        curve: curve.into_iter().map(|at| (at, factor * 40_000.0 * (1.0 + 20.0 / (100.03 - at)))).collect(),
        parts_ns: Some(parts),
        parts_words: "10,000 responses, from the client's send to its receipt".to_owned(),
    }
}

fn case(name: &str, subjects: &[(&str, f64)]) -> ComparedCase {
    let (baseline, others) = subjects.split_first().expect("a baseline");
    let metrics = ["CPU per request", "throughput", "median response", "99th percentile", "memory"];
    let verdicts = [Verdict::Worse, Verdict::Better, Verdict::TheSame, Verdict::CannotTell, Verdict::Worse];
    let results = others.iter().flat_map(|(subject, factor)| {
        metrics.iter().zip(verdicts).map(move |(metric, verdict)| result(subject, metric, *factor, verdict))
    });
    ComparedCase {
        name: name.to_owned(),
        manner: "10 connections; 20 blocks, the baseline twice in 10 of them; 1 s a slice after 1 s of warm-up"
            .to_owned(),
        baseline: baseline.0.to_owned(),
        smallest_effect: 0.02,
        results: results.collect(),
        why: others
            .iter()
            .map(|(name, _)| ((*name).to_owned(), vec![format!("{name}'s response waits <longer>")]))
            .collect(),
        subjects: subjects.iter().map(|(name, factor)| subject(name, *factor)).collect(),
        facts: vec![
            ("requests".to_owned(), subjects.iter().map(|_| "1,000,000".to_owned()).collect()),
            ("CPU per request outside the kernel".to_owned(), subjects.iter().map(|_| "1.21 us".to_owned()).collect()),
        ],
    }
}

fn history() -> Vec<ComparedSeries> {
    let point = |index: u32| {
        let level = if index < 24 { 1.05 } else { 1.107 };
        let value = level * (1.0 + 0.01 * (f64::from(index * 5 % 7) / 3.0 - 1.0)) * if index == 9 { 1.2 } else { 1.0 };
        ComparedPoint {
            label: format!("2026-11-{:02} 10:00:00 commit-{index}", 1 + index % 28),
            value,
            shown: format!("{value:.3}"),
            level,
            begins: index == 24,
        }
    };
    vec![ComparedSeries {
        name: "CPU per request, B over A".to_owned(),
        words: "worse by 5.4 % since commit-24, 8 results ago: 1.050 before, 1.107 since".to_owned(),
        is_ratio: true,
        is_worse: Some(true),
        points: (0..32).map(point).collect(),
    }]
}

fn pair() -> Compared {
    Compared {
        subject: "B against A".to_owned(),
        answer: "B is worse than A in CPU per request and memory, better in throughput, the same in the median response; about the 99th percentile one cannot tell.".to_owned(),
        warnings: vec!["others used 20 % of the CPUs".to_owned()],
        cases: vec![case("", &[("A", 1.0), ("B", 1.107)])],
        history: history(),
        history_words: vec!["CPU per request, B over A: worse by 5.4 % since commit-24".to_owned()],
        evidence: vec![("Machine".to_owned(), "a processor, 2 CPUs, Linux".to_owned()), ("Seed".to_owned(), "7".to_owned())],
        commands: vec![("Again".to_owned(), "weir compare --a './server old.conf' --b './server new.conf' --url http://127.0.0.1:8080/ --seed 7".to_owned())],
    }
}

fn many() -> Compared {
    let long =
        "a server with a name that is longer than anybody would choose, in order to see what becomes of it on a page";
    let subjects = [("nginx", 1.0), (HOSTILE, 0.93), (long, 1.6), ("ours", 0.2)];
    Compared {
        subject: format!("4 subjects, 2 cases {HOSTILE}"),
        answer: "Of 30 comparisons 6 are better and 12 worse.".to_owned(),
        cases: vec![case(HOSTILE, &subjects), case("1 KiB", &subjects)],
        evidence: vec![(HOSTILE.to_owned(), HOSTILE.to_owned())],
        commands: vec![("Again".to_owned(), HOSTILE.to_owned())],
        warnings: vec![HOSTILE.to_owned()],
        ..Compared::default()
    }
}

#[test]
fn it_opens_with_the_verdicts_and_shows_what_they_rest_on() {
    let page = compared_html(&pair());
    let place = |text: &str| page.find(text).unwrap_or_else(|| panic!("{text:?} is missing"));
    let order = [
        "<h1>B is worse",
        "class=\"failures\">CPU per request, B over A: worse",
        "Before trusting",
        "The verdicts",
        "Why: B&#39;s response waits &lt;longer&gt;.",
        ">All metrics<",
        "Ratios block by block",
        "Percentiles of latency",
        "Parts of the mean response",
        "What each did",
        "Since earlier results",
        "What this rests on",
    ];
    let places = order.map(place);
    assert!(places.is_sorted(), "{places:?}");
    // Every number of the results, of every block, and of the history stands in a table.
    for text in
        ["1.085 to 1.129", "0.966 to 1.005", "0.0004", "3.1\u{a0}%", "<td class=\"n\">99.99\u{a0}%</td>", "commit-31"]
    {
        assert!(page.contains(text), "{text:?} is missing");
    }
    let ratio = format!("<td class=\"n\">{:.4}</td>", pair().cases[0].results[0].ratios[6].1);
    assert!(page.contains(&ratio), "{ratio}");
    assert_eq!(page.matches("id=\"blocks-0-").count(), 5);
    assert_eq!(page.matches("One ratio lies beyond the plot").count(), 5);
    // Bars on one scale: the baseline's is shorter.
    assert!(page.contains("class=\"scaled\" style=\"width:100%\"") && page.matches("class=\"scaled\"").count() == 2);
    let nothing = compared_html(&Compared::default());
    assert!(!nothing.contains("NaN") && !nothing.contains("<section aria-labelledby=\"history"), "{nothing}");
}

#[test]
fn nothing_of_others_becomes_markup() {
    let page = compared_html(&many());
    assert_eq!(page.matches("<script").count(), 1);
    assert!(page.contains("&lt;script&gt;") && !page.contains("alert(1)</script>") && !page.contains('\u{202e}'));
    for loading in ["src=", "href=", "url(http", "@import"] {
        assert!(!page.contains(loading), "{loading}");
    }
    let ids: Vec<&str> = page.split(" id=\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    let mut once = ids.clone();
    once.sort_unstable();
    once.dedup();
    assert_eq!(ids.len(), once.len(), "an id is used twice");
}

#[test]
fn a_page_of_very_many_comparisons_keeps_its_bound() {
    let subjects: Vec<(String, f64)> = (0..32).map(|index| (format!("subject {index}"), 1.0)).collect();
    let subjects: Vec<(&str, f64)> = subjects.iter().map(|(name, factor)| (name.as_str(), *factor)).collect();
    let cases = (0..30).map(|index| case(&format!("case {index}"), &subjects)).collect();
    let page = compared_html(&Compared { cases, ..Compared::default() });
    assert!(page.len() < 10_000_000, "{}", page.len());
    assert!(page.contains("`weir compare --json` has them") && page.contains(">case 29<"));
}

#[test]
fn pages_fit_on_screens_and_keys_tell_values() {
    if require::browser().is_none() {
        return;
    }
    let (folder, mut browser) = (TempDir::new().expect("a directory"), Browser::start());
    let shots = std::env::var_os("WEIR_SHOTS").map(std::path::PathBuf::from);
    for (name, compared) in [("compared", pair()), ("compared-many", many())] {
        let path = shots.as_deref().unwrap_or(folder.path()).join(format!("{name}.html"));
        std::fs::write(&path, compared_html(&compared)).expect("the page is written");
        for (width, dark) in [(400, true), (400, false), (1280, true), (1280, false)] {
            browser.screen(width, 900, dark);
            browser.open(&format!("file://{}", path.display()));
            if let Some(folder) = &shots {
                let file = folder.join(format!("{name}-{width}-{dark}.png"));
                std::fs::write(file, browser.picture(true)).expect("a picture is written");
            }
            let wide = browser.value("document.documentElement.scrollWidth").as_f64().expect("a number");
            assert!(wide <= f64::from(width), "{name} at {width}: {wide}");
            let crossing = browser.value(
                "[...document.querySelectorAll('.lines')].some((plot) => { \
                   const boxes = [...plot.querySelectorAll('i.x')].map((name) => name.getBoundingClientRect()).filter((box) => box.width); \
                   boxes.sort((one, two) => one.left - two.left); \
                   return boxes.some((box, at) => at > 0 && boxes[at - 1].right > box.left); })",
            );
            assert_eq!(crossing, false, "{name} at {width}");
        }
        browser.value("document.querySelector('#blocks-0-0').focus()");
        for _ in 0..3 {
            browser.press("ArrowRight");
        }
        let told =
            browser.value("document.querySelector('#blocks-0-0').parentElement.querySelector('.told').textContent");
        assert!(told.as_str().is_some_and(|told| told.starts_with("block 3: ")), "{told}");
        assert_eq!(browser.errors(), &[] as &[String], "{name}");
    }
}
