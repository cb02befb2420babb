/* Sampled stacks: of tasks that have a CPU by a clock's interrupt, of blocked ones by looking at all tasks.
 *
 * The user's stack is copied, not walked: most servers are compiled without frame pointers, so that it takes their
 * unwind tables to walk it. A blocked task's stack stands still: there the registers are enough. */
#include "targets.h"
#include "samples.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>

char LICENSE[] SEC("license") = "Dual MIT/GPL";

enum { BPF_MAP_TYPE_HASH = 1, BPF_MAP_TYPE_PERCPU_ARRAY = 6, BPF_MAP_TYPE_LRU_HASH = 9, BPF_MAP_TYPE_RINGBUF = 27 };
#define BPF_ANY 0
#define BPF_RB_NO_WAKEUP 1
#define PAGE_BYTES 4096

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct sched_info___weir {
	unsigned long pcount;
};
struct task_struct___weir {
	unsigned int __state;
	unsigned int flags;
	struct mm_struct *mm;
	struct sched_info___weir sched_info;
};
struct seq_file;
struct bpf_iter_meta___weir {
	struct seq_file *seq;
};
#pragma clang attribute pop

/* The context of a program of a performance event begins with the registers of whom it interrupted. */
#if defined(__TARGET_ARCH_x86)
struct interrupted {
	unsigned long r15, r14, r13, r12, bp, bx, r11, r10, r9, r8, ax, cx, dx, si, di, orig_ax, ip, cs, flags, sp, ss;
};
#define IS_USER(regs) (((regs)->cs & 3) == 3)
#define TAKE(to, regs) ((to)->ip = (regs)->ip, (to)->sp = (regs)->sp, (to)->fp = (regs)->bp, (to)->lr = 0)
#define user_registers pt_regs
#elif defined(__TARGET_ARCH_arm64)
struct interrupted {
	u64 regs[31];
	u64 sp;
	u64 pc;
	u64 pstate;
};
#define IS_USER(regs) (((regs)->pstate & 0xf) == 0)
#define TAKE(to, r) ((to)->ip = (r)->pc, (to)->sp = (r)->sp, (to)->fp = (r)->regs[29], (to)->lr = (r)->regs[30])
#define user_registers user_pt_regs
#endif

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 22); /* the sampler asks for what its CPUs need */
} samples SEC(".maps");

/* Thread groups that run an interpreter whose frames can be read. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, u32);
	__type(value, struct weir_php);
} interpreters SEC(".maps");

/* How often a task had had a CPU when its stack was last told. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1 << 16);
	__type(key, u32);
	__type(value, u64);
} told SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct weir_blocked);
} scratch SEC(".maps");

u64 dropped; /* samples of running tasks that found no room */
u64 fresh;   /* blocked tasks met that were not told yet */
u64 passed;  /* of these, those that were passed over, so that the look stays short */

/* Blocked tasks that are told at one look: walking a stack takes some 30 us. */
#define MOST_BLOCKED 32
u64 met;                /* fresh ones of this look */
u32 share = 0xffffffff; /* of fresh ones so many of 2^32 are told: about as many as may be, if it goes on as before */

struct walk {
	struct weir_php at;
	u64 frame;
	u32 pid;
	u32 count;
};

/* One function of PHP; returns 1 at the outermost. */
static long read_function(u32 step, struct walk *walk)
{
	struct weir_php *at = &walk->at;
	u64 function = 0, previous = 0, name = 0, scope = 0, text = 0;
	u8 kind = 0;

	if (!walk->frame || bpf_probe_read_user(&function, 8, (void *)(walk->frame + at->function)) ||
	    bpf_probe_read_user(&previous, 8, (void *)(walk->frame + at->previous)))
		return 1;
	walk->frame = previous;
	/* A frame without a function stands between the engine and what it calls. */
	if (!function || bpf_probe_read_user(&kind, 1, (void *)function))
		return 0;
	struct weir_php_frame *to = bpf_ringbuf_reserve(&samples, sizeof(*to), 0);

	if (!to)
		return 1;
	to->sort = WEIR_SAMPLE_PHP;
	to->pid = walk->pid;
	to->index = walk->count++;
	to->kind = kind;
	to->function[0] = to->scope[0] = to->file[0] = 0;
	to->line = 0;
	bpf_probe_read_user(&name, 8, (void *)(function + at->name));
	bpf_probe_read_user(&scope, 8, (void *)(function + at->scope));
	if (name)
		bpf_probe_read_user_str(to->function, sizeof(to->function), (void *)(name + at->text));
	if (scope && !bpf_probe_read_user(&text, 8, (void *)(scope + at->scope_name)) && text)
		bpf_probe_read_user_str(to->scope, sizeof(to->scope), (void *)(text + at->text));
	if (kind != 1) {
		text = 0;
		bpf_probe_read_user(&text, 8, (void *)(function + at->file));
		if (text)
			bpf_probe_read_user_str(to->file, sizeof(to->file), (void *)(text + at->text));
		bpf_probe_read_user(&to->line, 4, (void *)(function + at->line));
	}
	bpf_ringbuf_submit(to, BPF_RB_NO_WAKEUP);
	return 0;
}

static __always_inline void read_interpreter(u32 pid, const struct weir_php *at)
{
	struct walk walk = { .at = *at, .pid = pid };

	if (!bpf_probe_read_user(&walk.frame, 8, (void *)at->current) && walk.frame)
		bpf_loop(WEIR_PHP_FRAMES, read_function, &walk, 0);
}

SEC("perf_event")
int on_clock(struct interrupted *regs)
{
	struct task_struct *task = bpf_get_current_task_btf();
	u32 tgid = task->tgid, pid = task->pid;

	if (!pid || !is_traced(tgid))
		return 0;
	struct weir_sample *out = bpf_ringbuf_reserve(&samples, sizeof(*out), 0);

	if (!out) {
		__sync_fetch_and_add(&dropped, 1);
		return 0;
	}
	out->sort = WEIR_SAMPLE_CPU;
	out->pid = pid;
	out->tgid = tgid;
	out->time_ns = bpf_ktime_get_ns();
	if (IS_USER(regs)) {
		/* Volatile, so that the two branches' reads stay apart: the verifier wants a context's by fixed offsets. */
		volatile struct interrupted *now = regs;

		TAKE(&out->user, now);
	} else {
		struct user_registers *entered = (void *)bpf_task_pt_regs(task);

		TAKE(&out->user, entered);
	}
	long kernel_bytes = bpf_get_stack(regs, out->kernel, sizeof(out->kernel), 0);

	out->kernel_bytes = kernel_bytes > 0 ? kernel_bytes : 0;
	/* Page by page, as the copy must not wait for one that is not there: all up to it is kept. The first piece ends
	 * where its page does, and its offset in `stack` makes the others' begins whole pages. */
	u64 sp = out->user.sp, bytes = 0;
	u64 first = PAGE_BYTES - (sp & (PAGE_BYTES - 1));

	if (first <= PAGE_BYTES && !bpf_probe_read_user(out->stack, first, (void *)sp)) {
		bytes = first;
		for (u32 page = 1; page < WEIR_STACK_BYTES / PAGE_BYTES; page++) {
			u64 at = bytes;

			if (at > WEIR_STACK_BYTES - PAGE_BYTES ||
			    bpf_probe_read_user(out->stack + at, PAGE_BYTES, (void *)(sp + at)))
				break;
			bytes = at + PAGE_BYTES;
		}
	}
	out->stack_bytes = bytes;
	bpf_ringbuf_submit(out, BPF_RB_NO_WAKEUP);
	struct weir_php *interpreter = bpf_map_lookup_elem(&interpreters, &tgid);

	if (interpreter)
		read_interpreter(pid, interpreter);
	return 0;
}

SEC("iter/task")
int blocked(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;

	if (!task) {
		/* All tasks were looked at. */
		share = met > MOST_BLOCKED ? ((u64)MOST_BLOCKED << 32) / met : 0xffffffff;
		met = 0;
		return 0;
	}
	if (!is_traced(task->tgid))
		return 0;
	struct task_struct___weir *more = (void *)task;
	struct bpf_iter_meta___weir *meta = (void *)ctx->meta;

	/* Interruptible or not, as one waits for something; 0 is running, higher bits are stopped and dead. */
	if (!(more->__state & 3) || !more->mm)
		return 0;
	u32 pid = task->pid, zero = 0;
	u64 runs = more->sched_info.pcount;
	u64 *last = bpf_map_lookup_elem(&told, &pid);

	if (last && *last == runs)
		return 0;
	fresh++;
	met++;
	if (bpf_get_prandom_u32() > share) {
		passed++;
		return 0;
	}
	bpf_map_update_elem(&told, &pid, &runs, BPF_ANY);
	struct weir_blocked *out = bpf_map_lookup_elem(&scratch, &zero);

	if (!out)
		return 0;
	out->pid = pid;
	out->tgid = task->tgid;
	out->time_ns = bpf_ktime_get_ns();
	out->runs = runs;
	struct user_registers *entered = (void *)bpf_task_pt_regs(task);

	TAKE(&out->user, entered);
	long kernel_bytes = bpf_get_task_stack(task, out->kernel, sizeof(out->kernel), 0);

	out->kernel_bytes = kernel_bytes > 0 ? kernel_bytes : 0;
	bpf_seq_write(meta->seq, out, sizeof(*out));
	return 0;
}
