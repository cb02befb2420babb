/*
 * hello.c - an ISAPI extension: greets, shows what it knows of the request, and sends a body back.
 *
 *     cc -shared -fPIC -I/usr/local/include/weir/isapi -o hello.so hello.c
 */
#include <httpext.h>
#include <stdio.h>
#include <string.h>

BOOL WINAPI GetExtensionVersion(HSE_VERSION_INFO *version)
{
    version->dwExtensionVersion = HSE_VERSION;
    snprintf(version->lpszExtensionDesc, sizeof version->lpszExtensionDesc, "Greets, and sends bodies back");
    return TRUE;
}

BOOL WINAPI TerminateExtension(DWORD flags)
{
    (void) flags;
    return TRUE;
}

/* Writes a text to the client. */
static BOOL put(EXTENSION_CONTROL_BLOCK *block, const char *text)
{
    DWORD bytes = (DWORD) strlen(text);
    return block->WriteClient(block->ConnID, text, &bytes, HSE_IO_SYNC);
}

/* Writes a variable with its name; one that is missing or too long, empty. */
static BOOL put_variable(EXTENSION_CONTROL_BLOCK *block, const char *name)
{
    char value[1024];
    DWORD size = sizeof value;
    if (!block->GetServerVariable(block->ConnID, name, value, &size)) {
        value[0] = 0;
    }
    return put(block, name) && put(block, ": ") && put(block, value) && put(block, "\n");
}

/* Sends the body back: first what is there, then the rest piece by piece. */
static BOOL echo(EXTENSION_CONTROL_BLOCK *block)
{
    char piece[16384];
    DWORD bytes = block->cbAvailable;
    DWORD left = block->cbTotalBytes - bytes;
    if (bytes > 0 && !block->WriteClient(block->ConnID, block->lpbData, &bytes, HSE_IO_SYNC)) {
        return FALSE;
    }
    while (left > 0) {
        bytes = sizeof piece;
        if (!block->ReadClient(block->ConnID, piece, &bytes) || bytes == 0) {
            return FALSE;
        }
        left -= bytes;
        if (!block->WriteClient(block->ConnID, piece, &bytes, HSE_IO_SYNC)) {
            return FALSE;
        }
    }
    return TRUE;
}

DWORD WINAPI HttpExtensionProc(EXTENSION_CONTROL_BLOCK *block)
{
    static const char fields[] = "Content-Type: text/plain\r\n\r\n";
    HSE_SEND_HEADER_EX_INFO head = { "200 OK", fields, 0, sizeof fields - 1, TRUE };
    BOOL is_written;

    if (!block->ServerSupportFunction(block->ConnID, HSE_REQ_SEND_RESPONSE_HEADER_EX, &head, NULL, NULL)) {
        return HSE_STATUS_ERROR;
    }
    if (strcmp(block->lpszMethod, "POST") == 0) {
        is_written = echo(block);
    } else {
        is_written = put(block, "Hello from ISAPI\n") && put_variable(block, "REQUEST_METHOD")
            && put_variable(block, "URL") && put_variable(block, "QUERY_STRING") && put_variable(block, "HTTP_HOST");
    }
    return is_written ? HSE_STATUS_SUCCESS : HSE_STATUS_ERROR;
}
