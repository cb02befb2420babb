/* What is told of a load generator's sockets, to the program that watches it (src/generator.rs). */
#pragma once

/* One request and its answer, in nanoseconds of CLOCK_MONOTONIC; 0 = not seen. */
struct weir_exchange {
	unsigned long long sent;
	/* Of the answer, the first segment and the last one before the last read. */
	unsigned long long arrived_first;
	unsigned long long arrived;
	unsigned long long read_first;
	unsigned long long read;
};
