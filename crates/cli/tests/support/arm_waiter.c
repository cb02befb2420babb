/* Transactions that each wait for one thing, or compute, 10 ms long, again and again until SIGTERM; begun when an agent
 * listens. `handed` is stopped by another thread than the one that started it. */
#include <arm4.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define WAIT_US 10000

static volatile sig_atomic_t over;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int to_helper[2], from_helper[2];
static arm_tran_start_handle_t handed;

static void end(int signal) {
    (void)signal;
    over = 1;
}

static int tell(int file, char what) {
    return write(file, &what, 1) == 1;
}

static char hear(int file) {
    char what = 0;
    return read(file, &what, 1) == 1 ? what : 0;
}

/* A thread that holds the lock for a while, or stops a transaction. */
static void *helper(void *nothing) {
    for (char what; (what = hear(to_helper[0])) != 0;) {
        if (what == 'l') {
            pthread_mutex_lock(&lock);
            tell(from_helper[1], what);
            usleep(WAIT_US);
            pthread_mutex_unlock(&lock);
        } else {
            usleep(WAIT_US);
            arm_stop_transaction(handed, ARM_STATUS_GOOD, ARM_FLAG_NONE, NULL);
            tell(from_helper[1], what);
        }
    }
    return nothing;
}

/* Another process, which answers after a while. */
static void answer(int asked) {
    signal(SIGTERM, SIG_IGN);
    for (char what; (what = hear(asked)) != 0;) {
        usleep(WAIT_US);
        tell(asked, what);
    }
}

static void compute(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    long until_us = now.tv_sec * 1000000 + now.tv_nsec / 1000 + WAIT_US;
    while (now.tv_sec * 1000000 + now.tv_nsec / 1000 < until_us)
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
}

int main(void) {
    static const char *const names[] = {"sleep", "lock", "ask", "compute", "handed"};
    enum { COUNT = sizeof names / sizeof *names };
    int ends[2];
    pthread_t thread;
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0)
        return 2;
    if (fork() == 0) {
        close(ends[0]);
        answer(ends[1]);
        return 0;
    }
    close(ends[1]);
    signal(SIGTERM, end);
    /* Behind the fork: the other process must not keep them open. */
    if (pipe(to_helper) != 0 || pipe(from_helper) != 0 || pthread_create(&thread, NULL, helper, NULL) != 0)
        return 2;

    arm_id_t application, transactions[COUNT];
    arm_app_start_handle_t here;
    arm_register_application("waiter", NULL, ARM_FLAG_NONE, NULL, &application);
    for (int number = 0; number < COUNT; number++)
        arm_register_transaction(&application, names[number], NULL, ARM_FLAG_NONE, NULL, &transactions[number]);
    arm_start_application(&application, NULL, NULL, ARM_FLAG_NONE, NULL, &here);
    for (int round = 0; !over; round++) {
        int number = round % COUNT;
        arm_tran_start_handle_t running = 0;
        if (names[number][0] == 'l') {
            /* Held already when the transaction begins. */
            tell(to_helper[1], 'l');
            hear(from_helper[0]);
        }
        arm_start_transaction(here, &transactions[number], NULL, ARM_FLAG_NONE, NULL, &running, NULL);
        switch (names[number][0]) {
        case 's':
            usleep(WAIT_US);
            break;
        case 'l':
            pthread_mutex_lock(&lock);
            pthread_mutex_unlock(&lock);
            break;
        case 'a':
            tell(ends[0], 'a');
            hear(ends[0]);
            break;
        case 'c':
            compute();
            break;
        default:
            handed = running;
            tell(to_helper[1], 'h');
            hear(from_helper[0]);
            continue;
        }
        arm_stop_transaction(running, ARM_STATUS_GOOD, ARM_FLAG_NONE, NULL);
    }
    close(to_helper[1]);
    pthread_join(thread, NULL);
    arm_stop_application(here, ARM_FLAG_NONE, NULL);
    arm_destroy_application(&application, ARM_FLAG_NONE, NULL);
    return 0;
}
