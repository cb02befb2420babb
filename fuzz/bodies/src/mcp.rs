//! What an agent sends to `weir mcp`.

use std::path::Path;
use weir_mcp::{Action, Place, Plan, Session};

/// Reads any lines as the messages of a session: each is carried out or refused, and what a tool would run is within the
/// bounds.
pub fn mcp_messages(input: &[u8]) {
    let root = Path::new("/nonexistent-folder-of-runs").to_owned();
    let place = Place {
        new_runs: root.clone(),
        root,
        named: 0.into(),
        hosts: Vec::new(),
        duration_s_max: 10.0,
        requests_max: 100,
        methods: Vec::new(),
    };
    let mut session = Session::new("0", false);
    for line in input.split(|byte| *byte == b'\n') {
        let Ok(messages) = weir_mcp::read(line) else { continue };
        for message in messages.into_iter().flatten() {
            match session.take(message) {
                Action::Send(answer) => assert_eq!(answer["jsonrpc"], "2.0", "{answer}"),
                Action::Call { tool, arguments, .. } => {
                    if let Ok(plan) = Plan::of(tool, &arguments, &place) {
                        let all_s: f64 = plan.steps.iter().map(|step| step.expected_s).sum();
                        assert!(all_s <= 10.001, "{plan:?}");
                        assert!(plan.steps.iter().all(|step| step.words[0] == plan.steps[0].words[0]), "{plan:?}");
                    }
                }
                _ => {}
            }
        }
    }
}
