//! What holds for every explanation: lines keep to the width, nothing is not a number, names stay text.

use crate::made_up;

use made_up::whole::{huge, whole};
use made_up::{empty, hog, hostile, times, worker_queue};
use weir_measure::part::Part;
use weir_report::{Explanation, Style, html, terminal};

fn all() -> [Explanation; 5] {
    [hog(), worker_queue(), empty(), hostile(), whole()]
}

/// Text without the marks of its style.
fn plain(text: &str) -> String {
    let mut pieces = text.split("\x1b[");
    let mut plain = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        plain.push_str(piece.split_once('m').expect("only colours are escaped").1);
    }
    plain
}

#[test]
fn lines_keep_to_the_width() {
    for explanation in all() {
        for width in 64..=160 {
            for colours in [false, true] {
                let screen = terminal(&explanation, Style { colours, width });
                for line in plain(&screen).lines() {
                    assert!(line.chars().count() <= width, "{width} columns: {line}");
                    // Blanks in colour are the end of a bar.
                    assert!(colours || line == line.trim_end(), "blanks at the end of {line}");
                }
            }
        }
    }
}

#[test]
fn colours_change_nothing_else() {
    for explanation in [empty(), hostile()] {
        for width in [80, 120] {
            let coloured = terminal(&explanation, Style { colours: true, width });
            let uncoloured = terminal(&explanation, Style { colours: false, width });
            assert_eq!(plain(&coloured).lines().count(), uncoloured.lines().count());
            assert!(!uncoloured.contains('\x1b'));
        }
    }
}

#[test]
fn what_was_sent_again_is_said() {
    for (retried, said) in
        [(0, ""), (1, "1 request sent again on a new connection"), (1_234, "1,234 requests sent again")]
    {
        let explanation = Explanation { retried, ..hog() };
        let text = terminal(&explanation, Style { colours: false, width: 120 });
        assert!(text.contains(said) && text.contains("sent again") == (retried > 0), "{text}");
        assert_eq!(html(&explanation).contains("sent again on a new connection"), retried > 0);
    }
}

#[test]
fn the_first_screen_is_a_screen() {
    // What stays open has its own lines, of each kind and name; percentiles have six and a blank one.
    let closed = Explanation { long_lived: Vec::new(), percentiles: Vec::new(), ..whole() };
    for (explanation, most) in [(hog(), 41), (closed, 47), (whole(), 62), (worker_queue(), 48)] {
        let lines = terminal(&explanation, Style { colours: false, width: 80 }).lines().count();
        assert!(lines <= most, "{lines} lines");
    }
}

#[test]
fn a_page_of_any_explanation_has_at_most_ten_megabytes() {
    let page = html(&huge());
    assert!(page.len() <= 10_000_000, "{} bytes", page.len());
    assert!(page.len() > 1_000_000, "what there was room for is shown");
    for section in ["Parts of the response", "What this rests on", "Distribution of response times"] {
        assert!(page.contains(section), "{section} gave way");
    }
    assert!(page.contains("`weir explain --json` has"), "what is left out is not told");
}

#[test]
fn every_section_is_there_when_it_has_something_to_show() {
    let (full, without) = (html(&whole()), html(&hog()));
    for id in ["phases", "processes", "waiting", "queries", "long-lived", "stacks", "wakeups", "course"] {
        let section = format!("aria-labelledby=\"{id}-h\"");
        assert!(full.contains(&section), "{id} is missing");
        assert!(!without.contains(&section), "{id} is shown although there is nothing in it");
    }
    for text in
        ["SELECT id, title", "Article::render", "flock of /srv/app/cache.lock", "CPU 1", "1.32", "class=\"arrows\""]
    {
        assert!(full.contains(text), "{text} is missing");
    }
}

#[test]
fn futile_wake_ups_are_told_for_each_of_what_there_is_more_of() {
    let style = Style { colours: false, width: 100 };
    let mut explanation = whole();
    explanation.requests = explanation.wakeups.accepted;
    assert!(terminal(&explanation, style).contains("1.32 for each accepted connection"));
    // Connections that are kept alive: a few bear all requests, and for each of them it would be a thousand.
    (explanation.requests, explanation.wakeups.accepted) = (92_546, 46);
    explanation.wakeups.futile_per_accepted = 46_273.0 / 46.0;
    let (screen, page) = (terminal(&explanation, style), html(&explanation));
    assert!(screen.contains("0.50 for each answered request"), "{screen}");
    assert!(page.contains("for each answered request") && !page.contains("for each accepted connection"));
}

#[test]
fn the_answer_comes_first() {
    let screen = terminal(&hog(), Style { colours: false, width: 100 });
    let second = screen.lines().nth(1).expect("a screen has lines");
    assert!(second.starts_with("81 % of the mean response is waiting for a CPU"), "{second}");
}

#[test]
fn a_terminal_is_sent_no_commands_of_others() {
    let screen = terminal(&hostile(), Style { colours: true, width: 100 });
    assert!(!screen.contains("\x1b[2J") && !screen.contains('\u{202e}'));
    assert!(screen.contains("\u{fffd}[2J"), "what was refused is shown as such");
}

#[test]
fn names_of_others_stay_text() {
    let page = html(&hostile());
    let body = page.split("<script>").collect::<Vec<_>>();
    assert_eq!(body.len(), 2, "there is one script, which is ours");
    for markup in ["<img", "onerror=a&b", "</title><script", "\u{202e}", "\x1b"] {
        assert!(!page.contains(markup), "{markup:?} came through");
    }
    for place in [
        "subject",
        "run",
        "host",
        "version",
        "rung",
        "errors",
        "unjoinable",
        "not_observed",
        "warnings",
        "cause",
        "slow cause",
        "class",
        "example",
        "step",
        "task",
        "who",
        "boundary",
        "cpu task",
        "phase",
        "phase server",
        "process",
        "from",
        "to",
        "query",
        "query server",
        "frame",
        "stack class",
        "lock",
        "holder",
        "held request",
    ] {
        let text = format!("&lt;script&gt;alert(&#39;{place}&#39;)&lt;/script&gt;&quot;&gt;");
        assert!(page.contains(&text), "{place} is not shown");
    }
}

#[test]
fn the_page_loads_nothing() {
    for explanation in [hog(), worker_queue(), empty(), whole()] {
        let page = html(&explanation);
        for loading in ["src=", "href=", "@import", "fetch(", "XMLHttpRequest"] {
            assert!(!page.contains(loading), "{loading}");
        }
        // The hatching is the one thing that is referred to, within the page.
        assert_eq!(page.matches("url(").count(), page.matches("url(#hatch)").count());
    }
}

#[test]
fn elements_are_closed() {
    for explanation in all() {
        let page = html(&explanation);
        for element in [
            "section", "div", "table", "thead", "tbody", "tr", "th", "td", "svg", "g", "ol", "ul", "li", "dl", "dt",
            "dd", "p", "span", "details", "article", "text", "aside", "header", "main", "h1", "h2", "h3", "dialog",
            "form", "button", "code", "i", "kbd",
        ] {
            let begun = page.matches(&format!("<{element}>")).count() + page.matches(&format!("<{element} ")).count();
            assert_eq!(begun, page.matches(&format!("</{element}>")).count(), "{element}");
        }
    }
}

#[test]
fn nothing_shown_is_not_a_number() {
    let mut broken = worker_queue();
    broken.rate_per_s = f64::NAN;
    broken.duration_s = f64::NAN;
    broken.noise_floor = Some(f64::INFINITY);
    broken.joined_fraction = f64::NAN;
    broken.observer_cost.cpu_seconds = f64::NAN;
    broken.observer_cost.cpu_share = f64::NAN;
    broken.observer_cost.events_per_request = f64::NAN;
    broken.sum_of_parts_over_response.mean = f64::NAN;
    broken.median_response_ns = f64::NAN;
    broken.slow_response_ns = f64::INFINITY;
    broken.server_cpu.utilisation = f64::INFINITY;
    broken.server_cpu.waited_ns_per_request = f64::NAN;
    broken.parts_ns = [f64::NAN; Part::COUNT];
    broken.slow_parts_ns = times(&[(Part::Run, f64::INFINITY)]);
    broken.transactions[0].parts_ns = [f64::NAN; Part::COUNT];
    broken.transactions[1].response_ns = None;
    let mut odd = whole();
    odd.phases[0].mean_ns = f64::NAN;
    odd.phases[1].parts_ns = [f64::INFINITY; Part::COUNT];
    odd.processes[0].run_ns = f64::NAN;
    odd.processes[1].wait_ns = f64::INFINITY;
    odd.waiting[0].mean_ns = f64::NAN;
    odd.waiting[1].mean_ns = f64::INFINITY;
    odd.queries[0].mean_ns = f64::NAN;
    odd.wakeups.futile_per_accepted = f64::NAN;
    let mut instant = hog();
    for example in &mut instant.examples {
        example.response_ns = 0;
        example.steps.clear();
    }
    instant.response_ns = instant.response_ns.map(|times| weir_measure::summary::Summary {
        min: 0,
        p50: 0,
        p90: 0,
        p99: 0,
        p99_9: 0,
        max: 0,
        mean: 0.0,
        stdev: 0.0,
        ..times
    });
    for explanation in [broken, odd, instant, empty()] {
        let screen = terminal(&explanation, Style { colours: false, width: 80 });
        let page = html(&explanation);
        for text in [&screen, &page] {
            for word in ["NaN", "inf ", "inf%", "inf<", "-0 ns", "-0 %"] {
                let place = text.find(word).map(|at| &text[at.saturating_sub(60)..at + word.len()]);
                assert_eq!(place, None, "{word:?}");
            }
        }
    }
}

/// A lock, who has it, for which request, the share of the wait, and what that request does, as shares of it.
type Held<'a> = (&'a str, &'a str, Option<&'a str>, f64, &'a [(Part, f64)]);

/// Requests that wait for locks.
fn locked(holders: &[Held<'_>]) -> Explanation {
    let mut explanation = hog();
    explanation.causes[0].part = Part::WaitLock.name().to_owned();
    explanation.slow_causes.clear();
    let mean_ns = explanation.causes[0].mean_ns;
    explanation.holders = holders
        .iter()
        .map(|(lock, holder, request, share, parts)| weir_report::Holding {
            lock: (*lock).to_owned(),
            holder: (*holder).to_owned(),
            request: request.map(str::to_owned),
            mean_ns: share * mean_ns,
            parts_ns: times(&parts.iter().map(|(part, of)| (*part, of * share * mean_ns)).collect::<Vec<_>>()),
        })
        .collect();
    explanation
}

#[test]
fn the_headline_names_the_culprit_as_far_as_it_is_known() {
    let slept: &[(Part, f64)] = &[(Part::WaitTimer, 0.9), (Part::Run, 0.1)];
    let x = "flock of /var/lib/x.lock";
    let page = "GET /slow.php";
    for (holders, said) in [
        (
            vec![(x, "php-fpm8.2", Some(page), 1.0, slept)],
            "a lock, flock of /var/lib/x.lock, held by php-fpm8.2 for GET /slow.php, which slept;",
        ),
        (vec![(x, "php-fpm8.2", Some(page), 1.0, &[] as &[_])], "held by php-fpm8.2 for GET /slow.php;"),
        (vec![(x, "cron", None, 0.8, &[])], "a lock, 80 % of it flock of /var/lib/x.lock, held by cron;"),
        (vec![(x, "php-fpm8.2", Some(page), 0.3, slept), (x, "php-fpm8.2", None, 0.7, &[])], "held by php-fpm8.2;"),
        (vec![(x, "a", None, 0.4, &[]), (x, "b", None, 0.3, &[]), (x, "c", None, 0.3, &[])], "x.lock;"),
    ] {
        let explanation = locked(&holders);
        let screen = terminal(&explanation, Style { colours: false, width: 400 });
        let line = screen.lines().nth(1).expect("a screen has lines");
        assert!(line.contains(said), "{said:?} is not in {line:?}");
        let text =
            html(&explanation).split("<h1>").nth(1).and_then(|rest| rest.split("</h1>").next()).map(str::to_owned);
        assert!(text.is_some_and(|text| text.replace('\u{a0}', " ").contains(said)), "{said:?} is not in the page");
    }
    // Of many locks none is the culprit.
    let spread = locked(&[(x, "a", None, 0.3, &[]), ("flock of /b", "a", None, 0.3, &[])]);
    let screen = terminal(&spread, Style { colours: false, width: 400 });
    assert!(screen.lines().nth(1).is_some_and(|line| !line.contains("x.lock")), "{screen}");
    let screen = terminal(&hog(), Style { colours: false, width: 400 });
    assert!(screen.contains("waiting for a CPU, 93 % of it taken by hog (4242);"), "{screen}");
}

#[test]
fn classes_and_the_course_of_the_run_stand_before_the_charts() {
    let page = html(&whole());
    let at = |id: &str| page.find(&format!("id=\"{id}-h\"")).unwrap_or_else(|| panic!("{id} is missing"));
    for chart in ["waiting", "stacks"] {
        assert!(at("classes") < at(chart) && at("course") < at(chart), "{chart} comes first");
    }
    assert!(at("where") < at("classes"), "the answer comes first");
}

#[test]
fn the_largest_part_of_a_bar_is_framed_and_a_part_has_one_colour_in_all_pictures() {
    let page = html(&whole());
    // 402 of 844 us of the median are waits for a CPU.
    let median = page.split("aria-label=\"Median").nth(1).and_then(|rest| rest.split("</svg>").next()).expect("a bar");
    assert_eq!(median.matches(" lead\"").count(), 1);
    assert!(median.contains("<g class=\"p-wait_cpu lead\""), "{median}");
    for part in Part::ALL {
        let rules = page.matches(&format!(".p-{}{{fill:", part.name())).count();
        assert_eq!(rules, 1, "{}", part.name());
    }
}
