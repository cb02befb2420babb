/* A handler of signals that itself records, at any moment: each record is there once, whole and in order. */

#include <arm4.h>
#include <signal.h>
#include <sys/time.h>
#include "listener.h"

static arm_id_t application, transaction, of_handler;
static arm_app_start_handle_t instance;
static volatile uint64_t in_handler;

static void handle_alarm(int number)
{
    (void)number;
    arm_tran_start_handle_t handle;
    CHECK(arm_start_transaction(instance, &of_handler, NULL, 0, NULL, &handle, NULL) == 0);
    CHECK(arm_stop_transaction(handle, ARM_STATUS_GOOD, 0, NULL) == 0);
    in_handler += handle > 0;
}

int main(void)
{
    CHECK(arm_register_application("signals", NULL, 0, NULL, &application) == 0);
    CHECK(arm_register_transaction(&application, "main", NULL, 0, NULL, &transaction) == 0);
    CHECK(arm_register_transaction(&application, "handler", NULL, 0, NULL, &of_handler) == 0);
    CHECK(arm_start_application(&application, NULL, NULL, 0, NULL, &instance) == 0);
    attach();
    listen_now(1);
    struct sigaction action = {.sa_handler = handle_alarm};
    CHECK(sigaction(SIGALRM, &action, NULL) == 0);
    struct itimerval often = {{0, 50}, {0, 50}}, never = {{0, 0}, {0, 0}};
    uint64_t recorded = 0, read = 0;
    CHECK(setitimer(ITIMER_REAL, &often, NULL) == 0);
    for (int round = 0; round < ROUNDS; round++) {
        for (int pair = 0; pair < 500; pair++) {
            arm_tran_start_handle_t handle;
            CHECK(arm_start_transaction(instance, &transaction, NULL, 0, NULL, &handle, NULL) == 0);
            CHECK(arm_stop_transaction(handle, ARM_STATUS_GOOD, 0, NULL) == 0);
            recorded += handle > 0;
        }
        read += drain(ARM_STOP);
    }
    CHECK(setitimer(ITIMER_REAL, &never, NULL) == 0);
    read += drain(ARM_STOP);
    CHECK(sum_of(LANE_DROPPED) == 0 && word(HEAD_LANELESS) == 0);
    CHECK(recorded == ROUNDS * 500ull && read == recorded + in_handler && in_handler > 10);
    return 0;
}
