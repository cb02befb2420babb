/*
 * httpext.h - the C interface of ISAPI extensions, for weir on Linux.
 *
 * An extension is a shared library with two functions, and a third one if it has something to give back:
 *
 *     BOOL  WINAPI GetExtensionVersion(HSE_VERSION_INFO *version);    once, when it is loaded; FALSE: not to be used
 *     DWORD WINAPI HttpExtensionProc(EXTENSION_CONTROL_BLOCK *block); for each request
 *     BOOL  WINAPI TerminateExtension(DWORD flags);                   before it is unloaded; optional
 *
 *     cc -shared -fPIC -I/usr/local/include/weir/isapi -o hello.so hello.c
 *
 * Structures, names and numbers are those of the interface's version 6.0, and the types have the widths that they have
 * elsewhere, so that sources can be moved; no other header of that world is needed. What differs on Linux:
 *
 *   - WINAPI is empty: there is one calling convention.
 *   - GetLastError() reads errno, and SetLastError() sets it, for each thread by itself. Ask before the next call to a
 *     function that sets errno.
 *   - A HANDLE of a file is a file descriptor: HSE_HANDLE_OF_FD(fd).
 *   - A process runs one request at a time. Threads of an extension may go on with a request for which
 *     HttpExtensionProc returned HSE_STATUS_PENDING, until one says HSE_REQ_DONE_WITH_SESSION.
 *   - Asynchronous reads and writes are carried out within the call; their callback is called by another thread, one
 *     callback after the other.
 *   - Texts are bytes, in UTF-8 where the client sends it: there are no UNICODE_ variables.
 *   - What is printed to stdout goes to the server's log, not to the client.
 *   - Other functions of ServerSupportFunction than those below return FALSE with ERROR_INVALID_PARAMETER, and the log
 *     names them.
 */
#ifndef WEIR_HTTPEXT_H
#define WEIR_HTTPEXT_H

#include <errno.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Types and words of the interface's first home ---- */

typedef int BOOL;
typedef char CHAR;
typedef unsigned char BYTE;
typedef uint16_t WORD;
typedef uint32_t DWORD;
typedef uint32_t UINT;
typedef uint64_t ULONGLONG;
typedef void *LPVOID;
typedef void *PVOID;
typedef void *HANDLE;
typedef char *LPSTR;
typedef const char *LPCSTR;
typedef BYTE *LPBYTE;
typedef DWORD *LPDWORD;
typedef BOOL *LPBOOL;

#ifndef VOID
#define VOID void
#endif
#ifndef TRUE
#define TRUE 1
#define FALSE 0
#endif
#define WINAPI
#define APIENTRY
#define CALLBACK
#ifndef IN
#define IN
#define OUT
#endif
#ifndef MAX_PATH
#define MAX_PATH 260
#endif

#define MAKELONG(low, high) ((DWORD) (((DWORD) (WORD) (high) << 16) | (WORD) (low)))
#define LOWORD(number) ((WORD) ((DWORD) (number) & 0xffff))
#define HIWORD(number) ((WORD) ((DWORD) (number) >> 16))

/* The HANDLE of an open file. */
#define HSE_HANDLE_OF_FD(fd) ((HANDLE) (intptr_t) (fd))

#define ERROR_SUCCESS 0
#define ERROR_INVALID_HANDLE 6
#define ERROR_NOT_ENOUGH_MEMORY 8
#define ERROR_READ_FAULT 30
#define ERROR_HANDLE_EOF 38
#define ERROR_NETNAME_DELETED 64 /* the client is gone, or the response was ended */
#define ERROR_INVALID_PARAMETER 87
#define ERROR_INSUFFICIENT_BUFFER 122
#define ERROR_INVALID_INDEX 1413 /* no such variable */

static inline DWORD GetLastError(void) { return (DWORD) errno; }
static inline void SetLastError(DWORD error) { errno = (int) error; }

/* ---- Version ---- */

#define HSE_VERSION_MAJOR 6
#define HSE_VERSION_MINOR 0
#define HSE_VERSION MAKELONG(HSE_VERSION_MINOR, HSE_VERSION_MAJOR)

#define HSE_LOG_BUFFER_LEN 80
#define HSE_MAX_EXT_DLL_NAME_LEN 256

typedef struct _HSE_VERSION_INFO {
    DWORD dwExtensionVersion;                   /* HSE_VERSION */
    CHAR lpszExtensionDesc[HSE_MAX_EXT_DLL_NAME_LEN];
} HSE_VERSION_INFO, *LPHSE_VERSION_INFO;

/* ---- A request ---- */

/* What names a request in the functions of its control block. */
typedef LPVOID HCONN;

/* What HttpExtensionProc returns. */
#define HSE_STATUS_SUCCESS 1
#define HSE_STATUS_SUCCESS_AND_KEEP_CONN 2      /* the same: the server decides about connections */
#define HSE_STATUS_PENDING 3                    /* a thread goes on, up to HSE_REQ_DONE_WITH_SESSION */
#define HSE_STATUS_ERROR 4                      /* status 500, unless a response was begun */

typedef struct _EXTENSION_CONTROL_BLOCK {
    DWORD cbSize;
    DWORD dwVersion;                            /* 6.0 */
    HCONN ConnID;
    DWORD dwHttpStatusCode;                     /* to be set: status of a response without a head; 200 at first */
    CHAR lpszLogData[HSE_LOG_BUFFER_LEN];       /* to be set: a text for the log */
    LPSTR lpszMethod;                           /* CGI's REQUEST_METHOD; an empty text stands for what is missing */
    LPSTR lpszQueryString;                      /* QUERY_STRING */
    LPSTR lpszPathInfo;                         /* PATH_INFO */
    LPSTR lpszPathTranslated;                   /* PATH_TRANSLATED */
    DWORD cbTotalBytes;                         /* CONTENT_LENGTH; 0xffffffff: that or more */
    DWORD cbAvailable;                          /* bytes of lpbData: the whole body, or the first 48 KiB */
    LPBYTE lpbData;
    LPSTR lpszContentType;                      /* CONTENT_TYPE */

    /* A variable of CGI or of IIS, HTTP_name of a field, ALL_HTTP, ALL_RAW. *size is that of the buffer, then that of
     * the value with its zero byte, also if it is too large for the buffer (ERROR_INSUFFICIENT_BUFFER). */
    BOOL (WINAPI *GetServerVariable)(HCONN ConnID, LPCSTR lpszVariableName, LPVOID lpvBuffer, LPDWORD lpdwSize);

    /* Bytes of the response. dwFlags: HSE_IO_SYNC or HSE_IO_ASYNC. */
    BOOL (WINAPI *WriteClient)(HCONN ConnID, const void *Buffer, LPDWORD lpdwBytes, DWORD dwFlags);

    /* The next bytes of the body behind lpbData: as many as have arrived, at least one, none at the end. */
    BOOL (WINAPI *ReadClient)(HCONN ConnID, LPVOID lpvBuffer, LPDWORD lpdwSize);

    /* One of the functions below. */
    BOOL (WINAPI *ServerSupportFunction)(
        HCONN ConnID, DWORD dwHSERequest, LPVOID lpvBuffer, LPDWORD lpdwSize, LPDWORD lpdwDataType);
} EXTENSION_CONTROL_BLOCK, *LPEXTENSION_CONTROL_BLOCK;

/* ---- ServerSupportFunction ---- */

#define HSE_REQ_BASE 0
#define HSE_REQ_SEND_URL_REDIRECT_RESP (HSE_REQ_BASE + 1) /* buffer: a URL; status 302 */
#define HSE_REQ_SEND_URL (HSE_REQ_BASE + 2)               /* buffer: a path, which the server answers itself */
#define HSE_REQ_SEND_RESPONSE_HEADER (HSE_REQ_BASE + 3)   /* buffer: status or NULL; type: fields, empty line, body */
#define HSE_REQ_DONE_WITH_SESSION (HSE_REQ_BASE + 4)      /* buffer: DWORD of HSE_STATUS_, or NULL */
#define HSE_REQ_END_RESERVED 1000
#define HSE_REQ_MAP_URL_TO_PATH (HSE_REQ_END_RESERVED + 1)   /* buffer, size: a URL's path, then that of the file */
#define HSE_APPEND_LOG_PARAMETER (HSE_REQ_END_RESERVED + 3)  /* buffer: a text for the log */
#define HSE_REQ_IO_COMPLETION (HSE_REQ_END_RESERVED + 5)     /* buffer: the callback; type: its context */
#define HSE_REQ_TRANSMIT_FILE (HSE_REQ_END_RESERVED + 6)     /* buffer: HSE_TF_INFO */
#define HSE_REQ_IS_KEEP_CONN (HSE_REQ_END_RESERVED + 8)      /* buffer: BOOL */
#define HSE_REQ_ASYNC_READ_CLIENT (HSE_REQ_END_RESERVED + 10) /* buffer, size: as ReadClient, with a callback */
#define HSE_REQ_MAP_URL_TO_PATH_EX (HSE_REQ_END_RESERVED + 12) /* buffer: a URL's path; type: HSE_URL_MAPEX_INFO */
#define HSE_REQ_SEND_RESPONSE_HEADER_EX (HSE_REQ_END_RESERVED + 16) /* buffer: HSE_SEND_HEADER_EX_INFO */
#define HSE_REQ_IS_CONNECTED (HSE_REQ_END_RESERVED + 18)     /* buffer: BOOL */
#define HSE_REQ_VECTOR_SEND (HSE_REQ_END_RESERVED + 37)      /* buffer: HSE_RESPONSE_VECTOR */

/* Flags of WriteClient, HSE_TF_INFO and HSE_RESPONSE_VECTOR; others have no effect. */
#define HSE_IO_SYNC 0x00000001
#define HSE_IO_ASYNC 0x00000002                 /* call the callback */
#define HSE_IO_DISCONNECT_AFTER_SEND 0x00000004 /* the response ends with this (not of WriteClient) */
#define HSE_IO_SEND_HEADERS 0x00000008          /* begin with a head */
#define HSE_IO_FINAL_SEND 0x00000010            /* as HSE_IO_DISCONNECT_AFTER_SEND */

/* Called when a read or write is over: bytes read or written, and 0. */
typedef VOID (WINAPI *PFN_HSE_IO_COMPLETION)(
    EXTENSION_CONTROL_BLOCK *pECB, PVOID pContext, DWORD cbIO, DWORD dwError);

typedef struct _HSE_SEND_HEADER_EX_INFO {
    LPCSTR pszStatus;                           /* such as "200 OK" */
    LPCSTR pszHeader;                           /* fields with an empty line; the body may follow */
    DWORD cchStatus;                            /* their bytes; 0: they end with a zero byte */
    DWORD cchHeader;
    BOOL fKeepConn;                             /* without effect */
} HSE_SEND_HEADER_EX_INFO, *LPHSE_SEND_HEADER_EX_INFO;

typedef struct _HSE_TF_INFO {
    PFN_HSE_IO_COMPLETION pfnHseIO;             /* NULL: that of HSE_REQ_IO_COMPLETION */
    PVOID pContext;
    HANDLE hFile;                               /* HSE_HANDLE_OF_FD(fd); NULL: no file */
    LPCSTR pszStatusCode;                       /* with HSE_IO_SEND_HEADERS; pHead has the fields then */
    DWORD BytesToWrite;                         /* 0: up to the end of the file */
    DWORD Offset;
    PVOID pHead;                                /* sent before the file */
    DWORD HeadLength;
    PVOID pTail;                                /* sent behind it */
    DWORD TailLength;
    DWORD dwFlags;
} HSE_TF_INFO, *LPHSE_TF_INFO;

#define HSE_URL_FLAGS_READ 0x00000001

typedef struct _HSE_URL_MAPEX_INFO {
    CHAR lpszPath[MAX_PATH];                    /* cut, with ERROR_INSUFFICIENT_BUFFER, if it is too long */
    DWORD dwFlags;                              /* HSE_URL_FLAGS_READ */
    DWORD cchMatchingPath;                      /* bytes of the path, and of the URL */
    DWORD cchMatchingURL;
    DWORD dwReserved1;
    DWORD dwReserved2;
} HSE_URL_MAPEX_INFO, *LPHSE_URL_MAPEX_INFO;

#define HSE_VECTOR_ELEMENT_TYPE_MEMORY_BUFFER 0
#define HSE_VECTOR_ELEMENT_TYPE_FILE_HANDLE 1

typedef struct _HSE_VECTOR_ELEMENT {
    DWORD ElementType;
    PVOID pvContext;                            /* the memory, or HSE_HANDLE_OF_FD(fd) */
    ULONGLONG cbOffset;                         /* in the file */
    ULONGLONG cbSize;                           /* 0 of a file: up to its end */
} HSE_VECTOR_ELEMENT, *LPHSE_VECTOR_ELEMENT;

typedef struct _HSE_RESPONSE_VECTOR {
    DWORD dwFlags;
    LPSTR pszStatus;                            /* with HSE_IO_SEND_HEADERS */
    LPSTR pszHeaders;
    DWORD nElementCount;                        /* up to 1024 */
    LPHSE_VECTOR_ELEMENT lpElementArray;
} HSE_RESPONSE_VECTOR, *LPHSE_RESPONSE_VECTOR;

/* ---- What an extension defines ---- */

#define HSE_TERM_ADVISORY_UNLOAD 0x00000001
#define HSE_TERM_MUST_UNLOAD 0x00000002         /* always set here */

BOOL WINAPI GetExtensionVersion(HSE_VERSION_INFO *pVer);
DWORD WINAPI HttpExtensionProc(EXTENSION_CONTROL_BLOCK *pECB);
BOOL WINAPI TerminateExtension(DWORD dwFlags);

typedef BOOL (WINAPI *PFN_GETEXTENSIONVERSION)(HSE_VERSION_INFO *pVer);
typedef DWORD (WINAPI *PFN_HTTPEXTENSIONPROC)(EXTENSION_CONTROL_BLOCK *pECB);
typedef BOOL (WINAPI *PFN_TERMINATEEXTENSION)(DWORD dwFlags);

#ifdef __cplusplus
}
#endif

#endif
