/* Interrupts, by option: which part of a task's time on the CPU was taken by hard and soft interrupts, and by the
 * hypervisor. */
#include "kernel.h"
#include "interrupts.h"
#include "ring.h"
#include "targets.h"
#include "context.h"
#include <bpf/bpf_tracing.h>

char LICENSE[] SEC("license") = "Dual MIT/GPL";

enum { BPF_MAP_TYPE_PERCPU_ARRAY = 6 };

/* When the interrupt of each sort began that a CPU is at; and what had been stolen from it when it last switched. */
struct begun {
	u64 at[3];
	u64 stolen;
	u64 switched;
};
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct begun);
} now_at SEC(".maps");

static __always_inline void begin(u32 sort)
{
	u32 zero = 0;
	struct begun *begun = bpf_map_lookup_elem(&now_at, &zero);

	/* Of a stranger's it is noted that nothing begins: the probes of begin and end are attached one after the other, so
	 * that the end of the one noted before may not have been told. */
	if (begun)
		begun->at[sort] = is_traced(current_tgid()) ? bpf_ktime_get_ns() : 0;
}

static __always_inline void end(u32 sort, u64 number)
{
	u32 zero = 0;
	struct begun *begun = bpf_map_lookup_elem(&now_at, &zero);
	struct largest_ring *ring = own_ring();

	if (!begun || !ring || !begun->at[sort])
		return;
	u64 time = bpf_ktime_get_ns(), duration = time - begun->at[sort];

	begun->at[sort] = 0;
	/* Longer than seconds is no interrupt: its begin is of the window before. */
	if (duration >> 32)
		return;
	u64 at = reserve(ring, 2);

	put(ring, at, head_of(time, WEIR_BPF_INTERRUPT, sort), duration | number << 48);
}

SEC("tp_btf/irq_handler_entry")
int BPF_PROG(on_hard_entry)
{
	begin(WEIR_HARD_INTERRUPT);
	return 0;
}

SEC("tp_btf/irq_handler_exit")
int BPF_PROG(on_hard_exit, int number)
{
	end(WEIR_HARD_INTERRUPT, number & 0xffff);
	return 0;
}

SEC("tp_btf/softirq_entry")
int BPF_PROG(on_soft_entry)
{
	begin(WEIR_SOFT_INTERRUPT);
	return 0;
}

SEC("tp_btf/softirq_exit")
int BPF_PROG(on_soft_exit, unsigned int vector)
{
	end(WEIR_SOFT_INTERRUPT, vector & 0xff);
	return 0;
}

/* The CPU's own timer is no interrupt of a device; x86 tells of it apart. */
SEC("?tp_btf/local_timer_entry")
int BPF_PROG(on_tick_entry)
{
	begin(WEIR_TICK);
	return 0;
}

SEC("?tp_btf/local_timer_exit")
int BPF_PROG(on_tick_exit)
{
	end(WEIR_TICK, 0);
	return 0;
}

/* Bytes from a CPU's run queue to what KVM counts for its guest: the time that the CPU wanted to run and could not,
 * nanoseconds, the first word of struct kvm_steal_time. The collector finds it in the kernel's types. */
const volatile __s64 stolen_from_run_queue;

/* A longer one is not seen as one: the probes were not attached when it began. */
#define LONGEST_NS 1000000000

/* Only where the count is found. */
SEC("?tp_btf/sched_switch")
int BPF_PROG(on_stolen, bool preempted, struct task_struct *prev)
{
	u32 zero = 0;
	struct begun *begun = bpf_map_lookup_elem(&now_at, &zero);
	struct largest_ring *ring = own_ring();

	if (!begun || !ring || !bpf_core_field_exists(((struct task_struct___counting *)prev)->se.cfs_rq))
		return 0;
	u64 counted = begun->stolen;

	bpf_probe_read_kernel(&counted, sizeof(counted), (char *)run_queue(prev) + stolen_from_run_queue);
	u64 time = bpf_ktime_get_ns(), since = time - begun->switched, duration = counted - begun->stolen;

	begun->switched = time;
	begun->stolen += duration;
	if (!duration || duration > since || since > LONGEST_NS || !is_traced(prev->tgid))
		return 0;
	u64 at = reserve(ring, 2);

	put(ring, at, head_of(time, WEIR_BPF_INTERRUPT, WEIR_STOLEN), duration);
	return 0;
}
