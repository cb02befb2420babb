/* What comes for the service and is no TCP: datagrams of QUIC, and messages of ICMP about what a node has sent. */
#pragma once
#include "packet.h"

/* RFC 792 and RFC 4443 */
#define ICMP_UNREACHABLE 3
#define ICMP_TIME_EXCEEDED 11
#define ICMP_PARAMETER_PROBLEM 12
/* Larger numbers are no errors (RFC 4443, section 2.1). */
#define ICMPV6_ERROR_MAX 127
/* Of both versions, before the packet that the error is about. */
#define ICMP_BYTES 8
/* RFC 9000, section 17.2 */
#define QUIC_LONG_HEADER 0x80
/* `ids.rs` of the server: its ids have 8 bytes, of which the ten bits behind the first 16 are the node's number. */
#define QUIC_ID_BYTES 8
#define UDP_BYTES 8

struct ports {
	__be16 source;
	__be16 destination;
};

/* A datagram of QUIC, as far as it says where it goes. */
struct datagram {
	struct flow_key key;
	/* It belongs to a handshake: the id in it may be one that the client has made up. */
	bool is_long;
	/* Of the id in a short header. */
	u16 node;
};

/* Where the packet's next header begins, and which it is; false for fragments and what is no IP. */
static __always_inline bool read_ip(struct __sk_buff *skb, u32 at, __be16 protocol, struct flow_key *key, u32 *next_at,
				    u8 *next)
{
	if (protocol == bpf_htons(ETHERNET_IPV4)) {
		struct ipv4_head ip;

		if (bpf_skb_load_bytes(skb, at, &ip, sizeof(ip)) || ip.fragment & bpf_htons(FRAGMENT_OFFSET_MASK))
			return false;
		map_ipv4(key->client, ip.source);
		map_ipv4(key->service, ip.destination);
		*next_at = at + (ip.version_and_length & 15) * 4;
		*next = ip.protocol;
		return true;
	}
	if (protocol == bpf_htons(ETHERNET_IPV6)) {
		struct ipv6_head ip;

		if (bpf_skb_load_bytes(skb, at, &ip, sizeof(ip)))
			return false;
		__builtin_memcpy(key->client, ip.source, sizeof(ip.source));
		__builtin_memcpy(key->service, ip.destination, sizeof(ip.destination));
		*next_at = at + sizeof(ip);
		*next = ip.next_header;
		return true;
	}
	return false;
}

/* Reads the error that a router tells about a packet of a node; `key` is of the connection that the packet belongs to.
 * The packet stands in the error as far as its ports at least (RFC 792, RFC 4443). */
static __always_inline bool read_icmp(struct __sk_buff *skb, struct flow_key *key)
{
	struct flow_key outer, inner;
	struct ports ports;
	u32 at, next_at;
	u8 next, type;

	if (!read_ip(skb, ETHERNET_BYTES, skb->protocol, &outer, &at, &next))
		return false;
	if (next != PROTOCOL_ICMP && next != PROTOCOL_ICMPV6)
		return false;
	if (bpf_skb_load_bytes(skb, at, &type, sizeof(type)))
		return false;
	bool is_v4 = type == ICMP_UNREACHABLE || type == ICMP_TIME_EXCEEDED || type == ICMP_PARAMETER_PROBLEM;

	if (next == PROTOCOL_ICMP ? !is_v4 : type > ICMPV6_ERROR_MAX)
		return false;
	if (!read_ip(skb, at + ICMP_BYTES, skb->protocol, &inner, &next_at, &next))
		return false;
	if (next != PROTOCOL_TCP && next != PROTOCOL_UDP)
		return false;
	if (bpf_skb_load_bytes(skb, next_at, &ports, sizeof(ports)))
		return false;
	for (int word = 0; word < 4; word++) {
		/* It must come to the address from which the packet went out. */
		if (outer.service[word] != inner.client[word])
			return false;
		key->client[word] = inner.service[word];
		key->service[word] = inner.client[word];
	}
	key->client_port = ports.destination;
	key->service_port = ports.source;
	return true;
}

/* Reads a datagram of QUIC (RFC 9000, section 17); false for what is none. */
static __always_inline bool read_quic(struct __sk_buff *skb, struct datagram *datagram)
{
	struct ports ports;
	u8 first, id[4];
	u32 at;
	u8 next;

	if (!read_ip(skb, ETHERNET_BYTES, skb->protocol, &datagram->key, &at, &next) || next != PROTOCOL_UDP)
		return false;
	if (bpf_skb_load_bytes(skb, at, &ports, sizeof(ports)) ||
	    bpf_skb_load_bytes(skb, at + UDP_BYTES, &first, sizeof(first)))
		return false;
	datagram->key.client_port = ports.source;
	datagram->key.service_port = ports.destination;
	datagram->is_long = first & QUIC_LONG_HEADER;
	datagram->node = 0;
	if (!datagram->is_long && !bpf_skb_load_bytes(skb, at + UDP_BYTES + 1, id, sizeof(id)))
		datagram->node = (u16)id[2] << 2 | id[3] >> 6;
	return true;
}
