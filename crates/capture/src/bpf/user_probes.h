/* What the user probes' program and the collector agree on. */
#pragma once

/* Sites that a recording may have. */
#define WEIR_MOST_SITES 1024

/* Where a site's value comes from. */
#define WEIR_FROM_NOTHING 0
#define WEIR_FROM_CONSTANT 1
#define WEIR_FROM_REGISTER 2
#define WEIR_FROM_MEMORY 3

/* Flags of a site. */
#define WEIR_SITE_TEXT 1   /* the value points to text that ends with a zero byte */
#define WEIR_SITE_SIGNED 2 /* the value is to be extended by its sign */

/* What a probe does where it is hit; the attachment's cookie is the number of its site. */
struct weir_site {
	unsigned long long constant;
	int offset;           /* of WEIR_FROM_MEMORY, from what the register points to */
	unsigned short point; /* the number that the event carries, 14 bits */
	unsigned char from;
	unsigned char place; /* of the register in struct pt_regs, words */
	unsigned char bytes; /* of the value: 1, 2, 4, 8 */
	unsigned char flags;
	unsigned char pad[6];
};

/* A text comes as events of one time: the first carries the point, each other one eight bytes; sub is the number of the
 * piece, and in the last one WEIR_TEXT_LAST besides. */
#define WEIR_TEXT_CHUNK 56
#define WEIR_TEXT_CHUNKS 16
#define WEIR_TEXT_LAST 0x100
