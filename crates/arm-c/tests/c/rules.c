/* What the standard asks of every call: nothing breaks, outputs can be used, the first of several alike counts. */

#include <arm4.h>
#include <limits.h>
#include <time.h>
#include "listener.h"

static arm_id_t application, transaction;
static arm_app_start_handle_t instance;

static arm_tran_start_handle_t started(void)
{
    arm_tran_start_handle_t handle = -7;
    CHECK(arm_start_transaction(instance, &transaction, NULL, 0, NULL, &handle, NULL) == 0);
    CHECK(handle >= 0);
    return handle;
}

static void before_anything_is_registered(void)
{
    arm_tran_start_handle_t handle = -7;
    arm_correlator_t correlator;
    CHECK(arm_start_transaction(5, &application, NULL, 0, NULL, &handle, &correlator) < 0);
    CHECK(handle == 0);
    CHECK(arm_stop_transaction(handle, ARM_STATUS_GOOD, 0, NULL) == 0);
    arm_correlator_length_t length = -1;
    CHECK(arm_get_correlator_length(&correlator, &length) == 0 && length == 28);
    CHECK(arm_stop_transaction(-1, ARM_STATUS_GOOD, 0, NULL) < 0);
    CHECK(arm_stop_transaction(LLONG_MAX, ARM_STATUS_GOOD, 0, NULL) < 0);
    CHECK(find_memory() == -1);
}

static void registering(void)
{
    arm_id_t again, other;
    CHECK(arm_register_application("shop", NULL, 0, NULL, &application) == 0);
    CHECK(arm_register_application("shop", NULL, 0, NULL, &again) == 0);
    CHECK(memcmp(&application, &again, 16) == 0);
    CHECK(arm_register_transaction(&application, "buy", NULL, 0, NULL, &transaction) == 0);
    CHECK(arm_register_transaction(&application, "buy", NULL, 0, NULL, &again) == 0);
    CHECK(memcmp(&transaction, &again, 16) == 0);
    CHECK(arm_register_transaction(&application, "sell", NULL, 0, NULL, &other) == 0);
    CHECK(memcmp(&transaction, &other, 16) != 0);
    CHECK(arm_start_application(&application, "group", "one", 0, NULL, &instance) == 0);
    CHECK(instance > 0);

    /* An id that the program chose stands for the same as the one that it got, and the first to take it keeps it. */
    arm_id_t chosen = {{{1, 2, 3}}}, zeros = {{{0}}}, ones, out;
    memset(&ones, 255, sizeof ones);
    CHECK(arm_register_transaction(&application, "chosen", &chosen, 0, NULL, &out) == 0);
    arm_tran_start_handle_t handle;
    CHECK(arm_start_transaction(instance, &chosen, NULL, 0, NULL, &handle, NULL) == 0);
    CHECK(arm_start_transaction(instance, &out, NULL, 0, NULL, &handle, NULL) == 0);
    CHECK(arm_register_transaction(&application, "another", &chosen, 0, NULL, &out) < 0);
    CHECK(arm_start_transaction(instance, &out, NULL, 0, NULL, &handle, NULL) == 0);
    CHECK(arm_register_transaction(&application, "zeros", &zeros, 0, NULL, &out) < 0);
    CHECK(arm_register_transaction(&application, "ones", &ones, 0, NULL, &out) < 0);
    CHECK(arm_start_transaction(instance, &out, NULL, 0, NULL, &handle, NULL) == 0);
    /* An application's chosen id is no transaction's. */
    CHECK(arm_register_application("chosen", &chosen, 0, NULL, &out) == 0);
    CHECK(arm_register_metric(&application, "bytes", ARM_METRIC_FORMAT_COUNTER64, ARM_METRIC_USE_TRAN_SIZE, "B", NULL, 0,
              NULL, &out) == 0);
    CHECK(arm_register_metric(&application, "bytes", 9, 0, "B", NULL, 0, NULL, &out) < 0);
}

static void null_and_nonsense(void)
{
    arm_id_t id;
    arm_tran_start_handle_t handle;
    arm_app_start_handle_t app;
    CHECK(arm_register_application(NULL, NULL, 0, NULL, &id) < 0);
    CHECK(arm_register_transaction(&id, "x", NULL, 0, NULL, &id) < 0);
    CHECK(arm_start_application(&id, NULL, NULL, 0, NULL, &app) < 0);
    CHECK(arm_start_transaction(app, &id, NULL, 0, NULL, &handle, NULL) == 0);
    CHECK(arm_stop_transaction(handle, 0, 0, NULL) == 0);
    CHECK(arm_register_application("shop", NULL, -1, NULL, NULL) == 0);
    CHECK(arm_register_transaction(NULL, NULL, NULL, 0, NULL, NULL) < 0);
    CHECK(arm_register_metric(NULL, NULL, 0, 0, NULL, NULL, 0, NULL, NULL) < 0);
    CHECK(arm_start_application(NULL, NULL, NULL, 0, NULL, NULL) < 0);
    CHECK(arm_destroy_application(NULL, 0, NULL) < 0);
    CHECK(arm_start_transaction(0, NULL, NULL, 0, NULL, NULL, NULL) < 0);
    CHECK(arm_block_transaction(0, 0, NULL, NULL) < 0);
    CHECK(arm_report_transaction(0, NULL, 0, 0, 0, NULL, NULL, 0, NULL) < 0);
    CHECK(arm_generate_correlator(0, NULL, NULL, 0, NULL, NULL) < 0);
    CHECK(arm_get_correlator_length(NULL, NULL) < 0);
    CHECK(arm_get_correlator_flags(NULL, 0, NULL) < 0);
    CHECK(arm_get_arrival_time(NULL) < 0);
    CHECK(arm_get_error_message(ARM_CHARSET_UTF8, 0, NULL) < 0);
    CHECK(arm_is_charset_supported(ARM_CHARSET_UTF8, NULL) < 0);
    CHECK(arm_stop_application(0x1234567, 0, NULL) < 0);
    CHECK(arm_stop_application(-1, 0, NULL) < 0);
    arm_buffer4_t empty = {-3, NULL}, null_entries = {3, (arm_subbuffer_t *[]){NULL, NULL, NULL}};
    arm_subbuffer_t strange = {4711};
    arm_buffer4_t unknown = {1, (arm_subbuffer_t *[]){&strange}};
    arm_buffer4_t *buffers[] = {&empty, &null_entries, &unknown};
    for (int at = 0; at < 3; at++) {
        CHECK(arm_register_application("shop", NULL, 0, buffers[at], &id) == 0);
        CHECK(arm_start_transaction(instance, &transaction, NULL, 0, buffers[at], &handle, NULL) == 0);
        CHECK(arm_update_transaction(handle, 0, buffers[at]) == 0);
        CHECK(arm_stop_transaction(handle, 0, 0, buffers[at]) == 0);
    }
    /* A name of another encoding, and one that is too long: both go on. */
    arm_subbuffer_charset_t charset = {{ARM_SUBBUFFER_CHARSET}, ARM_CHARSET_UTF16, 0};
    arm_buffer4_t encoded = {1, (arm_subbuffer_t *[]){ARM_SB(charset)}};
    CHECK(arm_register_application("other", NULL, 0, &encoded, &id) < 0);
    CHECK(arm_register_transaction(&id, "x", NULL, 0, NULL, &id) == 0);
    char name[2000];
    memset(name, 'n', sizeof name);
    name[sizeof name - 1] = 0;
    CHECK(arm_register_transaction(&application, name, NULL, 0, NULL, &id) > 0);
    name[127] = 0;
    arm_id_t cut;
    CHECK(arm_register_transaction(&application, name, NULL, 0, NULL, &cut) == 0);
    CHECK(memcmp(&id, &cut, 16) == 0);
    /* Characters count, not bytes: 127 of three bytes each are a whole name. */
    char wide[127 * 3 + 1] = "";
    for (int at = 0; at < 127; at++) memcpy(wide + 3 * at, "\xe2\x82\xac", 3);
    CHECK(arm_register_transaction(&application, wide, NULL, 0, NULL, &id) == 0);
}

static void no_agent_listens(void)
{
    arm_correlator_t correlator;
    memset(&correlator, 0xee, sizeof correlator);
    CHECK(started() == 0);
    arm_tran_start_handle_t handle = 9;
    CHECK(arm_start_transaction(instance, &transaction, NULL, 0, NULL, &handle, &correlator) == 0);
    CHECK(handle == 0);
    CHECK(correlator.opaque[0] == 0 && correlator.opaque[1] == 28 && correlator.opaque[28] == 0xee);
    arm_boolean_t flag = 1;
    CHECK(arm_get_correlator_flags(&correlator, ARM_CORR_FLAGNUM_AGENT_TRACE, &flag) == 0 && flag == 0);
    arm_correlator_t another;
    CHECK(arm_generate_correlator(instance, &transaction, NULL, ARM_FLAG_TRACE_REQUEST, NULL, &another) == 0);
    CHECK(memcmp(&correlator, &another, 28) != 0);
    CHECK(arm_get_correlator_flags(&another, ARM_CORR_FLAGNUM_APP_TRACE, &flag) == 0 && flag == 1);
    /* What is not recorded passes its parent on, also one of another implementation, byte by byte. */
    arm_correlator_t foreign = {{0, 9, 1, 0x40, 5, 6, 7, 8, 9}};
    CHECK(arm_start_transaction(instance, &transaction, &foreign, 0, NULL, &handle, &correlator) == 0);
    CHECK(memcmp(&correlator, &foreign, 9) == 0);
    CHECK(arm_generate_correlator(instance, &transaction, &foreign, 0, NULL, &correlator) == 0);
    CHECK(memcmp(&correlator, &foreign, 9) == 0);
    CHECK(arm_report_transaction(instance, &transaction, 0, 5, ARM_USE_CURRENT_TIME, NULL, &another, 0, NULL) == 0);
    struct record record;
    CHECK(!take(&record));
}

static void correlators(void)
{
    arm_correlator_length_t length = 5;
    for (int wrong = 0; wrong < 3; wrong++) {
        arm_correlator_t bad = {{0}};
        bad.opaque[0] = wrong;
        bad.opaque[1] = wrong == 0 ? 3 : wrong;
        if (wrong == 1) bad.opaque[0] = 255;
        if (wrong == 2) bad.opaque[1] = 1;
        CHECK(arm_get_correlator_length(&bad, &length) < 0 && length == 0);
        arm_tran_start_handle_t handle = 0;
        CHECK(arm_start_transaction(instance, &transaction, &bad, 0, NULL, &handle, NULL) < 0);
        CHECK(handle > 0);
        CHECK(arm_stop_transaction(handle, 0, 0, NULL) == 0);
    }
    length = 5;
    CHECK(arm_get_correlator_length(NULL, &length) < 0 && length == 0);
    /* One that says to be short is not read beyond that. */
    unsigned char *last = malloc(6);
    memcpy(last, (unsigned char[]){0, 6, 9, 0xc0, 1, 2}, 6);
    CHECK(arm_get_correlator_length((arm_correlator_t *)last, &length) == 0 && length == 6);
    arm_tran_start_handle_t handle;
    arm_correlator_t own;
    drain(0);
    CHECK(arm_start_transaction(instance, &transaction, (arm_correlator_t *)last, ARM_FLAG_TRACE_REQUEST, NULL, &handle,
              &own) == 0);
    struct record start = expect(ARM_START);
    CHECK(start.flags == (1 | 4 | 16) && start.slots == 1 && start.payload[0][3] == (3 | 9 << 8));
    free(last);
    arm_boolean_t flag = 0;
    CHECK(arm_get_correlator_flags(&own, ARM_CORR_FLAGNUM_APP_TRACE, &flag) == 0 && flag == 1);
    CHECK(arm_get_correlator_flags(&own, ARM_CORR_FLAGNUM_AGENT_TRACE, &flag) == 0 && flag == 1);
    CHECK(arm_get_correlator_flags(&own, ARM_CORR_FLAGNUM_ASYNCH, &flag) == 0 && flag == 0);
    CHECK(arm_get_correlator_flags(&own, 99, &flag) < 0 && flag == 0);
    CHECK(own.opaque[2] == 0xd7);
    /* A child has its parent's trace, and names its parent in its record. */
    arm_tran_start_handle_t child;
    arm_correlator_t childs;
    CHECK(arm_start_transaction(instance, &transaction, &own, 0, NULL, &child, &childs) == 0);
    CHECK(memcmp(own.opaque + 4, childs.opaque + 4, 16) == 0 && memcmp(own.opaque + 20, childs.opaque + 20, 8) != 0);
    struct record record = expect(ARM_START);
    uint64_t span = 0;
    for (int at = 20; at < 28; at++) span = span << 8 | own.opaque[at];
    CHECK(record.payload[0][2] == span);
    CHECK(arm_generate_correlator(instance, &transaction, &own, 0, NULL, &childs) == 0);
    record = expect(ARM_CORRELATOR);
    CHECK(record.flags == 1 && record.slots == 1 && record.payload[0][2] == span);
    CHECK(arm_report_transaction(instance, &transaction, ARM_STATUS_FAILED, 1234, 99000, &own, &childs, 0, NULL) == 0);
    record = expect(ARM_REPORT);
    CHECK(record.flags == 3 && record.slots == 3 && record.payload[1][2] == span);
    CHECK(record.payload[0][0] == 1234 && record.payload[0][1] == 99000 && record.payload[0][2] == 2);
    span = 0;
    for (int at = 20; at < 28; at++) span = span << 8 | childs.opaque[at];
    CHECK(record.payload[2][2] == span);
    CHECK(arm_report_transaction(instance, &transaction, 0, 5, ARM_USE_CURRENT_TIME, NULL, NULL, 0, NULL) == 0);
    record = expect(ARM_REPORT);
    CHECK(record.payload[0][1] > 1600000000000ull && record.payload[0][1] < 10000000000000ull && record.slots == 1);
    CHECK(arm_report_transaction(instance, &transaction, 0, -5, 0, NULL, NULL, 0, NULL) < 0);
    CHECK(arm_stop_transaction(child, 0, 0, NULL) == 0 && arm_stop_transaction(handle, 0, 0, NULL) == 0);
}

static void records(void)
{
    drain(0);
    arm_tran_start_handle_t handle = started();
    struct record start = expect(ARM_START);
    CHECK(start.a == (uint64_t)handle && start.flags == 0 && start.slots == 0 && start.task == (uint32_t)gettid());
    CHECK((start.b & 0xffff) != 0 && (start.b >> 16 & 0xffff) != 0 && start.b >> 32 == 0);
    arm_tran_block_handle_t block = 0;
    arm_subbuffer_block_cause_t cause = {{ARM_SUBBUFFER_BLOCK_CAUSE}, ARM_BLOCK_CAUSE_ASYNCHRONOUS};
    arm_buffer4_t buffer = {1, (arm_subbuffer_t *[]){ARM_SB(cause)}};
    CHECK(arm_block_transaction(handle, 0, &buffer, &block) == 0 && block > 0);
    expect_detail(handle, 22, 0, "\x02", 1);
    struct record record = expect(ARM_BLOCK);
    CHECK(record.a == (uint64_t)handle && record.b == (uint64_t)block);
    CHECK(arm_unblock_transaction(handle, block, 0, NULL) == 0);
    record = expect(ARM_UNBLOCK);
    CHECK(record.b == (uint64_t)block);
    CHECK(arm_bind_thread(handle, 0, NULL) == 0 && expect(ARM_BIND).b == 1);
    CHECK(arm_unbind_thread(handle, 0, NULL) == 0 && expect(ARM_BIND).b == 0);
    CHECK(arm_update_transaction(handle, 0, NULL) == 0 && expect(ARM_UPDATE).a == (uint64_t)handle);
    CHECK(arm_stop_transaction(handle, ARM_STATUS_FAILED, 0, NULL) == 0);
    record = expect(ARM_STOP);
    CHECK(record.a == (uint64_t)handle && record.b == 2 && record.time_ns >= start.time_ns);
    handle = started();
    CHECK(arm_stop_transaction(handle, 17, 0, NULL) < 0);
    expect(ARM_START);
    CHECK(expect(ARM_STOP).b == ARM_STATUS_UNKNOWN);
    handle = started();
    expect(ARM_START);
    CHECK(arm_discard_transaction(handle, 0, NULL) == 0 && expect(ARM_DISCARD).a == (uint64_t)handle);
    CHECK(arm_start_transaction(instance, &transaction, NULL, ARM_FLAG_BIND_THREAD, NULL, &handle, NULL) == 0);
    CHECK(expect(ARM_START).flags == 8);
    /* An unregistered id: an error, and a handle that is recorded as unknown. */
    arm_id_t unknown = {{{7, 7, 7}}};
    CHECK(arm_start_transaction(instance, &unknown, NULL, 0, NULL, &handle, NULL) < 0 && handle > 0);
    CHECK((expect(ARM_START).b & 0xffff) == 0);
    CHECK(arm_start_transaction(instance, NULL, NULL, 0, NULL, &handle, NULL) < 0 && handle > 0);
    CHECK((expect(ARM_START).b & 0xffff) == 0);
    CHECK(arm_start_transaction(4242, &transaction, NULL, 0, NULL, &handle, NULL) < 0 && handle > 0);
    CHECK((expect(ARM_START).b >> 16 & 0xffff) == 0);
    /* Without a place for its handle a transaction could not be stopped, so it is not recorded. */
    CHECK(arm_start_transaction(instance, &transaction, NULL, 0, NULL, NULL, NULL) < 0);
    CHECK(!take(&record));
}

static void details(void)
{
    drain(0);
    arm_subbuffer_user_t user = {{ARM_SUBBUFFER_USER}, "ada", ARM_TRUE, {{{9, 8}}}}, second = {{3}, "eve", 0, {{{0}}}};
    arm_arrival_time_t now;
    CHECK(arm_get_arrival_time(&now) == 0 && now > 0);
    arm_subbuffer_arrival_time_t arrival = {{ARM_SUBBUFFER_ARRIVAL_TIME}, now};
    const char *values[] = {"one", NULL, "three"};
    arm_subbuffer_tran_context_t context = {{ARM_SUBBUFFER_TRAN_CONTEXT}, 3, values, "/buy"};
    arm_metric_t metrics[] = {
        {.slot = 0, .format = ARM_METRIC_FORMAT_COUNTER32, .valid = 1, .metric_u.counter32 = -5},
        {.slot = 0, .format = ARM_METRIC_FORMAT_COUNTER32, .valid = 1, .metric_u.counter32 = 6},
        {.slot = 1, .format = ARM_METRIC_FORMAT_GAUGE64, .usage = 1, .valid = 1, .metric_u.gauge64 = 1ll << 40},
        {.slot = 2, .format = ARM_METRIC_FORMAT_CNTRDIVR32, .valid = 1, .metric_u.counterdivisor32 = {7, 3}},
        {.slot = 3, .format = ARM_METRIC_FORMAT_STRING32, .valid = 1, .metric_u.string32 = "no"},
        {.slot = 9, .format = ARM_METRIC_FORMAT_GAUGE32, .valid = 1, .metric_u.gauge32 = 1},
        {.slot = 6, .format = ARM_METRIC_FORMAT_STRING32, .valid = 1, .metric_u.string32 = "text"},
    };
    arm_subbuffer_metric_values_t told = {{ARM_SUBBUFFER_METRIC_VALUES}, 7, metrics};
    arm_subbuffer_preparation_time_t preparation = {{ARM_SUBBUFFER_PREPARATION_TIME}, 77};
    arm_buffer4_t buffer = {7, (arm_subbuffer_t *[]){NULL, ARM_SB(user), ARM_SB(second), ARM_SB(arrival),
                                   ARM_SB(context), ARM_SB(told), ARM_SB(preparation)}};
    arm_tran_start_handle_t handle;
    CHECK(arm_start_transaction(instance, &transaction, NULL, 0, &buffer, &handle, NULL) > 0);
    struct record record = expect(ARM_START);
    CHECK(record.flags == 2 && record.slots == 1 && record.payload[0][0] == (uint64_t)now);
    expect_detail(handle, 10, 0, "ada", 3);
    expect_detail(handle, 11, 0, &user.id, 16);
    expect_detail(handle, 7, 0, "one", 3);
    expect_detail(handle, 7, 2, "three", 5);
    expect_detail(handle, 3, 0, "/buy", 4);
    int64_t expected[2] = {0, -5};
    memcpy(expected, "\1\0\1\0", 4);
    expect_detail(handle, 17, 0, expected, 16);
    expected[1] = 1ll << 40;
    memcpy(expected, "\5\1\1\0", 4);
    expect_detail(handle, 17, 1, expected, 16);
    expected[1] = 7;
    memcpy(expected, "\3\0\1\0\3\0\0\0", 8);
    expect_detail(handle, 17, 2, expected, 16);
    expect_detail(handle, 17, 6, "\12\0\1\0\0\0\0\0text", 12);
    int64_t ns = 77;
    expect_detail(handle, 23, 0, &ns, 8);

    /* What is told with a stop stands before it; what is long comes in shares. */
    char detail[700];
    memset(detail, 'd', sizeof detail);
    detail[sizeof detail - 1] = 0;
    arm_subbuffer_diag_detail_t diagnosis = {{ARM_SUBBUFFER_DIAG_DETAIL}, detail};
    arm_property_t properties[] = {{"code", "5"}, {NULL, "x"}, {"code", "6"}, {"y", NULL}, {"where", "db"}};
    arm_subbuffer_diag_properties_t more = {{ARM_SUBBUFFER_DIAG_PROPERTIES}, 5, properties};
    arm_subbuffer_message_event_t message = {{ARM_SUBBUFFER_MESSAGE_SENT_EVENT}, 512};
    buffer = (arm_buffer4_t){3, (arm_subbuffer_t *[]){ARM_SB(diagnosis), ARM_SB(more), ARM_SB(message)}};
    CHECK(arm_stop_transaction(handle, ARM_STATUS_ABORTED, 0, &buffer) > 0);
    for (int share = 0; share < 3; share++) {
        record = expect(ARM_DETAIL);
        CHECK((record.b & 255) == 13 && (record.b >> 16 & 0xffff) == share * 256u && record.b >> 32 == 699);
        CHECK(record.slots == (share < 2 ? 8 : 6) && memcmp(record.payload, detail, share < 2 ? 256 : 187) == 0);
    }
    char sent[9] = "\2\0\2\0\0\0\0\0";
    expect_detail(handle, 21, 2, sent, 9);
    expect_detail(handle, 20, 0, "code\0005", 6);
    expect_detail(handle, 20, 4, "where\0db", 8);
    CHECK(expect(ARM_STOP).b == 1);

    /* Statistics of preparation alone: their sum stands for the time. */
    arm_subbuffer_preparation_time_statistics_t statistics = {{ARM_SUBBUFFER_PREPARATION_TIME_STATISTICS}, 3, 90, 10, 50};
    buffer = (arm_buffer4_t){1, (arm_subbuffer_t *[]){ARM_SB(statistics)}};
    CHECK(arm_start_transaction(instance, &transaction, NULL, 0, &buffer, &handle, NULL) == 0);
    expect(ARM_START);
    int64_t figures[] = {90, 3, 90, 10, 50};
    for (int index = 0; index < 5; index++) expect_detail(handle, 23, index, &figures[index], 8);

    /* The arrival in microseconds since 1970 is told on the clock of all records. */
    struct timespec real;
    CHECK(clock_gettime(CLOCK_REALTIME, &real) == 0);
    arm_subbuffer_arrival_time_usec_t since = {
        {ARM_SUBBUFFER_ARRIVAL_TIME_USEC}, real.tv_sec * 1000000ll + real.tv_nsec / 1000 - 1000000};
    buffer = (arm_buffer4_t){1, (arm_subbuffer_t *[]){ARM_SB(since)}};
    CHECK(arm_start_transaction(instance, &transaction, NULL, 0, &buffer, &handle, NULL) == 0);
    record = expect(ARM_START);
    int64_t ago = (int64_t)(record.time_ns - record.payload[0][0]);
    CHECK(ago > 900000000 && ago < 3000000000ll);
    /* No collection: no handle, and a correlator all the same. */
    arm_subbuffer_tran_instance_control_t none = {{ARM_SUBBUFFER_TRAN_INSTANCE_CONTROL}, ARM_COLLECTION_DEPTH_NONE};
    buffer = (arm_buffer4_t){1, (arm_subbuffer_t *[]){ARM_SB(none)}};
    arm_correlator_t correlator;
    CHECK(arm_start_transaction(instance, &transaction, NULL, 0, &buffer, &handle, &correlator) == 0);
    CHECK(handle == 0 && correlator.opaque[1] == 28);
    arm_subbuffer_tran_control_t never = {{ARM_SUBBUFFER_TRAN_CONTROL}, ARM_COLLECTION_DEPTH_NONE};
    buffer = (arm_buffer4_t){1, (arm_subbuffer_t *[]){ARM_SB(never)}};
    arm_id_t quiet;
    CHECK(arm_register_transaction(&application, "quiet", NULL, 0, &buffer, &quiet) == 0);
    CHECK(arm_start_transaction(instance, &quiet, NULL, 0, NULL, &handle, NULL) == 0 && handle == 0);
    CHECK(!take(&record));
}

static void definitions(void)
{
    uint64_t before = word(HEAD_DEFINED_BYTES);
    arm_property_t properties[] = {{"tier", "web"}, {"tier", "again"}, {"", "x"}, {NULL, NULL}, {"zone", "b"}};
    const char *names[] = {"basket", NULL, "basket", "", "size"};
    arm_id_t metric, bound, out;
    CHECK(arm_register_metric(&application, "rows", ARM_METRIC_FORMAT_GAUGE32, 0, "1", NULL, 0, NULL, &metric) == 0);
    arm_metric_binding_t bindings[] = {{2, metric}, {2, metric}, {9, metric}};
    arm_subbuffer_tran_identity_t identity = {{ARM_SUBBUFFER_TRAN_IDENTITY}, 5, properties, 5, names, "/rows"};
    arm_subbuffer_metric_bindings_t binding = {{ARM_SUBBUFFER_METRIC_BINDINGS}, 3, bindings};
    arm_buffer4_t buffer = {2, (arm_subbuffer_t *[]){ARM_SB(identity), ARM_SB(binding)}};
    CHECK(arm_register_transaction(&application, "rows", NULL, 0, &buffer, &bound) > 0);
    uint64_t after = word(HEAD_DEFINED_BYTES);
    CHECK(after > before && after <= DEFINITION_BYTES);
    char bytes[4096];
    CHECK(after - before < sizeof bytes);
    CHECK(pread(memory_descriptor, bytes, after - before, DEFINITIONS_AT + before) == (ssize_t)(after - before));
    /* The metric's definition, and behind it the transaction's with its pieces in this order. */
    uint32_t first;
    memcpy(&first, bytes, 4);
    const char *at = bytes + (first + 7) / 8 * 8;
    CHECK(at[4] == 2 && at[5] == 4);
    uint32_t length;
    memcpy(&length, at, 4);
    static const struct { int field, index; const char *text; } pieces[] = {
        {1, 0, "rows"}, {4, 0, "tier"}, {5, 0, "web"}, {4, 4, "zone"}, {5, 4, "b"}, {6, 0, "basket"}, {6, 4, "size"},
        {3, 0, "/rows"},
    };
    const char *piece = at + 8;
    for (unsigned number = 0; number < sizeof pieces / sizeof *pieces; number++) {
        uint16_t size;
        memcpy(&size, piece + 2, 2);
        CHECK(piece[0] == pieces[number].field && piece[1] == pieces[number].index);
        CHECK(size == strlen(pieces[number].text) && memcmp(piece + 4, pieces[number].text, size) == 0);
        piece += 4 + size;
    }
    CHECK(piece[0] == 16 && piece[1] == 2 && piece[2] == 2 && piece + 6 == at + length);
    arm_id_t address_id = {{{3}}};
    arm_subbuffer_system_address_t address = {
        {ARM_SUBBUFFER_SYSTEM_ADDRESS}, ARM_SYSADDR_FORMAT_IPV4, 4, (arm_uint8_t[]){10, 0, 0, 1}, ARM_TRUE, address_id};
    const char *values[] = {"blue"};
    arm_subbuffer_app_context_t context = {{ARM_SUBBUFFER_APP_CONTEXT}, 1, values};
    buffer = (arm_buffer4_t){2, (arm_subbuffer_t *[]){ARM_SB(address), ARM_SB(context)}};
    arm_app_start_handle_t elsewhere;
    CHECK(arm_start_application(&application, NULL, "two", 0, &buffer, &elsewhere) == 0 && elsewhere != instance);
    CHECK(arm_stop_application(elsewhere, 0, NULL) == 0);
    CHECK(arm_stop_application(elsewhere, 0, NULL) < 0);
    arm_tran_start_handle_t handle;
    CHECK(arm_start_transaction(elsewhere, &transaction, NULL, 0, NULL, &handle, NULL) < 0 && handle > 0);
    /* Begun twice, it ends with the second end. */
    CHECK(arm_start_application(&application, NULL, "two", 0, &buffer, &elsewhere) == 0);
    CHECK(arm_start_application(&application, NULL, "two", 0, &buffer, &elsewhere) == 0);
    drain(0);
    CHECK(arm_stop_application(elsewhere, 0, NULL) == 0);
    struct record record;
    CHECK(!take(&record));
    CHECK(arm_stop_application(elsewhere, 0, NULL) == 0);
    record = expect(ARM_INSTANCE);
    CHECK(record.b == 0);
    /* Given up, an application's transactions are unknown; registered again, it is back. */
    arm_id_t gone, bye;
    CHECK(arm_register_application("gone", NULL, 0, NULL, &gone) == 0);
    CHECK(arm_register_transaction(&gone, "bye", NULL, 0, NULL, &bye) == 0);
    CHECK(arm_destroy_application(&gone, 0, NULL) == 0 && arm_destroy_application(&gone, 0, NULL) < 0);
    CHECK(arm_start_transaction(instance, &bye, NULL, 0, NULL, &handle, NULL) < 0 && handle == 0);
    CHECK(arm_register_transaction(&gone, "bye", NULL, 0, NULL, &out) < 0);
    CHECK(arm_register_application("gone", NULL, 0, NULL, &out) == 0 && memcmp(&gone, &out, 16) == 0);
    CHECK(arm_register_transaction(&gone, "bye", NULL, 0, NULL, &out) == 0 && memcmp(&bye, &out, 16) == 0);
    CHECK(arm_start_transaction(instance, &bye, NULL, 0, NULL, &handle, NULL) == 0 && handle > 0);
    /* Definitions run out at last; what then is registered is unknown, and counted. */
    int refused = 0;
    for (int number = 0; number < 5000; number++) {
        char name[32];
        snprintf(name, sizeof name, "name %d", number);
        refused += arm_register_transaction(&application, name, NULL, 0, NULL, &out) < 0;
    }
    CHECK(refused > 900 && word(HEAD_DEFINITIONS_DROPPED) == (uint64_t)refused);
    CHECK(arm_start_transaction(instance, &out, NULL, 0, NULL, &handle, NULL) < 0 && handle > 0);
    CHECK(arm_stop_transaction(handle, 0, 0, NULL) == 0);
    CHECK(arm_register_transaction(&application, "buy", NULL, 0, NULL, &out) == 0);
    CHECK(memcmp(&transaction, &out, 16) == 0);
}

static void switches(void)
{
    drain(0);
    arm_tran_start_handle_t handle = started();
    int number = (int)(expect(ARM_START).b & 0xffff);
    set_switch(number, SWITCH_OFF);
    uint64_t skipped = sum_of(LANE_SKIPPED);
    CHECK(started() == 0 && sum_of(LANE_SKIPPED) == skipped + 1);
    CHECK(arm_stop_transaction(handle, 0, 0, NULL) == 0);
    expect(ARM_STOP);
    set_switch(number, 10);
    int recorded = 0;
    for (int round = 0; round < 5000; round++) {
        handle = started();
        if (handle) {
            CHECK(expect(ARM_START).b >> 32 == 10);
            recorded++;
        }
    }
    CHECK(recorded > 350 && recorded < 650);
    CHECK(sum_of(LANE_SKIPPED) == skipped + 1 + 5000 - (uint64_t)recorded);
    set_switch(number, 0);
    CHECK(started() > 0);
    arm_id_t unknown = {{{7, 7, 7}}};
    head[HEAD_DEFAULT_SWITCH] = SWITCH_OFF;
    CHECK(arm_start_transaction(instance, &unknown, NULL, 0, NULL, &handle, NULL) < 0 && handle == 0);
    head[HEAD_DEFAULT_SWITCH] = 0;
}

static void a_full_lane(void)
{
    drain(0);
    uint64_t recorded = 0, rounds = 3 * LANE_SLOTS, dropped = sum_of(LANE_DROPPED);
    for (uint64_t round = 0; round < rounds; round++) recorded += started() > 0;
    CHECK(recorded == LANE_SLOTS && sum_of(LANE_DROPPED) == dropped + rounds - recorded);
    CHECK(drain(ARM_START) == recorded);
    CHECK(started() > 0 && drain(ARM_START) == 1);
    /* A reader's position that cannot be is no room, and no harm. */
    *position(0, LANE_READ) += 12345;
    for (int round = 0; round < 3 * LANE_SLOTS; round++) started();
    *position(0, LANE_READ) = *position(0, LANE_WRITTEN);
    CHECK(started() > 0 && drain(ARM_START) == 1);
}

static void messages(void)
{
    arm_message_buffer_t message;
    for (int code = -9; code <= 2; code++) {
        memset(message, 'x', sizeof message);
        CHECK(arm_get_error_message(ARM_CHARSET_ASCII, code, message) == 0);
        CHECK(strlen(message) > 3 && strlen(message) < 255);
    }
    CHECK(arm_get_error_message(ARM_CHARSET_UTF8, -20500, message) < 0 && strlen(message) > 3);
    CHECK(arm_get_error_message(ARM_CHARSET_UTF16, 0, message) < 0 && strcmp(message, "done") == 0);
    arm_boolean_t supported = -1;
    CHECK(arm_is_charset_supported(ARM_CHARSET_ASCII, &supported) == 0 && supported == 1);
    CHECK(arm_is_charset_supported(ARM_CHARSET_UTF8, &supported) == 0 && supported == 1);
    CHECK(arm_is_charset_supported(ARM_CHARSET_IBM037, &supported) == 0 && supported == 0);
}

int main(void)
{
    before_anything_is_registered();
    registering();
    attach();
    null_and_nonsense();
    no_agent_listens();
    messages();
    listen_now(1);
    correlators();
    records();
    details();
    switches();
    a_full_lane();
    definitions();
    /* The agent ends in order: handles of before are still all right. */
    arm_tran_start_handle_t handle = started();
    listen_now(0);
    drain(0);
    CHECK(arm_stop_transaction(handle, 0, 0, NULL) == 0 && started() == 0 && drain(ARM_STOP) == 0);
    return 0;
}
