/* A load generator's sockets: when it sent a request, when the answer arrived in the kernel, and when it was read.
 *
 * A program of its own beside the recording: it follows connections of the processes in `generators` that they have
 * made, one exchange at a time. Sends are told by a tracepoint (Linux 6.3 and later) or by a probe at TCP's function
 * (Linux 5.10 and later, not in lockdown); of the programs for both, one form is loaded. */
#include "kernel.h"
#include "generator.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>

char LICENSE[] SEC("license") = "Dual MIT/GPL";

enum { BPF_MAP_TYPE_HASH = 1, BPF_MAP_TYPE_LRU_HASH = 9, BPF_MAP_TYPE_RINGBUF = 27 };
enum { BPF_ANY = 0, BPF_RB_NO_WAKEUP = 1 };

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct sk_buff {
	char cb[48];
};
struct tcp_skb_cb {
	u32 seq;
	u32 end_seq;
};
#pragma clang attribute pop

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, u32);
	__type(value, u8);
} generators SEC(".maps");

struct connection {
	struct weir_exchange now;
	/* The last segment that has arrived, which may come after the last read. */
	u64 arrived;
};

/* By the socket's place in memory, until it is closed. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__type(key, u64);
	__type(value, struct connection);
} connections SEC(".maps");

/* When each thread began its last system call: the tracepoint tells a send when it is over, and over the loopback
 * device the whole way to the server lies within it. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, u32);
	__type(value, u64);
} called SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 8 << 20);
} exchanges SEC(".maps");

/* Ports on which the generator itself listens: what comes there is asked of it. A bit each. */
u8 listening[8192];
/* Exchanges that found no room in the ring, sends on connections that found none in the map, requests whose
 * connection was closed before anything of an answer was read, connections that were begun. */
u64 dropped, untracked, unanswered, begun;

static __always_inline bool is_generator(void)
{
	u32 tgid = bpf_get_current_pid_tgid() >> 32;

	return bpf_map_lookup_elem(&generators, &tgid) != 0;
}

static __always_inline bool is_asked(const struct sock *sk)
{
	u16 port = sk->__sk_common.skc_num;

	return listening[port >> 3] >> (port & 7) & 1;
}

static __always_inline void tell(struct connection *connection)
{
	if (bpf_ringbuf_output(&exchanges, &connection->now, sizeof(connection->now), BPF_RB_NO_WAKEUP))
		__sync_fetch_and_add(&dropped, 1);
}

static __always_inline void send(struct sock *sk, u64 sent)
{
	u64 key = (u64)sk;
	struct connection *connection = bpf_map_lookup_elem(&connections, &key);

	if (!connection) {
		struct connection anew = { .now = { .sent = sent } };

		if (bpf_map_update_elem(&connections, &key, &anew, BPF_ANY))
			__sync_fetch_and_add(&untracked, 1);
		return;
	}
	/* More of the request before anything of its answer was read. */
	if (connection->now.sent && !connection->now.read)
		return;
	if (connection->now.read)
		tell(connection);
	/* The answer may have come before the send was told. */
	u64 arrived = connection->arrived > sent ? connection->arrived : 0;

	connection->now = (struct weir_exchange){ .sent = sent, .arrived_first = arrived };
	connection->arrived = arrived;
}

SEC("fentry/tcp_sendmsg")
int BPF_PROG(on_send_begin, struct sock *sk)
{
	if (is_generator() && !is_asked(sk))
		send(sk, bpf_ktime_get_ns());
	return 0;
}

SEC("tp_btf/sys_enter")
int BPF_PROG(on_call)
{
	u64 now = bpf_ktime_get_ns();
	u32 task = bpf_get_current_pid_tgid();

	if (is_generator())
		bpf_map_update_elem(&called, &task, &now, BPF_ANY);
	return 0;
}

SEC("tp_btf/sock_send_length")
int BPF_PROG(on_send_end, struct sock *sk, int sent_bytes)
{
	u16 family = sk->__sk_common.skc_family;
	u32 task = bpf_get_current_pid_tgid();

	if (sent_bytes <= 0 || (family != AF_INET && family != AF_INET6) || !is_generator() || is_asked(sk) ||
	    !bpf_skc_to_tcp_sock(sk))
		return 0;
	u64 *begun_at = bpf_map_lookup_elem(&called, &task);

	send(sk, begun_at ? *begun_at : bpf_ktime_get_ns());
	return 0;
}

SEC("tp_btf/tcp_probe")
int BPF_PROG(on_segment, struct sock *sk, struct sk_buff *segment)
{
	u64 key = (u64)sk, now = bpf_ktime_get_ns();
	struct connection *connection = bpf_map_lookup_elem(&connections, &key);

	if (!connection)
		return 0;
	struct tcp_sock *tcp = bpf_skc_to_tcp_sock(sk);

	if (!tcp)
		return 0;
	struct tcp_skb_cb *control = (void *)__builtin_preserve_access_index(&segment->cb);
	u32 to = BPF_CORE_READ(control, end_seq);

	/* Bare acknowledgements and repetitions bring nothing. */
	if ((__s32)(to - tcp->rcv_nxt) <= 0)
		return 0;
	if (!connection->now.arrived_first)
		connection->now.arrived_first = now;
	connection->arrived = now;
	return 0;
}

SEC("tp_btf/tcp_rcv_space_adjust")
int BPF_PROG(on_read, struct sock *sk)
{
	u64 key = (u64)sk, now = bpf_ktime_get_ns();
	struct connection *connection = bpf_map_lookup_elem(&connections, &key);

	if (!connection)
		return 0;
	if (!connection->now.read_first)
		connection->now.read_first = now;
	connection->now.read = now;
	connection->now.arrived = connection->arrived;
	return 0;
}

SEC("tp_btf/inet_sock_set_state")
int BPF_PROG(on_state, struct sock *sk, int old, int new)
{
	u64 key = (u64)sk;

	if (new == TCP_SYN_SENT && is_generator())
		__sync_fetch_and_add(&begun, 1);
	if (new != TCP_CLOSE)
		return 0;
	struct connection *connection = bpf_map_lookup_elem(&connections, &key);

	if (!connection)
		return 0;
	if (connection->now.read)
		tell(connection);
	else
		__sync_fetch_and_add(&unanswered, 1);
	bpf_map_delete_elem(&connections, &key);
	return 0;
}
