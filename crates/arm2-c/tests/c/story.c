/* A program as they were written for ARM 2.0; its test reads what it left behind. Ends when its input does. */
#include "check.h"
#include <arm.h>

int main(void)
{
    arm_data101_t meaning;
    arm_data1_t data;
    arm_data2_t opaque;
    int shop = arm_init((char *)"Shop", (char *)"ann", 0, 0, 0);

    memset(&meaning, 0, sizeof meaning);
    meaning.format = ARM_FORMAT_METRICS;
    meaning.metrics[0].type = ARM_GAUGE32;
    strcpy(meaning.metrics[0].name, "basket");
    meaning.metrics[6].type = ARM_STRING32;
    strcpy(meaning.metrics[6].name, "part");
    int checkout = arm_getid(shop, (char *)"checkout", (char *)"the basket is paid for", 0, (char *)&meaning, sizeof meaning);
    int search = arm_getid(shop, (char *)"search", 0, 0, 0, 0);
    CHECK(listens(1) == 1);

    memset(&data, 0, sizeof data);
    data.format = ARM_FORMAT_DATA;
    data.flags[0] = ARM_WANT_CORRELATOR | ARM_TRACE;
    data.flags[1] = ARM_METRIC_VALID(1) | ARM_METRIC_VALID(2) | ARM_METRIC_VALID(7);
    data.metrics[0].value32 = -42;
    strcpy(data.string32, "bolts");
    int parent = arm_start(checkout, 0, (char *)&data, sizeof data);
    CHECK(data.correlator.bytes[0] == 0 && data.correlator.bytes[1] == 28);

    data.flags[0] = ARM_HAS_PARENT;
    int child = arm_start(search, 0, (char *)&data, sizeof data);
    memset(&opaque, 0, sizeof opaque);
    opaque.format = ARM_FORMAT_OPAQUE;
    strcpy(opaque.bytes, "half done");
    CHECK(arm_update(child, 0, (char *)&opaque, 4 + 9) == 0);
    CHECK(arm_stop(child, ARM_FAILED, 0, 0, 0) == 0);
    data.flags[0] = 0;
    data.flags[1] = ARM_METRIC_VALID(1);
    data.metrics[0].value32 = 7;
    CHECK(arm_stop(parent, ARM_GOOD, 0, (char *)&data, sizeof data) == 0);

    puts(failures ? "failed" : "done");
    fflush(stdout);
    while (getchar() != EOF) {
    }
    return failures != 0;
}
