/* The rules of ARM 2.0, each as a program meets it: what is returned, and that nothing breaks. */
#include "check.h"
#include <arm.h>
#include <pthread.h>
#include <signal.h>
#include <sys/time.h>
#include <sys/wait.h>

static char *words(const char *text)
{
    return (char *)text;
}

static int init(const char *name, const char *user)
{
    return arm_init(words(name), words(user), 0, 0, 0);
}

static int getid(int application, const char *name)
{
    return arm_getid(application, words(name), 0, 0, 0, 0);
}

static void names(void)
{
    char longer[300], cut[129];
    int shop = init("Shop", "ann"), other = init("Other", 0);
    CHECK(shop > 0 && other > 0 && shop != other);
    CHECK(init("Shop", "ann") == shop && arm_end(shop, 0, 0, 0) == 0);
    CHECK(init("Shop", "bob") != shop);
    CHECK(init("Shop", "*") > 0);
    CHECK(init(0, 0) == -1 && init("", "ann") == -1);

    int checkout = getid(shop, "checkout");
    CHECK(checkout > 0 && getid(shop, "checkout") == checkout);
    CHECK(arm_getid(shop, words("checkout"), words("detail"), 0, 0, 0) == checkout);
    CHECK(arm_getid(shop, words("search"), words("a"), 0, 0, 0) == arm_getid(shop, words("search"), words("b"), 0, 0, 0));
    CHECK(getid(shop, "browse") != checkout && getid(other, "checkout") != checkout);
    CHECK(getid(shop, 0) == -1 && getid(shop, "") == -1);

    memset(longer, 'x', sizeof longer - 1);
    longer[sizeof longer - 1] = 0;
    memcpy(cut, longer, 127);
    cut[127] = 0;
    CHECK(getid(shop, longer) == getid(shop, cut));
    cut[126] = 0;
    CHECK(getid(shop, longer) != getid(shop, cut));
}

static void data_names_a_transaction(void)
{
    arm_data101_t first, second;
    int shop = init("Data", 0);
    memset(&first, 0, sizeof first);
    first.format = ARM_FORMAT_METRICS;
    first.metrics[0].type = ARM_COUNTER32;
    strcpy(first.metrics[0].name, "rows");
    second = first;
    int id = arm_getid(shop, words("t"), 0, 0, (char *)&first, sizeof first);
    CHECK(id > 0 && arm_getid(shop, words("t"), 0, 0, (char *)&second, sizeof second) == id);
    strcpy(second.metrics[0].name, "columns");
    CHECK(arm_getid(shop, words("t"), 0, 0, (char *)&second, sizeof second) != id);
    CHECK(getid(shop, "t") != id);
    CHECK(arm_getid(shop, words("u"), 0, 0, (char *)&first, -1) > 0);
    CHECK(arm_getid(shop, words("u"), 0, 0, words("x"), 1) > 0);
}

static void nothing_is_done_for_negative_ids(void)
{
    CHECK(getid(-7, "x") == -7 && arm_start(-7, 0, 0, 0) == -7);
    CHECK(arm_update(-7, 0, 0, 0) == 0 && arm_stop(-7, 0, 0, 0, 0) == 0 && arm_end(-7, 0, 0, 0) == 0);
    CHECK(arm_start(getid(init(0, 0), "x"), 0, 0, 0) < 0);
    CHECK(arm_stop(arm_start(getid(init(0, 0), "x"), 0, 0, 0), 0, 0, 0, 0) == 0);
}

static void what_was_never_given_out_is_an_error(void)
{
    int large = 0x7fffffff;
    CHECK(getid(0, "x") == -2 && getid(4095, "x") == -2 && getid(large, "x") == -2);
    CHECK(arm_start(0, 0, 0, 0) == -2 && arm_start(4096, 0, 0, 0) == -2 && arm_start(large, 0, 0, 0) == -2);
    CHECK(arm_update(large, 0, 0, 0) == -2 && arm_stop(large, 0, 0, 0, 0) == -2);
    CHECK(arm_end(0, 0, 0, 0) == -2 && arm_end(large, 0, 0, 0) == -2);
}

/* As programs call that were built with long in place of 32 bits. */
static void callers_with_long(void)
{
    long (*start)(long, long, char *, long) = (long (*)(long, long, char *, long))arm_start;
    long (*stop)(long, long, long, char *, long) = (long (*)(long, long, long, char *, long))arm_stop;
    long (*name)(long, char *, char *, long, char *, long) = (long (*)(long, char *, char *, long, char *, long))arm_getid;
    long upper = sizeof(long) > 4 ? (long)0x5a5a5a5aL << 16 << 16 : 0;
    long shop = init("Long", 0), id = name(upper | shop, words("t"), 0, upper, 0, upper);
    CHECK(start(-1L, 0, 0, 0) == -1L && start(0x7fffffffL, 0, 0, 0) == -2L);
    CHECK(id > 0 && id == getid((int)shop, "t"));
    long handle = start(upper | id, upper, 0, upper);
    CHECK(handle > 0 && handle <= 0x7fffffffL);
    CHECK(stop(upper | handle, upper, upper, 0, upper) == 0L);
}

static void without_an_agent(void)
{
    arm_data1_t data;
    int shop = init("Alone", 0), id = getid(shop, "t");
    listens(0);
    CHECK(id > 0 && arm_start(id, 0, 0, 0) == 0);
    CHECK(arm_update(0, 0, 0, 0) == 0 && arm_stop(0, ARM_GOOD, 0, 0, 0) == 0);
    memset(&data, 0, sizeof data);
    data.format = ARM_FORMAT_DATA;
    CHECK(arm_start(id, 0, (char *)&data, sizeof data) == 0 && data.correlator.bytes[1] == 0);
    data.flags[0] = ARM_WANT_CORRELATOR;
    CHECK(arm_start(id, 0, (char *)&data, sizeof data) == 0 && data.correlator.bytes[1] == 28);
    CHECK(listens(1) > 0);
}

static void handles(void)
{
    int shop = init("Handles", 0), id = getid(shop, "t");
    int first = arm_start(id, 0, 0, 0), second = arm_start(id, 0, 0, 0);
    CHECK(first > 0 && second > 0 && first != second);
    CHECK(arm_update(first, 0, 0, 0) == 0 && arm_update(first, 0, 0, 0) == 0);
    CHECK(arm_stop(first, ARM_GOOD, 0, 0, 0) == 0);
    CHECK(arm_stop(first, ARM_GOOD, 0, 0, 0) == -2 && arm_update(first, 0, 0, 0) == -2);
    CHECK(arm_stop(second, 77, 0, 0, 0) == 0);
}

static void an_application_ends(void)
{
    int shop = init("Ends", 0), id = getid(shop, "t");
    int handle = arm_start(id, 0, 0, 0);
    CHECK(arm_end(shop, 0, 0, 0) == 0 && arm_end(shop, 0, 0, 0) == -3);
    CHECK(getid(shop, "t") == -3 && getid(shop, "new") == -3 && arm_start(id, 0, 0, 0) == -3);
    CHECK(arm_update(handle, 0, 0, 0) == 0 && arm_stop(handle, ARM_ABORT, 0, 0, 0) == 0);
    CHECK(init("Ends", 0) == shop && getid(shop, "t") == id);
    handle = arm_start(id, 0, 0, 0);
    CHECK(handle > 0 && arm_stop(handle, ARM_GOOD, 0, 0, 0) == 0);
}

static void data_of_any_kind(void)
{
    char bytes[1100];
    int shop = init("Bytes", 0), id = getid(shop, "t");
    for (unsigned at = 0; at < sizeof bytes; at++) {
        bytes[at] = (char)(at * 37);
    }
    for (int format = -1; format < 104; format++) {
        for (int size = -1; size < 300; size += 13) {
            char *data = bytes + 1; /* no alignment is asked for */
            memcpy(data, &format, sizeof format);
            int handle = arm_start(id, format, data, size);
            CHECK(handle > 0);
            CHECK(arm_update(handle, size, data, size) == 0);
            CHECK(arm_stop(handle, ARM_GOOD, 0, data, size) == 0);
        }
        drain();
    }
    CHECK(arm_update(0, 0, bytes, 1000) == 0);
}

static void children_of_fork(void)
{
    int shop = init("Fork", 0), id = getid(shop, "t"), handle = arm_start(id, 0, 0, 0), status;
    pid_t child = fork();
    if (child == 0) {
        failures = 0;
        CHECK(getid(shop, "t") == id && getid(shop, "of the child") > 0);
        CHECK(listens(1) > 0);
        CHECK(arm_stop(handle, ARM_GOOD, 0, 0, 0) == -2);
        int own = arm_start(id, 0, 0, 0);
        CHECK(own > 0 && arm_stop(own, ARM_GOOD, 0, 0, 0) == 0);
        _exit(failures != 0);
    }
    CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0);
    CHECK(arm_stop(handle, ARM_GOOD, 0, 0, 0) == 0);
}

static int threads_id;

static void *starts_and_stops(void *pairs)
{
    for (int pair = 0; pair < *(int *)pairs; pair++) {
        int handle = arm_start(threads_id, 0, 0, 0);
        int id = getid(threads_id > 0 ? init("Threads", 0) : 0, "t");
        if (handle < 0 || id != threads_id || (handle > 0 && arm_stop(handle, ARM_GOOD, 0, 0, 0) != 0)) {
            return pairs;
        }
    }
    return 0;
}

static void threads(int pairs)
{
    pthread_t all[8];
    void *wrong;
    threads_id = getid(init("Threads", 0), "t");
    for (int one = 0; one < 8; one++) {
        CHECK(pthread_create(&all[one], 0, starts_and_stops, &pairs) == 0);
    }
    for (int one = 0; one < 8; one++) {
        CHECK(pthread_join(all[one], &wrong) == 0 && !wrong);
    }
}

static volatile sig_atomic_t signals, wrong_in_signal;
static int signal_id;

static void handler(int number)
{
    int handle = arm_start(signal_id, 0, 0, 0);
    wrong_in_signal |= handle < 0 || (handle > 0 && arm_stop(handle, ARM_GOOD, 0, 0, 0) != 0);
    signals += number == SIGALRM;
}

static void signals_arrive_anywhere(void)
{
    struct itimerval every = { { 0, 500 }, { 0, 500 } }, never = { { 0, 0 }, { 0, 0 } };
    int pairs = 0;
    signal_id = getid(init("Signals", 0), "t");
    signal(SIGALRM, handler);
    setitimer(ITIMER_REAL, &every, 0);
    while (signals < 50 && pairs < 100000000) {
        int handle = arm_start(signal_id, 0, 0, 0);
        wrong_in_signal |= handle < 0 || (handle > 0 && arm_stop(handle, ARM_GOOD, 0, 0, 0) != 0);
        if (++pairs % 1000 == 0) {
            drain();
        }
    }
    setitimer(ITIMER_REAL, &never, 0);
    CHECK(signals >= 50 && !wrong_in_signal);
}

/* The last one: afterwards there is no room. */
static void more_names_than_there_is_room_for(void)
{
    int shop = init("Many", 0), first = getid(shop, "t0"), last = 0, at = 0;
    for (; at < 5000 && last >= 0; at++) {
        char name[20];
        snprintf(name, sizeof name, "t%d", at);
        last = getid(shop, name);
    }
    CHECK(last == -4 && at > 3000 && at < 4097);
    CHECK(getid(shop, "t0") == first && arm_start(last, 0, 0, 0) == last);
    CHECK(init("No room for this one", 0) == -4);
    int handle = arm_start(first, 0, 0, 0);
    CHECK(handle >= 0 && arm_stop(handle, ARM_GOOD, 0, 0, 0) == 0);
}

int main(int count, char **arguments)
{
    int pairs = count > 1 ? atoi(arguments[1]) : 1000;
    CHECK(init("First", 0) > 0 && listens(1) > 0);
    names();
    data_names_a_transaction();
    nothing_is_done_for_negative_ids();
    what_was_never_given_out_is_an_error();
    without_an_agent();
    callers_with_long();
    handles();
    an_application_ends();
    children_of_fork();
    data_of_any_kind();
    threads(pairs);
    signals_arrive_anywhere();
    more_names_than_there_is_room_for();
    return failures != 0;
}
