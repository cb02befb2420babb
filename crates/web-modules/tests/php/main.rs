//! The extension arm in Debian's PHP, on the command line and in servers, with an agent that reads what it tells.
// scripts/test: counts

mod application;
mod automatic;
mod calls;
mod cost;
mod databases;
mod objects;
mod outgoing;
mod package;
mod reloads;
mod servers;
mod with_apache;

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::LazyLock;
use tempfile::TempDir;
use weir_agent::transaction::Transaction;
use weir_testkit::require;
use weir_web_modules::{Told, make};

/// The extension as `make` builds it, and the library under the name that it looks for.
static BUILT: LazyLock<TempDir> = LazyLock::new(|| {
    let folder = tempfile::tempdir().expect("a temporary directory");
    // As root, servers read it as another user.
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("it is ours");
    let output = make("php", &[&format!("BUILD={}", folder.path().display())]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let library = std::env::current_exe().expect("this test").with_file_name("libarm4.so");
    fs::copy(&library, folder.path().join("libarm4.so")).expect("the library was built");
    symlink("libarm4.so", folder.path().join("libarm4.so.4")).expect("a link");
    folder
});

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

/// Runs a program with so many transactions; gives what it printed, and them.
pub(crate) fn run(told: &Told, ini: &[&str], code: &str, count: usize) -> (String, Vec<Transaction>) {
    let output = php(ini, told.arm()).arg("-r").arg(code).output().expect("it starts");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code().is_some(), "{code}: {} {said} {errors}", output.status);
    assert!(errors.is_empty(), "{errors}");
    (said, told.next(count))
}
