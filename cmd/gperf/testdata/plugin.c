// A library that is built twice, with other frames at the same addresses.
volatile unsigned long sink;
#define OUTLINED __attribute__((noinline, noclone))
#define NAME2(a, b) a##b
#define NAME1(a, b) NAME2(a, b)
#define FUNCTION(name) NAME1(PREFIX, name)
OUTLINED void FUNCTION(_inner)(unsigned long n)
{
	for (unsigned long i = 0; i < n; i++)
		sink += i;
}
OUTLINED void FUNCTION(_outer)(unsigned long n)
{
	volatile char room[ROOM];

	room[0] = 1;
	FUNCTION(_inner)(n);
	sink += room[0];
}
void plugin_run(unsigned long n)
{
	FUNCTION(_outer)(n);
	sink++;
}
