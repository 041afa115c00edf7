/*
 * Sends messages from one network namespace to another, and receives them:
 *     between udp|tcp FROM TO ADDRESS PORT MESSAGE...
 * FROM and TO are files of namespaces; the receiver has the port of all of its addresses.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

static void check(int failed, const char *what)
{
	if (!failed)
		return;
	perror(what);
	exit(1);
}

static int socket_in(const char *namespace, int type)
{
	int fd;

	check(setns(open(namespace, O_RDONLY), CLONE_NEWNET), namespace);
	fd = socket(AF_INET, type, 0);
	check(fd < 0, "socket");
	return fd;
}

int main(int argc, char **argv)
{
	struct sockaddr_in any = {.sin_family = AF_INET}, to = any;
	char data[100];
	int tcp, from, at;

	if (argc < 7)
		return 2;
	tcp = !strcmp(argv[1], "tcp");
	from = socket_in(argv[2], tcp ? SOCK_STREAM : SOCK_DGRAM);
	at = socket_in(argv[3], tcp ? SOCK_STREAM : SOCK_DGRAM);
	to.sin_port = any.sin_port = htons(atoi(argv[5]));
	check(inet_pton(AF_INET, argv[4], &to.sin_addr) != 1, argv[4]);
	check(bind(at, (void *)&any, sizeof(any)), "bind");
	check(tcp && listen(at, 1), "listen");
	if (tcp) {
		check(connect(from, (void *)&to, sizeof(to)), "connect");
		at = accept(at, NULL, NULL);
		check(at < 0, "accept");
	}
	for (int i = 6; i < argc; i++) {
		ssize_t n = strlen(argv[i]);

		check(sendto(from, argv[i], n, 0, tcp ? NULL : (void *)&to, tcp ? 0 : sizeof(to)) != n, "sendto");
		check(recv(at, data, sizeof(data), 0) != n, "recv");
	}
	return 0;
}
