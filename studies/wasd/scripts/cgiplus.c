/* A persistent script that speaks CGIplus; with STAYS_WITH_LINES it does not ask for the faster form of the variables. */
#include "answer.h"
#include "cgiplus.h"

int main(void)
{
    size_t length;
    const char *body = answer(&length);
#ifdef STAYS_WITH_LINES
    cgiplus.asked = 1;
#endif
    while (cgiplus_next()) {
        cgiplus_puts(HEAD);
        cgiplus_write(body, length);
        cgiplus_end();
    }
    return 0;
}
