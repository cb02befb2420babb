/* A request's way: it begins when its directives are known, is handed to who handles it, and ends when it is logged. */

#include "mod_arm.h"

#include <stddef.h>

#define FIRST_BYTE_FILTER "ARM_FIRST_BYTE"
/* Behind all that holds a response back, and before what encrypts it. */
#define FIRST_BYTE_TYPE (AP_FTYPE_TRANSCODE + 1)

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

/*
 * Puts the filter where ap_add_output_filter_handle() would. In httpd 2.4 filters are a list: its last ones are those of
 * the connection, and the request's own that are like this one are few. So it is found without a look at all the others,
 * and the filter is part of what the request has anyway: that is most of what it costs.
 */
static void watch_first_byte(measured *mine, request_rec *r)
{
#if MODULE_MAGIC_NUMBER_MAJOR == 20120211
    ap_filter_t *before = r->proto_output_filters;
    if (before && before->frec->ftype <= FIRST_BYTE_TYPE && before->c == r->connection) {
        while (before->next && before->next->frec->ftype <= FIRST_BYTE_TYPE && before->next->c == r->connection)
            before = before->next;
        mine->filter = (ap_filter_t){first_byte_filter, mine, before->next, r, r->connection};
        before->next = &mine->filter;
        return;
    }
#endif
    ap_add_output_filter_handle(first_byte_filter, mine, r, r->connection);
}

/* Called as soon as it is known which directives hold, before the user is authenticated. */
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
    mine = apr_palloc(r->pool, sizeof *mine);
    memset(mine, 0, offsetof(measured, filter));
    mine->by = by;
    ap_set_module_config(first->request_config, &arm_module, mine);
    if ((by->clients || by->sample) && !is_wanted(by, r))
        mine->is_left_out = 1;
    else if (arm)
        tell_begin(mine, r);
    if (mine->handle || are_times_noted)
        watch_first_byte(mine, r);
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
 * Over HTTP/2 the server takes a stream off its list when the client has all of it. If the handler has not returned yet
 * (it may wait for a script to exit), the server calls the connection aborted. So we note here that the next filter
 * took the end of the response: then the stream is complete, and was not aborted.
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
    if (!mine->is_answered && has_bytes(brigade) && !ap_is_HTTP_INFO(filter->r->status))
        note_answer(mine);
    return filter->c->master ? end_of_stream(filter, brigade) : ap_pass_brigade(filter->next, brigade);
}

static void note_id(measured *mine, request_rec *r)
{
    char text[ARM4_DL_TRACEPARENT_BYTES];
    const arm_correlator_t *correlator = correlator_of(mine, r);
    /* Without version and flags: what `weir arm show` takes. */
    if (correlator && arm4_traceparent_of_correlator(correlator, text))
        apr_table_setn(r->notes, "arm-id", apr_pstrmemdup(r->pool, text + 3, 49));
}

/* Whether a handler other than the server's default one handles the request. */
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
    const arm_correlator_t *correlator;
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
    correlator = correlator_of(mine, r);
    if (!correlator)
        return;
    hex = apr_palloc(r->pool, 2 * arm4_correlator_bytes(correlator) + 1);
    arm4_correlator_hex(correlator, hex);
    apr_table_setn(r->subprocess_env, "ARM_CORRELATOR", hex);
    if (!mine->handle)
        return;
    if (mine->is_from_arm_header)
        apr_table_setn(r->headers_in, ARM_HEADER, hex);
    if (arm4_correlator_is_own(correlator)) {
        char *text = apr_palloc(r->pool, ARM4_DL_TRACEPARENT_BYTES);
        arm4_traceparent_of_correlator(correlator, text);
        apr_table_setn(r->headers_in, TRACEPARENT, text);
    }
    note_id(mine, r);
}

/* Called when the last byte has left, before the log is written. */
static int end(request_rec *r)
{
    request_rec *first = as_it_came(r), *last = r;
    measured *mine = ap_get_module_config(first->request_config, &arm_module);
    apr_time_t now;
    while (last->next)
        last = last->next;
    if (!mine) {
        /* It ended before its directives were known: it could not be read, or came out of a cache. */
        measured early = {0};
        early.by = ap_get_module_config(r->per_dir_config, &arm_module);
        if (early.by && early.by->on > 0 && arm && is_wanted(early.by, r))
            tell_end(&early, r, last);
        return DECLINED;
    }
    if (!mine->handle && !are_times_noted)
        return DECLINED;
    now = are_times_noted ? apr_time_now() : 0;
    if (mine->handle)
        tell_end(mine, first, last);
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
    first_byte_filter = ap_register_output_filter(FIRST_BYTE_FILTER, first_byte, NULL, FIRST_BYTE_TYPE);
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
