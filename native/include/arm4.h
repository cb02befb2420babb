/*
 * The C interface of ARM 4.0 (Application Response Measurement, a standard of the Open Group), with what ARM 4.1 adds.
 * Part of weir; written from the facts of the interface. Link with -larm4.
 *
 * A call returns 0, or less than 0 for an error, or more than 0 for a warning; arm_get_error_message() has the words.
 * An error never breaks the program: what a call puts out can always be passed to others.
 * Pointers may be NULL wherever that can mean anything at all.
 * Handles are of their process: a child that was forked starts its own.
 */

#ifndef ARM4_H_INCLUDED
#define ARM4_H_INCLUDED

#include "arm4os.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Booleans */
#define ARM_FALSE 0
#define ARM_TRUE 1

/* How a transaction ended */
#define ARM_STATUS_GOOD 0
#define ARM_STATUS_ABORTED 1
#define ARM_STATUS_FAILED 2
#define ARM_STATUS_UNKNOWN 3

/* Numbers of errors that the standard keeps for itself; this library returns none of them */
#define ARM_ERROR_CODE_RESERVED_MIN (-20999)
#define ARM_ERROR_CODE_RESERVED_MAX (-20000)

/* Sub-buffers of ARM 4.0 */
#define ARM_SUBBUFFER_USER 3
#define ARM_SUBBUFFER_ARRIVAL_TIME 4
#define ARM_SUBBUFFER_METRIC_VALUES 5
#define ARM_SUBBUFFER_SYSTEM_ADDRESS 6
#define ARM_SUBBUFFER_DIAG_DETAIL 7
#define ARM_SUBBUFFER_APP_IDENTITY 102
#define ARM_SUBBUFFER_APP_CONTEXT 103
#define ARM_SUBBUFFER_TRAN_IDENTITY 104
#define ARM_SUBBUFFER_TRAN_CONTEXT 105
#define ARM_SUBBUFFER_METRIC_BINDINGS 106
#define ARM_SUBBUFFER_CHARSET 107

/*
 * Sub-buffers of ARM 4.1. No public copy of their numbers was at hand, so these numbers and the fields further below are
 * weir's own. They lie where no number of the standard does: a program that was built with another header and uses
 * the standard's numbers has those sub-buffers ignored, never misread.
 */
#define ARM_SUBBUFFER_MESSAGE_RCVD_EVENT 0x5701
#define ARM_SUBBUFFER_MESSAGE_SENT_EVENT 0x5702
#define ARM_SUBBUFFER_BLOCK_CAUSE 0x5703
#define ARM_SUBBUFFER_PREPARATION_TIME 0x5704
#define ARM_SUBBUFFER_PREPARATION_TIME_STATISTICS 0x5705
#define ARM_SUBBUFFER_ARRIVAL_TIME_USEC 0x5706
#define ARM_SUBBUFFER_DIAG_PROPERTIES 0x5707
#define ARM_SUBBUFFER_TRAN_CONTROL 0x5708
#define ARM_SUBBUFFER_TRAN_INSTANCE_CONTROL 0x5709

/* Formats of metrics */
#define ARM_METRIC_FORMAT_RESERVED 0
#define ARM_METRIC_FORMAT_COUNTER32 1
#define ARM_METRIC_FORMAT_COUNTER64 2
#define ARM_METRIC_FORMAT_CNTRDIVR32 3
#define ARM_METRIC_FORMAT_GAUGE32 4
#define ARM_METRIC_FORMAT_GAUGE64 5
#define ARM_METRIC_FORMAT_GAUGEDIVR32 6
#define ARM_METRIC_FORMAT_NUMERICID32 7
#define ARM_METRIC_FORMAT_NUMERICID64 8
#define ARM_METRIC_FORMAT_STRING32 10

/* What a metric is used for; both spellings are in use */
#define ARM_METRIC_USE_GENERAL 0
#define ARM_METRIC_USE_TRAN_SIZE 1
#define ARM_METRIC_USE_TRAN_STATUS 2
#define ARM_METRIC_USAGE_GENERAL ARM_METRIC_USE_GENERAL
#define ARM_METRIC_USAGE_TRAN_SIZE ARM_METRIC_USE_TRAN_SIZE
#define ARM_METRIC_USAGE_TRAN_STATUS ARM_METRIC_USE_TRAN_STATUS

/* Slots of metrics; a text stands in the last one only */
#define ARM_METRIC_MIN_ARRAY_INDEX 0
#define ARM_METRIC_MAX_ARRAY_INDEX 6
#define ARM_METRIC_MAX_COUNT 7

/* The longest texts: characters, and bytes of a buffer for them (three for each, and the NUL). */
#define ARM_METRIC_STRING32_MAX_CHARS 31
#define ARM_METRIC_STRING32_MAX_LENGTH (ARM_METRIC_STRING32_MAX_CHARS * 3 + 1)
#define ARM_NAME_MAX_CHARS 127
#define ARM_NAME_MAX_LENGTH (ARM_NAME_MAX_CHARS * 3 + 1)
#define ARM_DIAG_DETAIL_MAX_CHARS 4095
#define ARM_DIAG_DETAIL_MAX_LENGTH (ARM_DIAG_DETAIL_MAX_CHARS * 3 + 1)
#define ARM_PROPERTY_NAME_MAX_CHARS 127
#define ARM_PROPERTY_NAME_MAX_LENGTH (ARM_PROPERTY_NAME_MAX_CHARS * 3 + 1)
#define ARM_PROPERTY_VALUE_MAX_CHARS 255
#define ARM_PROPERTY_VALUE_MAX_LENGTH (ARM_PROPERTY_VALUE_MAX_CHARS * 3 + 1)
#define ARM_PROPERTY_URI_MAX_CHARS 4095
#define ARM_PROPERTY_URI_MAX_LENGTH (ARM_PROPERTY_URI_MAX_CHARS * 3 + 1)
#define ARM_MSG_BUFFER_CHARS 255
#define ARM_MSG_BUFFER_LENGTH (ARM_MSG_BUFFER_CHARS * 3 + 1)

/* Properties, and values of a context */
#define ARM_PROPERTY_MIN_ARRAY_INDEX 0
#define ARM_PROPERTY_MAX_ARRAY_INDEX 19
#define ARM_PROPERTY_MAX_COUNT 20

/* Sorts of system addresses: in network order, a port after the address */
#define ARM_SYSADDR_FORMAT_RESERVED 0
#define ARM_SYSADDR_FORMAT_IPV4 1
#define ARM_SYSADDR_FORMAT_IPV4PORT 2
#define ARM_SYSADDR_FORMAT_IPV6 3
#define ARM_SYSADDR_FORMAT_IPV6PORT 4
#define ARM_SYSADDR_FORMAT_SNA 5
#define ARM_SYSADDR_FORMAT_X25 6
#define ARM_SYSADDR_FORMAT_HOSTNAME 7
#define ARM_SYSADDR_FORMAT_UUID 8

/* Encodings, by the MIBenum of IANA; this library reads the first two */
#define ARM_CHARSET_ASCII 3
#define ARM_CHARSET_UTF8 106
#define ARM_CHARSET_UTF16BE 1013
#define ARM_CHARSET_UTF16LE 1014
#define ARM_CHARSET_UTF16 1015
#define ARM_CHARSET_IBM037 2028
#define ARM_CHARSET_IBM1047 2102

/* Flags of calls */
#define ARM_FLAG_NONE 0x00000000
#define ARM_FLAG_TRACE_REQUEST 0x00000001
#define ARM_FLAG_BIND_THREAD 0x00000002
#define ARM_FLAG_CORR_IN_PROCESS 0x00000004

/* Correlators: the most bytes, and the numbers of their flags (the last two of ARM 4.1) */
#define ARM_CORR_MAX_LENGTH 512
#define ARM_CORR_FLAGNUM_APP_TRACE 1
#define ARM_CORR_FLAGNUM_AGENT_TRACE 2
#define ARM_CORR_FLAGNUM_ASYNCH 3
#define ARM_CORR_FLAGNUM_INDEPENDENT 4

/* Why a transaction blocks, and how much is collected of one (ARM 4.1) */
#define ARM_BLOCK_CAUSE_SYNCHRONOUS 1
#define ARM_BLOCK_CAUSE_ASYNCHRONOUS 2
#define ARM_COLLECTION_DEPTH_NONE 0
#define ARM_COLLECTION_DEPTH_PROCESS 1
#define ARM_COLLECTION_DEPTH_CONTAINER 2

/* Simple types */
typedef ARM4_CHAR arm_char_t;
typedef ARM4_INT8 arm_int8_t;
typedef ARM4_UINT8 arm_uint8_t;
typedef ARM4_INT16 arm_int16_t;
typedef ARM4_UINT16 arm_uint16_t;
typedef ARM4_INT32 arm_int32_t;
typedef ARM4_UINT32 arm_uint32_t;
typedef ARM4_INT64 arm_int64_t;
typedef ARM4_UINT64 arm_uint64_t;
typedef arm_int32_t arm_boolean_t;
typedef arm_int32_t arm_error_t;
typedef arm_int32_t arm_tran_status_t;
typedef arm_int32_t arm_charset_t;
typedef arm_int32_t arm_sysaddr_format_t;
typedef arm_int32_t arm_subbuffer_format_t;
typedef arm_int64_t arm_arrival_time_t;
typedef arm_int64_t arm_stop_time_t;
typedef arm_int64_t arm_response_time_t;
typedef arm_int64_t arm_app_start_handle_t;
typedef arm_int64_t arm_tran_start_handle_t;
typedef arm_int64_t arm_tran_block_handle_t;
typedef arm_int16_t arm_correlator_length_t;
typedef arm_int16_t arm_metric_usage_t;
typedef arm_uint8_t arm_metric_format_t;
typedef arm_uint8_t arm_metric_slot_t;
typedef arm_char_t arm_message_buffer_t[ARM_MSG_BUFFER_LENGTH];

/* 16 bytes that name what was registered; all zeros and all ones name nothing. */
typedef struct arm_id {
    union {
        arm_uint8_t uint8[16];
        arm_uint32_t uint32[4];
        arm_uint64_t uint64[2];
    } id_u;
} arm_id_t;

/* Length (two bytes in network order), format, flags, and bytes that only ARM libraries understand */
typedef struct arm_correlator {
    arm_uint8_t opaque[ARM_CORR_MAX_LENGTH];
} arm_correlator_t;

/* Values of metrics */
typedef arm_int32_t arm_metric_counter32_t;
typedef arm_int64_t arm_metric_counter64_t;
typedef arm_int32_t arm_metric_divisor32_t;
typedef arm_int32_t arm_metric_gauge32_t;
typedef arm_int64_t arm_metric_gauge64_t;
typedef arm_int32_t arm_metric_numericID32_t;
typedef arm_int64_t arm_metric_numericID64_t;
typedef const arm_char_t *arm_metric_string32_t;

/* A counter to be divided */
typedef struct arm_metric_cntrdivr32 {
    arm_metric_counter32_t counter;
    arm_metric_divisor32_t divisor;
} arm_metric_cntrdivr32_t;

/* A gauge to be divided */
typedef struct arm_metric_gaugedivr32 {
    arm_metric_gauge32_t gauge;
    arm_metric_divisor32_t divisor;
} arm_metric_gaugedivr32_t;

/* The value of a metric in a slot */
typedef struct arm_metric {
    arm_metric_slot_t slot;
    arm_metric_format_t format;
    arm_metric_usage_t usage;
    arm_boolean_t valid;
    union {
        arm_metric_counter32_t counter32;
        arm_metric_counter64_t counter64;
        arm_metric_cntrdivr32_t counterdivisor32;
        arm_metric_gauge32_t gauge32;
        arm_metric_gauge64_t gauge64;
        arm_metric_gaugedivr32_t gaugedivisor32;
        arm_metric_numericID32_t numericid32;
        arm_metric_numericID64_t numericid64;
        arm_metric_string32_t string32;
    } metric_u;
} arm_metric_t;

/* Which metric a slot holds */
typedef struct arm_metric_binding {
    arm_metric_slot_t slot;
    arm_id_t id;
} arm_metric_binding_t;

/* A name and its value */
typedef struct arm_property {
    const arm_char_t *name;
    const arm_char_t *value;
} arm_property_t;

/* What every sub-buffer begins with; fields follow by its format */
typedef struct arm_subbuffer {
    arm_subbuffer_format_t format;
} arm_subbuffer_t;

/* Sub-buffers for a call; the first of several alike counts, NULL entries are skipped */
typedef struct arm_buffer4 {
    arm_int32_t count;
    arm_subbuffer_t **subbuffer_array;
} arm_buffer4_t;

/* For start and report: on whose behalf */
typedef struct arm_subbuffer_user {
    arm_subbuffer_t header;
    const arm_char_t *name;
    arm_boolean_t id_valid;
    arm_id_t id;
} arm_subbuffer_user_t;

/* For start: of arm_get_arrival_time() */
typedef struct arm_subbuffer_arrival_time {
    arm_subbuffer_t header;
    arm_arrival_time_t opaque_time;
} arm_subbuffer_arrival_time_t;

/* For start, update, stop and report */
typedef struct arm_subbuffer_metric_values {
    arm_subbuffer_t header;
    arm_int32_t count;
    const arm_metric_t *metric_value_array;
} arm_subbuffer_metric_values_t;

/* For arm_start_application(): where it runs. For start, update, stop and report, beyond the standard: the client. */
typedef struct arm_subbuffer_system_address {
    arm_subbuffer_t header;
    arm_int16_t address_format;
    arm_int16_t address_length;
    const arm_uint8_t *address;
    arm_boolean_t id_valid;
    arm_id_t id;
} arm_subbuffer_system_address_t;

/* For stop and report: why it failed */
typedef struct arm_subbuffer_diag_detail {
    arm_subbuffer_t header;
    const arm_char_t *diag_detail;
} arm_subbuffer_diag_detail_t;

/* For arm_register_application() */
typedef struct arm_subbuffer_app_identity {
    arm_subbuffer_t header;
    arm_int32_t identity_property_count;
    const arm_property_t *identity_property_array;
    arm_int32_t context_name_count;
    const arm_char_t **context_name_array;
} arm_subbuffer_app_identity_t;

/* For arm_start_application(): values in the order of the names registered */
typedef struct arm_subbuffer_app_context {
    arm_subbuffer_t header;
    arm_int32_t context_value_count;
    const arm_char_t **context_value_array;
} arm_subbuffer_app_context_t;

/* For arm_register_transaction() */
typedef struct arm_subbuffer_tran_identity {
    arm_subbuffer_t header;
    arm_int32_t identity_property_count;
    const arm_property_t *identity_property_array;
    arm_int32_t context_name_count;
    const arm_char_t **context_name_array;
    const arm_char_t *uri;
} arm_subbuffer_tran_identity_t;

/* For start and report */
typedef struct arm_subbuffer_tran_context {
    arm_subbuffer_t header;
    arm_int32_t context_value_count;
    const arm_char_t **context_value_array;
    const arm_char_t *uri;
} arm_subbuffer_tran_context_t;

/* For arm_register_transaction() */
typedef struct arm_subbuffer_metric_bindings {
    arm_subbuffer_t header;
    arm_int32_t count;
    const arm_metric_binding_t *metric_binding_array;
} arm_subbuffer_metric_bindings_t;

/* For arm_register_application() */
typedef struct arm_subbuffer_charset {
    arm_subbuffer_t header;
    arm_charset_t charset;
    arm_int32_t flags;
} arm_subbuffer_charset_t;

/* Sub-buffers of ARM 4.1, with fields of our own */

/* For start, update and stop: a message was received or sent */
typedef struct arm_subbuffer_message_event {
    arm_subbuffer_t header;
    arm_int64_t bytes;
} arm_subbuffer_message_event_t;

/* For arm_block_transaction() */
typedef struct arm_subbuffer_block_cause {
    arm_subbuffer_t header;
    arm_int32_t cause;
} arm_subbuffer_block_cause_t;

/* For start and report: spent before the transaction began */
typedef struct arm_subbuffer_preparation_time {
    arm_subbuffer_t header;
    arm_int64_t nanoseconds;
} arm_subbuffer_preparation_time_t;

/* The same over several preparations */
typedef struct arm_subbuffer_preparation_time_statistics {
    arm_subbuffer_t header;
    arm_int64_t count;
    arm_int64_t total_nanoseconds;
    arm_int64_t least_nanoseconds;
    arm_int64_t most_nanoseconds;
} arm_subbuffer_preparation_time_statistics_t;

/* For start: microseconds since 1970 */
typedef struct arm_subbuffer_arrival_time_usec {
    arm_subbuffer_t header;
    arm_int64_t microseconds;
} arm_subbuffer_arrival_time_usec_t;

/* For stop and report */
typedef struct arm_subbuffer_diag_properties {
    arm_subbuffer_t header;
    arm_int32_t count;
    const arm_property_t *property_array;
} arm_subbuffer_diag_properties_t;

/* For arm_register_transaction(): how much is collected of all of its instances */
typedef struct arm_subbuffer_tran_control {
    arm_subbuffer_t header;
    arm_int32_t collection_depth;
} arm_subbuffer_tran_control_t;

/* For start: how much is collected of this one */
typedef struct arm_subbuffer_tran_instance_control {
    arm_subbuffer_t header;
    arm_int32_t collection_depth;
} arm_subbuffer_tran_instance_control_t;

/* A sub-buffer as the calls take it */
#define ARM_SB(x) (&((x).header))

/* For what is not given */
#define ARM_BUF4_NONE ((arm_buffer4_t *)0)
#define ARM_CORR_NONE ((arm_correlator_t *)0)
#define ARM_ID_NONE ((arm_id_t *)0)
#define ARM_STRING_NONE ((arm_char_t *)0)
#define ARM_USE_CURRENT_TIME ((arm_stop_time_t)-1)

/* Registers an application. The same again gives the same id. */
ARM4_API_DYNAMIC(arm_error_t)
arm_register_application(
    const arm_char_t *app_name,
    const arm_id_t *input_app_id,
    const arm_int32_t flags,
    const arm_buffer4_t *buffer4,
    arm_id_t *output_app_id);

/* Gives an application up, with its transactions and metrics. */
ARM4_API_DYNAMIC(arm_error_t)
arm_destroy_application(
    const arm_id_t *app_id,
    const arm_int32_t flags,
    const arm_buffer4_t *buffer4);

/* Registers a transaction of an application. */
ARM4_API_DYNAMIC(arm_error_t)
arm_register_transaction(
    const arm_id_t *app_id,
    const arm_char_t *tran_name,
    const arm_id_t *input_tran_id,
    const arm_int32_t flags,
    const arm_buffer4_t *buffer4,
    arm_id_t *output_tran_id);

/* Registers a metric of an application. */
ARM4_API_DYNAMIC(arm_error_t)
arm_register_metric(
    const arm_id_t *app_id,
    const arm_char_t *metric_name,
    const arm_metric_format_t metric_format,
    const arm_metric_usage_t metric_usage,
    const arm_char_t *metric_unit,
    const arm_id_t *input_metric_id,
    const arm_int32_t flags,
    const arm_buffer4_t *buffer4,
    arm_id_t *output_metric_id);

/* Begins an instance of an application. */
ARM4_API_DYNAMIC(arm_error_t)
arm_start_application(
    const arm_id_t *app_id,
    const arm_char_t *app_group,
    const arm_char_t *app_instance,
    const arm_int32_t flags,
    const arm_buffer4_t *buffer4,
    arm_app_start_handle_t *app_handle);

/* Ends it; what runs in it is discarded. */
ARM4_API_DYNAMIC(arm_error_t)
arm_stop_application(
    const arm_app_start_handle_t app_handle,
    const arm_int32_t flags,
    const arm_buffer4_t *buffer4);

/* Begins a transaction. A current_correlator that is not NULL asks for one. A handle of 0 is not recorded, and all right. */
ARM4_API_DYNAMIC(arm_error_t)
arm_start_transaction(
    const arm_app_start_handle_t app_handle,
    const arm_id_t *tran_id,
    const arm_correlator_t *parent_correlator,
    const arm_int32_t flags,
    const arm_buffer4_t *buffer4,
    arm_tran_start_handle_t *tran_handle,
    arm_correlator_t *current_correlator);

/* Ends a transaction, from any thread; it is bound and blocked no longer. */
ARM4_API_DYNAMIC(arm_error_t)
arm_stop_transaction(
    const arm_tran_start_handle_t tran_handle,
    const arm_tran_status_t tran_status,
    const arm_int32_t flags,
    const arm_buffer4_t *buffer4);

/* A sign of life, with what there is to tell. */
ARM4_API_DYNAMIC(arm_error_t)
arm_update_transaction(
    const arm_tran_start_handle_t tran_handle,
    const arm_int32_t flags,
    const arm_buffer4_t *buffer4);

/* A transaction is not to be counted. */
ARM4_API_DYNAMIC(arm_error_t)
arm_discard_transaction(
    const arm_tran_start_handle_t tran_handle,
    const arm_int32_t flags,
    const arm_buffer4_t *buffer4);

/* A transaction begins to wait for something outside. */
ARM4_API_DYNAMIC(arm_error_t)
arm_block_transaction(
    const arm_tran_start_handle_t tran_handle,
    const arm_int32_t flags,
    const arm_buffer4_t *buffer4,
    arm_tran_block_handle_t *block_handle);

/* That wait is over. */
ARM4_API_DYNAMIC(arm_error_t)
arm_unblock_transaction(
    const arm_tran_start_handle_t tran_handle,
    const arm_tran_block_handle_t block_handle,
    const arm_int32_t flags,
    const arm_buffer4_t *buffer4);

/* The running thread works for a transaction. */
ARM4_API_DYNAMIC(arm_error_t)
arm_bind_thread(
    const arm_tran_start_handle_t tran_handle,
    const arm_int32_t flags,
    const arm_buffer4_t *buffer4);

/* It no longer does. */
ARM4_API_DYNAMIC(arm_error_t)
arm_unbind_thread(
    const arm_tran_start_handle_t tran_handle,
    const arm_int32_t flags,
    const arm_buffer4_t *buffer4);

/* Reports a transaction measured elsewhere: nanoseconds it took, milliseconds since 1970 at which it ended. */
ARM4_API_DYNAMIC(arm_error_t)
arm_report_transaction(
    const arm_app_start_handle_t app_handle,
    const arm_id_t *tran_id,
    const arm_tran_status_t tran_status,
    const arm_response_time_t response_time,
    const arm_stop_time_t stop_time,
    const arm_correlator_t *parent_correlator,
    const arm_correlator_t *current_correlator,
    const arm_int32_t flags,
    const arm_buffer4_t *buffer4);

/* Makes a correlator for a transaction that will be reported. */
ARM4_API_DYNAMIC(arm_error_t)
arm_generate_correlator(
    const arm_app_start_handle_t app_handle,
    const arm_id_t *tran_id,
    const arm_correlator_t *parent_correlator,
    const arm_int32_t flags,
    const arm_buffer4_t *buffer4,
    arm_correlator_t *current_correlator);

/* The bytes of a correlator that have to be passed on; 0 = it is none. */
ARM4_API_DYNAMIC(arm_error_t)
arm_get_correlator_length(const arm_correlator_t *correlator, arm_correlator_length_t *length);

/* Whether a flag of a correlator is set. */
ARM4_API_DYNAMIC(arm_error_t)
arm_get_correlator_flags(
    const arm_correlator_t *correlator,
    const arm_int32_t corr_flag_num,
    arm_boolean_t *flag);

/* The time of now, for ARM_SUBBUFFER_ARRIVAL_TIME. */
ARM4_API_DYNAMIC(arm_error_t)
arm_get_arrival_time(arm_arrival_time_t *opaque_time);

/* The words for what a call has returned. */
ARM4_API_DYNAMIC(arm_error_t)
arm_get_error_message(const arm_charset_t charset, const arm_error_t code, arm_message_buffer_t msg);

/* Whether texts may be in an encoding. */
ARM4_API_DYNAMIC(arm_error_t)
arm_is_charset_supported(const arm_charset_t charset, arm_boolean_t *supported);

#ifdef __cplusplus
}
#endif

#endif /* ARM4_H_INCLUDED */
