/* Sends datagrams to itself by loopback, as many as its argument says, and receives them. */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

int main(int argc, char **argv)
{
	int from = socket(AF_INET, SOCK_DGRAM, 0), to = socket(AF_INET, SOCK_DGRAM, 0);
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t size = sizeof(at);
	char data[100] = "";

	if (bind(to, (void *)&at, size) || getsockname(to, (void *)&at, &size)) {
		perror("datagrams");
		return 1;
	}
	for (int i = argc > 1 ? atoi(argv[1]) : 1; i > 0; i--)
		if (sendto(from, data, sizeof(data), 0, (void *)&at, size) < 0 || recv(to, data, sizeof(data), 0) < 0) {
			perror("datagrams");
			return 1;
		}
}
