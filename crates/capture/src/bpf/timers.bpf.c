/* Timers, by option: which wake-ups of the server's tasks came from a timer. */
#include "kernel.h"
#include "ring.h"
#include "targets.h"
#include <bpf/bpf_tracing.h>

char LICENSE[] SEC("license") = "Dual MIT/GPL";

enum { BPF_MAP_TYPE_PERCPU_ARRAY = 6 };

/* How many timers a CPU is at: one may interrupt another. The collector clears it before the probes are attached. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u32);
} expiring SEC(".maps");

static __always_inline void count(int step)
{
	u32 zero = 0, *depth = bpf_map_lookup_elem(&expiring, &zero);

	if (depth && (step > 0 || *depth))
		*depth += step;
}

SEC("tp_btf/hrtimer_expire_entry")
int BPF_PROG(on_precise)
{
	count(1);
	return 0;
}

SEC("tp_btf/hrtimer_expire_exit")
int BPF_PROG(on_precise_end)
{
	count(-1);
	return 0;
}

SEC("tp_btf/timer_expire_entry")
int BPF_PROG(on_coarse)
{
	count(1);
	return 0;
}

SEC("tp_btf/timer_expire_exit")
int BPF_PROG(on_coarse_end)
{
	count(-1);
	return 0;
}

SEC("tp_btf/sched_waking")
int BPF_PROG(on_waking, struct task_struct *woken)
{
	u32 zero = 0, *depth = bpf_map_lookup_elem(&expiring, &zero);

	if (depth && *depth && is_traced(woken->tgid))
		emit(WEIR_BPF_TIMER_WAKEUP, 0, (u32)woken->pid);
	return 0;
}
