//! The tables: their columns, units and meanings. Documents, exports and the tables themselves are made of this.

/// What a column holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColumnKind {
    /// Whole numbers of 64 bits with a sign.
    Integer,
    /// Text in UTF-8.
    Text,
}

impl ColumnKind {
    /// Its name in SQL.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Integer => "INTEGER",
            Self::Text => "TEXT",
        }
    }
}

/// A column of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Column {
    /// Its name, with its unit at the end.
    pub name: &'static str,
    /// What it holds.
    pub kind: ColumnKind,
    /// What it means; columns that may be NULL say when they are.
    pub doc: &'static str,
}

/// Which tables are made together, in one pass over the recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Group {
    /// What is known of the recording as a whole.
    Run,
    /// Requests and their parts.
    Requests,
    /// What tasks did.
    Tasks,
    /// Sampled stacks.
    Stacks,
    /// What servers told of themselves.
    Remarks,
    /// Objects and how they interacted.
    Objects,
}

impl Group {
    /// Its name, in file names.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Run => "run",
            Self::Requests => "requests",
            Self::Tasks => "tasks",
            Self::Stacks => "stacks",
            Self::Remarks => "remarks",
            Self::Objects => "objects",
        }
    }
}

/// Where a table's rows come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// Read from the segments while the question is answered; the named column is the time that chooses the blocks.
    Raw(&'static str),
    /// Made once of the whole recording.
    Derived(Group),
}

/// A table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Table {
    /// Its name.
    pub name: &'static str,
    /// Where its rows come from.
    pub origin: Origin,
    /// What a row is.
    pub doc: &'static str,
    /// Its columns, in their order.
    pub columns: &'static [Column],
}

impl Table {
    /// The statement that makes it in SQL.
    pub(crate) fn declaration(&self) -> String {
        let columns: Vec<String> = self.columns.iter().map(|one| format!("{} {}", one.name, one.kind.name())).collect();
        format!("CREATE TABLE {} ({})", self.name, columns.join(", "))
    }

    /// The table of a name, written in any case.
    #[must_use]
    pub fn of(name: &str) -> Option<&'static Self> {
        TABLES.iter().find(|table| table.name.eq_ignore_ascii_case(name))
    }
}

const fn int(name: &'static str, doc: &'static str) -> Column {
    Column { name, kind: ColumnKind::Integer, doc }
}

const fn txt(name: &'static str, doc: &'static str) -> Column {
    Column { name, kind: ColumnKind::Text, doc }
}

const DURATION: Column = int("duration_ns", "How long it took, nanoseconds.");
const PID: Column = int("pid", "The task (thread), by the kernel's number.");
const PROCESS: Column = txt("process", "The task's name, at most 15 characters; NULL where the recording has none.");
const STATUS: Column =
    int("status", "Status code of HTTP; NULL where none came or the server's sockets do not tell it.");
const HTTP_VERSION: Column = int("http_version", "The major version of HTTP: 1, 2, 3; NULL where it is not told.");
const INTERACTION: Column = txt("interaction", "The interaction, such as cpu, disk, conversation, phase.");
const PATTERN: Column =
    txt("pattern", "How the two interact, such as client-server, async-io, contention (the reference of objects).");
const CONNECTION: Column = int("connection", "The generator's number of the connection.");
const HOST_NAME: Column = txt("host_name", "The host that it was on; NULL where that is not known.");

/// All tables.
pub const TABLES: &[Table] = &[
    Table {
        name: "run",
        origin: Origin::Derived(Group::Run),
        doc: "The recording as a whole: one row, or one for each host where several were recorded together.",
        columns: &[
            txt("host_name", "The recorded host's name."),
            txt("kernel", "Its kernel's release."),
            int("cpus", "Its CPUs."),
            txt("version", "The weir that recorded it."),
            txt("rung", "How the kernel's events were recorded; NULL where none were."),
            int(
                "begin_unix_ns",
                "The real time of the first event, nanoseconds since 1970; all times in the tables count \
                from it.",
            ),
            int(
                "begin_monotonic_ns",
                "The same time by the host's CLOCK_MONOTONIC, nanoseconds; NULL for further hosts, whose times are \
                 given by the first one's clock.",
            ),
            DURATION,
            int("events", "Events in the segments."),
            int(
                "lost",
                "Events that were lost while recording; of several hosts all are told in the first row, NULL else.",
            ),
            int("damaged_bytes", "Bytes of the segments that could not be read; of several hosts as lost."),
            int("cut_segments", "Segments that end in the middle of a block; of several hosts as lost."),
            int(
                "clock_error_ns",
                "By how much its clock may be wrong against that of the first host, nanoseconds; 0 of the first one.",
            ),
        ],
    },
    Table {
        name: "requests",
        origin: Origin::Derived(Group::Requests),
        doc: "One row for each request, from the time that the load's schedule intended to the last byte at the client, or, \
              without a load generator, from its arrival at the server's socket to the last send. Requests that an \
              edge of the recording cuts are left out.",
        columns: &[
            int("id", "Its number, from 1 on."),
            int("at_ns", "When it was intended, nanoseconds from the begin of the run; may be negative."),
            int("at_s", "The second of the run that this lies in, from 0 on."),
            int("half", "1 in the first half of the run's time, 2 in the second."),
            int("response_ns", "Its response time, nanoseconds."),
            txt("name", "Method and target, without its query."),
            txt("class", "Its transaction class: method and path, numbers in it replaced by {id}."),
            STATUS,
            txt("outcome", "How it ended: done, or the name of the failure."),
            int("joined", "1 = joined with the server's events, so that its time is divided; 0 = not."),
            txt("unjoinable", "Why it is not joined; NULL if it is."),
            int("arrived_ns", "When its first byte arrived at the server's socket; NULL if it is not joined."),
            int("picked_ns", "When a task took it; NULL if it is not joined."),
            int("sent_ns", "The last send of its response; NULL if it is not joined."),
            int("request_bytes", "Bytes of the request."),
            int("response_bytes", "Bytes of the response, head and body."),
            HTTP_VERSION,
            CONNECTION,
            int("stream", "Its stream of HTTP/2; NULL where there is none."),
            int("opened_connection", "1 = it waited for its connection to be made."),
            int("retried", "1 = it was sent again after its connection ended without an answer."),
            txt("client", "The client's address and port, hashed as the recording has it; NULL where it is not known."),
            txt(
                "host_name",
                "The host of the task that first had it; NULL where several hosts were recorded together and none \
                 had it.",
            ),
        ],
    },
    Table {
        name: "parts",
        origin: Origin::Derived(Group::Requests),
        doc: "What each request's time went into: its stretches, one after the other and without a gap, so that those \
              of a request add up to its response time.",
        columns: &[
            int("request_id", "The request's number."),
            int("at_ns", "Begin, nanoseconds from the begin of the run."),
            DURATION,
            txt("part", "The part: run, wait_lock and so on (the reference of parts lists them)."),
            int("pid", "The task that the request was with; NULL where it was with none."),
            txt("process", "That task's name; NULL where there is none."),
            int("waiter", "The task that waited for it; NULL where none did."),
            txt(
                "culprit",
                "Who or what it was spent on, in words; empty where there is none to name, or where more \
                 than 4,096 are told apart.",
            ),
            txt(
                "host_name",
                "The host of the task that the request was with, else of the one that waited; NULL where several hosts \
                 were recorded together and it was with none, as on the way between them.",
            ),
        ],
    },
    Table {
        name: "tasks",
        origin: Origin::Derived(Group::Tasks),
        doc: "One row for each task (thread) that the scheduler's events tell of.",
        columns: &[
            PID,
            int("tgid", "Its process; NULL where it is not known."),
            PROCESS,
            int("traced", "1 = it belongs to the recorded server."),
            int("run_ns", "Time on a CPU, nanoseconds."),
            int("ready_ns", "Time that it could run while others had the CPU."),
            int("blocked_ns", "Time that it waited."),
            int("first_ns", "When it first did anything, nanoseconds from the begin of the run."),
            int("last_ns", "When it last did anything."),
            HOST_NAME,
        ],
    },
    Table {
        name: "waits",
        origin: Origin::Derived(Group::Tasks),
        doc: "Each stretch in which a task did not run: blocked, or ready while others had the CPU.",
        columns: &[
            int("at_ns", "Begin, nanoseconds from the begin of the run."),
            DURATION,
            PID,
            PROCESS,
            int("traced", "1 = the task belongs to the recorded server."),
            txt(
                "cause",
                "cpu (it could run), lock, timer, process, descriptor (a socket, pipe or poll), disk or other, \
                 by the system call that it was blocked in.",
            ),
            int(
                "woken_by",
                "The task that ended the wait; NULL where none did, such as a timer's or device's interrupt.",
            ),
            txt("woken_by_process", "That task's name; NULL where there is none."),
            HOST_NAME,
        ],
    },
    Table {
        name: "slices",
        origin: Origin::Derived(Group::Tasks),
        doc: "Each stretch in which a CPU had a task; what is in none is idle, or not recorded.",
        columns: &[
            int("at_ns", "Begin, nanoseconds from the begin of the run."),
            DURATION,
            int("cpu", "The CPU."),
            PID,
            PROCESS,
            int("traced", "1 = the task belongs to the recorded server."),
            HOST_NAME,
        ],
    },
    Table {
        name: "lock_waits",
        origin: Origin::Derived(Group::Tasks),
        doc: "Each wait for a lock with its holder, where the recording has `--watch locks`; at most 262,144.",
        columns: &[
            int("at_ns", "Begin, nanoseconds from the begin of the run."),
            DURATION,
            PID,
            PROCESS,
            int("holder_pid", "Who had the lock when the wait began; NULL where it is not known."),
            txt("holder", "That task's name; NULL where it is not known."),
            txt("lock_name", "Which lock; NULL where more than 64 were waited for and this is not among the longest."),
            HOST_NAME,
        ],
    },
    Table {
        name: "transactions",
        origin: Origin::Derived(Group::Tasks),
        doc: "What applications (ARM, `--arm`) and probes in servers (`--packs`, `--probe`) told of their own work: \
              each stretch in which a task was at it. A transaction within another one interrupts that, which then has \
              several stretches.",
        columns: &[
            int("at_ns", "Begin, nanoseconds from the begin of the run."),
            DURATION,
            PID,
            PROCESS,
            txt("application", "Whose work it is."),
            txt("name", "What it does: a transaction's or phase's name."),
            int("goes_on", "1 = it was interrupted and goes on here, so that this is not its begin."),
            txt("told_by", "arm or probe."),
            HOST_NAME,
        ],
    },
    Table {
        name: "objects",
        origin: Origin::Derived(Group::Objects),
        doc: "One row for each object in each interaction that it takes part in as the one that is asked: a CPU, a \
              disk, a lock, a task as a server, a function (the reference of objects says which events are meant).",
        columns: &[
            INTERACTION,
            PATTERN,
            txt("class", "The object's class, such as cpu, disk, task, lock."),
            int("id", "Its number within its class in this run, that of a task its pid; NULL where none is told."),
            txt("name", "Its name."),
            int("accepts", "How often it was taken up."),
            int("used_ns", "Its busy time, accept to finish, nanoseconds; NULL where that is not recorded."),
            int(
                "waited_ns",
                "How long was waited for it, request to accept, nanoseconds; NULL where that is not recorded.",
            ),
            HOST_NAME,
        ],
    },
    Table {
        name: "interactions",
        origin: Origin::Derived(Group::Objects),
        doc: "Each interaction as it happened: a requester asks an object (request), the object begins (accept) and is \
              done (finish). In the order of their ends.",
        columns: &[
            int("at_ns", "The first of its events, nanoseconds from the begin of the run."),
            INTERACTION,
            PATTERN,
            txt("requester_class", "The class of who asks, such as task or client."),
            int(
                "requester_id",
                "Its number within its class in this run, that of a task its pid; NULL where none is told.",
            ),
            txt("requester", "Its name."),
            txt("object_class", "The class of what is asked."),
            int("object_id", "Its number within its class, as in the table objects; NULL where none is told."),
            txt("object", "Its name."),
            int(
                "requested_ns",
                "When it was asked, nanoseconds from the begin of the run; NULL where that is not recorded.",
            ),
            int("accepted_ns", "When it was taken up; NULL where that is not recorded."),
            int(
                "finished_ns",
                "When it was done, or, of what answers outside of the run, heard; NULL where that is not recorded.",
            ),
            int("waited_ns", "Accept less request, nanoseconds; NULL where one of them is not recorded."),
            int("used_ns", "Finish less accept, nanoseconds; NULL where one of them is not recorded."),
            txt("host_name", "The host of the object that is asked; NULL where that is not known."),
        ],
    },
    Table {
        name: "samples",
        origin: Origin::Derived(Group::Stacks),
        doc: "Sampled stacks, where the recording has `--stacks`.",
        columns: &[
            int("at_ns", "When, nanoseconds from the begin of the run."),
            PID,
            PROCESS,
            txt("state", "running or blocked; a blocked stack is told once for each wait."),
            int("weight_ns", "The time that it stands for, nanoseconds."),
            txt("function", "The innermost function; those of the kernel end in _[k]."),
            txt("stack", "All functions, the outermost first, with semicolons between."),
            HOST_NAME,
        ],
    },
    Table {
        name: "decisions",
        origin: Origin::Derived(Group::Remarks),
        doc: "What servers told of themselves meanwhile, such as what the rules of `weir serve --policy` decided.",
        columns: &[
            int("at_ns", "When, nanoseconds from the begin of the run."),
            txt("kind", "What it is, such as decision."),
            txt("words", "In the server's own words."),
            HOST_NAME,
        ],
    },
    Table {
        name: "load_samples",
        origin: Origin::Raw("done_ns"),
        doc: "What the load generator measured, one row for each request, in the order of their ends.",
        columns: &[
            int("done_ns", "When its last byte had come, nanoseconds from the begin of the run."),
            int("intended_ns", "When the schedule wanted it sent; may be negative."),
            int("started_ns", "When the generator began with it; may be negative."),
            int("first_byte_ns", "When the first byte of its response had come; NULL if none came."),
            int("response_ns", "From the intended time to the last byte, nanoseconds."),
            txt("name", "Method and target, without its query."),
            STATUS,
            txt("outcome", "How it ended: done, or the name of the failure."),
            int("request_bytes", "Bytes of the request."),
            int("response_bytes", "Bytes of the response, head and body."),
            HTTP_VERSION,
            CONNECTION,
            int("opened_connection", "1 = it waited for its connection to be made."),
            int("retried", "1 = it was sent again after its connection ended without an answer."),
            HOST_NAME,
        ],
    },
    Table {
        name: "asked",
        origin: Origin::Raw("told_ns"),
        doc: "What the server asked others over sockets: statements to databases, requests to servers, look-ups of \
              names; without their values.",
        columns: &[
            int("told_ns", "When the recording told it, nanoseconds from the begin of the run."),
            int("at_ns", "When it was asked."),
            int("duration_ns", "Until the first bytes of the answer; NULL if none was seen."),
            PID,
            txt("protocol", "The protocol, such as postgresql or http."),
            txt("question", "The question's shape."),
            txt("answer", "The answer's status, in the protocol's words; empty where it has none."),
            int("failed", "1 = the answer is an error."),
            HOST_NAME,
        ],
    },
    Table {
        name: "disk_requests",
        origin: Origin::Raw("done_ns"),
        doc: "Requests to block devices, where the recording has `--watch disk`.",
        columns: &[
            int("done_ns", "When it was done, nanoseconds from the begin of the run."),
            int("duration_ns", "From the device having it to its end, nanoseconds."),
            int("pid", "The task that handed it to the device, which may be one of the kernel's."),
            txt("device", "The device, major:minor."),
            txt("kind", "read, write, flush or other."),
            int("size_bytes", "Its length, bytes."),
            HOST_NAME,
        ],
    },
    Table {
        name: "events",
        origin: Origin::Raw("at_ns"),
        doc: "Every event of the segments as it is; the reference of the run format says what operands mean.",
        columns: &[
            int("at_ns", "When, nanoseconds from the begin of the run."),
            txt("kind", "What happened."),
            txt("source", "Who wrote it: kernel, client, arm."),
            int("lane", "The CPU, or the writer's thread."),
            int("flags", "Its flags."),
            int("a", "The first operand, as a number with a sign."),
            int("b", "The second operand, as a number with a sign."),
            int("slots", "Continuation slots of 32 bytes."),
            HOST_NAME,
        ],
    },
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_are_unique_and_units_end_them() {
        let tables: BTreeSet<&str> = TABLES.iter().map(|table| table.name).collect();
        assert_eq!(tables.len(), TABLES.len());
        for table in TABLES {
            let names: BTreeSet<&str> = table.columns.iter().map(|column| column.name).collect();
            assert_eq!(names.len(), table.columns.len(), "{}", table.name);
            for column in table.columns {
                let doc = column.doc;
                assert!(doc.ends_with('.'), "{}.{}: {doc}", table.name, column.name);
                let is_time = column.name.starts_with("at_") || doc.contains("nanoseconds");
                let has_unit = ["_ns", "_s", "_bytes"].iter().any(|unit| column.name.ends_with(unit));
                assert!(!is_time || has_unit, "{}.{} has no unit in its name", table.name, column.name);
            }
            if let Origin::Raw(time) = table.origin {
                assert!(names.contains(time), "{} has no column {time}", table.name);
            }
        }
    }
}
