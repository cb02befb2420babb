//! The table of kinds: the one place where an event is defined.
//!
//! Rust's types come from it by the macro, the C and BPF headers and the console's schema by [`crate::schema`].

/// What the table says of a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KindSpec {
    /// The code in a record.
    pub code: u16,
    /// The code in the 16-byte form that BPF programs write, 0 where they never write it.
    pub bpf: u8,
    /// Its name, in snake case as every view shows it.
    pub name: &'static str,
    /// The schema (major, minor) that brought it.
    pub since: (u16, u16),
    /// Meaning of the first operand.
    pub a: &'static str,
    /// Meaning of the second operand.
    pub b: &'static str,
    /// Meaning of the continuation slots.
    pub payload: &'static str,
    /// One sentence.
    pub doc: &'static str,
}

macro_rules! kinds {
    ($($variant:ident = $code:literal, bpf $bpf:literal, $name:literal, since $since:expr, a $a:literal, b $b:literal, payload $payload:literal, $doc:literal;)*) => {
        /// What happened. The numbers are part of the format and never change their meaning.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u16)]
        pub enum Kind { $(#[doc = $doc] $variant = $code,)* }

        /// Every kind, by ascending code.
        pub const KINDS: &[KindSpec] = &[$(KindSpec {
            code: $code, bpf: $bpf, name: $name, since: $since, a: $a, b: $b, payload: $payload, doc: $doc,
        },)*];

        impl Kind {
            /// The kind of a code, or `None` for one that this version does not know.
            #[inline]
            #[must_use]
            pub fn from_code(code: u16) -> Option<Self> {
                match code { $($code => Some(Self::$variant),)* _ => None }
            }

            /// The kind of a code in the 16-byte form of BPF programs.
            #[must_use]
            pub fn from_bpf(code: u8) -> Option<Self> {
                $(if $bpf != 0 && code == $bpf { return Some(Self::$variant); })*
                None
            }
        }
    };
}

kinds! {
    ClockPair = 0x0001, bpf 0, "clock_pair", since (1, 0), a "realtime_ns", b "", payload "",
        "The real time at this event's time, noted each second.";
    Lost = 0x0002, bpf 0, "lost", since (1, 0), a "events", b "", payload "",
        "So many events of this lane were lost since the one before.";
    TaskName = 0x0003, bpf 22, "task_name", since (1, 0), a "pid | tgid << 32", b "start_ns", payload "name: text",
        "The name of a task; flags: 1 = it belongs to the traced server; with its process's number goes when that began, since boot (0 = not known), for numbers are given again; told again when the task takes another name.";
    CpuSteal = 0x0004, bpf 0, "cpu_steal", since (1, 0), a "steal_ns", b "", payload "",
        "Time that the hypervisor took from this CPU since boot, sampled each second.";
    Window = 0x0008, bpf 0, "window", since (1, 0), a "number", b "edge_ns", payload "",
        "The probes are all attached from edge_ns on; flags: 1 = they are to be detached, and what follows up to the next window is not whole.";

    Switch = 0x0101, bpf 1, "sched_switch", since (1, 0), a "prev_pid | next_pid << 32", b "prev_state | syscall << 8 | descriptor << 32", payload "",
        "A CPU passes from one task to another; the outgoing one's state (0 = runnable, else the kernel's bits: 1, 2 = asleep, 4 = stopped by a signal, 8 = stopped by a debugger; 16 = frozen) and, if it is traced, the system call that it is blocked in (0x1ff = none) and its first argument.";
    Waking = 0x0102, bpf 2, "sched_waking", since (1, 0), a "waker_pid | woken_pid << 32", b "", payload "",
        "A task is made runnable; flags: 1 = by an interrupt, so that the waker is only who ran then; 2 = in a soft interrupt; 4 = the source can tell these; 8 = it was frozen where it slept, and is thawed.";
    Fork = 0x0103, bpf 3, "fork", since (1, 0), a "parent_pid | child_pid << 32", b "child_tgid", payload "",
        "A task is made; flags: 1 = a process of its own, else a thread; child_tgid 0 = not told.";
    Exec = 0x0104, bpf 4, "exec", since (1, 0), a "pid", b "", payload "",
        "A process runs another program.";
    Exit = 0x0105, bpf 5, "exit", since (1, 0), a "pid", b "", payload "",
        "A task ends.";

    Named = 0x0106, bpf 18, "named", since (1, 0), a "key", b "device (files)", payload "name: text",
        "The name of something that other events refer to by its key; flags: 1 = file, 2 = device (key: major << 20 | minor), 3 = function of the kernel (key: its address), 4 = interrupt (key: number), 5 = cgroup, 6 = task (key: number).";
    DiskRequest = 0x0107, bpf 12, "disk_request", since (1, 0), a "pid | device << 32", b "duration_ns | sectors << 40", payload "",
        "A request to a block device is done, handed to it by this task so long ago; flags: 0 = read, 1 = write, 2 = flush, 3 = another.";
    FileWait = 0x0108, bpf 13, "file_wait", since (1, 0), a "pid", b "key", payload "",
        "A task of the server begins to wait in the way of storage, for the file of this key (0 = not known); flags: 1 = the kernel counts it as waiting for a device, 2 = by a page fault, 4 = a signal would end it, as where a process or another host serves the file system.";
    LockWait = 0x0109, bpf 14, "lock_wait", since (1, 0), a "pid | holder << 32", b "key", payload "",
        "A task of the server is to wait for a lock, which the holder has (0 = not known); flags: 1 = futex (key: address), 2 = flock, 3 = fcntl (key: the file's), 4 = mutex, 5 = semaphore, 7 = another of the kernel's (key: the function that asks for it), 6 = of the address space.";
    LockEnd = 0x010a, bpf 15, "lock_end", since (1, 0), a "pid", b "", payload "",
        "A task of the server has a lock of the kernel's that it waited for, or has given up.";
    Interrupt = 0x010b, bpf 16, "interrupt", since (1, 0), a "duration_ns | number << 48", b "", payload "",
        "An interrupt ends that took this CPU from a task of the server; flags: 0 = hard, 1 = soft, 2 = the CPU's own timer, 3 = none, but the hypervisor had the CPU for so long since its last switch.";
    TimerWakeup = 0x010c, bpf 17, "timer_wakeup", since (1, 0), a "woken_pid", b "", payload "",
        "A timer makes a task of the server runnable.";
    Throttled = 0x010d, bpf 0, "throttled", since (1, 0), a "throttled_ns", b "cgroup", payload "",
        "So much time passed since the record before in which the CPU quota of a cgroup held its tasks back, the sum over CPUs.";
    CgroupMember = 0x010e, bpf 0, "cgroup_member", since (1, 0), a "tgid", b "cgroup", payload "",
        "A process is under the CPU quota of a cgroup.";
    Watched = 0x010f, bpf 0, "watched", since (1, 0), a "sources", b "", payload "",
        "Which of the optional sources tell from here on, a bit each: 1 = disk, 2 = locks, 4 = interrupts, 8 = timers.";
    SourceCost = 0x0110, bpf 0, "source_cost", since (1, 0), a "events", b "attached_ns", payload "measured_ns, cpu_ns, runs",
        "What an optional source has cost since the recording began: its events, how long it was attached, and in how much of that its programs were measured to take how much CPU time in how many runs; flags: the source's bit in watched.";
    TaskUsage = 0x0120, bpf 0, "task_usage", since (1, 0), a "pid | tgid << 32", b "state | syscall << 8 | descriptor << 32", payload "run_ns, wait_ns, slices",
        "What /proc told of a task of the server when it was looked at: its time on a CPU and waiting for one and its turns, since it began; state 0 = runnable, 1 = waiting, 2 = waiting without being woken by signals, 0xff = not looked at.";
    TaskState = 0x0121, bpf 21, "task_state", since (1, 0), a "pid | tgid << 32", b "state | syscall << 8 | descriptor << 32", payload "",
        "What a task of the traced server was at when a window of the recording began: state 0 = it ran or could run, else what it was blocked in, as in sched_switch.";

    SocketReady = 0x0201, bpf 6, "socket_ready", since (1, 0), a "socket | position << 32", b "", payload "",
        "Data arrived at a socket, up to this stream position; flags: 1 = its connection is not accepted yet.";
    SocketRecv = 0x0202, bpf 7, "socket_recv", since (1, 0), a "socket | position << 32", b "", payload "",
        "The running task took data from a socket, up to this position; flags: 1 = end of stream, 2 = error, 4 = peek, 8 = not TCP (position is a length), 16 = the connection's first bytes, the preface of HTTP/2, 32 = the same, a TLS handshake.";
    SocketSend = 0x0203, bpf 8, "socket_send", since (1, 0), a "socket | position << 32", b "", payload "",
        "The running task gave data to a socket, up to this position; flags as for socket_recv.";
    SocketState = 0x0204, bpf 9, "socket_state", since (1, 0), a "socket | position << 32", b "old | new << 8", payload "",
        "A TCP socket changes its state: the running task begins to connect it, or it is closed.";
    SocketOpen = 0x0205, bpf 10, "socket_open", since (1, 0), a "socket | receive_base << 32", b "send_base | local_port << 32 | remote_port << 48", payload "cookie, network namespace, addresses: local, remote",
        "Who a socket is, and where its streams begin; flags: 1 = it is older than this event.";
    ListenReady = 0x0206, bpf 11, "listen_ready", since (1, 0), a "socket | backlog << 32", b "", payload "",
        "A connection is complete and waits at a listening socket; the backlog before it.";
    SocketPeer = 0x0207, bpf 20, "socket_peer", since (1, 0), a "socket | peer << 32", b "", payload "",
        "The two ends of a connection over a Unix socket: what one sends the other receives; flags: 1 = the first is the end that was accepted.";

    StreamFrame = 0x0208, bpf 34, "stream_frame", since (1, 0), a "flow | stream << 32", b "position | length << 32 | frame_flags << 56", payload "",
        "A frame of HTTP/2 on a connection of the server's, as it was taken or just before it is given; a flow is the socket's number, or, over TLS, one of the library's connections, that of the socket from which the running task has taken last; flags: its type in the lowest four (10 = a frame of a WebSocket, whose frame_flags are its first byte; 11 = another than those of the standard, 12 = the last one of a stream is given to its last byte, 15 = the connection is followed no further), 16 = given, 32 = over TLS (and without a position), 64 = more of the frame told before, 128 = the connection is older than the recording.";
    StreamBytes = 0x0209, bpf 35, "stream_bytes", since (1, 0), a "bytes", b "", payload "",
        "Bytes of the head in the frame just told on this lane; flags: how many. No run keeps them: the collector makes stream_head of them.";
    StreamHead = 0x020a, bpf 0, "stream_head", since (1, 0), a "flow | stream << 32", b "status | grpc_status << 16", payload "method and path: text",
        "What the head of a stream of HTTP/2 says; flags: 1 = of the request, 2 = of the response, 4 = of its trailers, 8 = it speaks gRPC, 16 = its status (grpc_status) is told, 32 = over TLS, 64 = its content is a stream of events.";

    AskedCall = 0x020b, bpf 36, "asked_call", since (1, 0), a "socket | length << 32", b "pid | tgid << 32", payload "",
        "A task of the server gave bytes to a connection to something that it asks, or took bytes from it; the first of these follow in asked_bytes; flags: 16 = given, 8 = not TCP. No run keeps it: the collector makes asked of it.";
    AskedBytes = 0x020c, bpf 37, "asked_bytes", since (1, 0), a "bytes", b "", payload "",
        "The next bytes of the call just told on this lane; flags: how many. No run keeps them: the collector makes asked of them.";
    Asked = 0x020d, bpf 0, "asked", since (1, 0), a "asked_ns", b "dictionary id of the question: protocol, shape, status | socket << 32", payload "answered_ns, pid",
        "A question that the server asked over a socket, told once it is answered or given up; flags: 1 = no answer was seen, 2 = it failed.";
    TraceContext = 0x020e, bpf 0, "trace_context", since (1, 0), a "trace's upper half, or span", b "trace's lower half, or socket, or connection | stream << 32", payload "",
        "The trace that a request names in its field traceparent, of what a task took from a socket; two records of one time and lane, told only where reading heads was allowed; flags: 1 = the first, with the trace, 2 = the second, with the caller's span and whose it is, 4 = the caller keeps its span, 8 = it is a stream's of HTTP/2, 16 = whose connection is a TLS library's, 32 = it is that of the request of HTTP/1.1 that the running task takes from its TLS library; without 1 and 2: a task took bytes, and so far no such field was seen in them.";

    Quic = 0x020f, bpf 38, "quic", since (1, 0), a "socket, or connection | stream << 32", b "as the flags say", payload "",
        "What is known of HTTP/3 at weir's own server, by the running task; flags: 1 = a datagram arrived at a socket, 2 = a socket was found empty, 3 = the head of a request was read (b: dictionary id of method and path | how many datagrams were received at once << 48 | which of them, from 1 on, brought it << 32), 4 = the response was begun (b: status), 5 = its last byte was given to QUIC (b: status | bytes << 16), 6 = the stream was given up, 7 = the next datagrams carry content of the connection, 8 = the same, and all that it has, 9 = the client has acknowledged a response, 10 = the connection is over. A connection's number is the task's own, a stream is which request of its connection it is, from 1 on.";

    ClientConnection = 0x0301, bpf 0, "client_connection", since (1, 0), a "connection", b "connect_start_ns", payload "addresses and ports",
        "The load generator's connection is established (time), asked for at connect_start_ns; flags: 1 = it failed.";
    ClientRequest = 0x0302, bpf 0, "client_request", since (1, 0), a "connection", b "request_offset", payload "times, lengths, status, version, name",
        "A request of the load generator is over (time = the last byte of its response).";
    ClientDropped = 0x0303, bpf 0, "client_dropped", since (1, 0), a "arrivals", b "intended_ns", payload "",
        "Arrivals that the generator's queue had no room for.";
    ClientLane = 0x0304, bpf 0, "client_lane", since (1, 0), a "pid | tgid << 32", b "", payload "",
        "The task that drives this lane of the load generator.";

    ProbeHit = 0x0401, bpf 24, "probe_hit", since (1, 0), a "argument", b "dictionary id of the point: server, name, roles", payload "",
        "The running task came to a probe in its program; the argument is the one that the probe reads, or 0; flags: 1 = not the running task but the one whose number is the argument, told by its application, 2 = it goes on with a phase that another one had interrupted.";
    ProbeText = 0x0402, bpf 25, "probe_text", since (1, 0), a "", b "dictionary id of the text", payload "",
        "The text that the probe just hit on this lane, at the same time, has read: a query without its literals, a request's name, what a server remarks.";
    StackSample = 0x0501, bpf 0, "stack_sample", since (1, 0), a "pid | node << 32", b "at_ns", payload "weight_ns",
        "A task's stack as a node of the tree of stacks, at at_ns; it stands for weight_ns; flags: 1 = the task was blocked, which is told once for each time that it is.";
    StackNode = 0x0502, bpf 0, "stack_node", since (1, 0), a "node | parent << 32", b "frame", payload "",
        "A frame of the tree of stacks, called by its parent's (0 = it is an outermost one); a frame is an object's number << 48 | an offset.";
    StackObject = 0x0503, bpf 0, "stack_object", since (1, 0), a "object", b "bytes of the build id", payload "build id, path: text",
        "A file that code is mapped from.";
    StackSymbol = 0x0504, bpf 0, "stack_symbol", since (1, 0), a "frame", b "", payload "name: text",
        "What a frame's function is called.";
    StackNote = 0x0505, bpf 0, "stack_note", since (1, 0), a "samples", b "", payload "text",
        "A remark on the sampling of stacks, with the number of samples that it cost.";

    ArmStart = 0x0601, bpf 0, "arm_start", since (1, 0), a "handle", b "transaction | instance << 16 | one_in << 32", payload "parent, arrival_ns, pieces as in arm_pieces",
        "An ARM transaction begins: numbers of its definition and of its application's instance, and of how many it stands for (0 = one); flags: 1 = the parent's slot follows, 2 = an arrival time follows, 4 = tracing was asked for, 8 = bound to its thread, 16 = its correlator was given out, 32 = by ARM 2.0.";
    ArmStop = 0x0602, bpf 0, "arm_stop", since (1, 0), a "handle", b "status", payload "pieces, as in arm_pieces",
        "An ARM transaction ends; status: 0 = good, 1 = aborted, 2 = failed, 3 = unknown.";
    ArmUpdate = 0x0603, bpf 0, "arm_update", since (1, 0), a "handle", b "", payload "",
        "A sign of life of an ARM transaction; what it told stands before in arm_detail.";
    ArmDiscard = 0x0604, bpf 0, "arm_discard", since (1, 0), a "handle", b "", payload "",
        "An ARM transaction is not to be counted.";
    ArmBlock = 0x0605, bpf 0, "arm_block", since (1, 0), a "handle", b "block", payload "",
        "An ARM transaction begins to wait for something outside.";
    ArmUnblock = 0x0606, bpf 0, "arm_unblock", since (1, 0), a "handle", b "block", payload "",
        "That wait is over.";
    ArmBind = 0x0607, bpf 0, "arm_bind", since (1, 0), a "handle", b "bound", payload "",
        "The running thread works for an ARM transaction from here on (1), or no longer (0).";
    ArmReport = 0x0608, bpf 0, "arm_report", since (1, 0), a "handle", b "transaction | instance << 16", payload "response_ns, stopped_realtime_ms, status, 0, parent, own",
        "An ARM transaction that was measured elsewhere; flags: 1 = the parent's slot follows, 2 = its own.";
    ArmDetail = 0x0609, bpf 0, "arm_detail", since (1, 0), a "handle", b "field | index << 8 | offset << 16 | whole_bytes << 32", payload "bytes",
        "A piece of what is told with an ARM transaction: user, address, context, metric, diagnosis; after its start, or before its stop or update.";
    ArmCorrelator = 0x060a, bpf 0, "arm_correlator", since (1, 0), a "handle", b "transaction | instance << 16", payload "parent",
        "A correlator is made for a transaction that will be measured elsewhere; flags: 1 = the parent's slot follows.";
    ArmInstance = 0x060b, bpf 0, "arm_instance", since (1, 0), a "instance", b "running", payload "",
        "An instance of an application begins (1) or stops (0), which discards its running transactions.";
    ArmPieces = 0x060c, bpf 0, "arm_pieces", since (1, 0), a "handle", b "", payload "pieces: field, index, two bytes of length, bytes; a field of 0 ends them",
        "Several short pieces of what is told with an ARM transaction, one behind the other; after its start, or before its update or report.";
}

impl Kind {
    /// What the table says of this kind.
    #[must_use]
    pub fn spec(self) -> &'static KindSpec {
        // The table is made by the same macro as the enum, so the search always ends at the kind's own row.
        KINDS.iter().find(|spec| spec.code == self as u16).unwrap_or(&KINDS[0])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_ascend_and_bpf_codes_are_unique_in_six_bits() {
        assert!(KINDS.windows(2).all(|pair| pair[0].code < pair[1].code));
        let mut bpf: Vec<u8> = KINDS.iter().map(|spec| spec.bpf).filter(|code| *code != 0).collect();
        bpf.sort_unstable();
        assert!(bpf.windows(2).all(|pair| pair[0] < pair[1]));
        assert!(bpf.iter().all(|code| *code < 64));
    }

    #[test]
    fn every_kind_is_found_by_its_codes() {
        for spec in KINDS {
            let kind = Kind::from_code(spec.code).expect("the table's own code");
            assert_eq!(kind.spec(), spec);
            if spec.bpf != 0 {
                assert_eq!(Kind::from_bpf(spec.bpf), Some(kind));
            }
        }
        assert_eq!(Kind::from_code(0xffff), None);
    }
}
