/* Scheduler and sockets, always on: who runs where, what a task is blocked in, and where requests begin and end. */
#include "kernel.h"
#include "spine.h"
#include "ring.h"
#include "targets.h"
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>

char LICENSE[] SEC("license") = "Dual MIT/GPL";

/* A descriptor that the task is blocked on, and the system call, without tracing system calls. */
#if defined(__TARGET_ARCH_x86)
#define BLOCKED_CALL(regs) ((regs)->orig_ax)
#define BLOCKED_ARGUMENT(regs) ((regs)->di)
#elif defined(__TARGET_ARCH_arm64)
#define BLOCKED_CALL(regs) ((regs)->syscallno)
#define BLOCKED_ARGUMENT(regs) ((regs)->orig_x0)
#endif

SEC("tp_btf/sched_switch")
int BPF_PROG(on_switch, bool preempted, struct task_struct *prev, struct task_struct *next, unsigned int state)
{
	u64 call = WEIR_NO_SYSCALL, argument = 0;

	u32 left_in = preempted ? 0 : state; /* preempted on its way into a wait, it is still runnable */

	if (left_in && is_traced(prev->tgid)) {
		struct pt_regs *regs = (void *)bpf_task_pt_regs(prev);
		u64 number = BLOCKED_CALL(regs);

		call = number < WEIR_NO_SYSCALL ? number : WEIR_NO_SYSCALL;
		argument = BLOCKED_ARGUMENT(regs) & 0xffff;
	}
	/* Above the low five state bits lie TASK_PARKED, TASK_NOLOAD and the like: not asked for by anybody. */
	emit(WEIR_BPF_SCHED_SWITCH, (left_in & 31) | call << 5,
	     (u64)(u32)(prev->pid & 0xffffff) | argument << 24 | (u64)(u32)next->pid << 40);
	return 0;
}

SEC("tp_btf/sched_waking")
int BPF_PROG(on_waking, struct task_struct *woken)
{
	struct task_struct *waker = bpf_get_current_task_btf();

	/* Wake-ups that neither concern the server nor come from it are half of a busy machine's events. */
	if (!is_traced(woken->tgid) && !is_traced(waker->tgid) &&
	    !(woken->tgid < MOST_PIDS && bit(woken_too, woken->tgid & (MOST_PIDS - 1))))
		return 0;
	emit(WEIR_BPF_SCHED_WAKING, 0, (u32)waker->pid | (u64)(u32)woken->pid << 32);
	return 0;
}

SEC("tp_btf/sched_process_fork")
int BPF_PROG(on_fork, struct task_struct *parent, struct task_struct *child)
{
	u32 from = parent->tgid, to = child->tgid;

	if (from != to && is_traced(from) && to < MOST_PIDS)
		__sync_fetch_and_or((u32 *)&traced[(to >> 3 & ~3u) & (MOST_PIDS / 8 - 4)], 1u << (to & 31));
	emit(WEIR_BPF_FORK, from != to, (u32)parent->pid | (u64)(u32)child->pid << 32);
	return 0;
}

SEC("tp_btf/sched_process_exec")
int BPF_PROG(on_exec, struct task_struct *task)
{
	emit(WEIR_BPF_EXEC, 0, (u32)task->pid);
	return 0;
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(on_exit, struct task_struct *task)
{
	u32 tgid = task->tgid;

	/* The number may be given to a stranger next. */
	if (task->pid == tgid && is_traced(tgid))
		__sync_fetch_and_and((u32 *)&traced[(tgid >> 3 & ~3u) & (MOST_PIDS / 8 - 4)], ~(1u << (tgid & 31)));
	emit(WEIR_BPF_EXIT, 0, (u32)task->pid);
	return 0;
}

static __always_inline u64 socket_id(const struct sock *sk)
{
	return (u32)sk->__sk_common.skc_cookie.counter;
}

static __always_inline bool is_server_side(const struct sock *sk)
{
	u16 family = sk->__sk_common.skc_family;

	return bit(ports, sk->__sk_common.skc_num) && (family == AF_INET || family == AF_INET6);
}

/* Who a socket is: several events in a row, of one time. */
static __always_inline void emit_open(struct sock *sk, struct tcp_sock *tcp, u64 cookie)
{
	struct largest_ring *ring = own_ring();

	if (!ring)
		return;
	struct sock_common *common = &sk->__sk_common;
	bool v6 = common->skc_family == AF_INET6;
	u64 time = bpf_ktime_get_ns();
	u64 at = __sync_fetch_and_add(&ring->position, v6 ? 14 : 8);
	u32 receive_base = tcp->rcv_nxt - (u32)tcp->bytes_received;
	u32 send_base = tcp->bytes_acked ? tcp->snd_una - (u32)tcp->bytes_acked : tcp->write_seq;
	u64 remote_port = __builtin_bswap16(common->skc_dport);

#define PIECE(index, piece, argument) \
	put(ring, at + 2 * (index), head_of(time, WEIR_BPF_SOCKET_OPEN, piece), argument)
	PIECE(0, WEIR_OPEN_BASES, (u32)cookie | (u64)receive_base << 32);
	PIECE(1, WEIR_OPEN_PORTS, send_base | (u64)common->skc_num << 32 | remote_port << 48);
	PIECE(2, WEIR_OPEN_IDENTITY, cookie >> 32 | (u64)common->skc_net.net->ns.inum << 32);
	if (!v6) {
		PIECE(3, WEIR_OPEN_IPV4, common->skc_rcv_saddr | (u64)common->skc_daddr << 32);
		return;
	}
	struct in6_addr *local = &common->skc_v6_rcv_saddr, *remote = &common->skc_v6_daddr;

	PIECE(3, WEIR_OPEN_LOCAL_HIGH, local->in6_u.u6_addr32[0] | (u64)local->in6_u.u6_addr32[1] << 32);
	PIECE(4, WEIR_OPEN_LOCAL_LOW, local->in6_u.u6_addr32[2] | (u64)local->in6_u.u6_addr32[3] << 32);
	PIECE(5, WEIR_OPEN_REMOTE_HIGH, remote->in6_u.u6_addr32[0] | (u64)remote->in6_u.u6_addr32[1] << 32);
	PIECE(6, WEIR_OPEN_REMOTE_LOW, remote->in6_u.u6_addr32[2] | (u64)remote->in6_u.u6_addr32[3] << 32);
#undef PIECE
}

/* The two ends of a Unix socket's connection: what one sends the other receives. */
static __always_inline void tell_peer(struct sock *sk, u64 cookie)
{
	struct unix_sock *own = bpf_skc_to_unix_sock(sk);
	struct sock *peer = own ? own->peer : 0;

	if (peer)
		emit(WEIR_BPF_SOCKET_PEER, 0, (u32)cookie | (u64)(u32)bpf_get_socket_cookie(peer) << 32);
}

SEC("tp_btf/sk_data_ready")
int BPF_PROG(on_ready, struct sock *sk)
{
	if (!is_server_side(sk))
		return 0;
	if (sk->__sk_common.skc_state == TCP_LISTEN) {
		emit(WEIR_BPF_LISTEN_READY, 0, socket_id(sk) | (u64)sk->sk_ack_backlog << 32);
		return 0;
	}
	struct tcp_sock *tcp = bpf_skc_to_tcp_sock(sk);

	if (tcp)
		emit(WEIR_BPF_SOCKET_READY, sk->sk_socket ? 0 : WEIR_NOT_ACCEPTED, socket_id(sk) | (u64)tcp->rcv_nxt << 32);
	return 0;
}

static __always_inline int io(struct sock *sk, int result, u32 kind, u32 sub)
{
	if (result == -EAGAIN)
		return 0;
	if (!is_server_side(sk)) {
		struct task_struct *task = bpf_get_current_task_btf();

		if (!is_traced(task->tgid))
			return 0;
		/* A socket towards something that the server asks: it gets its number when it is first met. Those that have
		 * one were told by the census, unless a stranger (such as ss) gave it between connect and first use. Its
		 * change to ESTABLISHED says no better: that comes by an interrupt, whose task is anybody. */
		if (!sk->__sk_common.skc_cookie.counter) {
			u64 cookie = bpf_get_socket_cookie(sk);
			struct tcp_sock *fresh = bpf_skc_to_tcp_sock(sk);

			if (fresh)
				emit_open(sk, fresh, cookie);
			else
				tell_peer(sk, cookie);
		}
	}
	sub |= result > 0 ? 0 : result ? WEIR_ERROR : WEIR_END_OF_STREAM;
	struct tcp_sock *tcp = bpf_skc_to_tcp_sock(sk);

	if (tcp)
		emit(kind, sub, socket_id(sk) | (u64)(kind == WEIR_BPF_SOCKET_RECV ? tcp->copied_seq : tcp->write_seq) << 32);
	else
		emit(kind, sub | WEIR_NO_POSITION, socket_id(sk) | (u64)(u32)result << 32);
	return 0;
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

SEC("tp_btf/inet_sock_set_state")
int BPF_PROG(on_state, struct sock *sk, int old, int new)
{
	if (new == TCP_LISTEN) {
		struct task_struct *task = bpf_get_current_task_btf();
		u16 port = sk->__sk_common.skc_num;

		/* The server opens another port: watch it from its first connection on. */
		/* At once with other CPUs' and with the collector's: a port that gets lost is a server that is not seen. */
		if (is_traced(task->tgid))
			__sync_fetch_and_or((u32 *)&ports[(port >> 3 & ~3u) & (sizeof(ports) - 4)], 1u << (port & 31));
		return 0;
	}
	struct tcp_sock *tcp = bpf_skc_to_tcp_sock(sk);

	if (!tcp)
		return 0;
	if (new == TCP_ESTABLISHED && is_server_side(sk))
		emit_open(sk, tcp, bpf_get_socket_cookie(sk));
	/* By now a closing socket has given its local port back, so that skc_num is 0: whoever was told has a number. */
	else if (new == TCP_CLOSE && socket_id(sk))
		emit(WEIR_BPF_SOCKET_STATE, old | new << 4, socket_id(sk) | (u64)tcp->copied_seq << 32);
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
	if (!is_server_side((struct sock *)tcp) && strangers++ >= MOST_STRANGERS)
		return 0;
	emit_open((struct sock *)tcp, tcp, bpf_get_socket_cookie(tcp));
	return 0;
}
