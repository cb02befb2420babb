/* What the BPF programs and the collector agree on. The collector's copy is checked by its layout test. */
#pragma once

/* Sub-codes of WEIR_BPF_SOCKET_OPEN: one event carries 64 bits, so an opening takes four or six in a row. */
enum weir_open_piece {
	WEIR_OPEN_BASES = 0,    /* socket | receive_base << 32 */
	WEIR_OPEN_PORTS = 1,    /* send_base | local port << 32 | remote port << 48 */
	WEIR_OPEN_IDENTITY = 2, /* cookie's high half | network namespace << 32 */
	WEIR_OPEN_IPV4 = 3,     /* local | remote << 32, network byte order */
	WEIR_OPEN_LOCAL_HIGH = 4,
	WEIR_OPEN_LOCAL_LOW = 5,
	WEIR_OPEN_REMOTE_HIGH = 6,
	WEIR_OPEN_REMOTE_LOW = 7,
};

/* Flags of a socket event's sub-code, as in weir_wire::socket. */
#define WEIR_NOT_ACCEPTED 1
#define WEIR_END_OF_STREAM 1
#define WEIR_ERROR 2
#define WEIR_PEEK 4
#define WEIR_NO_POSITION 8
#define WEIR_HTTP2 16
#define WEIR_TLS 32
#define WEIR_HELD_BACK 16
#define WEIR_ACCEPTED 1

/* Flags of a wake-up's sub-code, as in weir_wire::task. */
#define WEIR_BY_INTERRUPT 1
#define WEIR_IN_SOFT_INTERRUPT 2
#define WEIR_CONTEXT_TOLD 4
#define WEIR_WAS_FROZEN 8

/* A bit of a task's state beside the kernel's lowest four: it is frozen, by a cgroup's freezer or the system's. */
#define WEIR_STATE_FROZEN 16
/* Which bits of the kernel's state an event has room for. */
#define WEIR_STATE_BITS 15

/* Pieces of a WEIR_BPF_TASK_NAME: pid | tgid << 32, the name's first eight characters, its last eight. */
enum weir_name_piece {
	WEIR_NAME_TASK = 0,
	WEIR_NAME_BEGIN = 1,
	WEIR_NAME_END = 2,
};

#define WEIR_NO_SYSCALL 0x1ff
