//! An echo of WebSockets for benchmarks: prints its port, and runs until it is killed.

use std::io::Write;
use weir_testkit::websocket::Echo;

fn main() -> std::io::Result<()> {
    let server = Echo::start(std::net::SocketAddr::from(([127, 0, 0, 1], 0)))?;
    println!("{}", server.addr().port());
    std::io::stdout().flush()?;
    loop {
        std::thread::park();
    }
}
