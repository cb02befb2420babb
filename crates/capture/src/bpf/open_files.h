/* From a task's descriptor to the file behind it. */
#pragma once
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

struct file;
#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct fdtable {
	unsigned int max_fds;
	struct file **fd;
};
struct files_struct {
	struct fdtable *fdt;
};
struct task_struct___files {
	struct files_struct *files;
};
#pragma clang attribute pop

/* The file behind a descriptor of a task, or null. */
static __always_inline struct file *file_of(struct task_struct *task, u32 descriptor)
{
	struct files_struct *files = BPF_CORE_READ((struct task_struct___files *)task, files);
	struct fdtable *table = BPF_CORE_READ(files, fdt);
	struct file **slots = BPF_CORE_READ(table, fd), *file = 0;

	if (!slots || descriptor >= BPF_CORE_READ(table, max_fds))
		return 0;
	bpf_probe_read_kernel(&file, sizeof(file), slots + descriptor);
	return file;
}
