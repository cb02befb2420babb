/* A TCP segment as the filters read it, from IPv4 or IPv6 within Ethernet. No kernel header is needed. */
#pragma once
typedef unsigned char __u8;
typedef signed char __s8;
typedef unsigned short __u16;
typedef short __s16;
typedef unsigned int __u32;
typedef int __s32;
typedef unsigned long long __u64;
typedef long long __s64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u32 __wsum;
typedef __u16 __sum16;
typedef __u8 u8;
typedef __u16 u16;
typedef __u32 u32;
typedef __u64 u64;
typedef _Bool bool;
#define true 1
#define false 0

/* uapi/linux/bpf.h and uapi/linux/pkt_cls.h */
enum { BPF_MAP_TYPE_HASH = 1, BPF_MAP_TYPE_ARRAY = 2, BPF_MAP_TYPE_PERCPU_ARRAY = 6, BPF_MAP_TYPE_LRU_HASH = 9 };
#define BPF_NOEXIST 1
#define TC_ACT_UNSPEC (-1)
#define TC_ACT_SHOT 2

/* The first fields of the context of a classifier; the kernel translates each access by its offset. */
struct __sk_buff {
	u32 len;
	u32 pkt_type;
	u32 mark;
	u32 queue_mapping;
	u32 protocol;
	u32 vlan_present;
	u32 vlan_tci;
	u32 vlan_proto;
	u32 priority;
	u32 ingress_ifindex;
	u32 ifindex;
};

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>

#define ETHERNET_BYTES 14
#define ETHERNET_IPV4 0x0800
#define ETHERNET_IPV6 0x86dd
#define PROTOCOL_ICMP 1
#define PROTOCOL_TCP 6
#define PROTOCOL_UDP 17
#define PROTOCOL_ICMPV6 58
/* "More fragments", and the fragment's offset (RFC 791, section 3.1). */
#define FRAGMENT_MASK 0x3fff
/* The offset alone: the first fragment has the ports. */
#define FRAGMENT_OFFSET_MASK 0x1fff
/* Two NOP, then the option Timestamps of 10 bytes, as RFC 7323, appendix A, recommends and all systems send it. */
#define TIMESTAMPS_HEAD 0x0101080a

#define TCP_FIN 0x01
#define TCP_SYN 0x02
#define TCP_RST 0x04
#define TCP_ACK 0x10

/* RFC 791, section 3.1 */
struct ipv4_head {
	u8 version_and_length;
	u8 service_type;
	__be16 total_bytes;
	__be16 identification;
	__be16 fragment;
	u8 time_to_live;
	u8 protocol;
	__be16 checksum;
	__be32 source;
	__be32 destination;
};

/* RFC 8200, section 3 */
struct ipv6_head {
	__be32 version_and_label;
	__be16 payload_bytes;
	u8 next_header;
	u8 hop_limit;
	__be32 source[4];
	__be32 destination[4];
};

/* RFC 9293, section 3.1 */
struct tcp_head {
	__be16 source;
	__be16 destination;
	__be32 sequence;
	__be32 ack;
	u8 data_offset;
	u8 flags;
	__be16 window;
	__be16 checksum;
	__be16 urgent;
};

/* A connection: its ends in network order, those of IPv4 as IPv6 has them (::ffff:a.b.c.d, RFC 4291, 2.5.5.2).
 * `flow_key.rs` lays it out alike. */
struct flow_key {
	__be32 client[4];
	__be32 service[4];
	__be16 client_port;
	__be16 service_port;
};

struct segment {
	struct flow_key key;
	u32 sequence;
	u32 ack;
	/* Sequence numbers that it takes: its bytes, and one each for SYN and FIN. */
	u32 length;
	u32 ts_value;
	u32 ts_echo;
	u16 window;
	u8 flags;
	bool has_timestamps;
};

static __always_inline void map_ipv4(__be32 *to, __be32 address)
{
	to[0] = 0;
	to[1] = 0;
	to[2] = bpf_htonl(0xffff);
	to[3] = address;
}

static __always_inline bool read_tcp(struct __sk_buff *skb, u32 at, u32 end, struct segment *segment)
{
	struct tcp_head tcp;
	__be32 option[3];

	if (bpf_skb_load_bytes(skb, at, &tcp, sizeof(tcp)))
		return false;
	u32 head_bytes = (tcp.data_offset >> 4) * 4;

	segment->key.client_port = tcp.source;
	segment->key.service_port = tcp.destination;
	segment->sequence = bpf_ntohl(tcp.sequence);
	segment->ack = bpf_ntohl(tcp.ack);
	segment->window = bpf_ntohs(tcp.window);
	segment->flags = tcp.flags;
	segment->length = end > at + head_bytes ? end - at - head_bytes : 0;
	segment->length += !!(tcp.flags & TCP_SYN) + !!(tcp.flags & TCP_FIN);
	segment->has_timestamps = false;
	segment->ts_value = 0;
	segment->ts_echo = 0;
	if (head_bytes < sizeof(tcp) + sizeof(option) || bpf_skb_load_bytes(skb, at + sizeof(tcp), option, sizeof(option)))
		return true;
	if (option[0] == bpf_htonl(TIMESTAMPS_HEAD)) {
		segment->has_timestamps = true;
		segment->ts_value = bpf_ntohl(option[1]);
		segment->ts_echo = bpf_ntohl(option[2]);
	}
	return true;
}

/* Reads the segment in a packet that came in; false for what is no TCP, and for fragments, whose ports are unknown. */
static __always_inline bool read_segment(struct __sk_buff *skb, struct segment *segment)
{
	if (skb->protocol == bpf_htons(ETHERNET_IPV4)) {
		struct ipv4_head ip;

		if (bpf_skb_load_bytes(skb, ETHERNET_BYTES, &ip, sizeof(ip)))
			return false;
		if (ip.protocol != PROTOCOL_TCP || ip.fragment & bpf_htons(FRAGMENT_MASK))
			return false;
		map_ipv4(segment->key.client, ip.source);
		map_ipv4(segment->key.service, ip.destination);
		/* Short frames are padded, so their own length says nothing; larger ones than 64 KiB have no length here. */
		u32 total = bpf_ntohs(ip.total_bytes);
		u32 end = total ? ETHERNET_BYTES + total : skb->len;

		return read_tcp(skb, ETHERNET_BYTES + (ip.version_and_length & 15) * 4, end, segment);
	}
	if (skb->protocol == bpf_htons(ETHERNET_IPV6)) {
		struct ipv6_head ip;

		if (bpf_skb_load_bytes(skb, ETHERNET_BYTES, &ip, sizeof(ip)) || ip.next_header != PROTOCOL_TCP)
			return false;
		__builtin_memcpy(segment->key.client, ip.source, sizeof(ip.source));
		__builtin_memcpy(segment->key.service, ip.destination, sizeof(ip.destination));
		u32 at = ETHERNET_BYTES + sizeof(ip);

		return read_tcp(skb, at, at + bpf_ntohs(ip.payload_bytes), segment);
	}
	return false;
}
