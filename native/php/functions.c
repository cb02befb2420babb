/* The paper's calls, as ARM 2.0 has them in C; numbers stand for what is named and what runs, and below 0 for errors. */

#include "php_arm.h"

static const struct {
    zend_long error;
    const char *words;
} errors[] = {
    { PHP_ARM_NO_APPLICATION, "no application has this number, or it was ended: take what arm_init() returns" },
    { PHP_ARM_NO_TRANSACTION, "no transaction has this number: take what arm_getid() returns" },
    { PHP_ARM_NOT_RUNNING, "nothing runs by this number: it has been stopped, or belongs to an earlier request" },
    { PHP_ARM_TOO_MANY_NAMES, "4,096 names are in use: put what differs each time into the context, not into the name" },
    { PHP_ARM_TOO_MANY_OPEN, "1,024 transactions run in this request: stop them" },
    { PHP_ARM_NO_CORRELATOR, "the parent is neither a traceparent nor a correlator in hex; it was ignored" },
    { PHP_ARM_NO_STATUS, "the status is none of ARM_GOOD, ARM_ABORT, ARM_FAILED and ARM_UNKNOWN; it counts as unknown" },
    { PHP_ARM_NO_NAME, "the name is empty" },
};

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_arm_init, 0, 1, IS_LONG, 0)
    ZEND_ARG_TYPE_INFO(0, application, IS_STRING, 0)
    ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, user, IS_STRING, 1, "null")
ZEND_END_ARG_INFO()

static PHP_FUNCTION(arm_init)
{
    zend_string *name, *user = NULL;
    ZEND_PARSE_PARAMETERS_START(1, 2)
        Z_PARAM_STR(name)
        Z_PARAM_OPTIONAL
        Z_PARAM_STR_OR_NULL(user)
    ZEND_PARSE_PARAMETERS_END();
    if (!ZSTR_LEN(name)) {
        RETURN_LONG(php_arm_fails(PHP_ARM_NO_NAME));
    }
    arm_application *application = php_arm_application(name, user);
    RETURN_LONG(application ? application->number : php_arm_fails(PHP_ARM_TOO_MANY_NAMES));
}

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_arm_application, 0, 0, IS_LONG, 0)
ZEND_END_ARG_INFO()

static PHP_FUNCTION(arm_application)
{
    ZEND_PARSE_PARAMETERS_NONE();
    const arm_application *application = php_arm_own_application();
    RETURN_LONG(application ? application->number : php_arm_fails(PHP_ARM_TOO_MANY_NAMES));
}

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_arm_getid, 0, 2, IS_LONG, 0)
    ZEND_ARG_TYPE_INFO(0, application, IS_LONG, 0)
    ZEND_ARG_TYPE_INFO(0, transaction, IS_STRING, 0)
    ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, detail, IS_STRING, 1, "null")
ZEND_END_ARG_INFO()

static PHP_FUNCTION(arm_getid)
{
    zend_long number;
    arm_definition definition = { NULL, NULL, NULL, NULL };
    ZEND_PARSE_PARAMETERS_START(2, 3)
        Z_PARAM_LONG(number)
        Z_PARAM_STR(definition.name)
        Z_PARAM_OPTIONAL
        Z_PARAM_STR_OR_NULL(definition.detail)
    ZEND_PARSE_PARAMETERS_END();
    arm_application *application = php_arm_application_numbered(number);
    if (!application || application->is_ended) {
        RETURN_LONG(php_arm_fails(PHP_ARM_NO_APPLICATION));
    }
    if (!ZSTR_LEN(definition.name)) {
        RETURN_LONG(php_arm_fails(PHP_ARM_NO_NAME));
    }
    const arm_transaction *transaction = php_arm_transaction(application, &definition);
    RETURN_LONG(transaction ? transaction->number : php_arm_fails(PHP_ARM_TOO_MANY_NAMES));
}

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_arm_start, 0, 1, IS_LONG, 0)
    ZEND_ARG_TYPE_INFO(0, transaction, IS_LONG, 0)
    ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, parent, IS_STRING, 1, "null")
ZEND_END_ARG_INFO()

static PHP_FUNCTION(arm_start)
{
    zend_long number;
    zend_string *text = NULL;
    ZEND_PARSE_PARAMETERS_START(1, 2)
        Z_PARAM_LONG(number)
        Z_PARAM_OPTIONAL
        Z_PARAM_STR_OR_NULL(text)
    ZEND_PARSE_PARAMETERS_END();
    arm_transaction *transaction = php_arm_transaction_numbered(number);
    if (UNEXPECTED(!transaction || transaction->application->is_ended)) {
        RETURN_LONG(php_arm_fails(PHP_ARM_NO_TRANSACTION));
    }
    if (EXPECTED(!text)) {
        RETURN_LONG(php_arm_start(transaction, NULL, NULL));
    }
    arm_correlator_t correlator;
    arm_parent parent = { ZSTR_LEN(text) == 0, &correlator };
    if (!parent.is_root && !php_arm_correlator_of(text, &correlator)) {
        php_arm_fails(PHP_ARM_NO_CORRELATOR);
        RETURN_LONG(php_arm_start(transaction, NULL, NULL));
    }
    RETURN_LONG(php_arm_start(transaction, &parent, NULL));
}

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_arm_update, 0, 1, IS_LONG, 0)
    ZEND_ARG_TYPE_INFO(0, handle, IS_LONG, 0)
    ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, detail, IS_STRING, 1, "null")
ZEND_END_ARG_INFO()

static PHP_FUNCTION(arm_update)
{
    zend_long number;
    zend_string *detail = NULL;
    ZEND_PARSE_PARAMETERS_START(1, 2)
        Z_PARAM_LONG(number)
        Z_PARAM_OPTIONAL
        Z_PARAM_STR_OR_NULL(detail)
    ZEND_PARSE_PARAMETERS_END();
    arm_told told = { .diagnosis = detail ? ZSTR_VAL(detail) : NULL };
    RETURN_LONG(php_arm_update(number, NULL, &told));
}

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_arm_stop, 0, 1, IS_LONG, 0)
    ZEND_ARG_TYPE_INFO(0, handle, IS_LONG, 0)
    ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, status, IS_LONG, 0, "ARM_GOOD")
    ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, detail, IS_STRING, 1, "null")
ZEND_END_ARG_INFO()

static PHP_FUNCTION(arm_stop)
{
    zend_long number, status = PHP_ARM_GOOD;
    zend_string *detail = NULL;
    ZEND_PARSE_PARAMETERS_START(1, 3)
        Z_PARAM_LONG(number)
        Z_PARAM_OPTIONAL
        Z_PARAM_LONG(status)
        Z_PARAM_STR_OR_NULL(detail)
    ZEND_PARSE_PARAMETERS_END();
    if (EXPECTED(!detail)) {
        RETURN_LONG(php_arm_stop(number, status, NULL, NULL));
    }
    arm_told told = { .diagnosis = ZSTR_VAL(detail) };
    RETURN_LONG(php_arm_stop(number, status, NULL, &told));
}

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_arm_discard, 0, 1, IS_LONG, 0)
    ZEND_ARG_TYPE_INFO(0, handle, IS_LONG, 0)
ZEND_END_ARG_INFO()

static PHP_FUNCTION(arm_discard)
{
    zend_long number;
    ZEND_PARSE_PARAMETERS_START(1, 1)
        Z_PARAM_LONG(number)
    ZEND_PARSE_PARAMETERS_END();
    RETURN_LONG(php_arm_discard(number));
}

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_arm_end, 0, 1, IS_LONG, 0)
    ZEND_ARG_TYPE_INFO(0, application, IS_LONG, 0)
ZEND_END_ARG_INFO()

/* Other requests of the process may use the same application, so only its number here ends; the library keeps it. */
static PHP_FUNCTION(arm_end)
{
    zend_long number;
    ZEND_PARSE_PARAMETERS_START(1, 1)
        Z_PARAM_LONG(number)
    ZEND_PARSE_PARAMETERS_END();
    arm_application *application = php_arm_application_numbered(number);
    if (!application || application->is_ended) {
        RETURN_LONG(php_arm_fails(PHP_ARM_NO_APPLICATION));
    }
    application->is_ended = true;
    RETURN_LONG(0);
}

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_arm_correlator, 0, 0, IS_STRING, 1)
    ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, handle, IS_LONG, 1, "null")
ZEND_END_ARG_INFO()

static PHP_FUNCTION(arm_correlator)
{
    zend_long number = 0;
    bool is_null = true;
    ZEND_PARSE_PARAMETERS_START(0, 1)
        Z_PARAM_OPTIONAL
        Z_PARAM_LONG_OR_NULL(number, is_null)
    ZEND_PARSE_PARAMETERS_END();
    if (!php_arm_is_on()) {
        RETURN_NULL();
    }
    const arm_running *running = php_arm_find(number);
    if (!running && number != 0) {
        php_arm_fails(PHP_ARM_NOT_RUNNING);
        RETURN_NULL();
    }
    /* What is not recorded has the parent's, so that those behind it join what is around it. */
    zend_string *text = php_arm_text_of(running ? &running->correlator : php_arm_innermost());
    if (!text) {
        RETURN_NULL();
    }
    RETURN_STR(text);
}

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_arm_error, 0, 0, IS_STRING, 1)
ZEND_END_ARG_INFO()

static PHP_FUNCTION(arm_error)
{
    ZEND_PARSE_PARAMETERS_NONE();
    for (size_t index = 0; index < sizeof(errors) / sizeof(errors[0]); index++) {
        if (errors[index].error == ARM_G(error)) {
            RETURN_STRING(errors[index].words);
        }
    }
    RETURN_NULL();
}

const zend_function_entry php_arm_functions[] = {
    PHP_FE(arm_init, arginfo_arm_init)
    PHP_FE(arm_application, arginfo_arm_application)
    PHP_FE(arm_getid, arginfo_arm_getid)
    PHP_FE(arm_start, arginfo_arm_start)
    PHP_FE(arm_update, arginfo_arm_update)
    PHP_FE(arm_stop, arginfo_arm_stop)
    PHP_FE(arm_discard, arginfo_arm_discard)
    PHP_FE(arm_end, arginfo_arm_end)
    PHP_FE(arm_correlator, arginfo_arm_correlator)
    PHP_FE(arm_error, arginfo_arm_error)
    PHP_FE_END
};

void php_arm_register_constants(int module_number)
{
    REGISTER_LONG_CONSTANT("ARM_GOOD", PHP_ARM_GOOD, CONST_CS | CONST_PERSISTENT);
    REGISTER_LONG_CONSTANT("ARM_ABORT", PHP_ARM_ABORTED, CONST_CS | CONST_PERSISTENT);
    REGISTER_LONG_CONSTANT("ARM_ABORTED", PHP_ARM_ABORTED, CONST_CS | CONST_PERSISTENT);
    REGISTER_LONG_CONSTANT("ARM_FAILED", PHP_ARM_FAILED, CONST_CS | CONST_PERSISTENT);
    REGISTER_LONG_CONSTANT("ARM_UNKNOWN", PHP_ARM_UNKNOWN, CONST_CS | CONST_PERSISTENT);
    REGISTER_LONG_CONSTANT("ARM_COUNTER32", ARM_METRIC_FORMAT_COUNTER32, CONST_CS | CONST_PERSISTENT);
    REGISTER_LONG_CONSTANT("ARM_COUNTER64", ARM_METRIC_FORMAT_COUNTER64, CONST_CS | CONST_PERSISTENT);
    REGISTER_LONG_CONSTANT("ARM_GAUGE32", ARM_METRIC_FORMAT_GAUGE32, CONST_CS | CONST_PERSISTENT);
    REGISTER_LONG_CONSTANT("ARM_GAUGE64", ARM_METRIC_FORMAT_GAUGE64, CONST_CS | CONST_PERSISTENT);
    REGISTER_LONG_CONSTANT("ARM_NUMERICID32", ARM_METRIC_FORMAT_NUMERICID32, CONST_CS | CONST_PERSISTENT);
    REGISTER_LONG_CONSTANT("ARM_NUMERICID64", ARM_METRIC_FORMAT_NUMERICID64, CONST_CS | CONST_PERSISTENT);
    REGISTER_LONG_CONSTANT("ARM_STRING32", ARM_METRIC_FORMAT_STRING32, CONST_CS | CONST_PERSISTENT);
}
