/* The server's system calls on sockets, where the kernel has no tracepoints for what is sent and received.
 *
 * Only the return is looked at: there the registers still hold the call's number and its first argument, and the
 * socket's positions are those after the call. */
#include "kernel.h"
#include "descriptor.h"
#include "registers.h"
#include <bpf/bpf_tracing.h>

char LICENSE[] SEC("license") = "Dual MIT/GPL";

#if defined(__TARGET_ARCH_x86)
enum {
	READ = 0, WRITE = 1, READV = 19, WRITEV = 20, SENDFILE = 40, SENDTO = 44, RECVFROM = 45, SENDMSG = 46,
	RECVMSG = 47, SPLICE = 275, RECVMMSG = 299, SENDMMSG = 307, PREADV2 = 327, PWRITEV2 = 328,
};
/* A 32-bit program's calls have numbers of their own, which would be taken for others. */
#define TS_COMPAT 2
#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct thread_info {
	u32 status;
};
struct task_struct___calls {
	struct thread_info thread_info;
};
#pragma clang attribute pop
static __always_inline bool is_foreign_abi(void)
{
	struct task_struct___calls *task = (void *)bpf_get_current_task();

	return BPF_CORE_READ(task, thread_info.status) & TS_COMPAT;
}
#elif defined(__TARGET_ARCH_arm64)
enum {
	READ = 63, WRITE = 64, READV = 65, WRITEV = 66, SENDFILE = 71, SPLICE = 76, SENDTO = 206, RECVFROM = 207,
	SENDMSG = 211, RECVMSG = 212, RECVMMSG = 243, SENDMMSG = 269, PREADV2 = 286, PWRITEV2 = 287,
};
static __always_inline bool is_foreign_abi(void)
{
	return 0;
}
#endif

SEC("tp_btf/sys_exit")
int BPF_PROG(on_call, struct pt_regs *regs, long result)
{
	/* Tried in vain: nothing was taken or given. */
	if (!is_traced(current_tgid()) || result == -EAGAIN)
		return 0;
	u32 sub = 0;

	switch ((u32)CALL(regs)) {
	case RECVFROM:
		sub = FOURTH(regs) & MSG_PEEK ? WEIR_PEEK : 0;
		goto received;
	case RECVMSG:
		sub = THIRD(regs) & MSG_PEEK ? WEIR_PEEK : 0;
		goto received;
	case RECVMMSG:
		sub = FOURTH(regs) & MSG_PEEK ? WEIR_PEEK : 0;
		goto received;
	case READ:
	case READV:
	case PREADV2:
		goto received;
	case WRITE:
	case WRITEV:
	case PWRITEV2:
	case SENDTO:
	case SENDMSG:
	case SENDMMSG:
	case SENDFILE:
		goto sent;
	case SPLICE:
		/* Between a pipe and a socket: one of the two is none. */
		if (is_foreign_abi())
			return 0;
		dealt_with(FIRST(regs), result, WEIR_BPF_SOCKET_RECV, 0);
		dealt_with(THIRD(regs), result, WEIR_BPF_SOCKET_SEND, 0);
		return 0;
	default:
		return 0;
	}
received:
	if (!is_foreign_abi())
		dealt_with(FIRST(regs), result, WEIR_BPF_SOCKET_RECV, sub);
	return 0;
sent:
	if (!is_foreign_abi())
		dealt_with(FIRST(regs), result, WEIR_BPF_SOCKET_SEND, 0);
	return 0;
}
