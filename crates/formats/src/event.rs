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
    /// Its name, without `sys_`; empty where the trace tells a number alone that no call here has.
    pub name: &'a str,
    /// Its number on the architecture that this weir was built for; none where it is not known.
    pub number: Option<u16>,
    /// Its first argument; none where the trace does not tell it.
    pub first: Option<u64>,
}

/// A place in a trace where a request begins or ends, as the user has named it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark<'a> {
    /// Which of the two.
    pub edge: Edge,
    /// What tells the request from others under way; none for the one that the running task is at.
    pub key: Option<&'a str>,
    /// What it is called; none where no field was named for it.
    pub name: Option<&'a str>,
}

/// Begin or end of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Edge {
    /// It begins.
    Begin,
    /// It ends.
    End,
}

/// A request that a source tells whole, at its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request<'a> {
    /// When it began, nanoseconds of the trace's own clock.
    pub begun_ns: u64,
    /// What it is called.
    pub name: &'a str,
    /// Its status as HTTP has them; none where it is not told.
    pub status: Option<u16>,
    /// Whether it failed.
    pub has_failed: bool,
}

/// A stretch of a task's time that a source tells by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stretch<'a> {
    /// Its begin; its end is the event's time.
    pub begun_ns: u64,
    /// What the task did or waited for meanwhile.
    pub name: &'a str,
}

/// Where something is done that the running task need not have caused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Within {
    /// In the running task.
    Task,
    /// In a soft interrupt, which a call of the running task may have begun.
    SoftInterrupt,
    /// In an interrupt.
    Interrupt,
    /// The trace does not tell it.
    NotTold,
}

impl Within {
    /// By the flags of a tracepoint's hit (`common_flags`: Linux, `include/linux/trace_events.h`).
    pub(crate) fn of_flags(flags: u8) -> Self {
        const IN_INTERRUPT: u8 = 0x08 | 0x40;
        const IN_SOFT_INTERRUPT: u8 = 0x10;
        match flags {
            _ if flags & IN_INTERRUPT != 0 => Self::Interrupt,
            _ if flags & IN_SOFT_INTERRUPT != 0 => Self::SoftInterrupt,
            _ => Self::Task,
        }
    }
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

/// An end of a TCP connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct End {
    /// Its address of IPv6, or the one that stands for its address of IPv4 (RFC 4291, section 2.5.5.2).
    pub address: u128,
    /// Its port.
    pub port: u16,
}

/// The two ends of a TCP connection, as one of them sees them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Ends {
    /// The one that the event is about.
    pub local: End,
    /// The other one.
    pub remote: End,
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
    /// The running task makes another one runnable, or an interrupt does that took the CPU from it.
    Waking {
        /// Who is made runnable.
        task: Task<'a>,
        /// Where this was done.
        within: Within,
    },
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
        /// Which; its first argument is not told again.
        call: Call<'a>,
        /// What it returned.
        result: i64,
    },
    /// The running task hands a request to a device.
    DiskBegins(Disk),
    /// A device is done with a request.
    DiskEnds(Disk),
    /// A segment of TCP has come.
    Arrives {
        /// To which connection.
        ends: Ends,
        /// How many bytes of the stream it has.
        bytes: u32,
        /// The kernel's own name of the socket, where it is told.
        socket: Option<u64>,
    },
    /// The kernel tells the owner of a socket, which it names so, that data is there.
    Ready {
        /// The kernel's own name of the socket.
        socket: u64,
    },
    /// The running task takes bytes from a TCP connection.
    Takes(Ends),
    /// A TCP connection is in another state.
    Tcp {
        /// Which connection.
        ends: Ends,
        /// Whether it is over: the state is CLOSE.
        is_over: bool,
    },
    /// A request begins or ends here, by a pattern of the user's.
    Mark(Mark<'a>),
    /// A request is over, which the source tells whole.
    Request(Request<'a>),
    /// A stretch of the task's time is over.
    Stretch(Stretch<'a>),
    /// The task was at this place in its program.
    Sample {
        /// The stack, the innermost frame first, a line each.
        stack: &'a str,
        /// The time between two samples, which this one stands for, nanoseconds; 0 where it is not told.
        weight_ns: u64,
    },
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

/// Whether a request writes, by the letters of `rwbs`: `W` it does, `R` it does not; a flush or discard has neither.
pub(crate) fn writes(operation: &str) -> Option<bool> {
    let letter = operation.bytes().find(|letter| matches!(letter, b'R' | b'W'))?;
    Some(letter == b'W')
}

/// Bytes of a name that are kept: a trace may hold names of any length.
pub(crate) const NAME_BYTES: usize = 255;

/// A name, cut at [`NAME_BYTES`].
pub(crate) fn shortened(name: &str) -> &str {
    let mut end = name.len().min(NAME_BYTES);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    &name[..end]
}
