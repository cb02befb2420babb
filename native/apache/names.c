/* What transactions are called, and their ids: registered once by each process, looked up without a lock. */

#include "mod_arm.h"

/* Places of the table, a power of two, and how many of the names that clients can choose get one. */
#define PLACES 4096
#define MOST_FROM_CLIENTS 1000
/* The longest name, in bytes; what is longer is cut. */
#define MOST_BYTES 127

typedef struct known {
    const application *of;
    const char *info;
    apr_uint32_t hash;
    arm_id_t id;
    char text[];
} known;

fixed_name other_name = {"(other)", 0, NULL};

static known *volatile table[PLACES];
static volatile apr_uint32_t from_clients;

/* The metrics that each transaction has, by slot. */
static const struct {
    const char *name, *unit;
    arm_metric_format_t format;
    arm_metric_usage_t usage;
} metrics[] = {
    {"status", "", ARM_METRIC_FORMAT_NUMERICID32, ARM_METRIC_USE_TRAN_STATUS},
    {"bytes", "bytes", ARM_METRIC_FORMAT_GAUGE64, ARM_METRIC_USE_TRAN_SIZE},
    {"first byte", "us", ARM_METRIC_FORMAT_GAUGE64, ARM_METRIC_USE_GENERAL},
    {"last byte", "us", ARM_METRIC_FORMAT_GAUGE64, ARM_METRIC_USE_GENERAL},
};
#define METRICS (sizeof metrics / sizeof *metrics)

/* FNV-1a. */
apr_uint32_t hash_of(const char *text)
{
    apr_uint32_t hash = 0x811c9dc5;
    for (; *text; text++)
        hash = (hash ^ (unsigned char)*text) * 0x01000193;
    return hash;
}

static void register_transaction(const application *of, known *new)
{
    static const char *context[] = {"method", "host"};
    arm_metric_binding_t bindings[METRICS];
    arm_property_t property = {"info", new->info};
    arm_subbuffer_tran_identity_t identity = {
        {ARM_SUBBUFFER_TRAN_IDENTITY}, new->info ? 1 : 0, &property, 2, context, NULL};
    arm_subbuffer_metric_bindings_t bound = {{ARM_SUBBUFFER_METRIC_BINDINGS}, METRICS, bindings};
    arm_subbuffer_t *told[] = {ARM_SB(identity), ARM_SB(bound)};
    arm_buffer4_t buffer = {2, told};
    for (size_t slot = 0; slot < METRICS; slot++) {
        bindings[slot].slot = (arm_metric_slot_t)slot;
        arm->register_metric(&of->id, metrics[slot].name, metrics[slot].format, metrics[slot].usage,
                             metrics[slot].unit, NULL, 0, NULL, &bindings[slot].id);
    }
    arm->register_transaction(&of->id, new->text, NULL, 0, &buffer, &new->id);
}

static known *find(const application *of, const fixed_name *name, const char *info, apr_uint32_t *free_at)
{
    apr_uint32_t at = (name->hash ^ (apr_uint32_t)((apr_uintptr_t)of >> 4)) % PLACES;
    for (int step = 0; step < PLACES; step++, at = (at + 1) % PLACES) {
        known *one = table[at];
        if (!one) {
            *free_at = at;
            return NULL;
        }
        if (one->hash == name->hash && one->of == of && one->info == info && !strncmp(one->text, name->text, MOST_BYTES))
            return one;
    }
    *free_at = PLACES;
    return NULL;
}

const arm_id_t *transaction(const application *of, fixed_name *name, const char *info, int is_bounded)
{
    apr_uint32_t at;
    size_t bytes;
    const known *last = name->last;
    known *new, *found;
    if (last && last->of == of && last->info == info)
        return &last->id;
    found = find(of, name, info, &at);
    if (found) {
        name->last = found;
        return &found->id;
    }
    if (name != &other_name
        && (at == PLACES || (!is_bounded && apr_atomic_inc32(&from_clients) >= MOST_FROM_CLIENTS))) {
        /* The count stays where it is, so that it never comes round. */
        apr_atomic_set32(&from_clients, MOST_FROM_CLIENTS);
        return transaction(of, &other_name, NULL, 1);
    }
    bytes = strnlen(name->text, MOST_BYTES);
    new = at < PLACES ? calloc(1, sizeof *new + bytes + 1) : NULL;
    if (!new)
        return NULL;
    new->of = of;
    new->info = info;
    new->hash = name->hash;
    memcpy(new->text, name->text, bytes);
    register_transaction(of, new);
    /* Another thread may have been faster, with this name or with another one for the same place. */
    while (apr_atomic_casptr((void *)&table[at], new, NULL) != NULL) {
        found = find(of, name, info, &at);
        if (found || at == PLACES) {
            free(new);
            if (!is_bounded)
                apr_atomic_dec32(&from_clients);
            return found ? &found->id : NULL;
        }
    }
    return &new->id;
}

/* The application of a section that names none: its server's, else the whole server's. */
static const application *application_of(const settings *section)
{
    const settings *of_server = ap_get_module_config(section->server->lookup_defaults, &arm_module);
    const settings *of_all = ap_get_module_config(ap_server_conf->lookup_defaults, &arm_module);
    if (section->application)
        return section->application;
    if (of_server && of_server->application)
        return of_server->application;
    return of_all && of_all->application ? of_all->application : default_application;
}

/*
 * Registers what the configuration names. A section may be within another that has an application, and is used with that
 * one then: those few are registered by the first request.
 */
void register_applications(void)
{
    const settings *of_all = ap_get_module_config(ap_server_conf->lookup_defaults, &arm_module);
    for (application *one = applications; one; one = one->next) {
        if (one == default_application && of_all && of_all->application && of_all->application != one)
            continue;
        arm->register_application(one->name, NULL, 0, NULL, &one->id);
        arm->start_application(&one->id, one->group, NULL, 0, NULL, &one->handle);
    }
    for (const settings *section = sections_read; section; section = section->next_read) {
        const application *of = application_of(section);
        if (section->on == 0)
            continue;
        if (section->name)
            transaction(of, section->name, section->info, 1);
        for (match *one = section->matches; one; one = one->next)
            if (!one->is_template)
                transaction(of, &one->name, section->info, 1);
    }
}

/* The name by patterns; NULL = none matches. */
static fixed_name *name_by_match(const settings *by, request_rec *r, fixed_name *place, int *is_bounded)
{
    const char *path = r->parsed_uri.path ? r->parsed_uri.path : "/", *whole = NULL;
    ap_regmatch_t groups[AP_MAX_REG_MATCH];
    for (; by; by = by->around) {
        for (match *one = by->matches; one; one = one->next) {
            const char *subject = path;
            if (one->with_query) {
                if (!whole)
                    whole = r->parsed_uri.query ? apr_pstrcat(r->pool, path, "?", r->parsed_uri.query, NULL) : path;
                subject = whole;
            }
            if (ap_regexec(one->pattern, subject, one->is_template ? AP_MAX_REG_MATCH : 0, groups, 0))
                continue;
            if (!one->is_template)
                return &one->name;
            place->text = ap_pregsub(r->pool, one->name.text, subject, AP_MAX_REG_MATCH, groups);
            *is_bounded = 0;
            if (!place->text || !*place->text)
                return &other_name;
            place->hash = hash_of(place->text);
            return place;
        }
    }
    return NULL;
}

fixed_name *name_of(const settings *by, request_rec *r, fixed_name *place, int *is_bounded)
{
    fixed_name *name = NULL;
    size_t bytes;
    *is_bounded = 1;
    if (by->matches || by->around)
        name = name_by_match(by, r, place, is_bounded);
    if (name)
        return name;
    if (by->name)
        return by->name;
    /* What is not there is not called by what the client made up. */
    if (!r->uri || (r->finfo.filetype != APR_REG && r->finfo.filetype != APR_DIR))
        return &other_name;
    bytes = strlen(r->uri);
    if (r->path_info && bytes > strlen(r->path_info) && r->finfo.filetype == APR_REG)
        bytes -= strlen(r->path_info);
    place->text = apr_pstrmemdup(r->pool, r->uri, bytes);
    place->hash = hash_of(place->text);
    *is_bounded = 0;
    return place;
}
