/* Data's arrival at the server's sockets, where the kernel has no tracepoint for a socket's readiness: the segment as
 * TCP gets it, before it is queued (tcp:tcp_probe, Linux 4.16 and later). */
#include "kernel.h"
#include "numbers.h"
#include "ring.h"
#include "spine.h"
#include "targets.h"
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>

char LICENSE[] SEC("license") = "Dual MIT/GPL";

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct sk_buff {
	char cb[48];
};
struct tcp_skb_cb {
	u32 seq;
	u32 end_seq;
};
#pragma clang attribute pop

SEC("tp_btf/tcp_probe")
int BPF_PROG(on_segment, struct sock *sk, struct sk_buff *segment)
{
	u16 family = sk->__sk_common.skc_family;

	if (!bit(ports, sk->__sk_common.skc_num) || (family != AF_INET && family != AF_INET6))
		return 0;
	struct tcp_sock *tcp = bpf_skc_to_tcp_sock(sk);

	if (!tcp)
		return 0;
	struct tcp_skb_cb *control = (void *)__builtin_preserve_access_index(&segment->cb);
	u32 from = BPF_CORE_READ(control, seq), to = BPF_CORE_READ(control, end_seq), next = tcp->rcv_nxt;

	/* Bare acknowledgements and repetitions bring nothing; what comes before its turn cannot be read yet. */
	if ((__s32)(to - next) <= 0 || (__s32)(from - next) > 0)
		return 0;
	emit(WEIR_BPF_SOCKET_READY, sk->sk_socket ? 0 : WEIR_NOT_ACCEPTED,
	     socket_id(sk) | (u64)to << 32);
	return 0;
}
