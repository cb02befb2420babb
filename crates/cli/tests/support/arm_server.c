/* A server of one thread that tells of its transactions by ARM: an order computes, then asks a bank, which takes its
   time. Its port is the first argument. */
#include <arm4.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static void compute(long ns) {
    struct timespec begin, now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begin);
    do
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    while ((now.tv_sec - begin.tv_sec) * 1000000000L + now.tv_nsec - begin.tv_nsec < ns);
}

int main(int count, char **arguments) {
    static const char answer[] = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    arm_id_t shop, order, payment;
    arm_app_start_handle_t here;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int yes = 1, listener = socket(AF_INET, SOCK_STREAM, 0);
    if (count < 2)
        return 2;
    address.sin_port = htons(atoi(arguments[1]));
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    arm_register_application("shop", NULL, ARM_FLAG_NONE, NULL, &shop);
    arm_register_transaction(&shop, "order", NULL, ARM_FLAG_NONE, NULL, &order);
    arm_register_transaction(&shop, "payment", NULL, ARM_FLAG_NONE, NULL, &payment);
    arm_start_application(&shop, NULL, NULL, ARM_FLAG_NONE, NULL, &here);
    if (bind(listener, (struct sockaddr *)&address, sizeof address) || listen(listener, 64))
        return 1;
    for (;;) {
        char request[4096];
        int connection = accept(listener, NULL, NULL);
        while (read(connection, request, sizeof request) > 0) {
            arm_tran_start_handle_t ordering, paying;
            arm_correlator_t of_order;
            arm_start_transaction(here, &order, NULL, ARM_FLAG_NONE, NULL, &ordering, &of_order);
            compute(1000000);
            arm_start_transaction(here, &payment, &of_order, ARM_FLAG_NONE, NULL, &paying, NULL);
            usleep(4000);
            arm_stop_transaction(paying, ARM_STATUS_GOOD, ARM_FLAG_NONE, NULL);
            compute(1000000);
            arm_stop_transaction(ordering, ARM_STATUS_GOOD, ARM_FLAG_NONE, NULL);
            if (write(connection, answer, sizeof answer - 1) < 0)
                break;
        }
        close(connection);
    }
}
