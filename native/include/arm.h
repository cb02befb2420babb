/*
 * arm.h - Application Response Measurement, ARM 2.0 (the Open Group's C807): the C interface of libarm.
 *
 * Link with -larm (pkg-config --libs arm). The manual begins with arm(3).
 *
 * The functions, the constants ARM_GOOD, ARM_ABORT and ARM_FAILED, the sizes and the numbers of the formats are the
 * standard's. No public copy of its own header was at hand: the names of the structures below are ours, and a program
 * that brings declarations of its own for the same bytes works as well, as every buffer is passed as char *.
 */
#ifndef ARM_H_INCLUDED
#define ARM_H_INCLUDED

#ifdef __cplusplus
extern "C" {
#endif

/* 32 bits on every machine. A caller that was built with long in their place works too: what comes back is extended
 * with its sign, and of what goes in only the low 32 bits count. */
typedef int arm_int32_t;
typedef unsigned char arm_bit8_t;

/* The names by which some systems' manuals call the same types. */
typedef char arm_ptr_t;
typedef char arm_data_t;
typedef arm_int32_t arm_flag_t;
typedef arm_int32_t arm_data_sz_t;
typedef arm_int32_t arm_appl_id_t;
typedef arm_int32_t arm_tran_id_t;
typedef arm_int32_t arm_start_handle_t;
typedef arm_int32_t arm_status_t;
typedef arm_int32_t arm_ret_stat_t;

/* How a transaction ended. */
#define ARM_GOOD   0
#define ARM_ABORT  1
#define ARM_FAILED 2

/* Bytes of a name with the NUL that ends it; longer ones are cut there. */
#define ARM_NAME_BYTES 128

/* Formats of data: their first four bytes. */
#define ARM_FORMAT_DATA     1   /* arm_start, arm_update, arm_stop: metrics; with arm_start a correlator as well */
#define ARM_FORMAT_OPAQUE   2   /* arm_update: bytes that only the application understands */
#define ARM_FORMAT_METRICS  101 /* arm_getid: what the metrics mean */

/* Flags of ARM_FORMAT_DATA, flags[0]. */
#define ARM_HAS_PARENT     0x80 /* correlator holds that of the parent */
#define ARM_WANT_CORRELATOR 0x40 /* arm_start leaves its own in correlator */
#define ARM_TRACE          0x20 /* tracing is asked for */

/* The bit of flags[1] that says that the metric of a slot, 1 to 7, is valid. */
#define ARM_METRIC_VALID(slot) (0x80 >> ((slot) - 1))

/* What a metric is. */
#define ARM_COUNTER32   1
#define ARM_COUNTER64   2
#define ARM_CNTRDIVR32  3
#define ARM_GAUGE32     4
#define ARM_GAUGE64     5
#define ARM_GAUGEDIVR32 6
#define ARM_NUMERICID32 7
#define ARM_NUMERICID64 8
#define ARM_STRING8     9  /* 8 bytes, without a NUL where it is full */
#define ARM_STRING32    10 /* 32 bytes, likewise; in slot 7 only */

#define ARM_METRIC_SLOTS     7
#define ARM_METRIC_NAME_BYTES 44
#define ARM_CORRELATOR_BYTES 168
#define ARM_OPAQUE_BYTES     1020

/* Bytes of a correlator. The first two are its length in network order, 0 = none; the rest is opaque. */
typedef struct arm_correlator2 {
    arm_bit8_t bytes[ARM_CORRELATOR_BYTES];
} arm_correlator2_t;

/* The value of a metric of the slots 1 to 6. The members of 64 bits are halves in the machine's order, so that the
 * structure needs no alignment of 8. */
typedef union arm_metric2 {
    arm_int32_t value32;
    arm_int32_t value64[2];
    struct {
        arm_int32_t value;
        arm_int32_t divisor;
    } divided32;
    char string8[8];
} arm_metric2_t;

/* ARM_FORMAT_DATA, 256 bytes. */
typedef struct arm_data1 {
    arm_int32_t format;
    arm_bit8_t flags[4];
    arm_metric2_t metrics[ARM_METRIC_SLOTS - 1];
    char string32[32];
    arm_correlator2_t correlator;
} arm_data1_t;

/* ARM_FORMAT_OPAQUE, up to 1024 bytes. */
typedef struct arm_data2 {
    arm_int32_t format;
    char bytes[ARM_OPAQUE_BYTES];
} arm_data2_t;

/* ARM_FORMAT_METRICS, 344 bytes: of each slot a type, 0 = none, and a name. */
typedef struct arm_data101 {
    arm_int32_t format;
    arm_bit8_t flags[4];
    struct {
        arm_int32_t type;
        char name[ARM_METRIC_NAME_BYTES];
    } metrics[ARM_METRIC_SLOTS];
} arm_data101_t;

/* All return a negative number for an error, which never keeps the program from going on: a negative id or handle
 * may be passed to all of them and means that nothing is to be done. flags are 0; data may be NULL. */

/* Names an application and its user; NULL = none, "*" = the login user. An id, or < 0. */
extern arm_int32_t arm_init(char *appl_name, char *appl_user_id, arm_int32_t flags, char *data,
                            arm_int32_t data_size);

/* Names a transaction of an application. The same name and data give the same id. An id, or < 0. */
extern arm_int32_t arm_getid(arm_int32_t appl_id, char *tran_name, char *tran_detail, arm_int32_t flags, char *data,
                             arm_int32_t data_size);

/* Begins a transaction. A handle; 0 while no agent listens; < 0 for an error. */
extern arm_int32_t arm_start(arm_int32_t tran_id, arm_int32_t flags, char *data, arm_int32_t data_size);

/* Says that it is still running. 0, or < 0. */
extern arm_int32_t arm_update(arm_int32_t start_handle, arm_int32_t flags, char *data, arm_int32_t data_size);

/* Ends it. 0, or < 0. */
extern arm_int32_t arm_stop(arm_int32_t start_handle, arm_int32_t tran_status, arm_int32_t flags, char *data,
                            arm_int32_t data_size);

/* Ends an application: what runs may still be stopped, nothing new may begin. 0, or < 0. */
extern arm_int32_t arm_end(arm_int32_t appl_id, arm_int32_t flags, char *data, arm_int32_t data_size);

#ifdef __cplusplus
}
#endif

#endif /* ARM_H_INCLUDED */
