/* The same as the socket tracepoints tell, from TCP's own functions, where the kernel has no such tracepoints but lets
 * probes be attached to functions (fentry and fexit). */
#include "kernel.h"
#include "sockets.h"
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>

char LICENSE[] SEC("license") = "Dual MIT/GPL";

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct socket {
	struct sock *sk;
};
#pragma clang attribute pop

/* What a function returned: by the helper, since the number of arguments has changed with the kernel's versions. */
static __always_inline int returned(void *context, struct sock *sk, u32 kind, u32 sub)
{
	u64 result = 0;

	bpf_get_func_ret(context, &result);
	return sk ? io(sk, (int)result, kind, sub) : 0;
}

/* Every kind of socket that keeps to the default goes through here: TCP's does. */
SEC("fentry/sock_def_readable")
int BPF_PROG(on_readable, struct sock *sk)
{
	return ready(sk);
}

/* The flags are the fourth argument since Linux 5.19. */
SEC("fexit/tcp_recvmsg")
int BPF_PROG(on_tcp_receive, struct sock *sk, void *message, u64 length, int flags)
{
	return returned(ctx, sk, WEIR_BPF_SOCKET_RECV, flags & MSG_PEEK ? WEIR_PEEK : 0);
}

SEC("fexit/tcp_splice_read")
int BPF_PROG(on_tcp_splice, struct socket *socket)
{
	return returned(ctx, socket->sk, WEIR_BPF_SOCKET_RECV, 0);
}

SEC("fexit/tcp_sendmsg")
int BPF_PROG(on_tcp_send, struct sock *sk)
{
	return returned(ctx, sk, WEIR_BPF_SOCKET_SEND, 0);
}

/* How sendfile gave its pages until Linux 6.5. */
SEC("fexit/tcp_sendpage")
int BPF_PROG(on_tcp_page, struct sock *sk)
{
	return returned(ctx, sk, WEIR_BPF_SOCKET_SEND, 0);
}

SEC("fexit/unix_stream_recvmsg")
int BPF_PROG(on_unix_receive, struct socket *socket)
{
	return returned(ctx, socket->sk, WEIR_BPF_SOCKET_RECV, 0);
}

SEC("fexit/unix_stream_sendmsg")
int BPF_PROG(on_unix_send, struct socket *socket)
{
	return returned(ctx, socket->sk, WEIR_BPF_SOCKET_SEND, 0);
}

SEC("fexit/udp_recvmsg")
int BPF_PROG(on_udp_receive, struct sock *sk)
{
	return returned(ctx, sk, WEIR_BPF_SOCKET_RECV, 0);
}

SEC("fexit/udp_sendmsg")
int BPF_PROG(on_udp_send, struct sock *sk)
{
	return returned(ctx, sk, WEIR_BPF_SOCKET_SEND, 0);
}
