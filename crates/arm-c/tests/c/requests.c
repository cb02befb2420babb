/* weir's own calls for requests record the same as the standard's, for any request content and any place in a lane. */

#include <arm4.h>
#include <weir_arm.h>
#include <time.h>
#include "listener.h"

static arm_id_t application, transaction;
static arm_app_start_handle_t instance;

/* A detail as it was read. */
struct detail {
    int field, index;
    uint32_t whole_bytes, offset;
    uint64_t payload[8][4];
};
/* All that was told with an end, in its order. */
struct told {
    int count;
    struct detail details[64];
    struct record stop;
};

static struct told ended(arm_tran_start_handle_t handle)
{
    struct told told = {0};
    struct record record;
    while (take(&record)) {
        CHECK(record.a == (uint64_t)handle);
        if (record.kind == ARM_STOP) {
            told.stop = record;
            return told;
        }
        CHECK(record.kind == ARM_DETAIL && told.count < 64);
        struct detail *one = &told.details[told.count++];
        one->field = (int)(record.b & 255);
        one->index = (int)(record.b >> 8 & 255);
        one->offset = (uint32_t)(record.b >> 16 & 0xffff);
        one->whole_bytes = (uint32_t)(record.b >> 32);
        memcpy(one->payload, record.payload, sizeof one->payload);
    }
    CHECK(!"an end");
    return told;
}

static int64_t unix_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static uint64_t monotonic_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* Whether a time lies between two others, but for what two clocks may differ: the program may be held up at any place. */
static int is_between(uint64_t time_ns, uint64_t from_ns, uint64_t to_ns)
{
    uint64_t most = 1000 * 1000;
    return time_ns + most >= from_ns && time_ns <= to_ns + most;
}

/* A request by weir's calls. */
static struct told by_own(const arm_correlator_t *parent, arm_tran_status_t status, weir_arm_request *told,
                          arm_correlator_t *correlator)
{
    const uint64_t ago_ns = 1500 * 1000;
    uint64_t before_ns = monotonic_ns();
    arm_int64_t came_us = unix_us() - (arm_int64_t)ago_ns / 1000;
    uint64_t begun_ns = monotonic_ns();
    arm_tran_start_handle_t handle =
        weir_arm_start_request(instance, &transaction, parent, came_us, &told->arrived_ns);
    CHECK(handle > 0);
    weir_arm_request_correlator(handle, parent, correlator);
    struct record start = expect(ARM_START);
    CHECK(start.a == (uint64_t)handle && start.slots == 1 + (parent != NULL) && start.flags == (18 | (parent != NULL)));
    CHECK(start.payload[parent != NULL][0] == (uint64_t)told->arrived_ns);
    CHECK(is_between((uint64_t)told->arrived_ns, before_ns - ago_ns, begun_ns - ago_ns));
    CHECK(is_between(start.time_ns, begun_ns, monotonic_ns()));
    if (told->answered_ns) told->answered_ns = told->arrived_ns + 40999;
    weir_arm_stop_request(handle, status, told);
    return ended(handle);
}

/* The same by the standard's, with the times that the former had. */
static struct told by_standard(const arm_correlator_t *parent, arm_tran_status_t status, const weir_arm_request *told,
                               uint64_t ended_ns, arm_correlator_t *correlator)
{
    arm_tran_start_handle_t handle;
    arm_subbuffer_arrival_time_usec_t arrival = {{ARM_SUBBUFFER_ARRIVAL_TIME_USEC}, unix_us() - 1500};
    arm_subbuffer_t *at_start[] = {ARM_SB(arrival)};
    arm_buffer4_t start_buffer = {1, at_start};
    CHECK(arm_start_transaction(instance, &transaction, parent, 0, &start_buffer, &handle, correlator) == 0);
    struct record start = expect(ARM_START);
    CHECK(start.a == (uint64_t)handle && start.slots == 1 + (parent != NULL) && start.flags == (18 | (parent != NULL)));
    const char *context[] = {told->method, told->host};
    arm_metric_t metrics[4] = {{0, ARM_METRIC_FORMAT_NUMERICID32, ARM_METRIC_USE_TRAN_STATUS, ARM_TRUE, {told->code}}};
    int count = 1;
    int64_t values[] = {0, told->bytes, (told->answered_ns - told->arrived_ns) / 1000,
                        ((int64_t)ended_ns - told->arrived_ns) / 1000};
    for (int slot = 1; slot < 4; slot++) {
        if (slot == 2 && !told->answered_ns) continue;
        metrics[count] = (arm_metric_t){(arm_metric_slot_t)slot, ARM_METRIC_FORMAT_GAUGE64,
                                        slot == 1 ? ARM_METRIC_USE_TRAN_SIZE : ARM_METRIC_USE_GENERAL, ARM_TRUE, {0}};
        metrics[count++].metric_u.gauge64 = values[slot];
    }
    arm_subbuffer_metric_values_t metric_values = {{ARM_SUBBUFFER_METRIC_VALUES}, count, metrics};
    arm_subbuffer_tran_context_t tran_context = {{ARM_SUBBUFFER_TRAN_CONTEXT}, 2, context, told->path};
    arm_subbuffer_system_address_t client = {
        {ARM_SUBBUFFER_SYSTEM_ADDRESS}, told->address_format, told->address_length, told->address, ARM_FALSE, {{{0}}}};
    arm_subbuffer_user_t user = {{ARM_SUBBUFFER_USER}, told->user, ARM_FALSE, {{{0}}}};
    arm_subbuffer_diag_detail_t why = {{ARM_SUBBUFFER_DIAG_DETAIL}, told->diagnosis};
    arm_subbuffer_t *at_end[] = {ARM_SB(metric_values), ARM_SB(tran_context),
                                 told->address_length ? ARM_SB(client) : NULL, ARM_SB(user), ARM_SB(why)};
    arm_buffer4_t buffer = {5, at_end};
    CHECK(arm_stop_transaction(handle, status, 0, &buffer) >= 0);
    return ended(handle);
}

/* The trace of two correlators of ours is the same, and both were recorded; their spans are their own. */
static void are_relatives(const arm_correlator_t *own, const arm_correlator_t *standard, const arm_correlator_t *parent)
{
    CHECK(memcmp(own, standard, 4) == 0 && own->opaque[1] == 28 && own->opaque[3] == 0x40);
    CHECK(memcmp(own->opaque + 20, standard->opaque + 20, 8) != 0);
    CHECK(memcmp(own->opaque + 4, standard->opaque + 4, parent ? 16 : 8) == 0);
    CHECK(!parent || memcmp(own->opaque + 4, parent->opaque + 4, 16) == 0);
}

static void compare(const arm_correlator_t *parent, arm_tran_status_t status, weir_arm_request told)
{
    arm_correlator_t own, standard, again;
    uint64_t begun_ns = monotonic_ns();
    struct told one = by_own(parent, status, &told, &own);
    uint64_t over_ns = monotonic_ns();
    struct told other = by_standard(parent, status, &told, one.stop.time_ns, &standard);
    weir_arm_request_correlator((arm_tran_start_handle_t)one.stop.a, parent, &again);
    CHECK(memcmp(&own, &again, 28) == 0);
    are_relatives(&own, &standard, parent);
    CHECK(one.stop.b == (uint64_t)status && other.stop.b == (uint64_t)status);
    CHECK(is_between(one.stop.time_ns, begun_ns, over_ns));
    if (one.count != other.count) fprintf(stderr, "%d details in place of %d\n", one.count, other.count);
    CHECK(one.count == other.count);
    for (int at = 0; at < one.count; at++) CHECK(memcmp(&one.details[at], &other.details[at], sizeof one.details[at]) == 0);
}

static char *letters(size_t length)
{
    char *text = malloc(length + 1);
    CHECK(text);
    memset(text, 'x', length);
    text[length] = 0;
    return text;
}

static void any_content_of_a_request(const arm_correlator_t *parent)
{
    static const arm_uint8_t address[18] = {192, 0, 2, 1, 200, 10, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18};
    weir_arm_request usual = {
        .method = "GET",
        .host = "www.example.org",
        .path = "/shop/item/17",
        .address = address,
        .address_format = ARM_SYSADDR_FORMAT_IPV4PORT,
        .address_length = 6,
        .code = 200,
        .bytes = 12345,
        .answered_ns = 1,
    };
    compare(parent, ARM_STATUS_GOOD, usual);
    compare(NULL, ARM_STATUS_GOOD, usual);
    weir_arm_request all = usual;
    all.user = "customer";
    all.diagnosis = "500 Internal Server Error";
    all.address_format = ARM_SYSADDR_FORMAT_IPV6PORT;
    all.address_length = 18;
    all.code = 500;
    compare(parent, ARM_STATUS_FAILED, all);
    weir_arm_request nothing = {.code = -1, .bytes = -1};
    compare(NULL, ARM_STATUS_UNKNOWN, nothing);
    weir_arm_request unanswered = usual;
    unanswered.answered_ns = 0;
    compare(NULL, ARM_STATUS_ABORTED, unanswered);
    /* Lengths about all bounds: of how texts are copied, of a record, of what the standard allows. */
    for (size_t length = 0; length < 300; length++) {
        weir_arm_request longer = usual;
        char *text = letters(length);
        longer.path = text;
        compare(NULL, ARM_STATUS_GOOD, longer);
        longer.path = "/";
        longer.host = text;
        compare(NULL, ARM_STATUS_GOOD, longer);
        free(text);
    }
    size_t lengths[] = {126, 127, 128, 254, 255, 256, 4094, 4095, 4096, 4097, 13000};
    for (size_t at = 0; at < sizeof lengths / sizeof *lengths; at++) {
        weir_arm_request longer = usual;
        char *text = letters(lengths[at]);
        longer.path = longer.user = longer.diagnosis = text;
        compare(parent, ARM_STATUS_GOOD, longer);
        free(text);
    }
    /* Cut between characters, not within one. */
    char *umlauts = letters(400);
    for (int at = 0; at < 400; at += 2) memcpy(umlauts + at, "\303\244", 2);
    weir_arm_request cut = usual;
    cut.user = umlauts;
    compare(NULL, ARM_STATUS_GOOD, cut);
    free(umlauts);
    /* More than twice around the lane, so that an end comes to lie over its seam at each place. */
    for (int round = 0; round < 8000; round++) {
        weir_arm_request next = usual;
        char path[32];
        snprintf(path, sizeof path, "/%.*s", round % 23, "abcdefghijklmnopqrstuvwxyz");
        next.path = path;
        compare(round % 3 ? NULL : parent, ARM_STATUS_GOOD, next);
    }
}

/* A full lane drops an end and counts it; nothing behind what is free is touched, and then it goes on. */
static void where_there_is_no_room(void)
{
    static const arm_uint8_t address[6] = {192, 0, 2, 1, 200, 10};
    weir_arm_request told = {.method = "GET", .path = "/", .address = address, .address_format = 2, .address_length = 6};
    uint64_t dropped = sum_of(LANE_DROPPED), begun = 0, counted = 0;
    for (int round = 0; round < LANE_SLOTS; round++) {
        arm_tran_start_handle_t handle =
            weir_arm_start_request(instance, &transaction, NULL, unix_us(), &told.arrived_ns);
        begun += handle != 0;
        weir_arm_stop_request(handle, ARM_STATUS_GOOD, &told);
    }
    CHECK(sum_of(LANE_DROPPED) > dropped && begun > LANE_SLOTS / 8);
    struct record record;
    uint64_t ends = 0;
    while (take(&record)) {
        counted += record.kind == ARM_START;
        ends += record.kind == ARM_STOP;
    }
    CHECK(counted == begun && ends <= begun && ends + 2 > begun);
    told.host = "again";
    compare(NULL, ARM_STATUS_GOOD, told);
}

static void null_and_nonsense(void)
{
    weir_arm_request told = {.method = "GET"};
    arm_correlator_t broken = {{0}};
    arm_int64_t came;
    CHECK(weir_arm_start_request(instance, &transaction, NULL, unix_us(), NULL) == 0);
    CHECK(drain(ARM_START) == 0);
    weir_arm_stop_request(0, ARM_STATUS_GOOD, &told);
    weir_arm_stop_request(-5, ARM_STATUS_GOOD, &told);
    weir_arm_stop_request(INT64_MAX, ARM_STATUS_GOOD, &told);
    weir_arm_request_correlator(INT64_MAX, NULL, NULL);
    CHECK(drain(ARM_STOP) == 0);
    /* What is not known is recorded as such, as by the standard's call; a parent that is none is none. */
    arm_tran_start_handle_t handle = weir_arm_start_request(77, NULL, &broken, INT64_MAX, &came);
    CHECK(handle > 0 && (uint64_t)came <= monotonic_ns());
    struct record start = expect(ARM_START);
    CHECK(start.b == 0 && start.slots == 1);
    weir_arm_stop_request(handle, 17, &told);
    CHECK(ended(handle).stop.b == ARM_STATUS_UNKNOWN);
    handle = weir_arm_start_request(instance, &transaction, NULL, INT64_MIN, &came);
    CHECK(handle > 0 && came == 0 && expect(ARM_START).slots == 0);
    weir_arm_stop_request(handle, 0, NULL);
    CHECK(drain(ARM_STOP) == 0);
}

int main(void)
{
    arm_int64_t came = -1;
    weir_arm_request told = {.method = "GET"};
    CHECK(weir_arm_start_request(instance, &transaction, NULL, 0, &came) == 0);
    CHECK(arm_register_application("shop", NULL, 0, NULL, &application) == 0);
    CHECK(arm_register_transaction(&application, "page", NULL, 0, NULL, &transaction) == 0);
    CHECK(arm_start_application(&application, NULL, NULL, 0, NULL, &instance) == 0);
    attach();
    CHECK(weir_arm_start_request(instance, &transaction, NULL, unix_us(), &came) == 0);
    listen_now(1);
    arm_tran_start_handle_t above;
    arm_correlator_t parent;
    CHECK(arm_start_transaction(instance, &transaction, NULL, 0, NULL, &above, &parent) == 0);
    drain(ARM_START);
    any_content_of_a_request(&parent);
    where_there_is_no_room();
    null_and_nonsense();
    /* The switch holds for them, too. */
    set_switch(1, SWITCH_OFF);
    set_switch(2, SWITCH_OFF);
    CHECK(weir_arm_start_request(instance, &transaction, NULL, unix_us(), &came) == 0);
    CHECK(drain(ARM_START) == 0 && sum_of(LANE_SKIPPED) == 1);
    /* The agent is gone: a running request ends without a record. */
    set_switch(2, 0);
    arm_tran_start_handle_t last = weir_arm_start_request(instance, &transaction, NULL, unix_us(), &came);
    CHECK(last > 0 && drain(ARM_START) == 1);
    listen_now(0);
    weir_arm_stop_request(last, ARM_STATUS_GOOD, &told);
    CHECK(drain(ARM_STOP) == 0);
    return 0;
}
