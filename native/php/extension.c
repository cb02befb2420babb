/* What PHP asks of an extension: settings, begin and end of a process, of a request. */

#include "php_arm.h"
#include "arm4_dl.h"
#include "ext/standard/info.h"
#include "php_ini.h"

ZEND_DECLARE_MODULE_GLOBALS(arm)

const arm4_dl *php_arm_library;

/* Why there is no library. */
static char missing[512];

PHP_INI_BEGIN()
    STD_PHP_INI_BOOLEAN("arm.automatic", "0", PHP_INI_SYSTEM, OnUpdateBool, automatic, zend_arm_globals, arm_globals)
    STD_PHP_INI_BOOLEAN("arm.statements", "1", PHP_INI_ALL, OnUpdateBool, statements, zend_arm_globals, arm_globals)
    STD_PHP_INI_BOOLEAN("arm.propagate", "1", PHP_INI_ALL, OnUpdateBool, propagate, zend_arm_globals, arm_globals)
    STD_PHP_INI_BOOLEAN("arm.require_server", "0", PHP_INI_SYSTEM | PHP_INI_PERDIR, OnUpdateBool, require_server,
                        zend_arm_globals, arm_globals)
    STD_PHP_INI_BOOLEAN("arm.traceparent", "1", PHP_INI_SYSTEM | PHP_INI_PERDIR, OnUpdateBool, traceparent,
                        zend_arm_globals, arm_globals)
    STD_PHP_INI_ENTRY("arm.application", "PHP", PHP_INI_SYSTEM | PHP_INI_PERDIR, OnUpdateString, application,
                      zend_arm_globals, arm_globals)
PHP_INI_END()

static PHP_GINIT_FUNCTION(arm)
{
#if defined(ZTS) && defined(COMPILE_DL_ARM)
    ZEND_TSRMLS_CACHE_UPDATE();
#endif
    memset(arm_globals, 0, sizeof(*arm_globals));
    php_arm_registry_open(arm_globals);
}

static PHP_GSHUTDOWN_FUNCTION(arm)
{
    php_arm_registry_close(arm_globals);
}

static PHP_MINIT_FUNCTION(arm)
{
    REGISTER_INI_ENTRIES();
    php_arm_register_constants(module_number);
    php_arm_register_classes();
    /* Before a server forks: its children find the library where it is. */
    php_arm_library = arm4_dl_load(missing, sizeof(missing));
    if (!php_arm_library) {
        zend_error(E_CORE_WARNING, "arm: nothing will be recorded: %s", missing);
        return SUCCESS;
    }
    php_arm_watch_forks();
    if (ARM_G(automatic)) {
        php_arm_time_calls();
    }
    return SUCCESS;
}

static PHP_MSHUTDOWN_FUNCTION(arm)
{
    php_arm_time_no_calls();
    UNREGISTER_INI_ENTRIES();
    return SUCCESS;
}

static PHP_RINIT_FUNCTION(arm)
{
#if defined(ZTS) && defined(COMPILE_DL_ARM)
    ZEND_TSRMLS_CACHE_UPDATE();
#endif
    return SUCCESS;
}

static PHP_RSHUTDOWN_FUNCTION(arm)
{
    php_arm_stop_all();
    /* Before curl's handles are gone. */
    php_arm_forget_curl();
    return SUCCESS;
}

/* After all other extensions have had their last word, which may have been a query of a session's handler. */
static ZEND_MODULE_POST_ZEND_DEACTIVATE_D(arm)
{
    php_arm_stop_all();
    php_arm_forget_server();
    return SUCCESS;
}

static PHP_MINFO_FUNCTION(arm)
{
    php_info_print_table_start();
    php_info_print_table_row(2, "ARM (Application Response Measurement)", "enabled");
    php_info_print_table_row(2, "Version", PHP_ARM_VERSION);
    php_info_print_table_row(2, "Library", php_arm_library ? "libarm4.so.4" : missing);
    php_info_print_table_end();
    DISPLAY_INI_ENTRIES();
}

/* With these, php.ini may load arm, opcache and the extensions whose calls are timed in any order. */
static const zend_module_dep arm_depends[] = {
    ZEND_MOD_OPTIONAL("curl")
    ZEND_MOD_OPTIONAL("mysqli")
    ZEND_MOD_OPTIONAL("pdo")
    ZEND_MOD_OPTIONAL("pgsql")
    ZEND_MOD_END
};

zend_module_entry arm_module_entry = {
    STANDARD_MODULE_HEADER_EX,
    NULL,
    arm_depends,
    "arm",
    php_arm_functions,
    PHP_MINIT(arm),
    PHP_MSHUTDOWN(arm),
    PHP_RINIT(arm),
    PHP_RSHUTDOWN(arm),
    PHP_MINFO(arm),
    PHP_ARM_VERSION,
    PHP_MODULE_GLOBALS(arm),
    PHP_GINIT(arm),
    PHP_GSHUTDOWN(arm),
    ZEND_MODULE_POST_ZEND_DEACTIVATE_N(arm),
    STANDARD_MODULE_PROPERTIES_EX
};

#ifdef COMPILE_DL_ARM
#ifdef ZTS
ZEND_TSRMLS_CACHE_DEFINE()
#endif
ZEND_GET_MODULE(arm)
#endif
