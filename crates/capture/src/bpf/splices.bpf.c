/* What tasks take from TCP sockets by splice(2), which passes by the place where receiving is told. TCP comes by here
 * whenever data is taken in any way, so this is attached only while a server is seen to splice. */
#include "kernel.h"
#include "registers.h"
#include "ring.h"
#include "targets.h"
#include "sockets.h"
#include <bpf/bpf_tracing.h>

char LICENSE[] SEC("license") = "Dual MIT/GPL";

#if defined(__TARGET_ARCH_x86)
enum { CALL_SPLICE = 275 };
#elif defined(__TARGET_ARCH_arm64)
enum { CALL_SPLICE = 76 };
#endif

/* Up to where a socket's data was taken when this was last told, by its cookie: the call comes by with nothing, too. */
struct {
	__uint(type, 9 /* BPF_MAP_TYPE_LRU_HASH */);
	__uint(max_entries, 8192);
	__type(key, u64);
	__type(value, u32);
} spliced SEC(".maps");

SEC("tp_btf/tcp_rcv_space_adjust")
int BPF_PROG(on_taken, struct sock *sk)
{
	if (!is_traced(current_tgid()))
		return 0;
	struct pt_regs *regs = registers_of(current_task());

	if (CALL(regs) != CALL_SPLICE)
		return 0;
	struct tcp_sock *tcp = bpf_skc_to_tcp_sock(sk);

	if (!tcp)
		return 0;
	u64 cookie = number_of_tcp(sk);
	u32 *known = bpf_map_lookup_elem(&spliced, &cookie), position = tcp->copied_seq;
	u32 before = known ? *known : tcp->rcv_nxt - (u32)tcp->bytes_received;

	if (position == before)
		return 0;
	bpf_map_update_elem(&spliced, &cookie, &position, 0);
	return io(sk, 1, WEIR_BPF_SOCKET_RECV, 0);
}
