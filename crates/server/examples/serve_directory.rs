//! The smallest server: it serves a directory until it is killed.
//!
//! `cargo run --release -p weir-server --example serve_directory -- [DIR [ADDR [LOOPS]]]`

use std::sync::atomic::AtomicBool;
use weir_server::{Options, Server};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let mut options = Options::new(args.next().unwrap_or_else(|| ".".to_owned()));
    if let Some(addr) = args.next() {
        options.listen = vec![addr.parse()?];
    }
    if let Some(loops) = args.next() {
        options.loops = loops.parse()?;
    }
    let server = Server::bind(options)?;
    println!("{:?}", server.local_addrs());
    server.run(&AtomicBool::new(false))?;
    Ok(())
}
