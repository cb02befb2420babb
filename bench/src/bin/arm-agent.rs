//! What the agent costs: its share of a core and its memory, at a rate of transactions from one or many processes.
//!
//! The agent and each client are processes of their own, this program again. Of `calls`, every fourth has a user, every
//! eighth a child; they are of 20 classes. `pages` are told as the module for Apache tells them: with the time at which
//! each came, four metrics, method, host, path and address. What came must be what was made.
//!
//! `arm-agent intake` does the agent's part for transactions of its own process, without waiting in between: for counts
//! of instructions, and to see where its time goes.
//!
//! With `--capture` it is `weir agent` beside this program, without and with `--capture` in turn, and the clients sleep
//! for 50 us within each transaction: what watching their threads takes of the agent's time, and of theirs.

use anyhow::{Context, bail, ensure};
use clap::{Parser, Subcommand, ValueEnum};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use weir_agent::agent_state::AgentState;
use weir_agent::client as agent;
use weir_agent::connection::Connection;
use weir_agent::directory::Directory;
use weir_agent::folds::Cells;
use weir_agent::host;
use weir_agent::keeper::{Batch, Found, KeepError, Keeper, Sought};
use weir_agent::memory::Memory;
use weir_agent::pairing::Limits;
use weir_agent::protocol::{AgentStatus, Answer, Ask, Filter};
use weir_agent::switches::Rules;
use weir_agent::{Agent, Settings};
use weir_arm::{Begin, CORRELATED, Field, Sort};
use weir_wire::Slot;

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
    /// What the transactions are like
    #[arg(long, value_delimiter = ',', default_values = ["calls", "pages"])]
    shapes: Vec<Shape>,
    /// Measure what capturing waits costs, in so many pairs
    #[arg(long, value_name = "PAIRS")]
    capture: Option<u32>,
    /// Measure how long it takes until a follower sees a transaction that has ended
    #[arg(long, conflicts_with = "capture")]
    tail: bool,
}

#[derive(Debug, Subcommand)]
enum Role {
    /// The agent, until its input ends
    #[command(hide = true)]
    Agent { directory: PathBuf },
    /// A client: so many transactions a second for so many seconds, once a line comes in
    #[command(hide = true)]
    Client { shape: Shape, rate: f64, seconds: f64, sleep_us: u64 },
    /// The agent's part alone, for so many transactions in batches as one look finds them
    Intake {
        shape: Shape,
        transactions: u64,
        /// Transactions of a batch
        #[arg(default_value_t = 500)]
        batch: u64,
        /// Bytes that other work moves through the caches between two looks
        #[arg(default_value_t = 0)]
        others: usize,
    },
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    match arguments.role {
        Some(Role::Agent { directory }) => agent(directory),
        Some(Role::Client { shape, rate, seconds, sleep_us }) => client(shape, rate, seconds, sleep_us),
        Some(Role::Intake { shape, transactions, batch, others }) => intake(shape, transactions, batch, others),
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
        None if arguments.tail => {
            println!("| rate | processes | median | 99 of 100 | longest | seen |");
            println!("|---|---|---|---|---|---|");
            for rate in &arguments.rates {
                for processes in &arguments.processes {
                    follow(*rate, *processes, arguments.seconds)?;
                }
            }
            Ok(())
        }
        None => {
            println!("| | rate | processes | share of a core | memory | transactions | lost |");
            println!("|---|---|---|---|---|---|---|");
            for shape in &arguments.shapes {
                for rate in &arguments.rates {
                    for processes in &arguments.processes {
                        measure(*shape, *rate, *processes, arguments.seconds)?;
                    }
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

    fn find(&mut self, _: &Sought, _: usize) -> Result<Found, KeepError> {
        Ok(Found { transactions: Vec::new(), looked_at: 0 })
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

/// What the transactions of a program are like.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Shape {
    Calls,
    Pages,
}

impl Shape {
    fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }
}

/// The transactions of a program: what it has defined, and what it has made so far.
struct Program {
    shape: Shape,
    transactions: Vec<u16>,
    sleep: Duration,
    made: u64,
    refused: u64,
}

impl Program {
    fn new(shape: Shape, sleep: Duration) -> Self {
        let application = weir_arm::define(Sort::Application, 4, 0, |writer| {
            writer.piece(Field::Name, 0, b"bench");
        });
        let transaction = |at| {
            weir_arm::define(Sort::Transaction, 4, application, |writer| {
                writer.piece(Field::Name, 0, format!("transaction {at}").as_bytes());
                for (index, name) in [&b"method"[..], b"host"].into_iter().enumerate() {
                    writer.piece(Field::ContextName, index as u8, name);
                }
            })
        };
        Self { shape, transactions: (0..20).map(transaction).collect(), sleep, made: 0, refused: 0 }
    }

    fn next(&mut self) {
        let at = self.made + self.refused;
        let transaction = self.transactions[at as usize % self.transactions.len()];
        let recorded = match self.shape {
            Shape::Calls => self.call(at, transaction),
            Shape::Pages => self.page(at, transaction),
        };
        self.made += u64::from(recorded);
        self.refused += u64::from(!recorded);
    }

    fn call(&mut self, at: u64, transaction: u16) -> bool {
        let flags = if at.is_multiple_of(8) { CORRELATED } else { 0 };
        let begin = Begin { transaction, flags, ..Begin::default() };
        let handle = weir_arm::start_with(&begin, |telling| {
            if at.is_multiple_of(4) {
                telling.piece(Field::User, 0, format!("user {}", at % 10).as_bytes());
            }
        });
        if handle.0 == 0 {
            return false;
        }
        if flags != 0 {
            let parent = Some(weir_arm::identity(handle, None, false));
            let child = weir_arm::start_with(&Begin { transaction, parent, ..Begin::default() }, |_| {});
            self.made += u64::from(child.0 != 0);
            self.refused += u64::from(child.0 == 0);
            weir_arm::stop(child, 0);
        }
        self.sleep();
        weir_arm::stop(handle, 0);
        true
    }

    fn page(&mut self, at: u64, transaction: u16) -> bool {
        let begin = Begin { transaction, flags: CORRELATED, arrival_ns: weir_arm::now_ns(), ..Begin::default() };
        let handle = weir_arm::start_with(&begin, |_| {});
        if handle.0 == 0 {
            return false;
        }
        self.sleep();
        weir_arm::stop_with(handle, 0, |telling| {
            telling.piece(Field::ContextValue, 0, b"GET");
            telling.piece(Field::ContextValue, 1, b"www.example.org");
            telling.piece(Field::Uri, 0, format!("/shop/item/{}", at % 1000).as_bytes());
            for (slot, format, value) in [(0, 7, 200), (1, 5, 12_345), (2, 5, 40), (3, 5, 90_u64)] {
                telling.piece(Field::MetricValue, slot, &[[format, 0, 1, 0, 0, 0, 0, 0], value.to_ne_bytes()].concat());
            }
            telling.piece(Field::Address, 0, &[2, 0, 10, 0, 0, 1, 200, at as u8]);
        });
        true
    }

    fn sleep(&self) {
        if !self.sleep.is_zero() {
            std::thread::sleep(self.sleep);
        }
    }
}

fn client(shape: Shape, rate: f64, seconds: f64, sleep_us: u64) -> anyhow::Result<()> {
    let mut program = Program::new(shape, Duration::from_micros(sleep_us));
    println!("ready");
    std::io::stdin().read_line(&mut String::new())?;
    ensure!(weir_arm::listening(), "no agent listens");
    let (begun, cpu_ns) = (Instant::now(), cpu_ns());
    let mut left_out = 0;
    while begun.elapsed().as_secs_f64() < seconds {
        let due = (eased(begun.elapsed().as_secs_f64()) * rate) as u64;
        // A program that was kept from its CPU is not quicker afterwards: it leaves out what it could not make.
        let most = program.made + program.refused + MOST_LATE_S.mul_add(rate, 1.0) as u64;
        left_out = left_out.max(due.saturating_sub(most));
        while program.made + program.refused + left_out < due {
            program.next();
        }
        // Of 1,000 programs that bring little, each would else wake up for nothing most of the time.
        std::thread::sleep(Duration::from_secs_f64((1.0 / rate).clamp(0.005, 0.05)));
    }
    println!("{} {} {}", program.made, program.refused, self::cpu_ns() - cpu_ns);
    // The agent reads what is left before this process ends.
    std::io::stdin().read_line(&mut String::new())?;
    Ok(())
}

/// How much a client makes at once of what it is late with, seconds.
const MOST_LATE_S: f64 = 0.05;

/// Seconds at the full rate: it is reached within half a second, as a single lane of pages would be full before anybody
/// had looked at it.
fn eased(seconds: f64) -> f64 {
    if seconds < 0.5 { seconds * seconds } else { seconds - 0.25 }
}

/// What the agent's thread does at a look, and each so many looks: this is what is counted.
#[inline(never)]
fn look(client: &mut agent::Client, state: &mut AgentState, copied: &mut [Slot], sums: &mut Cells) {
    client.look(state, copied, Limits { running: 65_536, attribute_bytes: 4 << 20 });
    state.settle();
    sums.merge(&state.pass);
    state.pass.clear();
    client.publish();
}

/// Transactions of this process, and the agent's part in turn.
fn intake(shape: Shape, transactions: u64, batch: u64, others: usize) -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    // SAFETY: no other thread runs yet.
    unsafe { std::env::set_var("WEIR_ARM_DIR", folder.path()) };
    let mut program = Program::new(shape, Duration::ZERO);
    let (announcements, _) = Directory::open(folder.path())?.announcements(1);
    let announcement = *announcements.first().context("this process has announced nothing")?;
    // SAFETY: the call asks for a number.
    let memory = Memory::open(announcement, unsafe { libc::geteuid() })?;
    let mut client = agent::Client::new(0, announcement, None, memory, "bench".to_owned(), &[]);
    // A minute begins now: each has its own slowest ones, which are looked after, and counts are to be the same each time.
    let minute_begins_ns = 60_000_000_000 - host::now_ns() as i64;
    let mut state = AgentState::new("bench".to_owned(), minute_begins_ns, Rules::default(), u64::MAX);
    let (mut copied, mut sums) = (vec![Slot::default(); agent::COPIED_SLOTS], Cells::default());
    client.say_listening(host::now_ns());
    let mut elsewhere = vec![0u8; others];
    let mut looked_ns = 0;
    while program.made < transactions {
        let until = program.made + batch;
        while program.made < until {
            program.next();
        }
        elsewhere.iter_mut().for_each(|byte| *byte = byte.wrapping_add(1));
        let before_ns = cpu_ns();
        look(&mut client, &mut state, &mut copied, &mut sums);
        looked_ns += cpu_ns() - before_ns;
    }
    let counted: u64 = sums.each().map(|(_, cell)| cell.outcomes.all()).sum();
    ensure!(counted == program.made && program.refused == 0, "{counted} of {} came", program.made);
    println!("{}: {} transactions, {:.0} ns each", shape.name(), program.made, looked_ns as f64 / program.made as f64);
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
    fn start(
        directory: &Path,
        shape: Shape,
        rate: f64,
        processes: u32,
        seconds: f64,
        sleep_us: u64,
    ) -> anyhow::Result<Self> {
        let rate = (rate / f64::from(processes)).to_string();
        let role = ["client".to_owned(), shape.name(), rate, seconds.to_string(), sleep_us.to_string()];
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
        // The measurement that comes second in one pair comes first in the next.
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
    let mut clients = Clients::start(&directory, Shape::Calls, rate, processes, seconds, 50)?;
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

/// How long it takes from a transaction's end until a follower has read of it.
fn follow(rate: f64, processes: u32, seconds: f64) -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let directory = folder.path().join("arm");
    let mut agent = Other::start(&directory, &["agent".to_owned(), directory.display().to_string()])?;
    let mut ask = || -> anyhow::Result<AgentStatus> {
        agent.go_on()?;
        Ok(serde_json::from_str(&agent.line()?)?)
    };
    ask()?;
    let mut clients = Clients::start(&directory, Shape::Calls, rate, processes, seconds, 0)?;
    let until = Instant::now() + Duration::from_secs(60);
    while ask()?.processes < processes {
        ensure!(Instant::now() < until, "the agent does not know of all processes");
        std::thread::sleep(Duration::from_millis(50));
    }
    let mut connection = Connection::open(&directory)?;
    connection.send(&Ask::Tail(Filter::default()))?;
    while ask()?.subscribers == 0 {
        ensure!(Instant::now() < until, "the follower is not known to the agent");
        std::thread::sleep(Duration::from_millis(10));
    }
    let following = std::thread::spawn(move || -> anyhow::Result<Vec<u64>> {
        let mut waits_ns = Vec::new();
        while let Some(answer) = connection.receive(Some(Duration::from_secs(3)))? {
            let seen_ns = host::now_ns();
            let Answer::Transaction(seen) = answer else { bail!("{answer:?}") };
            waits_ns.push(seen_ns.saturating_sub(seen.start_ns + seen.duration_ns));
        }
        Ok(waits_ns)
    });
    let made = clients.go()?.transactions;
    let mut waits_ns = following.join().map_err(|_| anyhow::anyhow!("the follower has failed"))??;
    ensure!(waits_ns.len() as u64 == made && made > 0, "{made} were made, {} were seen", waits_ns.len());
    waits_ns.sort_unstable();
    let of = |share: f64| waits_ns[((waits_ns.len() - 1) as f64 * share) as usize] as f64 / 1e6;
    println!("| {rate:.0}/s | {processes} | {:.0} ms | {:.0} ms | {:.0} ms | {made} |", of(0.5), of(0.99), of(1.0));
    Ok(())
}

fn measure(shape: Shape, rate: f64, processes: u32, seconds: f64) -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let directory = folder.path().join("arm");
    let mut agent = Other::start(&directory, &["agent".to_owned(), directory.display().to_string()])?;
    let mut ask = || -> anyhow::Result<AgentStatus> {
        agent.go_on()?;
        Ok(serde_json::from_str(&agent.line()?)?)
    };
    ask()?;
    let mut clients = Clients::start(&directory, shape, rate, processes, seconds, 0)?;
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
    // A record that finds no room is counted; where it is an end, its transaction goes on running.
    let came = |status: &AgentStatus| status.counts.finished + status.counts.lost().saturating_sub(refused);
    while came(&last) < made {
        ensure!(Instant::now() < until + took, "{made} were made, {} came", last.counts.finished);
        std::thread::sleep(Duration::from_millis(20));
        last = ask()?;
    }
    ensure!(last.counts.finished <= made && last.counts.lost() >= refused, "{made} + {refused}: {:?}", last.counts);
    let share = (after.cpu_ns - before.cpu_ns) as f64 / took.as_nanos() as f64;
    println!(
        "| {} | {rate:.0}/s | {processes} | {:.2} % | {:.1} MB | {made} | {} |",
        shape.name(),
        share * 100.0,
        after.resident_bytes as f64 / 1e6,
        last.counts.lost()
    );
    Ok(())
}
