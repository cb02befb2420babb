/* An extension that says which one it is; what it does at its end stands in a file. */
#include <httpext.h>
#include <stdio.h>
#include <string.h>

BOOL WINAPI GetExtensionVersion(HSE_VERSION_INFO *version)
{
    version->dwExtensionVersion = HSE_VERSION;
#ifdef REFUSES
    return FALSE;
#else
    return TRUE;
#endif
}

#ifndef INCOMPLETE
DWORD WINAPI HttpExtensionProc(EXTENSION_CONTROL_BLOCK *block)
{
    DWORD bytes = (DWORD) strlen(WORDS);
    block->WriteClient(block->ConnID, WORDS, &bytes, 0);
    return HSE_STATUS_SUCCESS;
}
#endif

BOOL WINAPI TerminateExtension(DWORD flags)
{
    fprintf(stderr, "ended %s %u\n", WORDS, flags);
    return TRUE;
}
