/*
 * mod_arm: requests of Apache httpd as transactions of ARM 4. Part of weir.
 *
 *   directives.c   what the configuration says
 *   names.c        what a request is called, and the ids of such names
 *   requests.c     a request's way, in the hooks that are there only where something is on
 *   telling.c      how its begin and its end are told
 */

#include "mod_arm.h"

#include <stdlib.h>

/* For what runs within the server: that mod_arm is there, and decides what is measured. */
#define SERVER_VARIABLE "ARM_SERVER"

const arm4_dl *arm;
int are_times_noted, is_id_noted;
application *default_application;

static apr_status_t leave(void *nothing)
{
    unsetenv(SERVER_VARIABLE);
    return APR_SUCCESS;
}

/* Before the configuration is read, the first time and each time again. */
static int forget(apr_pool_t *pool, apr_pool_t *log_pool, apr_pool_t *temporary)
{
    forget_directives();
    forget_requests();
    are_times_noted = is_id_noted = 0;
    default_application = application_named(pool, DEFAULT_APPLICATION, NULL);
    setenv(SERVER_VARIABLE, "mod_arm", 1);
    apr_pool_cleanup_register(pool, NULL, leave, apr_pool_cleanup_null);
    return OK;
}

/* Looks which of our notes the configuration names, in its logs or elsewhere: making them costs each request a little. */
static void look_for_notes(const ap_directive_t *directive)
{
    for (; directive; directive = directive->next) {
        const char *words = directive->args;
        if (words && (strstr(words, "arm-first-byte") || strstr(words, "arm-last-byte")))
            are_times_noted = 1;
        if (words && strstr(words, "arm-id"))
            is_id_noted = 1;
        look_for_notes(directive->first_child);
    }
}

/* The configuration has been read: before any process is started, and again after each reload. */
static int load(apr_pool_t *pool, apr_pool_t *log_pool, apr_pool_t *temporary, server_rec *server)
{
    char why[512];
    if (!is_any_on() || ap_state_query(AP_SQ_MAIN_STATE) == AP_SQ_MS_CREATE_PRE_CONFIG)
        return OK;
    look_for_notes(ap_conftree);
    arm = arm4_dl_load(why, sizeof why);
    if (!arm)
        ap_log_error(APLOG_MARK, APLOG_WARNING, 0, server,
                     "mod_arm: %s. The server runs, and what its logs say of times is right, but no transactions are "
                     "told. Install " ARM4_DL_LIBRARY " where the system looks for libraries, and restart",
                     why);
    return OK;
}

static void hook(apr_pool_t *pool)
{
    ap_hook_pre_config(forget, NULL, NULL, APR_HOOK_MIDDLE);
    ap_hook_post_config(load, NULL, NULL, APR_HOOK_MIDDLE);
}

AP_DECLARE_MODULE(arm) = {
    STANDARD20_MODULE_STUFF, create_settings, merge_settings, NULL, NULL, arm_directives, hook,
};
