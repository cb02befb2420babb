//! The page in a real browser: no errors, nothing loaded, nothing wider than the screen, and the keys work.

use crate::made_up;

use made_up::whole::whole;
use made_up::{hostile, worker_queue};
use std::path::Path;
use tempfile::TempDir;
use weir_report::{Explanation, html};
use weir_testkit::browser::Browser;
use weir_testkit::require;

/// Opens the page of an explanation from a file.
fn open(browser: &mut Browser, folder: &Path, explanation: &Explanation, hash: &str) {
    let path = folder.join("report.html");
    std::fs::write(&path, html(explanation)).expect("the page is written");
    browser.open(&format!("file://{}{hash}", path.display()));
}

const WIDTH: &str = "document.querySelector('[data-zoom=typical-1] .inner').offsetWidth";

#[test]
fn keys_zoom_search_and_tell_themselves() {
    if require::browser().is_none() {
        return;
    }
    let (folder, mut browser) = (TempDir::new().expect("a directory"), Browser::start());
    browser.screen(1280, 900, false);
    open(&mut browser, folder.path(), &whole(), "");
    let number = |browser: &mut Browser, of: &str| browser.value(of).as_f64().unwrap_or_else(|| panic!("{of}"));
    // The charts in their order are the flame charts and those of the examples.
    browser.value("document.querySelector('[data-zoom=typical-1] .pane').focus()");
    let before = number(&mut browser, WIDTH);
    for _ in 0..3 {
        browser.press("+");
    }
    assert!((number(&mut browser, WIDTH) / before - 8.0).abs() < 0.01);
    browser.wait_for("location.hash.startsWith('#chart=typical-1&zoom=8')");
    let left = "document.querySelector('[data-zoom=typical-1] .pane').scrollLeft";
    let at = number(&mut browser, left);
    assert!(at > 0.0, "it stays at the middle");
    browser.press("ArrowRight");
    assert!(number(&mut browser, left) > at);
    browser.press("-");
    assert!((number(&mut browser, WIDTH) / before - 4.0).abs() < 0.01);
    browser.press("0");
    assert_eq!(number(&mut browser, WIDTH), before);
    browser.press("/");
    browser.type_in("preg_replace");
    browser.wait_for("document.querySelectorAll('.f.hit').length === 1");
    browser.press("Escape");
    browser.wait_for("document.querySelectorAll('.hit').length === 0");
    browser.press("?");
    assert_eq!(browser.value("document.querySelector('#keys').open"), true);
    browser.press("n");
    assert_eq!(browser.errors(), &[] as &[String]);
}

#[test]
fn the_address_brings_a_zoomed_chart_back() {
    if require::browser().is_none() {
        return;
    }
    let (folder, mut browser) = (TempDir::new().expect("a directory"), Browser::start());
    browser.screen(1280, 900, false);
    open(&mut browser, folder.path(), &whole(), "#chart=slow-2&zoom=16&at=0.5");
    let chart = "document.querySelector('[data-zoom=slow-2]')";
    browser.wait_for(&format!("{chart}.closest('details').open"));
    let shown = browser.value(&format!(
        "(({{pane, inner}}) => [inner.offsetWidth / pane.clientWidth, pane.scrollLeft / inner.offsetWidth])\
         ({{pane: {chart}.querySelector('.pane'), inner: {chart}.querySelector('.inner')}})"
    ));
    let [zoom, at] = [0, 1].map(|index| shown[index].as_f64().expect("a number"));
    assert!((zoom - 16.0).abs() < 0.01 && (at - 0.5).abs() < 0.001, "{shown}");
    assert_eq!(browser.errors(), &[] as &[String]);
}

#[test]
fn pages_fit_on_screens_and_run_without_errors() {
    if require::browser().is_none() {
        return;
    }
    let (folder, mut browser) = (TempDir::new().expect("a directory"), Browser::start());
    for (name, explanation) in [("whole", whole()), ("worker_queue", worker_queue()), ("hostile", hostile())] {
        for (width, dark) in [(1280, false), (1280, true), (400, false), (400, true)] {
            browser.screen(width, 900, dark);
            open(&mut browser, folder.path(), &explanation, "");
            let broad = browser.value("document.documentElement.scrollWidth").as_u64();
            assert!(broad <= Some(u64::from(width)), "{name}: {broad:?} pixels on a screen of {width}");
            if let Some(folder) = std::env::var_os("WEIR_SHOTS") {
                let file =
                    Path::new(&folder).join(format!("{name}-{width}-{}.png", if dark { "dark" } else { "light" }));
                std::fs::write(file, browser.picture(true)).expect("a picture is written");
            }
        }
    }
    assert_eq!(browser.errors(), &[] as &[String]);
}

/// Boxes of the page, as [left, top, right, bottom], of what a selector finds and is shown.
fn boxes(browser: &mut Browser, selector: &str) -> Vec<[f64; 4]> {
    let found = browser.value(&format!(
        "[...document.querySelectorAll('{selector}')].map((one) => one.getBoundingClientRect()).filter((box) => box.width > 0)\
         .map((box) => [box.left, box.top, box.right, box.bottom])"
    ));
    let side = |number: &serde_json::Value| number.as_f64().expect("a number");
    let box_of = |one: &serde_json::Value| [0, 1, 2, 3].map(|index| side(&one[index]));
    found.as_array().expect("a list").iter().map(box_of).collect()
}

fn overlap(a: &[f64; 4], b: &[f64; 4]) -> bool {
    a[0] + 0.5 < b[2] && b[0] + 0.5 < a[2] && a[1] + 0.5 < b[3] && b[1] + 0.5 < a[3]
}

/// A server whose workers wait for locks of many files, for each other, and a little for many more.
fn tangled() -> Explanation {
    let edge = |from: &str, to: String, part: &str, mean_ns| weir_report::WaitingEdge {
        from: from.to_owned(),
        to,
        part: part.to_owned(),
        count: 10,
        mean_ns,
    };
    let mut explanation = whole();
    let held = |pid: u32, of: u32| format!("flock of /var/lib/php/sessions/sess_{of}abcdef held by php-fpm8.2 ({pid})");
    explanation.waiting = (0..6)
        .map(|pid| edge("php-fpm8.2", held(pid, 0), "wait_lock", 300e3 - f64::from(pid)))
        .chain((1..5).map(|of| edge("php-fpm8.2", held(7, of), "wait_lock", 150e3 / f64::from(of))))
        .chain([
            edge("nginx", "php-fpm8.2".to_owned(), "wait_process", 2_500e3),
            edge("nginx", "php-fpm8.2".to_owned(), "wait_cpu", 70e3),
            edge("php-fpm8.2", "postgres".to_owned(), "wait_process", 400e3),
            edge("postgres", "php-fpm8.2".to_owned(), "wait_process", 200e3),
            edge("php-fpm8.2", "nginx".to_owned(), "wait_cpu", 90e3),
            edge("postgres", "/dev/nvme0n1".to_owned(), "wait_disk", 120e3),
        ])
        .chain((0..30).map(|number| edge("postgres", format!("cron{number} (9{number})"), "wait_cpu", 2e3)))
        .collect();
    explanation
}

#[test]
fn the_waiting_graph_is_half_a_screen_high_and_no_label_lies_on_another() {
    if require::browser().is_none() {
        return;
    }
    let (folder, mut browser) = (TempDir::new().expect("a directory"), Browser::start());
    for explanation in [tangled(), whole()] {
        browser.screen(1280, 900, false);
        open(&mut browser, folder.path(), &explanation, "");
        let high = boxes(&mut browser, ".graph");
        assert!(high.len() == 1 && high[0][3] - high[0][1] <= 451.0, "{high:?}");
        let is_cut = browser
            .value("(({scrollHeight, clientHeight}) => scrollHeight > clientHeight)(document.querySelector('.graph'))");
        assert_eq!(is_cut, false, "it fits without scrolling up and down");
        let (labels, nodes) = (boxes(&mut browser, ".graph .times text"), boxes(&mut browser, ".graph .node rect"));
        let names = boxes(&mut browser, ".graph .node text");
        assert!(labels.len() >= 4 && names.len() >= nodes.len(), "{} labels", labels.len());
        for (index, label) in labels.iter().enumerate() {
            assert!(!nodes.iter().any(|node| overlap(label, node)), "label {index} lies on a node");
            assert!(!labels[index + 1..].iter().any(|other| overlap(label, other)), "label {index} lies on another");
        }
        for name in &names {
            let within =
                |node: &&[f64; 4]| node[0] <= name[0] && name[2] <= node[2] && node[1] <= name[1] && name[3] <= node[3];
            assert_eq!(nodes.iter().filter(within).count(), 1, "a name runs out of its node: {name:?}");
        }
    }
    open(&mut browser, folder.path(), &tangled(), "");
    let texts = browser.value("[...document.querySelectorAll('.graph .node text.name')].map((one) => one.textContent)");
    let texts: Vec<&str> = texts.as_array().expect("a list").iter().filter_map(|one| one.as_str()).collect();
    let locks: std::collections::BTreeSet<&&str> = texts.iter().filter(|text| text.contains("sess_")).collect();
    assert!(locks.len() >= 3 && texts.iter().filter(|text| text.contains("sess_")).count() == locks.len(), "{texts:?}");
    let folded = browser.value("document.querySelector('.graph .folded').textContent");
    assert!(folded.as_str().is_some_and(|text| text.starts_with("3") && text.contains("more waits")), "{folded}");
    assert_eq!(browser.errors(), &[] as &[String]);
}

#[test]
fn flame_charts_open_what_is_folded_find_functions_and_show_their_last_row() {
    if require::browser().is_none() {
        return;
    }
    let (folder, mut browser) = (TempDir::new().expect("a directory"), Browser::start());
    let mut explanation = whole();
    let root: Vec<String> = (0..20).map(|number| format!("root{number}")).collect();
    for stack in &mut explanation.stacks {
        stack.frames.splice(0..0, root.iter().cloned());
    }
    for width in [1280, 400] {
        browser.screen(width, 900, false);
        open(&mut browser, folder.path(), &explanation, "");
        let flame = "document.querySelector('[data-zoom=code-0]')";
        let rows = |browser: &mut Browser| {
            browser.value(&format!("{flame}.querySelector('.inner').offsetHeight / 19")).as_f64()
        };
        let shown = |browser: &mut Browser| boxes(browser, "[data-zoom=code-0] .f");
        // The class, the fold, and what differs: of the longest stack five frames, of which main is common to all.
        let folded = rows(&mut browser);
        assert!(folded.is_some_and(|rows| rows <= 8.0), "{folded:?} rows");
        browser.value("document.querySelector('#open-0').click()");
        let opened = rows(&mut browser);
        assert!(
            opened.zip(folded).is_some_and(|(after, before)| after - before >= 20.0),
            "{opened:?} after {folded:?}"
        );
        let pane = boxes(&mut browser, "[data-zoom=code-0] .pane");
        for one in shown(&mut browser) {
            assert!(one[3] <= pane[0][3] + 0.5, "{one:?} is cut by {pane:?}");
        }
        let is_cut = browser.value(&format!(
            "(({{scrollHeight, clientHeight}}) => scrollHeight > clientHeight)({flame}.querySelector('.pane'))"
        ));
        assert_eq!(is_cut, false, "no row is out of sight");
        browser.value(&format!("{flame}.nextElementSibling.querySelector('input').focus()"));
        browser.type_in("zend_execute_ex");
        browser.wait_for(&format!("{flame}.querySelectorAll('.found').length === 1"));
        // 420 and 130 of 645 samples run below it.
        let told = browser.value(&format!("{flame}.nextElementSibling.querySelector('.find output').textContent"));
        assert_eq!(told, "1 box, 85 % of the time", "at {width}");
    }
    assert_eq!(browser.errors(), &[] as &[String]);
}

#[test]
fn marks_of_time_are_legible_and_tables_are_whole_at_every_width() {
    if require::browser().is_none() {
        return;
    }
    let (folder, mut browser) = (TempDir::new().expect("a directory"), Browser::start());
    for width in [400, 500, 800, 1280, 2560] {
        browser.screen(width, 900, false);
        open(&mut browser, folder.path(), &whole(), "");
        for axis in ["#course-times", "#course-parts", "#course-rate", "[data-zoom=typical-1] .ticks"] {
            let marks = boxes(&mut browser, &format!("{axis} i.x, {axis}:not(.lines) i"));
            assert!(marks.len() >= 3, "{axis} has {} marks at {width}", marks.len());
            for pair in marks.windows(2) {
                assert!(!overlap(&pair[0], &pair[1]), "{axis} at {width}: {pair:?}");
            }
            assert!(
                marks.iter().all(|mark| mark[0] >= 0.0 && mark[2] <= f64::from(width)),
                "{axis} at {width}: {marks:?}"
            );
        }
        let cut = browser.value(
            "[...document.querySelectorAll('[aria-label=Phases], [aria-label=\"Transaction classes\"], [aria-label=\"Parts of the response\"]')]\
             .filter((one) => one.scrollWidth > one.clientWidth + 1).map((one) => one.getAttribute('aria-label')).join()",
        );
        assert_eq!(cut, "", "tables are cut at {width}");
    }
    // The cursor tells what was at a time.
    browser.value("document.querySelector('#course-parts').focus()");
    browser.press("End");
    browser.wait_for(
        "document.querySelector('#course-parts').parentElement.querySelector('.told').textContent.includes('wait_cpu')",
    );
    assert_eq!(browser.errors(), &[] as &[String]);
}
