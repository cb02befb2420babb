/* Files by key: a wait event refers to a file by 64 bits, whose name is told apart, and seldom. */
#pragma once
#include "ring.h"
#include <bpf/bpf_core_read.h>

enum { BPF_MAP_TYPE_LRU_HASH = 9 };

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct hlist_node {
	struct hlist_node *next;
};
struct hlist_head {
	struct hlist_node *first;
};
struct super_block {
	u32 s_dev;
};
struct inode {
	unsigned short i_mode;
	struct super_block *i_sb;
	unsigned long i_ino;
	u32 i_generation;
	struct hlist_head i_dentry;
};
struct qstr {
	const unsigned char *name;
};
struct dentry {
	struct dentry *d_parent;
	struct qstr d_name;
	union {
		struct hlist_node d_alias;
	} d_u;
};
struct path {
	struct dentry *dentry;
};
struct file {
	struct path f_path;
	struct inode *f_inode;
};
#pragma clang attribute pop

/* Pieces of a WEIR_BPF_NAMED: key, device, the path from its last component backwards, end. */
#define WEIR_NAMED_KEY 0
#define WEIR_NAMED_DEVICE 1
#define WEIR_NAMED_TEXT 2
#define WEIR_NAMED_END 63
#define WEIR_NAMED_DEPTH 6  /* components of a path that are told */
#define WEIR_NAMED_WORDS 8  /* words of a component */

/* Names may change, and what was told may be in a segment that is gone: it is told again. */
#define TELL_AGAIN_NS 10000000000ull

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, u64);
	__type(value, u64);
} told SEC(".maps");

static __always_inline void tell_path(struct dentry *dentry, u64 time, struct largest_ring *ring)
{
	u64 text[WEIR_NAMED_WORDS];
	u32 whole = 0;

	for (int depth = 0; depth < WEIR_NAMED_DEPTH; depth++) {
		struct dentry *parent = BPF_CORE_READ(dentry, d_parent);

		if (!parent || parent == dentry) {
			whole = 1;
			break;
		}
		__builtin_memset(text, 0, sizeof(text));
		bpf_probe_read_kernel_str(text, sizeof(text), BPF_CORE_READ(dentry, d_name.name));
		for (int word = 0; word < WEIR_NAMED_WORDS; word++) {
			if (!text[word])
				break;
			u64 at = reserve(ring, 2);

			put(ring, at,
			    head_of(time, WEIR_BPF_NAMED, WEIR_NAMED_TEXT + depth * WEIR_NAMED_WORDS + word),
			    text[word]);
		}
		dentry = parent;
	}
	u64 at = reserve(ring, 2);

	put(ring, at, head_of(time, WEIR_BPF_NAMED, WEIR_NAMED_END), whole);
}

/* The key of a file, which is told by name first where it has not been for a while. */
static __always_inline u64 file_key(struct inode *inode, struct dentry *dentry)
{
	u64 number = BPF_CORE_READ(inode, i_ino);
	u32 device = BPF_CORE_READ(inode, i_sb, s_dev);
	u64 where = (u64)device << 32 | BPF_CORE_READ(inode, i_generation);
	u64 key = (number * 0x9e3779b97f4a7c15ull ^ where * 0xc2b2ae3d27d4eb4full) | 1;
	u64 now = bpf_ktime_get_ns();
	u64 *last = bpf_map_lookup_elem(&told, &key);

	if (last && now - *last < TELL_AGAIN_NS)
		return key;
	bpf_map_update_elem(&told, &key, &now, 0);
	if (!dentry) {
		struct hlist_node *alias = BPF_CORE_READ(inode, i_dentry.first);

		if (!alias)
			return key;
		dentry = (void *)alias - bpf_core_field_offset(struct dentry, d_u);
	}
	struct largest_ring *ring = own_ring();

	if (!ring)
		return key;
	u64 at = reserve(ring, 4);

	put(ring, at, head_of(now, WEIR_BPF_NAMED, WEIR_NAMED_KEY), key);
	put(ring, at + 2, head_of(now, WEIR_BPF_NAMED, WEIR_NAMED_DEVICE), device);
	tell_path(dentry, now, ring);
	return key;
}
