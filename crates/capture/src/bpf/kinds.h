/* Made from the table of kinds in crates/wire/src/kinds.rs; do not edit.
 * The 16-byte form: word 0 = time_ns << 20 | sub << 6 | kind, word 1 = argument. */
#pragma once

enum weir_bpf_kind {
	WEIR_BPF_SCHED_SWITCH = 1,
	WEIR_BPF_SCHED_WAKING = 2,
	WEIR_BPF_FORK = 3,
	WEIR_BPF_EXEC = 4,
	WEIR_BPF_EXIT = 5,
	WEIR_BPF_NAMED = 18,
	WEIR_BPF_DISK_REQUEST = 12,
	WEIR_BPF_FILE_WAIT = 13,
	WEIR_BPF_LOCK_WAIT = 14,
	WEIR_BPF_LOCK_END = 15,
	WEIR_BPF_INTERRUPT = 16,
	WEIR_BPF_TIMER_WAKEUP = 17,
	WEIR_BPF_SOCKET_READY = 6,
	WEIR_BPF_SOCKET_RECV = 7,
	WEIR_BPF_SOCKET_SEND = 8,
	WEIR_BPF_SOCKET_STATE = 9,
	WEIR_BPF_SOCKET_OPEN = 10,
	WEIR_BPF_LISTEN_READY = 11,
	WEIR_BPF_SOCKET_PEER = 20,
	WEIR_BPF_PROBE_HIT = 24,
	WEIR_BPF_PROBE_TEXT = 25,
};
