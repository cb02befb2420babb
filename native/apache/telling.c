/*
 * How a request is told: by weir's own library with one call for its begin and one for its end (weir_arm.h), by any
 * other one as the standard has it. What is told is the same.
 */

#include "mod_arm.h"

/* The parent of the request, as its client says. */
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

/* Keeps a correlator for as long as the request lives; NULL = there is none. */
static void keep(measured *mine, request_rec *r, const arm_correlator_t *given)
{
    size_t bytes = given ? arm4_correlator_bytes(given) : 0;
    if (bytes == sizeof mine->own) {
        memcpy(mine->own, given, sizeof mine->own);
        mine->correlator = (const arm_correlator_t *)mine->own;
    } else if (bytes) {
        mine->correlator = apr_pmemdup(r->pool, given, bytes);
    }
}

const arm_correlator_t *correlator_of(measured *mine, request_rec *r)
{
    if (!mine->correlator && mine->came_ns) {
        arm_correlator_t current;
        arm->request_correlator(mine->handle, NULL, &current);
        keep(mine, r, &current);
    }
    return mine->correlator;
}

/* What the standard has for it: the time at which it came, and the correlator at once. */
static void begin_by_standard(measured *mine, request_rec *r, const application *app, const arm_id_t *id,
                              const arm_correlator_t *parent)
{
    arm_correlator_t current;
    arm_subbuffer_arrival_time_usec_t arrival = {{ARM_SUBBUFFER_ARRIVAL_TIME_USEC}, r->request_time};
    arm_subbuffer_t *told[] = {ARM_SB(arrival)};
    arm_buffer4_t buffer = {1, told};
    arm->start_transaction(app->handle, id, parent, ARM_FLAG_NONE, &buffer, &mine->handle, &current);
    /* What is not recorded has no correlator of its own: what it starts is its parent's. */
    keep(mine, r, mine->handle ? &current : parent);
}

void tell_begin(measured *mine, request_rec *r)
{
    const settings *by = mine->by;
    arm_correlator_t parent;
    const arm_correlator_t *of = parent_of(r, &parent, mine);
    const application *app = application_by(by);
    const arm_id_t *id;
    int is_bounded = 1;
    fixed_name place = {NULL, 0, NULL}, *name = by->name;
    if (!name || by->matches || by->around)
        name = name_of(by, r, &place, &is_bounded);
    mine->name = name->text;
    id = transaction(app, name, by->info, is_bounded);
    if (!arm->start_request) {
        begin_by_standard(mine, r, app, id, of);
        return;
    }
    mine->handle = arm->start_request(app->handle, id, of, r->request_time, &mine->came_ns);
    if (!mine->handle)
        mine->came_ns = 0;
    /* Without a parent the correlator is made on demand: hardly any request for a file needs one. */
    if (of && mine->handle) {
        arm_correlator_t current;
        arm->request_correlator(mine->handle, of, &current);
        keep(mine, r, &current);
    } else if (of) {
        keep(mine, r, of);
    }
}

void note_answer(measured *mine)
{
    mine->is_answered = 1;
    if (mine->came_ns)
        arm->get_arrival_time(&mine->answered_ns);
    if (!mine->came_ns || are_times_noted)
        mine->answered = apr_time_now();
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

/* The standard's end; or a report of what never began. */
static void end_by_standard(const measured *mine, request_rec *r, arm_tran_status_t status,
                            const weir_arm_request *all)
{
    const char *context[] = {all->method, all->host};
    apr_time_t now = apr_time_now();
    arm_metric_t metrics[] = {
        {0, ARM_METRIC_FORMAT_NUMERICID32, ARM_METRIC_USE_TRAN_STATUS, ARM_TRUE, {all->code}},
        gauge(1, ARM_METRIC_USE_TRAN_SIZE, all->bytes, ARM_TRUE),
        gauge(2, ARM_METRIC_USE_GENERAL, since(r->request_time, mine->answered), mine->answered != 0),
        gauge(3, ARM_METRIC_USE_GENERAL, since(r->request_time, now), ARM_TRUE),
    };
    arm_subbuffer_metric_values_t values = {{ARM_SUBBUFFER_METRIC_VALUES}, 4, metrics};
    arm_subbuffer_tran_context_t tran_context = {{ARM_SUBBUFFER_TRAN_CONTEXT}, 2, context, all->path};
    arm_subbuffer_system_address_t client = {{ARM_SUBBUFFER_SYSTEM_ADDRESS}, all->address_format, all->address_length,
                                             all->address, ARM_FALSE, {{{0}}}};
    arm_subbuffer_user_t user = {{ARM_SUBBUFFER_USER}, all->user, ARM_FALSE, {{{0}}}};
    arm_subbuffer_diag_detail_t why = {{ARM_SUBBUFFER_DIAG_DETAIL}, all->diagnosis};
    arm_subbuffer_t *told[] = {ARM_SB(values), ARM_SB(tran_context), all->address_length ? ARM_SB(client) : NULL,
                               all->user ? ARM_SB(user) : NULL, all->diagnosis ? ARM_SB(why) : NULL};
    arm_buffer4_t buffer = {5, told};
    if (mine->handle) {
        arm->stop_transaction(mine->handle, status, ARM_FLAG_NONE, &buffer);
    } else {
        const application *app = application_by(mine->by);
        arm->report_transaction(app->handle, transaction(app, &other_name, NULL, 1), status,
                                since(r->request_time, now) * 1000, ARM_USE_CURRENT_TIME, NULL, NULL, ARM_FLAG_NONE,
                                &buffer);
    }
}

void tell_end(const measured *mine, request_rec *r, request_rec *last)
{
    arm_uint8_t address[18];
    int length = 0, format = address_of(r->connection, address, &length);
    arm_tran_status_t status = ARM_STATUS_GOOD;
    weir_arm_request all = {
        .method = r->method,
        .host = r->hostname,
        .path = r->parsed_uri.path,
        .user = mine->by->user,
        .address = address,
        .address_format = (arm_int16_t)format,
        .address_length = (arm_int16_t)length,
        .code = last->status,
        .bytes = last->bytes_sent,
        .arrived_ns = mine->came_ns,
        .answered_ns = mine->answered_ns,
    };
    if (all.user && !strcmp(all.user, "*"))
        all.user = last->user ? last->user : r->user;
    if (r->connection->aborted && !mine->was_handed_over) {
        status = ARM_STATUS_ABORTED;
        all.diagnosis = "the client has gone";
    } else if (ap_is_HTTP_SERVER_ERROR(last->status)) {
        status = ARM_STATUS_FAILED;
        all.diagnosis = ap_get_status_line(last->status);
    }
    if (mine->came_ns)
        arm->stop_request(mine->handle, status, &all);
    else
        end_by_standard(mine, r, status, &all);
}
