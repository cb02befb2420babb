/* Numbers of tasks: the host's beside that which the reader's pid namespace gives. Tasks that are not in it are not
 * listed. */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

char LICENSE[] SEC("license") = "Dual MIT/GPL";

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct pid_namespace;
struct upid {
	int nr;
	struct pid_namespace *ns;
};
/* One number for each level of namespaces, the host's first. */
struct pid {
	unsigned int level;
	struct upid numbers[1];
};
struct task_struct___numbered {
	int pid;
	struct pid *thread_pid;
};
struct seq_file;
struct bpf_iter_meta___read {
	struct seq_file *seq;
};
#pragma clang attribute pop

SEC("iter/task")
int list_numbers(struct bpf_iter__task *ctx)
{
	struct task_struct___numbered *task = (void *)ctx->task, *reader = (void *)bpf_get_current_task();
	struct bpf_iter_meta___read *meta = (void *)ctx->meta;
	u32 pair[2] = {};

	if (!task)
		return 0;
	u32 level = BPF_CORE_READ(reader, thread_pid, level);
	struct pid *numbered = BPF_CORE_READ(task, thread_pid);

	/* One that has ended has none. */
	if (!numbered || BPF_CORE_READ(numbered, level) < level)
		return 0;
	pair[0] = task->pid;
	bpf_probe_read_kernel(&pair[1], sizeof(pair[1]),
			      (char *)&numbered->numbers[0].nr + level * bpf_core_type_size(struct upid));
	bpf_seq_write(meta->seq, pair, sizeof(pair));
	return 0;
}
