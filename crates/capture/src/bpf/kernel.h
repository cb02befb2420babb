/* The few kernel structures that the probes read, relocated at load time (CO-RE): no vmlinux.h is needed. */
#pragma once
#define __VMLINUX_H__ 1
typedef unsigned char __u8;
typedef signed char __s8;
typedef unsigned short __u16;
typedef short __s16;
typedef unsigned int __u32;
typedef int __s32;
typedef unsigned long long __u64;
typedef long long __s64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u32 __wsum;
typedef __u16 __sum16;
typedef __u8 u8;
typedef __u16 u16;
typedef __u32 u32;
typedef __u64 u64;
typedef _Bool bool;

enum { BPF_MAP_TYPE_ARRAY = 2 };
#define BPF_F_MMAPABLE 1024
#define AF_UNIX 1
#define AF_INET 2
#define AF_INET6 10
#define IPPROTO_MPTCP 262
#define TCP_ESTABLISHED 1
#define TCP_SYN_SENT 2
#define TCP_CLOSE 7
#define TCP_LISTEN 10
/* States of a task above those that an event has bits for, and why one sleeps in the cgroup freezer (v2). */
#define TASK_FROZEN 0x8000
#define JOBCTL_TRAP_FREEZE (1ul << 23)
#define EAGAIN 11
#define MSG_PEEK 2

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
#if defined(__TARGET_ARCH_x86)
struct pt_regs {
	unsigned long r15, r14, r13, r12, bp, bx, r11, r10, r9, r8, ax, cx, dx, si, di, orig_ax, ip, cs, flags, sp, ss;
};
#elif defined(__TARGET_ARCH_arm64)
struct user_pt_regs {
	u64 regs[31];
	u64 sp;
	u64 pc;
	u64 pstate;
};
struct pt_regs {
	u64 regs[31];
	u64 orig_x0;
	int syscallno;
};
#endif
struct task_struct {
	unsigned int flags;
	int pid;
	int tgid;
	unsigned int __state;
	int on_cpu;
	unsigned long jobctl;
	char comm[16];
	void *stack;
};
/* Before Linux 5.14. */
struct task_struct___before {
	long state;
};
struct in6_addr {
	union {
		__be32 u6_addr32[4];
	} in6_u;
};
struct ns_common {
	unsigned int inum;
};
struct net {
	struct ns_common ns;
};
typedef struct {
	struct net *net;
} possible_net_t;
typedef struct {
	__s64 counter;
} atomic64_t;
struct sock_common {
	__be32 skc_daddr;
	__be32 skc_rcv_saddr;
	__be16 skc_dport;
	u16 skc_num;
	unsigned short skc_family;
	volatile unsigned char skc_state;
	possible_net_t skc_net;
	struct in6_addr skc_v6_daddr;
	struct in6_addr skc_v6_rcv_saddr;
	atomic64_t skc_cookie;
};
struct socket;
struct sock {
	struct sock_common __sk_common;
	struct socket *sk_socket;
	u32 sk_ack_backlog;
	u16 sk_protocol;
};
/* What a program has of a connection of MPTCP: the connections of TCP that carry it are the kernel's own. */
struct mptcp_sock {
	u64 write_seq;
	u64 bytes_received;
	u64 ack_seq;
	u64 bytes_consumed;
};
struct tcp_sock___mptcp {
	bool is_mptcp;
};
struct inet_connection_sock {
	struct {
		u32 lrcvtime;
	} icsk_ack;
};
struct tcp_sock {
	struct inet_connection_sock inet_conn;
	u32 rcv_nxt;
	u32 copied_seq;
	u32 write_seq;
	u32 snd_una;
	u32 snd_nxt;
	u32 snd_wnd;
	u32 snd_cwnd;
	u32 packets_out;
	u32 mss_cache;
	u8 nonagle : 4;
	u64 bytes_received;
	u64 bytes_acked;
};
struct unix_address;
struct unix_sock {
	struct unix_address *addr;
	struct sock *peer;
};
struct bpf_iter_meta;
struct bpf_iter__tcp {
	struct bpf_iter_meta *meta;
	struct sock_common *sk_common;
};
struct bpf_iter__task {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
};
struct bpf_iter__unix {
	struct bpf_iter_meta *meta;
	struct unix_sock *unix_sk;
};
#pragma clang attribute pop
/* Helpers that not every kernel knows. Its own types tell which it does, when the programs are loaded: where one is
 * known, what would be done without is no part of the loaded program. */
enum bpf_func_id___known {
	BPF_FUNC_skc_to_unix_sock___known = 178, /* Linux 5.16 */
	BPF_FUNC_loop___known = 181,             /* 5.17 */
	BPF_FUNC_get_func_ret___known = 184,     /* 5.17 */
	BPF_FUNC_cgrp_storage_get___known = 210, /* 6.2 */
};
#define KNOWS(helper) bpf_core_enum_value_exists(enum bpf_func_id___known, BPF_FUNC_##helper##___known)
/* Whether the verifier is that of Linux 6.2 or later: an older one takes minutes over looks at content that is given. */
#define VERIFIES_LOOKS KNOWS(cgrp_storage_get)

struct tcp6_sock;
struct udp6_sock;
struct tcp_timewait_sock;
struct tcp_request_sock;

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

#ifndef WEIR_WITHOUT_FETCH
/* The task that runs: the verifier knows it as one, unless the programs are those for older kernels. */
static __always_inline struct task_struct *current_task(void)
{
	return bpf_get_current_task_btf();
}

#define OF_CURRENT(task, field) ((task)->field)

static __always_inline u32 current_tgid(void)
{
	return bpf_get_current_task_btf()->tgid;
}

static __always_inline u32 current_pid(void)
{
	return bpf_get_current_task_btf()->pid;
}

/* The state of a task that the verifier knows as one. */
static __always_inline u32 state_of(struct task_struct *task)
{
	return task->__state;
}
#else
static __always_inline struct task_struct *current_task(void)
{
	return (void *)bpf_get_current_task();
}

#define OF_CURRENT(task, field) BPF_CORE_READ(task, field)

static __always_inline u32 current_tgid(void)
{
	u32 tgid = bpf_get_current_pid_tgid() >> 32;

	barrier_var(tgid); /* the verifier does not follow a bound from the half to the whole */
	return tgid;
}

static __always_inline u32 current_pid(void)
{
	return bpf_get_current_pid_tgid();
}

static __always_inline u32 state_of(struct task_struct *task)
{
	return bpf_core_field_exists(task->__state) ? task->__state : (u32)((struct task_struct___before *)task)->state;
}
#endif

/* A task that is woken while it still is on its way from the CPU has this in place of what it waits in. */
#define TASK_WAKING 0x200

/* In which state a task leaves its CPU, where the kernel's event does not tell (before Linux 5.18). */
static __always_inline u32 state_of_leaving(struct task_struct *task)
{
	u32 state = state_of(task);

	return state & TASK_WAKING ? 1 : state;
}
