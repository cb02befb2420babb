/*
 * Plants a cost into a server that knows nothing of it: PLANT is the part of its own CPU time that each of its threads
 * burns in addition (0.05: 5 % more CPU for each request).
 *
 * Loaded before the C library (LD_PRELOAD). Of each SHARE-th send of a thread the CPU time since the last such one is
 * read, and so much of it is burnt again. If the machine makes the server's work slower, the planted part grows with it
 * and stays the same share. Both sides of a comparison run with this, one with PLANT=0.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>

/* Reading the clock costs about 200 ns: of 16 requests of 5 us a four-hundredth. */
#define SHARE 16

static double part;
static __thread unsigned sends;
static __thread uint64_t last_ns;

static uint64_t used_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* At once: nginx forgets its environment before it serves. */
__attribute__((constructor)) static void read_part(void)
{
	const char *said = getenv("PLANT");

	part = said ? atof(said) : 0;
}

static void burn(void)
{
	uint64_t now_ns, until_ns;

	if (++sends % SHARE)
		return;
	now_ns = used_ns();
	if (last_ns && part > 0) {
		until_ns = now_ns + (uint64_t)(part * (double)(now_ns - last_ns));
		while (now_ns < until_ns)
			now_ns = used_ns();
	}
	last_ns = now_ns;
}

ssize_t send(int socket, const void *bytes, size_t length, int flags)
{
	static ssize_t (*real)(int, const void *, size_t, int);

	if (!real)
		real = (ssize_t(*)(int, const void *, size_t, int))dlsym(RTLD_NEXT, "send");
	burn();
	return real(socket, bytes, length, flags);
}

ssize_t sendmsg(int socket, const struct msghdr *message, int flags)
{
	static ssize_t (*real)(int, const struct msghdr *, int);

	if (!real)
		real = (ssize_t(*)(int, const struct msghdr *, int))dlsym(RTLD_NEXT, "sendmsg");
	burn();
	return real(socket, message, flags);
}

ssize_t writev(int file, const struct iovec *parts, int count)
{
	static ssize_t (*real)(int, const struct iovec *, int);

	if (!real)
		real = (ssize_t(*)(int, const struct iovec *, int))dlsym(RTLD_NEXT, "writev");
	burn();
	return real(file, parts, count);
}
