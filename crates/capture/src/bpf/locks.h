/* What locks.bpf.c and the collector agree on. */
#pragma once

/* Sub-code of WEIR_BPF_LOCK_WAIT: what sort of lock. */
enum weir_lock_sort {
	WEIR_LOCK_FUTEX = 1,       /* key: its address in the task's memory */
	WEIR_LOCK_FLOCK = 2,       /* key: the file's */
	WEIR_LOCK_FCNTL = 3,       /* key: the file's */
	WEIR_LOCK_MUTEX = 4,       /* of the kernel; key: where in the kernel it was asked for */
	WEIR_LOCK_RWSEM = 5,       /* the same */
	WEIR_LOCK_ADDRESS_SPACE = 6, /* the kernel's lock of a process's memory map */
	WEIR_LOCK_KERNEL = 7,      /* another of the kernel's */
};
