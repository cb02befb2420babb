//! Checks policies, as an editor would: each mistake and each warning with file, line, column and remedy.
//!
//! The exit status is 1 if a policy has a mistake.
//!
//! `cargo run --release -p weir-adapt --example check_policies -- POLICY...`

use std::process::ExitCode;
use weir_adapt::check_policy;

fn main() -> ExitCode {
    let mut is_right = true;
    for file in std::env::args().skip(1) {
        let text = match std::fs::read_to_string(&file) {
            Ok(text) => text,
            Err(error) => {
                eprintln!("{file}: {error}");
                is_right = false;
                continue;
            }
        };
        let checked = check_policy(&text);
        for mistake in &checked.mistakes {
            println!("{file}:{mistake}");
        }
        for warning in &checked.warnings {
            println!("{file}:{warning} (warning)");
        }
        is_right &= checked.mistakes.is_empty();
    }
    if is_right { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
