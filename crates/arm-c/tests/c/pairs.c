/* So many starts and stops, with a listener or without: for counting system calls and instructions. */

#include <arm4.h>
#include "listener.h"

int main(int count, char **arguments)
{
    CHECK(count == 3);
    long pairs = atol(arguments[1]);
    arm_id_t application, transaction;
    arm_app_start_handle_t instance;
    arm_tran_start_handle_t handle;
    CHECK(arm_register_application("pairs", NULL, 0, NULL, &application) == 0);
    CHECK(arm_register_transaction(&application, "t", NULL, 0, NULL, &transaction) == 0);
    CHECK(arm_start_application(&application, NULL, NULL, 0, NULL, &instance) == 0);
    attach();
    listen_now(arguments[2][0] == 'l');
    /* The first one takes a lane. */
    CHECK(arm_start_transaction(instance, &transaction, NULL, 0, NULL, &handle, NULL) == 0);
    write(1, "begin", 5);
    for (long pair = 0; pair < pairs; pair++) {
        arm_start_transaction(instance, &transaction, NULL, 0, NULL, &handle, NULL);
        arm_stop_transaction(handle, ARM_STATUS_GOOD, 0, NULL);
    }
    write(1, "end", 3);
    CHECK(sum_of(LANE_WRITTEN) == (arguments[2][0] == 'l' ? 1 + 2 * (uint64_t)pairs : 0) || sum_of(LANE_DROPPED) > 0);
    return 0;
}
