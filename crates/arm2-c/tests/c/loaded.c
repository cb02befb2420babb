/* Loads the library, uses it and lets it go, in threads that end afterwards: their lanes go back by its code. */
#include "check.h"
#include <arm.h>
#include <dlfcn.h>
#include <pthread.h>

static void *use(void *nothing)
{
    void *library = dlopen("libarm.so.2", RTLD_NOW | RTLD_LOCAL);
    CHECK(library);
    if (library) {
        __typeof__(&arm_init) init = (__typeof__(&arm_init))dlsym(library, "arm_init");
        __typeof__(&arm_getid) getid = (__typeof__(&arm_getid))dlsym(library, "arm_getid");
        __typeof__(&arm_start) start = (__typeof__(&arm_start))dlsym(library, "arm_start");
        __typeof__(&arm_stop) stop = (__typeof__(&arm_stop))dlsym(library, "arm_stop");
        int id = getid(init((char *)"Loaded", 0, 0, 0, 0), (char *)"t", 0, 0, 0, 0);
        CHECK(id > 0 && listens(1) == 1);
        int handle = start(id, 0, 0, 0);
        CHECK(handle > 0 && stop(handle, ARM_GOOD, 0, 0, 0) == 0);
        CHECK(dlclose(library) == 0);
    }
    return nothing;
}

int main(void)
{
    for (int time = 0; time < 200; time++) {
        pthread_t thread;
        CHECK(pthread_create(&thread, 0, use, 0) == 0 && pthread_join(thread, 0) == 0);
        drain();
    }
    return failures != 0;
}
