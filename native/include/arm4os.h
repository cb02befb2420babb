/* What arm4.h needs of the compiler and the system. Part of weir; written from the facts of the ARM 4.0 interface. */

#ifndef ARM4OS_H_INCLUDED
#define ARM4OS_H_INCLUDED

#include <stdint.h>

#define ARM4_CHAR char
#define ARM4_INT8 int8_t
#define ARM4_UINT8 uint8_t
#define ARM4_INT16 int16_t
#define ARM4_UINT16 uint16_t
#define ARM4_INT32 int32_t
#define ARM4_UINT32 uint32_t
#define ARM4_INT64 int64_t
#define ARM4_UINT64 uint64_t

/* How a function is declared; nothing special where libraries are shared objects. */
#ifndef ARM4_API_DYNAMIC
#define ARM4_API_DYNAMIC(type) type
#endif

#endif /* ARM4OS_H_INCLUDED */
