/* Each of these functions ends with a call that does not return: its return address lies in the next function. */
#include <setjmp.h>

#define separate __attribute__((noinline, noclone))

volatile int count;
static jmp_buf back;

separate _Noreturn void die(void) { count++; longjmp(back, 1); }
separate void fails_first(int n) { if (n >= 0) die(); count++; }
separate void fails_second(int n) { if (n >= 0) die(); count += 2; }
separate void f(int n) { if (n >= 0) die(); count += 4; }
separate void never_called(int n) { if (n >= 0) die(); count += 3; }

int main(int argc, char **argv)
{
	for (volatile int i = 0; i < 50; i++)
		if (!setjmp(back))
			fails_first(i);
		else if (!setjmp(back))
			fails_second(i);
		else if (!setjmp(back))
			f(i); /* the name is that of a mangled type */
	if (argc > 1)
		never_called(argc);
	return 0;
}
