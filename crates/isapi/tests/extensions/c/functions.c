/* An extension that does what the query string says. */
#include <fcntl.h>
#include <httpext.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef EXTENSION_CONTROL_BLOCK Block;

static void put(Block *block, const char *text)
{
    DWORD bytes = (DWORD) strlen(text);
    block->WriteClient(block->ConnID, text, &bytes, HSE_IO_SYNC);
}

static BOOL ask(Block *block, DWORD function, const void *buffer, DWORD *size, void *data)
{
    return block->ServerSupportFunction(block->ConnID, function, (void *) buffer, size, (DWORD *) data);
}

static void begin(Block *block)
{
    ask(block, HSE_REQ_SEND_RESPONSE_HEADER, "200 OK", NULL, "Content-Type: text/plain\r\n\r\n");
}

static void say(Block *block, const char *name, long number)
{
    char line[200];
    snprintf(line, sizeof line, "%s=%ld\n", name, number);
    put(block, line);
}

/* How GetServerVariable counts, and what it refuses. */
static void variables(Block *block)
{
    char value[64];
    DWORD size = 3;
    begin(block);
    say(block, "small", block->GetServerVariable(block->ConnID, "SERVER_NAME", value, &size));
    say(block, "error", GetLastError());
    say(block, "needed", size);
    value[size - 1] = 'x';
    say(block, "exact", block->GetServerVariable(block->ConnID, "SERVER_NAME", value, &size));
    say(block, "size", size);
    put(block, value);
    size = sizeof value;
    say(block, "\nunknown", block->GetServerVariable(block->ConnID, "HTTP_NOTHING", value, &size));
    say(block, "error", GetLastError());
    say(block, "unicode", block->GetServerVariable(block->ConnID, "UNICODE_URL", value, &size));
    say(block, "error", GetLastError());
    say(block, "null", block->GetServerVariable(block->ConnID, "URL", value, NULL));
    say(block, "error", GetLastError());
    size = sizeof value;
    say(block, "other", block->GetServerVariable(NULL, "URL", value, &size));
    say(block, "error", GetLastError());
    size = sizeof value;
    block->GetServerVariable(block->ConnID, "ALL_RAW", value, &size);
    put(block, value);
}

/* What the control block has. */
static void fields(Block *block)
{
    char line[400];
    begin(block);
    say(block, "size", block->cbSize == sizeof *block);
    say(block, "version", block->dwVersion == MAKELONG(0, 6));
    say(block, "status", block->dwHttpStatusCode);
    say(block, "total", block->cbTotalBytes);
    say(block, "available", block->cbAvailable);
    snprintf(line, sizeof line, "%s|%s|%s|%s|%s\n", block->lpszMethod, block->lpszQueryString, block->lpszPathInfo,
             block->lpszPathTranslated, block->lpszContentType);
    put(block, line);
    put(block, getenv("CGIPLUSEOF") ? "has the sentinel\n" : "no sentinel\n");
    put(block, getcwd(line, sizeof line) ? line : "?");
}

static void map(Block *block, const char *url)
{
    char path[300];
    DWORD size = sizeof path;
    HSE_URL_MAPEX_INFO info;
    BOOL is_mapped;
    begin(block);
    snprintf(path, sizeof path, "%s", url);
    is_mapped = ask(block, HSE_REQ_MAP_URL_TO_PATH, path, &size, NULL);
    say(block, "mapped", is_mapped);
    if (is_mapped) {
        put(block, path);
        say(block, "\nlength", size == strlen(path) + 1);
        say(block, "ex", ask(block, HSE_REQ_MAP_URL_TO_PATH_EX, url, NULL, &info));
        say(block, "same", strcmp(info.lpszPath, path) == 0 && info.cchMatchingPath == strlen(path));
    }
    size = 2;
    snprintf(path, sizeof path, "%s", url);
    say(block, "small", ask(block, HSE_REQ_MAP_URL_TO_PATH, path, &size, NULL));
}

static void *later(void *from)
{
    Block *block = from;
    DWORD status = HSE_STATUS_SUCCESS;
    begin(block);
    put(block, "from a thread");
    ask(block, HSE_REQ_DONE_WITH_SESSION, &status, NULL, NULL);
    return NULL;
}

/* A response by callbacks: each writes a piece, the last one ends the request. */
struct pieces {
    int left;
    pthread_t caller;
    DWORD written;
    char piece[7000];
};

static VOID WINAPI next_piece(Block *block, PVOID context, DWORD bytes, DWORD error)
{
    struct pieces *pieces = context;
    DWORD size = sizeof pieces->piece;
    pieces->written += error == 0 ? bytes : 0;
    if (pieces->left-- > 0) {
        block->WriteClient(block->ConnID, pieces->piece, &size, HSE_IO_ASYNC);
        return;
    }
    say(block, "\nwritten", pieces->written);
    say(block, "elsewhere", !pthread_equal(pieces->caller, pthread_self()));
    free(pieces);
    ask(block, HSE_REQ_DONE_WITH_SESSION, NULL, NULL, NULL);
}

static DWORD write_async(Block *block)
{
    struct pieces *pieces = calloc(1, sizeof *pieces);
    DWORD size = 5;
    pieces->left = 2000;
    pieces->caller = pthread_self();
    memset(pieces->piece, 'p', sizeof pieces->piece);
    begin(block);
    ask(block, HSE_REQ_IO_COMPLETION, (void *) next_piece, NULL, pieces);
    return block->WriteClient(block->ConnID, "first", &size, HSE_IO_ASYNC) ? HSE_STATUS_PENDING : HSE_STATUS_ERROR;
}

/* Counts a body by callbacks. */
static char received[5000];
static unsigned long sum;
static long callbacks;

static void count(const unsigned char *from, DWORD bytes)
{
    while (bytes-- > 0) {
        sum += *from++;
    }
}

static VOID WINAPI next_part(Block *block, PVOID context, DWORD bytes, DWORD error)
{
    DWORD size = sizeof received, flags = HSE_IO_ASYNC;
    (void) context;
    callbacks++;
    count((unsigned char *) received, bytes);
    if (bytes > 0 && error == 0 && ask(block, HSE_REQ_ASYNC_READ_CLIENT, received, &size, &flags)) {
        return;
    }
    begin(block);
    say(block, "sum", (long) sum);
    say(block, "several", callbacks > 2);
    ask(block, HSE_REQ_DONE_WITH_SESSION, NULL, NULL, NULL);
}

static DWORD read_async(Block *block)
{
    DWORD size = sizeof received, flags = HSE_IO_ASYNC;
    sum = 0;
    callbacks = 0;
    count(block->lpbData, block->cbAvailable);
    if (ask(block, HSE_REQ_ASYNC_READ_CLIENT, received, &size, &flags)) {
        return HSE_STATUS_ERROR; /* there is no callback yet */
    }
    ask(block, HSE_REQ_IO_COMPLETION, (void *) next_part, NULL, NULL);
    return ask(block, HSE_REQ_ASYNC_READ_CLIENT, received, &size, &flags) ? HSE_STATUS_PENDING : HSE_STATUS_ERROR;
}

static DWORD transmit(Block *block, const char *path)
{
    int file = open(path, O_RDONLY);
    HSE_TF_INFO info = { 0 };
    DWORD size = 4;
    BOOL is_sent;
    info.hFile = HSE_HANDLE_OF_FD(file);
    info.pszStatusCode = "203 Other";
    info.Offset = 2;
    info.pHead = (void *) "Content-Type: text/x-file\r\n\r\nhead:";
    info.HeadLength = (DWORD) strlen(info.pHead);
    info.pTail = (void *) ":tail";
    info.TailLength = 5;
    info.dwFlags = HSE_IO_SEND_HEADERS | HSE_IO_DISCONNECT_AFTER_SEND;
    is_sent = ask(block, HSE_REQ_TRANSMIT_FILE, &info, NULL, NULL);
    close(file);
    if (block->WriteClient(block->ConnID, "more", &size, HSE_IO_SYNC) || GetLastError() != ERROR_NETNAME_DELETED) {
        return HSE_STATUS_ERROR;
    }
    return is_sent ? HSE_STATUS_SUCCESS : HSE_STATUS_ERROR;
}

static void vector(Block *block, const char *path)
{
    int file = open(path, O_RDONLY);
    HSE_VECTOR_ELEMENT elements[] = {
        { HSE_VECTOR_ELEMENT_TYPE_MEMORY_BUFFER, (void *) "<memory", 0, 7 },
        { HSE_VECTOR_ELEMENT_TYPE_FILE_HANDLE, HSE_HANDLE_OF_FD(file), 1, 3 },
        { HSE_VECTOR_ELEMENT_TYPE_MEMORY_BUFFER, (void *) ">", 0, 1 },
    };
    HSE_RESPONSE_VECTOR all = { HSE_IO_SEND_HEADERS | HSE_IO_FINAL_SEND, (char *) "200 OK",
                                (char *) "Content-Type: text/x-vector\r\n\r\n", 3, elements };
    ask(block, HSE_REQ_VECTOR_SEND, &all, NULL, NULL);
    close(file);
}

static void ends(Block *block)
{
    BOOL keeps = 7, is_connected = 7;
    begin(block);
    say(block, "twice", ask(block, HSE_REQ_SEND_RESPONSE_HEADER, "200 OK", NULL, "\r\n"));
    say(block, "error", GetLastError());
    ask(block, HSE_REQ_IS_KEEP_CONN, &keeps, NULL, NULL);
    ask(block, HSE_REQ_IS_CONNECTED, &is_connected, NULL, NULL);
    say(block, "keeps", keeps);
    say(block, "connected", is_connected);
    say(block, "sspi", ask(block, 1002, NULL, NULL, NULL));
    say(block, "error", GetLastError());
    say(block, "sspi", ask(block, 1002, NULL, NULL, NULL));
}

static void big(Block *block)
{
    static char piece[100000];
    DWORD bytes = sizeof piece;
    int times;
    memset(piece, 'b', sizeof piece);
    begin(block);
    put(block, "small");
    for (times = 0; times < 20; times++) {
        block->WriteClient(block->ConnID, piece, &bytes, HSE_IO_SYNC);
    }
}

/* Functions that need no more than a line; FALSE for others. */
static BOOL do_short(Block *block, const char *what)
{
    HSE_SEND_HEADER_EX_INFO head = { "200 OK\r\nX: y", "\r\n", 12, 2, TRUE };
    if (strcmp(what, "redirect") == 0) {
        ask(block, HSE_REQ_SEND_URL_REDIRECT_RESP, "/there?a=b", NULL, NULL);
    } else if (strcmp(what, "url") == 0) {
        ask(block, HSE_REQ_SEND_URL, "/other.html", NULL, NULL);
    } else if (strcmp(what, "url-elsewhere") == 0) {
        ask(block, HSE_REQ_SEND_URL, "http://example.org/", NULL, NULL);
    } else if (strcmp(what, "split") == 0) {
        begin(block);
        say(block, "url", ask(block, HSE_REQ_SEND_URL_REDIRECT_RESP, "/\r\nX: y", NULL, NULL));
    } else if (strcmp(what, "bad-status") == 0) {
        say(block, "status", ask(block, HSE_REQ_SEND_RESPONSE_HEADER_EX, &head, NULL, NULL));
    } else if (strcmp(what, "status") == 0) {
        block->dwHttpStatusCode = 404;
        put(block, "nothing here");
    } else if (strcmp(what, "raw") == 0) {
        put(block, "HTTP/1.1 410 Gone\r\nX-Raw: 1");
        put(block, "\r\n\r");
        put(block, "\nraw body");
    } else if (strcmp(what, "parts") == 0) {
        ask(block, HSE_REQ_SEND_RESPONSE_HEADER, "202 Accepted", NULL, "X-One: 1\r\n");
        put(block, "X-Two: 2\r\n\r\nbody");
    } else if (strcmp(what, "unended") == 0) {
        ask(block, HSE_REQ_SEND_RESPONSE_HEADER, NULL, NULL, "X-One: 1\r\n");
    } else if (strcmp(what, "print") == 0) {
        printf("printed text\n");
        put(block, "written text");
        ask(block, HSE_APPEND_LOG_PARAMETER, "appended text", NULL, NULL);
        strcpy(block->lpszLogData, "log data");
    } else {
        return strcmp(what, "silent") == 0;
    }
    return TRUE;
}

BOOL WINAPI GetExtensionVersion(HSE_VERSION_INFO *version)
{
    version->dwExtensionVersion = HSE_VERSION;
    strcpy(version->lpszExtensionDesc, "functions");
    return TRUE;
}

DWORD WINAPI HttpExtensionProc(Block *block)
{
    const char *what = block->lpszQueryString;
    pthread_t thread;
    if (do_short(block, what)) {
        return HSE_STATUS_SUCCESS;
    } else if (strcmp(what, "variables") == 0) {
        variables(block);
    } else if (strcmp(what, "fields") == 0) {
        fields(block);
    } else if (strncmp(what, "map=", 4) == 0) {
        map(block, what + 4);
    } else if (strcmp(what, "ends") == 0) {
        ends(block);
    } else if (strcmp(what, "big") == 0) {
        big(block);
    } else if (strncmp(what, "file=", 5) == 0) {
        return transmit(block, what + 5);
    } else if (strncmp(what, "vector=", 7) == 0) {
        vector(block, what + 7);
    } else if (strcmp(what, "pending") == 0) {
        pthread_create(&thread, NULL, later, block);
        pthread_detach(thread);
        return HSE_STATUS_PENDING;
    } else if (strcmp(what, "write-async") == 0) {
        return write_async(block);
    } else if (strcmp(what, "read-async") == 0) {
        return read_async(block);
    } else if (strcmp(what, "crash") == 0) {
        begin(block);
        *(volatile int *) 8 = 1;
    } else {
        return strcmp(what, "odd") == 0 ? 77 : HSE_STATUS_ERROR;
    }
    return HSE_STATUS_SUCCESS_AND_KEEP_CONN;
}
