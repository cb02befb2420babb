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

/* Arguments of the functions that receive by TCP and UDP: one more before Linux 5.19. The collector sets it. */
const volatile u32 receive_arguments = 5;

/* An argument of a function, or what it returned: that is behind the last one. The compiler may not make one load with
 * a calculated place of two, for the verifier wants to know the place. */
static __always_inline u64 argument(u64 *context, const u32 index)
{
	u64 value;

	asm volatile("%[value] = *(u64 *)(%[context] + %[place])"
		     : [value] "=r"(value)
		     : [context] "r"(context), [place] "i"(index * 8));
	return value;
}

/* What a function of so many arguments returned: by the helper where there is one (Linux 5.17). */
static __always_inline int returned(u64 *context, u32 arguments, struct sock *sk, u32 kind, u32 sub)
{
	u64 result = 0;

	if (KNOWS(get_func_ret))
		bpf_get_func_ret(context, &result);
	else if (arguments == 6)
		result = argument(context, 6);
	else if (arguments == 5)
		result = argument(context, 5);
	else if (arguments == 4)
		result = argument(context, 4);
	else
		result = argument(context, 3);
	return sk ? io(sk, (int)result, kind, sub) : 0;
}

/* Every kind of socket that keeps to the default goes through here: TCP's does. */
SEC("fentry/sock_def_readable")
int BPF_PROG(on_readable, struct sock *sk)
{
	return ready(sk);
}

SEC("fexit/tcp_recvmsg")
int BPF_PROG(on_tcp_receive, struct sock *sk)
{
	int flags = receive_arguments == 6 ? argument(ctx, 4) : argument(ctx, 3);

	return returned(ctx, receive_arguments, sk, WEIR_BPF_SOCKET_RECV, flags & MSG_PEEK ? WEIR_PEEK : 0);
}

SEC("fexit/tcp_splice_read")
int BPF_PROG(on_tcp_splice, struct socket *socket)
{
	return returned(ctx, 5, socket->sk, WEIR_BPF_SOCKET_RECV, 0);
}

SEC("fexit/tcp_sendmsg")
int BPF_PROG(on_tcp_send, struct sock *sk)
{
	return returned(ctx, 3, sk, WEIR_BPF_SOCKET_SEND, 0);
}

/* How sendfile gave its pages until Linux 6.5. */
SEC("fexit/tcp_sendpage")
int BPF_PROG(on_tcp_page, struct sock *sk)
{
	return returned(ctx, 5, sk, WEIR_BPF_SOCKET_SEND, 0);
}

SEC("fexit/unix_stream_recvmsg")
int BPF_PROG(on_unix_receive, struct socket *socket)
{
	return returned(ctx, 4, socket->sk, WEIR_BPF_SOCKET_RECV, 0);
}

SEC("fexit/unix_stream_sendmsg")
int BPF_PROG(on_unix_send, struct socket *socket)
{
	return returned(ctx, 3, socket->sk, WEIR_BPF_SOCKET_SEND, 0);
}

SEC("fexit/udp_recvmsg")
int BPF_PROG(on_udp_receive, struct sock *sk)
{
	return returned(ctx, receive_arguments, sk, WEIR_BPF_SOCKET_RECV, 0);
}

SEC("fexit/udp_sendmsg")
int BPF_PROG(on_udp_send, struct sock *sk)
{
	return returned(ctx, 3, sk, WEIR_BPF_SOCKET_SEND, 0);
}
