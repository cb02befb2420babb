/*
 * The same as objects: Arm\Application, Arm\Transaction and Arm\Running.
 *
 * What begins with an object ends with it on every way out of a function: by an exception it has failed, by exit() or at
 * the request's end it was aborted.
 */

#include "php_arm.h"
#include "Zend/zend_exceptions.h"
#include "Zend/zend_smart_str.h"

static zend_class_entry *application_class, *transaction_class, *running_class;
static zend_object_handlers application_handlers, transaction_handlers, running_handlers;

/* Objects stand for entries of the registry, which outlive every request. */
typedef struct {
    arm_application *application;
    zend_object object;
} application_object;

typedef struct {
    arm_transaction *transaction;
    zend_object object;
} transaction_object;

typedef struct {
    zend_long number;
    arm_transaction *transaction;
    arm_tran_block_handle_t block;
    bool is_blocked;
    zend_object object;
} running_object;

#define OBJECT(type, pointer) ((type *) ((char *) (pointer) - XtOffsetOf(type, object)))
#define THIS(type) OBJECT(type, Z_OBJ_P(ZEND_THIS))

#define CREATE(kind)                                                        \
    static zend_object *create_##kind(zend_class_entry *entry)              \
    {                                                                       \
        kind##_object *made = zend_object_alloc(sizeof(kind##_object), entry); \
        memset(made, 0, XtOffsetOf(kind##_object, object));                 \
        zend_object_std_init(&made->object, entry);                         \
        object_properties_init(&made->object, entry);                       \
        made->object.handlers = &kind##_handlers;                           \
        return &made->object;                                               \
    }

CREATE(application)
CREATE(transaction)
CREATE(running)

/* The exception that leaves the block, in words. */
static zend_string *words_of(zend_object *exception)
{
    zval room;
    zval *message = zend_read_property(exception->ce, exception, "message", sizeof("message") - 1, 1, &room);
    smart_str words = { NULL, 0 };
    smart_str_append(&words, exception->ce->name);
    if (message && Z_TYPE_P(message) == IS_STRING && Z_STRLEN_P(message)) {
        smart_str_appends(&words, ": ");
        smart_str_append(&words, Z_STR_P(message));
    }
    smart_str_0(&words);
    return words.s;
}

static bool is_exit(const zend_object *exception)
{
    return zend_is_unwind_exit(exception) || zend_is_graceful_exit(exception);
}

/* Ends it as the way that is being left says. */
static void leave(running_object *running)
{
    if (!php_arm_find(running->number)) {
        return;
    }
    zend_object *exception = EG(exception);
    /* After the page's last line no PHP code runs any more. */
    if (!EG(current_execute_data) || (exception && is_exit(exception))) {
        php_arm_stop(running->number, PHP_ARM_ABORTED, NULL, NULL);
    } else if (exception) {
        zend_string *words = words_of(exception);
        arm_told told = { .diagnosis = ZSTR_VAL(words) };
        php_arm_stop(running->number, PHP_ARM_FAILED, NULL, &told);
        zend_string_release(words);
    } else {
        php_arm_stop(running->number, PHP_ARM_GOOD, NULL, NULL);
    }
    running->number = 0;
}

static void free_running(zend_object *object)
{
    leave(OBJECT(running_object, object));
    zend_object_std_dtor(object);
}

/* Arm\Application */

ZEND_BEGIN_ARG_INFO_EX(arginfo_application_new, 0, 0, 1)
    ZEND_ARG_TYPE_INFO(0, name, IS_STRING, 0)
    ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, user, IS_STRING, 1, "null")
ZEND_END_ARG_INFO()

static PHP_METHOD(Arm_Application, __construct)
{
    zend_string *name, *user = NULL;
    ZEND_PARSE_PARAMETERS_START(1, 2)
        Z_PARAM_STR(name)
        Z_PARAM_OPTIONAL
        Z_PARAM_STR_OR_NULL(user)
    ZEND_PARSE_PARAMETERS_END();
    arm_application *application = php_arm_application(name, user);
    if (!application) {
        zend_throw_error(NULL, ZSTR_LEN(name) ? "4,096 names of applications are in use"
                                              : "The name of an application must not be empty");
        RETURN_THROWS();
    }
    THIS(application_object)->application = application;
}

ZEND_BEGIN_ARG_WITH_RETURN_OBJ_INFO_EX(arginfo_application_current, 0, 0, Arm\\Application, 0)
ZEND_END_ARG_INFO()

static PHP_METHOD(Arm_Application, current)
{
    ZEND_PARSE_PARAMETERS_NONE();
    arm_application *application = php_arm_own_application();
    if (!application) {
        zend_throw_error(NULL, "4,096 names of applications are in use");
        RETURN_THROWS();
    }
    object_init_ex(return_value, application_class);
    OBJECT(application_object, Z_OBJ_P(return_value))->application = application;
}

ZEND_BEGIN_ARG_WITH_RETURN_OBJ_INFO_EX(arginfo_application_transaction, 0, 1, Arm\\Transaction, 0)
    ZEND_ARG_TYPE_INFO(0, name, IS_STRING, 0)
    ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, context, IS_ARRAY, 0, "[]")
    ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, metrics, IS_ARRAY, 0, "[]")
    ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, detail, IS_STRING, 1, "null")
ZEND_END_ARG_INFO()

/* Formats must be those of arm4.h, but for the two that take a divisor. */
static bool are_metrics(HashTable *metrics)
{
    zend_string *name;
    zval *format;
    if (!metrics) {
        return true;
    }
    ZEND_HASH_FOREACH_STR_KEY_VAL(metrics, name, format) {
        zend_long number = Z_TYPE_P(format) == IS_LONG ? Z_LVAL_P(format) : 0;
        bool is_known = number == ARM_METRIC_FORMAT_COUNTER32 || number == ARM_METRIC_FORMAT_COUNTER64
                        || number == ARM_METRIC_FORMAT_GAUGE32 || number == ARM_METRIC_FORMAT_GAUGE64
                        || number == ARM_METRIC_FORMAT_NUMERICID32 || number == ARM_METRIC_FORMAT_NUMERICID64
                        || number == ARM_METRIC_FORMAT_STRING32;
        if (!name || !is_known) {
            zend_argument_value_error(3, "must be an array of names with their formats, such as ['items' => ARM_GAUGE32]");
            return false;
        }
    } ZEND_HASH_FOREACH_END();
    return true;
}

static PHP_METHOD(Arm_Application, transaction)
{
    arm_definition definition = { NULL, NULL, NULL, NULL };
    ZEND_PARSE_PARAMETERS_START(1, 4)
        Z_PARAM_STR(definition.name)
        Z_PARAM_OPTIONAL
        Z_PARAM_ARRAY_HT(definition.context)
        Z_PARAM_ARRAY_HT(definition.metrics)
        Z_PARAM_STR_OR_NULL(definition.detail)
    ZEND_PARSE_PARAMETERS_END();
    if (!are_metrics(definition.metrics)) {
        RETURN_THROWS();
    }
    arm_application *application = THIS(application_object)->application;
    arm_transaction *transaction = application ? php_arm_transaction(application, &definition) : NULL;
    if (!transaction) {
        zend_throw_error(NULL, !application                   ? "This application was not constructed"
                               : ZSTR_LEN(definition.name) ? "4,096 names of transactions are in use: put what differs "
                                                             "each time into the context, not into the name"
                                                           : "The name of a transaction must not be empty");
        RETURN_THROWS();
    }
    object_init_ex(return_value, transaction_class);
    OBJECT(transaction_object, Z_OBJ_P(return_value))->transaction = transaction;
}

/* Arm\Transaction */

ZEND_BEGIN_ARG_WITH_RETURN_OBJ_INFO_EX(arginfo_transaction_start, 0, 0, Arm\\Running, 0)
    ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, parent, IS_STRING, 1, "null")
    ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, user, IS_STRING, 1, "null")
    ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, context, IS_ARRAY, 0, "[]")
    ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, metrics, IS_ARRAY, 0, "[]")
    ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, uri, IS_STRING, 1, "null")
ZEND_END_ARG_INFO()

static PHP_METHOD(Arm_Transaction, start)
{
    zend_string *text = NULL, *user = NULL, *uri = NULL;
    arm_told told = { 0 };
    ZEND_PARSE_PARAMETERS_START(0, 5)
        Z_PARAM_OPTIONAL
        Z_PARAM_STR_OR_NULL(text)
        Z_PARAM_STR_OR_NULL(user)
        Z_PARAM_ARRAY_HT(told.context)
        Z_PARAM_ARRAY_HT(told.metrics)
        Z_PARAM_STR_OR_NULL(uri)
    ZEND_PARSE_PARAMETERS_END();
    arm_transaction *transaction = THIS(transaction_object)->transaction;
    if (!transaction) {
        zend_throw_error(NULL, "This transaction was not made by Arm\\Application::transaction()");
        RETURN_THROWS();
    }
    arm_correlator_t correlator;
    arm_parent parent = { text && !ZSTR_LEN(text), &correlator };
    bool is_given = parent.is_root;
    if (text && !is_given) {
        is_given = php_arm_correlator_of(text, &correlator);
        if (!is_given) {
            php_arm_fails(PHP_ARM_NO_CORRELATOR);
        }
    }
    told.user = user ? ZSTR_VAL(user) : NULL;
    told.uri = uri ? ZSTR_VAL(uri) : NULL;
    bool is_told = ZEND_NUM_ARGS() > 1;
    zend_long number = php_arm_start(transaction, is_given ? &parent : NULL, is_told ? &told : NULL);
    object_init_ex(return_value, running_class);
    running_object *running = OBJECT(running_object, Z_OBJ_P(return_value));
    running->number = number > 0 ? number : 0;
    running->transaction = transaction;
}

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_transaction_run, 0, 1, IS_MIXED, 0)
    ZEND_ARG_TYPE_INFO(0, work, IS_CALLABLE, 0)
    ZEND_ARG_VARIADIC_TYPE_INFO(0, arguments, IS_MIXED, 0)
ZEND_END_ARG_INFO()

static PHP_METHOD(Arm_Transaction, run)
{
    zend_fcall_info call;
    zend_fcall_info_cache cache;
    ZEND_PARSE_PARAMETERS_START(1, -1)
        Z_PARAM_FUNC(call, cache)
        Z_PARAM_VARIADIC_WITH_NAMED(call.params, call.param_count, call.named_params)
    ZEND_PARSE_PARAMETERS_END();
    arm_transaction *transaction = THIS(transaction_object)->transaction;
    if (!transaction) {
        zend_throw_error(NULL, "This transaction was not made by Arm\\Application::transaction()");
        RETURN_THROWS();
    }
    zend_long number = php_arm_start(transaction, NULL, NULL);
    running_object running = { .number = number > 0 ? number : 0 };
    call.retval = return_value;
    zend_call_function(&call, &cache);
    leave(&running);
}

/* Arm\Running */

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_running_stop, 0, 0, IS_VOID, 0)
    ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, status, IS_LONG, 0, "ARM_GOOD")
    ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, diagnosis, IS_STRING, 1, "null")
    ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, metrics, IS_ARRAY, 0, "[]")
ZEND_END_ARG_INFO()

static PHP_METHOD(Arm_Running, stop)
{
    zend_long status = PHP_ARM_GOOD;
    zend_string *diagnosis = NULL;
    arm_told told = { 0 };
    ZEND_PARSE_PARAMETERS_START(0, 3)
        Z_PARAM_OPTIONAL
        Z_PARAM_LONG(status)
        Z_PARAM_STR_OR_NULL(diagnosis)
        Z_PARAM_ARRAY_HT(told.metrics)
    ZEND_PARSE_PARAMETERS_END();
    running_object *running = THIS(running_object);
    told.diagnosis = diagnosis ? ZSTR_VAL(diagnosis) : NULL;
    php_arm_stop(running->number, status, running->transaction, ZEND_NUM_ARGS() > 1 ? &told : NULL);
    running->number = 0;
}

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_running_fail, 0, 0, IS_VOID, 0)
    ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, diagnosis, IS_STRING, 1, "null")
ZEND_END_ARG_INFO()

static PHP_METHOD(Arm_Running, fail)
{
    zend_string *diagnosis = NULL;
    ZEND_PARSE_PARAMETERS_START(0, 1)
        Z_PARAM_OPTIONAL
        Z_PARAM_STR_OR_NULL(diagnosis)
    ZEND_PARSE_PARAMETERS_END();
    running_object *running = THIS(running_object);
    arm_told told = { .diagnosis = diagnosis ? ZSTR_VAL(diagnosis) : NULL };
    php_arm_stop(running->number, PHP_ARM_FAILED, running->transaction, &told);
    running->number = 0;
}

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_running_update, 0, 0, IS_VOID, 0)
    ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, metrics, IS_ARRAY, 0, "[]")
ZEND_END_ARG_INFO()

static PHP_METHOD(Arm_Running, update)
{
    arm_told told = { 0 };
    ZEND_PARSE_PARAMETERS_START(0, 1)
        Z_PARAM_OPTIONAL
        Z_PARAM_ARRAY_HT(told.metrics)
    ZEND_PARSE_PARAMETERS_END();
    php_arm_update(THIS(running_object)->number, THIS(running_object)->transaction, &told);
}

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_running_nothing, 0, 0, IS_VOID, 0)
ZEND_END_ARG_INFO()

static PHP_METHOD(Arm_Running, discard)
{
    ZEND_PARSE_PARAMETERS_NONE();
    php_arm_discard(THIS(running_object)->number);
    THIS(running_object)->number = 0;
}

static PHP_METHOD(Arm_Running, block)
{
    ZEND_PARSE_PARAMETERS_NONE();
    running_object *running = THIS(running_object);
    if (!running->is_blocked) {
        running->is_blocked = php_arm_block(running->number, &running->block);
    }
}

static PHP_METHOD(Arm_Running, unblock)
{
    ZEND_PARSE_PARAMETERS_NONE();
    running_object *running = THIS(running_object);
    if (running->is_blocked) {
        php_arm_unblock(running->number, running->block);
        running->is_blocked = false;
    }
}

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_running_correlator, 0, 0, IS_STRING, 1)
ZEND_END_ARG_INFO()

static PHP_METHOD(Arm_Running, correlator)
{
    ZEND_PARSE_PARAMETERS_NONE();
    const arm_running *found = php_arm_find(THIS(running_object)->number);
    zend_string *text = php_arm_is_on() ? php_arm_text_of(found ? &found->correlator : php_arm_innermost()) : NULL;
    if (!text) {
        RETURN_NULL();
    }
    RETURN_STR(text);
}

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_running_is_recorded, 0, 0, _IS_BOOL, 0)
ZEND_END_ARG_INFO()

static PHP_METHOD(Arm_Running, isRecorded)
{
    ZEND_PARSE_PARAMETERS_NONE();
    RETURN_BOOL(php_arm_find(THIS(running_object)->number) != NULL);
}

static const zend_function_entry application_methods[] = {
    PHP_ME(Arm_Application, __construct, arginfo_application_new, ZEND_ACC_PUBLIC)
    PHP_ME(Arm_Application, current, arginfo_application_current, ZEND_ACC_PUBLIC | ZEND_ACC_STATIC)
    PHP_ME(Arm_Application, transaction, arginfo_application_transaction, ZEND_ACC_PUBLIC)
    PHP_FE_END
};

static const zend_function_entry transaction_methods[] = {
    PHP_ME(Arm_Transaction, start, arginfo_transaction_start, ZEND_ACC_PUBLIC)
    PHP_ME(Arm_Transaction, run, arginfo_transaction_run, ZEND_ACC_PUBLIC)
    PHP_FE_END
};

static const zend_function_entry running_methods[] = {
    PHP_ME(Arm_Running, stop, arginfo_running_stop, ZEND_ACC_PUBLIC)
    PHP_ME(Arm_Running, fail, arginfo_running_fail, ZEND_ACC_PUBLIC)
    PHP_ME(Arm_Running, update, arginfo_running_update, ZEND_ACC_PUBLIC)
    PHP_ME(Arm_Running, discard, arginfo_running_nothing, ZEND_ACC_PUBLIC)
    PHP_ME(Arm_Running, block, arginfo_running_nothing, ZEND_ACC_PUBLIC)
    PHP_ME(Arm_Running, unblock, arginfo_running_nothing, ZEND_ACC_PUBLIC)
    PHP_ME(Arm_Running, correlator, arginfo_running_correlator, ZEND_ACC_PUBLIC)
    PHP_ME(Arm_Running, isRecorded, arginfo_running_is_recorded, ZEND_ACC_PUBLIC)
    PHP_FE_END
};

/* Objects of it are made by its kind alone: never copied, never written to a file. */
static zend_class_entry *class_of(const char *name, const zend_function_entry *methods,
                                  zend_object *(*create)(zend_class_entry *), zend_object_handlers *handlers, int offset)
{
    zend_class_entry entry, *made;
    INIT_CLASS_ENTRY_EX(entry, name, strlen(name), methods);
    made = zend_register_internal_class(&entry);
    made->create_object = create;
    made->ce_flags |= ZEND_ACC_FINAL | ZEND_ACC_NOT_SERIALIZABLE | ZEND_ACC_NO_DYNAMIC_PROPERTIES;
    memcpy(handlers, &std_object_handlers, sizeof(*handlers));
    handlers->offset = offset;
    handlers->clone_obj = NULL;
    return made;
}

void php_arm_register_classes(void)
{
    application_class = class_of("Arm\\Application", application_methods, create_application, &application_handlers,
                                 XtOffsetOf(application_object, object));
    transaction_class = class_of("Arm\\Transaction", transaction_methods, create_transaction, &transaction_handlers,
                                 XtOffsetOf(transaction_object, object));
    running_class = class_of("Arm\\Running", running_methods, create_running, &running_handlers,
                             XtOffsetOf(running_object, object));
    running_handlers.free_obj = free_running;
}
