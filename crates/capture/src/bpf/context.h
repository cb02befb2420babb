/* Whether what runs on this CPU is a task, or an interrupt on top of one that has nothing to do with it.
 *
 * The kernel counts both in the word that keeps a CPU from being taken from a task. On x86 that word is a CPU's own, and
 * kernels that keep no symbols of data do not let a program ask for it by name; but it lies at a fixed distance from
 * the CPU's run queue, to which the running task leads. Where it cannot be found nothing is told. */
#pragma once
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

#define SERVING_SOFT_INTERRUPT 0x100
#define IN_HARD_INTERRUPT 0xff0000 /* and in those that cannot be masked */
#define NEVER_SET 0x7f000000

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct rq;
struct cfs_rq {
	struct rq *rq;
};
struct sched_entity {
	struct cfs_rq *cfs_rq;
};
struct thread_info {
	struct {
		u32 count;
	} preempt;
};
struct task_struct___counting {
	struct thread_info thread_info;
	struct sched_entity se;
};
#pragma clang attribute pop

/* Bytes from a CPU's run queue to its count, 0 = not known; the collector finds it in the kernel's types. */
const volatile __s64 from_run_queue;

/* The run queue of the CPU on which a task runs. */
static __always_inline struct rq *run_queue(struct task_struct *running)
{
	return ((struct task_struct___counting *)running)->se.cfs_rq->rq;
}

/* Reads the count of the CPU on which a task runs; false where it is not known. */
static __always_inline bool read_preempt_count(struct task_struct *running, u32 *count)
{
	struct task_struct___counting *task = (void *)running;

	*count = NEVER_SET;
#if defined(__TARGET_ARCH_x86)
	if (!from_run_queue || !bpf_core_field_exists(task->se.cfs_rq))
		return 0;
	bpf_probe_read_kernel(count, sizeof(*count), (char *)run_queue(running) + from_run_queue);
#elif defined(__TARGET_ARCH_arm64)
	if (bpf_core_field_exists(task->thread_info.preempt.count))
		*count = task->thread_info.preempt.count;
#endif
	return !(*count & NEVER_SET);
}
