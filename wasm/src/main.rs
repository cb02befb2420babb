//! `weir-wasm`: answers HTTP requests by WebAssembly components of `wasi:http`, on a Unix socket behind a web server.

mod components;
mod grants;
mod instance;
mod limits;
mod log;
mod options;
mod response;
mod server;

use crate::components::Components;
use crate::log::Log;
use crate::options::{Asked, Options};
use std::process::ExitCode;
use std::sync::Arc;

/// Why the program does not run.
#[derive(Debug, thiserror::Error)]
enum Failure {
    /// The command line has a mistake.
    #[error("{0}; see weir-wasm --help")]
    Options(#[from] options::OptionError),
    /// A component cannot be run.
    #[error("{0}")]
    Component(#[from] components::ComponentError),
    /// The socket or the threads cannot be had.
    #[error("{0}")]
    Server(#[from] server::ServerError),
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("weir-wasm: {failure}");
            ExitCode::from(if matches!(failure, Failure::Options(_)) { 2 } else { 1 })
        }
    }
}

fn run() -> Result<(), Failure> {
    let options = match Options::parse(std::env::args_os().skip(1))? {
        Asked::Serve(options) => *options,
        Asked::Text(text) => {
            print!("{text}");
            return Ok(());
        }
    };
    let log = Log::start();
    let components = Arc::new(Components::load(&options, log.clone())?);
    server::run(options, components, log)?;
    Ok(())
}
