/* The directives, and how those of inner sections come before those around them. */

#include "mod_arm.h"

settings *sections_read;
application *applications;
sample *samples;

void forget_directives(void)
{
    sections_read = NULL;
    applications = NULL;
    samples = NULL;
}

void *create_settings(apr_pool_t *pool, char *path)
{
    settings *made = apr_pcalloc(pool, sizeof *made);
    made->on = UNSAID;
    return made;
}

void *merge_settings(apr_pool_t *pool, void *outer, void *inner)
{
    const settings *base = outer, *add = inner;
    settings *made = apr_palloc(pool, sizeof *made);
    *made = *add;
    if (made->on == UNSAID)
        made->on = base->on;
    if (!made->application)
        made->application = base->application;
    if (!made->user)
        made->user = base->user;
    if (!made->info)
        made->info = base->info;
    if (!made->clients)
        made->clients = base->clients;
    if (!made->sample)
        made->sample = base->sample;
    /* A name of its own comes before patterns of sections around it. */
    if (!add->name) {
        made->name = base->name;
        made->around = base->matches ? base : base->around;
    }
    return made;
}

/* Notes a section when the first of its directives is read. */
static settings *read_into(cmd_parms *cmd, void *section)
{
    settings *read = section;
    if (!read->server) {
        read->server = cmd->server;
        read->next_read = sections_read;
        sections_read = read;
    }
    return read;
}

application *application_named(apr_pool_t *pool, const char *name, const char *group)
{
    application *found = applications;
    while (found && (strcmp(found->name, name) || strcmp(found->group ? found->group : "", group ? group : "")))
        found = found->next;
    if (!found) {
        found = apr_pcalloc(pool, sizeof *found);
        found->name = name;
        found->group = group;
        found->next = applications;
        applications = found;
    }
    return found;
}

/* Hooks are there only where a request can be measured at all: where nothing is on, no request passes through us. */
static const char *set_on(cmd_parms *cmd, void *section, int on)
{
    read_into(cmd, section)->on = on;
    if (on)
        hook_requests(cmd->pool);
    return NULL;
}

static const char *set_application(cmd_parms *cmd, void *section, const char *name, const char *group)
{
    read_into(cmd, section)->application = application_named(cmd->pool, name, group);
    return NULL;
}

static const char *set_user(cmd_parms *cmd, void *section, const char *name)
{
    read_into(cmd, section)->user = name;
    return NULL;
}

static const char *set_transaction(cmd_parms *cmd, void *section, const char *name)
{
    fixed_name *made = apr_pcalloc(cmd->pool, sizeof *made);
    made->text = name;
    made->hash = hash_of(name);
    read_into(cmd, section)->name = made;
    return NULL;
}

static const char *set_info(cmd_parms *cmd, void *section, const char *text)
{
    read_into(cmd, section)->info = text;
    return NULL;
}

static const char *add_client(cmd_parms *cmd, void *section, const char *range)
{
    settings *read = read_into(cmd, section);
    char *address = apr_pstrdup(cmd->temp_pool, range), *bits = strchr(address, '/');
    apr_ipsubnet_t *net;
    if (!read->clients)
        read->clients = apr_array_make(cmd->pool, 2, sizeof net);
    if (!strcasecmp(range, "all")) {
        if (read->clients->nelts)
            return "ArmClient: 'all' stands alone";
        return NULL;
    }
    if (bits)
        *bits++ = 0;
    if (apr_ipsubnet_create(&net, address, bits, cmd->pool) != APR_SUCCESS)
        return apr_pstrcat(cmd->pool, "ArmClient: '", range,
                           "' is no address, no network as 192.0.2.0/24, and not 'all'", NULL);
    APR_ARRAY_PUSH(read->clients, apr_ipsubnet_t *) = net;
    return NULL;
}

static const char *set_sample(cmd_parms *cmd, void *section, const char *share)
{
    /* Shares are counted in ten-thousandths of a percent. */
    static const double parts_of_percent = 10000;
    sample *made = apr_pcalloc(cmd->pool, sizeof *made);
    char *end;
    double number = strtod(share, &end);
    int is_percent = end > share && !strcmp(end, "%");
    if (is_percent && number > 0 && number <= 100) {
        made->taken = (apr_uint32_t)(number * parts_of_percent + 0.5);
        made->of = (apr_uint32_t)(100 * parts_of_percent);
    } else if (!is_percent && end > share && !*end && number >= 1 && number <= 1e9 && number == (apr_uint32_t)number) {
        made->taken = 1;
        made->of = (apr_uint32_t)number;
    }
    if (!made->taken)
        return apr_pstrcat(cmd->pool, "ArmSample: '", share,
                           "' is neither a whole number N, for one request of N, nor a share as 2.5%", NULL);
    made->next = samples;
    samples = made;
    read_into(cmd, section)->sample = made;
    return NULL;
}

static const char *add_match(cmd_parms *cmd, void *section, const char *pattern, const char *name)
{
    settings *read = read_into(cmd, section);
    match *made = apr_pcalloc(cmd->pool, sizeof *made), **end = &read->matches;
    made->pattern = ap_pregcomp(cmd->pool, pattern, AP_REG_EXTENDED);
    if (!made->pattern)
        return apr_pstrcat(cmd->pool, "ArmMatch: '", pattern, "' is no regular expression", NULL);
    made->name.text = name;
    made->name.hash = hash_of(name);
    made->with_query = strstr(pattern, "\\?") != NULL;
    made->is_template = strpbrk(name, "$&") != NULL;
    while (*end)
        end = &(*end)->next;
    *end = made;
    return NULL;
}

#define ANYWHERE_BUT_HTACCESS (RSRC_CONF | ACCESS_CONF)

const command_rec arm_directives[] = {
    AP_INIT_FLAG("Arm", set_on, NULL, ANYWHERE_BUT_HTACCESS, "On or Off: whether requests are measured"),
    AP_INIT_TAKE12("ArmApplication", set_application, NULL, ANYWHERE_BUT_HTACCESS,
                   "the application that requests belong to, and its group"),
    AP_INIT_TAKE1("ArmUser", set_user, NULL, ANYWHERE_BUT_HTACCESS,
                  "on whose behalf requests are handled; * = who is logged in"),
    AP_INIT_TAKE1("ArmTransaction", set_transaction, NULL, ANYWHERE_BUT_HTACCESS, "the name of requests"),
    AP_INIT_TAKE1("ArmTransactionInfo", set_info, NULL, ANYWHERE_BUT_HTACCESS, "what these requests are, in words"),
    AP_INIT_ITERATE("ArmClient", add_client, NULL, ANYWHERE_BUT_HTACCESS,
                    "addresses and networks whose requests are measured, or 'all'"),
    AP_INIT_TAKE1("ArmSample", set_sample, NULL, ANYWHERE_BUT_HTACCESS,
                  "N: one request of N is measured; or a share as 2.5%"),
    AP_INIT_TAKE2("ArmMatch", add_match, NULL, ANYWHERE_BUT_HTACCESS,
                  "a regular expression for the path (for path and query where it has \\?), and the name of such requests"),
    {NULL}};
