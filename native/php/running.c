/*
 * What runs in a request: a stack, so that what begins within another is its child without being told so.
 *
 * What is not recorded, as no agent listens or a switch is off, is not on the stack: its children are those of what is
 * around it. Entries may be stopped in any order; what is stopped below others leaves the stack with them.
 */

#include "php_arm.h"
#include "arm4_dl.h"

/* Room for the first; it stays for the next requests, unless it has become large. */
#define FIRST_ROOM 8
#define KEPT_ROOM 64

/* The sub-buffers of a call, with what they point to. */
typedef struct {
    arm_subbuffer_user_t user;
    arm_subbuffer_tran_context_t context;
    arm_subbuffer_metric_values_t metrics;
    arm_subbuffer_diag_detail_t diagnosis;
    arm_subbuffer_t *told[4];
    arm_buffer4_t buffer;
    const arm_char_t *values[ARM_PROPERTY_MAX_COUNT];
    arm_metric_t metric_values[ARM_METRIC_MAX_COUNT];
    /* Texts that were made for it, to be given back. */
    zend_string *texts[ARM_PROPERTY_MAX_COUNT + ARM_METRIC_MAX_COUNT];
    uint32_t text_count;
} sub_buffers;

static const arm_char_t *text_of(sub_buffers *all, zval *value)
{
    zend_string *text = Z_TYPE_P(value) == IS_NULL ? NULL : zval_try_get_string(value);
    if (!text) {
        return NULL;
    }
    all->texts[all->text_count++] = text;
    return ZSTR_VAL(text);
}

/* By its name, or by its place where the array is a list. */
static zval *entry_of(HashTable *table, zend_string *name, uint32_t index)
{
    zval *found = zend_hash_find(table, name);
    return found ? found : zend_hash_index_find(table, index);
}

static void tell_context(sub_buffers *all, const arm_transaction *what, const arm_told *told)
{
    uint32_t count = 0;
    if (told->context_values) {
        while (count < what->context_count && told->context_values[count]) {
            all->values[count] = told->context_values[count];
            count++;
        }
    } else if (told->context && what) {
        for (; count < what->context_count; count++) {
            zval *value = entry_of(told->context, what->context_names[count], count);
            all->values[count] = value ? text_of(all, value) : NULL;
        }
    }
    if (count || told->uri) {
        all->context = (arm_subbuffer_tran_context_t) {
            { ARM_SUBBUFFER_TRAN_CONTEXT }, (arm_int32_t) count, all->values, told->uri
        };
        all->told[all->buffer.count++] = ARM_SB(all->context);
    }
}

static void tell_metric(sub_buffers *all, arm_metric_t *metric, zval *value)
{
    switch (metric->format) {
        case ARM_METRIC_FORMAT_COUNTER32:
        case ARM_METRIC_FORMAT_GAUGE32:
        case ARM_METRIC_FORMAT_NUMERICID32:
            metric->metric_u.gauge32 = (arm_int32_t) zval_get_long(value);
            break;
        case ARM_METRIC_FORMAT_STRING32:
            metric->metric_u.string32 = text_of(all, value);
            metric->valid = metric->metric_u.string32 ? ARM_TRUE : ARM_FALSE;
            break;
        default:
            metric->metric_u.gauge64 = zval_get_long(value);
    }
}

static void tell_metrics(sub_buffers *all, const arm_transaction *what, HashTable *metrics)
{
    arm_int32_t count = 0;
    for (uint32_t index = 0; index < what->metric_count; index++) {
        zval *value = entry_of(metrics, what->metric_names[index], index);
        if (value && Z_TYPE_P(value) != IS_NULL) {
            arm_metric_t *metric = &all->metric_values[count++];
            metric->format = what->metric_formats[index];
            metric->slot = metric->format == ARM_METRIC_FORMAT_STRING32 ? ARM_METRIC_MAX_ARRAY_INDEX : index;
            metric->usage = ARM_METRIC_USE_GENERAL;
            metric->valid = ARM_TRUE;
            tell_metric(all, metric, value);
        }
    }
    if (count) {
        all->metrics = (arm_subbuffer_metric_values_t) { { ARM_SUBBUFFER_METRIC_VALUES }, count, all->metric_values };
        all->told[all->buffer.count++] = ARM_SB(all->metrics);
    }
}

/* What is told, as the library takes it; NULL = nothing is. */
static const arm_buffer4_t *tell(sub_buffers *all, const char *user, const arm_transaction *what, const arm_told *told)
{
    all->text_count = 0;
    all->buffer = (arm_buffer4_t) { 0, all->told };
    if (user) {
        all->user = (arm_subbuffer_user_t) { { ARM_SUBBUFFER_USER }, user, ARM_FALSE, { { { 0 } } } };
        all->told[all->buffer.count++] = ARM_SB(all->user);
    }
    if (told) {
        tell_context(all, what, told);
        if (told->metrics && what) {
            tell_metrics(all, what, told->metrics);
        }
        if (told->diagnosis) {
            all->diagnosis = (arm_subbuffer_diag_detail_t) { { ARM_SUBBUFFER_DIAG_DETAIL }, told->diagnosis };
            all->told[all->buffer.count++] = ARM_SB(all->diagnosis);
        }
    }
    return all->buffer.count ? &all->buffer : NULL;
}

static void told(sub_buffers *all)
{
    while (all->text_count) {
        zend_string_release(all->texts[--all->text_count]);
    }
}

zend_long php_arm_fails(zend_long error)
{
    ARM_G(error) = error;
    return error;
}

static bool has_room(void)
{
    uint32_t room = ARM_G(room);
    if (EXPECTED(ARM_G(depth) < room)) {
        return true;
    }
    room = room ? 2 * room : FIRST_ROOM;
    arm_running *grown = room <= ARM_MOST_OPEN ? realloc(ARM_G(stack), room * sizeof(*grown)) : NULL;
    if (!grown) {
        return false;
    }
    ARM_G(stack) = grown;
    ARM_G(room) = room;
    return true;
}

const arm_correlator_t *php_arm_innermost(void)
{
    for (uint32_t index = ARM_G(depth); index--;) {
        const arm_running *entry = &ARM_G(stack)[index];
        if (entry->number && !entry->is_apart) {
            return &entry->correlator;
        }
    }
    return ARM_G(has_parent) ? &ARM_G(parent) : NULL;
}

zend_long php_arm_start(arm_transaction *what, const arm_parent *parent, const arm_told *more)
{
    sub_buffers all;
    const arm_buffer4_t *buffer = NULL;
    const char *user = more && more->user ? more->user
                       : what->application->user ? ZSTR_VAL(what->application->user) : NULL;
    if (!php_arm_is_on()) {
        return 0;
    }
    if (user || more) {
        buffer = tell(&all, user, what, more);
    }
    zend_long number = 0;
    /* Only now: a text of the page's own may have started something. */
    if (UNEXPECTED(!has_room())) {
        number = php_arm_fails(PHP_ARM_TOO_MANY_OPEN);
    } else {
        const arm_correlator_t *of = parent ? (parent->is_root ? NULL : parent->correlator) : php_arm_innermost();
        uint32_t index = ARM_G(depth);
        arm_running *entry = &ARM_G(stack)[index];
        php_arm_library->start_transaction(php_arm_handle(what->application), &what->id, of, ARM_FLAG_NONE, buffer,
                                           &entry->handle, &entry->correlator);
        if (entry->handle) {
            ARM_G(depth) = index + 1;
            entry->is_apart = false;
            number = entry->number = ARM_G(begun)++ * ARM_MOST_OPEN + index + 1;
        }
    }
    if (buffer) {
        told(&all);
    }
    return number;
}

arm_running *php_arm_find(zend_long number)
{
    zend_ulong index = (zend_ulong) (number - 1) % ARM_MOST_OPEN;
    if (number <= 0 || index >= ARM_G(depth) || ARM_G(stack)[index].number != number) {
        return NULL;
    }
    return &ARM_G(stack)[index];
}

/* Takes what has been stopped from the top of the stack. */
static void unwind(arm_running *stopped)
{
    stopped->number = 0;
    while (ARM_G(depth) && !ARM_G(stack)[ARM_G(depth) - 1].number) {
        ARM_G(depth)--;
    }
}

zend_long php_arm_stop(zend_long number, zend_long status, const arm_transaction *what, const arm_told *more)
{
    sub_buffers all;
    const arm_buffer4_t *buffer = NULL;
    zend_long result = 0;
    if (number == 0) {
        return 0;
    }
    if (!php_arm_find(number)) {
        return php_arm_fails(PHP_ARM_NOT_RUNNING);
    }
    if (status < PHP_ARM_GOOD || status > PHP_ARM_UNKNOWN) {
        result = php_arm_fails(PHP_ARM_NO_STATUS);
        status = PHP_ARM_UNKNOWN;
    }
    if (more) {
        buffer = tell(&all, NULL, what, more);
    }
    arm_running *entry = php_arm_find(number);
    if (entry) {
        php_arm_library->stop_transaction(entry->handle, (arm_tran_status_t) status, ARM_FLAG_NONE, buffer);
        unwind(entry);
    }
    if (more) {
        told(&all);
    }
    return result;
}

zend_long php_arm_update(zend_long number, const arm_transaction *what, const arm_told *more)
{
    sub_buffers all;
    if (number == 0) {
        return 0;
    }
    const arm_buffer4_t *buffer = tell(&all, NULL, what, more);
    const arm_running *entry = php_arm_find(number);
    if (entry) {
        php_arm_library->update_transaction(entry->handle, ARM_FLAG_NONE, buffer);
    }
    told(&all);
    return entry ? 0 : php_arm_fails(PHP_ARM_NOT_RUNNING);
}

zend_long php_arm_discard(zend_long number)
{
    arm_running *entry = php_arm_find(number);
    if (!entry) {
        return number == 0 ? 0 : php_arm_fails(PHP_ARM_NOT_RUNNING);
    }
    php_arm_library->discard_transaction(entry->handle, ARM_FLAG_NONE, ARM_BUF4_NONE);
    unwind(entry);
    return 0;
}

bool php_arm_block(zend_long number, arm_tran_block_handle_t *block)
{
    const arm_running *entry = php_arm_find(number);
    if (entry) {
        php_arm_library->block_transaction(entry->handle, ARM_FLAG_NONE, ARM_BUF4_NONE, block);
    }
    return entry != NULL;
}

void php_arm_unblock(zend_long number, arm_tran_block_handle_t block)
{
    const arm_running *entry = php_arm_find(number);
    if (entry) {
        php_arm_library->unblock_transaction(entry->handle, block, ARM_FLAG_NONE, ARM_BUF4_NONE);
    }
}

void php_arm_stop_all(void)
{
    while (ARM_G(depth)) {
        arm_running *entry = &ARM_G(stack)[--ARM_G(depth)];
        if (entry->number) {
            php_arm_library->stop_transaction(entry->handle, ARM_STATUS_ABORTED, ARM_FLAG_NONE, ARM_BUF4_NONE);
            entry->number = 0;
        }
    }
    if (UNEXPECTED(ARM_G(room) > KEPT_ROOM)) {
        free(ARM_G(stack));
        ARM_G(stack) = NULL;
        ARM_G(room) = 0;
    }
}

bool php_arm_correlator_of(const zend_string *text, arm_correlator_t *correlator)
{
    return arm4_correlator_of_traceparent(ZSTR_VAL(text), correlator)
           || arm4_correlator_of_hex(ZSTR_VAL(text), ZSTR_LEN(text), correlator);
}

zend_string *php_arm_text_of(const arm_correlator_t *correlator)
{
    char text[ARM4_DL_HEX_BYTES];
    if (!correlator) {
        return NULL;
    }
    if (arm4_traceparent_of_correlator(correlator, text)) {
        return zend_string_init(text, ARM4_DL_TRACEPARENT_BYTES - 1, 0);
    }
    size_t digits = arm4_correlator_hex(correlator, text);
    return digits ? zend_string_init(text, digits, 0) : NULL;
}
