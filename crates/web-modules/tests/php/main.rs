//! The extension arm in Debian's PHP, on the command line and in servers, with an agent that reads what it tells.

mod automatic;
mod calls;
mod cost;
mod databases;
mod objects;
mod package;
mod servers;
mod with_apache;

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::LazyLock;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use weir_agent::protocol::Filter;
use weir_agent::transaction::{Status, Transaction};
use weir_agent::{Agent, Settings, Subscription};
use weir_testkit::require;

/// The extension as `make` builds it, and the library under the name that it looks for.
static BUILT: LazyLock<TempDir> = LazyLock::new(|| {
    let folder = tempfile::tempdir().expect("a temporary directory");
    // As root, servers read it as another user.
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("it is ours");
    let output = make(&[&format!("BUILD={}", folder.path().display())]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let library = std::env::current_exe().expect("this test").with_file_name("libarm4.so");
    fs::copy(&library, folder.path().join("libarm4.so")).expect("the library was built");
    symlink("libarm4.so", folder.path().join("libarm4.so.4")).expect("a link");
    folder
});

/// Makes something of the extension's own Makefile.
pub(crate) fn make(words: &[&str]) -> Output {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../native/php");
    Command::new("make").arg("-C").arg(source).args(words).output().expect("make is there")
}

/// PHP, its headers and an extension that is tried with it.
pub(crate) fn required(extension: &str) -> Option<()> {
    require::program("php-config8.2")?;
    require::program("php8.2")?;
    // Built into Debian's command line.
    if matches!(extension, "" | "pcntl") { Some(()) } else { require::php_extension(extension) }
}

/// The extension's file, and the directory of the library.
pub(crate) fn built() -> (PathBuf, PathBuf) {
    (BUILT.path().join("arm.so"), BUILT.path().to_owned())
}

/// A directory for announcements that all users may write into.
pub(crate) fn arm_directory() -> TempDir {
    let folder = tempfile::tempdir().expect("a temporary directory");
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o1777)).expect("it is ours");
    folder
}

/// PHP's command line with the extension and `ini`, about to run a program.
pub(crate) fn php(ini: &[&str], arm: &Path) -> Command {
    let mut command = Command::new("timeout");
    // Nothing of /etc/php: what is loaded stands here.
    command.args(["30", "php8.2", "-n"]);
    command.arg("-d").arg(format!("extension={}", built().0.display()));
    for setting in ini {
        command.args(["-d", setting]);
    }
    command.env("LD_LIBRARY_PATH", built().1).env("WEIR_ARM_DIR", arm).stdin(Stdio::null());
    command
}

/// An agent, and everything that it is told.
pub(crate) struct Told {
    pub(crate) agent: Agent,
    all: Subscription,
    pub(crate) arm: TempDir,
}

impl Told {
    pub(crate) fn new() -> Self {
        let arm = arm_directory();
        let settings = Settings {
            directory: arm.path().to_owned(),
            host: "here".to_owned(),
            beat: Duration::from_millis(10),
            batch: Duration::from_millis(100),
            ..Settings::default()
        };
        let agent = Agent::start(settings, None, None).expect("it starts");
        let all = agent.subscribe(Filter::default(), 100_000).expect("it runs");
        Self { agent, all, arm }
    }

    /// The next so many transactions, by the time of their begin.
    pub(crate) fn next(&self, count: usize) -> Vec<Transaction> {
        let mut found: Vec<Transaction> = Vec::new();
        let until = Instant::now() + Duration::from_secs(20);
        while found.len() < count {
            assert!(Instant::now() < until, "{} of {count}: {found:#?}", found.len());
            found.extend(self.all.take(Duration::from_millis(20)).iter().map(|it| Transaction::clone(it)));
        }
        found.sort_by_key(|one| one.start_ns);
        assert_eq!(found.len(), count, "{found:#?}");
        found
    }

    /// What has come besides.
    pub(crate) fn rest(&self) -> Vec<String> {
        std::thread::sleep(Duration::from_millis(150));
        self.all.take(Duration::from_millis(50)).iter().map(|one| one.name.clone()).collect()
    }

    /// Runs a program with so many transactions; gives what it printed, and them.
    pub(crate) fn run(&self, ini: &[&str], code: &str, count: usize) -> (String, Vec<Transaction>) {
        let output = php(ini, self.arm.path()).arg("-r").arg(code).output().expect("it starts");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code().is_some(), "{code}: {} {said} {errors}", output.status);
        assert!(errors.is_empty(), "{errors}");
        (said, self.next(count))
    }
}

/// Each one's name, how it ended, and the name of its parent.
pub(crate) fn tree(all: &[Transaction]) -> Vec<(&str, Status, Option<&str>)> {
    let parent = |one: &Transaction| all.iter().find(|other| Some(other.id) == one.parent);
    all.iter().map(|one| (one.name.as_str(), one.status, parent(one).map(|other| other.name.as_str()))).collect()
}

/// A value of the context by its name.
pub(crate) fn context<'a>(of: &'a Transaction, name: &str) -> Option<&'a str> {
    of.details.context.iter().find(|value| value.name == name).map(|value| value.value.as_str())
}
