//! Plans of comparisons, as people write them, and the files of histories, which others may have written.
use std::path::Path;

use weir_compare::{Defaults, History, KeptResult, Pinning, Schedule, read_plan};

/// Reads any bytes as a plan: one that can be carried out in some order, or an error that names the file.
pub fn comparison_plan(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    let defaults = Defaults {
        load: "weir load {url}".parse().expect("a command"),
        pinning: Pinning { server: None, load: None, beside: None },
        seed: 1,
        weir: "weir".to_owned(),
    };
    match read_plan(&text, Path::new("plan.toml"), &defaults) {
        Ok(plan) => {
            let mut schedule = Schedule::new(&plan);
            let slices = schedule.slices_left(|_| true);
            assert!(slices >= plan.cases.len() * plan.repetitions.blocks);
            let round = schedule.round();
            assert_eq!(round.len(), plan.cases.len());
            assert!(round.iter().all(|block| !block.order.is_empty()));
        }
        Err(error) => assert!(error.to_string().starts_with("plan.toml: ")),
    }
}

/// Reads any bytes as a result of a history: one that comes back as it is, and of which trends can be told without
/// anything that a terminal would obey.
pub fn comparison_history(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    let Ok(result) = KeptResult::parse(&text) else { return };
    assert!(!result.label.contains(char::is_control) && result.label.chars().count() <= 80);
    assert!(result.figures.iter().all(|figure| figure.value.is_finite() && figure.value > 0.0));
    let written = serde_json::to_string(&result).expect("numbers and texts");
    assert_eq!(KeptResult::parse(&written).ok().as_ref(), Some(&result));
    let mut history = History::default();
    assert!(history.add(result.clone()) && !history.add(result.clone()), "the same one twice is one");
    // Nine before it, of which the first six have another level.
    for back in 1..10 {
        let mut earlier = result.clone();
        earlier.at_s = result.at_s.saturating_sub(back);
        for figure in &mut earlier.figures {
            let level = if back > 3 { 0.5 } else { 1.0 };
            figure.value = (figure.value * (level - 1e-6 * back as f64)).max(f64::MIN_POSITIVE);
        }
        history.add(earlier);
    }
    assert!(history.results.is_sorted_by_key(|result| result.at_s));
    let trends = history.trends(&result, 0.02);
    assert!(trends.figures.len() <= result.figures.len());
    assert!(trends.figures.iter().all(|trend| trend.points.len() <= history.results.len()));
    assert!(trends.text().chars().all(|letter| letter == '\n' || !letter.is_control()), "{:?}", trends.text());
}
