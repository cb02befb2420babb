//! Servers whose processes come and go under load, while their agents are killed.

use crate::{Told, agent_over, wait_for};
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Instant;
use weir_agent::connection::Connection;
use weir_agent::protocol::{AgentStatus, Answer, Ask};

/// Says to this program that it is to be an agent, and of which directory.
const ROLE: &str = "WEIR_WEB_MODULES_AGENT";
/// How many ask at the same time.
const CLIENTS: usize = 4;

/// An agent in a process of its own, which alone can be killed; it is when this is dropped.
#[derive(Debug)]
pub struct AgentApart {
    child: Child,
    arm: PathBuf,
}

impl AgentApart {
    /// Starts this program again as the agent of a directory. `role` is the test that calls [`be_an_agent_if_asked`].
    ///
    /// # Panics
    /// Where it does not start.
    pub fn start(arm: &Path, role: &str) -> Self {
        let mut command = Command::new(std::env::current_exe().expect("this program"));
        command.args([role, "--exact", "--nocapture", "--test-threads=1"]).env(ROLE, arm);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it starts");
        let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        assert!(lines.map_while(Result::ok).any(|line| line.contains("it listens")), "it is never ready");
        Self { child, arm: arm.to_owned() }
    }

    /// Kills it: it has no chance to tidy up, and is gone then.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// What it says of itself.
    ///
    /// # Panics
    /// Where it does not answer.
    pub fn status(&self) -> AgentStatus {
        match Connection::open(&self.arm).expect("it listens").ask(&Ask::Status) {
            Ok(Answer::Status(status)) => *status,
            other => panic!("{other:?}"),
        }
    }
}

impl Drop for AgentApart {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Runs an agent, if this process was started as one, until it is killed or its parent is gone.
pub fn be_an_agent_if_asked() {
    let Some(arm) = std::env::var_os(ROLE) else { return };
    // It has no subscriber, so all memory that it keeps is its own.
    let _agent = agent_over(Path::new(&arm));
    println!("it listens");
    std::io::stdin().lines().for_each(drop);
}

/// A server that is told to begin anew again and again.
#[expect(missing_debug_implementations, reason = "it holds calls")]
pub struct Turnover<'a> {
    /// How often.
    pub reloads: usize,
    /// Answers that are awaited after each time.
    pub answers: u64,
    /// Asks once; panics at any wrong answer.
    pub ask: &'a (dyn Fn() + Sync),
    /// Tells the server to begin anew, and waits where it could miss the next such word.
    pub reload: &'a (dyn Fn() + Sync),
    /// The process that starts the others.
    pub parent: u32,
    /// Where they announce themselves.
    pub arm: &'a Path,
    /// The test that is an agent.
    pub role: &'a str,
}

/// What was seen of it, for people to read.
#[derive(Debug)]
#[expect(dead_code, reason = "it is printed")]
pub struct TurnedOver {
    reloads: usize,
    kills: usize,
    answered: u64,
    seconds: u64,
    /// Memory at a quarter of it, and at its end, kB.
    parent_kb: [u64; 2],
    /// Memory of the last agent at three quarters, and at the end, kB.
    agent_kb: [u64; 2],
    /// Files that it has open, at the same times.
    parent_files: [usize; 2],
    most_announcements: usize,
}

impl TurnedOver {
    /// By how much the parent has grown, kB.
    pub fn parent_grew_kb(&self) -> u64 {
        self.parent_kb[1].saturating_sub(self.parent_kb[0])
    }
}

impl Turnover<'_> {
    /// Does it, under load, and kills agents in its first half; gives the last agent.
    ///
    /// # Panics
    /// Where a request fails, something stands still, or something grows.
    pub fn run(&self) -> (TurnedOver, AgentApart) {
        let begun = Instant::now();
        let (is_over, answered) = (AtomicBool::new(false), AtomicU64::new(0));
        let mut agent = AgentApart::start(self.arm, self.role);
        let kill_each = (self.reloads / 8).max(2);
        let mut seen = TurnedOver {
            reloads: self.reloads,
            kills: 0,
            answered: 0,
            seconds: 0,
            parent_kb: [0; 2],
            agent_kb: [0; 2],
            parent_files: [0; 2],
            most_announcements: 0,
        };
        thread::scope(|scope| {
            for _ in 0..CLIENTS {
                scope.spawn(|| {
                    while !is_over.load(Ordering::Relaxed) {
                        (self.ask)();
                        answered.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
            let over = Over(&is_over);
            for round in 0..self.reloads {
                let enough = answered.load(Ordering::Relaxed) + self.answers;
                (self.reload)();
                if round > 0 && round % kill_each == 0 && round <= self.reloads / 2 {
                    agent.kill();
                    agent = AgentApart::start(self.arm, self.role);
                    seen.kills += 1;
                }
                wait_for("answers after a reload", || answered.load(Ordering::Relaxed) >= enough);
                if round == self.reloads / 4 {
                    (seen.parent_kb[0], seen.parent_files[0]) = (resident_kb(self.parent), open_files(self.parent));
                }
                if round == self.reloads * 3 / 4 {
                    seen.agent_kb[0] = agent.status().resident_bytes / 1024;
                }
                seen.most_announcements = seen.most_announcements.max(announcements(self.arm).len());
            }
            (seen.parent_kb[1], seen.parent_files[1]) = (resident_kb(self.parent), open_files(self.parent));
            seen.agent_kb[1] = agent.status().resident_bytes / 1024;
            drop(over);
        });
        seen.answered = answered.into_inner();
        seen.seconds = begun.elapsed().as_secs();
        // Pipes to children that have just begun or ended are some.
        assert!(seen.parent_files[1] <= seen.parent_files[0] + 16, "the parent has more files open: {seen:?}");
        assert!(seen.agent_kb[1] < seen.agent_kb[0] + 30_000, "the agent has grown: {seen:?}");
        (seen, agent)
    }
}

/// When all processes have ended: something was told, nothing was lost, and an agent that starts leaves nothing of them.
///
/// # Panics
/// Where something was lost, or stays behind.
pub fn nothing_is_lost_or_stays(agent: AgentApart) {
    wait_for("a transaction", || agent.status().counts.finished > 0);
    wait_for("the ends of all processes", || agent.status().processes == 0);
    let counts = agent.status().counts;
    assert_eq!((counts.lost(), counts.unmatched, counts.laneless), (0, 0, 0), "{counts:?}");
    let arm = agent.arm.clone();
    drop(agent);
    nothing_stays_behind(&arm);
}

/// An agent removes now and then what processes have announced that are gone, and when it starts.
///
/// # Panics
/// Where something is left.
pub fn nothing_stays_behind(arm: &Path) {
    let _next = Told::over(arm);
    wait_for("the removal of all announcements", || announcements(arm).is_empty());
}

/// The announcements that are still there.
fn announcements(arm: &Path) -> Vec<String> {
    let names = fs::read_dir(arm).expect("it is there").flatten().map(|entry| entry.file_name());
    names
        .filter_map(|name| name.into_string().ok())
        .filter(|name| name.starts_with(|c: char| c.is_ascii_digit()))
        .collect()
}

/// Memory of a process, kB.
fn resident_kb(pid: u32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("it has memory");
    line.split_whitespace().next().and_then(|number| number.parse().ok()).expect("a number")
}

fn open_files(pid: u32) -> usize {
    fs::read_dir(format!("/proc/{pid}/fd")).map(Iterator::count).unwrap_or_default()
}

/// Ends the load also where the test fails.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
