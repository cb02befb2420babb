/* Scheduler and sockets, always on: who runs where, what a task is blocked in, and where requests begin and end. */
#include "kernel.h"
#include "spine.h"
#include "registers.h"
#include "ring.h"
#include "targets.h"
#define FOLLOWS_STREAMS
#include "sockets.h"
#include "context.h"
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>

char LICENSE[] SEC("license") = "Dual MIT/GPL";

/* Sends and receives come from a source that finds its sockets by their descriptors and cannot give them a cookie: every
 * socket of the server's gets its own when it is connected. */
const volatile bool by_descriptor = 0;

/* Only what happens to the traced processes' own tasks is told, and of others neither their number nor that they ran: for
 * an account of those tasks alone, which need not know who had the CPU meanwhile. */
const volatile bool targets_only = 0;

struct blocked {
	u64 call, argument;
};

/* The system call that a task is blocked in, and its first argument: the descriptor, where the call has one. */
static __always_inline struct blocked blocked_in(struct task_struct *task)
{
	struct pt_regs *regs = registers_of(task);
	u64 number = CALL(regs);

	return (struct blocked){ number < WEIR_NO_SYSCALL ? number : WEIR_NO_SYSCALL, FIRST(regs) & 0xffff };
}

/* The state of a traced task that left its CPU by itself, in an event's five bits. */
static __always_inline u32 told_state(struct task_struct *task, u32 state)
{
	/* The freezer of cgroups (v2) has its tasks sleep like any other; the system's, which cgroups v1 use, has a state of
	 * its own, above those that an event has bits for. */
	bool frozen = state & TASK_FROZEN || task->jobctl & JOBCTL_TRAP_FREEZE;

	return (state & WEIR_STATE_BITS) | (frozen ? WEIR_STATE_FROZEN : 0);
}

static __always_inline int switched(bool preempted, struct task_struct *prev, struct task_struct *next, u32 state)
{
	struct blocked in = { WEIR_NO_SYSCALL, 0 };
	u32 left = prev->pid, came = next->pid;

	if (targets_only) {
		left = is_traced(prev->tgid) ? left : 0;
		came = is_traced(next->tgid) ? came : 0;
		if (!left && !came)
			return 0;
	}
	u32 left_in = preempted || !left ? 0 : state; /* preempted on its way into a wait, it is still runnable */

	if (left_in && is_traced(prev->tgid)) {
		in = blocked_in(prev);
		left_in = told_state(prev, left_in);
	}
	/* Above the low state bits lie TASK_PARKED, TASK_NOLOAD and the like: not asked for by anybody. */
	emit(WEIR_BPF_SCHED_SWITCH, (left_in & 31) | in.call << 5,
	     (u64)(left & 0xffffff) | in.argument << 24 | (u64)came << 40);
	return 0;
}

SEC("tp_btf/sched_switch")
int BPF_PROG(on_switch, bool preempted, struct task_struct *prev, struct task_struct *next, unsigned int state)
{
	return switched(preempted, prev, next, state);
}

/* In place of the one above, before Linux 5.18. */
SEC("?tp_btf/sched_switch")
int BPF_PROG(on_switch_without_state, bool preempted, struct task_struct *prev, struct task_struct *next)
{
	return switched(preempted, prev, next, state_of_leaving(prev));
}

#define PF_KTHREAD 0x00200000

/* Calls that may send something over a socket, a bit each; the numbers are the architecture's. */
const volatile u8 sending[64];

/* Whether the running task wakes the other by what it does, or was only interrupted: flags of a wake-up.
 *
 * What a task sends within the host is received in a soft interrupt that runs on top of its own call: then it is the
 * waker. On top of anything else, the task has nothing to do with the wake-up. */
static __always_inline u32 woken_in(struct task_struct *running)
{
	u32 count;

	if (!read_preempt_count(running, &count))
		return 0;
	if (count & IN_HARD_INTERRUPT)
		return WEIR_CONTEXT_TOLD | WEIR_BY_INTERRUPT;
	if (!(count & SERVING_SOFT_INTERRUPT))
		return WEIR_CONTEXT_TOLD;
	u64 call = WEIR_NO_SYSCALL; /* the registers of a thread of the kernel's are none */

	if (!(OF_CURRENT(running, flags) & PF_KTHREAD)) {
		struct pt_regs *regs = registers_of(running);

		call = CALL(regs);
	}
	bool sends = call < WEIR_NO_SYSCALL && sending[call >> 3 & 63] >> (call & 7) & 1;

	return WEIR_CONTEXT_TOLD | WEIR_IN_SOFT_INTERRUPT | (sends ? 0 : WEIR_BY_INTERRUPT);
}

SEC("tp_btf/sched_waking")
int BPF_PROG(on_waking, struct task_struct *woken)
{
	u32 tgid = woken->tgid;
	bool ours = is_traced(tgid);

	/* Wake-ups are told of the server and of the generator only. The generator's clients are woken for each
	 * response, and telling that costs the server 0.1 us. What woke them is not needed, and woken_in() would cost
	 * half as much again. */
	if (!ours && (tgid >= MOST_PIDS || !bit(woken_too, tgid & (MOST_PIDS - 1))))
		return 0;
	struct task_struct *waker = current_task();

	/* Where a sleeping task is frozen it is not woken for that, so that no switch tells of it: its thawing does. */
	u32 thawed = ours && state_of(woken) & TASK_FROZEN ? WEIR_WAS_FROZEN : 0;

	emit(WEIR_BPF_SCHED_WAKING, ours ? woken_in(waker) | thawed : 0, current_pid() | (u64)(u32)woken->pid << 32);
	return 0;
}

SEC("tp_btf/sched_process_fork")
int BPF_PROG(on_fork, struct task_struct *parent, struct task_struct *child)
{
	u32 from = parent->tgid, to = child->tgid;

	if (from != to && is_traced(from) && to < MOST_PIDS)
		mark((u32 *)&traced[(to >> 3 & ~3u) & (MOST_PIDS / 8 - 4)], 1u << (to & 31), to);
	if (targets_only && !is_traced(from))
		return 0;
	emit(WEIR_BPF_FORK, from != to, (u32)parent->pid | (u64)(u32)child->pid << 32);
	return 0;
}

/* The process is a target no more. */
static __always_inline void untrace(u32 tgid)
{
	unmark((u32 *)&traced[(tgid >> 3 & ~3u) & (MOST_PIDS / 8 - 4)], 1u << (tgid & 31), tgid);
}

/* A task takes another name: by prctl, by /proc, or by running another program. */
SEC("tp_btf/task_rename")
int BPF_PROG(on_rename, struct task_struct *task, const char *name)
{
	struct largest_ring *ring = own_ring();
	u64 text[2] = {};

	if (!ring || (targets_only && !is_traced(task->tgid)))
		return 0;
	bpf_probe_read_kernel_str(text, sizeof(text), name);
	u64 time = bpf_ktime_get_ns();
	u64 at = reserve(ring, 6);

	put(ring, at, head_of(time, WEIR_BPF_TASK_NAME, WEIR_NAME_TASK), (u32)task->pid | (u64)(u32)task->tgid << 32);
	put(ring, at + 2, head_of(time, WEIR_BPF_TASK_NAME, WEIR_NAME_BEGIN), text[0]);
	put(ring, at + 4, head_of(time, WEIR_BPF_TASK_NAME, WEIR_NAME_END), text[1]);
	return 0;
}

SEC("tp_btf/sched_process_exec")
int BPF_PROG(on_exec, struct task_struct *task)
{
	/* Who is a target by what it has in its memory has that no more. */
	if (targets_only) {
		if (!is_traced(task->tgid))
			return 0;
		untrace(task->tgid);
	}
	emit(WEIR_BPF_EXEC, 0, (u32)task->pid);
	return 0;
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(on_exit, struct task_struct *task)
{
	u32 tgid = task->tgid;
	bool ours = is_traced(tgid);

	/* The number may be given to a stranger next. */
	if (task->pid == tgid && ours)
		untrace(tgid);
	if (targets_only && !ours)
		return 0;
	emit(WEIR_BPF_EXIT, 0, (u32)task->pid);
	return 0;
}

SEC("tp_btf/sk_data_ready")
int BPF_PROG(on_ready, struct sock *sk)
{
	return ready(sk);
}

SEC("tp_btf/sock_recv_length")
int BPF_PROG(on_recv, struct sock *sk, int result, int flags)
{
	return io(sk, result, WEIR_BPF_SOCKET_RECV, flags & MSG_PEEK ? WEIR_PEEK : 0);
}

SEC("tp_btf/sock_send_length")
int BPF_PROG(on_send, struct sock *sk, int result, int flags)
{
	return io(sk, result, WEIR_BPF_SOCKET_SEND, 0);
}

/* A client's connection, told with the place where its data begins: where arrivals come from another source than the
 * readiness of sockets, some are not told, and it must be known whose side this is before the first one. */
static __always_inline void open_served(struct sock *sk, struct tcp_sock *tcp, u64 number)
{
	u32 begin = tcp->rcv_nxt - (u32)tcp->bytes_received;

	emit_open(sk, tcp, number);
	if (by_descriptor)
		emit(WEIR_BPF_SOCKET_READY, 0, socket_id(sk) | (u64)begin << 32);
}

SEC("tp_btf/inet_sock_set_state")
int BPF_PROG(on_state, struct sock *sk, int old, int new)
{
	if (new == TCP_LISTEN) {
		u16 port = sk->__sk_common.skc_num;

		/* The server opens another port: watch it from its first connection on. */
		/* At once with other CPUs' and with the collector's: a port that gets lost is a server that is not seen. */
		if (is_traced(current_tgid()))
			mark((u32 *)&ports[(port >> 3 & ~3u) & (sizeof(ports) - 4)], 1u << (port & 31), port | 1ull << 32);
		return 0;
	}
	/* For whom an event loop asks something is known when it begins to connect; when it sends it may be at others. */
	if (new == TCP_SYN_SENT) {
		if (is_traced(current_tgid()))
			emit(WEIR_BPF_SOCKET_STATE, old | new << 4, (u32)number_anew(sk));
		return 0;
	}
	struct tcp_sock *tcp = bpf_skc_to_tcp_sock(sk);

	if (!tcp) {
		if (!is_mptcp(sk) || !socket_id(sk))
			return 0;
		if (new == TCP_CLOSE)
			emit(WEIR_BPF_SOCKET_STATE, old | new << 4, socket_id(sk));
		else if (new == TCP_ESTABLISHED && old == TCP_SYN_SENT)
			emit_open(sk, 0, number_of_other(sk));
		return 0;
	}
	if (new == TCP_ESTABLISHED && is_server_side(sk))
		open_served(sk, tcp, number_anew(sk));
	/* One that was told when it began to connect has a number, and now it has addresses. */
	else if (new == TCP_ESTABLISHED && old == TCP_SYN_SENT && socket_id(sk))
		emit_open(sk, tcp, number_of_tcp(sk));
	/* By now a closing socket has given its local port back, so that skc_num is 0: one that was told has a number. */
	else if (new == TCP_CLOSE && socket_id(sk)) {
		/* A connection that was not made: whom it was to lead to is told now, for its addresses are never told else. */
		if (old == TCP_SYN_SENT)
			emit_open(sk, tcp, number_of_tcp(sk));
		emit(WEIR_BPF_SOCKET_STATE, old | new << 4, socket_id(sk) | (u64)tcp->copied_seq << 32);
		end_flow(socket_id(sk));
		end_number(sk);
	}
	return 0;
}

/* Others than the server's that the census tells, so that it fills no more than a third of a ring. */
#define MOST_STRANGERS 6144
u32 strangers;

/* Sockets that are older than the recording; run once at its start. Whose a socket is cannot be told here, so those that
 * are not at the server's ports are all told: among them are the server's own connections to what it asks, kept open
 * for many requests. */
SEC("iter/tcp")
int census(struct bpf_iter__tcp *ctx)
{
	struct sock_common *common = ctx->sk_common;

	if (!common || common->skc_state != TCP_ESTABLISHED)
		return 0;
	struct tcp_sock *tcp = bpf_skc_to_tcp_sock(common);

	if (!tcp)
		return 0;
	if (is_server_side((struct sock *)tcp)) {
		open_served((struct sock *)tcp, tcp, number_of_tcp((struct sock *)tcp));
		expect_flow(socket_id((struct sock *)tcp));
	} else if (strangers++ < MOST_STRANGERS)
		emit_open((struct sock *)tcp, tcp, number_of_tcp((struct sock *)tcp));
	return 0;
}

/* The same for Unix sockets' connections, told from the end that was accepted. */
SEC("iter/unix")
int census_unix(struct bpf_iter__unix *ctx)
{
	struct unix_sock *own = ctx->unix_sk;

	if (!own || !own->addr || !own->peer || strangers++ >= MOST_STRANGERS)
		return 0;
	tell_peer(own, number_of_other((struct sock *)own));
	return 0;
}

/* What the server's tasks are at: of one that sleeps now, no event will tell what in. Run once at the start of each
 * window, when switches are told already. */
SEC("iter/task")
int census_tasks(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct largest_ring *ring = own_ring();

	if (!task || !ring || !is_traced(task->tgid))
		return 0;
	/* Taken first, so that all that happens to the task after it was looked at is told with a later time. */
	u64 time = bpf_ktime_get_ns();
	u32 state = task->on_cpu ? 0 : state_of(task);
	struct blocked in = { WEIR_NO_SYSCALL, 0 };

	if (state) {
		in = blocked_in(task);
		state = told_state(task, state);
	}
	u64 at = reserve(ring, 2);

	put(ring, at, head_of(time, WEIR_BPF_TASK_STATE, state | in.call << 5),
	    (u64)(u32)(task->pid & 0xffffff) | in.argument << 24 | (u64)(u32)(task->tgid & 0xffffff) << 40);
	return 0;
}
