/*
 * The extension arm: names for what a page does, by ARM 4 (Application Response Measurement).
 *
 * registry.c  what has a name: applications and transactions, for as long as the process lives
 * server.c    what the web server says of this request: its switch, its application, the parent of what it starts
 * running.c   what runs in this request
 * functions.c the paper's calls, objects.c the same as objects, automatic.c the calls of others that are timed
 * targets.c   which these are, shapes.c what is told of them, outgoing.c the header that their requests get
 *
 * A process without ARM's library has the same functions; they do nothing.
 */

#ifndef PHP_ARM_H
#define PHP_ARM_H

/* What phpize has found out; the Makefile needs none of it. */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "php.h"
#include "php_streams.h"
#include "arm4.h"

#define PHP_ARM_VERSION "1.0.0"

/* Transactions of a request that may run at the same time, one within another. */
#define ARM_MOST_OPEN 1024
/* Names of a process: as many as the library has room for. */
#define ARM_MOST_NAMES 4096

/* How a transaction ended: the numbers of ARM 4, of which the first three are ARM 2's as well. */
enum { PHP_ARM_GOOD = 0, PHP_ARM_ABORTED = 1, PHP_ARM_FAILED = 2, PHP_ARM_UNKNOWN = 3 };

/* What the calls return below 0; arm_error() has the words. */
enum {
    PHP_ARM_NO_APPLICATION = -1,
    PHP_ARM_NO_TRANSACTION = -2,
    PHP_ARM_NOT_RUNNING = -3,
    PHP_ARM_TOO_MANY_NAMES = -4,
    PHP_ARM_TOO_MANY_OPEN = -5,
    PHP_ARM_NO_CORRELATOR = -6,
    PHP_ARM_NO_STATUS = -7,
    PHP_ARM_NO_NAME = -8
};

typedef struct arm_application arm_application;
typedef struct arm_transaction arm_transaction;

/* A name of an application, and the user on whose behalf it runs. */
struct arm_application {
    zend_long number;
    arm_id_t id;
    arm_app_start_handle_t handle;
    /* In which process the handle is one: how often this process's line has forked. */
    unsigned forks;
    bool is_ended;
    /* The user was given as "*": the user that runs the process. */
    bool is_login;
    zend_string *name;
    zend_string *user;
    /* The same name for another user. */
    arm_application *next;
    /* By name and what else defines them: of arm_transaction. */
    HashTable transactions;
};

/* A name of a transaction, with the names of what can be told of it. */
struct arm_transaction {
    zend_long number;
    arm_id_t id;
    arm_application *application;
    uint32_t context_count;
    uint32_t metric_count;
    zend_string *context_names[ARM_PROPERTY_MAX_COUNT];
    zend_string *metric_names[ARM_METRIC_MAX_COUNT];
    uint8_t metric_formats[ARM_METRIC_MAX_COUNT];
};

/* What runs: an entry of the request's stack. */
typedef struct {
    /* What the page knows it by; 0 = it has been stopped, and waits for those above it. */
    zend_long number;
    arm_tran_start_handle_t handle;
    /* The parent of what begins while it runs. */
    arm_correlator_t correlator;
    /* What begins while it runs is no child of it. */
    bool is_apart;
} arm_running;

ZEND_BEGIN_MODULE_GLOBALS(arm)
    /* Settings */
    bool automatic;
    bool require_server;
    bool traceparent;
    bool statements;
    bool propagate;
    char *application;

    /* Of the process, or the thread */
    HashTable applications;
    arm_application **application_list;
    zend_long application_count;
    arm_transaction **transaction_list;
    zend_long transaction_count;
    /* Of automatic.c: the transactions of an application that was its last. */
    arm_application *automatic_of;
    arm_transaction **automatic_list;
    arm_running *stack;
    uint32_t room;

    /* Of the request */
    uint32_t depth;
    zend_long begun;
    zend_long error;
    bool is_asked;
    bool is_on;
    bool has_parent;
    char *server_application;
    /* The application that the server, or the setting, names; found when it is first asked for. */
    arm_application *own_application;
    arm_correlator_t parent;
    /* Of outgoing.c: by curl's handle, what headers the page has set, whether it has ours, and the number of what runs. */
    HashTable *curl_headers;
    HashTable *curl_given;
    HashTable *curl_running;
    bool sets_headers;
ZEND_END_MODULE_GLOBALS(arm)

ZEND_EXTERN_MODULE_GLOBALS(arm)
#define ARM_G(v) ZEND_MODULE_GLOBALS_ACCESSOR(arm, v)

#if defined(ZTS) && defined(COMPILE_DL_ARM)
ZEND_TSRMLS_CACHE_EXTERN()
#endif

extern zend_module_entry arm_module_entry;

/* extension.c */
struct arm4_dl;
/* The library's functions; NULL = it is missing, and nothing is ever recorded. */
extern const struct arm4_dl *php_arm_library;

/* registry.c */
void php_arm_registry_open(zend_arm_globals *globals);
void php_arm_registry_close(zend_arm_globals *globals);
void php_arm_watch_forks(void);
/* NULL = there is no room for another, or no name. */
arm_application *php_arm_application(zend_string *name, zend_string *user);
arm_application *php_arm_application_numbered(zend_long number);
/* How a transaction is told apart from others of its application, and what can be told of it. */
typedef struct {
    zend_string *name;
    zend_string *detail;
    /* Names, or NULL. */
    HashTable *context;
    /* Names with their formats, or NULL. */
    HashTable *metrics;
} arm_definition;
arm_transaction *php_arm_transaction(arm_application *application, const arm_definition *definition);
arm_transaction *php_arm_transaction_numbered(zend_long number);
/* The handle that a transaction is started with, in this process. */
arm_app_start_handle_t php_arm_handle(arm_application *application);

/* server.c */
/* Whether anything is recorded in this request. */
bool php_arm_is_on(void);
/* The application that the server, or the setting, names; NULL = there is no room for another name. */
arm_application *php_arm_own_application(void);
void php_arm_forget_server(void);

/* running.c */
/* What a start, an update or a stop tells; NULL = nothing of it. */
typedef struct {
    const char *user;
    const char *uri;
    HashTable *context;
    const char *const *context_values;
    HashTable *metrics;
    const char *diagnosis;
} arm_told;
/* The parent of a transaction: NULL = what runs around it. Correlator, or text. */
typedef struct {
    bool is_root;
    const arm_correlator_t *correlator;
} arm_parent;
/* The number of what was started; 0 = it is not recorded; less = why it is not. */
zend_long php_arm_start(arm_transaction *what, const arm_parent *parent, const arm_told *told);
zend_long php_arm_stop(zend_long number, zend_long status, const arm_transaction *what, const arm_told *told);
zend_long php_arm_update(zend_long number, const arm_transaction *what, const arm_told *told);
zend_long php_arm_discard(zend_long number);
/* It waits for something outside, or no longer; false = it is not recorded. */
bool php_arm_block(zend_long number, arm_tran_block_handle_t *block);
void php_arm_unblock(zend_long number, arm_tran_block_handle_t block);
/* What runs by this number; NULL = nothing does. Valid until the next start. */
arm_running *php_arm_find(zend_long number);
/* The correlator of what runs innermost, else the server's; NULL = there is none. */
const arm_correlator_t *php_arm_innermost(void);
/* Stops all that runs as aborted. */
void php_arm_stop_all(void);
/* false = it is neither a traceparent nor hex. */
bool php_arm_correlator_of(const zend_string *text, arm_correlator_t *correlator);
/* As the header traceparent, or hex where the correlator is not of this format; NULL = it is none. */
zend_string *php_arm_text_of(const arm_correlator_t *correlator);
/* Notes an error of this request, and gives it. */
zend_long php_arm_fails(zend_long error);

/* functions.c, objects.c */
extern const zend_function_entry php_arm_functions[];
void php_arm_register_constants(int module_number);
void php_arm_register_classes(void);

/* shapes.c */
/* A value of a context in bytes, with its NUL. */
#define PHP_ARM_SHAPE_BYTES 256
/* A statement without its literals: ? in place of each text and number, and no comments. */
void php_arm_shape_of_statement(const char *text, size_t bytes, char *shape);
/* An address without user, password, query and fragment. */
void php_arm_shape_of_address(const char *text, char *shape);

/* automatic.c, targets.c */
typedef enum { TELLS_NOTHING, TELLS_ARGUMENT, TELLS_SECOND, TELLS_PROPERTY, TELLS_CURL } arm_telling;
/* A function of another extension whose calls are transactions. */
typedef struct {
    const char *class_name;
    const char *function;
    /* The transaction's name. */
    const char *name;
    arm_telling telling;
} arm_target;
extern const arm_target php_arm_targets[];
extern const size_t php_arm_target_count;
void php_arm_time_calls(void);
void php_arm_time_no_calls(void);
/* What curl sends side by side with others; NULL = there is no room for its name. */
arm_transaction *php_arm_transaction_of_multi(void);

/* outgoing.c */
/* Notes what headers pages set, and times what curl sends side by side. */
void php_arm_watch_curl(void);
void php_arm_forget_curl(void);
/* Gives a handle's next request the header of what runs by this number, or none. */
void php_arm_give_curl(zval *handle, zend_long number);
/* Stops what a handle's request was, with all that curl says of it. */
void php_arm_end_curl(zend_long number, zval *handle, zend_long status);
/* A context of http whose headers have one line more. */
typedef struct {
    php_stream_context *context, *made;
    zval before;
    bool had_options;
} arm_given;
void php_arm_give_http(arm_given *given, php_stream_context **context, zend_long number);
void php_arm_take_http(arm_given *given);

#endif
