/* An ISAPI extension. */
#include "answer.h"
#include <httpext.h>

BOOL WINAPI GetExtensionVersion(HSE_VERSION_INFO *version)
{
    version->dwExtensionVersion = HSE_VERSION;
    strcpy(version->lpszExtensionDesc, "the study of the WASD paper");
    return TRUE;
}

DWORD WINAPI HttpExtensionProc(EXTENSION_CONTROL_BLOCK *block)
{
    size_t length;
    const char *body = answer(&length);
    DWORD bytes = (DWORD) length;
    if (!block->ServerSupportFunction(block->ConnID, HSE_REQ_SEND_RESPONSE_HEADER, "200 OK", NULL, (DWORD *) HEAD))
        return HSE_STATUS_ERROR;
    if (bytes > 0 && !block->WriteClient(block->ConnID, (void *) body, &bytes, HSE_IO_SYNC)) return HSE_STATUS_ERROR;
    return HSE_STATUS_SUCCESS;
}
