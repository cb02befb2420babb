//! The page of a load in a real browser: no errors, nothing wider than the screen, and the keys tell the values.

use tempfile::TempDir;
use weir_measure::summary::Summary;
use weir_report::{Loaded, LoadedPoint, LoadedRate, load_html};
use weir_testkit::browser::Browser;
use weir_testkit::require;

fn summary(p50: u64, wave: f64) -> Summary {
    let of = |factor: f64| (p50 as f64 * factor * wave) as u64;
    Summary {
        count: 1000,
        min: of(0.5),
        mean: of(1.2) as f64,
        stdev: of(0.4) as f64,
        p50: of(1.0),
        p90: of(2.1),
        p99: of(7.0),
        p99_9: of(19.0),
        max: of(44.0),
    }
}

/// A load of two minutes with a stall and errors in the middle.
fn loaded() -> Loaded {
    let points = (0..120).map(|second| {
        let stalled = (60..64).contains(&second);
        let wave = 1.0 + 0.3 * (f64::from(second) / 9.0).sin() + if second == 64 { 8.0 } else { 0.0 };
        LoadedPoint {
            begin_s: f64::from(second),
            length_s: 1.0,
            requests: if stalled { 0 } else { 980 + second as u64 % 37 },
            unexpected: if (70..72).contains(&second) { 120 } else { 0 },
            failures: if (60..70).contains(&second) { 12 } else { 0 },
            dropped: if second == 63 { 40 } else { 0 },
            latency: (!stalled).then(|| summary(1_200_000, wave)),
        }
    });
    Loaded {
        subject: "http://localhost:8080/a/rather/long/path/that/goes/on?with=<b>&a=query".to_owned(),
        manner: "10 connections, open loop of 1000/s".to_owned(),
        duration_s: 120.0,
        took_s: Some(121.4),
        requests: 118_240,
        successes: 118_000,
        success_rate: Some(0.997),
        expected: "200-399".to_owned(),
        rate_per_s: 985.3,
        successes_per_s: 983.3,
        bytes_per_s: 1_028_806.0,
        latency_unexpected: Some(summary(90_000, 1.0)),
        latency_failed: Some(summary(30_000_000_000, 1.0)),
        objective: Some(("p99<50ms missed: 1.40 % of 118,400 requests missed it, 1 % may".to_owned(), false)),
        bytes: 123_456_789,
        dropped: 40,
        errors: vec![("timeout".to_owned(), 100), ("reset".to_owned(), 20)],
        status: vec![("200".to_owned(), 118_000), ("503".to_owned(), 240)],
        latency: Some(summary(1_200_000, 1.0)),
        curve: (0..=60).map(|step| (10f64.powf(-f64::from(step) / 12.0), 600_000 * (1 + step * step) as u64)).collect(),
        spread: (0..60u64)
            .map(|at| (600_000 + at * 90_000, 690_000 + at * 90_000, 5000 / (1 + (at as i64 - 20).pow(2) as u64)))
            .collect(),
        points: points.collect(),
        generator: "34 % CPU".to_owned(),
        warnings: vec!["40 arrivals found the generator's queue full and were dropped".to_owned()],
        ..Loaded::default()
    }
}

/// A search for the highest rate of a server for 1000/s.
fn searched() -> Loaded {
    let rates = [10.0, 40.0, 160.0, 556.0, 640.0, 698.0, 731.0, 775.0, 790.0, 850.0, 1600.0];
    let rate = |rate: &f64| {
        let free = (1.0 - rate / 1000.0).max(0.02);
        LoadedRate {
            rate_per_s: *rate,
            achieved_per_s: rate.min(1000.0),
            successes_per_s: rate.min(900.0),
            requests: 1000,
            successes: if *rate > 1000.0 { 0 } else { 999 },
            status: vec![("200".to_owned(), 999), ("503".to_owned(), 1)],
            errors: vec![("timeout".to_owned(), 1)],
            p50_ns: (1_000_000.0 * (0.5 + 0.5 / free)) as u64,
            p99_ns: if *rate > 1000.0 { 0 } else { (1_000_000.0 * (1.0 + 2.0 / free)) as u64 },
            bad_share: (0.01 * (rate / 775.0).powi(12)).min(1.0),
            trials: 8,
        }
    };
    Loaded {
        subject: "http://localhost:8080/slow".to_owned(),
        manner: "open Poisson loop, 58 trials".to_owned(),
        duration_s: 171.0,
        requests: 98_240,
        rate_per_s: 574.0,
        rates: rates.iter().map(rate).collect(),
        answer: Some("775/s is the highest rate that holds p99<10ms (95 %: 748/s to 803/s)".to_owned()),
        found: Some((775.0, 748.0, 803.0)),
        limit_ns: Some(10_000_000),
        generator: "it was not the limit".to_owned(),
        ..Loaded::default()
    }
}

/// What the first plot tells of the place of its cursor.
fn telling(browser: &mut Browser) -> String {
    let told = browser.value("document.querySelector('.told').textContent");
    told.as_str().unwrap_or_default().replace('\u{a0}', " ")
}

#[test]
fn pages_fit_and_keys_tell_values() {
    if require::browser().is_none() {
        return;
    }
    let (folder, mut browser) = (TempDir::new().expect("a directory"), Browser::start());
    for (name, loaded) in [("loaded", loaded()), ("searched", searched()), ("nothing", Loaded::default())] {
        let path = folder.path().join(format!("{name}.html"));
        std::fs::write(&path, load_html(&loaded)).expect("the page is written");
        for (width, height, dark) in [(400, 800, false), (400, 800, true), (1280, 900, false), (1280, 900, true)] {
            browser.screen(width, height, dark);
            browser.open(&format!("file://{}", path.display()));
            if let Some(folder) = std::env::var_os("WEIR_SHOTS") {
                let file = std::path::Path::new(&folder).join(format!("{name}-{width}-{dark}.png"));
                std::fs::write(file, browser.picture(true)).expect("a picture is written");
            }
            let wide = browser.value("document.documentElement.scrollWidth").as_f64().expect("a number");
            assert!(wide <= f64::from(width), "{name} at {width}: {wide}");
            // No name of an axis lies on another.
            let crossing = browser.value(
                "[...document.querySelectorAll('.lines')].some((plot) => { \
                   const boxes = [...plot.querySelectorAll('i.x')].map((name) => name.getBoundingClientRect()).filter((box) => box.width); \
                   boxes.sort((one, two) => one.left - two.left); \
                   return boxes.some((box, at) => at > 0 && boxes[at - 1].right > box.left); })",
            );
            assert_eq!(crossing, false, "{name} at {width}");
        }
        if name == "loaded" {
            browser.value("document.querySelector('#latency').focus()");
            for _ in 0..3 {
                browser.press("ArrowRight");
            }
            let told = telling(&mut browser);
            assert!(told.starts_with("2 s:") && told.contains("p99"), "{told}");
            browser.press("End");
            let told = telling(&mut browser);
            assert!(told.starts_with("119 s:"), "{told}");
            assert_eq!(
                browser.value("document.querySelectorAll('b, script').length"),
                1,
                "no markup comes out of a URL"
            );
        }
        assert_eq!(browser.errors(), &[] as &[String], "{name}");
    }
}

#[test]
fn the_tables_hold_every_value() {
    let page = load_html(&loaded());
    assert_eq!(
        page.matches("<tr><td class=\"n\">").count(),
        120 + 61 + loaded().spread.iter().filter(|column| column.2 > 0).count()
    );
    assert!(!page.contains("http://localhost:8080/a/rather/long/path/that/goes/on?with=<b>"));
    assert!(page.contains("Before trusting the figures") && page.contains("Errors over time"));
    for told in
        ["983 successes a second", "p99&lt;50ms missed", "Times of what is no success", "Times until requests failed"]
    {
        assert!(page.contains(told), "{told}");
    }
    let nothing = load_html(&Loaded { requests: 9, success_rate: Some(0.0), ..Loaded::default() });
    assert!(nothing.contains("No request succeeded.") && !nothing.contains(">p99<"), "no time of a success");
    let page = load_html(&searched());
    assert!(page.contains("775/s is the highest rate") && page.contains("Latency against rate"));
    assert!(page.contains("200: 999, 503: 1") && page.contains("timeout: 1"), "statuses and errors at each rate");
    for loading in ["src=", "href=", "url(http", "@import"] {
        assert!(!page.contains(loading), "{loading}");
    }
}
