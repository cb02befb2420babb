/*
 * What the web server says of a request.
 *
 * mod_arm puts the request's application and the correlator of its transaction into the environment: that of the
 * request within Apache, parameters of FastCGI, the process's own for CGI. Where it is switched off it says nothing at
 * all, so that it costs nothing: within Apache a word in the process's environment tells that it is there.
 * All of this is asked once in a request, by the first that wants to start something.
 */

#include "php_arm.h"
#include "arm4_dl.h"
#include "SAPI.h"

/* A variable of the request; NULL = it has none of this name. */
static const char *variable(const char *name, size_t length)
{
    /* Without a server, as on the command line, it is the process's. */
    return sapi_module.getenv ? sapi_module.getenv(name, length) : getenv(name);
}

#define VARIABLE(name) variable(name, sizeof(name) - 1)

static bool find_parent(bool is_measured)
{
    const char *text = VARIABLE("ARM_CORRELATOR");
    if (is_measured || text) {
        return text && arm4_correlator_of_hex(text, strlen(text), &ARM_G(parent));
    }
    if (!ARM_G(traceparent)) {
        return false;
    }
    /* A server without ARM passes on what the client sent. */
    text = VARIABLE("HTTP_ARM_CORRELATOR");
    if (text && arm4_correlator_of_hex(text, strlen(text), &ARM_G(parent))) {
        return true;
    }
    text = VARIABLE("HTTP_TRACEPARENT");
    return text && arm4_correlator_of_traceparent(text, &ARM_G(parent));
}

static void ask(void)
{
    const char *application = VARIABLE("ARM_APPLICATION");
    ARM_G(own_application) = NULL;
    ARM_G(is_asked) = true;
    if (application && *application) {
        ARM_G(server_application) = pestrdup(application, 1);
    } else if (getenv("ARM_SERVER") || ARM_G(require_server)) {
        ARM_G(is_on) = false;
        return;
    }
    ARM_G(is_on) = true;
    ARM_G(has_parent) = find_parent(ARM_G(server_application) != NULL);
}

bool php_arm_is_on(void)
{
    if (UNEXPECTED(!ARM_G(is_asked))) {
        if (!php_arm_library) {
            return false;
        }
        ask();
    }
    return ARM_G(is_on);
}

arm_application *php_arm_own_application(void)
{
    if (UNEXPECTED(!ARM_G(own_application))) {
        const char *name = php_arm_is_on() && ARM_G(server_application) ? ARM_G(server_application) : ARM_G(application);
        zend_string *text = name && *name ? zend_string_init(name, strlen(name), 0) : ZSTR_INIT_LITERAL("PHP", 0);
        ARM_G(own_application) = php_arm_application(text, NULL);
        zend_string_release(text);
    }
    return ARM_G(own_application);
}

void php_arm_forget_server(void)
{
    if (ARM_G(server_application)) {
        pefree(ARM_G(server_application), 1);
        ARM_G(server_application) = NULL;
    }
    ARM_G(own_application) = NULL;
    ARM_G(is_asked) = ARM_G(is_on) = ARM_G(has_parent) = false;
    ARM_G(error) = 0;
}
