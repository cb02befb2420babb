/* What each script in C answers: PAGE is 0 (a header only), 1 (64 KiB) or 2 (a greeting). */
#ifndef ANSWER_H
#define ANSWER_H

#include <string.h>

#define HEAD "Content-Type: text/plain\r\n\r\n"

enum { LINE_BYTES = 64, LINES = 1024 };

#if PAGE == 1
static char page[LINE_BYTES * LINES];
#endif

/* The body and its length, made once in a process. */
static const char *answer(size_t *length)
{
#if PAGE == 0
    *length = 0;
    return "";
#elif PAGE == 1
    static const char line[] = "The quick brown fox jumps over the lazy dog, and then it rests.\n";
    if (page[0] == 0)
        for (size_t number = 0; number < LINES; number++) memcpy(page + number * LINE_BYTES, line, LINE_BYTES);
    *length = sizeof page;
    return page;
#else
    *length = sizeof "Hello!\n" - 1;
    return "Hello!\n";
#endif
}

#endif
