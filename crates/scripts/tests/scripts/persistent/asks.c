/* What the runtime for C can do, by the query. */
#include "cgiplus.h"

int main(void) {
    static unsigned number;
    while (cgiplus_next()) {
        const char *query = cgiplus_var("QUERY_STRING");
        cgiplus_printf("Content-Type: text/plain\n\n%u %s\n", ++number, query);
        if (strcmp(query, "whole") == 0) {
            size_t length = 0;
            const char *body = cgiplus_body(1 << 20, &length);
            cgiplus_printf("%zu %.3s\n", length, body == NULL ? "-" : body);
        } else if (strcmp(query, "part") == 0) {
            char part[3];
            ssize_t got = cgiplus_read_body(part, sizeof part);
            cgiplus_write(part, got < 0 ? 0 : (size_t)got);
        } else if (strcmp(query, "ask") == 0) {
            char answer[200];
            int status = cgiplus_callout("NOOP:", answer, sizeof answer);
            cgiplus_printf("%d\n", status);
        } else if (strcmp(query, "long") == 0) {
            for (int line = 0; line < 50000; line++) cgiplus_printf("%d\n", line);
        }
        cgiplus_end();
    }
    return 0;
}
