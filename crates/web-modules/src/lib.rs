//! What the tests of both modules need: an agent that is asked what it was told. The modules themselves are in C, in
//! `native/apache` and `native/php`.

pub mod turnover;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use weir_agent::protocol::{AgentStatus, Answer, Ask, Filter};
use weir_agent::transaction::{MetricValue, Status, Transaction};
use weir_agent::{Agent, Settings, Subscription};

/// The longest wait for anything.
const PATIENCE: Duration = Duration::from_secs(20);
/// Whole transactions that wait to be asked for.
const ROOM: usize = 100_000;

/// An agent, and everything that it is told.
pub struct Told {
    /// The agent itself.
    pub agent: Agent,
    all: Subscription,
    arm: PathBuf,
    /// Removed at the end, behind the agent.
    _own: Option<TempDir>,
}

impl Told {
    /// Starts an agent over a directory of its own.
    ///
    /// # Panics
    /// Where it cannot; the system has no room.
    #[expect(clippy::new_without_default, reason = "a running agent is no default")]
    pub fn new() -> Self {
        let own = arm_directory();
        let mut told = Self::over(own.path());
        told._own = Some(own);
        told
    }

    /// Starts an agent over a directory that is there, and may have had others.
    ///
    /// # Panics
    /// Where it cannot; the directory is not there, or has an agent.
    pub fn over(arm: &Path) -> Self {
        let agent = agent_over(arm);
        let all = agent.subscribe(Filter::default(), ROOM).expect("it runs");
        Self { agent, all, arm: arm.to_owned(), _own: None }
    }

    /// Where processes announce themselves.
    pub fn arm(&self) -> &Path {
        &self.arm
    }

    /// The next so many transactions, by the time of their begin.
    ///
    /// # Panics
    /// Where other than so many come within 20 seconds.
    pub fn next(&self, count: usize) -> Vec<Transaction> {
        let mut found = Vec::new();
        let until = Instant::now() + PATIENCE;
        while found.len() < count {
            assert!(Instant::now() < until, "{} of {count}: {found:#?}", found.len());
            found.append(&mut self.take(Duration::from_millis(20)));
        }
        found.sort_by_key(|one| one.start_ns);
        assert_eq!(found.len(), count, "{found:#?}");
        found
    }

    /// What comes up to the end of one of this name, by the time of their begin.
    ///
    /// # Panics
    /// Where it does not come within 20 seconds.
    pub fn up_to(&self, name: &str) -> Vec<Transaction> {
        let mut found = Vec::new();
        wait_for(name, || {
            found.append(&mut self.take(Duration::from_millis(20)));
            found.iter().any(|one: &Transaction| one.name == name)
        });
        found.sort_by_key(|one| one.start_ns);
        found
    }

    /// The names of what has come besides.
    pub fn rest(&self) -> Vec<String> {
        thread::sleep(Duration::from_millis(150));
        self.take(Duration::from_millis(50)).into_iter().map(|one| one.name).collect()
    }

    /// What the agent says of itself.
    ///
    /// # Panics
    /// Where it does not answer.
    pub fn status(&self) -> AgentStatus {
        match self.agent.ask(Ask::Status) {
            Answer::Status(status) => *status,
            other => panic!("{other:?}"),
        }
    }

    fn take(&self, within: Duration) -> Vec<Transaction> {
        self.all.take(within).iter().map(|one| Transaction::clone(one)).collect()
    }
}

/// An agent that looks often.
fn agent_over(arm: &Path) -> Agent {
    let settings = Settings {
        directory: arm.to_owned(),
        host: "here".to_owned(),
        beat: Duration::from_millis(10),
        batch: Duration::from_millis(100),
        ..Settings::default()
    };
    Agent::start(settings, None, None).expect("it starts")
}

/// A directory for announcements that all users may write into.
///
/// # Panics
/// Where there is no room for it.
pub fn arm_directory() -> TempDir {
    let folder = tempfile::tempdir().expect("a temporary directory");
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o1777)).expect("it is ours");
    folder
}

/// Makes something of a module's own Makefile, `native/<module>`.
///
/// # Panics
/// Where `make` is not there.
pub fn make(module: &str, words: &[&str]) -> Output {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../native").join(module);
    Command::new("make").arg("-C").arg(source).args(words).output().expect("make is there")
}

/// How much of something a test does: `otherwise`, unless a variable asks for more, as `make soak-arm` does.
pub fn asked(variable: &str, otherwise: u32) -> u32 {
    std::env::var(variable).ok().and_then(|count| count.parse().ok()).unwrap_or(otherwise)
}

/// Waits until something holds; it has twenty seconds.
///
/// # Panics
/// Where it does not hold by then.
pub fn wait_for(what: &str, mut holds: impl FnMut() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < until, "{what}: it does not come");
        thread::sleep(Duration::from_millis(2));
    }
}

/// Each one's name, how it ended, and the name of its parent.
pub fn tree(all: &[Transaction]) -> Vec<(&str, Status, Option<&str>)> {
    let parent = |one: &Transaction| all.iter().find(|other| Some(other.id) == one.parent);
    all.iter().map(|one| (one.name.as_str(), one.status, parent(one).map(|other| other.name.as_str()))).collect()
}

/// A metric by its name.
pub fn metric(of: &Transaction, name: &str) -> Option<i64> {
    of.details.metrics.iter().find(|metric| metric.name == name).and_then(|metric| match metric.value {
        MetricValue::Integer(number) => Some(number),
        _ => None,
    })
}

/// A value of the context by its name.
pub fn context<'a>(of: &'a Transaction, name: &str) -> Option<&'a str> {
    of.details.context.iter().find(|value| value.name == name).map(|value| value.value.as_str())
}
