/* Values of many types, for probes to read. */
#include <stdio.h>

struct in { int a; unsigned short b : 3, c : 5; char name[16]; };
struct node {
	struct node *next;
	const char *label;
	struct in in;
	struct in *ptr;
	int arr[4];
	signed char sc;
	enum { RED, GREEN } col;
	union { int u1; long u2; };
	double d;
};

int global = 42;
char global_text[16] = "global";
long zeroed; /* in .bss */

__attribute__((noinline)) int values(int n, struct node *np, char *s, unsigned long ul, char c, short sh, long on_stack)
{
	int local = n * 3;
	int a[3] = { n, 2 * n, 3 * n };
	struct in si = { n, 1, 2, "stack" };

	zeroed += 7;
	printf("%d %s %s %lu %c %d %d %s %d %s %ld\n", local, np->label, s, ul, c, sh, a[n % 3], si.name, global, global_text, on_stack);
	return local - 4;
}

int main(void)
{
	struct node node = { .label = "lab", .in = { 7, 1, 2, "embedded" }, .arr = { 10, 11, 12, 13 }, .sc = -3, .col = GREEN, .u1 = 99, .d = 1.5 };

	node.ptr = &node.in;
	node.next = &node;
	for (int i = 0; i < 3; i++)
		values(i, &node, "str", 123456789012UL, 'x', -7, 1000 + i);
	return 0;
}
