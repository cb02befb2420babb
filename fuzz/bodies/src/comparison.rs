//! Plans of comparisons, as people write them.
use std::path::Path;

use weir_compare::{Defaults, Pinning, Schedule, read_plan};

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
