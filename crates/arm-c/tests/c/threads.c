/* Many threads: each record is written or counted as lost, lanes come back, stops come from any thread. */

#include <arm4.h>
#include <pthread.h>
#include <sys/syscall.h>
#include "listener.h"

enum { FEW = 8, MANY = 140 };

static arm_id_t application, transaction;
static arm_app_start_handle_t instance;
static int pairs;
static uint64_t stopped_elsewhere;

static void *work(void *unused)
{
    (void)unused;
    for (int round = 0; round < pairs; round++) {
        arm_tran_start_handle_t handle;
        CHECK(arm_start_transaction(instance, &transaction, NULL, 0, NULL, &handle, NULL) == 0);
        CHECK(arm_stop_transaction(handle, ARM_STATUS_GOOD, 0, NULL) == 0);
    }
    return NULL;
}

/* Registers the same as the other threads, at the same time. */
static void *registers(void *out)
{
    for (int number = 0; number < 50; number++) {
        char name[32];
        snprintf(name, sizeof name, "same %d", number);
        CHECK(arm_register_transaction(&application, name, NULL, 0, NULL, (arm_id_t *)out + number) == 0);
    }
    return NULL;
}

static void *stops(void *handle)
{
    CHECK(arm_update_transaction(*(arm_tran_start_handle_t *)handle, 0, NULL) == 0);
    CHECK(arm_stop_transaction(*(arm_tran_start_handle_t *)handle, ARM_STATUS_GOOD, 0, NULL) == 0);
    __atomic_add_fetch(&stopped_elsewhere, 1, __ATOMIC_RELAXED);
    return NULL;
}

/* Holds a lane until all have one. */
static pthread_barrier_t barrier;

static void *holds(void *unused)
{
    arm_tran_start_handle_t handle;
    CHECK(arm_start_transaction(instance, &transaction, NULL, 0, NULL, &handle, NULL) == 0);
    pthread_barrier_wait(&barrier);
    return work(unused);
}

static void run(int count, void *(*what)(void *), void *argument, size_t step)
{
    pthread_t threads[MANY];
    for (int number = 0; number < count; number++)
        CHECK(pthread_create(&threads[number], NULL, what, (char *)argument + step * (size_t)number) == 0);
    for (int number = 0; number < count; number++) CHECK(pthread_join(threads[number], NULL) == 0);
}

#ifdef WITHOUT_A_WORD
/* Ends so that nothing of the thread's end runs. */
static void *vanishes(void *unused)
{
    work(unused);
    syscall(SYS_exit, 0);
    return NULL;
}
#endif

static uint64_t owned(void)
{
    uint64_t count = 0;
    for (int lane = 0; lane < LANES; lane++) count += *position(lane, LANE_OWNER) != 0;
    return count;
}

int main(void)
{
    CHECK(arm_register_application("threads", NULL, 0, NULL, &application) == 0);
    CHECK(arm_register_transaction(&application, "t", NULL, 0, NULL, &transaction) == 0);
    CHECK(arm_start_application(&application, NULL, NULL, 0, NULL, &instance) == 0);
    attach();
    listen_now(1);

    static arm_id_t ids[FEW][50];
    run(FEW, registers, ids, sizeof ids[0]);
    for (int thread = 1; thread < FEW; thread++) CHECK(memcmp(ids[0], ids[thread], sizeof ids[0]) == 0);
    CHECK(word(HEAD_DEFINITIONS_DROPPED) == 0);

    /* As many as one lane holds, should the threads come one after another. */
    pairs = LANE_SLOTS / 2 / FEW;
    run(FEW, work, NULL, 0);
    CHECK(drain(ARM_STOP) == LANE_SLOTS / 2 && sum_of(LANE_DROPPED) == 0 && owned() == 0);
    /* One thread after another: the lanes are used again. */
    pairs = 1;
    for (int round = 0; round < 200; round++) run(1, work, NULL, 0);
    CHECK(word(HEAD_LANES_USED) <= FEW && owned() == 0);
    CHECK(drain(ARM_STOP) == 200);

    arm_tran_start_handle_t handles[FEW];
    for (int number = 0; number < FEW; number++)
        CHECK(arm_start_transaction(instance, &transaction, NULL, 0, NULL, &handles[number], NULL) == 0);
    run(FEW, stops, handles, sizeof *handles);
    CHECK(stopped_elsewhere == FEW && drain(ARM_STOP) == FEW);

#ifdef WITHOUT_A_WORD
    /* Threads that vanish leave their lanes taken, until others need them. */
    pairs = 1;
    for (int number = 0; number < LANES; number++) run(1, vanishes, NULL, 0);
    CHECK(owned() > 100 && owned() < LANES && word(HEAD_LANES_USED) < LANES);
    CHECK(drain(ARM_STOP) == LANES && word(HEAD_LANELESS) == 0);
#endif

    /* More threads than lanes: those without one share some, and what finds none is counted. */
    CHECK(pthread_barrier_init(&barrier, NULL, MANY) == 0);
    pairs = 40;
    run(MANY, holds, NULL, 0);
    uint64_t starts = 0, ends = 0;
    struct record record;
    while (take(&record)) {
        starts += record.kind == ARM_START;
        ends += record.kind == ARM_STOP;
    }
    uint64_t lost = word(HEAD_LANELESS) + sum_of(LANE_DROPPED);
    /* Which of the shared lanes are used depends on the threads' numbers, between which other programs take some. */
    CHECK(word(HEAD_LANES_USED) > LANES - SHARED_LANES && owned() == 1);
    /* A start that is lost has no stop; so each loss costs one record or two. */
    CHECK(starts + lost >= MANY * 41 && starts <= MANY * 41 && ends <= starts);
    CHECK(starts + ends + 2 * lost >= MANY * 81);
    if (!lost) CHECK(starts == MANY * 41 && ends == MANY * 40);
    return 0;
}
