/* At the director's interface: sends each packet for the service to the node that has its connection, and notes what
 * the client has acknowledged. Datagrams of QUIC go by the node's number in their connection id, and what routers say
 * about packets of a connection goes to its node.
 *
 * Nodes answer clients directly; only the Ethernet addresses of a packet change here. */
#include "packet.h"
#include "other.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

/* Entries of the table by which new connections are spread; `maglev.rs` fills it. */
#define CHOICES 65537
#define NODES_MAX 1024
/* In CHOICES: no node. */
#define NO_NODE 0xffff
/* Both directors have the same, so that they agree; `maglev.rs` has it too. */
#define CLIENT_HASH_KEY 0x77656972646972ull
/* A handshake of QUIC keeps its node for so long, also if the table of choices changes meanwhile; then a client whose
 * node is gone comes to another one. */
#define HANDSHAKE_NS 3000000000ull
/* uapi/linux/if_packet.h: to this interface's own Ethernet address. */
#define PACKET_HOST 0

/* `flow_table.rs` lays these out alike. */
struct flow {
	/* The newest acknowledgement (upper half) with its window: read and written at once. */
	u64 ack_and_window;
	/* The newest timestamp (upper half) and what it echoes. */
	u64 timestamps;
	/* CLOCK_MONOTONIC */
	u64 seen_ns;
	u64 packets;
	u32 sequence_end;
	u32 node;
	/* An acknowledgement was seen. */
	u32 has_ack;
	/* The client has sent FIN or RST. */
	u32 finished;
	/* `steer` has chosen the node. */
	u32 steered;
	/* How much is known of its beginning. */
	u32 beginning;
	/* The sequence numbers of the node's first byte and of the client's, once the beginning was seen. */
	u32 first_ack;
	u32 first_sequence;
};

enum beginning {
	/* It was entered in the middle. */
	NOT_SEEN,
	SYN_SEEN,
	SEEN,
	/* Another SYN came while it went on: anyone who knows the addresses can send one. */
	DOUBTFUL,
};

/* How a node stands, as bits; none of a node that is not known. */
enum standing {
	IS_KNOWN = 1,
	/* Its heartbeats stay away. */
	IS_DOWN = 2,
};

struct place {
	u8 mac[6];
	u16 standing;
};

struct choice {
	u16 node[CHOICES + 1];
};

struct counts {
	u64 packets;
	u64 new_flows;
	u64 table_full;
	u64 no_node;
	u64 datagrams;
	u64 icmp_errors;
};

/* Where a client's handshake of QUIC goes. */
struct handshake {
	/* CLOCK_MONOTONIC */
	u64 begun_ns;
	u32 node;
	u32 unused;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 262144);
	__type(key, struct flow_key);
	__type(value, struct flow);
} flows SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, NODES_MAX);
	__type(key, u32);
	__type(value, struct place);
} places SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct choice);
} choices SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct counts);
} counts SEC(".maps");

/* Packets by node. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, NODES_MAX);
	__type(key, u32);
	__type(value, u64);
} node_packets SEC(".maps");

/* The oldest leave it by themselves: then the client's hash decides. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 65536);
	__type(key, struct flow_key);
	__type(value, struct handshake);
} handshakes SEC(".maps");

const volatile __be32 service_address[4] = {};
const volatile __be16 service_port = 0;
const volatile u8 own_mac[6] = {};

static __always_inline u64 mix(u64 value)
{
	value ^= value >> 33;
	value *= 0xff51afd7ed558ccdull;
	value ^= value >> 33;
	value *= 0xc4ceb9fe1a85ec53ull;
	return value ^ value >> 33;
}

static __always_inline u32 choose(const struct flow_key *key)
{
	u32 first = 0;
	struct choice *choice = bpf_map_lookup_elem(&choices, &first);
	u64 hash = CLIENT_HASH_KEY;

	if (!choice)
		return NO_NODE;
	for (int word = 0; word < 4; word++)
		hash = mix(hash ^ bpf_ntohl(key->client[word]));
	hash = mix(hash ^ bpf_ntohs(key->client_port));
	u32 index = hash % CHOICES;

	/* The kernel's verifier follows no division, and the compiler would leave the comparison out. */
	asm volatile("" : "+r"(index));
	return index < CHOICES ? choice->node[index] : NO_NODE;
}

static __always_inline bool is_for_service(const struct flow_key *key)
{
	for (int word = 0; word < 4; word++)
		if (key->service[word] != service_address[word])
			return false;
	return key->service_port == service_port;
}

static __always_inline void track(struct flow *flow, const struct segment *segment)
{
	u32 end = segment->sequence + segment->length;
	bool opens = segment->flags & TCP_SYN;

	if (opens) {
		bool is_first = !flow->packets || flow->finished || flow->beginning == SYN_SEEN;

		flow->beginning = is_first ? SYN_SEEN : DOUBTFUL;
		flow->first_sequence = segment->sequence + 1;
		/* A SYN acknowledges nothing: a comparison with what stood here would refuse half of all numbers. */
		flow->has_ack = 0;
		flow->finished = 0;
	}
	if (!opens && segment->flags & TCP_ACK && flow->beginning == SYN_SEEN) {
		/* The node has sent nothing before it has this, so that it acknowledges the node's SYN alone. */
		flow->first_ack = segment->ack;
		flow->beginning = SEEN;
	}
	/* Signed: sequence numbers wrap (RFC 9293, section 3.4). */
	if (segment->flags & TCP_ACK && (!flow->has_ack || (__s32)(segment->ack - (u32)(flow->ack_and_window >> 32)) >= 0)) {
		flow->ack_and_window = (u64)segment->ack << 32 | segment->window;
		flow->has_ack = 1;
		if (segment->has_timestamps)
			flow->timestamps = (u64)segment->ts_value << 32 | segment->ts_echo;
	}
	if (opens || !flow->packets || (__s32)(end - flow->sequence_end) >= 0)
		flow->sequence_end = end;
	if (segment->flags & (TCP_FIN | TCP_RST))
		flow->finished = 1;
	flow->seen_ns = bpf_ktime_get_ns();
	/* A full barrier: what was noted is seen by `steer` before it changes the node, or its node is seen behind this. */
	__sync_fetch_and_add(&flow->packets, 1);
}

static __always_inline struct flow *enter(const struct flow_key *key, struct counts *counted)
{
	struct flow fresh = { .node = choose(key) };

	if (fresh.node == NO_NODE)
		return 0;
	if (bpf_map_update_elem(&flows, key, &fresh, BPF_NOEXIST)) {
		/* Full, or another CPU has just entered it. */
		struct flow *there = bpf_map_lookup_elem(&flows, key);

		if (!there && counted)
			counted->table_full++;
		return there;
	}
	if (counted)
		counted->new_flows++;
	return bpf_map_lookup_elem(&flows, key);
}

static __always_inline bool is_down(u32 node)
{
	struct place *place = bpf_map_lookup_elem(&places, &node);

	return place && place->standing & IS_DOWN;
}

static __always_inline u32 node_of(const struct segment *segment, struct counts *counted)
{
	struct flow *flow = bpf_map_lookup_elem(&flows, &segment->key);

	if (flow && (segment->flags & (TCP_SYN | TCP_ACK)) == TCP_SYN &&
	    (flow->finished || (flow->beginning == SYN_SEEN && is_down(flow->node)))) {
		/* The client uses its port again: a new connection. Or its first SYN went to a node that has died. */
		u32 node = choose(&segment->key);

		if (node != NO_NODE) {
			flow->steered = 0;
			__sync_lock_test_and_set(&flow->node, node);
		}
	}
	if (!flow)
		flow = enter(&segment->key, counted);
	if (!flow)
		return choose(&segment->key);
	track(flow, segment);
	return *(volatile u32 *)&flow->node;
}

/* The node of a client's handshake: packets of a handshake go where the first one went. */
static __always_inline u32 of_handshake(const struct flow_key *key)
{
	struct handshake *known = bpf_map_lookup_elem(&handshakes, key);
	u64 now = bpf_ktime_get_ns();

	if (known && now - known->begun_ns < HANDSHAKE_NS)
		return known->node;
	struct handshake fresh = { .begun_ns = now, .node = choose(key) };

	if (fresh.node != NO_NODE)
		bpf_map_update_elem(&handshakes, key, &fresh, 0);
	return fresh.node;
}

static __always_inline bool is_known(u32 node)
{
	struct place *place = bpf_map_lookup_elem(&places, &node);

	return place && place->standing;
}

static __always_inline int send_on(struct __sk_buff *skb, u32 node, struct counts *counted)
{
	struct place *place = bpf_map_lookup_elem(&places, &node);
	u8 macs[12];

	if (!place || !place->standing) {
		if (counted)
			counted->no_node++;
		return TC_ACT_SHOT;
	}
	__builtin_memcpy(macs, place->mac, 6);
	/* With the client's own address as the source a switch would learn that the client is here. */
	for (int byte = 0; byte < 6; byte++)
		macs[6 + byte] = own_mac[byte];
	if (bpf_skb_store_bytes(skb, 0, macs, sizeof(macs), 0))
		return TC_ACT_SHOT;
	u64 *of_node = bpf_map_lookup_elem(&node_packets, &node);

	if (of_node)
		(*of_node)++;
	if (counted)
		counted->packets++;
	return bpf_redirect(skb->ifindex, 0);
}

/* What is no TCP. */
static __always_inline int direct_other(struct __sk_buff *skb, struct counts *counted)
{
	struct datagram datagram;
	struct flow_key key;

	if (read_quic(skb, &datagram)) {
		if (!is_for_service(&datagram.key))
			return TC_ACT_UNSPEC;
		u32 node = datagram.node;

		/* An id of a short header is one that a node has given; a client that moves still has it. */
		if (datagram.is_long || !is_known(node))
			node = of_handshake(&datagram.key);
		if (counted)
			counted->datagrams++;
		return send_on(skb, node, counted);
	}
	if (!read_icmp(skb, &key) || !is_for_service(&key))
		return TC_ACT_UNSPEC;
	/* "Packet too big" and its like are for the node that has sent the packet. */
	struct flow *flow = bpf_map_lookup_elem(&flows, &key);
	u32 node = flow ? *(volatile u32 *)&flow->node : choose(&key);

	if (counted)
		counted->icmp_errors++;
	return send_on(skb, node, counted);
}

SEC("tc")
int direct(struct __sk_buff *skb)
{
	struct segment segment;
	u32 first = 0;

	/* A switch that does not know a node's place sends its packets to all, also to the director that stands by. */
	if (skb->pkt_type != PACKET_HOST)
		return TC_ACT_UNSPEC;
	struct counts *counted = bpf_map_lookup_elem(&counts, &first);

	if (!read_segment(skb, &segment))
		return direct_other(skb, counted);
	if (!is_for_service(&segment.key))
		return TC_ACT_UNSPEC;
	return send_on(skb, node_of(&segment, counted), counted);
}

/* What is asked of `steer`, and its answer. */
struct steering {
	struct flow_key key;
	u32 node;
	/* Answer: whether an acknowledgement was seen; the fields behind it are zero otherwise. */
	u32 has_ack;
	u32 sequence_end;
	u64 ack_and_window;
	u64 timestamps;
	u64 seen_ns;
	u64 now_ns;
};

/* Changes the node of a flow in place, and answers with what was seen of it: a map update from outside would overwrite
 * what `direct` notes meanwhile. Returns 1 if the table is full. */
SEC("syscall")
int steer(struct steering *asked)
{
	struct flow_key key;

	__builtin_memcpy(&key, &asked->key, sizeof(key));
	struct flow *flow = bpf_map_lookup_elem(&flows, &key);

	if (!flow) {
		struct flow fresh = { .node = asked->node, .steered = 1, .seen_ns = bpf_ktime_get_ns() };

		bpf_map_update_elem(&flows, &key, &fresh, BPF_NOEXIST);
		flow = bpf_map_lookup_elem(&flows, &key);
		if (!flow)
			return 1;
	}
	flow->steered = 1;
	/* A full barrier: see `track`. */
	__sync_lock_test_and_set(&flow->node, asked->node);
	asked->has_ack = flow->has_ack;
	asked->now_ns = bpf_ktime_get_ns();
	if (flow->has_ack) {
		asked->sequence_end = flow->sequence_end;
		asked->ack_and_window = *(volatile u64 *)&flow->ack_and_window;
		asked->timestamps = *(volatile u64 *)&flow->timestamps;
		asked->seen_ns = flow->seen_ns;
	}
	return 0;
}
