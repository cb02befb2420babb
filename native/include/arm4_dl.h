/*
 * The ARM library for programs that must run without it too: found when they start, and its functions in a table.
 * Part of weir. Everything here is static: include it in one file of a program that needs it.
 *
 * Besides, a correlator as text: in hex, and as the header traceparent of W3C Trace Context.
 */

#ifndef ARM4_DL_H_INCLUDED
#define ARM4_DL_H_INCLUDED

#include "arm4.h"
#include "weir_arm.h"

#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#if defined(__GNUC__)
#define ARM4_DL_MAYBE_UNUSED __attribute__((unused))
#else
#define ARM4_DL_MAYBE_UNUSED
#endif

#define ARM4_DL_LIBRARY "libarm4.so.4"

/* The functions of the library, by their names without arm_. */
#define ARM4_DL_FUNCTIONS(X)  \
    X(register_application)   \
    X(destroy_application)    \
    X(register_transaction)   \
    X(register_metric)        \
    X(start_application)      \
    X(stop_application)       \
    X(start_transaction)      \
    X(stop_transaction)       \
    X(update_transaction)     \
    X(discard_transaction)    \
    X(block_transaction)      \
    X(unblock_transaction)    \
    X(bind_thread)            \
    X(unbind_thread)          \
    X(report_transaction)     \
    X(generate_correlator)    \
    X(get_correlator_length)  \
    X(get_correlator_flags)   \
    X(get_arrival_time)       \
    X(get_error_message)      \
    X(is_charset_supported)

/* Those of weir's own library (weir_arm.h), without weir_arm_; with another library all of them are NULL. */
#define ARM4_DL_OWN_FUNCTIONS(X) \
    X(start_request)             \
    X(stop_request)              \
    X(request_correlator)

#define ARM4_DL_FIELD(name) __typeof__(&arm_##name) name;
#define ARM4_DL_OWN_FIELD(name) __typeof__(&weir_arm_##name) name;
typedef struct arm4_dl {
    ARM4_DL_FUNCTIONS(ARM4_DL_FIELD)
    ARM4_DL_OWN_FUNCTIONS(ARM4_DL_OWN_FIELD)
} arm4_dl;
#undef ARM4_DL_FIELD
#undef ARM4_DL_OWN_FIELD

/*
 * The library's functions; NULL = it is missing or is another one, and why says so in a sentence.
 * It stays loaded for the life of the process, as threads that end call into it. Not for several threads at once.
 */
ARM4_DL_MAYBE_UNUSED static const arm4_dl *arm4_dl_load(char *why, size_t why_bytes)
{
    static arm4_dl functions;
    void *library = dlopen(ARM4_DL_LIBRARY, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!library) {
        snprintf(why, why_bytes, "the ARM library is not loaded: %s", dlerror());
        return NULL;
    }
#define ARM4_DL_FIND(name)                                                                            \
    {                                                                                                 \
        void *found = dlsym(library, "arm_" #name);                                                   \
        if (!found) {                                                                                 \
            snprintf(why, why_bytes, "%s has no function arm_" #name ": it is no library of ARM 4.0", \
                     ARM4_DL_LIBRARY);                                                                \
            return NULL;                                                                              \
        }                                                                                             \
        memcpy(&functions.name, &found, sizeof found);                                                \
    }
    ARM4_DL_FUNCTIONS(ARM4_DL_FIND)
#undef ARM4_DL_FIND
    int has_own = 1;
#define ARM4_DL_FIND_OWN(name)                             \
    {                                                      \
        void *found = dlsym(library, "weir_arm_" #name);   \
        memcpy(&functions.name, &found, sizeof found);     \
        has_own &= found != NULL;                          \
    }
    ARM4_DL_OWN_FUNCTIONS(ARM4_DL_FIND_OWN)
#undef ARM4_DL_FIND_OWN
#define ARM4_DL_LEAVE(name) functions.name = NULL;
    if (!has_own) {
        ARM4_DL_OWN_FUNCTIONS(ARM4_DL_LEAVE)
    }
#undef ARM4_DL_LEAVE
    return &functions;
}

/* Bytes of a correlator of weir's, and its format; other formats have no traceparent. */
#define ARM4_DL_OWN_BYTES 28
#define ARM4_DL_OWN_FORMAT 0xd7
/* The least bytes of any correlator, and the most digits of one, with a NUL. */
#define ARM4_DL_LEAST_BYTES 4
#define ARM4_DL_HEX_BYTES (2 * ARM_CORR_MAX_LENGTH + 1)
/* A traceparent with its NUL. */
#define ARM4_DL_TRACEPARENT_BYTES 56

/* Writes the digits of some bytes, without a NUL, and returns where they end. */
ARM4_DL_MAYBE_UNUSED static char *arm4_dl_digits(const arm_uint8_t *bytes, size_t count, char *text)
{
    static const char digits[] = "0123456789abcdef";
    for (size_t at = 0; at < count; at++) {
        *text++ = digits[bytes[at] >> 4];
        *text++ = digits[bytes[at] & 15];
    }
    return text;
}

ARM4_DL_MAYBE_UNUSED static int arm4_dl_digit(char digit)
{
    if (digit >= '0' && digit <= '9')
        return digit - '0';
    if (digit >= 'a' && digit <= 'f')
        return digit - 'a' + 10;
    return -1;
}

/* Reads two lower-case digits for each byte; 0 = there are other characters. */
ARM4_DL_MAYBE_UNUSED static int arm4_dl_bytes(const char *text, size_t count, arm_uint8_t *bytes)
{
    for (size_t at = 0; at < count; at++) {
        int high = arm4_dl_digit(text[2 * at]), low = high < 0 ? -1 : arm4_dl_digit(text[2 * at + 1]);
        if (low < 0)
            return 0;
        bytes[at] = (arm_uint8_t)(high << 4 | low);
    }
    return 1;
}

/* What a correlator says its length is; 0 = that is impossible. */
ARM4_DL_MAYBE_UNUSED static size_t arm4_correlator_bytes(const arm_correlator_t *correlator)
{
    size_t length = (size_t)correlator->opaque[0] << 8 | correlator->opaque[1];
    return length >= ARM4_DL_LEAST_BYTES && length <= ARM_CORR_MAX_LENGTH ? length : 0;
}

/* A correlator in hex, with its NUL, into ARM4_DL_HEX_BYTES; returns the digits, 0 = it is none. */
ARM4_DL_MAYBE_UNUSED static size_t arm4_correlator_hex(const arm_correlator_t *correlator, char *hex)
{
    size_t length = arm4_correlator_bytes(correlator);
    *arm4_dl_digits(correlator->opaque, length, hex) = 0;
    return 2 * length;
}

/* The correlator of so many digits; 0 = they are none, and the correlator is as it was or of length 0. */
ARM4_DL_MAYBE_UNUSED static int arm4_correlator_of_hex(const char *hex, size_t digits, arm_correlator_t *correlator)
{
    if (digits % 2 || digits < 2 * ARM4_DL_LEAST_BYTES || digits > 2 * ARM_CORR_MAX_LENGTH)
        return 0;
    if (arm4_dl_bytes(hex, digits / 2, correlator->opaque) && arm4_correlator_bytes(correlator) == digits / 2)
        return 1;
    memset(correlator->opaque, 0, ARM4_DL_LEAST_BYTES);
    return 0;
}

/* The correlator of a traceparent; 0 = it is none. Of later versions it reads what version 00 has. */
ARM4_DL_MAYBE_UNUSED static int arm4_correlator_of_traceparent(const char *text, arm_correlator_t *correlator)
{
    static const arm_uint8_t nothing[16];
    arm_uint8_t version, trace[16], span[8], flags;
    size_t length = strnlen(text, ARM4_DL_TRACEPARENT_BYTES);
    if (length < ARM4_DL_TRACEPARENT_BYTES - 1 || text[2] != '-' || text[35] != '-' || text[52] != '-')
        return 0;
    if (!arm4_dl_bytes(text, 1, &version) || !arm4_dl_bytes(text + 3, 16, trace) || !arm4_dl_bytes(text + 36, 8, span)
        || !arm4_dl_bytes(text + 53, 1, &flags))
        return 0;
    if (version == 0xff || (text[55] && (version == 0 || text[55] != '-')) || !memcmp(trace, nothing, sizeof trace)
        || !memcmp(span, nothing, sizeof span))
        return 0;
    correlator->opaque[0] = 0;
    correlator->opaque[1] = ARM4_DL_OWN_BYTES;
    correlator->opaque[2] = ARM4_DL_OWN_FORMAT;
    /* What W3C calls sampled is ARM's trace flag of the agent. */
    correlator->opaque[3] = (arm_uint8_t)(flags & 1 ? 0x40 : 0);
    memcpy(correlator->opaque + 4, trace, sizeof trace);
    memcpy(correlator->opaque + 20, span, sizeof span);
    return 1;
}

/* Whether a correlator is of weir's format, and so has a traceparent. */
ARM4_DL_MAYBE_UNUSED static int arm4_correlator_is_own(const arm_correlator_t *correlator)
{
    return arm4_correlator_bytes(correlator) == ARM4_DL_OWN_BYTES && correlator->opaque[2] == ARM4_DL_OWN_FORMAT;
}

/* The traceparent of a correlator, with its NUL, into ARM4_DL_TRACEPARENT_BYTES; 0 = it has none. */
ARM4_DL_MAYBE_UNUSED static int arm4_traceparent_of_correlator(const arm_correlator_t *correlator, char *text)
{
    if (!arm4_correlator_is_own(correlator))
        return 0;
    memcpy(text, "00-", 3);
    text = arm4_dl_digits(correlator->opaque + 4, 16, text + 3);
    *text++ = '-';
    text = arm4_dl_digits(correlator->opaque + 20, 8, text);
    memcpy(text, correlator->opaque[3] & 0x40 ? "-01" : "-00", 4);
    return 1;
}

#endif /* ARM4_DL_H_INCLUDED */
