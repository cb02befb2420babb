//! A process group that ends with the value that stands for it.

use std::fs;
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

/// How long a server may take to end by itself before it is killed.
const END_LIMIT: Duration = Duration::from_secs(2);

/// The leader of a process group of its own.
#[derive(Debug)]
pub(super) struct Process {
    child: Child,
    end_signal: i32,
    reaped: bool,
}

impl Process {
    /// Starts the command in a group of its own, on one CPU where asked. The signal tells it to
    /// end; for most it is SIGTERM.
    pub(super) fn spawn(mut command: Command, cpu: Option<usize>, end_signal: i32) -> io::Result<Self> {
        // SAFETY: getpid has no preconditions.
        let parent = unsafe { libc::getpid() };
        command.stdin(Stdio::null()).process_group(0);
        // SAFETY: the closure calls only functions that are safe between fork and exec, and
        // neither allocates nor locks.
        unsafe {
            command.pre_exec(move || {
                end_with_parent(parent, end_signal)?;
                cpu.map_or(Ok(()), pin_to)
            });
        }
        let child = spawn_from_lasting_thread(command)?;
        Ok(Self { child, end_signal, reaped: false })
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// How it ended, where it has.
    pub(super) fn ended(&mut self) -> Option<String> {
        match self.child.try_wait() {
            Ok(Some(status)) => {
                self.kill_group();
                self.reaped = true;
                Some(status.to_string())
            }
            _ => None,
        }
    }

    /// Kills the whole group and waits for its leader.
    pub(super) fn kill(&mut self) {
        if !self.reaped {
            self.kill_group();
            // It fails only when the child has been waited for, which is what is wanted.
            let _ = self.child.wait();
            self.reaped = true;
        }
    }

    fn kill_group(&self) {
        // SAFETY: kill has no memory effects; the group is ours, the leader not yet replaced.
        unsafe { libc::kill(-(self.pid() as i32), libc::SIGKILL) };
    }

    /// Whether the leader is gone; leaves it to be waited for, so that its id stays taken and the
    /// group that is killed next is certainly ours.
    fn is_zombie(&self) -> bool {
        // SAFETY: an all-zero siginfo_t is valid, waitid only writes into it.
        unsafe {
            let mut info: libc::siginfo_t = std::mem::zeroed();
            let flags = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
            let result = libc::waitid(libc::P_PID, self.pid(), &mut info, flags);
            result != 0 || info.si_pid() != 0
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.reaped {
            return;
        }
        // SAFETY: kill has no memory effects; the child is not yet waited for.
        unsafe { libc::kill(self.pid() as i32, self.end_signal) };
        let start = Instant::now();
        while !self.is_zombie() && start.elapsed() < END_LIMIT {
            std::thread::sleep(Duration::from_millis(2));
        }
        self.kill();
    }
}

/// A process and its living descendants, from /proc.
pub(super) fn tree(root: u32) -> Vec<u32> {
    let parents = parents();
    let mut pids = vec![root];
    let mut next = 0;
    // Each process has one parent, so each is added at most once.
    while let Some(&parent) = pids.get(next) {
        pids.extend(parents.iter().filter(|(_, of)| *of == parent).map(|(pid, _)| *pid));
        next += 1;
    }
    pids
}

/// (process, its parent) for all processes that are not dead.
fn parents() -> Vec<(u32, u32)> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    entries
        .filter_map(|entry| {
            let pid: u32 = entry.ok()?.file_name().to_str()?.parse().ok()?;
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
            // The name in parentheses may itself hold blanks and parentheses.
            let mut fields = stat.rsplit_once(") ")?.1.split(' ');
            let state = fields.next()?;
            let parent = fields.next()?.parse().ok()?;
            (state != "Z").then_some((pid, parent))
        })
        .collect()
}

/// Asks the kernel for the signal when the parent dies, however that happens.
fn end_with_parent(parent: libc::pid_t, signal: i32) -> io::Result<()> {
    // SAFETY: prctl with these arguments and getppid touch no memory.
    let (result, now) = unsafe { (libc::prctl(libc::PR_SET_PDEATHSIG, signal), libc::getppid()) };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    if now != parent {
        // The parent died before the request: no signal would end us.
        return Err(io::ErrorKind::BrokenPipe.into());
    }
    Ok(())
}

fn pin_to(cpu: usize) -> io::Result<()> {
    if cpu >= libc::CPU_SETSIZE as usize {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // SAFETY: an all-zero cpu_set_t is the empty set; the index was checked above.
    let result = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set)
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// How the kernel schedules a thread, and what it starts.
#[derive(Clone, Copy)]
struct Scheduling {
    policy: libc::c_int,
    parameters: libc::sched_param,
}

impl Scheduling {
    /// That of the calling thread.
    fn current() -> io::Result<Self> {
        let mut parameters = libc::sched_param { sched_priority: 0 };
        // SAFETY: 0 is the calling thread; the kernel writes the structure, which lives through the call.
        let (policy, result) = unsafe { (libc::sched_getscheduler(0), libc::sched_getparam(0, &raw mut parameters)) };
        if policy < 0 || result != 0 { Err(io::Error::last_os_error()) } else { Ok(Self { policy, parameters }) }
    }

    /// Makes it that of the calling thread.
    fn apply(&self) -> io::Result<()> {
        // SAFETY: 0 is the calling thread; the kernel reads the structure, which lives through the call.
        let result = unsafe { libc::sched_setscheduler(0, self.policy, &raw const self.parameters) };
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

struct Order {
    command: Command,
    scheduling: Scheduling,
    reply: Sender<io::Result<Child>>,
}

/// Spawns from a thread that lives as long as the process: the signal that the kernel sends at the
/// parent's death is bound to the spawning thread, and a test's thread may well end earlier. The process
/// is scheduled like the thread that asks for it, not like the first thread that asked.
fn spawn_from_lasting_thread(command: Command) -> io::Result<Child> {
    static ORDERS: OnceLock<Mutex<Sender<Order>>> = OnceLock::new();
    let orders = ORDERS.get_or_init(|| {
        let (sender, receiver) = channel::<Order>();
        std::thread::spawn(move || {
            for Order { mut command, scheduling, reply } in receiver {
                // The one who asked waits for the reply.
                let _ = reply.send(scheduling.apply().and_then(|()| command.spawn()));
            }
        });
        Mutex::new(sender)
    });
    let (reply, result) = channel();
    let gone = |_| io::Error::other("the spawning thread is gone");
    {
        let orders = orders.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let order = Order { command, scheduling: Scheduling::current()?, reply };
        orders.send(order).map_err(|_| io::Error::other("the spawning thread is gone"))?;
    }
    result.recv().map_err(gone)?
}

/// Runs a program to its end with a text as its input; its output, or what it complained of.
pub(super) fn run(mut command: Command, input: &str) -> io::Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| io::Error::new(error.kind(), format!("{name}: {error}")))?;
    let stdin = child.stdin.take();
    let text = input.to_owned();
    // Beside the reading: a program that answers before it has read all would block us.
    let writer = std::thread::spawn(move || stdin.map_or(Ok(()), |mut stdin| stdin.write_all(text.as_bytes())));
    let output = child.wait_with_output()?;
    // A program that ended early has not read all, and its status says why.
    let _ = writer.join();
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let complaint = String::from_utf8_lossy(&output.stderr);
    Err(io::Error::other(format!("{name}: {}; {}", output.status, complaint.trim())))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How a process is scheduled that a thread starts after it has asked for a policy of its own.
    fn started_by_one_with(policy: libc::c_int, priority: libc::c_int) -> Option<libc::c_int> {
        std::thread::spawn(move || {
            let parameters = libc::sched_param { sched_priority: priority };
            // It may not be allowed.
            Scheduling { policy, parameters }.apply().ok()?;
            let mut command = Command::new("sleep");
            command.arg("30");
            let process = Process::spawn(command, None, libc::SIGTERM).expect("it starts");
            // SAFETY: the call takes a number only.
            Some(unsafe { libc::sched_getscheduler(process.child.id().cast_signed()) })
        })
        .join()
        .expect("no panic")
    }

    #[test]
    fn what_is_started_is_scheduled_like_the_one_who_asked() {
        // In turns: once the first thread that asked decided for all.
        for _ in 0..2 {
            assert_eq!(started_by_one_with(libc::SCHED_OTHER, 0), Some(libc::SCHED_OTHER));
            assert_eq!(started_by_one_with(libc::SCHED_BATCH, 0), Some(libc::SCHED_BATCH));
            assert!(started_by_one_with(libc::SCHED_RR, 1).is_none_or(|policy| policy == libc::SCHED_RR));
        }
    }
}
