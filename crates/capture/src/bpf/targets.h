/* Whose events are wanted: bitmaps that the collector and all objects share. */
#pragma once
#include "kernel.h"
#include <bpf/bpf_helpers.h>

#define MOST_PIDS (1 << 22)
/* A section of its own, so that it is a map of its own: further objects are given the spine's. */
#define TARGETS SEC(".bss.targets")
u8 traced[MOST_PIDS / 8] TARGETS; /* thread groups of the server */
u8 ports[65536 / 8] TARGETS;      /* local ports of the server */
u8 woken_too[MOST_PIDS / 8] TARGETS; /* thread groups whose wake-ups are told although they are not the server's: the generator */

static __always_inline bool bit(const u8 *bits, u32 index)
{
	return bits[index >> 3] >> (index & 7) & 1;
}

/* Marks and unmarks one, at once with other CPUs' and with the collector's; by the key no other bit is known. */
#ifndef WEIR_WITHOUT_FETCH
static __always_inline void mark(u32 *word, u32 mask, u64 key)
{
	__sync_fetch_and_or(word, mask);
}

static __always_inline void unmark(u32 *word, u32 mask, u64 key)
{
	__sync_fetch_and_and(word, ~mask);
}
#else
/* Before Linux 5.12 the only thing that can be done at once is to add, which is right for a bit that is not set yet. A
 * key that can be put into a map but once keeps two CPUs from adding the same bit: the second one finds it being
 * done. */
struct {
	__uint(type, 1 /* BPF_MAP_TYPE_HASH */);
	__uint(max_entries, 1024);
	__type(key, u64);
	__type(value, u8);
} being_marked SEC(".maps");

static __always_inline void set_mark(u32 *word, u32 mask, u64 key, bool wanted)
{
	u8 value = 1;

	if (bpf_map_update_elem(&being_marked, &key, &value, 1 /* BPF_NOEXIST */))
		return;
	if (!(*(volatile u32 *)word & mask) == wanted)
		__sync_fetch_and_add(word, wanted ? mask : -mask);
	bpf_map_delete_elem(&being_marked, &key);
}

static __always_inline void mark(u32 *word, u32 mask, u64 key)
{
	set_mark(word, mask, key, 1);
}

static __always_inline void unmark(u32 *word, u32 mask, u64 key)
{
	set_mark(word, mask, key, 0);
}
#endif

static __always_inline bool is_traced(u32 tgid)
{
	return tgid < MOST_PIDS && bit(traced, tgid & (MOST_PIDS - 1));
}
