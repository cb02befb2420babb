/* Numbers of sockets: 32 bits that all events of one carry.
 *
 * The kernel's cookies are such. Before Linux 5.12 a program of ours cannot have it make them, and sockets get numbers
 * of our own: those of TCP by a map, since the memory of one that is closed is at once another one's; all others by
 * where they are in memory, for it is told whenever one leads to another one. */
#pragma once
#include "kernel.h"
#include "ring.h"

#ifndef WEIR_WITHOUT_FETCH
#define IS_NUMBERED(number) 1

static __always_inline u64 socket_id(const struct sock *sk)
{
	return (u32)sk->__sk_common.skc_cookie.counter;
}

/* The number of a connection that begins. */
static __always_inline u64 number_anew(struct sock *sk)
{
	return bpf_get_socket_cookie(sk);
}

/* The number of a connection of TCP: the one that it has, or it gets one. */
static __always_inline u64 number_of_tcp(struct sock *sk)
{
	return bpf_get_socket_cookie(sk);
}

/* The number of a socket without TCP. */
static __always_inline u64 number_of_other(struct sock *sk)
{
	return bpf_get_socket_cookie(sk);
}

/* The number of a socket that the verifier does not know as one; 0 = it has none. */
static __always_inline u32 number_read(struct sock *sk)
{
	return BPF_CORE_READ(sk, __sk_common.skc_cookie.counter);
}

static __always_inline void end_number(struct sock *sk)
{
}
#else
#define IS_NUMBERED(number) ((number) != 0)
#define OF_MEMORY (1u << 31)

/* Connections of TCP that have a number, by their place in memory; the spine makes it, other objects share it. */
struct {
	__uint(type, 1 /* BPF_MAP_TYPE_HASH */);
	__uint(max_entries, 65536);
	__type(key, u64);
	__type(value, u32);
} numbers SEC(".maps");

static __always_inline u32 number_kept(u64 place)
{
	u32 *number = bpf_map_lookup_elem(&numbers, &place);

	return number ? *number : 0;
}

static __always_inline u64 socket_id(const struct sock *sk)
{
	return number_kept((u64)sk);
}

static __always_inline u64 number_anew(struct sock *sk)
{
	struct largest_ring *ring = own_ring();
	u64 place = (u64)sk;

	if (!ring)
		return 0;
	u64 given = count(ring, ring->given, 1), lane = given >> 62;
	/* Of those that this CPU gave at this depth none is given twice, nor by another one. */
	u32 number = (((u32)given * LANES + lane) * possible_cpus + bpf_get_smp_processor_id() + 1) & ~OF_MEMORY;

	if (bpf_map_update_elem(&numbers, &place, &number, 0)) {
		__sync_fetch_and_add(&ring->lost, 1);
		return 0;
	}
	return number;
}

static __always_inline u64 number_of_tcp(struct sock *sk)
{
	u64 number = socket_id(sk);

	return number ? number : number_anew(sk);
}

static __always_inline u64 number_of_other(struct sock *sk)
{
	u64 pointer = (u64)sk, place = 0;

	/* A pointer may not be calculated with; what is read from memory is none. */
	bpf_probe_read_kernel(&place, sizeof(place), &pointer);
	return (u32)(place >> 6) | OF_MEMORY;
}

static __always_inline u32 number_read(struct sock *sk)
{
	return number_kept((u64)sk);
}

static __always_inline void end_number(struct sock *sk)
{
	u64 place = (u64)sk;

	bpf_map_delete_elem(&numbers, &place);
}
#endif
