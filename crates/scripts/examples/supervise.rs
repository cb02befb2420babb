//! The supervisor of scripts as a program of its own: its standard input is the socket to the server.
//!
//! `cargo run --release -p weir-scripts --example supervise` waits for what a server says, in lines of JSON
//! (`ToSupervisor`); tests and `make soak-scripts` are such servers.

use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;

fn main() -> std::io::Result<()> {
    weir_scripts::supervise(UnixStream::from(std::io::stdin().as_fd().try_clone_to_owned()?))
}
