/*
 * What has a name: applications and transactions, registered once in a process (with threads: once in a thread) and found
 * again by every later request.
 *
 * What stands here is of malloc, as it outlives requests, and is copied from what pages hand in.
 */

#include "php_arm.h"
#include "arm4_dl.h"
#include "Zend/zend_smart_str.h"
#include <pthread.h>
#include <pwd.h>
#include <unistd.h>

/* How often this process's line has forked since the extension was loaded. */
static volatile unsigned forks;

static void count_fork(void)
{
    forks++;
}

/*
 * Handles are their process's. A process number would be a system call at each start; this costs what a fork costs.
 * When the extension is unloaded, the C library forgets it.
 */
void php_arm_watch_forks(void)
{
    pthread_atfork(NULL, NULL, count_fork);
}

static void free_transaction(zval *entry)
{
    arm_transaction *transaction = Z_PTR_P(entry);
    for (uint32_t index = 0; index < transaction->context_count; index++) {
        zend_string_release_ex(transaction->context_names[index], 1);
    }
    for (uint32_t index = 0; index < transaction->metric_count; index++) {
        zend_string_release_ex(transaction->metric_names[index], 1);
    }
    pefree(transaction, 1);
}

static void free_application(zval *entry)
{
    arm_application *next = Z_PTR_P(entry);
    while (next) {
        arm_application *application = next;
        next = application->next;
        zend_hash_destroy(&application->transactions);
        zend_string_release_ex(application->name, 1);
        if (application->user) {
            zend_string_release_ex(application->user, 1);
        }
        pefree(application, 1);
    }
}

void php_arm_registry_open(zend_arm_globals *globals)
{
    zend_hash_init(&globals->applications, 8, NULL, free_application, 1);
}

void php_arm_registry_close(zend_arm_globals *globals)
{
    zend_hash_destroy(&globals->applications);
    free(globals->application_list);
    free(globals->transaction_list);
    free(globals->stack);
    free(globals->automatic_list);
}

/* A list's place for one more; NULL = there is no room. */
static void **place(void ***list, zend_long count)
{
    /* A list grows when its count is a power of two. */
    if (count >= ARM_MOST_NAMES) {
        return NULL;
    }
    if ((count & (count - 1)) == 0) {
        void **grown = realloc(*list, sizeof(void *) * (count ? 2 * count : 1));
        if (!grown) {
            return NULL;
        }
        *list = grown;
    }
    return &(*list)[count];
}

/* The name of the user as it is recorded; "*" stands for the user that runs the process. NULL = none. */
static zend_string *told_user(const zend_string *user, bool is_login)
{
    char room[1024];
    struct passwd entry, *found = NULL;
    if (!user) {
        return NULL;
    }
    if (!is_login) {
        return zend_string_init(ZSTR_VAL(user), ZSTR_LEN(user), 1);
    }
    if (getpwuid_r(geteuid(), &entry, room, sizeof(room), &found) != 0 || !found) {
        return NULL;
    }
    return zend_string_init(found->pw_name, strlen(found->pw_name), 1);
}

static bool is_for(const arm_application *application, const zend_string *user, bool is_login)
{
    if (application->is_login != is_login) {
        return false;
    }
    return is_login || !user ? is_login || !application->user
                             : application->user && zend_string_equals(application->user, user);
}

arm_application *php_arm_application(zend_string *name, zend_string *user)
{
    arm_application *first = zend_hash_find_ptr(&ARM_G(applications), name), *found;
    bool is_login = user && zend_string_equals_literal(user, "*");
    if (user && !ZSTR_LEN(user)) {
        user = NULL;
    }
    for (found = first; found; found = found->next) {
        if (is_for(found, user, is_login)) {
            found->is_ended = false;
            return found;
        }
    }
    arm_application **slot =
        ZSTR_LEN(name) ? (arm_application **) place((void ***) &ARM_G(application_list), ARM_G(application_count)) : NULL;
    if (!slot) {
        return NULL;
    }
    found = pecalloc(1, sizeof(*found), 1);
    found->name = zend_string_init(ZSTR_VAL(name), ZSTR_LEN(name), 1);
    found->user = told_user(user, is_login);
    found->is_login = is_login;
    found->forks = forks - 1;
    zend_hash_init(&found->transactions, 8, NULL, free_transaction, 1);
    if (php_arm_library) {
        php_arm_library->register_application(ZSTR_VAL(name), ARM_ID_NONE, ARM_FLAG_NONE, ARM_BUF4_NONE, &found->id);
    }
    if (first) {
        found->next = first->next;
        first->next = found;
    } else {
        zend_hash_add_new_ptr(&ARM_G(applications), found->name, found);
    }
    *slot = found;
    found->number = ++ARM_G(application_count);
    return found;
}

arm_application *php_arm_application_numbered(zend_long number)
{
    return number > 0 && number <= ARM_G(application_count) ? ARM_G(application_list)[number - 1] : NULL;
}

arm_app_start_handle_t php_arm_handle(arm_application *application)
{
    unsigned process = forks;
    if (UNEXPECTED(application->forks != process)) {
        php_arm_library->start_application(&application->id, ARM_STRING_NONE, ARM_STRING_NONE, ARM_FLAG_NONE,
                                           ARM_BUF4_NONE, &application->handle);
        application->forks = process;
    }
    return application->handle;
}

/* The name, and behind it all names of what can be told; the name itself where there are none. */
static zend_string *key_of(const arm_definition *definition)
{
    HashTable *const tables[] = { definition->context, definition->metrics };
    smart_str key = { NULL, 0 };
    if ((!definition->context || !zend_hash_num_elements(definition->context))
        && (!definition->metrics || !zend_hash_num_elements(definition->metrics))) {
        return zend_string_copy(definition->name);
    }
    smart_str_append(&key, definition->name);
    for (size_t table = 0; table < 2; table++) {
        zend_string *name;
        zval *entry;
        smart_str_appendc(&key, '\1');
        if (!tables[table]) {
            continue;
        }
        ZEND_HASH_FOREACH_STR_KEY_VAL(tables[table], name, entry) {
            smart_str_appendc(&key, '\2');
            if (name) {
                smart_str_append(&key, name);
            }
            if (Z_TYPE_P(entry) == IS_STRING) {
                smart_str_append(&key, Z_STR_P(entry));
            } else {
                smart_str_append_long(&key, zval_get_long(entry));
            }
        } ZEND_HASH_FOREACH_END();
    }
    smart_str_0(&key);
    return key.s;
}

/* Notes the names that a transaction has, as far as the standard has room for them. */
static void note_names(arm_transaction *transaction, const arm_definition *definition)
{
    zend_string *name;
    zval *entry;
    if (definition->context) {
        ZEND_HASH_FOREACH_VAL(definition->context, entry) {
            if (Z_TYPE_P(entry) == IS_STRING && Z_STRLEN_P(entry)
                && transaction->context_count < ARM_PROPERTY_MAX_COUNT) {
                transaction->context_names[transaction->context_count++] =
                    zend_string_init(Z_STRVAL_P(entry), Z_STRLEN_P(entry), 1);
            }
        } ZEND_HASH_FOREACH_END();
    }
    if (definition->metrics) {
        ZEND_HASH_FOREACH_STR_KEY_VAL(definition->metrics, name, entry) {
            zend_long format = zval_get_long(entry);
            /* A text stands in the last slot only. */
            uint32_t slot = transaction->metric_count;
            if (!name || !ZSTR_LEN(name) || slot > ARM_METRIC_MAX_ARRAY_INDEX) {
                continue;
            }
            transaction->metric_formats[slot] = (uint8_t) format;
            transaction->metric_names[slot] = zend_string_init(ZSTR_VAL(name), ZSTR_LEN(name), 1);
            transaction->metric_count++;
        } ZEND_HASH_FOREACH_END();
    }
}

/* Tells the library of it. */
static void define(arm_transaction *transaction, const arm_definition *definition)
{
    const arm_char_t *names[ARM_PROPERTY_MAX_COUNT];
    arm_property_t detail = { "detail", definition->detail ? ZSTR_VAL(definition->detail) : NULL };
    arm_metric_binding_t bindings[ARM_METRIC_MAX_COUNT];
    arm_subbuffer_tran_identity_t identity = { { ARM_SUBBUFFER_TRAN_IDENTITY }, 0, &detail, 0, names, NULL };
    arm_subbuffer_metric_bindings_t bound = { { ARM_SUBBUFFER_METRIC_BINDINGS }, 0, bindings };
    arm_subbuffer_t *told[] = { ARM_SB(identity), ARM_SB(bound) };
    arm_buffer4_t buffer = { 2, told };
    identity.identity_property_count = definition->detail && ZSTR_LEN(definition->detail);
    identity.context_name_count = transaction->context_count;
    for (uint32_t index = 0; index < transaction->context_count; index++) {
        names[index] = ZSTR_VAL(transaction->context_names[index]);
    }
    for (uint32_t index = 0; index < transaction->metric_count; index++) {
        arm_metric_format_t format = transaction->metric_formats[index];
        /* A text has the last slot, at any place in the list. */
        bindings[index].slot = format == ARM_METRIC_FORMAT_STRING32 ? ARM_METRIC_MAX_ARRAY_INDEX : index;
        php_arm_library->register_metric(&transaction->application->id, ZSTR_VAL(transaction->metric_names[index]),
                                         format, ARM_METRIC_USE_GENERAL, ARM_STRING_NONE, ARM_ID_NONE, ARM_FLAG_NONE,
                                         ARM_BUF4_NONE, &bindings[index].id);
    }
    bound.count = transaction->metric_count;
    php_arm_library->register_transaction(&transaction->application->id, ZSTR_VAL(definition->name), ARM_ID_NONE,
                                          ARM_FLAG_NONE, &buffer, &transaction->id);
}

arm_transaction *php_arm_transaction(arm_application *application, const arm_definition *definition)
{
    zend_string *key = key_of(definition);
    arm_transaction *found = zend_hash_find_ptr(&application->transactions, key);
    if (!found && ZSTR_LEN(definition->name)) {
        arm_transaction **slot =
            (arm_transaction **) place((void ***) &ARM_G(transaction_list), ARM_G(transaction_count));
        if (slot) {
            zend_string *kept = zend_string_init(ZSTR_VAL(key), ZSTR_LEN(key), 1);
            found = pecalloc(1, sizeof(*found), 1);
            found->application = application;
            note_names(found, definition);
            if (php_arm_library) {
                define(found, definition);
            }
            zend_hash_add_new_ptr(&application->transactions, kept, found);
            zend_string_release_ex(kept, 1);
            *slot = found;
            found->number = ++ARM_G(transaction_count);
        }
    }
    zend_string_release(key);
    return found;
}

arm_transaction *php_arm_transaction_numbered(zend_long number)
{
    return number > 0 && number <= ARM_G(transaction_count) ? ARM_G(transaction_list)[number - 1] : NULL;
}
