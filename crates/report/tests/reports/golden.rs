//! The views of made-up explanations, kept as files. `WEIR_BLESS=1` rewrites them.

use crate::made_up;

use std::path::Path;
use weir_report::{Style, html, terminal};

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
    check("hog.html", &html(&explanation));
}

#[test]
fn nginx_with_a_slow_handler() {
    let explanation = made_up::worker_queue();
    check("worker_queue-80.txt", &terminal(&explanation, Style { colours: false, width: 80 }));
    check("worker_queue-120-colours.txt", &terminal(&explanation, Style { colours: true, width: 120 }));
    check("worker_queue.html", &html(&explanation));
}

#[test]
fn every_section() {
    let explanation = made_up::whole::whole();
    check("whole-80.txt", &terminal(&explanation, Style { colours: false, width: 80 }));
    check("whole.html", &html(&explanation));
}

#[test]
fn nothing_at_all() {
    let explanation = made_up::empty();
    check("empty-80.txt", &terminal(&explanation, Style { colours: false, width: 80 }));
    check("empty.html", &html(&explanation));
}
