/* Where little is allowed: no memory file, no descriptor, no directory. The program goes on, nothing is recorded. */

#include <arm4.h>
#include <dirent.h>
#include <sys/resource.h>
#include "listener.h"

static void limit(int what, rlim_t bytes)
{
    struct rlimit limit = {bytes, RLIM_INFINITY};
    CHECK(getrlimit(what, &limit) == 0);
    limit.rlim_cur = bytes;
    CHECK(setrlimit(what, &limit) == 0);
}

/* How many announcements there are. */
static int announcements(void)
{
    DIR *folder = opendir(getenv("WEIR_ARM_DIR"));
    CHECK(folder);
    int found = 0;
    for (struct dirent *entry; (entry = readdir(folder));) found += entry->d_name[0] != '.';
    closedir(folder);
    return found;
}

int main(int count, char **arguments)
{
    CHECK(count == 2);
    char what = arguments[1][0];
    if (what == 's') limit(RLIMIT_FSIZE, 1 << 20);
    if (what == 'd') limit(RLIMIT_NOFILE, 3);
    if (what == 'n') CHECK(setenv("WEIR_ARM_DIR", "/nonexistent/arm", 1) == 0);
    if (what == 'l') {
        char *name = malloc(100000);
        memset(name, 'n', 99999);
        name[99999] = 0;
        CHECK(setenv("WEIR_ARM_DIR", name, 1) == 0);
    }
    arm_id_t application, transaction;
    arm_app_start_handle_t instance;
    arm_tran_start_handle_t handle = -1;
    arm_correlator_t correlator;
    CHECK(arm_register_application("limits", NULL, 0, NULL, &application) == 0);
    CHECK(arm_register_transaction(&application, "t", NULL, 0, NULL, &transaction) == 0);
    CHECK(arm_start_application(&application, NULL, NULL, 0, NULL, &instance) == 0 && instance > 0);
    CHECK(arm_start_transaction(instance, &transaction, NULL, 0, NULL, &handle, &correlator) == 0 && handle == 0);
    CHECK(arm_stop_transaction(handle, 0, 0, NULL) == 0 && correlator.opaque[1] == 28);
    CHECK(arm_stop_application(instance, 0, NULL) == 0);
    int descriptor = find_memory();
    if (what == 's' || what == 'd') {
        CHECK(descriptor == -1);
        /* Once it is allowed, the next registration makes the memory. */
        limit(what == 's' ? RLIMIT_FSIZE : RLIMIT_NOFILE, what == 's' ? RLIM_INFINITY : 1024);
        CHECK(arm_register_transaction(&application, "u", NULL, 0, NULL, &transaction) == 0);
    }
    attach();
    listen_now(1);
    CHECK(arm_start_application(&application, NULL, NULL, 0, NULL, &instance) == 0);
    CHECK(arm_start_transaction(instance, &transaction, NULL, 0, NULL, &handle, NULL) == 0 && handle > 0);
    if (what == 'r') {
        /* The announcement may be cut, made unreadable or removed: it carries nothing, and comes back. */
        char path[512];
        snprintf(path, sizeof path, "%s/%d-%d", getenv("WEIR_ARM_DIR"), getpid(), memory_descriptor);
        struct stat status;
        CHECK(stat(path, &status) == 0 && status.st_size == 0 && (status.st_mode & 0777) == 0600);
        CHECK(status.st_uid == geteuid() && announcements() == 1);
        CHECK(truncate(path, 0) == 0 && chmod(path, 0) == 0);
        CHECK(arm_register_transaction(&application, "v", NULL, 0, NULL, &transaction) == 0);
        CHECK(unlink(path) == 0 && announcements() == 0);
        usleep(1100000);
        CHECK(arm_register_transaction(&application, "v", NULL, 0, NULL, &transaction) == 0);
        CHECK(announcements() == 1 && stat(path, &status) == 0);
        if (geteuid() == 0) {
            /* As another user it has a memory of that user. */
            CHECK(chmod(getenv("WEIR_ARM_DIR"), 01777) == 0 && setuid(65534) == 0);
            usleep(1100000);
            CHECK(arm_register_transaction(&application, "w", NULL, 0, NULL, &transaction) == 0);
            attach();
            CHECK(fstat(memory_descriptor, &status) == 0 && status.st_uid == 65534 && announcements() == 2);
        }
        /* No agent listens, so the program itself removes its announcements. */
        listen_now(0);
        return 0;
    }
    if (what == 'a') {
        CHECK(arm_stop_transaction(handle, 0, 0, NULL) == 0 && drain(ARM_STOP) == 1);
        /* The seals keep the size of the file, so no access to it can fault. */
        CHECK(ftruncate(memory_descriptor, 0) == -1 && ftruncate(memory_descriptor, 1ll << 40) == -1);
    }
    return 0;
}
