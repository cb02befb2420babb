//! WebSockets for measurements, in a process of their own.
//!
//! `weir-sockets echo ADDRESS` is the upstream: it sends frames back, answers `/bytes/N` by so many bytes and a body by
//! its length, and says where it listens. `weir-sockets clients ADDRESS PATH COUNT EVERY_MS LIFE BYTES` opens so many
//! sockets and says on each line of its input what they have seen; at the end of its input it closes them, says the
//! last word, and ends with 1 if any of them broke.

use std::io::BufRead;
use std::process::ExitCode;
use std::time::Duration;
use weir_testkit::websocket::{Clients, Echo, Plan};

type Failure = Box<dyn std::error::Error>;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let ended = match words[..] {
        ["echo", addr] => echo(addr),
        ["clients", addr, path, count, every_ms, life, bytes] => {
            plan(addr, path, [count, every_ms, life, bytes]).and_then(clients)
        }
        _ => Err("weir-sockets echo ADDRESS | clients ADDRESS PATH COUNT EVERY_MS LIFE BYTES".into()),
    };
    ended.unwrap_or_else(|error| {
        eprintln!("weir-sockets: {error}");
        ExitCode::from(2)
    })
}

fn echo(addr: &str) -> Result<ExitCode, Failure> {
    let echo = Echo::start(addr.parse()?)?;
    println!("{}", echo.addr());
    for line in std::io::stdin().lock().lines() {
        line?;
        println!("{} open", echo.open());
    }
    Ok(ExitCode::SUCCESS)
}

fn plan(addr: &str, path: &str, numbers: [&str; 4]) -> Result<Plan, Failure> {
    let [count, every_ms, life, bytes] = numbers;
    Ok(Plan {
        addr: addr.parse()?,
        path: path.to_owned(),
        count: count.parse()?,
        every: Duration::from_millis(every_ms.parse()?),
        life: life.parse()?,
        bytes: bytes.parse()?,
    })
}

fn clients(plan: Plan) -> Result<ExitCode, Failure> {
    let clients = Clients::start(plan)?;
    for line in std::io::stdin().lock().lines() {
        line?;
        println!("{}", clients.counts());
    }
    let counts = clients.stop();
    println!("{counts}");
    Ok(if counts.broken == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
