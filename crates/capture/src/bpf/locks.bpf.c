/* Locks, by option: which lock a task of the server waits for, and who holds it where that can be known. */
#include "kernel.h"
#include "locks.h"
#include "registers.h"
#include "ring.h"
#include "targets.h"
#include "files.h"
#include <bpf/bpf_tracing.h>

char LICENSE[] SEC("license") = "Dual MIT/GPL";

enum { BPF_MAP_TYPE_PERCPU_ARRAY = 6 };

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
typedef struct {
	long counter;
} atomic_long_t;
struct mutex {
	atomic_long_t owner;
};
struct rw_semaphore {
	atomic_long_t owner;
};
struct mm_struct {
	struct rw_semaphore mmap_lock;
};
struct task_struct___mm {
	struct mm_struct *mm;
};
struct file_lock_core {
	struct file_lock_core *flc_blocker;
	int flc_pid;
	struct file *flc_file;
};
struct file_lock {
	struct file_lock_core c;
};
/* Before Linux 6.9. */
struct file_lock___old {
	struct file_lock___old *fl_blocker;
	unsigned int fl_pid;
	struct file *fl_file;
};
#pragma clang attribute pop

/* Where the kernel's code of locks and of the scheduler lies: its caller asks for the lock. 0 = not known. */
const volatile u64 lock_text[2];
const volatile u64 sched_text[2];
const volatile u32 futex_call = 0x1ff;

#define LCB_F_SPIN 1
#define LCB_F_READ 2
#define LCB_F_WRITE 4
#define LCB_F_RT 8
#define LCB_F_PERCPU 16
#define LCB_F_MUTEX 32
#define FILE_LOCK_DEFERRED 1
#define FUTEX_COMMAND 0x7f
#define FUTEX_WAIT 0
#define FUTEX_LOCK_PI 6
#define FUTEX_LOCK_PI2 13
#define FUTEX_WAITERS 0x80000000u
#define FUTEX_TID_MASK 0x3fffffffu

static __always_inline void tell(u32 sort, u32 pid, u32 holder, u64 key)
{
	emit_pair(WEIR_BPF_LOCK_WAIT, sort, pid | (u64)holder << 32, key);
}

/* Who holds a futex, where the library's mutex says so: for a priority-inheriting or robust one the word itself is the
 * holder, and glibc's plain mutex (its word is 2 while a thread waits) keeps the holder 8 bytes on. */
static __always_inline u32 futex_holder(u64 address, u64 operation)
{
	u32 words[3] = {};
	u32 command = operation & FUTEX_COMMAND;

	if (command != FUTEX_WAIT && command != FUTEX_LOCK_PI && command != FUTEX_LOCK_PI2)
		return 0;
	if (bpf_probe_read_user(words, sizeof(words), (void *)address))
		return 0;
	if (command != FUTEX_WAIT || words[0] & FUTEX_WAITERS)
		return words[0] & FUTEX_TID_MASK;
	return words[0] == 2 ? words[2] : 0;
}

static __always_inline int switched(bool preempted, struct task_struct *prev, u32 state)
{
	if (preempted || !state || !is_traced(prev->tgid))
		return 0;
	struct pt_regs *regs = registers_of(prev);

	if (CALL(regs) != futex_call)
		return 0;
	tell(WEIR_LOCK_FUTEX, prev->pid, futex_holder(FIRST(regs), SECOND(regs)), FIRST(regs));
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

/* Waiters in front of a waiter that are passed by on the way to the lock's holder. */
#define MOST_IN_FRONT 64

/* The lock that stands at the root: a waiter's blocker may be a waiter itself, which has nothing yet. */
static __always_inline struct file_lock_core *root(struct file_lock_core *blocker)
{
	for (int index = 0; blocker && index < MOST_IN_FRONT; index++) {
		struct file_lock_core *next = BPF_CORE_READ(blocker, flc_blocker);

		if (!next)
			return blocker;
		blocker = next;
	}
	return 0;
}

static __always_inline struct file_lock___old *root_before_6_9(struct file_lock___old *blocker)
{
	for (int index = 0; blocker && index < MOST_IN_FRONT; index++) {
		struct file_lock___old *next = BPF_CORE_READ(blocker, fl_blocker);

		if (!next)
			return blocker;
		blocker = next;
	}
	return 0;
}

static __always_inline void file_lock_wait(u32 sort, struct inode *inode, struct file_lock *lock, int result)
{
	struct file *file;
	u32 holder = 0;

	if (result != FILE_LOCK_DEFERRED || !lock || !is_traced(current_tgid()))
		return;
	if (bpf_core_field_exists(lock->c)) {
		struct file_lock_core *blocker = root(BPF_CORE_READ(lock, c.flc_blocker));

		file = BPF_CORE_READ(lock, c.flc_file);
		holder = blocker ? BPF_CORE_READ(blocker, flc_pid) : 0;
	} else {
		struct file_lock___old *old = (void *)lock, *blocker = root_before_6_9(BPF_CORE_READ(old, fl_blocker));

		file = BPF_CORE_READ(old, fl_file);
		holder = blocker ? BPF_CORE_READ(blocker, fl_pid) : 0;
	}
	/* A lock of an open file description belongs to no process. */
	if (holder > MOST_PIDS)
		holder = 0;
	tell(sort, current_pid(), holder, file_key(inode, file ? BPF_CORE_READ(file, f_path.dentry) : 0));
}

SEC("tp_btf/flock_lock_inode")
int BPF_PROG(on_flock, struct inode *inode, struct file_lock *lock, int result)
{
	file_lock_wait(WEIR_LOCK_FLOCK, inode, lock, result);
	return 0;
}

SEC("tp_btf/posix_lock_inode")
int BPF_PROG(on_posix_lock, struct inode *inode, struct file_lock *lock, int result)
{
	file_lock_wait(WEIR_LOCK_FCNTL, inode, lock, result);
	return 0;
}

#define FRAMES 16
struct frames {
	u64 at[FRAMES];
};
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct frames);
} stacks SEC(".maps");

static __always_inline bool within(const volatile u64 *range, u64 address)
{
	return address >= range[0] && address < range[1];
}

/* The code that asked for a lock of the kernel: the first caller outside of the code of locks. */
static __always_inline u64 asker(void *ctx)
{
	u32 zero = 0;
	struct frames *frames = bpf_map_lookup_elem(&stacks, &zero);
	bool in_lock = 0;

	if (!frames || !lock_text[1])
		return 0;
	long bytes = bpf_get_stack(ctx, frames->at, sizeof(frames->at), 0);

	for (int index = 0; index < FRAMES; index++) {
		if ((index + 1) * 8 > bytes)
			break;
		u64 address = frames->at[index];
		bool lock = within(lock_text, address) || within(sched_text, address);

		if (in_lock && !lock)
			return address;
		in_lock |= lock;
	}
	return 0;
}

SEC("tp_btf/contention_begin")
int BPF_PROG(on_contention, void *lock, unsigned int flags)
{
	struct task_struct *task = bpf_get_current_task_btf();
	u32 holder = 0, sort = WEIR_LOCK_KERNEL;

	/* Who spins has the CPU. */
	if (flags & LCB_F_SPIN || !is_traced(task->tgid))
		return 0;
	if (flags & LCB_F_MUTEX)
		sort = WEIR_LOCK_MUTEX;
	else if (!(flags & (LCB_F_RT | LCB_F_PERCPU)) && flags & (LCB_F_READ | LCB_F_WRITE))
		sort = WEIR_LOCK_RWSEM;
	if (sort != WEIR_LOCK_KERNEL) {
		/* The low three bits are flags; for a semaphore held by readers the lowest is set, and the task only a hint. */
		u64 owner = sort == WEIR_LOCK_MUTEX ? BPF_CORE_READ((struct mutex *)lock, owner.counter)
						    : BPF_CORE_READ((struct rw_semaphore *)lock, owner.counter);
		struct task_struct *by = (void *)(owner & ~7ull);

		if (by && !(sort == WEIR_LOCK_RWSEM && owner & 1))
			holder = BPF_CORE_READ(by, pid);
	}
	struct mm_struct *memory = BPF_CORE_READ((struct task_struct___mm *)task, mm);

	if (sort == WEIR_LOCK_RWSEM && memory && lock == &memory->mmap_lock)
		sort = WEIR_LOCK_ADDRESS_SPACE;
	tell(sort, task->pid, holder, asker(ctx));
	return 0;
}

SEC("tp_btf/contention_end")
int BPF_PROG(on_contention_end)
{
	struct task_struct *task = bpf_get_current_task_btf();

	if (is_traced(task->tgid))
		emit(WEIR_BPF_LOCK_END, 0, (u32)task->pid);
	return 0;
}
