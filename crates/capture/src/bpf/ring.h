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
#ifndef WEIR_WITHOUT_FETCH
#define MOST_WORDS (1 << 19)
#else
#define MOST_WORDS (1 << 18)
#endif
const volatile u64 ring_mask = MOST_WORDS - 1;
/* CPUs that the system may ever have; the collector sets it. */
const volatile u32 possible_cpus = 1;

/* The sub-code's bit of a pair's second event. */
#define WEIR_SECOND 0x2000

#ifndef WEIR_WITHOUT_FETCH
/* The position counts 8-byte words ever reserved; slots are two words. */
struct largest_ring {
	u64 position;
	u64 pad[511];
	u64 words[MOST_WORDS];
};
#else
/* Before Linux 5.12 a program can add to a word at once, but not learn what it was. So a CPU counts how deep it is in
 * reserving: an interrupt that comes into the middle of it takes a lane of its own, and is over before the interrupted
 * program goes on. The lanes of interrupts are short, for a reservation lasts a few nanoseconds.
 * Such a kernel's arrays have values of at most 4 MiB. */
#define LANES 4 /* a task, a soft interrupt, a hard one, one that cannot be masked */
#define LANE_WORDS 512
struct largest_ring {
	u64 positions[LANES]; /* the first one is the ring's own */
	u64 given[LANES];     /* numbers of sockets */
	u64 depth;
	u64 lost; /* events that could not be written, and sockets without a number */
	u64 pad[512 - 2 * LANES - 2];
	u64 words[MOST_WORDS + LANES * LANE_WORDS];
};
#endif

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

#ifndef WEIR_WITHOUT_FETCH
/* Reserves words of a ring; the place is for put(). */
static __always_inline u64 reserve(struct largest_ring *ring, u64 words)
{
	return __sync_fetch_and_add(&ring->position, words);
}

static __always_inline u64 slot_of(u64 at)
{
	return at & ring_mask & (MOST_WORDS - 2);
}
#else
/* Adds to the lane's own one of these counters; returns what it was, the lane above. */
static __always_inline u64 count(struct largest_ring *ring, u64 *counters, u64 more)
{
	volatile u64 *depth = &ring->depth;
	u64 before = *depth, lane = before < LANES ? before : LANES - 1;

	if (before >= LANES) /* deeper than interrupts go: what is written here may be overwritten */
		__sync_fetch_and_add(&ring->lost, 1);
	*depth = before + 1;
	barrier_var(lane);
	lane &= LANES - 1;
	volatile u64 *counter = &counters[lane];
	u64 was = *counter;

	*counter = was + more;
	*depth = before;
	return was | lane << 62;
}

/* Reserves words of a ring; the place is for put(). */
static __always_inline u64 reserve(struct largest_ring *ring, u64 words)
{
	return count(ring, ring->positions, words);
}

static __always_inline u64 slot_of(u64 at)
{
	u64 lane = at >> 62;

	if (!lane)
		return at & ring_mask & (MOST_WORDS - 2);
	return ring_mask + 1 + (lane - 1) * LANE_WORDS + (at & (LANE_WORDS - 2));
}
#endif

static __always_inline void put(struct largest_ring *ring, u64 at, u64 head, u64 argument)
{
	u64 slot = slot_of(at);

#ifdef WEIR_WITHOUT_FETCH
	barrier_var(slot); /* so that the compiler leaves the comparison that the verifier needs */
	if (slot >= ring_mask + LANES * LANE_WORDS)
		return;
#endif

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
	u64 at = reserve(ring, 2);

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
	u64 at = reserve(ring, 4);

	put(ring, at, head_of(time, kind, sub & 0x1fff), first);
	put(ring, at + 2, head_of(time, kind, (sub & 0x1fff) | WEIR_SECOND), second);
}
