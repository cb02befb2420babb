/* Says whether its very first transaction was recorded. */
#include <arm.h>
#include <stdio.h>

int main(void)
{
    int shop = arm_init((char *)"First", 0, 0, 0, 0);
    int handle = arm_start(arm_getid(shop, (char *)"t", 0, 0, 0, 0), 0, 0, 0);
    puts(handle > 0 ? "recorded" : "not recorded");
    return arm_stop(handle, ARM_GOOD, 0, 0, 0);
}
