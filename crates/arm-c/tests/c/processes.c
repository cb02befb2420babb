/* Forks, however made, programs that become others, and programs that close what is not theirs. */

#include <arm4.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include "listener.h"

static arm_id_t application, transaction;
static arm_app_start_handle_t instance;
static arm_tran_start_handle_t of_parent;
static uint64_t parents_bytes, parents_token;

static arm_tran_start_handle_t started(void)
{
    arm_tran_start_handle_t handle = -7;
    CHECK(arm_start_transaction(instance, &transaction, NULL, 0, NULL, &handle, NULL) == 0);
    return handle;
}

/* What holds in a child: the parent's handles are refused, the ids hold, the memory is its own. */
static void child(void)
{
    arm_tran_start_handle_t handle = -7;
    CHECK(arm_stop_transaction(of_parent, 0, 0, NULL) < 0);
    CHECK(arm_update_transaction(of_parent, 0, NULL) < 0);
    CHECK(arm_start_transaction(instance, &transaction, NULL, 0, NULL, &handle, NULL) < 0 && handle == 0);
    attach();
    CHECK(word(HEAD_DEFINED_BYTES) == parents_bytes && word(HEAD_TOKEN) != parents_token);
    listen_now(1);
    CHECK(arm_start_application(&application, NULL, NULL, 0, NULL, &instance) == 0);
    CHECK(expect(ARM_INSTANCE).b == 1);
    handle = started();
    CHECK(handle > 0 && handle != of_parent);
    CHECK(arm_stop_transaction(handle, 0, 0, NULL) == 0);
    expect(ARM_START);
    CHECK(expect(ARM_STOP).a == (uint64_t)handle);
    arm_id_t again;
    CHECK(arm_register_transaction(&application, "t", NULL, 0, NULL, &again) == 0);
    CHECK(memcmp(&again, &transaction, 16) == 0);
    CHECK(arm_register_transaction(&application, "only here", NULL, 0, NULL, &again) == 0);
}

static void wait_for(pid_t pid)
{
    int status;
    CHECK(pid > 0 && waitpid(pid, &status, 0) == pid);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static int ending;

static void *busy(void *unused)
{
    (void)unused;
    while (!__atomic_load_n(&ending, __ATOMIC_RELAXED)) {
        arm_stop_transaction(started(), 0, 0, NULL);
        arm_id_t id;
        arm_register_transaction(&application, "t", NULL, 0, NULL, &id);
        sched_yield();
    }
    return NULL;
}

int main(int count, char **arguments)
{
    if (count > 1) {
        /* What this program became. Nothing of the former one is here. */
        CHECK(find_memory() == -1 && strcmp(arguments[1], "after") == 0);
        arm_tran_start_handle_t handle = -1;
        CHECK(arm_start_transaction(instance, &transaction, NULL, 0, NULL, &handle, NULL) < 0 && handle == 0);
        return 0;
    }
    CHECK(arm_register_application("processes", NULL, 0, NULL, &application) == 0);
    CHECK(arm_register_transaction(&application, "t", NULL, 0, NULL, &transaction) == 0);
    CHECK(arm_start_application(&application, NULL, NULL, 0, NULL, &instance) == 0);
    attach();
    listen_now(1);
    of_parent = started();
    CHECK(of_parent > 0);
    parents_bytes = word(HEAD_DEFINED_BYTES);
    parents_token = word(HEAD_TOKEN);

    pid_t pid = fork();
    if (pid == 0) {
        child();
        /* And a child of the child. */
        parents_bytes = word(HEAD_DEFINED_BYTES);
        parents_token = word(HEAD_TOKEN);
        of_parent = started();
        pid = fork();
        if (pid == 0) {
            child();
            exit(0);
        }
        wait_for(pid);
        exit(0);
    }
    wait_for(pid);
#ifndef NO_RAW_CLONE
    pid = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
    if (pid == 0) {
        child();
        _exit(0);
    }
    wait_for(pid);
#endif
    /* The parent has noticed nothing. */
    CHECK(word(HEAD_TOKEN) == parents_token && arm_stop_transaction(of_parent, 0, 0, NULL) == 0);
    drain(0);

    /* Forks while other threads write and register. */
    pthread_t threads[2];
    for (int number = 0; number < 2; number++) CHECK(pthread_create(&threads[number], NULL, busy, NULL) == 0);
    for (int round = 0; round < FORKS; round++) {
        pid = fork();
        if (pid == 0) {
            child();
            _exit(0);
        }
        wait_for(pid);
        forget_all();
    }
    __atomic_store_n(&ending, 1, __ATOMIC_RELAXED);
    for (int number = 0; number < 2; number++) pthread_join(threads[number], NULL);

    /* A program that closes everything, and opens something else there. */
    pid = fork();
    if (pid == 0) {
        child();
        for (int descriptor = 3; descriptor < 128; descriptor++) close(descriptor);
        int other = open("/dev/zero", O_RDWR);
        CHECK(other == 3);
        for (int more = 0; more < 20; more++) dup(other);
        sleep(1);
        usleep(100000);
        arm_id_t id;
        CHECK(arm_register_transaction(&application, "after closing", NULL, 0, NULL, &id) == 0);
        attach();
        listen_now(1);
        arm_app_start_handle_t renewed;
        CHECK(arm_start_application(&application, NULL, NULL, 0, NULL, &renewed) == 0);
        arm_tran_start_handle_t handle;
        CHECK(arm_start_transaction(renewed, &id, NULL, 0, NULL, &handle, NULL) == 0 && handle > 0);
        _exit(0);
    }
    wait_for(pid);

    pid = fork();
    if (pid == 0) {
        child();
        execl(arguments[0], arguments[0], "after", NULL);
        _exit(1);
    }
    wait_for(pid);
    return 0;
}
