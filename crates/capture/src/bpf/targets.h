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

static __always_inline bool is_traced(u32 tgid)
{
	return tgid < MOST_PIDS && bit(traced, tgid & (MOST_PIDS - 1));
}
