/* A program to be probed: it calls each function a known number of times, and says by its static probe which round it
 * is. It begins when the tracer switches its static probe on. */
#define _SDT_HAS_SEMAPHORES 1
#include <sys/sdt.h>
#include <unistd.h>

unsigned short demo_round_semaphore __attribute__((section(".probes")));

/* Begins with a push: cheap. */
long cheap(long number, const char *text);
/* Begins with what must be single-stepped, and so does all that surely follows. */
long dear(long number, const char *text);
/* The same, but for a jump after it. */
long moved(long number, const char *text);

__asm__(".text\n"
	".globl cheap\n.type cheap, @function\n"
	"cheap: push %rbx\n lea 1(%rdi), %rax\n pop %rbx\n ret\n.size cheap, .-cheap\n"
	".globl dear\n.type dear, @function\n"
	"dear: sub $8, %rsp\n lea 2(%rdi), %rax\n add $8, %rsp\n ret\n.size dear, .-dear\n"
	".globl moved\n.type moved, @function\n"
	"moved: test %rdi, %rdi\n je 1f\n nop\n1: lea 3(%rdi), %rax\n ret\n.size moved, .-moved\n");

int main(int count, char **arguments)
{
	volatile long sum = 0;

	for (int wait = 0; wait < 2000 && !demo_round_semaphore; wait++)
		usleep(10000);
	usleep(300000);
	for (long round = 1; round <= 50; round++) {
		DTRACE_PROBE2(demo, round, round, "SELECT 'secret'");
		sum += cheap(round, count > 1 ? arguments[1] : "none");
		sum += dear(round, "none");
		sum += moved(round, "none");
	}
	return sum == 3 * 1275 + 50 * 6 ? 0 : 1;
}
