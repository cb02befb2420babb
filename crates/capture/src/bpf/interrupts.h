/* What interrupts.bpf.c and the collector agree on. */
#pragma once

/* Sub-code of WEIR_BPF_INTERRUPT; the argument is duration_ns | number << 48. */
#define WEIR_HARD_INTERRUPT 0
#define WEIR_SOFT_INTERRUPT 1
#define WEIR_TICK 2 /* the CPU's own timer */
#define WEIR_STOLEN 3 /* the hypervisor had the CPU, some time since its last switch */
