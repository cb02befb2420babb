/* Probes in the server's own programs: functions and static probes, each hit an event with its argument.
 *
 * Which argument, and where it is, a table says by the attachment's cookie, so that one program serves all sites. */
#include "ring.h"
#include "targets.h"
#include "user_probes.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

char LICENSE[] SEC("license") = "Dual MIT/GPL";

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, WEIR_MOST_SITES);
	__type(key, u32);
	__type(value, struct weir_site);
} sites SEC(".maps");

static __always_inline u64 value_of(struct pt_regs *ctx, const struct weir_site *site)
{
	u64 value = 0;

	if (site->from == WEIR_FROM_CONSTANT)
		return site->constant;
	if (site->from == WEIR_FROM_NOTHING ||
	    bpf_probe_read_kernel(&value, sizeof(value), (void *)ctx + (site->place & 31) * 8))
		return 0;
	if (site->from == WEIR_FROM_MEMORY) {
		u64 at = value + site->offset;

		value = 0;
		if (bpf_probe_read_user(&value, sizeof(value), (void *)at))
			return 0;
	}
	u32 shift = 64 - (site->bytes & 15) * 8;

	if (shift >= 64)
		return value;
	value <<= shift;
	return site->flags & WEIR_SITE_SIGNED ? (u64)((__s64)value >> shift) : value >> shift;
}

/* A text in chunks; each reserves its own slots, and all have one time, by which the collector finds them together. */
static __always_inline void emit_text(u32 point, u64 address)
{
	struct largest_ring *ring = own_ring();

	if (!ring)
		return;
	u64 time = bpf_ktime_get_ns();
	u64 first = reserve(ring, 2);

	put(ring, first, head_of(time, WEIR_BPF_PROBE_TEXT, 0), point);
	for (u32 chunk = 0; chunk < WEIR_TEXT_CHUNKS; chunk++) {
		u64 words[8] = {};
		long length = bpf_probe_read_user_str(words, WEIR_TEXT_CHUNK + 1, (void *)address);
		bool more = length == WEIR_TEXT_CHUNK + 1 && chunk + 1 < WEIR_TEXT_CHUNKS;
		u32 pieces = length == WEIR_TEXT_CHUNK + 1 ? 7 : length > 1 ? ((u32)length + 6) / 8 : 1;
		u64 at = reserve(ring, 2 * pieces);

		for (u32 index = 0; index < 7; index++) {
			if (index >= pieces)
				break;
			u32 last = !more && index + 1 == pieces ? WEIR_TEXT_LAST : 0;

			put(ring, at + 2 * index, head_of(time, WEIR_BPF_PROBE_TEXT, (chunk * 7 + index + 1) | last),
			    words[index & 7]);
		}
		if (!more)
			break;
		address += WEIR_TEXT_CHUNK;
	}
}

static __always_inline int hit(struct pt_regs *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();

	/* The file is probed for everybody; others than the server's pay for the trap, and are not told. */
	if (!is_traced(task->tgid))
		return 0;
	u32 number = bpf_get_attach_cookie(ctx);
	struct weir_site *site = bpf_map_lookup_elem(&sites, &number);

	if (!site)
		return 0;
	u64 value = value_of(ctx, site);

	if (value && site->flags & WEIR_SITE_TEXT)
		emit_text(site->point, value);
	else
		emit(WEIR_BPF_PROBE_HIT, site->point, value);
	return 0;
}

SEC("uprobe.multi")
int on_hits(struct pt_regs *ctx)
{
	return hit(ctx);
}

/* The same for kernels before 6.6, which take one site at a time. */
SEC("uprobe")
int on_hit(struct pt_regs *ctx)
{
	return hit(ctx);
}
