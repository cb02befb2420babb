/*
 * What libarm4 of weir has beyond the standard: a server's requests, which begin and end by one call each.
 * Part of weir.
 *
 * What is recorded is the same as by arm_start_transaction() with the time of arrival and a correlator, and by
 * arm_stop_transaction() with user, context, metrics, diagnosis and address; but no sub-buffer has to be put together
 * and looked through, which is most of what such a pair costs. Another ARM library has none of this: a program that
 * shall run with any looks for these functions when it runs, as arm4_dl.h does, and takes the standard's without them.
 */

#ifndef WEIR_ARM_H_INCLUDED
#define WEIR_ARM_H_INCLUDED

#include "arm4.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * What a request tells at its end; texts end with a NUL, NULL = not told. The transaction was registered with a context
 * of two names, method and host, and with metrics in slots 0 to 3: status (numeric id of 32 bits, usage status), bytes
 * (gauge of 64 bits, usage size), first byte and last byte (gauges of 64 bits, microseconds since it came).
 */
typedef struct weir_arm_request {
    const arm_char_t *method;
    const arm_char_t *host;
    const arm_char_t *path;
    /* On whose behalf it was handled. */
    const arm_char_t *user;
    /* What went wrong, in words. */
    const arm_char_t *diagnosis;
    /* The client's address, as in arm_subbuffer_system_address_t; a length of 0 = none. */
    const arm_uint8_t *address;
    arm_int16_t address_format;
    arm_int16_t address_length;
    /* The response's status, and its bytes. */
    arm_int32_t code;
    arm_int64_t bytes;
    /* As weir_arm_start_request() gave it. */
    arm_int64_t arrived_ns;
    /* By arm_get_arrival_time(), when the first byte of the response left; 0 = that is not known. */
    arm_int64_t answered_ns;
} weir_arm_request;

/*
 * Begins a request that came at arrived_us, microseconds since 1970, not before what is now; returns its handle, 0 = it
 * is not recorded. parent may be NULL. arrived_ns becomes that time on the clock of arm_get_arrival_time(), where there
 * is a handle.
 */
arm_tran_start_handle_t weir_arm_start_request(const arm_app_start_handle_t app_handle, const arm_id_t *tran_id,
                                               const arm_correlator_t *parent, arm_int64_t arrived_us,
                                               arm_int64_t *arrived_ns);

/* The correlator of a request that was begun with this parent, NULL for none: the same as often as it is asked for. */
void weir_arm_request_correlator(const arm_tran_start_handle_t tran_handle, const arm_correlator_t *parent,
                                 arm_correlator_t *current);

/* Ends a request. */
void weir_arm_stop_request(const arm_tran_start_handle_t tran_handle, const arm_tran_status_t status,
                           const weir_arm_request *told);

#ifdef __cplusplus
}
#endif

#endif /* WEIR_ARM_H_INCLUDED */
