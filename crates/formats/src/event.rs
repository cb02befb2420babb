//! What a foreign trace says, in words that all formats have.

/// A task as an event names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Task<'a> {
    /// Its number, 0 for the idle task.
    pub number: u32,
    /// Its name (`comm`), at most 15 bytes on Linux.
    pub name: &'a str,
}

/// A system call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Call<'a> {
    /// Its name, without `sys_`.
    pub name: &'a str,
    /// Its first argument; none where the trace does not tell it.
    pub first: Option<u64>,
}

/// A request to a block device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Disk {
    /// major << 20 | minor.
    pub device: u32,
    /// Where it begins, sectors of 512 bytes.
    pub sector: u64,
    /// How long it is, sectors.
    pub sectors: u32,
    /// Whether it writes; none where the trace does not tell it.
    pub writes: Option<bool>,
}

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What<'a> {
    /// A CPU passes from a task, which is left in this state (the kernel's `TASK_*` bits, 0 = it would rather run on), to
    /// another one.
    Switch {
        /// Who leaves the CPU.
        from: Task<'a>,
        /// In which state.
        state: u8,
        /// Who gets it.
        to: Task<'a>,
    },
    /// The running task makes another one runnable.
    Waking(Task<'a>),
    /// A task is made.
    Fork {
        /// By whom.
        parent: u32,
        /// Who.
        child: Task<'a>,
        /// The child's process, where it is told.
        process: Option<u32>,
    },
    /// The running process runs another program.
    Exec,
    /// The running task ends.
    Exit,
    /// A task has this name, and belongs to this process.
    Named {
        /// Who.
        task: Task<'a>,
        /// Its process, where it is told.
        process: Option<u32>,
    },
    /// The running task begins a system call.
    CallBegins(Call<'a>),
    /// The running task's system call is over.
    CallEnds {
        /// Which.
        name: &'a str,
        /// What it returned.
        result: i64,
    },
    /// The running task hands a request to a device.
    DiskBegins(Disk),
    /// A device is done with a request.
    DiskEnds(Disk),
    /// The source lost so many events.
    Lost(u64),
    /// An event that has no meaning here, by its name.
    Other(&'a str),
}

/// An event of a foreign trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event<'a> {
    /// When, nanoseconds of the trace's own clock.
    pub at_ns: u64,
    /// On which CPU; none where it is not told.
    pub cpu: Option<u32>,
    /// The task that ran; none where it is not told.
    pub task: Option<u32>,
    /// Its process; none where it is not told.
    pub process: Option<u32>,
    /// What.
    pub what: What<'a>,
}

/// The state of a task that has ended.
const ENDED: u8 = 32;

/// The state of a task by the kernel's letters (`fs/proc/array.c`, `include/linux/sched.h`), as bits; none for others.
pub(crate) fn state_of_letters(letters: &str) -> Option<u8> {
    Some(match letters.as_bytes() {
        [b'R', ..] => 0,
        [b'S', ..] => 1,
        [b'D', ..] => 2,
        [b'T', ..] => 4,
        [b't', ..] => 8,
        // Which of the two is a zombie, tools and kernels disagree on.
        [b'X' | b'Z', ..] => ENDED,
        [b'P', ..] => 64,
        // Idle kernel threads, asleep but not counted as load; trace-cmd has the second letter.
        [b'I' | b'W', ..] => 2,
        _ => return None,
    })
}

/// The state of a task by the number that tracepoints hold (`include/linux/sched.h`, since Linux 4.14).
pub(crate) fn state_of_number(number: i64) -> u8 {
    const IS_IDLE: i64 = 0x80;
    const HAS_ENDED: i64 = 0x30;
    const BITS: i64 = 0x7f;
    // 0x100 above says "preempted": the task could run on.
    match number {
        _ if number & IS_IDLE != 0 => 2,
        _ if number & HAS_ENDED != 0 => ENDED,
        _ => (number & BITS) as u8,
    }
}
