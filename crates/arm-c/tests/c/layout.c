/* Every size, offset and constant of the interface; most of this test is that it compiles. */

#include <arm4.h>
#include <weir_arm.h>
#include <stddef.h>
#include <stdio.h>

#define SIZE(type, bytes) _Static_assert(sizeof(type) == bytes, #type)
#define AT(type, field, offset) _Static_assert(offsetof(type, field) == offset, #type "." #field)
#define IS(constant, value) _Static_assert((constant) == (value), #constant)

SIZE(arm_char_t, 1); SIZE(arm_int8_t, 1); SIZE(arm_uint8_t, 1); SIZE(arm_int16_t, 2); SIZE(arm_uint16_t, 2);
SIZE(arm_int32_t, 4); SIZE(arm_uint32_t, 4); SIZE(arm_int64_t, 8); SIZE(arm_uint64_t, 8);
SIZE(arm_boolean_t, 4); SIZE(arm_error_t, 4); SIZE(arm_tran_status_t, 4); SIZE(arm_charset_t, 4);
SIZE(arm_subbuffer_format_t, 4); SIZE(arm_arrival_time_t, 8); SIZE(arm_stop_time_t, 8);
SIZE(arm_response_time_t, 8); SIZE(arm_app_start_handle_t, 8); SIZE(arm_tran_start_handle_t, 8);
SIZE(arm_tran_block_handle_t, 8); SIZE(arm_correlator_length_t, 2); SIZE(arm_metric_usage_t, 2);
SIZE(arm_metric_format_t, 1); SIZE(arm_metric_slot_t, 1); SIZE(arm_message_buffer_t, 766);
SIZE(arm_id_t, 16); SIZE(arm_correlator_t, 512); SIZE(arm_buffer4_t, 16); SIZE(arm_subbuffer_t, 4);
AT(arm_buffer4_t, count, 0); AT(arm_buffer4_t, subbuffer_array, 8);
SIZE(arm_property_t, 16); AT(arm_property_t, value, 8);
SIZE(arm_metric_t, 16); AT(arm_metric_t, slot, 0); AT(arm_metric_t, format, 1); AT(arm_metric_t, usage, 2);
AT(arm_metric_t, valid, 4); AT(arm_metric_t, metric_u, 8);
SIZE(arm_metric_cntrdivr32_t, 8); AT(arm_metric_cntrdivr32_t, divisor, 4);
SIZE(arm_metric_gaugedivr32_t, 8); AT(arm_metric_gaugedivr32_t, divisor, 4);
SIZE(arm_metric_binding_t, 24); AT(arm_metric_binding_t, id, 8);
SIZE(arm_subbuffer_user_t, 40); AT(arm_subbuffer_user_t, name, 8); AT(arm_subbuffer_user_t, id_valid, 16);
AT(arm_subbuffer_user_t, id, 24);
SIZE(arm_subbuffer_arrival_time_t, 16); AT(arm_subbuffer_arrival_time_t, opaque_time, 8);
SIZE(arm_subbuffer_metric_values_t, 16); AT(arm_subbuffer_metric_values_t, count, 4);
AT(arm_subbuffer_metric_values_t, metric_value_array, 8);
SIZE(arm_subbuffer_system_address_t, 40); AT(arm_subbuffer_system_address_t, address_format, 4);
AT(arm_subbuffer_system_address_t, address_length, 6); AT(arm_subbuffer_system_address_t, address, 8);
AT(arm_subbuffer_system_address_t, id_valid, 16); AT(arm_subbuffer_system_address_t, id, 24);
SIZE(arm_subbuffer_diag_detail_t, 16); AT(arm_subbuffer_diag_detail_t, diag_detail, 8);
SIZE(arm_subbuffer_app_identity_t, 32); AT(arm_subbuffer_app_identity_t, identity_property_count, 4);
AT(arm_subbuffer_app_identity_t, identity_property_array, 8);
AT(arm_subbuffer_app_identity_t, context_name_count, 16); AT(arm_subbuffer_app_identity_t, context_name_array, 24);
SIZE(arm_subbuffer_app_context_t, 16); AT(arm_subbuffer_app_context_t, context_value_count, 4);
AT(arm_subbuffer_app_context_t, context_value_array, 8);
SIZE(arm_subbuffer_tran_identity_t, 40); AT(arm_subbuffer_tran_identity_t, context_name_array, 24);
AT(arm_subbuffer_tran_identity_t, uri, 32);
SIZE(arm_subbuffer_tran_context_t, 24); AT(arm_subbuffer_tran_context_t, uri, 16);
SIZE(arm_subbuffer_metric_bindings_t, 16); AT(arm_subbuffer_metric_bindings_t, metric_binding_array, 8);
SIZE(arm_subbuffer_charset_t, 12); AT(arm_subbuffer_charset_t, charset, 4); AT(arm_subbuffer_charset_t, flags, 8);
SIZE(arm_subbuffer_message_event_t, 16); AT(arm_subbuffer_message_event_t, bytes, 8);
SIZE(arm_subbuffer_block_cause_t, 8); SIZE(arm_subbuffer_preparation_time_t, 16);
SIZE(arm_subbuffer_preparation_time_statistics_t, 40); SIZE(arm_subbuffer_arrival_time_usec_t, 16);
SIZE(arm_subbuffer_diag_properties_t, 16); SIZE(arm_subbuffer_tran_control_t, 8);
SIZE(arm_subbuffer_tran_instance_control_t, 8);
SIZE(weir_arm_request, 80); AT(weir_arm_request, host, 8); AT(weir_arm_request, path, 16); AT(weir_arm_request, user, 24);
AT(weir_arm_request, diagnosis, 32); AT(weir_arm_request, address, 40); AT(weir_arm_request, address_format, 48);
AT(weir_arm_request, address_length, 50); AT(weir_arm_request, code, 52); AT(weir_arm_request, bytes, 56);
AT(weir_arm_request, arrived_ns, 64); AT(weir_arm_request, answered_ns, 72);

IS(ARM_FALSE, 0); IS(ARM_TRUE, 1);
IS(ARM_STATUS_GOOD, 0); IS(ARM_STATUS_ABORTED, 1); IS(ARM_STATUS_FAILED, 2); IS(ARM_STATUS_UNKNOWN, 3);
IS(ARM_ERROR_CODE_RESERVED_MIN, -20999); IS(ARM_ERROR_CODE_RESERVED_MAX, -20000);
IS(ARM_SUBBUFFER_USER, 3); IS(ARM_SUBBUFFER_ARRIVAL_TIME, 4); IS(ARM_SUBBUFFER_METRIC_VALUES, 5);
IS(ARM_SUBBUFFER_SYSTEM_ADDRESS, 6); IS(ARM_SUBBUFFER_DIAG_DETAIL, 7); IS(ARM_SUBBUFFER_APP_IDENTITY, 102);
IS(ARM_SUBBUFFER_APP_CONTEXT, 103); IS(ARM_SUBBUFFER_TRAN_IDENTITY, 104); IS(ARM_SUBBUFFER_TRAN_CONTEXT, 105);
IS(ARM_SUBBUFFER_METRIC_BINDINGS, 106); IS(ARM_SUBBUFFER_CHARSET, 107);
IS(ARM_METRIC_FORMAT_COUNTER32, 1); IS(ARM_METRIC_FORMAT_COUNTER64, 2); IS(ARM_METRIC_FORMAT_CNTRDIVR32, 3);
IS(ARM_METRIC_FORMAT_GAUGE32, 4); IS(ARM_METRIC_FORMAT_GAUGE64, 5); IS(ARM_METRIC_FORMAT_GAUGEDIVR32, 6);
IS(ARM_METRIC_FORMAT_NUMERICID32, 7); IS(ARM_METRIC_FORMAT_NUMERICID64, 8); IS(ARM_METRIC_FORMAT_STRING32, 10);
IS(ARM_METRIC_USE_GENERAL, 0); IS(ARM_METRIC_USE_TRAN_SIZE, 1); IS(ARM_METRIC_USE_TRAN_STATUS, 2);
IS(ARM_METRIC_MIN_ARRAY_INDEX, 0); IS(ARM_METRIC_MAX_ARRAY_INDEX, 6); IS(ARM_METRIC_MAX_COUNT, 7);
IS(ARM_METRIC_STRING32_MAX_CHARS, 31); IS(ARM_METRIC_STRING32_MAX_LENGTH, 94);
IS(ARM_NAME_MAX_CHARS, 127); IS(ARM_NAME_MAX_LENGTH, 382);
IS(ARM_DIAG_DETAIL_MAX_CHARS, 4095); IS(ARM_DIAG_DETAIL_MAX_LENGTH, 12286);
IS(ARM_MSG_BUFFER_CHARS, 255); IS(ARM_MSG_BUFFER_LENGTH, 766);
IS(ARM_PROPERTY_MAX_COUNT, 20); IS(ARM_PROPERTY_MIN_ARRAY_INDEX, 0); IS(ARM_PROPERTY_MAX_ARRAY_INDEX, 19);
IS(ARM_PROPERTY_NAME_MAX_CHARS, 127); IS(ARM_PROPERTY_VALUE_MAX_CHARS, 255); IS(ARM_PROPERTY_VALUE_MAX_LENGTH, 766);
IS(ARM_PROPERTY_URI_MAX_CHARS, 4095); IS(ARM_PROPERTY_URI_MAX_LENGTH, 12286);
IS(ARM_SYSADDR_FORMAT_IPV4, 1); IS(ARM_SYSADDR_FORMAT_IPV4PORT, 2); IS(ARM_SYSADDR_FORMAT_IPV6, 3);
IS(ARM_SYSADDR_FORMAT_IPV6PORT, 4); IS(ARM_SYSADDR_FORMAT_SNA, 5); IS(ARM_SYSADDR_FORMAT_X25, 6);
IS(ARM_SYSADDR_FORMAT_HOSTNAME, 7); IS(ARM_SYSADDR_FORMAT_UUID, 8);
IS(ARM_CHARSET_ASCII, 3); IS(ARM_CHARSET_UTF8, 106); IS(ARM_CHARSET_UTF16BE, 1013); IS(ARM_CHARSET_UTF16LE, 1014);
IS(ARM_CHARSET_UTF16, 1015); IS(ARM_CHARSET_IBM037, 2028); IS(ARM_CHARSET_IBM1047, 2102);
IS(ARM_FLAG_NONE, 0); IS(ARM_FLAG_TRACE_REQUEST, 1); IS(ARM_FLAG_BIND_THREAD, 2); IS(ARM_FLAG_CORR_IN_PROCESS, 4);
IS(ARM_CORR_MAX_LENGTH, 512); IS(ARM_CORR_FLAGNUM_APP_TRACE, 1); IS(ARM_CORR_FLAGNUM_AGENT_TRACE, 2);
IS(ARM_CORR_FLAGNUM_ASYNCH, 3); IS(ARM_CORR_FLAGNUM_INDEPENDENT, 4); IS(ARM_USE_CURRENT_TIME, -1);
IS(ARM_BLOCK_CAUSE_SYNCHRONOUS, 1); IS(ARM_BLOCK_CAUSE_ASYNCHRONOUS, 2);
IS(ARM_COLLECTION_DEPTH_NONE, 0); IS(ARM_COLLECTION_DEPTH_PROCESS, 1); IS(ARM_COLLECTION_DEPTH_CONTAINER, 2);

/* Each function with its whole type. */
typedef arm_error_t E;
typedef const arm_int32_t F;
typedef const arm_buffer4_t *B;
typedef const arm_id_t *I;
typedef const arm_char_t *S;
typedef const arm_correlator_t *C;
typedef const arm_tran_start_handle_t T;
static E (*register_application)(S, I, F, B, arm_id_t *) = arm_register_application;
static E (*destroy_application)(I, F, B) = arm_destroy_application;
static E (*register_transaction)(I, S, I, F, B, arm_id_t *) = arm_register_transaction;
static E (*register_metric)(I, S, const arm_metric_format_t, const arm_metric_usage_t, S, I, F, B, arm_id_t *) =
    arm_register_metric;
static E (*start_application)(I, S, S, F, B, arm_app_start_handle_t *) = arm_start_application;
static E (*stop_application)(const arm_app_start_handle_t, F, B) = arm_stop_application;
static E (*start)(const arm_app_start_handle_t, I, C, F, B, arm_tran_start_handle_t *, arm_correlator_t *) =
    arm_start_transaction;
static E (*stop)(T, const arm_tran_status_t, F, B) = arm_stop_transaction;
static E (*on_handle[])(T, F, B) = {
    arm_update_transaction, arm_discard_transaction, arm_bind_thread, arm_unbind_thread,
};
static E (*block)(T, F, B, arm_tran_block_handle_t *) = arm_block_transaction;
static E (*unblock)(T, const arm_tran_block_handle_t, F, B) = arm_unblock_transaction;
static E (*report)(const arm_app_start_handle_t, I, const arm_tran_status_t, const arm_response_time_t,
    const arm_stop_time_t, C, C, F, B) = arm_report_transaction;
static E (*generate)(const arm_app_start_handle_t, I, C, F, B, arm_correlator_t *) = arm_generate_correlator;
static E (*length)(C, arm_correlator_length_t *) = arm_get_correlator_length;
static E (*flags)(C, const arm_int32_t, arm_boolean_t *) = arm_get_correlator_flags;
static E (*arrival)(arm_arrival_time_t *) = arm_get_arrival_time;
static E (*message)(const arm_charset_t, const arm_error_t, arm_message_buffer_t) = arm_get_error_message;
static E (*charset)(const arm_charset_t, arm_boolean_t *) = arm_is_charset_supported;

int main(void)
{
    void *all[] = {
        (void *)register_application, (void *)destroy_application, (void *)register_transaction,
        (void *)register_metric, (void *)start_application, (void *)stop_application, (void *)start, (void *)stop,
        (void *)on_handle[0], (void *)on_handle[1], (void *)on_handle[2], (void *)on_handle[3], (void *)block,
        (void *)unblock, (void *)report, (void *)generate, (void *)length, (void *)flags, (void *)arrival,
        (void *)message, (void *)charset,
    };
    for (unsigned at = 0; at < sizeof all / sizeof *all; at++)
        if (!all[at]) return 1;
    arm_metric_t metric = {0};
    metric.metric_u.counterdivisor32.divisor = 2;
    metric.metric_u.gaugedivisor32.gauge = 1;
    metric.metric_u.numericid64 = 3;
    metric.metric_u.string32 = "";
    arm_id_t id = {{{0}}};
    return id.id_u.uint8[0] || id.id_u.uint32[3] || id.id_u.uint64[1] || !metric.metric_u.string32;
}
