//! A process as /proc shows it, as far as its configuration can be found by it.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Bytes of a command line or an environment that are read.
const MOST_BYTES: usize = 1 << 20;

/// A process.
#[derive(Debug, Clone, Default)]
pub(crate) struct Process {
    /// Its number.
    pub(crate) pid: u32,
    /// Its name, cut to 15 characters by the kernel.
    pub(crate) name: String,
    /// Its program; the name alone where we may not see it.
    pub(crate) program: PathBuf,
    /// Its command line as it is now; many servers replace it by a title.
    pub(crate) words: Vec<String>,
    /// Its working directory.
    pub(crate) folder: PathBuf,
    /// Its environment when it was started, as far as it has not overwritten it.
    pub(crate) environment: Vec<(String, String)>,
    /// Where its files are found by us.
    pub(crate) root: PathBuf,
    /// Whether it belongs to the user that we are.
    pub(crate) is_ours: bool,
    /// Whether it is of our mount and network namespaces.
    pub(crate) is_near: bool,
}

impl Process {
    /// Reads a process; `None` if it is gone.
    pub(crate) fn read(pid: u32) -> Option<Self> {
        let folder = PathBuf::from(format!("/proc/{pid}"));
        let stat = fs::read_to_string(folder.join("stat")).ok()?;
        // The name stands in parentheses and may hold anything: the fields follow the last one.
        let (head, _) = stat.rsplit_once(')')?;
        let name = head.split_once('(')?.1.to_owned();
        let strings = |file: &str| -> Vec<String> {
            let mut bytes = fs::read(folder.join(file)).unwrap_or_default();
            bytes.truncate(MOST_BYTES);
            let parts = bytes.split(|&byte| byte == 0).filter(|part| !part.is_empty());
            parts.map(|part| String::from_utf8_lossy(part).into_owned()).collect()
        };
        let environment = strings("environ").iter().filter_map(|pair| pair.split_once('=')).map(owned).collect();
        let program = fs::read_link(folder.join("exe")).map_or_else(|_| PathBuf::from(&name), |path| undeleted(&path));
        let same = |space: &str| {
            let of = |who: &str| fs::read_link(format!("/proc/{who}/ns/{space}")).ok();
            // A process that we may not look into is asked about in our own place.
            of(&pid.to_string()).is_none_or(|theirs| Some(theirs) == of("self"))
        };
        let (same_files, same_net) = (same("mnt"), same("net"));
        let is_near = same_files && same_net;
        let root = if same_files { PathBuf::from("/") } else { folder.join("root") };
        // SAFETY: geteuid has no preconditions.
        let is_ours = fs::metadata(&folder).is_ok_and(|metadata| metadata.uid() == unsafe { libc::geteuid() });
        let cwd = fs::read_link(folder.join("cwd")).unwrap_or_else(|_| PathBuf::from("/"));
        Some(Self { pid, name, program, words: strings("cmdline"), folder: cwd, environment, root, is_ours, is_near })
    }

    /// Whether this is its name, or that of one of its threads.
    pub(crate) fn has_task(&self, name: &str) -> bool {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.pid)).into_iter().flatten().flatten();
        let mut names = tasks.filter_map(|task| fs::read_to_string(task.path().join("comm")).ok());
        self.name == name || names.any(|other| other.trim_end_matches('\n') == name)
    }

    /// A command that would be run by us, here.
    pub(crate) fn of_command(words: &[String]) -> Option<Self> {
        let program = on_the_path(words.first()?)?;
        Some(Self {
            name: program.file_name()?.to_string_lossy().into_owned(),
            program,
            words: words.to_vec(),
            folder: std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/")),
            environment: std::env::vars().collect(),
            root: PathBuf::from("/"),
            is_ours: true,
            is_near: true,
            ..Self::default()
        })
    }

    /// The title that a server gave itself in the place of its command line.
    pub(crate) fn title(&self) -> String {
        self.words.join(" ")
    }

    /// The value of an option such as `-f`, attached (`-ffile`, `--file=file`) or the next word.
    pub(crate) fn option(&self, name: &str) -> Option<String> {
        self.options(name).pop()
    }

    /// All values of an option that may be repeated.
    pub(crate) fn options(&self, name: &str) -> Vec<String> {
        let mut values = Vec::new();
        let mut words = self.words.iter().skip(1);
        while let Some(word) = words.next() {
            if word == name {
                values.extend(words.next().cloned());
            } else if let Some(rest) = word.strip_prefix(name) {
                let attached = if name.starts_with("--") { rest.strip_prefix('=') } else { Some(rest) };
                values.extend(attached.map(str::to_owned));
            }
        }
        values
    }

    /// The value of a variable of its environment.
    pub(crate) fn variable(&self, name: &str) -> Option<&str> {
        self.environment.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }
}

/// Whether we may run a program: only root and we can write it and the directories above it.
pub(crate) fn is_trusted(program: &Path) -> bool {
    // SAFETY: geteuid has no preconditions.
    let us = unsafe { libc::geteuid() };
    let of_us = |path: &Path| {
        fs::metadata(path)
            .is_ok_and(|metadata| (metadata.uid() == 0 || metadata.uid() == us) && metadata.mode() & 0o022 == 0)
    };
    program.is_absolute() && program.ancestors().all(of_us)
}

/// The numbers of all processes, with their parents.
pub(crate) fn all() -> Vec<(u32, u32)> {
    let listing = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = listing.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let with_parent = |pid: u32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        Some((pid, stat.rsplit_once(')')?.1.split_ascii_whitespace().nth(1)?.parse().ok()?))
    };
    numbers.filter_map(with_parent).collect()
}

/// Resident memory of a process, bytes.
pub(crate) fn resident_bytes(pid: u32) -> Option<u64> {
    // Proportional where it can be had: what workers share is not counted for each.
    let field = |file: &str, name: &str| -> Option<u64> {
        let text = fs::read_to_string(format!("/proc/{pid}/{file}")).ok()?;
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim().trim_end_matches("kB").trim().parse::<u64>().ok().map(|kib| kib << 10)
    };
    field("smaps_rollup", "Pss:").or_else(|| field("status", "VmRSS:"))
}

/// Memory that the host can still give, bytes.
pub(crate) fn available_bytes() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().trim_end_matches("kB").trim().parse::<u64>().ok().map(|kib| kib << 10)
}

/// Whether a process goes before all others on a CPU: a real-time or deadline task.
pub(crate) fn is_real_time(pid: u32) -> bool {
    let Ok(pid) = libc::pid_t::try_from(pid) else { return false };
    // SAFETY: the call takes a number and touches no memory.
    let policy = unsafe { libc::sched_getscheduler(pid) };
    [libc::SCHED_FIFO, libc::SCHED_RR, libc::SCHED_DEADLINE].contains(&policy)
}

/// Whether a process takes questions for names: it has a UDP socket on port 53 of its network namespace.
pub(crate) fn answers_names(pid: u32) -> bool {
    let sockets: Vec<String> = ["udp", "udp6"]
        .iter()
        .filter_map(|table| fs::read_to_string(format!("/proc/{pid}/net/{table}")).ok())
        .flat_map(|text| text.lines().filter_map(name_socket).collect::<Vec<_>>())
        .collect();
    let files = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    !sockets.is_empty()
        && files
            .filter_map(|file| fs::read_link(file.path()).ok())
            .any(|link| sockets.iter().any(|socket| link.as_os_str() == socket.as_str()))
}

/// The socket of a line of /proc/net/udp, where its local port is 53, as links to it are written.
fn name_socket(line: &str) -> Option<String> {
    let mut fields = line.split_ascii_whitespace();
    let local = fields.nth(1)?;
    // After the local address: remote, state, queues, timer, retransmissions, user, time-out, inode.
    (local.rsplit_once(':')?.1 == "0035").then_some(())?;
    Some(format!("socket:[{}]", fields.nth(7)?))
}

fn owned((key, value): (&str, &str)) -> (String, String) {
    (key.to_owned(), value.to_owned())
}

/// The kernel marks a program whose file was replaced; the new file at its path is what would be started.
fn undeleted(path: &Path) -> PathBuf {
    let text = path.to_string_lossy();
    PathBuf::from(text.strip_suffix(" (deleted)").unwrap_or(&text))
}

/// The program that a command's first word means.
fn on_the_path(word: &str) -> Option<PathBuf> {
    if word.contains('/') {
        return Path::new(word).canonicalize().ok();
    }
    let path = std::env::var_os("PATH")?;
    let sbin = [PathBuf::from("/usr/local/sbin"), PathBuf::from("/usr/sbin"), PathBuf::from("/sbin")];
    std::env::split_paths(&path).chain(sbin).map(|folder| folder.join(word)).find(|file| file.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_found_with_its_program() {
        let this = Process::read(std::process::id()).expect("we are here");
        assert!(this.is_near && this.program.is_absolute() && !this.words.is_empty());
        assert!(this.is_ours && is_trusted(Path::new("/usr/bin/env")) && !is_trusted(Path::new("env")));
        assert!(!is_trusted(&std::env::temp_dir().join("x")), "anybody may write there");
        assert!(all().iter().any(|(pid, parent)| *pid == this.pid && *parent == std::os::unix::process::parent_id()));
        assert!(resident_bytes(this.pid).is_some_and(|bytes| bytes > 0) && available_bytes().is_some());
    }

    #[test]
    fn sockets_on_the_port_of_name_servers() {
        let line = "  101: 0109537F:0035 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 40521 2 0000000000000000 0";
        assert_eq!(name_socket(line).as_deref(), Some("socket:[40521]"));
        assert_eq!(name_socket(&line.replace(":0035", ":0053")), None);
        assert_eq!(name_socket("  sl  local_address rem_address   st tx_queue"), None);
        assert!(!answers_names(std::process::id()) && !is_real_time(std::process::id()));
    }

    #[test]
    fn options_attached_and_apart() {
        let words = ["a", "-f", "x", "-Done", "-D", "two", "--file=y", "--files"].map(str::to_owned);
        let process = Process { words: words.to_vec(), ..Process::default() };
        assert_eq!((process.option("-f"), process.option("--file")), (Some("x".into()), Some("y".into())));
        assert_eq!(process.options("-D"), ["one", "two"]);
    }
}
