/*
 * Requests that a page sends by curl or by addresses that PHP opens: the header traceparent that they get, and those that
 * curl sends side by side (curl_multi). Only where arm.automatic is on when PHP starts.
 *
 * curl has one list of headers for a handle, and no call returns it. So we note what the page sets, and join it with
 * ours before each request. We do not set the page's list back after a request, as setting an option has curl forget
 * the error that the page may ask for. We set it back before a request that is to have no header of ours. A page's own
 * traceparent stays what it is.
 */

#include "php_arm.h"
#include "arm4_dl.h"
#include "Zend/zend_smart_str.h"
#include "Zend/zend_weakrefs.h"

/* Curl's own numbers: CURLOPT_HTTPHEADER, CURLINFO_EFFECTIVE_URL, CURLINFO_RESPONSE_CODE. */
#define CURL_HEADERS 10023
#define CURL_ADDRESS 1048577
#define CURL_STATUS 2097154

#define HEADER "traceparent"

static zif_handler set_option, set_options, reset, copy, add, take_off, read_end;

static zval *argument(zend_execute_data *execute_data, uint32_t number)
{
    if (ZEND_CALL_NUM_ARGS(execute_data) < number) {
        return NULL;
    }
    zval *value = ZEND_CALL_ARG(execute_data, number);
    ZVAL_DEREF(value);
    return value;
}

static zval *object_argument(zend_execute_data *execute_data, uint32_t number)
{
    zval *value = argument(execute_data, number);
    return value && Z_TYPE_P(value) == IS_OBJECT ? value : NULL;
}

/* What is known of a handle, for as long as the handle lives; the value becomes the table's. */
static void keep(HashTable **table, zval *handle, zval *value)
{
    if (!*table) {
        ALLOC_HASHTABLE(*table);
        zend_hash_init(*table, 8, NULL, ZVAL_PTR_DTOR, 0);
    }
    zval *known = zend_hash_index_find(*table, zend_object_to_weakref_key(Z_OBJ_P(handle)));
    if (known) {
        zval_ptr_dtor(known);
        ZVAL_COPY_VALUE(known, value);
    } else {
        zend_weakrefs_hash_add(*table, Z_OBJ_P(handle), value);
    }
}

static zval *kept(HashTable *table, zval *handle)
{
    return table ? zend_hash_index_find(table, zend_object_to_weakref_key(Z_OBJ_P(handle))) : NULL;
}

static void drop(HashTable *table, zval *handle)
{
    if (table) {
        zend_weakrefs_hash_del(table, Z_OBJ_P(handle));
    }
}

static void drop_all(HashTable **table)
{
    zend_ulong key;
    if (!*table) {
        return;
    }
    ZEND_HASH_FOREACH_NUM_KEY(*table, key) {
        zend_weakrefs_hash_del(*table, zend_weakref_key_to_object(key));
    } ZEND_HASH_FOREACH_END();
    zend_hash_destroy(*table);
    FREE_HASHTABLE(*table);
    *table = NULL;
}

void php_arm_forget_curl(void)
{
    drop_all(&ARM_G(curl_headers));
    drop_all(&ARM_G(curl_given));
    drop_all(&ARM_G(curl_running));
}

/* The traceparent of what runs by this number, else of what is around it; false = nothing is measured. */
static bool traceparent_of(zend_long number, char text[ARM4_DL_TRACEPARENT_BYTES])
{
    const arm_running *entry = number > 0 ? php_arm_find(number) : NULL;
    const arm_correlator_t *correlator = entry ? &entry->correlator : php_arm_innermost();
    return ARM_G(propagate) && php_arm_is_on() && correlator && arm4_traceparent_of_correlator(correlator, text);
}

static bool is_traceparent(const char *line, size_t bytes)
{
    while (bytes && (*line == ' ' || *line == '\t')) {
        line++;
        bytes--;
    }
    return bytes > sizeof(HEADER) - 1 && !strncasecmp(line, HEADER, sizeof(HEADER) - 1)
           && strchr(":; \t", line[sizeof(HEADER) - 1]);
}

/* Whether a list of lines, or a text of them, has one of its own. */
static bool has_traceparent(const zval *lines)
{
    zval *line;
    if (Z_TYPE_P(lines) == IS_STRING) {
        const char *at = Z_STRVAL_P(lines), *end = at + Z_STRLEN_P(lines);
        while (at < end) {
            const char *next = memchr(at, '\n', (size_t) (end - at));
            if (is_traceparent(at, (size_t) ((next ? next : end) - at))) {
                return true;
            }
            at = next ? next + 1 : end;
        }
    } else if (Z_TYPE_P(lines) == IS_ARRAY) {
        ZEND_HASH_FOREACH_VAL(Z_ARRVAL_P(lines), line) {
            ZVAL_DEREF(line);
            if (Z_TYPE_P(line) == IS_STRING && is_traceparent(Z_STRVAL_P(line), Z_STRLEN_P(line))) {
                return true;
            }
        } ZEND_HASH_FOREACH_END();
    }
    return false;
}

/* Calls a function of curl's; false = there is none. */
static bool call_curl(const char *function, zval *result, uint32_t count, zval *arguments)
{
    zend_function *asked = zend_hash_str_find_ptr(CG(function_table), function, strlen(function));
    ZVAL_UNDEF(result);
    if (!asked) {
        return false;
    }
    zend_call_known_function(asked, NULL, NULL, result, count, arguments, NULL);
    return true;
}

/* Sets a handle's headers: the page's, with one more line or without. */
static void set_headers(zval *handle, const char *traceparent)
{
    zval arguments[3], result, *own = kept(ARM_G(curl_headers), handle);
    ZVAL_COPY_VALUE(&arguments[0], handle);
    ZVAL_LONG(&arguments[1], CURL_HEADERS);
    if (own) {
        ZVAL_ARR(&arguments[2], zend_array_dup(Z_ARRVAL_P(own)));
    } else {
        array_init(&arguments[2]);
    }
    if (traceparent) {
        char line[sizeof(HEADER) + 2 + ARM4_DL_TRACEPARENT_BYTES];
        snprintf(line, sizeof(line), HEADER ": %s", traceparent);
        add_next_index_string(&arguments[2], line);
    }
    ARM_G(sets_headers) = true;
    call_curl("curl_setopt", &result, 3, arguments);
    ARM_G(sets_headers) = false;
    zval_ptr_dtor(&result);
    zval_ptr_dtor(&arguments[2]);
}

void php_arm_give_curl(zval *handle, zend_long number)
{
    char text[ARM4_DL_TRACEPARENT_BYTES];
    zval *own = kept(ARM_G(curl_headers), handle), given;
    if (!(own && has_traceparent(own)) && traceparent_of(number, text)) {
        set_headers(handle, text);
        ZVAL_TRUE(&given);
        keep(&ARM_G(curl_given), handle, &given);
    } else if (kept(ARM_G(curl_given), handle)) {
        set_headers(handle, NULL);
        drop(ARM_G(curl_given), handle);
    }
}

/* Asks curl of a handle; the caller gives the result back. */
static bool ask_curl(const char *function, zval *handle, zend_long option, zval *result)
{
    zval arguments[2];
    ZVAL_COPY_VALUE(&arguments[0], handle);
    ZVAL_LONG(&arguments[1], option);
    return call_curl(function, result, option ? 2 : 1, arguments);
}

void php_arm_end_curl(zend_long number, zval *handle, zend_long status)
{
    zval address, error;
    char shape[PHP_ARM_SHAPE_BYTES];
    arm_told told = { 0 };
    ZVAL_UNDEF(&address);
    ZVAL_UNDEF(&error);
    if (handle) {
        if (ARM_G(statements) && ask_curl("curl_getinfo", handle, CURL_ADDRESS, &address)
            && Z_TYPE(address) == IS_STRING) {
            php_arm_shape_of_address(Z_STRVAL(address), shape);
            told.uri = shape;
        }
        if (status == PHP_ARM_FAILED && ask_curl("curl_error", handle, 0, &error) && Z_TYPE(error) == IS_STRING) {
            told.diagnosis = Z_STRVAL(error);
        }
    }
    php_arm_stop(number, status, NULL, &told);
    zval_ptr_dtor(&address);
    zval_ptr_dtor(&error);
}

static void note_headers(zval *handle, zval *headers)
{
    zval own;
    if (headers) {
        ZVAL_DEREF(headers);
    }
    if (ARM_G(sets_headers) || !headers || Z_TYPE_P(headers) != IS_ARRAY) {
        return;
    }
    ZVAL_ARR(&own, zend_array_dup(Z_ARRVAL_P(headers)));
    keep(&ARM_G(curl_headers), handle, &own);
    drop(ARM_G(curl_given), handle);
}

static ZEND_NAMED_FUNCTION(note_option)
{
    set_option(INTERNAL_FUNCTION_PARAM_PASSTHRU);
    zval *handle = object_argument(execute_data, 1), *option = argument(execute_data, 2);
    if (handle && option && Z_TYPE_P(return_value) == IS_TRUE && zval_get_long(option) == CURL_HEADERS) {
        note_headers(handle, argument(execute_data, 3));
    }
}

/* Where one option is refused, those before it hold. */
static ZEND_NAMED_FUNCTION(note_options)
{
    set_options(INTERNAL_FUNCTION_PARAM_PASSTHRU);
    zval *handle = object_argument(execute_data, 1), *options = argument(execute_data, 2);
    if (handle && options && Z_TYPE_P(options) == IS_ARRAY) {
        note_headers(handle, zend_hash_index_find(Z_ARRVAL_P(options), CURL_HEADERS));
    }
}

static ZEND_NAMED_FUNCTION(note_reset)
{
    reset(INTERNAL_FUNCTION_PARAM_PASSTHRU);
    zval *handle = object_argument(execute_data, 1);
    if (handle) {
        drop(ARM_G(curl_headers), handle);
        drop(ARM_G(curl_given), handle);
    }
}

static ZEND_NAMED_FUNCTION(note_copy)
{
    copy(INTERNAL_FUNCTION_PARAM_PASSTHRU);
    zval *handle = object_argument(execute_data, 1);
    if (handle && Z_TYPE_P(return_value) == IS_OBJECT) {
        zval given;
        ZVAL_TRUE(&given);
        note_headers(return_value, kept(ARM_G(curl_headers), handle));
        if (kept(ARM_G(curl_given), handle)) {
            keep(&ARM_G(curl_given), return_value, &given);
        }
    }
}

/* A handle that is sent side by side with others is no parent: what the page does meanwhile is not a part of it. */
static ZEND_NAMED_FUNCTION(begin_multi)
{
    zval *handle = object_argument(execute_data, 2), running;
    bool is_new = handle && !kept(ARM_G(curl_running), handle);
    arm_transaction *transaction = is_new && php_arm_is_on() ? php_arm_transaction_of_multi() : NULL;
    zend_long number = transaction ? php_arm_start(transaction, NULL, NULL) : 0;
    if (is_new) {
        php_arm_give_curl(handle, number);
    }
    if (number > 0) {
        php_arm_find(number)->is_apart = true;
    }
    add(INTERNAL_FUNCTION_PARAM_PASSTHRU);
    if (number > 0 && Z_TYPE_P(return_value) == IS_LONG && Z_LVAL_P(return_value) == 0) {
        ZVAL_LONG(&running, number);
        keep(&ARM_G(curl_running), handle, &running);
    } else if (number > 0) {
        php_arm_discard(number);
    }
}

static void end_multi(zval *handle, zend_long status)
{
    zval *running = handle ? kept(ARM_G(curl_running), handle) : NULL;
    if (!running) {
        return;
    }
    zend_long number = Z_LVAL_P(running);
    drop(ARM_G(curl_running), handle);
    php_arm_end_curl(number, handle, status);
}

/* curl tells here which of them has ended, and how. */
static ZEND_NAMED_FUNCTION(end_multi_by_message)
{
    read_end(INTERNAL_FUNCTION_PARAM_PASSTHRU);
    if (Z_TYPE_P(return_value) != IS_ARRAY) {
        return;
    }
    zval *handle = zend_hash_str_find(Z_ARRVAL_P(return_value), ZEND_STRL("handle"));
    zval *result = zend_hash_str_find(Z_ARRVAL_P(return_value), ZEND_STRL("result"));
    if (handle && Z_TYPE_P(handle) == IS_OBJECT && result) {
        end_multi(handle, zval_get_long(result) ? PHP_ARM_FAILED : PHP_ARM_GOOD);
    }
}

/* Where the page does not ask how it ended: good if there is an answer, else it was given up. */
static ZEND_NAMED_FUNCTION(end_multi_by_removal)
{
    zval *handle = object_argument(execute_data, 2), status;
    if (handle && kept(ARM_G(curl_running), handle)) {
        bool is_answered = ask_curl("curl_getinfo", handle, CURL_STATUS, &status) && zval_get_long(&status) > 0;
        zval_ptr_dtor(&status);
        end_multi(handle, is_answered ? PHP_ARM_GOOD : PHP_ARM_ABORTED);
    }
    take_off(INTERNAL_FUNCTION_PARAM_PASSTHRU);
}

static void exchange(const char *name, zif_handler *original, zif_handler ours)
{
    zend_function *function = zend_hash_str_find_ptr(CG(function_table), name, strlen(name));
    if (function && function->type == ZEND_INTERNAL_FUNCTION && function->internal_function.handler != ours) {
        *original = function->internal_function.handler;
        function->internal_function.handler = ours;
    }
}

void php_arm_watch_curl(void)
{
    exchange("curl_setopt", &set_option, note_option);
    exchange("curl_setopt_array", &set_options, note_options);
    exchange("curl_reset", &reset, note_reset);
    exchange("curl_copy_handle", &copy, note_copy);
    exchange("curl_multi_add_handle", &add, begin_multi);
    exchange("curl_multi_remove_handle", &take_off, end_multi_by_removal);
    exchange("curl_multi_info_read", &read_end, end_multi_by_message);
}

/* The options of http within a context; NULL = it has none. */
static zval *http_options(php_stream_context *context)
{
    zval *options = zend_hash_str_find(Z_ARRVAL(context->options), ZEND_STRL("http"));
    return options && Z_TYPE_P(options) == IS_ARRAY ? options : NULL;
}

void php_arm_give_http(arm_given *given, php_stream_context **context, zend_long number)
{
    char text[ARM4_DL_TRACEPARENT_BYTES];
    zval *own = *context ? php_stream_context_get_option(*context, "http", "header") : NULL, lines;
    memset(given, 0, sizeof(*given));
    if (own) {
        ZVAL_DEREF(own);
    }
    if ((own && (has_traceparent(own) || (Z_TYPE_P(own) != IS_STRING && Z_TYPE_P(own) != IS_ARRAY)))
        || !traceparent_of(number, text)) {
        return;
    }
    if (!*context) {
        *context = given->made = php_stream_context_alloc();
    }
    given->context = *context;
    given->had_options = http_options(*context) != NULL;
    ZVAL_UNDEF(&given->before);
    if (own && Z_TYPE_P(own) == IS_ARRAY) {
        char line[sizeof(HEADER) + 2 + ARM4_DL_TRACEPARENT_BYTES];
        snprintf(line, sizeof(line), HEADER ": %s", text);
        ZVAL_COPY(&given->before, own);
        ZVAL_ARR(&lines, zend_array_dup(Z_ARRVAL_P(own)));
        add_next_index_string(&lines, line);
    } else {
        smart_str all = { NULL, 0 };
        smart_str_appends(&all, HEADER ": ");
        smart_str_appends(&all, text);
        if (own) {
            ZVAL_COPY(&given->before, own);
            smart_str_appends(&all, "\r\n");
            smart_str_append(&all, Z_STR_P(own));
        }
        smart_str_0(&all);
        ZVAL_STR(&lines, all.s);
    }
    php_stream_context_set_option(*context, "http", "header", &lines);
    zval_ptr_dtor(&lines);
}

void php_arm_take_http(arm_given *given)
{
    zval *options = given->context ? http_options(given->context) : NULL;
    if (options && !Z_ISUNDEF(given->before)) {
        php_stream_context_set_option(given->context, "http", "header", &given->before);
    } else if (options && given->had_options) {
        SEPARATE_ARRAY(options);
        zend_hash_str_del(Z_ARRVAL_P(options), ZEND_STRL("header"));
    } else if (options) {
        zend_hash_str_del(Z_ARRVAL(given->context->options), ZEND_STRL("http"));
    }
    if (given->context) {
        zval_ptr_dtor(&given->before);
    }
    if (given->made) {
        /* The stream has it as long as it needs it. */
        zend_list_delete(given->made->res);
    }
}
