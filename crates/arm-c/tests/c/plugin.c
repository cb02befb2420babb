/* Loaded and unloaded at run time, as by servers with modules: threads that used it may end later. */

#include <arm4.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static pthread_barrier_t used, unloaded;
static arm_id_t application, transaction;
static arm_app_start_handle_t instance;
static void *library;

#define FIND(name) __typeof__(name) *its_##name = (__typeof__(name) *)dlsym(library, #name); if (!its_##name) exit(2)

static void *work(void *unused)
{
    FIND(arm_start_transaction);
    FIND(arm_stop_transaction);
    for (int round = 0; round < 100; round++) {
        arm_tran_start_handle_t handle;
        if (its_arm_start_transaction(instance, &transaction, NULL, 0, NULL, &handle, NULL)) exit(3);
        if (its_arm_stop_transaction(handle, 0, 0, NULL)) exit(4);
    }
    pthread_barrier_wait(&used);
    pthread_barrier_wait(&unloaded);
    return unused;
}

int main(void)
{
    for (int round = 0; round < 20; round++) {
        library = dlopen("libarm4.so.4", RTLD_NOW | RTLD_LOCAL);
        if (!library) {
            fprintf(stderr, "%s\n", dlerror());
            return 1;
        }
        FIND(arm_register_application);
        FIND(arm_register_transaction);
        FIND(arm_start_application);
        FIND(arm_stop_application);
        if (its_arm_register_application("plugin", NULL, 0, NULL, &application)) return 5;
        if (its_arm_register_transaction(&application, "t", NULL, 0, NULL, &transaction)) return 6;
        if (its_arm_start_application(&application, NULL, NULL, 0, NULL, &instance)) return 7;
        pthread_t threads[4];
        pthread_barrier_init(&used, NULL, 5);
        pthread_barrier_init(&unloaded, NULL, 5);
        for (int number = 0; number < 4; number++) pthread_create(&threads[number], NULL, work, NULL);
        pthread_barrier_wait(&used);
        if (its_arm_stop_application(instance, 0, NULL)) return 8;
        dlclose(library);
        pthread_barrier_wait(&unloaded);
        for (int number = 0; number < 4; number++) pthread_join(threads[number], NULL);
    }
    return 0;
}
