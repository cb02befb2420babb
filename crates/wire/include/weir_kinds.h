/* Made from the table of kinds in crates/wire/src/kinds.rs; do not edit. */
#ifndef WEIR_KINDS_H
#define WEIR_KINDS_H
#include <stdint.h>

#define WEIR_SCHEMA_MAJOR 1
#define WEIR_SCHEMA_MINOR 0

struct weir_record {
	uint64_t time_ns;
	uint16_t kind;
	uint8_t flags;
	uint8_t slots;
	uint32_t lane;
	uint64_t a;
	uint64_t b;
};

enum weir_kind {
	WEIR_CLOCK_PAIR = 0x0001, /* The real time at this event's time, noted each second. */
	WEIR_LOST = 0x0002, /* So many events of this lane were lost since the one before. */
	WEIR_TASK_NAME = 0x0003, /* The name of a task; flags: 1 = it belongs to the traced server; with its process's number goes when that began, since boot (0 = not known), for numbers are given again; told again when the task takes another name. */
	WEIR_CPU_STEAL = 0x0004, /* Time that the hypervisor took from this CPU since boot, sampled each second. */
	WEIR_WINDOW = 0x0008, /* The probes are all attached from edge_ns on; flags: 1 = they are to be detached, and what follows up to the next window is not whole. */
	WEIR_SCHED_SWITCH = 0x0101, /* A CPU passes from one task to another; the outgoing one's state (0 = runnable, else the kernel's bits: 1, 2 = asleep, 4 = stopped by a signal, 8 = stopped by a debugger; 16 = frozen) and, if it is traced, the system call that it is blocked in (0x1ff = none) and its first argument. */
	WEIR_SCHED_WAKING = 0x0102, /* A task is made runnable; flags: 1 = by an interrupt, so that the waker is only who ran then; 2 = in a soft interrupt; 4 = the source can tell these; 8 = it was frozen where it slept, and is thawed. */
	WEIR_FORK = 0x0103, /* A task is made; flags: 1 = a process of its own, else a thread; child_tgid 0 = not told. */
	WEIR_EXEC = 0x0104, /* A process runs another program. */
	WEIR_EXIT = 0x0105, /* A task ends. */
	WEIR_NAMED = 0x0106, /* The name of something that other events refer to by its key; flags: 1 = file, 2 = device (key: major << 20 | minor), 3 = function of the kernel (key: its address), 4 = interrupt (key: number), 5 = cgroup, 6 = task (key: number). */
	WEIR_DISK_REQUEST = 0x0107, /* A request to a block device is done, handed to it by this task so long ago; flags: 0 = read, 1 = write, 2 = flush, 3 = another. */
	WEIR_FILE_WAIT = 0x0108, /* A task of the server begins to wait in the way of storage, for the file of this key (0 = not known); flags: 1 = the kernel counts it as waiting for a device, 2 = by a page fault, 4 = a signal would end it, as where a process or another host serves the file system. */
	WEIR_LOCK_WAIT = 0x0109, /* A task of the server is to wait for a lock, which the holder has (0 = not known); flags: 1 = futex (key: address), 2 = flock, 3 = fcntl (key: the file's), 4 = mutex, 5 = semaphore, 7 = another of the kernel's (key: the function that asks for it), 6 = of the address space. */
	WEIR_LOCK_END = 0x010a, /* A task of the server has a lock of the kernel's that it waited for, or has given up. */
	WEIR_INTERRUPT = 0x010b, /* An interrupt ends that took this CPU from a task of the server; flags: 0 = hard, 1 = soft, 2 = the CPU's own timer, 3 = none, but the hypervisor had the CPU for so long since its last switch. */
	WEIR_TIMER_WAKEUP = 0x010c, /* A timer makes a task of the server runnable. */
	WEIR_THROTTLED = 0x010d, /* So much time passed since the record before in which the CPU quota of a cgroup held its tasks back, the sum over CPUs. */
	WEIR_CGROUP_MEMBER = 0x010e, /* A process is under the CPU quota of a cgroup. */
	WEIR_WATCHED = 0x010f, /* Which of the optional sources tell from here on, a bit each: 1 = disk, 2 = locks, 4 = interrupts, 8 = timers. */
	WEIR_SOURCE_COST = 0x0110, /* What an optional source has cost since the recording began: its events, how long it was attached, and in how much of that its programs were measured to take how much CPU time in how many runs; flags: the source's bit in watched. */
	WEIR_TASK_USAGE = 0x0120, /* What /proc told of a task of the server when it was looked at: its time on a CPU and waiting for one and its turns, since it began; state 0 = runnable, 1 = waiting, 2 = waiting without being woken by signals, 0xff = not looked at. */
	WEIR_TASK_STATE = 0x0121, /* What a task of the traced server was at when a window of the recording began: state 0 = it ran or could run, else what it was blocked in, as in sched_switch. */
	WEIR_SOCKET_READY = 0x0201, /* Data arrived at a socket, up to this stream position; flags: 1 = its connection is not accepted yet. */
	WEIR_SOCKET_RECV = 0x0202, /* The running task took data from a socket, up to this position; flags: 1 = end of stream, 2 = error, 4 = peek, 8 = not TCP (position is a length), 16 = the connection's first bytes, the preface of HTTP/2, 32 = the same, a TLS handshake. */
	WEIR_SOCKET_SEND = 0x0203, /* The running task gave data to a socket, up to this position; flags as for socket_recv. */
	WEIR_SOCKET_STATE = 0x0204, /* A TCP socket changes its state: the running task begins to connect it, or it is closed. */
	WEIR_SOCKET_OPEN = 0x0205, /* Who a socket is, and where its streams begin; flags: 1 = it is older than this event. */
	WEIR_LISTEN_READY = 0x0206, /* A connection is complete and waits at a listening socket; the backlog before it. */
	WEIR_SOCKET_PEER = 0x0207, /* The two ends of a connection over a Unix socket: what one sends the other receives; flags: 1 = the first is the end that was accepted. */
	WEIR_STREAM_FRAME = 0x0208, /* A frame of HTTP/2 on a connection of the server's, as it was taken or just before it is given; a flow is the socket's number, or, over TLS, one of the library's connections, that of the socket from which the running task has taken last; flags: its type in the lowest four (10 = a frame of a WebSocket, whose frame_flags are its first byte; 11 = another than those of the standard, 12 = the last one of a stream is given to its last byte, 15 = the connection is followed no further), 16 = given, 32 = over TLS (and without a position), 64 = more of the frame told before, 128 = the connection is older than the recording. */
	WEIR_STREAM_BYTES = 0x0209, /* Bytes of the head in the frame just told on this lane; flags: how many. No run keeps them: the collector makes stream_head of them. */
	WEIR_STREAM_HEAD = 0x020a, /* What the head of a stream of HTTP/2 says; flags: 1 = of the request, 2 = of the response, 4 = of its trailers, 8 = it speaks gRPC, 16 = its status (grpc_status) is told, 32 = over TLS, 64 = its content is a stream of events. */
	WEIR_ASKED_CALL = 0x020b, /* A task of the server gave bytes to a connection to something that it asks, or took bytes from it; the first of these follow in asked_bytes; flags: 16 = given, 8 = not TCP. No run keeps it: the collector makes asked of it. */
	WEIR_ASKED_BYTES = 0x020c, /* The next bytes of the call just told on this lane; flags: how many. No run keeps them: the collector makes asked of them. */
	WEIR_ASKED = 0x020d, /* A question that the server asked over a socket, told once it is answered or given up; flags: 1 = no answer was seen, 2 = it failed. */
	WEIR_TRACE_CONTEXT = 0x020e, /* The trace that a request names in its field traceparent, of what a task took from a socket; two records of one time and lane, told only where reading heads was allowed; flags: 1 = the first, with the trace, 2 = the second, with the caller's span and whose it is, 4 = the caller keeps its span, 8 = it is a stream's of HTTP/2, 16 = whose connection is a TLS library's, 32 = it is that of the request of HTTP/1.1 that the running task takes from its TLS library; without 1 and 2: a task took bytes, and so far no such field was seen in them. */
	WEIR_QUIC = 0x020f, /* What is known of HTTP/3 at weir's own server, by the running task; flags: 1 = a datagram arrived at a socket, 2 = a socket was found empty, 3 = the head of a request was read (b: dictionary id of method and path | how many datagrams were received at once << 48 | which of them, from 1 on, brought it << 32), 4 = the response was begun (b: status), 5 = its last byte was given to QUIC (b: status | bytes << 16), 6 = the stream was given up, 7 = the next datagrams carry content of the connection, 8 = the same, and all that it has, 9 = the client has acknowledged a response, 10 = the connection is over. A connection's number is the task's own, a stream is which request of its connection it is, from 1 on. */
	WEIR_CLIENT_CONNECTION = 0x0301, /* The load generator's connection is established (time), asked for at connect_start_ns; flags: 1 = it failed. */
	WEIR_CLIENT_REQUEST = 0x0302, /* A request of the load generator is over (time = the last byte of its response). */
	WEIR_CLIENT_DROPPED = 0x0303, /* Arrivals that the generator's queue had no room for. */
	WEIR_CLIENT_LANE = 0x0304, /* The task that drives this lane of the load generator. */
	WEIR_PROBE_HIT = 0x0401, /* The running task came to a probe in its program; the argument is the one that the probe reads, or 0; flags: 1 = not the running task but the one whose number is the argument, told by its application, 2 = it goes on with a phase that another one had interrupted. */
	WEIR_PROBE_TEXT = 0x0402, /* The text that the probe just hit on this lane, at the same time, has read: a query without its literals, a request's name, what a server remarks. */
	WEIR_STACK_SAMPLE = 0x0501, /* A task's stack as a node of the tree of stacks, at at_ns; it stands for weight_ns; flags: 1 = the task was blocked, which is told once for each time that it is. */
	WEIR_STACK_NODE = 0x0502, /* A frame of the tree of stacks, called by its parent's (0 = it is an outermost one); a frame is an object's number << 48 | an offset. */
	WEIR_STACK_OBJECT = 0x0503, /* A file that code is mapped from. */
	WEIR_STACK_SYMBOL = 0x0504, /* What a frame's function is called. */
	WEIR_STACK_NOTE = 0x0505, /* A remark on the sampling of stacks, with the number of samples that it cost. */
	WEIR_ARM_START = 0x0601, /* An ARM transaction begins: numbers of its definition and of its application's instance, and of how many it stands for (0 = one); flags: 1 = the parent's slot follows, 2 = an arrival time follows, 4 = tracing was asked for, 8 = bound to its thread, 16 = its correlator was given out, 32 = by ARM 2.0. */
	WEIR_ARM_STOP = 0x0602, /* An ARM transaction ends; status: 0 = good, 1 = aborted, 2 = failed, 3 = unknown. */
	WEIR_ARM_UPDATE = 0x0603, /* A sign of life of an ARM transaction; what it told stands before in arm_detail. */
	WEIR_ARM_DISCARD = 0x0604, /* An ARM transaction is not to be counted. */
	WEIR_ARM_BLOCK = 0x0605, /* An ARM transaction begins to wait for something outside. */
	WEIR_ARM_UNBLOCK = 0x0606, /* That wait is over. */
	WEIR_ARM_BIND = 0x0607, /* The running thread works for an ARM transaction from here on (1), or no longer (0). */
	WEIR_ARM_REPORT = 0x0608, /* An ARM transaction that was measured elsewhere; flags: 1 = the parent's slot follows, 2 = its own. */
	WEIR_ARM_DETAIL = 0x0609, /* A piece of what is told with an ARM transaction: user, address, context, metric, diagnosis; after its start, or before its stop or update. */
	WEIR_ARM_CORRELATOR = 0x060a, /* A correlator is made for a transaction that will be measured elsewhere; flags: 1 = the parent's slot follows. */
	WEIR_ARM_INSTANCE = 0x060b, /* An instance of an application begins (1) or stops (0), which discards its running transactions. */
	WEIR_ARM_PIECES = 0x060c, /* Several short pieces of what is told with an ARM transaction, one behind the other; after its start, or before its update or report. */
};

#endif
