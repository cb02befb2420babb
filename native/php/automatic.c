/*
 * Calls of other extensions, and addresses that PHP opens, as transactions: only where arm.automatic is on when PHP starts.
 *
 * Then each function of targets.c gets another handler, which times the one that it had. Where it is off nothing is touched,
 * so nothing is asked at any call.
 */

#include "php_arm.h"
#include "Zend/zend_exceptions.h"
#include "Zend/zend_extensions.h"
#include "Zend/zend_smart_str.h"
#include "php_streams.h"

/* The handler that each target had; NULL = there is no such function. */
static zif_handler *originals;
/* Where a function notes which target it is. */
static int place = -1;
static zend_result (*next_post_startup)(void);

/* Protocols whose opening is a transaction. */
typedef struct {
    const char *protocol;
    const char *name;
    bool is_http;
    const php_stream_wrapper *original;
    php_stream_wrapper timed;
    php_stream_wrapper_ops operations;
} arm_protocol;

static arm_protocol protocols[] = {
    { .protocol = "http", .name = "open http", .is_http = true },
    { .protocol = "https", .name = "open https", .is_http = true },
    { .protocol = "ftp", .name = "open ftp" },
    { .protocol = "ftps", .name = "open ftps" },
};
#define PROTOCOLS (sizeof(protocols) / sizeof(protocols[0]))
/* All that has a transaction: these, the functions, and what curl sends side by side. */
#define ALL (php_arm_target_count + PROTOCOLS + 1)

/* The transaction of the request's application by its number; found again without a search. */
static arm_transaction *transaction_of(size_t index, const char *name, const char *context)
{
    arm_application *application = php_arm_own_application();
    if (UNEXPECTED(!application)) {
        return NULL;
    }
    if (UNEXPECTED(ARM_G(automatic_of) != application)) {
        if (!ARM_G(automatic_list)) {
            ARM_G(automatic_list) = pecalloc(ALL, sizeof(arm_transaction *), 1);
        }
        memset(ARM_G(automatic_list), 0, ALL * sizeof(arm_transaction *));
        ARM_G(automatic_of) = application;
    }
    if (UNEXPECTED(!ARM_G(automatic_list)[index])) {
        zval names;
        arm_definition definition = { .name = zend_string_init(name, strlen(name), 0) };
        array_init(&names);
        if (context) {
            add_next_index_string(&names, context);
            definition.context = Z_ARRVAL(names);
        }
        ARM_G(automatic_list)[index] = php_arm_transaction(application, &definition);
        zend_string_release(definition.name);
        zval_ptr_dtor(&names);
    }
    return ARM_G(automatic_list)[index];
}

arm_transaction *php_arm_transaction_of_multi(void)
{
    return transaction_of(ALL - 1, "curl_multi", NULL);
}

/* The statement of a call: its first text, its second, or that of its object; NULL = it has none. */
static zend_string *statement_of(zend_execute_data *execute_data, arm_telling telling, zval *room)
{
    uint32_t wanted = telling == TELLS_SECOND ? 2 : 1;
    if (telling == TELLS_PROPERTY) {
        zend_object *object = Z_OBJ(EX(This));
        zval *text = zend_read_property(object->ce, object, ZEND_STRL("queryString"), 1, room);
        return text && Z_TYPE_P(text) == IS_STRING ? Z_STR_P(text) : NULL;
    }
    for (uint32_t number = 1; number <= ZEND_CALL_NUM_ARGS(execute_data); number++) {
        zval *argument = ZEND_CALL_ARG(execute_data, number);
        ZVAL_DEREF(argument);
        if (Z_TYPE_P(argument) == IS_STRING && --wanted == 0) {
            return Z_STR_P(argument);
        }
    }
    return NULL;
}

static zend_long begin(size_t index, zend_execute_data *execute_data)
{
    const arm_target *target = &php_arm_targets[index];
    bool tells = target->telling != TELLS_NOTHING && target->telling != TELLS_CURL;
    arm_transaction *transaction = transaction_of(index, target->name, tells ? "statement" : NULL);
    if (!transaction) {
        return 0;
    }
    zval room;
    zend_string *statement =
        tells && ARM_G(statements) ? statement_of(execute_data, target->telling, &room) : NULL;
    if (!statement) {
        return php_arm_start(transaction, NULL, NULL);
    }
    char shape[PHP_ARM_SHAPE_BYTES];
    const char *const values[] = { shape, NULL };
    php_arm_shape_of_statement(ZSTR_VAL(statement), ZSTR_LEN(statement), shape);
    arm_told told = { .context_values = values };
    return php_arm_start(transaction, NULL, &told);
}

/* By an exception: its class and code alone, as its message may quote what users wrote. */
static void end_thrown(zend_long number)
{
    zend_object *exception = EG(exception);
    zval room;
    if (zend_is_unwind_exit(exception) || zend_is_graceful_exit(exception)) {
        php_arm_stop(number, PHP_ARM_ABORTED, NULL, NULL);
        return;
    }
    smart_str words = { NULL, 0 };
    smart_str_append(&words, exception->ce->name);
    zval *code = zend_read_property(exception->ce, exception, ZEND_STRL("code"), 1, &room);
    if (code && Z_TYPE_P(code) == IS_STRING) {
        smart_str_appendc(&words, ' ');
        smart_str_append(&words, Z_STR_P(code));
    } else if (code && Z_TYPE_P(code) == IS_LONG && Z_LVAL_P(code)) {
        smart_str_appendc(&words, ' ');
        smart_str_append_long(&words, Z_LVAL_P(code));
    }
    smart_str_0(&words);
    arm_told told = { .diagnosis = ZSTR_VAL(words.s) };
    php_arm_stop(number, PHP_ARM_FAILED, NULL, &told);
    smart_str_free(&words);
}

/* In place of each target's handler. */
static ZEND_NAMED_FUNCTION(time_call)
{
    size_t index = (size_t) EX(func)->internal_function.reserved[place] - 1;
    zif_handler original = originals[index];
    zend_long number = php_arm_is_on() ? begin(index, execute_data) : 0;
    zval *handle = php_arm_targets[index].telling == TELLS_CURL && ZEND_CALL_NUM_ARGS(execute_data)
                           && Z_TYPE_P(ZEND_CALL_ARG(execute_data, 1)) == IS_OBJECT
                       ? ZEND_CALL_ARG(execute_data, 1)
                       : NULL;
    if (handle) {
        php_arm_give_curl(handle, number);
    }
    original(INTERNAL_FUNCTION_PARAM_PASSTHRU);
    if (number <= 0) {
        return;
    }
    if (UNEXPECTED(EG(exception))) {
        end_thrown(number);
        return;
    }
    zend_long status = Z_TYPE_P(return_value) == IS_FALSE ? PHP_ARM_FAILED : PHP_ARM_GOOD;
    if (php_arm_targets[index].telling == TELLS_CURL) {
        php_arm_end_curl(number, handle, status);
    } else {
        php_arm_stop(number, status, NULL, NULL);
    }
}

/* In place of each protocol's opening: until the other side has answered, so without what is read later. */
static php_stream *time_opening(php_stream_wrapper *wrapper, const char *address, const char *mode, int options,
                                zend_string **opened, php_stream_context *context STREAMS_DC)
{
    const arm_protocol *protocol = (const arm_protocol *) ((const char *) wrapper - offsetof(arm_protocol, timed));
    size_t index = php_arm_target_count + (size_t) (protocol - protocols);
    arm_transaction *transaction = php_arm_is_on() ? transaction_of(index, protocol->name, NULL) : NULL;
    zend_long number = 0;
    if (transaction) {
        char shape[PHP_ARM_SHAPE_BYTES];
        arm_told told = { 0 };
        if (ARM_G(statements)) {
            php_arm_shape_of_address(address, shape);
            told.uri = shape;
        }
        number = php_arm_start(transaction, NULL, &told);
    }
    arm_given given = { 0 };
    if (protocol->is_http) {
        php_arm_give_http(&given, &context, number);
    }
    /* Errors are noted for the wrapper that PHP knows, which is ours. */
    php_stream *stream =
        protocol->original->wops->stream_opener(wrapper, address, mode, options, opened, context STREAMS_REL_CC);
    php_arm_take_http(&given);
    if (number > 0) {
        if (EG(exception)) {
            end_thrown(number);
        } else {
            php_arm_stop(number, stream ? PHP_ARM_GOOD : PHP_ARM_FAILED, NULL, NULL);
        }
    }
    return stream;
}

static void time_function(zend_function *function, size_t index)
{
    zend_internal_function *internal = function ? &function->internal_function : NULL;
    if (!internal || internal->type != ZEND_INTERNAL_FUNCTION || internal->handler == time_call) {
        return;
    }
    /* A class that inherits has the handler of the one that it inherits from, or one that is its own matter. */
    if (originals[index] && originals[index] != internal->handler) {
        return;
    }
    originals[index] = internal->handler;
    internal->reserved[place] = (void *) (index + 1);
    internal->handler = time_call;
}

static void time_method(size_t index)
{
    const arm_target *target = &php_arm_targets[index];
    size_t length = strlen(target->function);
    zend_class_entry *of = zend_hash_str_find_ptr(CG(class_table), target->class_name, strlen(target->class_name)), *entry;
    if (!of) {
        return;
    }
    time_function(zend_hash_str_find_ptr(&of->function_table, target->function, length), index);
    ZEND_HASH_FOREACH_PTR(CG(class_table), entry) {
        if (entry != of && entry->type == ZEND_INTERNAL_CLASS && instanceof_function(entry, of)) {
            time_function(zend_hash_str_find_ptr(&entry->function_table, target->function, length), index);
        }
    } ZEND_HASH_FOREACH_END();
}

static void time_protocol(arm_protocol *protocol)
{
    zval *entry = zend_hash_str_find(php_stream_get_url_stream_wrappers_hash_global(), protocol->protocol,
                                     strlen(protocol->protocol));
    const php_stream_wrapper *original = entry ? Z_PTR_P(entry) : NULL;
    if (!original || !original->wops->stream_opener) {
        return;
    }
    protocol->original = original;
    protocol->operations = *original->wops;
    protocol->operations.stream_opener = time_opening;
    protocol->timed = *original;
    protocol->timed.wops = &protocol->operations;
    Z_PTR_P(entry) = &protocol->timed;
}

/* When all extensions are there, before anything runs and before threads begin. */
static zend_result after_startup(void)
{
    place = zend_get_resource_handle("arm");
    originals = pecalloc(php_arm_target_count, sizeof(*originals), 1);
    for (size_t index = 0; place >= 0 && index < php_arm_target_count; index++) {
        const arm_target *target = &php_arm_targets[index];
        if (target->class_name) {
            time_method(index);
        } else {
            time_function(zend_hash_str_find_ptr(CG(function_table), target->function, strlen(target->function)),
                          index);
        }
    }
    php_arm_watch_curl();
    for (size_t index = 0; index < PROTOCOLS; index++) {
        time_protocol(&protocols[index]);
    }
    return next_post_startup ? next_post_startup() : SUCCESS;
}

void php_arm_time_calls(void)
{
    next_post_startup = zend_post_startup_cb;
    zend_post_startup_cb = after_startup;
}

/* Functions are called no more when this is; protocols may be found by others until the very end. */
void php_arm_time_no_calls(void)
{
    for (size_t index = 0; index < PROTOCOLS; index++) {
        arm_protocol *protocol = &protocols[index];
        zval *entry = protocol->original ? zend_hash_str_find(php_stream_get_url_stream_wrappers_hash_global(),
                                                              protocol->protocol, strlen(protocol->protocol))
                                         : NULL;
        if (entry && Z_PTR_P(entry) == &protocol->timed) {
            Z_PTR_P(entry) = (void *) protocol->original;
        }
        protocol->original = NULL;
    }
    if (originals) {
        pefree(originals, 1);
        originals = NULL;
    }
}
