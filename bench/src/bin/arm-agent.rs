//! What the agent costs: its share of a core and its memory, at a rate of transactions from one or many processes.
//!
//! The agent and each client are processes of their own, this program again. Every fourth transaction has a user, every
//! eighth a child; they are of 20 classes. What came must be what was made.
//!
//! With `--capture` it is `weir agent` beside this program, without and with `--capture` in turn, and the clients sleep
//! for 50 us within each transaction: what watching their threads takes of the agent's time, and of theirs.

use anyhow::{Context, bail, ensure};
use clap::{Parser, Subcommand};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use weir_agent::connection::Connection;
use weir_agent::keeper::{Batch, KeepError, Keeper};
use weir_agent::protocol::{AgentStatus, Answer, Ask};
use weir_agent::transaction::{Transaction, Wanted};
use weir_agent::{Agent, Settings};
use weir_arm::{Begin, CORRELATED, Field, Sort};

#[derive(Debug, Parser)]
struct Arguments {
    #[command(subcommand)]
    role: Option<Role>,
    /// Transactions a second, of all processes together
    #[arg(short, long, value_delimiter = ',', default_values_t = [10_000.0])]
    rates: Vec<f64>,
    /// Client processes
    #[arg(short, long, value_delimiter = ',', default_values_t = [1, 10, 1000])]
    processes: Vec<u32>,
    /// Seconds of each
    #[arg(short, long, default_value_t = 10.0)]
    seconds: f64,
    /// Measure what capturing waits costs, in so many pairs
    #[arg(long, value_name = "PAIRS")]
    capture: Option<u32>,
}

#[derive(Debug, Subcommand)]
enum Role {
    /// The agent, until its input ends
    #[command(hide = true)]
    Agent { directory: PathBuf },
    /// A client: so many transactions a second for so many seconds, once a line comes in
    #[command(hide = true)]
    Client { rate: f64, seconds: f64, sleep_us: u64 },
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    match arguments.role {
        Some(Role::Agent { directory }) => agent(directory),
        Some(Role::Client { rate, seconds, sleep_us }) => client(rate, seconds, sleep_us),
        None if arguments.capture.is_some() => {
            println!(
                "| rate | processes | capture | share of a core | memory | client's CPU a transaction | measured | events lost |"
            );
            println!("|---|---|---|---|---|---|---|---|");
            for rate in &arguments.rates {
                for processes in &arguments.processes {
                    compare(*rate, *processes, arguments.seconds, arguments.capture.unwrap_or(1))?;
                }
            }
            Ok(())
        }
        None => {
            println!("| rate | processes | share of a core | memory | transactions | lost |");
            println!("|---|---|---|---|---|---|");
            for rate in &arguments.rates {
                for processes in &arguments.processes {
                    measure(*rate, *processes, arguments.seconds)?;
                }
            }
            Ok(())
        }
    }
}

/// Keeps nothing: the store's cost is the store's.
struct Nowhere;

impl Keeper for Nowhere {
    fn last_batch(&mut self) -> Result<u64, KeepError> {
        Ok(0)
    }

    fn keep(&mut self, _: &Batch) -> Result<(), KeepError> {
        Ok(())
    }

    fn find(&mut self, _: Wanted, _: usize) -> Result<Vec<Transaction>, KeepError> {
        Ok(Vec::new())
    }
}

fn status(agent: &Agent) -> anyhow::Result<AgentStatus> {
    match agent.ask(Ask::Status) {
        Answer::Status(status) => Ok(*status),
        other => bail!("{other:?}"),
    }
}

/// The agent with its journal; tells its status for each line that comes in.
fn agent(directory: PathBuf) -> anyhow::Result<()> {
    let settings = Settings { state: Some(directory.join("state")), directory, ..Settings::default() };
    let agent = Agent::start(settings, Some(Box::new(Nowhere)), None)?;
    for line in std::io::stdin().lines() {
        line?;
        println!("{}", serde_json::to_string(&status(&agent)?)?);
    }
    Ok(())
}

fn client(rate: f64, seconds: f64, sleep_us: u64) -> anyhow::Result<()> {
    let application = weir_arm::define(Sort::Application, 4, 0, |writer| {
        writer.piece(Field::Name, 0, b"bench");
    });
    let transactions: Vec<u16> = (0..20)
        .map(|at| {
            weir_arm::define(Sort::Transaction, 4, application, |writer| {
                writer.piece(Field::Name, 0, format!("transaction {at}").as_bytes());
            })
        })
        .collect();
    println!("ready");
    std::io::stdin().read_line(&mut String::new())?;
    ensure!(weir_arm::listening(), "no agent listens");
    let (begun, cpu_ns) = (Instant::now(), cpu_ns());
    let (mut made, mut refused) = (0u64, 0u64);
    while begun.elapsed().as_secs_f64() < seconds {
        let due = (begun.elapsed().as_secs_f64() * rate) as u64;
        while made + refused < due {
            let at = made + refused;
            let transaction = transactions[at as usize % transactions.len()];
            let flags = if at.is_multiple_of(8) { CORRELATED } else { 0 };
            let begin = Begin { transaction, flags, ..Begin::default() };
            let handle = weir_arm::start_with(&begin, |telling| {
                if at.is_multiple_of(4) {
                    telling.piece(Field::User, 0, format!("user {}", at % 10).as_bytes());
                }
            });
            if handle.0 == 0 {
                refused += 1;
                continue;
            }
            if flags != 0 {
                let parent = Some(weir_arm::identity(handle, None, false));
                let child = weir_arm::start_with(&Begin { transaction, parent, ..Begin::default() }, |_| {});
                made += u64::from(child.0 != 0);
                refused += u64::from(child.0 == 0);
                weir_arm::stop(child, 0);
            }
            if sleep_us > 0 {
                std::thread::sleep(Duration::from_micros(sleep_us));
            }
            weir_arm::stop(handle, 0);
            made += 1;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    println!("{made} {refused} {}", self::cpu_ns() - cpu_ns);
    // The agent reads what is left before this process ends.
    std::io::stdin().read_line(&mut String::new())?;
    Ok(())
}

/// CPU time of this process.
fn cpu_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a timespec of ours; the call writes it and nothing else.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// This program in another role.
struct Other {
    child: Child,
    lines: std::io::Lines<BufReader<std::process::ChildStdout>>,
}

impl Other {
    fn start(directory: &Path, arguments: &[String]) -> anyhow::Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(arguments).env("WEIR_ARM_DIR", directory);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let lines = BufReader::new(child.stdout.take().context("a pipe")?).lines();
        Ok(Self { child, lines })
    }

    fn go_on(&mut self) -> anyhow::Result<()> {
        Ok(self.child.stdin.as_mut().context("a pipe")?.write_all(b"\n")?)
    }

    fn line(&mut self) -> anyhow::Result<String> {
        Ok(self.lines.next().context("it ended")??)
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        // It fails only where it has ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The clients of one measurement.
struct Clients(Vec<Other>);

/// What they did.
#[derive(Default)]
struct Made {
    transactions: u64,
    refused: u64,
    cpu_ns: u64,
}

impl Clients {
    /// Starts them; they wait for the word.
    fn start(directory: &Path, rate: f64, processes: u32, seconds: f64, sleep_us: u64) -> anyhow::Result<Self> {
        let rate = (rate / f64::from(processes)).to_string();
        let role = ["client".to_owned(), rate, seconds.to_string(), sleep_us.to_string()];
        let mut clients = (0..processes).map(|_| Other::start(directory, &role)).collect::<anyhow::Result<Vec<_>>>()?;
        for client in &mut clients {
            ensure!(client.line()? == "ready", "a client is not ready");
        }
        Ok(Self(clients))
    }

    /// Lets them go, and waits for their end.
    fn go(&mut self) -> anyhow::Result<Made> {
        for client in &mut self.0 {
            client.go_on()?;
        }
        let mut made = Made::default();
        for client in &mut self.0 {
            let line = client.line()?;
            let mut counts = line.split(' ').map(str::parse::<u64>);
            let mut next = || anyhow::Ok(counts.next().context("three counts")??);
            made.transactions += next()?;
            made.refused += next()?;
            made.cpu_ns += next()?;
        }
        Ok(made)
    }
}

/// What capturing costs: pairs of measurements without and with it.
fn compare(rate: f64, processes: u32, seconds: f64, pairs: u32) -> anyhow::Result<()> {
    for pair in 0..pairs {
        // Whatever comes second in one pair comes first in the next.
        for captures in [pair % 2 == 1, pair % 2 == 0] {
            of_command(rate, processes, seconds, captures)?;
        }
    }
    Ok(())
}

fn of_command(rate: f64, processes: u32, seconds: f64, captures: bool) -> anyhow::Result<()> {
    let weir = std::env::current_exe()?.with_file_name("weir");
    ensure!(weir.exists(), "{} is not built: cargo build --release -p weir-cli", weir.display());
    let folder = tempfile::tempdir()?;
    let directory = folder.path().join("arm");
    let mut command = Command::new(weir);
    command.args(["agent", "--no-state", "--directory"]).arg(&directory).args(captures.then_some("--capture"));
    let agent = command.stderr(Stdio::null()).stdin(Stdio::null()).stdout(Stdio::null()).spawn()?;
    let _agent = Ending(agent);
    let ask = || -> anyhow::Result<AgentStatus> {
        match Connection::open(&directory)?.ask(&Ask::Status)? {
            Answer::Status(status) => Ok(*status),
            other => bail!("{other:?}"),
        }
    };
    let until = Instant::now() + Duration::from_secs(60);
    while ask().is_err() {
        ensure!(Instant::now() < until, "the agent does not answer");
        std::thread::sleep(Duration::from_millis(50));
    }
    let mut clients = Clients::start(&directory, rate, processes, seconds, 50)?;
    while ask()?.processes < processes {
        ensure!(Instant::now() < until, "the agent does not know of all processes");
        std::thread::sleep(Duration::from_millis(50));
    }
    std::thread::sleep(Duration::from_secs_f64(seconds.min(1.0)));
    let (before, begun) = (ask()?, Instant::now());
    let made = clients.go()?;
    let (after, took) = (ask()?, begun.elapsed());
    let capture = after.capture.unwrap_or_default();
    println!(
        "| {rate:.0}/s | {processes} | {} | {:.2} % | {:.1} MB | {:.2} us | {} of {} | {} |",
        if captures { "on" } else { "off" },
        (after.cpu_ns - before.cpu_ns) as f64 / took.as_nanos() as f64 * 100.0,
        after.resident_bytes as f64 / 1e6,
        made.cpu_ns as f64 / 1e3 / made.transactions as f64,
        capture.measured,
        made.transactions,
        capture.lost
    );
    Ok(())
}

/// A process that ends with the measurement.
struct Ending(Child);

impl Drop for Ending {
    fn drop(&mut self) {
        // It fails only where it has ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn measure(rate: f64, processes: u32, seconds: f64) -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let directory = folder.path().join("arm");
    let mut agent = Other::start(&directory, &["agent".to_owned(), directory.display().to_string()])?;
    let mut ask = || -> anyhow::Result<AgentStatus> {
        agent.go_on()?;
        Ok(serde_json::from_str(&agent.line()?)?)
    };
    ask()?;
    let mut clients = Clients::start(&directory, rate, processes, seconds, 0)?;
    let until = Instant::now() + Duration::from_secs(20);
    while ask()?.processes < processes {
        ensure!(Instant::now() < until, "the agent does not know of all processes");
        std::thread::sleep(Duration::from_millis(50));
    }
    std::thread::sleep(Duration::from_secs_f64(seconds.min(1.0)));
    let (before, begun) = (ask()?, Instant::now());
    let Made { transactions: made, refused, .. } = clients.go()?;
    let (after, took) = (ask()?, begun.elapsed());
    let mut last = after.clone();
    while last.counts.finished < made {
        ensure!(Instant::now() < until + took, "{made} were made, {} came", last.counts.finished);
        std::thread::sleep(Duration::from_millis(20));
        last = ask()?;
    }
    ensure!(last.counts.finished == made && last.counts.lost() == refused, "{made} + {refused}: {:?}", last.counts);
    let share = (after.cpu_ns - before.cpu_ns) as f64 / took.as_nanos() as f64;
    println!(
        "| {rate:.0}/s | {processes} | {:.2} % | {:.1} MB | {made} | {} |",
        share * 100.0,
        after.resident_bytes as f64 / 1e6,
        last.counts.lost()
    );
    Ok(())
}
