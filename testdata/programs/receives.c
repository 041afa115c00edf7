/*
 * Receives packets from a device of its own, in a network namespace of its own, until it is killed: a TAP device whose
 * sk_buffs the kernel takes from the same cache as a network card's driver.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

int main(void)
{
	struct ifreq r = {.ifr_name = "received0", .ifr_flags = IFF_TAP | IFF_NO_PI | IFF_NAPI | IFF_NAPI_FRAGS};
	/* An ARP request from and to nobody, which the kernel receives and drops. */
	char frame[64] = "\xff\xff\xff\xff\xff\xff\x02\0\0\0\0\1\x08\x06\0\1\x08\0\6\4\0\1\x02\0\0\0\0\1";
	int tap, s;

	if (unshare(CLONE_NEWNET) || (tap = open("/dev/net/tun", O_RDWR)) < 0 || ioctl(tap, TUNSETIFF, &r) ||
	    (s = socket(AF_INET, SOCK_DGRAM, 0)) < 0) {
		perror("a TAP device");
		return 1;
	}
	r.ifr_flags = IFF_UP;
	if (ioctl(s, SIOCSIFFLAGS, &r)) {
		perror("a TAP device");
		return 1;
	}
	puts("ready");
	fflush(stdout);
	for (;;) {
		for (int i = 0; i < 16; i++)
			if (write(tap, frame, sizeof(frame)) < 0) {
				perror("writing to a TAP device");
				return 1;
			}
		usleep(1000);
	}
}
