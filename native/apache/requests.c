/* A request's way: it begins when its directives are known, is handed to who handles it, and ends when it is logged. */

#include "mod_arm.h"

#include "util_filter.h"

#define FIRST_BYTE_FILTER "ARM_FIRST_BYTE"
/* W3C Trace Context's header, and our own for correlators of any format. */
#define TRACEPARENT "traceparent"
#define ARM_HEADER "ARM-Correlator"

static ap_filter_rec_t *first_byte_filter;

/* The request as it came, before redirections within the server; for a part of a page, the page's. */
static request_rec *as_it_came(request_rec *r)
{
    while (r->main || r->prev)
        r = r->main ? r->main : r->prev;
    return r;
}

static measured *measured_of(request_rec *r)
{
    return ap_get_module_config(as_it_came(r)->request_config, &arm_module);
}

static const application *application_by(const settings *by)
{
    return by->application ? by->application : default_application;
}

/* Whether this client's requests are measured, and this one of so many. */
static int is_wanted(const settings *by, request_rec *r)
{
    if (by->clients && by->clients->nelts) {
        int at = 0;
        while (at < by->clients->nelts
               && !apr_ipsubnet_test(APR_ARRAY_IDX(by->clients, at, apr_ipsubnet_t *), r->useragent_addr))
            at++;
        if (at == by->clients->nelts)
            return 0;
    }
    if (by->sample) {
        sample *of = by->sample;
        apr_uint64_t seen = apr_atomic_inc32(&of->seen);
        return (seen + 1) * of->taken / of->of != seen * of->taken / of->of;
    }
    return 1;
}

/* Whose child the request is, as its client says. */
static const arm_correlator_t *parent_of(request_rec *r, arm_correlator_t *place, measured *mine)
{
    const char *text = apr_table_get(r->headers_in, ARM_HEADER);
    if (text && arm4_correlator_of_hex(text, strlen(text), place)) {
        mine->is_from_arm_header = 1;
        return place;
    }
    text = apr_table_get(r->headers_in, TRACEPARENT);
    return text && arm4_correlator_of_traceparent(text, place) ? place : NULL;
}

static void start(measured *mine, request_rec *r)
{
    arm_correlator_t parent, current;
    const arm_correlator_t *of = parent_of(r, &parent, mine), *given;
    const application *app = application_by(mine->by);
    arm_subbuffer_arrival_time_usec_t arrival = {{ARM_SUBBUFFER_ARRIVAL_TIME_USEC}, r->request_time};
    arm_subbuffer_t *told[] = {ARM_SB(arrival)};
    arm_buffer4_t buffer = {1, told};
    int is_bounded;
    size_t bytes;
    fixed_name place = {NULL, 0, NULL}, *name = name_of(mine->by, r, &place, &is_bounded);
    mine->name = name->text;
    arm->start_transaction(app->handle, transaction(app, name, mine->by->info, is_bounded), of, ARM_FLAG_NONE, &buffer,
                           &mine->handle, &current);
    /* What is not recorded has no correlator of its own: what it starts is its parent's. */
    given = mine->handle ? &current : of;
    bytes = given ? arm4_correlator_bytes(given) : 0;
    if (bytes == sizeof mine->own) {
        memcpy(mine->own, given, sizeof mine->own);
        mine->correlator = (const arm_correlator_t *)mine->own;
    } else if (bytes) {
        mine->correlator = apr_pmemdup(r->pool, given, bytes);
    }
}

/* Called as soon as it is known which directives hold, before anybody asks who the user is. */
static int begin(request_rec *r)
{
    const settings *by = ap_get_module_config(r->per_dir_config, &arm_module);
    request_rec *first;
    measured *mine;
    if (!by || by->on <= 0 || r->main)
        return DECLINED;
    first = as_it_came(r);
    if (ap_get_module_config(first->request_config, &arm_module))
        return DECLINED;
    mine = apr_pcalloc(r->pool, sizeof *mine);
    mine->by = by;
    ap_set_module_config(first->request_config, &arm_module, mine);
    if (!is_wanted(by, r))
        mine->is_left_out = 1;
    else if (arm)
        start(mine, r);
    if (mine->handle || are_times_noted)
        ap_add_output_filter_handle(first_byte_filter, mine, r, r->connection);
    return DECLINED;
}

/* Whether a brigade has bytes of a response, or its end; over HTTP/2 what stands before them is no bytes yet. */
static int has_bytes(const apr_bucket_brigade *brigade)
{
    for (apr_bucket *bucket = APR_BRIGADE_FIRST(brigade); bucket != APR_BRIGADE_SENTINEL(brigade);
         bucket = APR_BUCKET_NEXT(bucket))
        if (!APR_BUCKET_IS_METADATA(bucket) || APR_BUCKET_IS_EOS(bucket))
            return 1;
    return 0;
}

/*
 * Over HTTP/2 the server takes a stream off its list when the client has all of it, and calls its connection aborted if
 * whoever made the response is not ready yet, as a script that is still waited for. So it is noted here that the end of
 * the response was taken before: then the stream is over, and nothing of it was aborted.
 */
static apr_status_t end_of_stream(ap_filter_t *filter, apr_bucket_brigade *brigade)
{
    measured *mine = filter->ctx;
    int is_end = 0, was_aborted = filter->c->aborted;
    apr_status_t taken;
    for (apr_bucket *bucket = APR_BRIGADE_FIRST(brigade); bucket != APR_BRIGADE_SENTINEL(brigade);
         bucket = APR_BUCKET_NEXT(bucket))
        is_end |= APR_BUCKET_IS_EOS(bucket);
    if (is_end)
        ap_remove_output_filter(filter);
    taken = ap_pass_brigade(filter->next, brigade);
    if (is_end && taken == APR_SUCCESS && !was_aborted)
        mine->was_handed_over = 1;
    return taken;
}

/* The first byte of the response, behind all that holds it back; not of what is said while it is still awaited (1xx). */
static apr_status_t first_byte(ap_filter_t *filter, apr_bucket_brigade *brigade)
{
    measured *mine = filter->ctx;
    if (!mine->answered && has_bytes(brigade) && !ap_is_HTTP_INFO(filter->r->status)) {
        mine->answered = apr_time_now();
        if (!filter->c->master)
            ap_remove_output_filter(filter);
    }
    return filter->c->master ? end_of_stream(filter, brigade) : ap_pass_brigade(filter->next, brigade);
}

static void note_id(const measured *mine, request_rec *r)
{
    char text[ARM4_DL_TRACEPARENT_BYTES];
    /* Without version and flags: what `weir arm show` takes. */
    if (mine->correlator && arm4_traceparent_of_correlator(mine->correlator, text))
        apr_table_setn(r->notes, "arm-id", apr_pstrmemdup(r->pool, text + 3, 49));
}

/* Whether somebody other than the server itself handles the request. */
static int is_handled_by_others(const request_rec *r)
{
    static const char by_type[] = "application/x-httpd-";
    if (r->handler)
        return strcmp(r->handler, "default-handler") != 0;
    return r->content_type && !strncmp(r->content_type, by_type, sizeof by_type - 1);
}

/* Tells who handles the request whose child their own transactions are. Called before the handlers. */
static void hand_on(request_rec *r)
{
    measured *mine = measured_of(r);
    char *hex;
    if (!mine && !r->main) {
        /* An index file may have other directives than its directory. */
        begin(r);
        mine = measured_of(r);
    }
    if (!mine || mine->is_left_out || !is_handled_by_others(r))
        return;
    apr_table_setn(r->subprocess_env, "ARM_APPLICATION", application_by(mine->by)->name);
    if (mine->name)
        apr_table_setn(r->subprocess_env, "ARM_TRANSACTION", mine->name);
    if (!mine->correlator)
        return;
    hex = apr_palloc(r->pool, 2 * arm4_correlator_bytes(mine->correlator) + 1);
    arm4_correlator_hex(mine->correlator, hex);
    apr_table_setn(r->subprocess_env, "ARM_CORRELATOR", hex);
    if (!mine->handle)
        return;
    if (mine->is_from_arm_header)
        apr_table_setn(r->headers_in, ARM_HEADER, hex);
    if (arm4_correlator_is_own(mine->correlator)) {
        char *text = apr_palloc(r->pool, ARM4_DL_TRACEPARENT_BYTES);
        arm4_traceparent_of_correlator(mine->correlator, text);
        apr_table_setn(r->headers_in, TRACEPARENT, text);
    }
    note_id(mine, r);
}

/* The client's address and port, in network order; returns the format, 0 = it has none. */
static int address_of(const conn_rec *c, arm_uint8_t bytes[18], int *length)
{
    const apr_sockaddr_t *from = c->client_addr;
    if (from && from->family == APR_INET) {
        memcpy(bytes, &from->sa.sin.sin_addr, 4);
        memcpy(bytes + 4, &from->sa.sin.sin_port, 2);
        *length = 6;
        return ARM_SYSADDR_FORMAT_IPV4PORT;
    }
#if APR_HAVE_IPV6
    if (from && from->family == APR_INET6) {
        const struct sockaddr_in6 *wide = &from->sa.sin6;
        /* On a socket for both, IPv4 looks like this. */
        int is_v4 = IN6_IS_ADDR_V4MAPPED(&wide->sin6_addr), bytes_of_it = is_v4 ? 4 : 16;
        memcpy(bytes, wide->sin6_addr.s6_addr + 16 - bytes_of_it, bytes_of_it);
        memcpy(bytes + bytes_of_it, &wide->sin6_port, 2);
        *length = bytes_of_it + 2;
        return is_v4 ? ARM_SYSADDR_FORMAT_IPV4PORT : ARM_SYSADDR_FORMAT_IPV6PORT;
    }
#endif
    return 0;
}

static arm_metric_t gauge(arm_metric_slot_t slot, arm_metric_usage_t usage, arm_int64_t value, int is_known)
{
    arm_metric_t made = {slot, ARM_METRIC_FORMAT_GAUGE64, usage, is_known, {0}};
    made.metric_u.gauge64 = value;
    return made;
}

static apr_int64_t since(apr_time_t from, apr_time_t to)
{
    return to > from ? to - from : 0;
}

/* Ends a transaction with all that there is to tell; one that never began is reported as a whole. */
static void tell_end(const measured *mine, request_rec *r, request_rec *last, apr_time_t now)
{
    const settings *by = mine->by;
    const char *context[] = {r->method, r->hostname};
    arm_uint8_t address[18];
    int length = 0, format = address_of(r->connection, address, &length);
    arm_metric_t metrics[] = {
        {0, ARM_METRIC_FORMAT_NUMERICID32, ARM_METRIC_USE_TRAN_STATUS, ARM_TRUE, {last->status}},
        gauge(1, ARM_METRIC_USE_TRAN_SIZE, last->bytes_sent, ARM_TRUE),
        gauge(2, ARM_METRIC_USE_GENERAL, since(r->request_time, mine->answered), mine->answered != 0),
        gauge(3, ARM_METRIC_USE_GENERAL, since(r->request_time, now), ARM_TRUE),
    };
    arm_subbuffer_metric_values_t values = {{ARM_SUBBUFFER_METRIC_VALUES}, 4, metrics};
    arm_subbuffer_tran_context_t tran_context = {{ARM_SUBBUFFER_TRAN_CONTEXT}, 2, context, r->parsed_uri.path};
    arm_subbuffer_system_address_t client = {
        {ARM_SUBBUFFER_SYSTEM_ADDRESS}, (arm_int16_t)format, (arm_int16_t)length, address, ARM_FALSE, {{{0}}}};
    arm_subbuffer_user_t user = {{ARM_SUBBUFFER_USER}, by->user, ARM_FALSE, {{{0}}}};
    arm_subbuffer_diag_detail_t why = {{ARM_SUBBUFFER_DIAG_DETAIL}, NULL};
    arm_subbuffer_t *told[] = {ARM_SB(values), ARM_SB(tran_context), format ? ARM_SB(client) : NULL, NULL, NULL};
    arm_buffer4_t buffer = {5, told};
    arm_tran_status_t status = ARM_STATUS_GOOD;
    if (user.name && !strcmp(user.name, "*"))
        user.name = last->user ? last->user : r->user;
    if (user.name)
        told[3] = ARM_SB(user);
    if (r->connection->aborted && !mine->was_handed_over) {
        status = ARM_STATUS_ABORTED;
        why.diag_detail = "the client has gone";
    } else if (ap_is_HTTP_SERVER_ERROR(last->status)) {
        status = ARM_STATUS_FAILED;
        why.diag_detail = ap_get_status_line(last->status);
    }
    if (why.diag_detail)
        told[4] = ARM_SB(why);
    if (mine->handle) {
        arm->stop_transaction(mine->handle, status, ARM_FLAG_NONE, &buffer);
    } else {
        const application *app = application_by(by);
        arm->report_transaction(app->handle, transaction(app, &other_name, NULL, 1), status,
                                since(r->request_time, now) * 1000, ARM_USE_CURRENT_TIME, NULL, NULL, ARM_FLAG_NONE,
                                &buffer);
    }
}

/* Called when the last byte has left, before the log is written. */
static int end(request_rec *r)
{
    measured *mine = measured_of(r);
    request_rec *last = r;
    apr_time_t now;
    while (last->next)
        last = last->next;
    if (!mine) {
        /* It ended before its directives were known: it could not be read, or came out of a cache. */
        measured early = {0};
        early.by = ap_get_module_config(r->per_dir_config, &arm_module);
        if (early.by && early.by->on > 0 && arm && is_wanted(early.by, r))
            tell_end(&early, r, last, apr_time_now());
        return DECLINED;
    }
    if (!mine->handle && !are_times_noted)
        return DECLINED;
    now = apr_time_now();
    if (mine->handle)
        tell_end(mine, as_it_came(r), last, now);
    if (are_times_noted) {
        apr_table_setn(last->notes, "arm-last-byte", apr_off_t_toa(r->pool, since(r->request_time, now)));
        if (mine->answered)
            apr_table_setn(last->notes, "arm-first-byte", apr_off_t_toa(r->pool, since(r->request_time, mine->answered)));
    }
    if (is_id_noted)
        note_id(mine, last);
    return DECLINED;
}

/* Each process for itself, and each starts elsewhere in its samples: many short-lived ones would take but their first. */
static void start_process(apr_pool_t *pool, server_rec *server)
{
    for (sample *one = samples; one; one = one->next) {
        apr_uint32_t random = 0;
        apr_generate_random_bytes((unsigned char *)&random, sizeof random);
        one->seen = random % one->of;
    }
    if (arm)
        register_applications();
}

void hook_requests(apr_pool_t *pool)
{
    static const char *const before_the_log[] = {"mod_log_config.c", NULL};
    if (first_byte_filter)
        return;
    /* Behind all that holds a response back, and before what encrypts it. */
    first_byte_filter = ap_register_output_filter(FIRST_BYTE_FILTER, first_byte, NULL, AP_FTYPE_TRANSCODE + 1);
    ap_hook_child_init(start_process, NULL, NULL, APR_HOOK_MIDDLE);
    ap_hook_post_perdir_config(begin, NULL, NULL, APR_HOOK_FIRST);
    ap_hook_insert_filter(hand_on, NULL, NULL, APR_HOOK_FIRST);
    ap_hook_log_transaction(end, NULL, before_the_log, APR_HOOK_FIRST);
}

int is_any_on(void)
{
    return first_byte_filter != NULL;
}

void forget_requests(void)
{
    first_byte_filter = NULL;
}
