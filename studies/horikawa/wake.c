/* How processes wait for a connection on one listening socket, in place of accept() by itself.
 *
 * WAKE=all   each waits in poll(), from which the kernel wakes all of them for each connection (the herd of Linux 2.2)
 * WAKE=one   each waits in an epoll of its own with EPOLLEXCLUSIVE, from which the kernel wakes one
 *
 * It is preloaded into Apache: cc -shared -fPIC -O2 wake.c -o wake.so. Apache waits in accept() itself where it listens at
 * one address only; with more, it waits elsewhere, and this has no effect.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

static int (*real_accept4)(int, struct sockaddr *, socklen_t *, int);

/* The epoll of this process for this socket; made at its first wait, as a forked child must not share it. */
static int own_epoll(int listener)
{
    static int epoll = -1, of = -1;
    static pid_t owner;
    if (owner != getpid() || of != listener) {
        struct epoll_event event = {.events = EPOLLIN | EPOLLEXCLUSIVE};
        epoll = epoll_create1(EPOLL_CLOEXEC);
        if (epoll < 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &event) < 0)
            return -1;
        owner = getpid();
        of = listener;
    }
    return epoll;
}

/* Waits for a connection as WAKE says. Returns 0, or -1 with errno as accept() would have it. */
static int await(int listener)
{
    const char *how = getenv("WAKE");
    if (how && !strcmp(how, "one")) {
        struct epoll_event event;
        int epoll = own_epoll(listener);
        return epoll < 0 || epoll_wait(epoll, &event, 1, -1) < 0 ? -1 : 0;
    }
    struct pollfd wanted = {.fd = listener, .events = POLLIN};
    return poll(&wanted, 1, -1) < 0 ? -1 : 0;
}

int accept4(int listener, struct sockaddr *address, socklen_t *length, int flags)
{
    if (!real_accept4)
        real_accept4 = (int (*)(int, struct sockaddr *, socklen_t *, int))dlsym(RTLD_NEXT, "accept4");
    int before = fcntl(listener, F_GETFL);
    if (before >= 0 && !(before & O_NONBLOCK))
        fcntl(listener, F_SETFL, before | O_NONBLOCK); /* The one that comes too late is to wait again, not here. */
    for (;;) {
        if (await(listener) < 0)
            return -1;
        int connection = real_accept4(listener, address, length, flags);
        if (connection >= 0 || (errno != EAGAIN && errno != EWOULDBLOCK))
            return connection;
    }
}

int accept(int listener, struct sockaddr *address, socklen_t *length)
{
    return accept4(listener, address, length, 0);
}
