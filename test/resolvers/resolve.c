/* Resolves names with the C library's own resolver, one line each:
 *
 *	NAME ADDRESS ADDRESS...
 *	NAME: the library's error
 *
 * The addresses are sorted. */
#include <arpa/inet.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define MOST 1024

static int compare(const void *a, const void *b) { return strcmp(a, b); }

static void resolve(const char *name) {
	static char text[MOST][INET6_ADDRSTRLEN];
	struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM}, *list, *a;
	int n = 0, err = getaddrinfo(name, NULL, &hints, &list);

	if (err) {
		printf("%s: %s\n", name, gai_strerror(err));
		return;
	}
	for (a = list; a && n < MOST; a = a->ai_next) {
		const void *ip = a->ai_family == AF_INET ? (void *)&((struct sockaddr_in *)a->ai_addr)->sin_addr
							 : (void *)&((struct sockaddr_in6 *)a->ai_addr)->sin6_addr;
		inet_ntop(a->ai_family, ip, text[n++], INET6_ADDRSTRLEN);
	}
	freeaddrinfo(list);
	qsort(text, n, sizeof text[0], compare);
	printf("%s", name);
	for (int i = 0; i < n; i++)
		printf(" %s", text[i]);
	printf("\n");
}

int main(int argc, char **argv) {
	for (int i = 1; i < argc; i++)
		resolve(argv[i]);
	return 0;
}
