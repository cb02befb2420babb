/* So many pairs between two calls of getppid, which a tracer of system calls sees; with an argument "time", what one
 * pair costs in nanoseconds. */
#include "check.h"
#include <arm.h>
#include <time.h>

static double now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1e9 + now.tv_nsec;
}

static double pairs(int id, int count)
{
    double begin = now_ns();
    for (int pair = 0; pair < count; pair++) {
        arm_stop(arm_start(id, 0, 0, 0), ARM_GOOD, 0, 0, 0);
    }
    return (now_ns() - begin) / count;
}

int main(int count, char **arguments)
{
    int id = arm_getid(arm_init((char *)"Pairs", 0, 0, 0, 0), (char *)"pair", 0, 0, 0, 0);
    int is_timed = count > 1 && strcmp(arguments[1], "time") == 0;
    CHECK(listens(1) == 1);
    /* The first of a thread makes its lane. */
    pairs(id, 1);
    if (!is_timed) {
        getppid();
        pairs(id, 10000);
        getppid();
        return failures != 0;
    }
    for (int round = 0; round < 5; round++) {
        double listened, alone;
        drain();
        listens(1);
        listened = pairs(id, 8000);
        listens(0);
        alone = pairs(id, 8000);
        printf("a pair: %.1f ns while an agent listens, %.1f ns without\n", listened, alone);
    }
    return failures != 0;
}
