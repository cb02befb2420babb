/* What the program at the TLS library's edge and the collector agree on: the cookie of a site. */
#pragma once

/* What is found at a site, the lowest four bits; odd ones are given bytes to seal. */
enum { WEIR_OPENSSL_OPENS = 0, WEIR_OPENSSL_SEALS = 1, WEIR_GO_OPENS = 2, WEIR_GO_SEALS = 3, WEIR_MARK_OPENS = 4,
       WEIR_MARK_SEALS = 5, WEIR_MARK_QUIC = 6, WEIR_LAYER_OPENS = 8, WEIR_LAYER_SEALS = 9 };
#define WEIR_SITE_KIND 15
/* From this bit on: a register, as its place in struct pt_regs in words: of OpenSSL the one that leads to the record, of
 * Go the one that leads to the connection, as where OpenSSL 3.2 seals. */
#define WEIR_SITE_REGISTER 4
/* From this bit on: of OpenSSL how far behind the connection's beginning that register points, of Go how far
 * behind it the reader of what was opened is, bytes; of a mark of QUIC what it tells, as in weir_wire::quic. */
#define WEIR_SITE_OFFSET 9

/* What a mark of QUIC tells that has more than its numbers. */
#define WEIR_QUIC_REQUEST 3
