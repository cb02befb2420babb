/* Where known servers begin a request and where they have answered it, in their own functions: where nothing else tells.
 *
 * Each leads from the server's structures to the connection's descriptor and from there to the socket, so that the
 * positions in the streams of bytes are exact here, too. What the structures hold in front of the fields is the same in
 * every release that is in use: Apache 2.4 and nginx since 1.0, on 64-bit machines. A descriptor that is none of a
 * TCP connection's is not told. */
#include "kernel.h"
#include "descriptor.h"
#include <bpf/bpf_tracing.h>

char LICENSE[] SEC("license") = "Dual MIT/GPL";

/* Apache: request_rec.connection, ap_filter_t.c, conn_rec.conn_config, and apr_socket_t.socketdes of the core's own
 * configuration, which is the first of all modules'. */
#define REQUEST_CONNECTION 8
#define FILTER_CONNECTION 32
#define CONNECTION_CONFIGURATION 88
#define SOCKET_DESCRIPTOR 8
/* nginx: ngx_http_request_t.connection and ngx_connection_t.fd. */
#define NGINX_REQUEST_CONNECTION 8
#define NGINX_CONNECTION_DESCRIPTOR 24
#define NO_DESCRIPTOR ~0u

static __always_inline u64 pointer_at(u64 address)
{
	u64 value = 0;

	if (bpf_probe_read_user(&value, sizeof(value), (void *)address))
		return 0;
	return value;
}

static __always_inline u32 number_at(u64 address)
{
	u32 value;

	/* What cannot be read comes back as zeros, which is a descriptor like any other. */
	return bpf_probe_read_user(&value, sizeof(value), (void *)address) ? NO_DESCRIPTOR : value;
}

static __always_inline bool is_servers(void)
{
	/* The file is probed for everybody who runs it. */
	return is_traced(current_tgid());
}

static __always_inline u32 apache_descriptor(u64 connection)
{
	u64 core = pointer_at(pointer_at(connection + CONNECTION_CONFIGURATION));

	return core ? number_at(core + SOCKET_DESCRIPTOR) : NO_DESCRIPTOR;
}

/* ap_process_async_request(request): of both kinds of Apache, once the head is read. */
SEC("uprobe")
int BPF_UPROBE(apache_begins, u64 request)
{
	if (is_servers())
		dealt_with(apache_descriptor(pointer_at(request + REQUEST_CONNECTION)), 1, WEIR_BPF_SOCKET_RECV, 0);
	return 0;
}

/* Whose output a task is at. */
struct {
	__uint(type, 9 /* BPF_MAP_TYPE_LRU_HASH */);
	__uint(max_entries, 8192);
	__type(key, u64);
	__type(value, u32);
} writing SEC(".maps");

/* ap_core_output_filter(filter, brigade): it gives to the socket what has come together. */
SEC("uprobe")
int BPF_UPROBE(apache_writes, u64 filter)
{
	if (!is_servers())
		return 0;
	u64 task = bpf_get_current_pid_tgid();
	u32 descriptor = apache_descriptor(pointer_at(filter + FILTER_CONNECTION));

	bpf_map_update_elem(&writing, &task, &descriptor, 0);
	return 0;
}

SEC("uretprobe")
int BPF_URETPROBE(apache_has_written)
{
	if (!is_servers())
		return 0;
	u64 task = bpf_get_current_pid_tgid();
	u32 *descriptor = bpf_map_lookup_elem(&writing, &task);

	if (descriptor)
		dealt_with(*descriptor, 1, WEIR_BPF_SOCKET_SEND, 0);
	return 0;
}

static __always_inline u32 nginx_descriptor(u64 request)
{
	u64 connection = pointer_at(request + NGINX_REQUEST_CONNECTION);

	return connection ? number_at(connection + NGINX_CONNECTION_DESCRIPTOR) : NO_DESCRIPTOR;
}

/* ngx_http_process_request(request): the head is read. */
SEC("uprobe")
int BPF_UPROBE(nginx_begins, u64 request)
{
	if (is_servers())
		dealt_with(nginx_descriptor(request), 1, WEIR_BPF_SOCKET_RECV, 0);
	return 0;
}

/* ngx_http_finalize_request(request, ...): called again each time that more of the response was given to the socket. */
SEC("uprobe")
int BPF_UPROBE(nginx_ends, u64 request)
{
	if (is_servers())
		dealt_with(nginx_descriptor(request), 1, WEIR_BPF_SOCKET_SEND, 0);
	return 0;
}
