// A USDT probe with a semaphore, as <sys/sdt.h> makes it: shop:sale. The program
// prints how often it was watched.
#include <stdio.h>

unsigned short shop_sale_semaphore __attribute__((section(".probes"), visibility("hidden")));

static volatile int watched;

__attribute__((noinline)) void sale(int n, const long *prices)
{
	if (*(volatile unsigned short *)&shop_sale_semaphore)
		watched++;
	__asm__ __volatile__(
		"990: nop\n"
		".pushsection .note.stapsdt,\"\",\"note\"\n"
		".balign 4\n"
		".4byte 992f-991f, 994f-993f, 3\n"
		"991: .asciz \"stapsdt\"\n"
		"992: .balign 4\n"
		"993: .8byte 990b\n"
		".8byte _.stapsdt.base\n"
		".8byte shop_sale_semaphore\n"
		".asciz \"shop\"\n"
		".asciz \"sale\"\n"
		".asciz \"-4@%[n] 8@%[price] -4@%[seven]\"\n"
		"994: .balign 4\n"
		".popsection\n"
		".ifndef _.stapsdt.base\n"
		".pushsection .stapsdt.base,\"aG\",\"progbits\",.stapsdt.base,comdat\n"
		".weak _.stapsdt.base\n"
		".hidden _.stapsdt.base\n"
		"_.stapsdt.base: .space 1\n"
		".size _.stapsdt.base, 1\n"
		".popsection\n"
		".endif\n"
		: : [n] "r"(n), [price] "m"(prices[1]), [seven] "i"(-7));
}

int main(void)
{
	long prices[] = { 1, 40, 3 };
	for (int i = 0; i < 3; i++) {
		prices[1] += 2;
		sale(i, prices);
	}
	printf("watched %d\n", watched);
	return 0;
}
