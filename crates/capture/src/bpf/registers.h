/* Where a system call's number and its arguments stand in the registers with which a task entered the kernel: what a
 * blocked task is blocked in, without tracing system calls. A task that is in none has a number beyond all calls. */
#pragma once
#include "kernel.h"

/* The registers with which a task entered the kernel. */
#ifndef WEIR_WITHOUT_FETCH
static __always_inline struct pt_regs *registers_of(struct task_struct *task)
{
	return (void *)bpf_task_pt_regs(task);
}

#define REGISTER(regs, field) ((regs)->field)
#else
#define STACK_BYTES 16384 /* of a task in the kernel, with pages of 4 KiB: they are on its top */

static __always_inline struct pt_regs *registers_of(struct task_struct *task)
{
	return (void *)((char *)BPF_CORE_READ(task, stack) + STACK_BYTES - bpf_core_type_size(struct pt_regs));
}

#define REGISTER(regs, field) ((u64)BPF_CORE_READ(regs, field))
#endif

#if defined(__TARGET_ARCH_x86)
#define CALL(regs) REGISTER(regs, orig_ax)
#define FIRST(regs) REGISTER(regs, di)
#define SECOND(regs) REGISTER(regs, si)
#define THIRD(regs) REGISTER(regs, dx)
#define FOURTH(regs) REGISTER(regs, r10)
#elif defined(__TARGET_ARCH_arm64)
#define CALL(regs) REGISTER(regs, syscallno)
#define FIRST(regs) REGISTER(regs, orig_x0) /* the result takes the argument's place */
#define SECOND(regs) REGISTER(regs, regs[1])
#define THIRD(regs) REGISTER(regs, regs[2])
#define FOURTH(regs) REGISTER(regs, regs[3])
#endif
