//! Runs a script of k6 as `weir k6` does, without the other commands:
//! `cargo run --release -p weir-k6 --example script -- run SCRIPT.js`

use std::process::ExitCode;

fn main() -> ExitCode {
    match weir_k6::run("script", std::env::args_os().skip(1).collect()) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
