//! What is around weir: the time of other hosts, the agent's directory, programs that parts of weir start.

use super::check::{Check, Job, Subject};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// The error of the clock from which on it matters for several hosts, microseconds.
const ERROR_US: i64 = 10_000;
/// The kernel's clock is not synchronised (adjtimex(2)).
const UNSYNCHRONISED: i32 = libc::STA_UNSYNC;
/// Programs that discipline the clock.
const DISCIPLINES: [&str; 4] = ["chronyd", "systemd-timesyn", "ntpd", "ntpsec"];

/// A program that a part of weir starts: its names, what for, and the package of Debian.
struct Tool(&'static str, &'static [&'static str], &'static [Job], &'static str, &'static str);

const TOOLS: [Tool; 5] = [
    Tool(
        "ssh",
        &["ssh"],
        &[Job::Explain, Job::Load],
        "records and loads on other hosts (--host, --workers)",
        "openssh-client",
    ),
    Tool("openssl", &["openssl"], &[Job::Load], "makes certificates for `weir compare` over TLS", "openssl"),
    Tool(
        "php-fpm",
        &["php-fpm", "php-fpm8.2", "php-fpm8.3", "php-fpm8.4"],
        &[Job::Serve],
        "runs PHP for `weir serve --php`",
        "php-fpm",
    ),
    Tool("etcd", &["etcd"], &[Job::Cluster], "keeps what more than one node must agree on", "etcd-server"),
    Tool("sh", &["sh"], &[Job::Serve], "runs scripts of sites", "dash"),
];

/// All of them.
pub(super) fn checks() -> Vec<Check> {
    let mut checks = vec![time(clock(), daemon().as_deref()), agent(&weir_agent::directory::usual())];
    let path = std::env::var_os("PATH").unwrap_or_default();
    checks.extend(TOOLS.iter().map(|one| tool(one, &path)));
    checks
}

/// How the kernel's clock stands with real time.
#[derive(Debug, Clone, Copy)]
struct Clock {
    is_synchronised: bool,
    error_us: i64,
}

fn clock() -> std::io::Result<Clock> {
    // SAFETY: the structure is plain numbers, of which any are valid; no mode asks for a change.
    let mut told: libc::timex = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is to a timex of ours, which the call fills.
    if unsafe { libc::adjtimex(&raw mut told) } < 0 {
        return Err(std::io::Error::last_os_error());
    }
    Ok(Clock { is_synchronised: told.status & UNSYNCHRONISED == 0, error_us: told.maxerror })
}

/// The program that disciplines the clock, if one runs.
fn daemon() -> Option<String> {
    DISCIPLINES.into_iter().find(|name| !weir_capture::named(name).is_empty()).map(str::to_owned)
}

fn time(clock: std::io::Result<Clock>, daemon: Option<&str>) -> Check {
    let subject = Subject("time", &[Job::Explain, Job::Cluster]);
    let by = daemon.map_or("by no program that is known".to_owned(), |name| format!("by {name}"));
    let means = "recordings of several hosts and the logs of a cluster's nodes go by it";
    match clock {
        Err(why) => subject.unknown(why, means),
        Ok(Clock { is_synchronised: false, .. }) => subject.limited(
            format!("not synchronised, {by}"),
            "times of several hosts lie apart by as much as their clocks; one host alone is not touched by it",
            "install chrony (or systemd-timesyncd) on each host, and wait until it has synchronised",
        ),
        Ok(Clock { error_us, .. }) if error_us > ERROR_US => subject.limited(
            format!("synchronised {by}, wrong by at most {:.0} ms", error_us as f64 / 1e3),
            "times of several hosts may lie apart by as much",
            "use a nearer time server, or wait: the bound shrinks while the clock is watched",
        ),
        Ok(Clock { error_us, .. }) => {
            subject.ok(format!("synchronised {by}, wrong by at most {:.1} ms", error_us as f64 / 1e3), means)
        }
    }
}

fn agent(directory: &Path) -> Check {
    let subject = Subject("arm-directory", &[Job::Arm]);
    let shown = directory.display();
    if directory.is_dir() {
        return subject
            .ok(shown.to_string(), "applications leave their transactions there, and `weir agent` finds them");
    }
    let parent = directory.parent().unwrap_or(directory);
    let path = std::ffi::CString::new(parent.as_os_str().as_encoded_bytes()).unwrap_or_default();
    // SAFETY: the path ends with a zero.
    if unsafe { libc::access(path.as_ptr(), libc::W_OK) } == 0 {
        return subject.limited(
            format!("no {shown} yet"),
            "no agent has run here: what applications report is not taken in",
            "start `weir agent`, which makes it",
        );
    }
    subject.missing(
        format!("no {shown}, and {} may not be written to", parent.display()),
        "no agent can be found by applications",
        "name a directory that you may write to by WEIR_ARM_DIR, for the agent and for the applications",
    )
}

fn tool(tool: &Tool, path: &OsStr) -> Check {
    let Tool(name, names, jobs, what, package) = *tool;
    let subject = Subject(name, jobs);
    match names.iter().find_map(|name| found(name, path)) {
        Some(file) => subject.ok(file.display().to_string(), what),
        None => subject.limited(
            "not on the search path",
            format!("it {what}; all else works without"),
            format!("install it (Debian: apt install {package}), or leave that part"),
        ),
    }
}

/// Where a program lies on the search path.
fn found(name: &str, path: &OsStr) -> Option<PathBuf> {
    // Servers are in /usr/sbin, which is not on everyone's path.
    let folders = std::env::split_paths(path).chain([PathBuf::from("/usr/sbin"), PathBuf::from("/usr/local/sbin")]);
    folders
        .map(|folder| folder.join(name))
        .find(|file| fs::metadata(file).is_ok_and(|about| about.is_file() && about.permissions().mode() & 0o111 != 0))
}

#[cfg(test)]
mod tests {
    use super::super::check::State;
    use super::*;

    #[test]
    fn the_clock_is_judged_by_its_error() {
        let told = |is_synchronised, error_us| time(Ok(Clock { is_synchronised, error_us }), Some("chronyd"));
        assert_eq!(told(true, 400).state, State::Ok);
        assert_eq!(told(true, 90_000).found, "synchronised by chronyd, wrong by at most 90 ms");
        assert_eq!(told(false, 16_000_000).state, State::Limited);
        assert_eq!(time(Err(std::io::Error::from_raw_os_error(libc::EPERM)), None).state, State::Unknown);
    }

    #[test]
    fn programs_are_found_by_their_files() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("weir-test-tool");
        fs::write(&file, "").expect("a file");
        let asked = Tool("x", &["weir-test-tool"], &[Job::Serve], "does nothing", "none");
        assert_eq!(tool(&asked, folder.path().as_os_str()).state, State::Limited, "it may not be run");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).expect("may be changed");
        assert_eq!(tool(&asked, folder.path().as_os_str()).found, file.display().to_string());
    }

    #[test]
    fn the_agents_directory_is_looked_for() {
        let folder = tempfile::tempdir().expect("a folder");
        assert_eq!(agent(folder.path()).state, State::Ok);
        assert_eq!(agent(&folder.path().join("arm")).state, State::Limited);
        assert_eq!(agent(Path::new("/nowhere/at/all/arm")).state, State::Missing);
    }
}
