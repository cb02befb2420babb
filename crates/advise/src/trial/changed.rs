//! A copy of a run's servers with other workers, alone: what a prediction is held to.

use super::copy::Copies;
use super::whole::{front, refuse_what_cannot_be_copied, target, words_for_a_copy};
use crate::finding::Setting;
use crate::rules::Case;
use crate::servers::{Kind, Server};
use anyhow::{Context, bail};
use std::ffi::CString;
use std::fs;
use std::net::TcpStream;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use weir_compare::Guardian;

/// A copy may take so long to listen.
const STARTS_WITHIN: Duration = Duration::from_secs(15);
/// And so long to end.
const ENDS_WITHIN: Duration = Duration::from_secs(2);
const LOOKS_EACH: Duration = Duration::from_millis(20);

/// A copy of a run's servers with other workers, until it is dropped: then all its processes are ended and its files are
/// removed, as they are where this program is killed.
pub struct Changed {
    url: String,
    words: Vec<String>,
    told: String,
    child: Child,
    /// Ends the processes before the files go.
    guardian: Option<Guardian>,
    copies: Copies,
}

impl Changed {
    /// Starts it, with so many workers in each pool of these names.
    pub(crate) fn start(case: &Case<'_>, workers: &[(String, u32)]) -> anyhow::Result<Self> {
        let url = target(case, None)?;
        let front = front(case, url.port)?;
        let mut settings = Vec::new();
        for (pool, count) in workers {
            let of_pool = of_pool(case, pool, *count)?;
            of_pool.iter().try_for_each(|setting| refuse_what_cannot_be_copied(case, setting.server, front))?;
            settings.extend(of_pool);
        }
        let copies = Copies::with(case.servers, front, url.port, &[&settings], false)?;
        let [(command, port)] = copies.sides() else { bail!("it is of one copy") };
        let (command, port) = (command.clone(), *port);
        let folder = CString::new(copies.folder().as_os_str().as_bytes())?;
        let guardian = Guardian::start(None, &[], Some(&folder)).context("starting a guardian of the copy")?;
        let mut shell = Command::new(&command[0]);
        shell.env("WEIR_COMPARE_SUBJECT", guardian.mark());
        shell.args(&command[1..]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
        // SAFETY: it is made for this place.
        unsafe { shell.pre_exec(guardian.joining()) };
        let child = shell.spawn().context("starting the copy")?;
        let scheme = if url.encrypted { "https" } else { "http" };
        let mut copy = Self {
            url: format!("{scheme}://127.0.0.1:{port}{}", url.target),
            words: words_for_a_copy(&url),
            told: told(&settings),
            child,
            guardian: Some(guardian),
            copies,
        };
        copy.wait(port)?;
        Ok(copy)
    }

    fn wait(&mut self, port: u16) -> anyhow::Result<()> {
        let begun = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            if let Some(status) = self.child.try_wait()? {
                bail!(
                    "the copy of the servers ended at its start ({status}): does their configuration start as it is?"
                );
            }
            if begun.elapsed() > STARTS_WITHIN {
                bail!("the copy of the servers does not listen within {} s", STARTS_WITHIN.as_secs());
            }
            std::thread::sleep(LOOKS_EACH);
        }
        Ok(())
    }

    /// Its URL.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Options that a load of it needs besides.
    pub fn load_words(&self) -> &[String] {
        &self.words
    }

    /// What it has that the user's servers do not, in words: `pm.max_children = 8, pm = static`.
    pub fn told(&self) -> &str {
        &self.told
    }
}

impl Drop for Changed {
    fn drop(&mut self) {
        // php-fpm leaves the process group, and what it is called stands where its environment was.
        let pids = pids(self.copies.folder());
        // SAFETY: a system call without pointers.
        let is_told = |pid: &libc::pid_t, signal| unsafe { libc::kill(*pid, signal) } == 0;
        pids.iter().for_each(|pid| {
            is_told(pid, libc::SIGTERM);
        });
        self.guardian = None;
        // It was killed; its number is ours until it is waited for.
        let _ = self.child.wait();
        let begun = Instant::now();
        while pids.iter().any(|pid| is_told(pid, 0)) && begun.elapsed() < ENDS_WITHIN {
            std::thread::sleep(LOOKS_EACH);
        }
    }
}

/// The processes that the copies wrote into their files of process ids.
fn pids(folder: &Path) -> Vec<libc::pid_t> {
    let sides = fs::read_dir(folder).into_iter().flatten().flatten();
    let files = sides.filter_map(|side| fs::read_dir(side.path()).ok()).flatten().flatten();
    let files = files.map(|file| file.path()).filter(|path| path.extension().is_some_and(|is| is == "pid"));
    let pids = files.filter_map(|path| fs::read_to_string(path).ok()?.trim().parse().ok());
    // Others would be groups of processes.
    pids.filter(|pid| *pid > 1).collect()
}

fn told(settings: &[Setting]) -> String {
    let each: Vec<String> = settings.iter().map(|one| format!("{} = {}", one.name, one.proposed)).collect();
    each.join(", ")
}

/// The settings by which a pool has so many workers.
fn of_pool(case: &Case<'_>, pool: &str, count: u32) -> anyhow::Result<Vec<Setting>> {
    let is_meant = |server: &Server| {
        let kind = server.kind.name().to_ascii_lowercase();
        Kind::of(pool) == Some(server.kind)
            || kind.split('-').any(|word| word.starts_with(pool))
            || kind.starts_with(pool)
    };
    let meant: Vec<(usize, &Server)> = case.servers.list.iter().enumerate().filter(|(_, one)| is_meant(one)).collect();
    let [(number, server)] = meant[..] else {
        bail!("{} servers of this run are called {pool:?}, and a copy is made of one", meant.len());
    };
    let configuration = &server.configuration;
    match server.kind {
        Kind::PhpFpm => {
            let children = configuration.all("pm.max_children");
            let [children] = &children[..] else {
                bail!("{} has {} pools: which of them is meant is not known", server.label(), children.len());
            };
            let mut settings = vec![Setting::of(number, configuration, children, &count.to_string())];
            // All of them are there at once, as the model has them, and no bound of a dynamic pool is above.
            let kind = configuration.last("pm").filter(|found| found.word() != "static");
            settings.extend(kind.map(|found| Setting::of(number, configuration, &found, "static")));
            Ok(settings)
        }
        Kind::Nginx => {
            let count = count.to_string();
            Ok(vec![match configuration.last("worker_processes") {
                Some(found) => Setting::of(number, configuration, &found, &count),
                None => Setting::added(number, configuration, "worker_processes", &[], "1", &count),
            }])
        }
        Kind::Apache => bail!(
            "the workers of {} are processes and threads by several settings: start one that has them, and name it",
            server.label()
        ),
        Kind::Postgres | Kind::Mariadb => bail!("{} is not copied: it would work on its owner's data", server.label()),
    }
}
