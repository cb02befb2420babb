/* mod_arm: requests of Apache httpd as transactions of ARM 4. Part of weir. What its files know of each other. */

#ifndef MOD_ARM_H_INCLUDED
#define MOD_ARM_H_INCLUDED

#include "httpd.h"
#include "http_config.h"
#include "http_core.h"
#include "http_log.h"
#include "http_main.h"
#include "http_protocol.h"
#include "http_request.h"

#include "apr_atomic.h"
#include "apr_network_io.h"
#include "apr_strings.h"
#include "util_filter.h"

#include "arm4_dl.h"

/* What a request is part of: ArmApplication. Ids and handle are of each process. */
typedef struct application {
    struct application *next;
    const char *name;
    const char *group;
    arm_id_t id;
    arm_app_start_handle_t handle;
} application;

/* A name that was registered; never changed and never freed. */
struct known;

/* A name of transactions with its hash, and what was found by it last; those that the configuration has stay. */
typedef struct fixed_name {
    const char *text;
    apr_uint32_t hash;
    const struct known *volatile last;
} fixed_name;

/* ArmMatch. */
typedef struct match {
    struct match *next;
    ap_regex_t *pattern;
    fixed_name name;
    /* The pattern is for the path with its query; and the name has references to its groups. */
    unsigned with_query : 1, is_template : 1;
} match;

/* ArmSample: so many of so many; each process counts for itself. */
typedef struct sample {
    struct sample *next;
    apr_uint32_t taken, of;
    volatile apr_uint32_t seen;
} sample;

/* What the directives of a section say; what they do not say is NULL, or UNSAID. */
typedef struct settings {
    int on;
    application *application;
    const char *user;
    fixed_name *name;
    const char *info;
    /* Of apr_ipsubnet_t *; empty = all. */
    apr_array_header_t *clients;
    sample *sample;
    match *matches;
    /* Where the matches of the sections around this one are. */
    const struct settings *around;
    /* Sections as they were read, for registering their names when a process starts. */
    struct settings *next_read;
    server_rec *server;
} settings;

#define UNSAID (-1)

/* What every request has that is measured. */
typedef struct measured {
    const settings *by;
    arm_tran_start_handle_t handle;
    const char *name;
    /* By the library's clock, in nanoseconds, where it has a way of its own for requests: when it came, 0 = it has none. */
    arm_int64_t came_ns;
    arm_int64_t answered_ns;
    /* By Apache's, where the former is not there or the time is noted: 0 = not yet. */
    apr_time_t answered;
    /* Its own, or that of its parent where it is not recorded; ask correlator_of(). */
    const arm_correlator_t *correlator;
    unsigned is_left_out : 1, is_from_arm_header : 1, is_answered : 1, was_handed_over : 1;
    /* Sees the first byte. */
    ap_filter_t filter;
    /* The correlator of most: those of weir's own. From here on nothing is set at first. */
    arm_uint8_t own[ARM4_DL_OWN_BYTES];
} measured;

/* The one name that the server looks for. */
extern module AP_MODULE_DECLARE_DATA arm_module __attribute__((visibility("default")));

/* The ARM library; NULL = there is none. */
extern const arm4_dl *arm;
/* Whether the configuration names our notes: then they are made for every request. */
extern int are_times_noted, is_id_noted;
/* Of requests for which no application is named. */
extern application *default_application;

/* directives.c */
extern const command_rec arm_directives[];
extern settings *sections_read;
extern application *applications;
extern sample *samples;
void *create_settings(apr_pool_t *pool, char *path);
void *merge_settings(apr_pool_t *pool, void *outer, void *inner);
void forget_directives(void);
application *application_named(apr_pool_t *pool, const char *name, const char *group);

/* names.c */
void register_applications(void);
apr_uint32_t hash_of(const char *text);
/* The id of a transaction, registered if it is new; a name without bound goes to names that are kept for all. */
const arm_id_t *transaction(const application *of, fixed_name *name, const char *info, int is_bounded);
/*
 * What a request is called, for as long as the request lives; and whether the configuration bounds such names. One that
 * the configuration does not have is put into the place.
 */
fixed_name *name_of(const settings *by, request_rec *r, fixed_name *place, int *is_bounded);
/* What finds no room, and what has no name. */
extern fixed_name other_name;
#define DEFAULT_APPLICATION "Apache"

/* W3C Trace Context's header, and our own for correlators of any format. */
#define TRACEPARENT "traceparent"
#define ARM_HEADER "ARM-Correlator"

/* telling.c */
/* The application that a request belongs to. */
static inline const application *application_by(const settings *by)
{
    return by->application ? by->application : default_application;
}
/* Begins a transaction. */
void tell_begin(measured *mine, request_rec *r);
/* Ends it, with all that there is to tell; one that never began is reported as a whole. */
void tell_end(const measured *mine, request_rec *r, request_rec *last);
/* The correlator that those have who work for a request; NULL = there is none. */
const arm_correlator_t *correlator_of(measured *mine, request_rec *r);
/* Notes that the first byte leaves. */
void note_answer(measured *mine);
/* Microseconds from one time to another, none where the clock was set back meanwhile. */
static inline apr_int64_t since(apr_time_t from, apr_time_t to)
{
    return to > from ? to - from : 0;
}

/* requests.c */
/* From now on requests pass through the module; does nothing when called again. */
void hook_requests(apr_pool_t *pool);
int is_any_on(void);
void forget_requests(void);

#endif
