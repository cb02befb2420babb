/* At a node's interface: drops what comes in on connections that stand still, or that have just left. */
#include "packet.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

/* `hold.rs` lays it out alike. */
struct hold {
	/* CLOCK_MONOTONIC. The hold ends by itself then, also when the keeper is gone. */
	u64 until_ns;
	/* Packets dropped. */
	u64 dropped;
	/* The newest acknowledgement among them (upper half) with its window, for when the connection goes on: the client
	 * does not say it again, and answers a question about it at most each 500 ms (net.ipv4.tcp_invalid_ratelimit). */
	u64 ack_and_window;
	u64 has_ack;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 32768);
	__type(key, struct flow_key);
	__type(value, struct hold);
} holds SEC(".maps");

/* Until when a hold lasts that was renewed, in place of its own time: a hold is never written anew, so that no
 * acknowledgement is lost which comes meanwhile. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 32768);
	__type(key, struct flow_key);
	__type(value, u64);
} renewals SEC(".maps");

SEC("tc")
int hold(struct __sk_buff *skb)
{
	struct segment segment;

	if (!read_segment(skb, &segment))
		return TC_ACT_UNSPEC;
	struct hold *held = bpf_map_lookup_elem(&holds, &segment.key);

	if (!held)
		return TC_ACT_UNSPEC;
	u64 now_ns = bpf_ktime_get_ns();

	if (held->until_ns <= now_ns) {
		u64 *renewed_ns = bpf_map_lookup_elem(&renewals, &segment.key);

		if (!renewed_ns || *renewed_ns <= now_ns)
			return TC_ACT_UNSPEC;
	}
	if (segment.flags & TCP_ACK &&
	    (!held->has_ack || (__s32)(segment.ack - (u32)(held->ack_and_window >> 32)) >= 0)) {
		held->ack_and_window = (u64)segment.ack << 32 | segment.window;
		held->has_ack = 1;
	}
	__sync_fetch_and_add(&held->dropped, 1);
	return TC_ACT_SHOT;
}
