/* The rings that every source of events writes to, one for each CPU; the spine makes them, other objects share them.
 *
 * An event is 16 bytes: word 0 = time << 20 | sub << 6 | kind, word 1 = argument.
 * A slot is reserved by fetch-and-add, so that an interrupt's event may overtake, and its word 0 is written last: a
 * reader tells a slot that is not yet written by its old time. */
#pragma once
#include "kernel.h"
#include "kinds.h"
#include <bpf/bpf_helpers.h>

/* Words of a ring less one; the collector sets it in each object, together with the map's value size. */
const volatile u64 ring_mask = (1 << 19) - 1;

/* The sub-code's bit of a pair's second event. */
#define WEIR_SECOND 0x2000

/* The position counts 8-byte words ever reserved; slots are two words. */
struct largest_ring {
	u64 position;
	u64 pad[511];
	u64 words[1 << 19];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct largest_ring); /* the collector asks for less: see ring_mask */
} rings SEC(".maps");

static __always_inline struct largest_ring *own_ring(void)
{
	u32 cpu = bpf_get_smp_processor_id();

	return bpf_map_lookup_elem(&rings, &cpu);
}

static __always_inline void put(struct largest_ring *ring, u64 at, u64 head, u64 argument)
{
	u64 slot = at & ring_mask & ((1 << 19) - 2);

	ring->words[slot + 1] = argument;
	*(volatile u64 *)&ring->words[slot] = head;
}

static __always_inline u64 head_of(u64 time, u32 kind, u32 sub)
{
	return time << 20 | (u64)(sub & 0x3fff) << 6 | kind;
}

/* Writes one event; sub has 14 bits. */
static __always_inline void emit(u32 kind, u32 sub, u64 argument)
{
	struct largest_ring *ring = own_ring();

	if (!ring)
		return;
	u64 time = bpf_ktime_get_ns();
	u64 at = __sync_fetch_and_add(&ring->position, 2);

	put(ring, at, head_of(time, kind, sub), argument);
}

/* Writes an event that needs two arguments: two in a row, of one time, so that the collector can put them together
 * although an interrupt's event may stand between; the second one's sub has bit 13 set. */
static __always_inline void emit_pair(u32 kind, u32 sub, u64 first, u64 second)
{
	struct largest_ring *ring = own_ring();

	if (!ring)
		return;
	u64 time = bpf_ktime_get_ns();
	u64 at = __sync_fetch_and_add(&ring->position, 4);

	put(ring, at, head_of(time, kind, sub & 0x1fff), first);
	put(ring, at + 2, head_of(time, kind, (sub & 0x1fff) | WEIR_SECOND), second);
}
