/* Disk, by option: which file a task of the server waits for, and how long each request to a device takes. */
#include "kernel.h"
#include "disk.h"
#include "registers.h"
#include "ring.h"
#include "targets.h"
#include "files.h"
#include "open_files.h"
#include <bpf/bpf_tracing.h>

char LICENSE[] SEC("license") = "Dual MIT/GPL";

enum { BPF_MAP_TYPE_HASH = 1, BPF_MAP_TYPE_PERCPU_ARRAY = 6 };

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct address_space {
	struct inode *host;
};
struct folio {
	struct address_space *mapping;
};
/* Before Linux 5.16. */
struct page {
	struct address_space *mapping;
};
struct block_device {
	u32 bd_dev;
};
struct request {
	u32 cmd_flags;
	u32 __data_len;
	struct block_device *part;
};
/* Before Linux 5.11. */
struct hd_struct {
	int partno;
};
struct gendisk {
	int major;
	int first_minor;
};
struct request___before {
	struct gendisk *rq_disk;
	struct hd_struct *part;
};
struct task_struct___io {
	unsigned in_iowait : 1;
};
#pragma clang attribute pop

/* Calls whose first argument is the descriptor of what they work on, a bit each; the numbers are the architecture's. */
const volatile u8 by_descriptor[64];
/* sendfile reads from its second one. */
const volatile u32 sendfile_call = 0x1ff;

#define NO_CALL 0x1ff
#define TASK_INTERRUPTIBLE 1
#define TASK_UNINTERRUPTIBLE 2
#define S_IFMT 0170000
#define S_IFREG 0100000
#define S_IFDIR 0040000

/* The file whose page a task of this CPU faulted on last. */
struct faulted {
	u64 key;
	u32 pid;
};
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct faulted);
} faults SEC(".maps");

/* Requests that a device is at. */
struct issued {
	u64 time;
	u32 pid;
	u32 bytes;
};
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 8192);
	__type(key, u64);
	__type(value, struct issued);
} under_way SEC(".maps");

static __always_inline void note_fault(struct address_space *mapping)
{
	u32 zero = 0;

	if (!is_traced(current_tgid()))
		return;
	struct pt_regs *regs = registers_of(current_task());

	/* Within a system call its descriptor says what is read. */
	if (CALL(regs) < NO_CALL)
		return;
	struct faulted *slot = bpf_map_lookup_elem(&faults, &zero);
	struct inode *inode = BPF_CORE_READ(mapping, host);

	if (!slot || !inode)
		return;
	slot->key = file_key(inode, 0);
	slot->pid = current_pid();
}

/* Newer kernels only; without it a fault is known by the pages that the task itself adds. */
SEC("?tp_btf/mm_filemap_fault")
int BPF_PROG(on_fault, struct address_space *mapping)
{
	note_fault(mapping);
	return 0;
}

SEC("tp_btf/mm_filemap_add_to_page_cache")
int BPF_PROG(on_page, struct folio *folio)
{
	note_fault(bpf_core_type_exists(struct folio) ? BPF_CORE_READ(folio, mapping)
						       : BPF_CORE_READ((struct page *)folio, mapping));
	return 0;
}

static __always_inline bool works_on_file(u64 call)
{
	return call == sendfile_call || by_descriptor[call >> 3 & 63] >> (call & 7) & 1;
}

/* The key of the regular file that a call works on; 0 where it works on none. A wait for a local device's file ignores
 * signals, so an interruptible wait on a regular file means FUSE or NFS. Sockets and pipes are left out, since tasks
 * wait for them interruptibly, too. */
static __always_inline u64 served_file_key(struct task_struct *task, struct pt_regs *regs, u64 call)
{
	if (call >= NO_CALL || !works_on_file(call))
		return 0;
	struct file *file = file_of(task, call == sendfile_call ? SECOND(regs) : FIRST(regs));
	struct inode *inode = file ? BPF_CORE_READ(file, f_inode) : 0;

	if (!inode)
		return 0;
	u32 sort = BPF_CORE_READ(inode, i_mode) & S_IFMT;

	if (sort != S_IFREG && sort != S_IFDIR)
		return 0;
	return file_key(inode, BPF_CORE_READ(file, f_path.dentry));
}

static __always_inline int switched(bool preempted, struct task_struct *prev, u32 state)
{
	if (preempted || !(state & (TASK_INTERRUPTIBLE | TASK_UNINTERRUPTIBLE)) || !is_traced(prev->tgid))
		return 0;
	struct pt_regs *regs = registers_of(prev);
	u64 call = CALL(regs), key = 0;
	u32 zero = 0, flags = BPF_CORE_READ_BITFIELD((struct task_struct___io *)prev, in_iowait) ? WEIR_IO_WAIT : 0;

	if (!(state & TASK_UNINTERRUPTIBLE)) {
		key = served_file_key(prev, regs, call);
		if (key)
			emit_pair(WEIR_BPF_FILE_WAIT, WEIR_SERVED, (u32)prev->pid, key);
		return 0;
	}
	if (call >= NO_CALL) {
		struct faulted *slot = bpf_map_lookup_elem(&faults, &zero);

		flags |= WEIR_PAGE_FAULT;
		if (slot && slot->pid == prev->pid)
			key = slot->key;
	} else if (works_on_file(call)) {
		struct file *file = file_of(prev, call == sendfile_call ? SECOND(regs) : FIRST(regs));
		struct inode *inode = file ? BPF_CORE_READ(file, f_inode) : 0;

		if (inode)
			key = file_key(inode, BPF_CORE_READ(file, f_path.dentry));
	}
	emit_pair(WEIR_BPF_FILE_WAIT, flags, (u32)prev->pid, key);
	return 0;
}

SEC("tp_btf/sched_switch")
int BPF_PROG(on_switch, bool preempted, struct task_struct *prev, struct task_struct *next, unsigned int state)
{
	return switched(preempted, prev, state);
}

/* In place of the one above, before Linux 5.18. */
SEC("?tp_btf/sched_switch")
int BPF_PROG(on_switch_without_state, bool preempted, struct task_struct *prev)
{
	return switched(preempted, prev, preempted ? 0 : state_of_leaving(prev));
}

static __always_inline int issue(struct request *request)
{
	u64 key = (u64)request;
	struct issued issued = { .time = bpf_ktime_get_ns(), .pid = current_pid(), .bytes = request->__data_len };

	bpf_map_update_elem(&under_way, &key, &issued, 0);
	return 0;
}

SEC("tp_btf/block_rq_issue")
int BPF_PROG(on_issue, struct request *request)
{
	return issue(request);
}

/* In place of the one above, before Linux 5.11. */
SEC("?tp_btf/block_rq_issue")
int BPF_PROG(on_issue_of_queue, void *queue, struct request *request)
{
	return issue(request);
}

static __always_inline u32 device_of(struct request *request)
{
	if (!bpf_core_type_exists(struct hd_struct))
		return BPF_CORE_READ(request, part, bd_dev);
	struct request___before *before = (void *)request;

	return BPF_CORE_READ(before, rq_disk, major) << 20 |
	       (BPF_CORE_READ(before, rq_disk, first_minor) + BPF_CORE_READ(before, part, partno));
}

SEC("tp_btf/block_rq_complete")
int BPF_PROG(on_complete, struct request *request)
{
	u64 key = (u64)request;
	struct issued *issued = bpf_map_lookup_elem(&under_way, &key);

	if (!issued)
		return 0;
	u64 duration = bpf_ktime_get_ns() - issued->time;
	u32 operation = request->cmd_flags & 0xff;
	u32 device = device_of(request);

	if (duration >> 40)
		duration = (1ull << 40) - 1;
	emit_pair(WEIR_BPF_DISK_REQUEST, operation < 3 ? operation : WEIR_DISK_OTHER,
		  issued->pid | (u64)device << 32, duration | (u64)(issued->bytes >> 9) << 40);
	bpf_map_delete_elem(&under_way, &key);
	return 0;
}
