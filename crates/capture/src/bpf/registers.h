/* Where a system call's number and its arguments stand in the registers with which a task entered the kernel: what a
 * blocked task is blocked in, without tracing system calls. A task that is in none has a number beyond all calls. */
#pragma once
#include "kernel.h"

#if defined(__TARGET_ARCH_x86)
#define CALL(regs) ((regs)->orig_ax)
#define FIRST(regs) ((regs)->di)
#define SECOND(regs) ((regs)->si)
#define THIRD(regs) ((regs)->dx)
#define FOURTH(regs) ((regs)->r10)
#elif defined(__TARGET_ARCH_arm64)
#define CALL(regs) ((regs)->syscallno)
#define FIRST(regs) ((regs)->orig_x0) /* the result takes the argument's place */
#define SECOND(regs) ((regs)->regs[1])
#define THIRD(regs) ((regs)->regs[2])
#define FOURTH(regs) ((regs)->regs[3])
#endif
