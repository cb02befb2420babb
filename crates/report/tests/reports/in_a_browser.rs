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
