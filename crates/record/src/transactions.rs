//! Transactions that applications tell of (ARM), as a stream of a run: `--arm`.

use anyhow::{Context, bail};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use weir_agent::connection::Connection;
use weir_agent::export::Phases;
use weir_agent::protocol::{Answer, Ask, Filter};
use weir_trace::{Cost, Limits, Run, Source, StreamWriter, WriteError};

/// How often we check whether the recording is over.
const LOOK: Duration = Duration::from_millis(50);
/// How long we listen on after the recording's end: the agent reports late what ended before.
const SETTLE: Duration = Duration::from_millis(400);

/// An agent that tells, before there is a run to write to.
pub(crate) struct Subscription {
    connection: Connection,
    host: String,
}

impl Subscription {
    /// Asks the agent of this host to tell of every transaction.
    pub(crate) fn open() -> anyhow::Result<Self> {
        let directory = weir_agent::directory::usual();
        let mut connection = Connection::open(&directory)
            .context("--arm: no agent tells of transactions; start `weir agent`, or leave --arm out")?;
        let Answer::Status(status) = connection.ask(&Ask::Status)? else {
            bail!("--arm: the agent is of another version; start it anew");
        };
        connection.send(&Ask::Tail(Filter::default()))?;
        Ok(Self { connection, host: status.host })
    }

    /// Begins to keep what it tells, for the run.
    pub(crate) fn record(self, run: &Run) -> anyhow::Result<ArmRecording> {
        run.begin(Source::Arm, weir_terminal::VERSION, weir_terminal::privacy::command_line(), None, None)?;
        let over = Arc::new(AtomicBool::new(false));
        let (seen, own) = (Arc::clone(&over), run.clone());
        let thread = std::thread::Builder::new()
            .name("weir-arm".to_owned())
            .spawn(move || listen(self, &own, &seen))
            .context("cannot start a thread for --arm")?;
        Ok(ArmRecording { over, thread: Some(thread), run: run.clone() })
    }
}

/// Transactions on their way into a run.
pub(crate) struct ArmRecording {
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<anyhow::Result<Heard>>>,
    run: Run,
}

/// What came.
#[derive(Default)]
struct Heard {
    transactions: u64,
    missed: u64,
    cost: Cost,
    notes: Vec<String>,
}

impl ArmRecording {
    /// Ends it; what is missing is noted in the run, and said.
    pub(crate) fn finish(mut self) -> anyhow::Result<()> {
        self.over.store(true, Ordering::Release);
        let heard = match self.thread.take().map(JoinHandle::join) {
            Some(Ok(heard)) => heard?,
            _ => bail!("the recording of transactions failed"),
        };
        let mut notes = heard.notes;
        if heard.missed > 0 {
            notes.push(format!("{} transactions were not read in time, and are in no phase", heard.missed));
        }
        if heard.transactions == 0 {
            notes.push("no application told of a transaction (ARM) meanwhile".to_owned());
        }
        notes.iter().for_each(|note| eprintln!("weir: --arm: {note}"));
        self.run.end(Source::Arm, heard.cost, notes)?;
        Ok(())
    }
}

fn listen(subscription: Subscription, run: &Run, over: &AtomicBool) -> anyhow::Result<Heard> {
    let Subscription { mut connection, host } = subscription;
    let mut stream = run.stream(Source::Arm, 0, Limits { stream_bytes: 256 << 20, ..Limits::default() });
    let (mut phases, mut heard) = (Phases::default(), Heard::default());
    // Phases from before the recording are left out.
    phases.tell(weir_agent::host::now_ns(), &mut |_, _| {});
    let mut until: Option<Instant> = None;
    loop {
        if over.load(Ordering::Acquire) {
            let until = *until.get_or_insert_with(|| Instant::now() + SETTLE);
            if Instant::now() >= until {
                break;
            }
        }
        match connection.receive(Some(LOOK)) {
            Ok(None) => {}
            // Those of other hosts have other clocks.
            Ok(Some(Answer::Transaction(transaction))) if transaction.host == host => {
                heard.transactions += 1;
                if phases.push(&transaction) {
                    write(&mut phases, None, &mut stream)?;
                }
            }
            Ok(Some(Answer::Missed { transactions })) => heard.missed += transactions,
            Ok(Some(_)) => {}
            Err(error) => {
                heard.notes.push(format!("the agent told no more before the recording was over: {error}"));
                break;
            }
        }
    }
    write(&mut phases, Some(u64::MAX), &mut stream)?;
    if phases.lost() > 0 {
        heard.notes.push(format!("{} stretches of transactions found no room", phases.lost()));
    }
    let written = stream.finish()?;
    heard.cost = Cost { events: written.records, bytes: written.bytes, lost: written.lost, ..Cost::default() };
    Ok(heard)
}

/// Writes what there is up to a time; the older half without one.
fn write(phases: &mut Phases, until_ns: Option<u64>, stream: &mut StreamWriter) -> Result<(), WriteError> {
    let until_ns = until_ns.unwrap_or_else(|| phases.median_ns());
    let mut outcome = Ok(());
    phases.tell(until_ns, &mut |record, (id, text)| {
        if outcome.is_ok() {
            stream.define(id, text);
            outcome = stream.push(record, &[], Some(id));
        }
    });
    outcome
}
