/* Sizes, offsets and constants: a program built against another header of ARM 2.0 finds the same. C and C++. */
#include <arm.h>
#include <stddef.h>

#ifdef __cplusplus
#define HOLDS(what) static_assert(what, #what)
#else
#define HOLDS(what) _Static_assert(what, #what)
#endif

HOLDS(sizeof(arm_int32_t) == 4 && (arm_int32_t)-1 < 0);
HOLDS(ARM_GOOD == 0 && ARM_ABORT == 1 && ARM_FAILED == 2);
HOLDS(ARM_NAME_BYTES == 128);
HOLDS(ARM_FORMAT_DATA == 1 && ARM_FORMAT_OPAQUE == 2 && ARM_FORMAT_METRICS == 101);

HOLDS(sizeof(arm_data1_t) == 256);
HOLDS(offsetof(arm_data1_t, format) == 0);
HOLDS(offsetof(arm_data1_t, flags) == 4);
HOLDS(offsetof(arm_data1_t, metrics) == 8 && sizeof(arm_metric2_t) == 8);
HOLDS(offsetof(arm_data1_t, string32) == 56);
HOLDS(offsetof(arm_data1_t, correlator) == 88 && sizeof(arm_correlator2_t) == 168);

HOLDS(sizeof(arm_data2_t) == 1024 && offsetof(arm_data2_t, bytes) == 4);

HOLDS(sizeof(arm_data101_t) == 344);
HOLDS(offsetof(arm_data101_t, flags) == 4);
HOLDS(offsetof(arm_data101_t, metrics) == 8);
HOLDS(offsetof(arm_data101_t, metrics[1]) == 56);
HOLDS(offsetof(arm_data101_t, metrics[0].name) == 12);

HOLDS(ARM_METRIC_VALID(1) == 0x80 && ARM_METRIC_VALID(7) == 0x02);
HOLDS(ARM_HAS_PARENT == 0x80 && ARM_WANT_CORRELATOR == 0x40 && ARM_TRACE == 0x20);
HOLDS(ARM_COUNTER32 == 1 && ARM_COUNTER64 == 2 && ARM_CNTRDIVR32 == 3 && ARM_GAUGE32 == 4 && ARM_GAUGE64 == 5);
HOLDS(ARM_GAUGEDIVR32 == 6 && ARM_NUMERICID32 == 7 && ARM_NUMERICID64 == 8 && ARM_STRING8 == 9);
HOLDS(ARM_STRING32 == 10);

/* The functions have the types of the standard: an address of each fits into a pointer of its own type. */
arm_int32_t (*const init_address)(char *, char *, arm_int32_t, char *, arm_int32_t) = arm_init;
arm_int32_t (*const getid_address)(arm_int32_t, char *, char *, arm_int32_t, char *, arm_int32_t) = arm_getid;
arm_int32_t (*const start_address)(arm_int32_t, arm_int32_t, char *, arm_int32_t) = arm_start;
arm_int32_t (*const update_address)(arm_int32_t, arm_int32_t, char *, arm_int32_t) = arm_update;
arm_int32_t (*const stop_address)(arm_int32_t, arm_int32_t, arm_int32_t, char *, arm_int32_t) = arm_stop;
arm_int32_t (*const end_address)(arm_int32_t, arm_int32_t, char *, arm_int32_t) = arm_end;

int main(void)
{
    int nothing = getid_address(init_address(0, 0, 0, 0, 0), 0, 0, 0, 0, 0), handle = start_address(nothing, 0, 0, 0);
    return update_address(handle, 0, 0, 0) | stop_address(handle, 0, 0, 0, 0) | end_address(nothing, 0, 0, 0);
}
