//! Descriptions and recordings become scenarios, which are played against a server that keeps what it is asked.
// scripts/test: serves

mod curl;
mod har;
mod jmeter;
mod openapi;
mod postman;
mod server;

use crate::server::{Request, Server};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use weir_descriptions::{Draft, Files, Kind, Load, Wanted, draft};
use weir_scenario::form::parse;
use weir_scenario::metrics::Shared;
use weir_scenario::play::{Players, Tallies};
use weir_scenario::run::{Handle, Reaching, Report, RunPlan, run};

/// Files of a directory.
pub(crate) struct In<'p>(pub(crate) &'p Path);

impl Files for In<'_> {
    fn read(&self, path: &str, _most: u64) -> Option<String> {
        std::fs::read_to_string(self.0.join(path)).ok()
    }
}

/// One user who does all once.
pub(crate) fn once() -> Wanted {
    Wanted { load: Some(Load::Iterations(1, 1)), ..Wanted::default() }
}

/// The scenario of a text, which must be told by its content.
pub(crate) fn drafted(kind: Kind, text: &str, wanted: &Wanted, folder: &Path) -> Draft {
    assert_eq!(Kind::recognise(text), Some(kind), "{text}");
    draft(kind, "the file", text, wanted, &In(folder)).unwrap_or_else(|error| panic!("{error}"))
}

/// Plays a scenario; gives what the server was asked, and what became of the users.
pub(crate) fn played(server: &Server, draft: &Draft, folder: &Path) -> (Vec<Request>, Report) {
    let scenarios = parse(&draft.text, folder, None).unwrap_or_else(|mistakes| panic!("{mistakes:#?}\n{}", draft.text));
    let (metrics, tallies) = (Shared::default(), Tallies::new(scenarios.scopes.len()));
    let plan = RunPlan {
        scenarios: scenarios.list.iter().map(|(planned, _)| planned.clone()).collect(),
        setup: scenarios.setup.is_some(),
        teardown: scenarios.teardown.is_some(),
        setup_max: scenarios.around_max,
        teardown_max: scenarios.around_max,
        reaching: Reaching::default(),
        stop_grace: Duration::from_secs(1),
    };
    let players = Players::new(&scenarios, metrics.clone(), tallies.clone());
    let (report, _) = run(plan, Box::new(players), &metrics, &Arc::new(Handle::default())).expect("a run");
    let failed: u64 = report.scenarios.iter().map(|scenario| scenario.failed).sum();
    assert_eq!(failed, 0, "{:?}\n{}", report.causes, draft.text);
    let checks = metrics.lock().checks.list().to_vec();
    assert!(checks.iter().all(|check| check.fails == 0), "{checks:?}\n{}", draft.text);
    (server.asked(), report)
}

/// What is asked for, in short.
pub(crate) fn lines(asked: &[Request]) -> Vec<String> {
    asked.iter().map(|request| format!("{} {}", request.method, request.target)).collect()
}
