/* From a descriptor of the running task to the socket behind it, and what was taken from it or given to it.
 *
 * The kernel's helpers want a socket that the verifier knows as one, which one found through a descriptor is not: what
 * is read here is read as memory. */
#pragma once
#include "kernel.h"
#include "numbers.h"
#include "open_files.h"
#include "ring.h"
#include "spine.h"
#include "targets.h"
#include <bpf/bpf_core_read.h>

#define IPPROTO_TCP 6

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct inode;
struct file {
	void *private_data;
	struct inode *f_inode;
};
struct socket {
	struct sock *sk;
};
struct inode {
	unsigned short i_mode;
};
struct socket_alloc {
	struct socket socket;
	struct inode vfs_inode;
};
struct sock___descriptor {
	u16 sk_protocol;
};
#pragma clang attribute pop

/* The socket behind a descriptor of the running task, 0 where it is none. */
static __always_inline struct sock *socket_behind(u32 descriptor)
{
	struct file *file = file_of((void *)bpf_get_current_task(), descriptor);

	if (!file)
		return 0;
	/* A socket and its inode are one allocation: of no other file can it be said. */
	char *owner = BPF_CORE_READ(file, private_data), *inode = (char *)BPF_CORE_READ(file, f_inode);

	if (!owner || owner + bpf_core_field_offset(struct socket_alloc, vfs_inode) != inode)
		return 0;
	return BPF_CORE_READ((struct socket *)owner, sk);
}

/* A number for a socket that has no cookie and that we cannot give one: cookies count upwards and stay below. */
static __always_inline u32 number_of(struct sock *sk)
{
	return (u32)((u64)sk >> 6) | 1u << 31;
}

/* The two ends of a Unix socket's connection, told when a socket is first met. */
struct {
	__uint(type, 9 /* BPF_MAP_TYPE_LRU_HASH */);
	__uint(max_entries, 4096);
	__type(key, u64);
	__type(value, u64);
} met SEC(".maps");

static __always_inline void meet(struct sock *sk)
{
	u64 own = (u64)sk, peer = (u64)BPF_CORE_READ((struct unix_sock *)sk, peer);
	u64 *known = bpf_map_lookup_elem(&met, &own);

	if (!peer || (known && *known == peer))
		return;
	bpf_map_update_elem(&met, &own, &peer, 0);
	emit(WEIR_BPF_SOCKET_PEER, 0, number_of(sk) | (u64)number_of((struct sock *)peer) << 32);
}

/* The running task took from or gave to a descriptor: `result` bytes, or an error. */
static __always_inline void dealt_with(u32 descriptor, __s64 result, u32 kind, u32 sub)
{
	struct sock *sk = socket_behind(descriptor);

	if (!sk)
		return;
	u16 family = BPF_CORE_READ(sk, __sk_common.skc_family);
	bool inet = family == AF_INET || family == AF_INET6;

	sub |= result > 0 ? 0 : result ? WEIR_ERROR : WEIR_END_OF_STREAM;
	if (!inet || BPF_CORE_READ((struct sock___descriptor *)sk, sk_protocol) != IPPROTO_TCP) {
		if (family == AF_UNIX)
			meet(sk);
		emit(kind, sub | WEIR_NO_POSITION, number_of(sk) | (u64)(u32)result << 32);
		return;
	}
	u32 id = number_read(sk);

	/* A socket that was told has a cookie. */
	if (!id)
		return;
	struct tcp_sock *tcp = (void *)sk;

	u32 position = kind == WEIR_BPF_SOCKET_RECV ? BPF_CORE_READ(tcp, copied_seq) : BPF_CORE_READ(tcp, write_seq);

	emit(kind, sub, id | (u64)position << 32);
}
