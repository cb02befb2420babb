//! What users of a server felt that halts now and then, beside what each response took once its request was sent.
//!
//! 1,000 requests arrive at a fixed rate of 1,000 a second, whether or not the server has answered the ones before.
//! Without a URL the program starts a small server of its own, which halts for 50 ms at every 250th request.
//!
//! `cargo run --release -p weir-load --example open_loop -- [URL]`

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use weir_load::{Control, Histogram, Options, Schedule, StopRule, Url};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = match std::env::args().nth(1) {
        Some(url) => url,
        None => format!("http://{}/", start_server()?),
    };
    let mut options = Options::new(Url::parse(&url)?);
    options.schedule = Schedule::Fixed { rate_per_s: 1000.0 };
    options.stop = StopRule::Requests(1000);
    let report = weir_load::run(options, &Control::default())?;

    println!("{} of {} requests succeeded, {:.0} a second", report.successes, report.ended(), report.successes_per_s);
    println!("{:<9}{:>12}{:>15}", "", "users felt", "once sent");
    for (name, share) in [("median", 0.5), ("95 %", 0.95), ("99 %", 0.99), ("slowest", 1.0)] {
        let ms = |times: &Histogram| times.value_at_quantile(share) as f64 / 1e6;
        println!("{name:<9}{:>9.2} ms{:>12.2} ms", ms(&report.latency), ms(&report.latency_uncorrected));
    }
    for warning in &report.warnings {
        println!("{warning}");
    }
    Ok(())
}

/// Starts a server with a thread for each connection.
fn start_server() -> io::Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    let answered = Arc::new(Mutex::new(0));
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let answered = Arc::clone(&answered);
            std::thread::spawn(move || serve(stream, &answered));
        }
    });
    Ok(address)
}

/// Answers the requests of one connection. All connections wait for the one that halts with the lock.
fn serve(mut stream: TcpStream, answered: &Mutex<u64>) -> io::Result<()> {
    while stream.read(&mut [0; 4096])? > 0 {
        let mut answered = answered.lock().unwrap_or_else(PoisonError::into_inner);
        *answered += 1;
        if answered.is_multiple_of(250) {
            std::thread::sleep(Duration::from_millis(50));
        }
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi")?;
    }
    Ok(())
}
