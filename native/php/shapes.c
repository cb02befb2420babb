/*
 * What may be told of statements and addresses: their shape, without what users wrote into them.
 */

#include "php_arm.h"
#include <ctype.h>

/* Appends a character, and says whether there is room for more. */
static bool append(char *shape, size_t *length, char character)
{
    if (*length + 1 >= PHP_ARM_SHAPE_BYTES) {
        return false;
    }
    shape[(*length)++] = character;
    return true;
}

static bool is_name(char character)
{
    return isalnum((unsigned char) character) || character == '_' || (unsigned char) character >= 0x80;
}

/* Behind a quoted text. NULL = it holds a backslash: whether that hides its end depends on the database. */
static const char *behind_quoted(const char *at, const char *end)
{
    char quote = *at++;
    for (; at < end; at++) {
        if (*at == '\\') {
            return NULL;
        }
        if (*at == quote) {
            if (at + 1 < end && at[1] == quote) {
                at++;
                continue;
            }
            return at + 1;
        }
    }
    return end;
}

/* Behind what PostgreSQL writes between $tag$ and $tag$; the same place = it is none. */
static const char *behind_dollars(const char *at, const char *end)
{
    const char *tag = at + 1;
    while (tag < end && is_name(*tag)) {
        tag++;
    }
    if (tag >= end || *tag != '$' || isdigit((unsigned char) at[1])) {
        return at;
    }
    size_t length = (size_t) (tag + 1 - at);
    const char *close = memmem(tag + 1, (size_t) (end - tag - 1), at, length);
    return close ? close + length : end;
}

/* Behind a comment; the same place = it is none. */
static const char *behind_comment(const char *at, const char *end)
{
    if (end - at >= 2 && ((at[0] == '-' && at[1] == '-'))) {
        const char *line = memchr(at, '\n', (size_t) (end - at));
        return line ? line + 1 : end;
    }
    if (end - at >= 2 && at[0] == '/' && at[1] == '*') {
        const char *close = memmem(at + 2, (size_t) (end - at - 2), "*/", 2);
        return close ? close + 2 : end;
    }
    return at;
}

void php_arm_shape_of_statement(const char *text, size_t bytes, char *shape)
{
    const char *at = text, *end = text + bytes, *behind;
    size_t length = 0;
    bool has_room = true;
    while (at < end && has_room) {
        char before = length ? shape[length - 1] : ' ';
        if (isspace((unsigned char) *at) || (behind = behind_comment(at, end)) != at) {
            at = isspace((unsigned char) *at) ? at + 1 : behind;
            has_room = before == ' ' || append(shape, &length, ' ');
        } else if (*at == '\'' || *at == '"') {
            at = behind_quoted(at, end);
            has_room = append(shape, &length, '?');
            if (!at) {
                for (int dot = 0; dot < 3 && append(shape, &length, '.'); dot++) {
                }
                break;
            }
        } else if (*at == '$' && (behind = behind_dollars(at, end)) != at) {
            at = behind;
            has_room = append(shape, &length, '?');
        } else if (isdigit((unsigned char) *at) && !is_name(before) && before != '$' && before != ':') {
            while (at < end && (is_name(*at) || *at == '.')) {
                at++;
            }
            has_room = append(shape, &length, '?');
        } else {
            has_room = append(shape, &length, *at++);
        }
    }
    while (length && (shape[length - 1] == ' ' || (!has_room && (unsigned char) shape[length - 1] >= 0x80))) {
        length--;
    }
    shape[length] = 0;
}

void php_arm_shape_of_address(const char *text, char *shape)
{
    const char *host = strstr(text, "://");
    size_t length = 0;
    if (!host) {
        shape[0] = 0;
        return;
    }
    host += 3;
    size_t authority = strcspn(host, "/?#");
    for (const char *at = text; at < host && append(shape, &length, *at); at++) {
    }
    /* What stands before the last @ is for the server alone. */
    for (size_t at = authority; at > 0; at--) {
        if (host[at - 1] == '@') {
            host += at;
            break;
        }
    }
    for (size_t at = 0, count = strcspn(host, "?#"); at < count && append(shape, &length, host[at]); at++) {
    }
    shape[length] = 0;
}
