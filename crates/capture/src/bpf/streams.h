/* What the program at the TLS library's edge and the collector agree on: the cookie of a site. */
#pragma once

/* The site is where records are sealed; else where one that was opened is handed over. */
#define WEIR_SITE_SEALS 1
/* From this bit on: the register that leads to the connection, as its place in struct pt_regs in words. */
#define WEIR_SITE_REGISTER 1
/* From this bit on: how far behind the connection's beginning that register points, bytes. */
#define WEIR_SITE_OFFSET 8
