//! What idle connections cost: opens them to `weir serve`, asks once over each, leaves them, and says what the server
//! holds in memory, and what the kernel holds for both ends.

use anyhow::{Context, ensure};
use clap::Parser;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const REQUEST: &[u8] = b"GET /a.txt HTTP/1.1\r\nHost: localhost\r\n\r\n";
/// How long the server is given to be there.
const START: Duration = Duration::from_secs(20);

#[derive(Debug, Parser)]
struct Arguments {
    /// The program
    weir: PathBuf,
    /// Connections
    #[arg(short, long, default_value_t = 10_000)]
    connections: usize,
}

struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        // It fails only where it has ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What is held, in kB.
#[derive(Debug, Clone, Copy)]
struct Held {
    /// By the server's pages of its own.
    own: u64,
    /// The same with pages of files, such as the program itself.
    resident: u64,
    /// By the kernel's objects, of the whole machine.
    objects: u64,
    /// In TCP's buffers, of this network namespace.
    buffers: u64,
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    allow_descriptors(arguments.connections + 100)?;
    let site = tempfile::tempdir()?;
    std::fs::write(site.path().join("a.txt"), "hello")?;
    let port = weir_testkit::free_port();
    let most = (arguments.connections + 10).to_string();
    let server = Command::new(&arguments.weir)
        .args(["serve", "--loops", "1", "--idle-timeout", "600", "--connections-max", &most])
        .args(["--listen", &format!("127.0.0.1:{port}")])
        .arg(site.path())
        .stdout(Stdio::null())
        .spawn();
    let server = Server(server.with_context(|| format!("cannot start {}", arguments.weir.display()))?);
    let begin = Instant::now();
    let mut first = loop {
        match TcpStream::connect(("127.0.0.1", port)) {
            Ok(stream) => break stream,
            Err(error) if begin.elapsed() > START => return Err(error).context("the server does not start"),
            Err(_) => std::thread::sleep(Duration::from_millis(20)),
        }
    };
    ask(&mut first)?;
    let before = held(server.0.id())?;
    let mut open = Vec::with_capacity(arguments.connections);
    for _ in 0..arguments.connections {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).context("the server takes no more connections")?;
        ask(&mut stream)?;
        open.push(stream);
    }
    let after = held(server.0.id())?;
    // All are still there, and answered.
    for stream in [0, open.len() / 2, open.len() - 1] {
        ask(&mut open[stream])?;
    }
    let each = |kb: u64| kb as f64 * 1024.0 / arguments.connections as f64;
    let (own, objects, buffers) = (
        after.own.saturating_sub(before.own),
        after.objects.saturating_sub(before.objects),
        after.buffers.saturating_sub(before.buffers),
    );
    println!("| {} idle connections | before, MB | with them, MB | bytes each |", arguments.connections);
    println!("|---|---:|---:|---:|");
    let row = |what: &str, before: u64, after: u64, more: u64| {
        println!("| {what} | {:.1} | {:.1} | {:.0} |", before as f64 / 1024.0, after as f64 / 1024.0, each(more));
    };
    row(
        "resident memory of the server",
        before.resident,
        after.resident,
        after.resident - before.resident.min(after.resident),
    );
    row("of it its own, without files", before.own, after.own, own);
    row("the kernel's objects, both ends, whole machine", before.objects, after.objects, objects);
    row("TCP's buffers, both ends", before.buffers, after.buffers, buffers);
    Ok(())
}

/// Asks once and reads the whole answer.
fn ask(stream: &mut TcpStream) -> anyhow::Result<()> {
    stream.set_read_timeout(Some(START))?;
    stream.write_all(REQUEST)?;
    let (mut answer, mut filled) = ([0_u8; 1024], 0);
    while !answer[..filled].ends_with(b"\r\n\r\nhello") {
        let read = stream.read(&mut answer[filled..]).context("the server does not answer")?;
        ensure!(read > 0, "the server closed a connection");
        filled += read;
    }
    Ok(())
}

fn held(pid: u32) -> anyhow::Result<Held> {
    let of = |file: &str, name: &str| -> anyhow::Result<u64> {
        let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {file}"))?;
        let line =
            text.lines().find_map(|line| line.strip_prefix(name)).with_context(|| format!("{file} has no {name}"))?;
        let number = line.split_whitespace().find_map(|word| word.parse().ok());
        number.with_context(|| format!("{file}: {name} has no number"))
    };
    let status = format!("/proc/{pid}/status");
    let sockets = std::fs::read_to_string("/proc/net/sockstat").context("cannot read /proc/net/sockstat")?;
    let tcp = sockets.lines().find_map(|line| line.strip_prefix("TCP:")).context("sockstat has no TCP")?;
    let pages: u64 = tcp.split_whitespace().skip_while(|word| *word != "mem").nth(1).map_or(Ok(0), str::parse)?;
    // SAFETY: the call takes no pointer.
    let page_kb = u64::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) })? / 1024;
    Ok(Held {
        own: of(&status, "RssAnon:")?,
        resident: of(&status, "VmRSS:")?,
        objects: of("/proc/meminfo", "Slab:")?,
        buffers: pages * page_kb,
    })
}

fn allow_descriptors(wanted: usize) -> anyhow::Result<()> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the call fills the structure, which lives over it.
    ensure!(unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } == 0, "getrlimit failed");
    let wanted = wanted as libc::rlim_t;
    if limit.rlim_cur < wanted {
        limit.rlim_cur = wanted;
        limit.rlim_max = limit.rlim_max.max(wanted);
        // SAFETY: the structure lives over the call, which only reads it.
        let set = unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) };
        ensure!(set == 0, "{wanted} descriptors are not allowed: {}", std::io::Error::last_os_error());
    }
    Ok(())
}
