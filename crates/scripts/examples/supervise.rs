//! The supervisor of scripts as a program of its own: its standard input is the socket to the server.

use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;

fn main() -> std::io::Result<()> {
    weir_scripts::supervise(UnixStream::from(std::io::stdin().as_fd().try_clone_to_owned()?))
}
