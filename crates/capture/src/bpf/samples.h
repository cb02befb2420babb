/* What the sampler's programs and its thread agree on; sizes are asserted on both sides. */
#pragma once

#define WEIR_KERNEL_FRAMES 48
/* Of the user's stack so much is copied, page by page. */
#define WEIR_STACK_BYTES 32768
#define WEIR_PHP_FRAMES 64

enum weir_sample_sort {
	WEIR_SAMPLE_CPU = 1,
	WEIR_SAMPLE_PHP = 2,
};

struct weir_registers {
	unsigned long long ip;
	unsigned long long sp;
	unsigned long long fp;
	unsigned long long lr; /* where the return address may stand in a register */
};

/* A task of the server that had a CPU. */
struct weir_sample {
	unsigned int sort;
	unsigned int pid;
	unsigned int tgid;
	unsigned int kernel_bytes;
	unsigned long long time_ns;
	struct weir_registers user;
	unsigned long long stack_bytes;
	unsigned long long kernel[WEIR_KERNEL_FRAMES];
	unsigned char stack[WEIR_STACK_BYTES];
};

/* A function of PHP that is being executed, of the sample that was written just before; the innermost comes first. */
struct weir_php_frame {
	unsigned int sort;
	unsigned int pid;
	unsigned int index;
	unsigned int kind; /* as PHP numbers them: 1 = internal, 2 = the user's, 4 = eval */
	unsigned int line;
	unsigned int pad;
	char function[64];
	char scope[64];
	char file[128];
};

/* Where an interpreter keeps its frames: the address of the pointer to the innermost one, and places in structures. */
struct weir_php {
	unsigned long long current;
	unsigned int function;
	unsigned int previous;
	unsigned int name;
	unsigned int scope;
	unsigned int scope_name;
	unsigned int file;
	unsigned int line;
	unsigned int text;
};

/* A task of the server that is blocked, as the iterator writes it. */
struct weir_blocked {
	unsigned int pid;
	unsigned int tgid;
	unsigned long long time_ns;
	unsigned long long runs; /* how often it has had a CPU: unchanged, it is blocked still */
	struct weir_registers user;
	unsigned long long kernel_bytes;
	unsigned long long kernel[WEIR_KERNEL_FRAMES];
};
