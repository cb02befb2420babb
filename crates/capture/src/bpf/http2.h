/* HTTP/2 followed from frame to frame, over the bytes that a server takes and gives.
 *
 * Of each frame its head is told, and of heads of requests and responses their bytes as well; all other content is passed
 * over without being read. Where the bytes cannot be seen, or make no frame, the connection is followed no further in
 * that direction, and that is told: nothing is guessed. */
#pragma once
#include "kernel.h"
#include "ring.h"
#include <bpf/bpf_helpers.h>

#define FRAME_HEAD_BYTES 9
#define PREFACE_BYTES 24
/* Steps over the bytes of one call; of a call that needs more the rest is not seen. */
#define MOST_STEPS 4096
/* Bytes of a head that a step tells. */
#define CHUNK_BYTES 56
/* Pieces that a call gives or takes its bytes in. */
#define MOST_VECTORS 1024
/* The largest frame that a server takes unless it says otherwise (RFC 9113 6.5.2). */
#define USUAL_FRAME_BYTES 16384

/* Types of frames, as in weir_wire::stream; the last six are none. */
enum { FRAME_DATA = 0, FRAME_HEADERS = 1, FRAME_RESET = 3, FRAME_SETTINGS = 4, FRAME_PUSH = 5, FRAME_PING = 6,
       FRAME_WINDOW = 8, FRAME_CONTINUATION = 9, FRAME_WEBSOCKET = 10,
       FRAME_OTHER = 11, STREAM_END = 12, FRAME_EVENT = 13, REQUEST_LINE = 14,
       FLOW_LOST = 15, FRAME_PREFACE = 16 /* which is not told */ };
#define END_STREAM 1
#define FRAME_CONTROL 0x40
/* The longest frame that a ping, a pong or the close of a WebSocket fills: its head with a mask, and its content. */
#define CONTROL_BYTES_MAX (2 + 4 + 125)
/* Flags of a frame's event, as in weir_wire::stream. */
#define FRAME_SENT 16
#define FRAME_TLS 32
#define FRAME_MORE 64
#define FRAME_OLDER 128
/* Of a flow alone: its connection was upgraded, and carries frames of a WebSocket (RFC 6455). */
#define FLOW_WEBSOCKET 256

/* One direction of a connection. */
struct way {
	u64 time;  /* of the last event of a frame */
	u32 left;  /* bytes of the frame still to come */
	u32 stream;
	u32 begin; /* the position of the frame's first byte */
	u8 have;   /* bytes of the next frame's head */
	u8 type;
	u8 flags;
	u8 lost;
	u8 unsure; /* an older connection's: where a frame begins is not known yet */
	u8 head[32]; /* nine are used; as many as the verifier can be told of */
};

struct flow {
	u32 number;
	u32 flags; /* FRAME_TLS, FRAME_OLDER */
	struct way ways[2]; /* what is taken, what is given */
};

/* Where the bytes of a call are: at one place, or in several pieces. */
struct bytes {
	u64 place;   /* 0 = they cannot be seen */
	u64 vectors; /* struct iovec: place and length of each further piece */
	u32 pieces;
	u32 here;     /* bytes at this place */
	u32 total;    /* bytes at all places */
	u32 position; /* of the next byte, as TCP counts */
};

static __always_inline bool carries_head(u32 type)
{
	return type == FRAME_HEADERS || type == FRAME_CONTINUATION || type == FRAME_PUSH;
}

static __always_inline void tell_frame(struct flow *flow, struct way *way, u32 flags, u32 length)
{
	struct largest_ring *ring = own_ring();

	if (!ring)
		return;
	u64 at = reserve(ring, 4);
	u32 sub = (way->type & 15) | flags | flow->flags;

	way->time = bpf_ktime_get_ns();
	put(ring, at, head_of(way->time, WEIR_BPF_STREAM_FRAME, sub), flow->number | (u64)way->stream << 32);
	put(ring, at + 2, head_of(way->time, WEIR_BPF_STREAM_FRAME, sub | WEIR_SECOND),
	    way->begin | (u64)(length & 0xffffff) << 32 | (u64)way->flags << 56);
}

/* The connection is followed no further in this direction. */
static __always_inline void lose(struct flow *flow, struct way *way, u32 flags)
{
	way->lost = 1;
	way->type = FLOW_LOST;
	tell_frame(flow, way, flags, 0);
}

/* Bytes that follow an event of this time, at most CHUNK_BYTES of them. */
static __always_inline bool tell_words(u32 kind, u64 time, u64 place, u32 length)
{
	struct largest_ring *ring = own_ring();
	u64 words[8] = {};

	barrier_var(length); /* so that the compiler leaves the comparison that the verifier needs */
	if (!ring || length > CHUNK_BYTES || bpf_probe_read_user(words, length, (void *)place))
		return 0;
	u64 at = reserve(ring, 2 * ((length + 7) / 8));

	for (u32 index = 0; index < CHUNK_BYTES / 8; index++) {
		if (8 * index >= length)
			break;
		u32 bytes = length - 8 * index;

		put(ring, at + 2 * index, head_of(time, kind, bytes < 8 ? bytes : 8), words[index]);
	}
	return 1;
}

/* Bytes of a head, at most CHUNK_BYTES of them. */
static __always_inline bool tell_bytes(struct way *way, u64 place, u32 length)
{
	return tell_words(WEIR_BPF_STREAM_BYTES, way->time, place, length);
}

/* A frame has been given to its last byte: if it is its stream's last one, that is told. */
static __always_inline void end_frame(struct flow *flow, struct way *way, u32 flags)
{
	if (!(flags & FRAME_SENT) || !(way->flags & END_STREAM) || way->type > FRAME_HEADERS)
		return;
	way->type = STREAM_END;
	tell_frame(flow, way, flags, 0);
}

static __always_inline void pass(struct bytes *bytes, u32 length)
{
	bytes->place += bytes->place ? length : 0;
	bytes->here -= length;
	bytes->total -= length;
	bytes->position += length;
}

/* The next piece of a call's bytes; false where there is none that can be seen. */
static __always_inline bool next_piece(struct bytes *bytes)
{
	u64 vector[2];

	if (!bytes->pieces || bpf_probe_read_user(vector, sizeof(vector), (void *)bytes->vectors))
		return 0;
	bytes->pieces--;
	bytes->vectors += sizeof(vector);
	bytes->place = vector[0];
	bytes->here = vector[1] < bytes->total ? vector[1] : bytes->total;
	return 1;
}

/* Bytes of the head of a WebSocket's frame, of which the first two are there. */
static __always_inline u32 websocket_head(const u8 *head)
{
	u32 length = head[1] & 127;

	return 2 + (length == 126 ? 2 : length == 127 ? 8 : 0) + (head[1] >> 7 ? 4 : 0);
}

/* A step over the head of a WebSocket's frame: false where it is none. */
static __always_inline bool step_over_websocket(struct flow *flow, struct way *way, u32 flags, struct bytes *bytes)
{
	u32 have = way->have & 15, need = have < 2 ? 2 : websocket_head(way->head), here = bytes->here;
	u8 *head = way->head;

	if (have >= need || !bytes->place)
		return 0;
	u32 more = need - have;

	more = here < more ? here : more;
	if (have == 0)
		way->begin = bytes->position;
	if (more > 15 || bpf_probe_read_user(&way->head[have], more, (void *)bytes->place))
		return 0;
	pass(bytes, more);
	way->have = have + more;
	if (way->have < 2 || way->have < websocket_head(head))
		return 1;
	u32 length = head[1] & 127, opcode = head[0] & 15;

	if (length == 126)
		length = head[2] << 8 | head[3];
	else if (length == 127)
		length = head[2] | head[3] | head[4] | head[5] ? ~0u : (u32)head[6] << 24 | head[7] << 16 | head[8] << 8 | head[9];
	if (length == ~0u || opcode > 10 || (opcode > 2 && opcode < 8))
		return 0;
	way->have = 0;
	way->left = length;
	way->type = FRAME_WEBSOCKET;
	way->flags = head[0];
	way->stream = 0;
	tell_frame(flow, way, flags, length < 0xffffff ? length : 0xffffff);
	return 1;
}

/* Whether the content of a frame begins like a ping, a pong or the close of a WebSocket (RFC 6455 5.5): of a stream that
 * carries one (RFC 8441) these are no messages. */
static __always_inline bool begins_control(struct bytes *bytes)
{
	u64 place = bytes->here ? bytes->place : 0, vector[2];
	u8 first = 0;

	if (!place && bytes->pieces && !bpf_probe_read_user(vector, sizeof(vector), (void *)bytes->vectors))
		place = vector[0];
	return place && !bpf_probe_read_user(&first, sizeof(first), (void *)place) && (first & 0xf8) == 0x88 &&
	       (first & 7) <= 2;
}

/* A step over the bytes: false where they are lost. */
static __always_inline bool step_over(struct flow *flow, struct way *way, u32 flags, struct bytes *bytes)
{
	u32 here = bytes->here;

	if (!here)
		return next_piece(bytes);
	if (way->left) {
		u32 length = here < way->left ? here : way->left;

		if (carries_head(way->type)) {
			length = length < CHUNK_BYTES ? length : CHUNK_BYTES;
			if (!bytes->place || !tell_bytes(way, bytes->place, length))
				return 0;
		}
		way->left -= length;
		pass(bytes, length);
		if (!way->left)
			end_frame(flow, way, flags);
		return 1;
	}
	if (flow->flags & FLOW_WEBSOCKET)
		return step_over_websocket(flow, way, flags, bytes);
	u32 have = way->have & 15, more = FRAME_HEAD_BYTES - have;

	if (have >= FRAME_HEAD_BYTES || !bytes->place)
		return 0;
	more = here < more ? here : more;
	if (have == 0)
		way->begin = bytes->position;
	if (more > 15 || bpf_probe_read_user(&way->head[have], more, (void *)bytes->place))
		return 0;
	pass(bytes, more);
	way->have = have + more;
	if (way->have < FRAME_HEAD_BYTES)
		return 1;
	u8 *head = way->head;

	way->have = 0;
	way->left = head[0] << 16 | head[1] << 8 | head[2];
	way->type = head[3] <= FRAME_CONTINUATION ? head[3] : FRAME_OTHER;
	way->flags = head[4];
	way->stream = (head[5] & 0x7f) << 24 | head[6] << 16 | head[7] << 8 | head[8];
	/* Types up to 16 are known to be in use (PRIORITY_UPDATE); text, as of another protocol, has larger ones. */
	if (head[3] >= ' ' || way->left > 1 << 20)
		return 0;
	if (VERIFIES_LOOKS && way->type == FRAME_DATA && way->left > 1 && way->left <= CONTROL_BYTES_MAX) {
		way->flags &= ~FRAME_CONTROL;
		way->flags |= begins_control(bytes) ? FRAME_CONTROL : 0;
	}
	tell_frame(flow, way, flags, way->left);
	if (!way->left)
		end_frame(flow, way, flags);
	return 1;
}

/* Whether bytes can be the first of a frame on a connection under way: its type, length, flags and number of stream fit
 * together. Content can hardly do that by chance, and of a stream that is not known no frame changes anything. */
static __always_inline bool is_frame(const u8 *head, u32 bytes, u32 sent)
{
	u32 length = head[0] << 16 | head[1] << 8 | head[2], type = head[3], flags = head[4];
	u32 stream = head[5] << 24 | head[6] << 16 | head[7] << 8 | head[8];
	bool whole = bytes == FRAME_HEAD_BYTES + length || bytes >= 2 * FRAME_HEAD_BYTES + length;

	if (length > USUAL_FRAME_BYTES || stream >> 31)
		return 0;
	switch (type) {
	case FRAME_DATA:
		return sent && stream & 1 && !(flags & ~0x9);
	case FRAME_HEADERS:
		return (whole || sent) && stream & 1 && length && !(flags & ~0x2d);
	case FRAME_RESET:
		return whole && stream & 1 && length == 4 && !flags;
	case FRAME_SETTINGS:
		return whole && !stream && length % 6 == 0 && !(flags & ~1);
	case FRAME_PING:
		return whole && !stream && length == 8 && !(flags & ~1);
	case FRAME_WINDOW:
		return whole && length == 4 && !flags;
	}
	return 0;
}

/* Whether an older connection's bytes begin with a frame: from there on it is followed. */
static __always_inline bool find_frame(struct way *way, u32 sent, struct bytes *bytes)
{
	u8 head[16] = {};

	if (!bytes->here && !next_piece(bytes))
		return 0;
	if (bytes->here < FRAME_HEAD_BYTES || !bytes->place ||
	    bpf_probe_read_user(head, FRAME_HEAD_BYTES, (void *)bytes->place) || !is_frame(head, bytes->total, sent))
		return 0;
	way->unsure = 0;
	return 1;
}

/* What the steps of a call share. */
struct walk {
	struct flow *flow;
	struct bytes *bytes;
	u32 sent;
};

/* A step, as the kernel's loop calls it: 1 where there is no more to do. */
static __attribute__((noinline, unused)) long one_step(u64 index, struct walk *walk)
{
	struct bytes *bytes = walk->bytes;
	struct flow *flow = walk->flow;
	struct way *way = walk->sent ? &flow->ways[1] : &flow->ways[0];

	return !bytes->total || !step_over(flow, way, walk->sent ? FRAME_SENT : 0, bytes);
}

/* Follows a connection over the bytes of a call. A loop of the kernel's (bpf_loop, Linux 5.17), for its steps are checked
 * once, while those of a loop in C are checked each by itself: seconds at each start. A kernel without loses the
 * connection with its first bytes. */
static __attribute__((noinline, unused)) int follow(struct flow *flow, u32 sent, struct bytes *bytes)
{
	struct way *way = sent ? &flow->ways[1] : &flow->ways[0];
	u32 flags = sent ? FRAME_SENT : 0;

	if (way->lost || (way->unsure && !find_frame(way, sent, bytes)))
		return 0;
	if (way->left && carries_head(way->type))
		tell_frame(flow, way, flags | FRAME_MORE, way->left);
#ifndef WEIR_WITHOUT_FETCH
	struct walk walk = { flow, bytes, sent };

	if (KNOWS(loop))
		bpf_loop(MOST_STEPS, one_step, &walk, 0);
#endif
	if (bytes->total)
		lose(flow, way, flags);
	return 0;
}

/* Whether bytes begin with the preface of HTTP/2: "PRI * HTTP/2.0\r\n". */
static __always_inline bool is_preface(const u64 *text)
{
	return text[0] == 0x5448202a20495250 && text[1] == 0x0a0d302e322f5054;
}

/* Whether bytes begin like the response by which a connection is upgraded: "HTTP/1.1 101". */
static __always_inline bool is_upgrade(const u64 *text)
{
	return text[0] == 0x312e312f50545448 && (u32)text[1] == 0x31303120;
}

/* Whether a call gives the head of such a response and nothing behind it. */
static __always_inline bool gives_upgrade(struct bytes *bytes)
{
	u64 text[2] = {};
	u32 end = 0, length = bytes->total;

	if (!bytes->here && !next_piece(bytes))
		return 0;
	if (!bytes->place || bytes->here != length || length < 2 * sizeof(text) ||
	    bpf_probe_read_user(text, sizeof(text), (void *)bytes->place) || !is_upgrade(text))
		return 0;
	return !bpf_probe_read_user(&end, sizeof(end), (void *)(bytes->place + length - sizeof(end))) && end == 0x0a0d0a0d;
}

/* Tells that a connection was upgraded, of which no frame has come yet. */
static __always_inline void tell_upgrade(struct flow *flow)
{
	flow->ways[1].type = FRAME_WEBSOCKET;
	tell_frame(flow, &flow->ways[1], FRAME_SENT, 0);
}

/* The first bytes of what a call gives, of its first pieces; behind them is as much room again. */
#define BEGIN_BYTES 24
#define BEGIN_PIECES 4

static __always_inline void read_begin(struct bytes *bytes, u8 *text)
{
	u32 have = 0;

#pragma unroll
	for (u32 piece = 0; piece < BEGIN_PIECES; piece++) {
		if (have >= BEGIN_BYTES || (!bytes->here && !next_piece(bytes)) || !bytes->place)
			return;
		u32 take = bytes->here < BEGIN_BYTES - have ? bytes->here : BEGIN_BYTES - have;

		/* So that the compiler leaves the comparisons that the verifier needs. */
		barrier_var(take);
		barrier_var(have);
		if (take > BEGIN_BYTES || have > BEGIN_BYTES || bpf_probe_read_user(&text[have], take, (void *)bytes->place))
			return;
		pass(bytes, take);
		have += take;
	}
}

/* Whether text begins like an event, of text/event-stream: a field's name and its colon. */
static __always_inline bool is_event(const u8 *text)
{
	u64 first;

	__builtin_memcpy(&first, text, sizeof(first));
	return (first & 0xffffffffff) == 0x3a61746164 /* data: */ || (first & 0xffffff) == 0x3a6469 /* id: */ ||
	       (first & 0xffffffffffff) == 0x3a746e657665 /* event: */ ||
	       (first & 0xffffffffffff) == 0x3a7972746572 /* retry: */;
}

/* Whether what a call gives begins with an event, by itself or as a chunk (RFC 9112 7.1). Nothing behind its first field's
 * name is looked at. */
static __always_inline bool gives_event(struct bytes *bytes)
{
	u8 text[2 * BEGIN_BYTES] = {};

	read_begin(bytes, text);
	if (is_event(text))
		return 1;
	/* The line before a chunk: its length in hexadecimal digits. */
#pragma unroll
	for (u32 index = 0; index < 8; index++) {
		u8 one = text[index];

		if (one == '\r')
			return index && text[index + 1] == '\n' && is_event(text + index + 2);
		if (!(one >= '0' && one <= '9') && !((one | 32) >= 'a' && (one | 32) <= 'f'))
			return 0;
	}
	return 0;
}

/* Tells that an event is given over HTTP/1.1, by what carries its connection. */
static __always_inline void tell_event(u32 number, u32 flags, u32 length)
{
	struct flow flow = { .number = number, .flags = flags };

	flow.ways[1].type = FRAME_EVENT;
	tell_frame(&flow, &flow.ways[1], FRAME_SENT, length < 0xffffff ? length : 0xffffff);
}
