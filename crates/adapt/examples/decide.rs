//! What a policy decides on readings: each line of standard input is the CPU use of a node in percent, one a second.
//!
//! Without a file the program takes the rules below. The engine owns no clock: the program tells it the time of each
//! reading, so that an hour of readings takes milliseconds.
//!
//! `printf '%s\n' 40 85 90 95 95 60 40 | cargo run --release -p weir-adapt --example decide -- [POLICY]`

use std::io;
use weir_adapt::forecast::Method;
use weir_adapt::{Engine, Of, Policy, Reading, Resource};

const RULES: &str = r#"
atom "/**" {
    rule busy: every 1s if avg cpu@here over 3s > 80% then shed 20% until cpu@here < 50%;
    rule full: every 1s if cpu@here > 97% then alert "the node has no CPU left" cooldown 60s;
}
"#;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (file, text) = match std::env::args().nth(1) {
        Some(file) => (file.clone(), std::fs::read_to_string(&file).map_err(|error| format!("{file}: {error}"))?),
        None => ("built-in rules".to_owned(), RULES.to_owned()),
    };
    let (policy, warnings) = Policy::read(&file, &text).map_err(|mistakes| {
        let lines: Vec<String> = mistakes.iter().map(|mistake| format!("{file}:{mistake}")).collect();
        lines.join("\n")
    })?;
    for warning in warnings {
        eprintln!("{file}:{warning}");
    }

    let engine = Engine::new(policy, "here", Method::default());
    let mut state = engine.state("here");
    let node = engine.node(&mut state, "here").ok_or("the policy names too many nodes")?;
    let mut decisions = Vec::new();
    for (second, line) in (0..).zip(io::stdin().lines()) {
        let line = line?;
        let value = line.trim().parse().map_err(|_| format!("line {}: {line} is no number", second + 1))?;
        let at_ms = second * 1000;
        let reading = Reading { resource: Resource::Cpu, of: Of::Node(node), value, at_ms, valid_ms: 2500 };
        engine.tick(at_ms, &[reading], &mut state, &mut decisions);
        for decision in decisions.drain(..) {
            println!("{second:>4} s  {decision}");
        }
    }
    Ok(())
}
