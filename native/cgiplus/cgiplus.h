/* Persistent scripts in C: CGIplus, in one header without dependencies (C99 and POSIX).
 *
 *     #include "cgiplus.h"
 *     int main(void) {
 *         while (cgiplus_next()) {
 *             cgiplus_puts("Content-Type: text/plain\r\n\r\n");
 *             cgiplus_printf("hello %s\n", cgiplus_var("QUERY_STRING"));
 *             cgiplus_end();
 *         }
 *         return 0;
 *     }
 *
 * The server writes the variables of a request to descriptor 3 and its body to descriptor 0; the script writes its
 * response to descriptor 1 and a sentinel behind it. A request costs one read and one write if the response fits into
 * the buffer. Started without CGIplus, the same program answers one request of plain CGI.
 * Output of <stdio.h> may be used instead of cgiplus_write; it is flushed before what cgiplus_write keeps.
 * Include the header in one file of a program. */
#ifndef WEIR_CGIPLUS_H
#define WEIR_CGIPLUS_H

#ifndef _POSIX_C_SOURCE
#define _POSIX_C_SOURCE 200809L
#endif
#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#if defined(__GNUC__)
#define CGIPLUS_API static __attribute__((unused))
#define CGIPLUS_FORMAT __attribute__((format(printf, 1, 2)))
#else
#define CGIPLUS_API static
#define CGIPLUS_FORMAT
#endif

/* Bytes of a response that are kept before they are written. */
#ifndef CGIPLUS_BUFFER
#define CGIPLUS_BUFFER 65536
#endif

enum { CGIPLUS_VARIABLES = 3, CGIPLUS_SENTINEL_MAX = 256 };

enum cgiplus_state { CGIPLUS_NEW, CGIPLUS_IDLE, CGIPLUS_RUNS, CGIPLUS_OVER };

static struct {
    enum cgiplus_state state;
    int is_persistent;                     /* 0: plain CGI */
    int asked;                             /* whether the faster form of the variables was asked for */
    char eof[CGIPLUS_SENTINEL_MAX], eot[CGIPLUS_SENTINEL_MAX], esc[CGIPLUS_SENTINEL_MAX];
    char *in;                              /* what came on the stream of variables */
    size_t in_size, in_start, in_end;
    char **variables;                      /* "NAME=VALUE", within `in` */
    size_t count, variables_size;
    unsigned long long body_left;          /* bytes of the body that are still to be read */
    char *body;
    size_t out_used;
    char out[CGIPLUS_BUFFER + 2 * CGIPLUS_SENTINEL_MAX];
} cgiplus;

static void cgiplus_fail(const char *words) {
    fprintf(stderr, "cgiplus: %s\n", words);
    _exit(1);
}

static void *cgiplus_grow(void *memory, size_t bytes) {
    void *grown = realloc(memory, bytes);
    if (grown == NULL) cgiplus_fail("no memory");
    return grown;
}

/* Writes it all; ends the process if the server no longer reads. */
static void cgiplus_put(const char *data, size_t length) {
    while (length > 0) {
        ssize_t written = write(1, data, length);
        if (written < 0 && errno == EINTR) continue;
        if (written < 0) _exit(1);
        data += written;
        length -= (size_t)written;
    }
}

/* Reads more of the stream of variables. Returns 0 at its end. */
static int cgiplus_fill(void) {
    if (cgiplus.in_end == cgiplus.in_size) {
        cgiplus.in_size = cgiplus.in_size == 0 ? 16384 : cgiplus.in_size * 2;
        cgiplus.in = cgiplus_grow(cgiplus.in, cgiplus.in_size);
    }
    for (;;) {
        ssize_t got = read(CGIPLUS_VARIABLES, cgiplus.in + cgiplus.in_end, cgiplus.in_size - cgiplus.in_end);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return 0;
        cgiplus.in_end += (size_t)got;
        return 1;
    }
}

/* The offset behind the line that begins at `from`, 0 at the end of the stream. */
static size_t cgiplus_line(size_t from) {
    size_t searched = from;
    for (;;) {
        char *found = searched == cgiplus.in_end ? NULL
            : memchr(cgiplus.in + searched, '\n', cgiplus.in_end - searched);
        if (found != NULL) return (size_t)(found - cgiplus.in) + 1;
        searched = cgiplus.in_end;
        if (!cgiplus_fill()) return 0;
    }
}

static void cgiplus_keep(size_t offset) {
    if (cgiplus.count == cgiplus.variables_size) {
        cgiplus.variables_size = cgiplus.variables_size == 0 ? 64 : cgiplus.variables_size * 2;
        cgiplus.variables = cgiplus_grow(cgiplus.variables, cgiplus.variables_size * sizeof *cgiplus.variables);
    }
    cgiplus.variables[cgiplus.count++] = cgiplus.in + offset;
}

/* Variables as {u16 length, "NAME=VALUE" and a 0}, ended by a length of 0. */
static void cgiplus_take_struct(size_t at, size_t bytes) {
    size_t end = at + bytes;
    while (cgiplus.in_end < end)
        if (!cgiplus_fill()) cgiplus_fail("the variables end early");
    while (at + 2 <= end) {
        uint16_t length;
        memcpy(&length, cgiplus.in + at, 2);
        at += 2;
        if (length == 0) break;
        if (length > end - at || cgiplus.in[at + length - 1] != '\0') cgiplus_fail("the variables have no such form");
        cgiplus_keep(at);
        at += length;
    }
    cgiplus.in_start = end;
}

/* Variables as lines, ended by an empty one. */
static void cgiplus_take_lines(size_t at) {
    size_t first = at, next;
    while ((next = cgiplus_line(at)) != 0 && next - at > 1) {
        cgiplus.in[next - 1] = '\0';
        at = next;
    }
    if (next == 0) cgiplus_fail("the variables end early");
    cgiplus.in_start = next;
    /* Only now is it certain that the memory stays where it is. */
    for (; first < at; first += strlen(cgiplus.in + first) + 1) cgiplus_keep(first);
}

static void cgiplus_sentinel(char *to, const char *name) {
    const char *value = getenv(name);
    if (value == NULL || strlen(value) >= CGIPLUS_SENTINEL_MAX) cgiplus_fail("a sentinel is missing");
    strcpy(to, value);
}

static void cgiplus_start(void) {
    cgiplus.state = CGIPLUS_IDLE;
    cgiplus.is_persistent = getenv("CGIPLUSEOF") != NULL;
    if (!cgiplus.is_persistent) return;
    cgiplus_sentinel(cgiplus.eof, "CGIPLUSEOF");
    cgiplus_sentinel(cgiplus.eot, "CGIPLUSEOT");
    cgiplus_sentinel(cgiplus.esc, "CGIPLUSESC");
    /* A program that the script starts, or a script that lists its environment, must not have them. */
    unsetenv("CGIPLUSEOF");
    unsetenv("CGIPLUSEOT");
    unsetenv("CGIPLUSESC");
}

/* The value of a variable of the request; "" if there is none. Valid until cgiplus_end. */
CGIPLUS_API const char *cgiplus_var(const char *name) {
    size_t length = strlen(name), index;
    if (!cgiplus.is_persistent) {
        const char *value = getenv(name);
        return value == NULL ? "" : value;
    }
    for (index = 0; index < cgiplus.count; index++) {
        const char *variable = cgiplus.variables[index];
        if (strncmp(variable, name, length) == 0 && variable[length] == '=') return variable + length + 1;
    }
    return "";
}

CGIPLUS_API void cgiplus_write(const void *data, size_t length) {
    if (length > CGIPLUS_BUFFER - cgiplus.out_used) {
        cgiplus_put(cgiplus.out, cgiplus.out_used);
        cgiplus.out_used = 0;
        if (length > CGIPLUS_BUFFER / 2) {
            cgiplus_put(data, length);
            return;
        }
    }
    memcpy(cgiplus.out + cgiplus.out_used, data, length);
    cgiplus.out_used += length;
}

CGIPLUS_API void cgiplus_puts(const char *text) { cgiplus_write(text, strlen(text)); }

CGIPLUS_API void cgiplus_printf(const char *format, ...) CGIPLUS_FORMAT;
CGIPLUS_API void cgiplus_printf(const char *format, ...) {
    size_t room = CGIPLUS_BUFFER - cgiplus.out_used;
    va_list arguments;
    int length;
    char *text;
    va_start(arguments, format);
    length = vsnprintf(cgiplus.out + cgiplus.out_used, room, format, arguments);
    va_end(arguments);
    if (length < 0) return;
    if ((size_t)length < room) {
        cgiplus.out_used += (size_t)length;
        return;
    }
    text = cgiplus_grow(NULL, (size_t)length + 1);
    va_start(arguments, format);
    vsnprintf(text, (size_t)length + 1, format, arguments);
    va_end(arguments);
    cgiplus_write(text, (size_t)length);
    free(text);
}

/* Sends what was written so far. */
CGIPLUS_API void cgiplus_flush(void) {
    fflush(stdout);
    cgiplus_put(cgiplus.out, cgiplus.out_used);
    cgiplus.out_used = 0;
}

/* Reads up to `size` bytes of the body. Returns 0 behind its end, -1 with errno on an error. */
CGIPLUS_API ssize_t cgiplus_read_body(void *buffer, size_t size) {
    ssize_t got;
    if (size > cgiplus.body_left) size = (size_t)cgiplus.body_left;
    if (size == 0) return 0;
    do got = read(0, buffer, size);
    while (got < 0 && errno == EINTR);
    if (got > 0) cgiplus.body_left -= (unsigned long long)got;
    if (got == 0) cgiplus.body_left = 0;
    return got;
}

/* Reads the rest of the body, with a 0 behind it. Returns NULL if it is longer than `max` bytes, or not whole.
 * Valid until cgiplus_end. */
CGIPLUS_API char *cgiplus_body(size_t max, size_t *length) {
    unsigned long long whole = cgiplus.body_left;
    size_t used = 0;
    ssize_t got;
    if (whole > max) return NULL;
    cgiplus.body = cgiplus_grow(cgiplus.body, (size_t)whole + 1);
    while ((got = cgiplus_read_body(cgiplus.body + used, (size_t)whole - used)) > 0) used += (size_t)got;
    if (used != whole) return NULL;
    cgiplus.body[used] = '\0';
    if (length != NULL) *length = used;
    return cgiplus.body;
}

/* Ends the response, if cgiplus_next has begun one: the rest of the body is read, so that it cannot be taken for a part
 * of the next, and the sentinel goes out with the last bytes. */
CGIPLUS_API void cgiplus_end(void) {
    char rest[16384];
    size_t length;
    if (cgiplus.state != CGIPLUS_RUNS) return;
    cgiplus.state = cgiplus.is_persistent ? CGIPLUS_IDLE : CGIPLUS_OVER;
    fflush(stdout);
    if (cgiplus.is_persistent) {
        while (cgiplus_read_body(rest, sizeof rest) > 0) { }
        length = strlen(cgiplus.eof);
        memcpy(cgiplus.out + cgiplus.out_used, cgiplus.eof, length);
        cgiplus.out_used += length;
    }
    cgiplus_put(cgiplus.out, cgiplus.out_used);
    cgiplus.out_used = 0;
}

/* Waits for a request. Returns 0 when the script is to end. */
CGIPLUS_API int cgiplus_next(void) {
    const char *length;
    size_t line;
    if (cgiplus.state == CGIPLUS_NEW) cgiplus_start();
    cgiplus_end();
    if (cgiplus.state == CGIPLUS_OVER) return 0;
    cgiplus.count = 0;
    if (cgiplus.is_persistent) {
        memmove(cgiplus.in, cgiplus.in + cgiplus.in_start, cgiplus.in_end - cgiplus.in_start);
        cgiplus.in_end -= cgiplus.in_start;
        cgiplus.in_start = 0;
        if ((line = cgiplus_line(0)) == 0) {
            cgiplus.state = CGIPLUS_OVER;
            return 0;
        }
        if (cgiplus.in[0] != '!') cgiplus_fail("this is no request");
        if (cgiplus.in[1] == '!') {
            cgiplus_take_struct(line, (size_t)strtoul(cgiplus.in + 2, NULL, 10));
        } else {
            cgiplus_take_lines(line);
            /* The other form costs less. */
            if (!cgiplus.asked) cgiplus_printf("%s\n!CGIPLUS: struct\n%s\n", cgiplus.esc, cgiplus.eot);
            cgiplus.asked = 1;
        }
    }
    length = cgiplus_var("CONTENT_LENGTH");
    cgiplus.body_left = *length >= '0' && *length <= '9' ? strtoull(length, NULL, 10) : 0;
    cgiplus.state = CGIPLUS_RUNS;
    return 1;
}

/* Asks the server, such as "LIFETIME: 5". Puts its answer, "200 ..." or another status with words, into `answer`.
 * A request that begins with "!" gets no answer. Returns the status, 0 without an answer. */
CGIPLUS_API int cgiplus_callout(const char *request, char *answer, size_t size) {
    size_t line, length;
    if (answer != NULL && size > 0) *answer = '\0';
    if (!cgiplus.is_persistent) return 0;
    cgiplus_printf("%s\n%s\n%s\n", cgiplus.esc, request, cgiplus.eot);
    if (*request == '!') return 0;
    cgiplus_flush();
    {
        /* Variables point into the memory that a longer stream moves. */
        char *before = cgiplus.in;
        uintptr_t old = (uintptr_t)before;
        size_t index, at = cgiplus.in_start;
        line = cgiplus_line(at);
        if (line == 0) cgiplus_fail("the server's answer is missing");
        if (cgiplus.in != before)
            for (index = 0; index < cgiplus.count; index++)
                cgiplus.variables[index] = cgiplus.in + ((uintptr_t)cgiplus.variables[index] - old);
        length = line - at - 1;
        cgiplus.in_start = line;
        if (answer != NULL && size > 0) {
            if (length >= size) length = size - 1;
            memcpy(answer, cgiplus.in + at, length);
            answer[length] = '\0';
        }
        return atoi(cgiplus.in + at);
    }
}

#endif
