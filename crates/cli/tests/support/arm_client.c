/* A shop that asks a bank, another process, for each payment: arm_client ORDERS PAUSE_US FAIL_EVERY, where 0 orders are
 * as many as come until SIGTERM. It begins when an agent listens to both; at its end it prints how many there were. */
#include <arm4.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static volatile sig_atomic_t over;

static void end(int signal) {
    (void)signal;
    over = 1;
}

static int whole(int file, void *bytes, size_t length) {
    return read(file, bytes, length) == (ssize_t)length;
}

/* Waits until an agent listens, 10 s at most: from then on a start gives a handle. */
static void wait_for_agent(arm_app_start_handle_t here, const arm_id_t *transaction) {
    arm_tran_start_handle_t trial = 0;
    for (int tries = 0; tries < 10000 && trial == 0 && !over; tries++) {
        arm_start_transaction(here, transaction, NULL, ARM_FLAG_NONE, NULL, &trial, NULL);
        if (trial == 0)
            usleep(1000);
    }
    arm_discard_transaction(trial, ARM_FLAG_NONE, NULL);
}

/* Takes payments until the asking process closes its pipe. */
static void bank(int questions, int answers, unsigned pause_us, unsigned fail_every) {
    arm_id_t application, payment;
    arm_app_start_handle_t here;
    arm_correlator_t order;
    arm_register_application("bank", NULL, ARM_FLAG_NONE, NULL, &application);
    arm_register_transaction(&application, "payment", NULL, ARM_FLAG_NONE, NULL, &payment);
    arm_start_application(&application, NULL, NULL, ARM_FLAG_NONE, NULL, &here);
    wait_for_agent(here, &payment);
    if (write(answers, "", 1) != 1)
        return;
    for (unsigned number = 1; whole(questions, &order, sizeof order); number++) {
        arm_tran_start_handle_t paying;
        int fails = fail_every != 0 && number % fail_every == 0;
        arm_start_transaction(here, &payment, &order, ARM_FLAG_NONE, NULL, &paying, NULL);
        usleep(pause_us);
        arm_stop_transaction(paying, fails ? ARM_STATUS_FAILED : ARM_STATUS_GOOD, ARM_FLAG_NONE, NULL);
        if (write(answers, "", 1) != 1)
            break;
    }
    arm_stop_application(here, ARM_FLAG_NONE, NULL);
    arm_destroy_application(&application, ARM_FLAG_NONE, NULL);
}

int main(int count, char **words) {
    int to_bank[2], from_bank[2];
    if (count != 4 || pipe(to_bank) != 0 || pipe(from_bank) != 0)
        return 2;
    unsigned long orders = strtoul(words[1], NULL, 10), made = 0;
    unsigned pause_us = (unsigned)atoi(words[2]), fail_every = (unsigned)atoi(words[3]);
    if (fork() == 0) {
        signal(SIGTERM, SIG_IGN);
        close(to_bank[1]);
        close(from_bank[0]);
        /* The bank may be of another host's agent. */
        if (getenv("BANK_ARM_DIR"))
            setenv("WEIR_ARM_DIR", getenv("BANK_ARM_DIR"), 1);
        bank(to_bank[0], from_bank[1], pause_us, fail_every);
        return 0;
    }
    close(to_bank[0]);
    close(from_bank[1]);
    signal(SIGTERM, end);

    arm_id_t application, order, customer;
    arm_app_start_handle_t here;
    memset(&customer, 7, sizeof customer);
    arm_register_application("shop", NULL, ARM_FLAG_NONE, NULL, &application);
    arm_register_transaction(&application, "order", NULL, ARM_FLAG_NONE, NULL, &order);
    arm_start_application(&application, "shops", "one", ARM_FLAG_NONE, NULL, &here);
    arm_subbuffer_user_t user = {{ARM_SUBBUFFER_USER}, "ann", ARM_TRUE, customer};
    arm_subbuffer_t *told[] = {&user.header};
    arm_buffer4_t with_user = {1, told};
    char ready;
    wait_for_agent(here, &order);
    if (!whole(from_bank[0], &ready, 1))
        return 1;
    while (!over && (orders == 0 || made < orders)) {
        arm_tran_start_handle_t ordering;
        arm_tran_block_handle_t waiting;
        arm_correlator_t correlator;
        char answer;
        arm_start_transaction(here, &order, NULL, ARM_FLAG_NONE, &with_user, &ordering, &correlator);
        arm_block_transaction(ordering, ARM_FLAG_NONE, NULL, &waiting);
        if (write(to_bank[1], &correlator, sizeof correlator) != sizeof correlator || !whole(from_bank[0], &answer, 1))
            return 1;
        arm_unblock_transaction(ordering, waiting, ARM_FLAG_NONE, NULL);
        arm_stop_transaction(ordering, ARM_STATUS_GOOD, ARM_FLAG_NONE, NULL);
        made++;
    }
    arm_stop_application(here, ARM_FLAG_NONE, NULL);
    arm_destroy_application(&application, ARM_FLAG_NONE, NULL);
    close(to_bank[1]);
    printf("%lu\n", made);
    return 0;
}
