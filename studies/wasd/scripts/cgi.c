/* A CGI script: a process that answers one request. */
#include "answer.h"
#include <stdio.h>

int main(void)
{
    size_t length;
    const char *body = answer(&length);
    fputs(HEAD, stdout);
    fwrite(body, 1, length, stdout);
    return fflush(stdout) == 0 ? 0 : 1;
}
