//! Files of scenarios, their data, and what is taken of pages.

use std::path::Path;
use weir_scenario::form::{Css, Op, Scenarios, Take, Values, csv, json, parse};

/// A file is read, or each of its mistakes has a place in it and a remedy; what it leads to lies within it.
/// The same bytes are data, and a page.
pub fn scenario(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    // No file is there: what names one is a mistake.
    match parse(&text, Path::new("/nonexistent"), None) {
        Ok(scenarios) => leads_on(&scenarios),
        Err(mistakes) => {
            let lines = text.matches('\n').count() + 1;
            assert!(!mistakes.is_empty());
            for mistake in mistakes {
                assert!((1..=lines).contains(&mistake.line) && mistake.column > 0, "{mistake}");
                assert!(!mistake.remedy.is_empty(), "{mistake}");
            }
        }
    }
    for (columns, rows) in [csv(&text).ok(), json(&text).ok()].into_iter().flatten() {
        assert!(!columns.is_empty() && rows.iter().all(|row| row.len() == columns.len()));
    }
    if let Some((selector, page)) = text.split_once('\n')
        && let Some(css) = Css::parse(selector)
    {
        let _any = css.first(page);
    }
    let _any = Take::parse(&text);
}

/// Each instruction that leads somewhere leads into the program or to its end.
fn leads_on(scenarios: &Scenarios) {
    for (_, program) in &scenarios.list {
        for op in &program.ops {
            let places: Vec<usize> = match op {
                Op::Ask(step) => {
                    let _address = step.url.fill(&Values::new());
                    assert!(step.scopes.iter().all(|scope| *scope < scenarios.scopes.len()));
                    continue;
                }
                Op::Unless(_, place) | Op::Jump(place) | Op::Done(_, place) => vec![*place],
                Op::Choose(ways) => ways.iter().map(|(_, place)| *place).collect(),
                Op::Think(_) | Op::Count(..) => continue,
            };
            assert!(places.iter().all(|place| *place <= program.ops.len()));
        }
    }
}
