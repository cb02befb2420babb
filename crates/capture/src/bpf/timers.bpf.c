/* Timers, by option: which wake-ups of the server's tasks came from a timer. */
#include "kernel.h"
#include "ring.h"
#include "targets.h"
#include <bpf/bpf_tracing.h>

char LICENSE[] SEC("license") = "Dual MIT/GPL";

enum { BPF_MAP_TYPE_PERCPU_ARRAY = 6 };

/* When the timer began that a CPU is at, 0 = none. Not a count of them: while a program runs, the same one does not run
 * for an interrupt on its CPU, so that an end may be missed, and a count would never come down again. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u64);
} expiring SEC(".maps");

/* A timer's function is over by then. */
#define LONGEST_NS 50000

static __always_inline void set(u64 time)
{
	u32 zero = 0;
	u64 *begun = bpf_map_lookup_elem(&expiring, &zero);

	if (begun)
		*begun = time;
}

SEC("tp_btf/hrtimer_expire_entry")
int BPF_PROG(on_precise)
{
	set(bpf_ktime_get_ns());
	return 0;
}

SEC("tp_btf/hrtimer_expire_exit")
int BPF_PROG(on_precise_end)
{
	set(0);
	return 0;
}

SEC("tp_btf/timer_expire_entry")
int BPF_PROG(on_coarse)
{
	set(bpf_ktime_get_ns());
	return 0;
}

SEC("tp_btf/timer_expire_exit")
int BPF_PROG(on_coarse_end)
{
	set(0);
	return 0;
}

SEC("tp_btf/sched_waking")
int BPF_PROG(on_waking, struct task_struct *woken)
{
	u32 zero = 0;
	u64 *begun = bpf_map_lookup_elem(&expiring, &zero);

	if (begun && *begun && is_traced(woken->tgid) && bpf_ktime_get_ns() - *begun < LONGEST_NS)
		emit(WEIR_BPF_TIMER_WAKEUP, 0, (u32)woken->pid);
	return 0;
}
