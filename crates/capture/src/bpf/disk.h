/* What disk.bpf.c and the collector agree on. */
#pragma once

/* Sub-code of WEIR_BPF_FILE_WAIT. */
#define WEIR_IO_WAIT 1    /* the kernel counts it as waiting for a device */
#define WEIR_PAGE_FAULT 2 /* not in a system call: a page of a mapped file */
#define WEIR_SERVED 4     /* a signal would end the wait: another process or host serves the file system */

/* Sub-code of WEIR_BPF_DISK_REQUEST: what was asked of the device. */
#define WEIR_DISK_READ 0
#define WEIR_DISK_WRITE 1
#define WEIR_DISK_FLUSH 2
#define WEIR_DISK_OTHER 3
