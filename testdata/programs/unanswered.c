// Mounts a file system that never answers over a directory, which has this program, for itself alone; then computes.
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <sys/mount.h>

int main(int argc, char **argv)
{
	char options[100];
	int fuse = open("/dev/fuse", O_RDWR);

	snprintf(options, sizeof(options), "fd=%d,rootmode=40000,user_id=0,group_id=0", fuse);
	if (argc != 2 || fuse < 0 || unshare(CLONE_NEWNS) || mount("", "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
	    mount("unanswered", argv[1], "fuse", 0, options)) {
		perror("unanswered");
		return 1;
	}
	puts("mounted");
	fflush(stdout);
	for (volatile unsigned long n = 0;; n++)
		;
}
