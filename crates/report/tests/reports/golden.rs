//! The views of made-up explanations, kept as files, pages in outline. `WEIR_BLESS=1` rewrites them.

use crate::made_up;
use crate::outline::outline;

use std::path::Path;
use weir_report::{Explanation, Style, html, terminal};

/// What a page has of files, as it stands there.
const PARTS: [&str; 9] = [
    include_str!("../../src/html/style.css"),
    include_str!("../../src/html/charts.css"),
    include_str!("../../src/html/plot.css"),
    include_str!("../../src/html/script.js"),
    include_str!("../../src/html/zoom.js"),
    include_str!("../../src/html/flame.js"),
    include_str!("../../src/html/plot.js"),
    include_str!("../../src/html/search.js"),
    include_str!("../../src/html/keys.html"),
];

/// Compares a page with its outline. The whole page is left where it can be looked at: `outline` cuts long sections.
fn check_page(name: &str, explanation: &Explanation) {
    let page = html(explanation);
    let whole = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.html"));
    std::fs::write(&whole, &page).expect("the directory for files of tests is there");
    for part in PARTS {
        assert!(
            page.contains(part),
            "{}: a style sheet or script is not as its file has it: {part:.80}",
            whole.display()
        );
    }
    eprintln!("the whole page: {}", whole.display());
    check(&format!("{name}.outline"), &outline(&page));
}

fn check(name: &str, found: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    if std::env::var_os("WEIR_BLESS").is_some() {
        std::fs::write(&path, found).expect("the directory of the golden files is there");
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    let line = kept.lines().zip(found.lines()).position(|(kept, found)| kept != found);
    assert!(kept == found, "{name} differs, first in line {line:?} (from 0); see it with WEIR_BLESS=1 and git diff");
}

#[test]
fn apache_behind_a_hog() {
    let explanation = made_up::hog();
    check("hog-80.txt", &terminal(&explanation, Style { colours: false, width: 80 }));
    check("hog-120.txt", &terminal(&explanation, Style { colours: false, width: 120 }));
    check("hog-100-colours.txt", &terminal(&explanation, Style { colours: true, width: 100 }));
    check_page("hog", &explanation);
}

#[test]
fn nginx_with_a_slow_handler() {
    let explanation = made_up::worker_queue();
    check("worker_queue-80.txt", &terminal(&explanation, Style { colours: false, width: 80 }));
    check("worker_queue-120-colours.txt", &terminal(&explanation, Style { colours: true, width: 120 }));
    check_page("worker_queue", &explanation);
}

#[test]
fn every_section() {
    let explanation = made_up::whole::whole();
    check("whole-80.txt", &terminal(&explanation, Style { colours: false, width: 80 }));
    check_page("whole", &explanation);
}

#[test]
fn nothing_at_all() {
    let explanation = made_up::empty();
    check("empty-80.txt", &terminal(&explanation, Style { colours: false, width: 80 }));
    check_page("empty", &explanation);
}
