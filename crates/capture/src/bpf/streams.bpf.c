/* What passes through a TLS library, before it is sealed and after it is opened: the frames of HTTP/2, and the first lines
 * of requests of HTTP/1.1. One hit for each record of TLS, in each direction. */
#include "kernel.h"
#include "ring.h"
#include "targets.h"
#include "http2.h"
#include "streams.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

char LICENSE[] SEC("license") = "Dual MIT/GPL";

#define MOST_FLOWS 16384
#define APPLICATION_DATA 23
/* Of the first line of a request: a longer one is cut. */
#define LINE_BYTES 448
/* Of a request's head, where reading heads was allowed. */
#define MOST_LINE_CHUNKS 18

/* So many chunks of CHUNK_BYTES are told of a request of HTTP/1.1. */
const volatile u32 line_chunks = LINE_BYTES / CHUNK_BYTES;

/* A connection of the library, by its place in a process. */
struct place {
	u64 connection;
	u64 tgid;
};

/* The oldest ones give way: a connection that was forgotten is met again like one that is older than the recording. */
struct {
	__uint(type, 9 /* BPF_MAP_TYPE_LRU_HASH */);
	__uint(max_entries, MOST_FLOWS);
	__type(key, struct place);
	__type(value, struct flow);
} flows SEC(".maps");

u32 numbers; /* of flows, given so far */

/* Whether bytes begin like a request of HTTP/1.1. */
static __always_inline bool is_request(u64 text)
{
	u32 four = text;

	return four == 0x20544547 /* GET */ || four == 0x54534f50 /* POST */ || four == 0x44414548 /* HEAD */ ||
	       four == 0x20545550 /* PUT */ || four == 0x454c4544 /* DELE(TE) */ || four == 0x4954504f /* OPTI(ONS) */ ||
	       four == 0x43544150 /* PATC(H) */;
}

static __always_inline void tell_line(u64 place, u32 length)
{
	struct flow flow = { .flags = FRAME_TLS };
	struct way *way = &flow.ways[0];

	way->type = REQUEST_LINE;
	length = length < line_chunks * CHUNK_BYTES ? length : line_chunks * CHUNK_BYTES;
	tell_frame(&flow, way, 0, length);
	for (u32 chunk = 0; chunk < MOST_LINE_CHUNKS && chunk < line_chunks && length; chunk++) {
		u32 bytes = length < CHUNK_BYTES ? length : CHUNK_BYTES;

		if (!tell_bytes(way, place, bytes))
			return;
		place += bytes;
		length -= bytes;
	}
}

/* A flow for a connection that is met for the first time, or begins anew. */
static __always_inline struct flow *begin(const struct place *place, u32 flags)
{
	struct flow fresh = { .flags = FRAME_TLS | flags };

	fresh.number = __sync_fetch_and_add(&numbers, 1);
	if (!(flags & (FRAME_OLDER | FLOW_WEBSOCKET))) {
		fresh.ways[0].left = PREFACE_BYTES;
		fresh.ways[0].type = FRAME_PREFACE;
	}
	fresh.ways[1].unsure = !!(flags & FRAME_OLDER);
	bpf_map_update_elem(&flows, place, &fresh, 0);
	return bpf_map_lookup_elem(&flows, place);
}

/* A record of a client's was opened: `bytes` of it are handed to the server. */
static __always_inline void opened(const struct place *place, struct bytes *bytes)
{
	struct flow *flow = bpf_map_lookup_elem(&flows, place);
	u64 text[3] = {};

	/* At a frame's beginning only: what is within one is the client's own content. */
	bool between = !flow || flow->ways[0].lost || (!flow->ways[0].left && !flow->ways[0].have);
	u32 known = bytes->total < sizeof(text) ? bytes->total : sizeof(text);

	if (known < sizeof(text) && known < FRAME_HEAD_BYTES && !flow)
		return;
	barrier_var(known); /* so that the compiler leaves the comparison that the verifier needs */
	if (known > sizeof(text) || bpf_probe_read_user(text, known, (void *)bytes->place))
		return;
	/* The place may be a new connection's. */
	if (known == sizeof(text) && is_preface(text))
		flow = begin(place, 0);
	else if (is_request(text[0]) && between) {
		if (flow)
			bpf_map_delete_elem(&flows, place);
		tell_line(bytes->place, bytes->total);
		return;
	} else if (!flow && is_frame((u8 *)text, bytes->total, 0))
		flow = begin(place, FRAME_OLDER);
	if (flow)
		follow(flow, 0, bytes);
}

/* The register that a site names. */
static __always_inline u64 named_register(struct pt_regs *ctx, u64 cookie)
{
	u64 value = 0;

	bpf_probe_read_kernel(&value, sizeof(value), (void *)ctx + (cookie >> WEIR_SITE_REGISTER & 31) * 8);
	return value;
}

/* Where OpenSSL hands over what it has opened: the connection, and the bytes. */
static __always_inline bool openssl_opens(struct pt_regs *ctx, u64 cookie, struct place *place, struct bytes *bytes)
{
	u64 record = named_register(ctx, cookie);
	u32 type = 0;

	/* Handshakes are handed over here, too; a record's type stands behind its version. */
	if (bpf_probe_read_user(&type, sizeof(type), (void *)(record + 4)) || type != APPLICATION_DATA)
		return 0;
	place->connection = record - (cookie >> WEIR_SITE_OFFSET);
	bytes->place = PT_REGS_PARM2(ctx);
	bytes->total = bytes->here = PT_REGS_PARM3(ctx);
	return 1;
}

/* The same from OpenSSL 3.2 on: a record's type is a byte behind its version, and it is the first of an array within the
 * connection. */
#define LAYER_RECORD_TYPE 12
static __always_inline bool layer_opens(struct pt_regs *ctx, u64 cookie, struct place *place, struct bytes *bytes)
{
	u64 record = named_register(ctx, cookie);
	u8 type = 0;

	if (bpf_probe_read_user(&type, sizeof(type), (void *)(record + LAYER_RECORD_TYPE)) || type != APPLICATION_DATA)
		return 0;
	place->connection = record - (cookie >> WEIR_SITE_OFFSET);
	bytes->place = PT_REGS_PARM2(ctx);
	bytes->total = bytes->here = PT_REGS_PARM3(ctx);
	return 1;
}

/* Where Go has read a record: what it holds stands in a reader of the connection's, if it was no handshake's. */
static __always_inline bool go_opens(struct pt_regs *ctx, u64 cookie, struct place *place, struct bytes *bytes)
{
	u64 reader[4] = {}; /* bytes, how many, room, how many were taken */

	place->connection = named_register(ctx, cookie);
	if (bpf_probe_read_user(reader, sizeof(reader), (void *)(place->connection + (cookie >> WEIR_SITE_OFFSET))))
		return 0;
	if (!reader[1] || reader[3])
		return 0;
	bytes->place = reader[0];
	bytes->total = bytes->here = reader[1];
	return 1;
}

/* Where our own server has opened bytes: its session, the bytes, their number. */
static __always_inline bool mark_opens(struct pt_regs *ctx, struct place *place, struct bytes *bytes)
{
	place->connection = PT_REGS_PARM1(ctx);
	bytes->place = PT_REGS_PARM2(ctx);
	bytes->total = bytes->here = PT_REGS_PARM3(ctx);
	return 1;
}

/* Where OpenSSL is given bytes: connection, type of the record, bytes, their lengths, how many lengths there are. */
static __always_inline bool openssl_seals(struct pt_regs *ctx, struct place *place, struct bytes *bytes)
{
	u64 length = 0;

	if ((u32)PT_REGS_PARM2(ctx) != APPLICATION_DATA ||
	    bpf_probe_read_user(&length, sizeof(length), (void *)PT_REGS_PARM4(ctx)))
		return 0;
	place->connection = PT_REGS_PARM1(ctx);
	/* Several records at once, as some processors offer: their lengths stand in a row, and only the first is read. */
	bytes->place = PT_REGS_PARM5(ctx) == 1 ? PT_REGS_PARM3(ctx) : 0;
	bytes->total = bytes->here = length;
	return 1;
}

/* The same from OpenSSL 3.2 on: records to be made of bytes (type, version, bytes, their number), how many. */
static __always_inline bool layer_seals(struct pt_regs *ctx, u64 cookie, struct place *place, struct bytes *bytes)
{
	u64 template[3] = {}, count = PT_REGS_PARM3(ctx);

	if (!count || bpf_probe_read_user(template, sizeof(template), (void *)PT_REGS_PARM2(ctx)) ||
	    (u8)template[0] != APPLICATION_DATA)
		return 0;
	place->connection = named_register(ctx, cookie);
	bytes->place = count == 1 ? template[1] : 0;
	bytes->total = bytes->here = template[2];
	return 1;
}

/* Where Go is given bytes, by its own order of registers. */
static __always_inline bool go_seals(struct pt_regs *ctx, struct place *place, struct bytes *bytes)
{
#if defined(__TARGET_ARCH_x86)
	if ((u8)ctx->bx != APPLICATION_DATA)
		return 0;
	place->connection = ctx->ax;
	bytes->place = ctx->cx;
	bytes->total = bytes->here = ctx->di;
	return 1;
#else
	return 0; /* no site is of this kind */
#endif
}

/* Where our own server is given bytes: its session, pieces of bytes, how many pieces, how many bytes were taken. */
static __always_inline bool mark_seals(struct pt_regs *ctx, struct place *place, struct bytes *bytes)
{
	place->connection = PT_REGS_PARM1(ctx);
	bytes->vectors = PT_REGS_PARM2(ctx);
	bytes->pieces = PT_REGS_PARM3(ctx);
	bytes->total = PT_REGS_PARM4(ctx);
	return 1;
}

/* Method and path of a request over HTTP/3: two pieces, each told in chunks. */
static __always_inline void tell_pieces(u64 time, const u64 *pieces)
{
	for (u32 piece = 0; piece < 2; piece++) {
		u64 place = pieces[2 * piece];
		u32 length = pieces[2 * piece + 1], most = piece ? LINE_BYTES : CHUNK_BYTES;

		length = length < most ? length : most;
		for (u32 chunk = 0; chunk < LINE_BYTES / CHUNK_BYTES && length; chunk++) {
			u32 bytes = length < CHUNK_BYTES ? length : CHUNK_BYTES;

			if (!tell_words(WEIR_BPF_STREAM_BYTES, time, place, bytes))
				return;
			place += bytes;
			length -= bytes;
		}
	}
}

/* Where our own server tells of HTTP/3: its connection, the stream, two numbers. */
static __always_inline void tell_quic(struct pt_regs *ctx, u32 what)
{
	u64 stream = PT_REGS_PARM2(ctx), third = PT_REGS_PARM3(ctx), fourth = PT_REGS_PARM4(ctx);
	struct largest_ring *ring = own_ring();
	u64 pieces[4] = {}, second = third | fourth << 16;

	if (!ring)
		return;
	if (what == WEIR_QUIC_REQUEST) {
		if (fourth != 2 || bpf_probe_read_user(pieces, sizeof(pieces), (void *)third))
			return;
		u32 method = pieces[1] < CHUNK_BYTES ? pieces[1] : CHUNK_BYTES;
		u32 path = pieces[3] < LINE_BYTES ? pieces[3] : LINE_BYTES;

		/* Which datagram brought it stands above the stream's number. */
		second = method | path << 16 | stream >> 32 << 32;
	}
	u64 time = bpf_ktime_get_ns();
	u64 at = reserve(ring, 4);

	put(ring, at, head_of(time, WEIR_BPF_QUIC, what), (u32)PT_REGS_PARM1(ctx) | stream << 32);
	put(ring, at + 2, head_of(time, WEIR_BPF_QUIC, what | WEIR_SECOND), second);
	if (what == WEIR_QUIC_REQUEST)
		tell_pieces(time, pieces);
}

static __always_inline int passed(struct pt_regs *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct bytes bytes = {};
	bool found = 0;

	/* The library is probed for everybody; others than the server's pay for the trap, and are not told. */
	if (!is_traced(task->tgid))
		return 0;
	u64 cookie = bpf_get_attach_cookie(ctx);
	u32 kind = cookie & WEIR_SITE_KIND;
	struct place place = { .tgid = task->tgid };

	if (kind == WEIR_MARK_QUIC) {
		tell_quic(ctx, cookie >> WEIR_SITE_OFFSET);
		return 0;
	}
	if (kind == WEIR_OPENSSL_OPENS)
		found = openssl_opens(ctx, cookie, &place, &bytes);
	else if (kind == WEIR_OPENSSL_SEALS)
		found = openssl_seals(ctx, &place, &bytes);
	else if (kind == WEIR_LAYER_OPENS)
		found = layer_opens(ctx, cookie, &place, &bytes);
	else if (kind == WEIR_LAYER_SEALS)
		found = layer_seals(ctx, cookie, &place, &bytes);
	else if (kind == WEIR_GO_OPENS)
		found = go_opens(ctx, cookie, &place, &bytes);
	else if (kind == WEIR_GO_SEALS)
		found = go_seals(ctx, &place, &bytes);
	else if (kind == WEIR_MARK_OPENS)
		found = mark_opens(ctx, &place, &bytes);
	else
		found = mark_seals(ctx, &place, &bytes);
	if (!found)
		return 0;
	if (kind & 1) {
		struct flow *flow = bpf_map_lookup_elem(&flows, &place);

		if (flow) {
			follow(flow, 1, &bytes);
			return 0;
		}
		u32 length = bytes.total;

		if (gives_upgrade(&bytes)) {
			flow = begin(&place, FLOW_WEBSOCKET);
			if (flow)
				tell_upgrade(flow);
		} else if (VERIFIES_LOOKS && gives_event(&bytes))
			tell_event(0, FRAME_TLS, length);
		return 0;
	}
	opened(&place, &bytes);
	return 0;
}

SEC("uprobe.multi")
int on_records(struct pt_regs *ctx)
{
	return passed(ctx);
}

/* The same for kernels before 6.6, which take one site at a time. */
SEC("uprobe")
int on_record(struct pt_regs *ctx)
{
	return passed(ctx);
}
