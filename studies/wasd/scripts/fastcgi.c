/* FastCGI by its usual library: fastcgi SOCKET PROCESSES. The last name of the request's path chooses the answer. */
#include <fcgiapp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#define HEAD "Content-Type: text/plain\r\n\r\n"

static char page[65536 + 1];

static void serve(int listener)
{
    FCGX_Request request;
    if (FCGX_InitRequest(&request, listener, 0) != 0) exit(1);
    while (FCGX_Accept_r(&request) == 0) {
        const char *path = FCGX_GetParam("SCRIPT_NAME", request.envp);
        const char *name = path == NULL ? NULL : strrchr(path, '/');
        FCGX_PutS(HEAD, request.out);
        if (name != NULL && strncmp(name, "/64k", 4) == 0) FCGX_PutStr(page, 65536, request.out);
        if (name != NULL && strncmp(name, "/hello", 6) == 0) FCGX_PutS("Hello!\n", request.out);
        FCGX_Finish_r(&request);
    }
    exit(0);
}

int main(int count, char **words)
{
    static const char line[] = "The quick brown fox jumps over the lazy dog, and then it rests.\n";
    int processes = count == 3 ? atoi(words[2]) : 0;
    if (processes < 1 || processes > 64) {
        fprintf(stderr, "fastcgi SOCKET PROCESSES (1 to 64)\n");
        return 2;
    }
    for (int number = 0; number < 1024; number++) memcpy(page + number * 64, line, 64);
    umask(0);
    FCGX_Init();
    int listener = FCGX_OpenSocket(words[1], 1024);
    if (listener < 0) return 1;
    /* All end with the server, whose command this process belongs to. */
    for (int number = 1; number < processes; number++) {
        pid_t parent = getpid();
        pid_t child = fork();
        if (child < 0) return 1;
        if (child == 0) {
            prctl(PR_SET_PDEATHSIG, SIGTERM);
            if (getppid() != parent) return 0;
            serve(listener);
        }
    }
    serve(listener);
    return 0;
}
