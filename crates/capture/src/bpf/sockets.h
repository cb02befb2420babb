/* What is told of a socket that the verifier knows as one: who it is, what arrived, was taken and was given.
 *
 * The socket tracepoints and the probes at TCP's own functions both end here, so that they tell the same. */
#pragma once
#include "kernel.h"
#include "registers.h"
#include "ring.h"
#include "spine.h"
#include "targets.h"
#include "numbers.h"
#include "http2.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>


static __always_inline bool is_server_side(const struct sock *sk)
{
	u16 family = sk->__sk_common.skc_family;

	return bit(ports, sk->__sk_common.skc_num) && (family == AF_INET || family == AF_INET6);
}

/* Whether a socket is a connection of MPTCP whose positions can be told; numbers of data count them, as sequence numbers
 * count those of TCP. */
static __always_inline bool is_mptcp(struct sock *sk)
{
	return bpf_core_field_exists(((struct mptcp_sock *)0)->bytes_consumed) && sk->sk_protocol == IPPROTO_MPTCP;
}

/* Where what a program has not taken yet begins; where what has arrived ends. */
static __always_inline u32 mptcp_taken(struct sock *sk, u32 *arrived)
{
	struct mptcp_sock *msk = (void *)sk;
	u64 before = BPF_CORE_READ(msk, bytes_received);
	u64 end = BPF_CORE_READ(msk, ack_seq), received = BPF_CORE_READ(msk, bytes_received);

	/* More has just come: what is read after it belongs together, for the next comes from the network as well. */
	if (received != before) {
		end = BPF_CORE_READ(msk, ack_seq);
		received = BPF_CORE_READ(msk, bytes_received);
	}
	*arrived = end;
	return end - received + BPF_CORE_READ(msk, bytes_consumed);
}

/* Whether a connection of TCP carries one of MPTCP: its bytes are told of that one. */
static __always_inline bool carries_mptcp(struct tcp_sock *tcp)
{
	struct tcp_sock___mptcp *known = (void *)tcp;

	return bpf_core_field_exists(((struct mptcp_sock *)0)->bytes_consumed) && bpf_core_field_exists(known->is_mptcp) &&
	       BPF_CORE_READ(known, is_mptcp);
}

/* Who a socket is: several events in a row, of one time. */
static __always_inline void emit_open(struct sock *sk, struct tcp_sock *tcp, u64 cookie)
{
	struct largest_ring *ring = own_ring();

	if (!ring || !IS_NUMBERED(cookie))
		return;
	struct sock_common *common = &sk->__sk_common;
	bool v6 = common->skc_family == AF_INET6;
	u64 time = bpf_ktime_get_ns();
	u64 at = reserve(ring, v6 ? 14 : 8);
	u32 receive_base = 0, send_base = 0; /* of no meaning without TCP */

	if (tcp) {
		receive_base = tcp->rcv_nxt - (u32)tcp->bytes_received;
		send_base = tcp->bytes_acked ? tcp->snd_una - (u32)tcp->bytes_acked : tcp->write_seq;
	} else if (is_mptcp(sk)) {
		/* It is met when the first bytes come or go. */
		u32 arrived = 0;

		receive_base = mptcp_taken(sk, &arrived) - (u32)BPF_CORE_READ((struct mptcp_sock *)sk, bytes_consumed);
		send_base = BPF_CORE_READ((struct mptcp_sock *)sk, write_seq);
	}
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

/* The two ends of a Unix socket's connection: what one sends the other receives. The end that was accepted has the
 * listener's name. */
static __always_inline void tell_peer(struct unix_sock *own, u64 cookie)
{
	struct sock *peer = own->peer;

	if (peer)
		emit(WEIR_BPF_SOCKET_PEER, own->addr ? WEIR_ACCEPTED : 0,
		     (u32)cookie | (u64)(u32)number_of_other(peer) << 32);
}

#ifndef WEIR_WITHOUT_FETCH
static __always_inline void tell_peer_of(struct sock *sk, u64 cookie)
{
	if (KNOWS(skc_to_unix_sock)) {
		struct unix_sock *own = bpf_skc_to_unix_sock(sk);

		if (own)
			tell_peer(own, cookie);
		return;
	}
	/* The other end cannot be given a number: it gets one when it is met itself. */
	struct sock *peer = BPF_CORE_READ((struct unix_sock *)sk, peer);
	u64 number = peer ? BPF_CORE_READ(peer, __sk_common.skc_cookie.counter) : 0;

	if (number)
		emit(WEIR_BPF_SOCKET_PEER, BPF_CORE_READ((struct unix_sock *)sk, addr) ? WEIR_ACCEPTED : 0,
		     (u32)cookie | (u64)(u32)number << 32);
}

/* Tells who a socket is that has no number yet. */
static __always_inline void meet(struct sock *sk)
{
	if (sk->__sk_common.skc_cookie.counter)
		return;
	u64 cookie = bpf_get_socket_cookie(sk);
	struct tcp_sock *fresh = bpf_skc_to_tcp_sock(sk);

	if (sk->__sk_common.skc_family == AF_UNIX)
		tell_peer_of(sk, cookie);
	else if (fresh || sk->__sk_common.skc_dport) /* UDP with a peer: a resolver, as a rule */
		emit_open(sk, fresh, cookie);
}
#else
/* To whom sockets without TCP led when they were met last. */
struct {
	__uint(type, 9 /* BPF_MAP_TYPE_LRU_HASH */);
	__uint(max_entries, 4096);
	__type(key, u64);
	__type(value, u64);
} met SEC(".maps");

/* Tells who a socket is that was not met yet. */
static __always_inline void meet(struct sock *sk)
{
	struct tcp_sock *tcp = bpf_skc_to_tcp_sock(sk);

	if (tcp) {
		if (!socket_id(sk))
			emit_open(sk, tcp, number_anew(sk));
		return;
	}
	bool local = sk->__sk_common.skc_family == AF_UNIX;
	struct sock *other = local ? BPF_CORE_READ((struct unix_sock *)sk, peer) : 0;
	u64 own = (u64)sk, peer = local ? (u64)other : sk->__sk_common.skc_dport | (u64)sk->__sk_common.skc_daddr << 32;
	u64 *known = bpf_map_lookup_elem(&met, &own);

	if (!peer || (known && *known == peer))
		return;
	bpf_map_update_elem(&met, &own, &peer, 0);
	if (local)
		emit(WEIR_BPF_SOCKET_PEER, BPF_CORE_READ((struct unix_sock *)sk, addr) ? WEIR_ACCEPTED : 0,
		     (u32)number_of_other(sk) | (u64)(u32)number_of_other(other) << 32);
	else
		emit_open(sk, 0, number_of_other(sk));
}
#endif

/* Whether datagrams at the server's ports are told: where it tells of HTTP/3 itself. The collector sets it. */
u32 tells_datagrams;
/* As in weir_wire::quic. */
#define QUIC_ARRIVAL 1
#define QUIC_EMPTY 2

/* Data can be read, or a connection accepted. */
static __always_inline int ready(struct sock *sk)
{
	if (!is_server_side(sk))
		return 0;
	if (sk->__sk_common.skc_state == TCP_LISTEN) {
		emit(WEIR_BPF_LISTEN_READY, 0, socket_id(sk) | (u64)sk->sk_ack_backlog << 32);
		return 0;
	}
	struct tcp_sock *tcp = bpf_skc_to_tcp_sock(sk);

	u32 flags = sk->sk_socket ? 0 : WEIR_NOT_ACCEPTED, arrived = 0;

	if (tcp) {
		if (!carries_mptcp(tcp))
			emit(WEIR_BPF_SOCKET_READY, flags, socket_id(sk) | (u64)tcp->rcv_nxt << 32);
	} else if (is_mptcp(sk)) {
		meet(sk);
		mptcp_taken(sk, &arrived);
		emit(WEIR_BPF_SOCKET_READY, flags, socket_id(sk) | (u64)arrived << 32);
	} else if (tells_datagrams)
		emit_pair(WEIR_BPF_QUIC, QUIC_ARRIVAL, (u32)number_of_other(sk), 0);
	return 0;
}

/* System calls that receive or send: their second argument names the place of the bytes. */
#if defined(__TARGET_ARCH_x86)
enum { CALL_READ = 0, CALL_WRITE = 1, CALL_READV = 19, CALL_WRITEV = 20, CALL_SENDTO = 44, CALL_RECVFROM = 45,
       CALL_SENDMSG = 46, CALL_RECVMSG = 47 };
#elif defined(__TARGET_ARCH_arm64)
enum { CALL_READ = 63, CALL_WRITE = 64, CALL_READV = 65, CALL_WRITEV = 66, CALL_SENDTO = 206, CALL_RECVFROM = 207,
       CALL_SENDMSG = 211, CALL_RECVMSG = 212 };
#endif
#define RECORD_HEAD_BYTES 5
#define MESSAGE_VECTORS 16 /* struct user_msghdr: name, its length, then the vectors and their number; on 64 bits */

/* Where the bytes are that the running task has just taken or given: `length` of them. Where its call tells no place, as
 * sendfile's, none can be seen. */
static __always_inline void find_bytes(struct bytes *bytes, u32 sent, u32 length)
{
	struct pt_regs *regs = registers_of(current_task());
	u64 call = CALL(regs), place = SECOND(regs), vectors[2] = {};
	bool plain = sent ? call == CALL_WRITE || call == CALL_SENDTO : call == CALL_READ || call == CALL_RECVFROM;
	bool several = sent ? call == CALL_WRITEV : call == CALL_READV;
	bool message = sent ? call == CALL_SENDMSG : call == CALL_RECVMSG;

	bytes->total = length;
	bytes->here = length;
	bytes->place = plain ? place : 0;
	if (!several && !message)
		return;
	vectors[0] = place;
	vectors[1] = THIRD(regs);
	if (message && bpf_probe_read_user(vectors, sizeof(vectors), (void *)(place + MESSAGE_VECTORS)))
		return;
	bytes->vectors = vectors[0];
	bytes->pieces = vectors[1] < MOST_VECTORS ? vectors[1] : MOST_VECTORS;
	bytes->here = 0;
}

/* What the first bytes of a connection say of its protocol, when the running task has just taken them: the preface of
 * HTTP/2, or a record of a TLS handshake. Looked at once for each connection; nothing of them is kept. */
static __always_inline u32 protocol_of(int length)
{
	struct bytes bytes = {};
	u64 text[2] = {};

	find_bytes(&bytes, 0, length);
	if (!bytes.here && !next_piece(&bytes))
		return 0;
	if (!bytes.place)
		return 0;
	if (length < PREFACE_BYTES) {
		bpf_probe_read_user(text, RECORD_HEAD_BYTES, (void *)bytes.place);
	} else {
		bpf_probe_read_user(text, sizeof(text), (void *)bytes.place);
		if (is_preface(text))
			return WEIR_HTTP2;
	}
	/* A handshake, of any version of TLS. */
	return (text[0] & 0xffff) == 0x0316 ? WEIR_TLS : 0;
}

#ifdef FOLLOWS_STREAMS
/* Connections that speak HTTP/2 in the clear, by their sockets' numbers. */
#define MOST_FLOWS 16384
struct {
	__uint(type, 1 /* BPF_MAP_TYPE_HASH */);
	__uint(max_entries, MOST_FLOWS);
	__type(key, u32);
	__type(value, struct flow);
} flows SEC(".maps");

/* How many there are: without any, what is taken and given is not looked at. */
u32 followed;

/* A connection begins with the preface. */
static __always_inline void begin_flow(u32 socket)
{
	struct flow fresh = { .number = socket };

	fresh.ways[0].left = PREFACE_BYTES;
	fresh.ways[0].type = FRAME_PREFACE;
	if (!bpf_map_update_elem(&flows, &socket, &fresh, 1 /* BPF_NOEXIST */))
		__sync_fetch_and_add(&followed, 1);
}

/* A response by which a connection is upgraded has so many bytes: its fields that must be there, and some more. */
#define UPGRADE_BYTES_MIN 96
#define UPGRADE_BYTES_MAX 512
/* A connection is upgraded before it has carried so many bytes of responses: each look takes some 0.1 us, and one that has
 * carried more is used for ordinary requests. */
#define UPGRADE_WITHIN (64 << 10)

/* What was just given may be a response that upgrades its connection: then its frames are followed from here on. */
static __always_inline void follow_upgrade(u32 socket, u32 length)
{
	struct flow fresh = { .number = socket, .flags = FLOW_WEBSOCKET };
	struct bytes bytes = {};

	find_bytes(&bytes, 1, length);
	if (!gives_upgrade(&bytes))
		return;
	if (!bpf_map_update_elem(&flows, &socket, &fresh, 1 /* BPF_NOEXIST */))
		__sync_fetch_and_add(&followed, 1);
	tell_upgrade(&fresh);
}

/* A connection is older than the recording: it may speak HTTP/2, which what it takes next shows. */
static __always_inline void expect_flow(u32 socket)
{
	struct flow fresh = { .number = socket, .flags = FRAME_OLDER };

	fresh.ways[0].unsure = fresh.ways[1].unsure = 1;
	if (!bpf_map_update_elem(&flows, &socket, &fresh, 1 /* BPF_NOEXIST */))
		__sync_fetch_and_add(&followed, 1);
}

/* Whether a client's last bytes came so long ago that the kernel's coarse clock has moved since: what is given now is no
 * quick answer. Of one that is, nothing is looked at. */
static __always_inline bool is_late(struct tcp_sock *tcp)
{
	return (u32)bpf_jiffies64() != tcp->inet_conn.icsk_ack.lrcvtime;
}

/* Tells whether what was just given begins with an event. */
static __attribute__((noinline, unused)) int look_for_event(u32 socket, u32 length)
{
	struct bytes bytes = {};

	find_bytes(&bytes, 1, length);
	if (gives_event(&bytes))
		tell_event(socket, 0, length);
	return 0;
}

static __always_inline void end_flow(u32 socket)
{
	if (followed && !bpf_map_delete_elem(&flows, &socket))
		__sync_fetch_and_add(&followed, -1);
}

/* Follows a connection over what was just taken or given, if it is one that speaks HTTP/2. */
static __always_inline void follow_socket(u32 socket, u32 sent, u32 length, u32 position)
{
	struct flow *flow = bpf_map_lookup_elem(&flows, &socket);
	struct bytes bytes = {};

	if (!flow)
		return;
	find_bytes(&bytes, sent, length);
	bytes.position = position - length;
	follow(flow, sent, &bytes);
	/* It speaks something else. */
	if (!sent && flow->ways[0].unsure)
		end_flow(socket);
}
#endif

#ifdef FOLLOWS_STREAMS
/* How many chunks of CHUNK_BYTES of a question and of an answer are told; 0 = none. The collector sets them while it reads
 * questions. */
u32 question_chunks;
u32 answer_chunks;
/* The same of what the server takes from its clients: set only where reading heads was allowed. */
u32 head_chunks;
#define ASKED_SENT 16
#define ASKED_NO_TCP 8
#define ASKED_SERVED 32

/* What the steps over a call's bytes share. */
struct copying {
	struct bytes bytes;
	u64 time;
};

/* A step over the bytes of a call, as the kernel's loop calls it: 1 where there is no more to do. */
static __attribute__((noinline, unused)) long copy_step(u64 index, struct copying *copying)
{
	struct bytes *bytes = &copying->bytes;

	if (!bytes->total || (!bytes->here && !next_piece(bytes)) || !bytes->place)
		return 1;
	u32 take = bytes->here < CHUNK_BYTES ? bytes->here : CHUNK_BYTES;

	if (!tell_words(WEIR_BPF_ASKED_BYTES, copying->time, bytes->place, take))
		return 1;
	pass(bytes, take);
	return 0;
}

/* The first bytes that a task gave to what the server asks, or took from it, in so many chunks of CHUNK_BYTES at most, or
 * of a piece of the call's. Of a call whose bytes cannot be seen its length alone is told. */
static __attribute__((noinline, unused)) int tell_asked(u32 socket, u32 flags, u32 length, u32 chunks)
{
	u64 task = bpf_get_current_pid_tgid();
	struct largest_ring *ring = own_ring();
	struct copying copying = {};

	if (!ring)
		return 0;
	find_bytes(&copying.bytes, flags & ASKED_SENT, length);
	copying.time = bpf_ktime_get_ns();
	u64 at = reserve(ring, 4);

	put(ring, at, head_of(copying.time, WEIR_BPF_ASKED_CALL, flags), socket | (u64)length << 32);
	put(ring, at + 2, head_of(copying.time, WEIR_BPF_ASKED_CALL, flags | WEIR_SECOND), task);
	bpf_loop(chunks, copy_step, &copying, 0);
	return 0;
}

/* Whether a socket is the end of a Unix socket's connection that was accepted: it is asked, and asks nothing. */
static __always_inline bool is_accepted_end(struct sock *sk)
{
	struct unix_sock *own = sk->__sk_common.skc_family == AF_UNIX ? bpf_skc_to_unix_sock(sk) : 0;

	return own && own->addr;
}
#endif

#define NAGLE_IS_OFF 1
#define IS_CORKED 2

/* Whether what was given last stays with the sender although the receiver has room for it: less than a full segment, which
 * Nagle's algorithm keeps until what was sent before is acknowledged. Of a send that went out, one comparison tells. */
static __always_inline u32 held_back(struct tcp_sock *tcp)
{
	u32 unsent = tcp->write_seq - tcp->snd_nxt, in_flight = tcp->snd_nxt - tcp->snd_una;

	if (!unsent)
		return 0;
	u8 nonagle = BPF_CORE_READ_BITFIELD(tcp, nonagle);
	bool has_room = in_flight + unsent <= tcp->snd_wnd && tcp->packets_out < tcp->snd_cwnd;

	return in_flight && unsent < tcp->mss_cache && has_room && !(nonagle & (NAGLE_IS_OFF | IS_CORKED)) ? WEIR_HELD_BACK : 0;
}

#ifdef FOLLOWS_STREAMS
/* Whether `length` bytes that were just given may be a response that upgrades a connection: its first one, or an early one
 * of such a length. */
static __always_inline bool may_upgrade(struct tcp_sock *tcp, u32 length)
{
	u32 carried = tcp->write_seq - (tcp->snd_una - (u32)tcp->bytes_acked);

	return carried <= length + 1 ||
	       (carried <= UPGRADE_WITHIN && length >= UPGRADE_BYTES_MIN && length <= UPGRADE_BYTES_MAX);
}
#endif

/* The running task took from a socket or gave to it: `result` bytes, or an error. */
static __always_inline int io(struct sock *sk, int result, u32 kind, u32 sub)
{
	if (result == -EAGAIN) {
		/* All that had arrived was taken. */
		if (tells_datagrams && kind == WEIR_BPF_SOCKET_RECV && is_server_side(sk) && !bpf_skc_to_tcp_sock(sk))
			emit_pair(WEIR_BPF_QUIC, QUIC_EMPTY, (u32)number_of_other(sk), 0);
		return 0;
	}
	bool asks = !is_server_side(sk);

	if (asks) {
		if (!is_traced(current_tgid()))
			return 0;
		/* A socket towards something that the server asks, without TCP: it gets its number when it is first met. Those
		 * that have one were told by the census, or when they began to connect. */
		meet(sk);
	}
	sub |= result > 0 ? 0 : result ? WEIR_ERROR : WEIR_END_OF_STREAM;
	struct tcp_sock *tcp = bpf_skc_to_tcp_sock(sk);

#ifdef FOLLOWS_STREAMS
	if (asks && question_chunks && result > 0 && !(sub & WEIR_PEEK) && !is_accepted_end(sk)) {
		bool sent = kind == WEIR_BPF_SOCKET_SEND;

		tell_asked(socket_id(sk), (sent ? ASKED_SENT : 0) | (tcp ? 0 : ASKED_NO_TCP), result,
			   sent ? question_chunks : answer_chunks);
	}
	if (!asks && head_chunks && result > 0 && kind == WEIR_BPF_SOCKET_RECV && !(sub & WEIR_PEEK))
		tell_asked(socket_id(sk), ASKED_SERVED, result, head_chunks);
#endif

	if (tcp && kind == WEIR_BPF_SOCKET_RECV && result >= RECORD_HEAD_BYTES &&
	    tcp->copied_seq - (tcp->rcv_nxt - (u32)tcp->bytes_received) == (u32)result && is_server_side(sk))
		sub |= protocol_of(result);
	if (tcp && kind == WEIR_BPF_SOCKET_SEND && result > 0)
		sub |= held_back(tcp);
	if (!tcp && is_mptcp(sk)) {
		u32 arrived = 0;
		u32 position = kind == WEIR_BPF_SOCKET_RECV ? mptcp_taken(sk, &arrived)
							      : (u32)BPF_CORE_READ((struct mptcp_sock *)sk, write_seq);

		emit(kind, sub, socket_id(sk) | (u64)position << 32);
		return 0;
	}
	if (!tcp) {
		emit(kind, sub | WEIR_NO_POSITION, (u32)number_of_other(sk) | (u64)(u32)result << 32);
		return 0;
	}
	u32 position = kind == WEIR_BPF_SOCKET_RECV ? tcp->copied_seq : tcp->write_seq;

#ifdef FOLLOWS_STREAMS
	if (sub & WEIR_HTTP2)
		begin_flow(socket_id(sk));
	bool whole = result > 0 && !(sub & WEIR_PEEK), given = whole && kind == WEIR_BPF_SOCKET_SEND;

	/* What is given is told when all its frames are, what is taken before them. */
	if (followed && given)
		follow_socket(socket_id(sk), 1, result, position);
	if (VERIFIES_LOOKS && given && !asks && is_late(tcp))
		look_for_event(socket_id(sk), result);
	emit(kind, sub, socket_id(sk) | (u64)position << 32);
	if (given && !asks && may_upgrade(tcp, result))
		follow_upgrade(socket_id(sk), result);
	if (followed && whole && kind == WEIR_BPF_SOCKET_RECV)
		follow_socket(socket_id(sk), 0, result, position);
#else
	emit(kind, sub, socket_id(sk) | (u64)position << 32);
#endif
	return 0;
}
