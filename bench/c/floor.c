// floor.c - the exchange of guard-gate in static C: what a hook costs at least.
//
// It reads stdin to its end, connects, checks the listener's uid, sends one
// frame, reads one reply and writes it out. It leaves out what guard-gate does
// besides: the walk over the socket's directories, deadlines, reasons. So the
// floor is a little lower than it need be.
//
//	floor SOCKET UID
#define _GNU_SOURCE
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { HEAD = 20, TAIL = 4, CAP = 1 << 16 };

static unsigned char frame[HEAD + CAP + TAIL], reply[HEAD + 2 * CAP + TAIL];

static size_t be32(const unsigned char *p) {
	return (size_t)p[0] << 24 | (size_t)p[1] << 16 | (size_t)p[2] << 8 | p[3];
}

int main(int argc, char **argv) {
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	struct ucred peer;
	socklen_t len = sizeof peer;
	size_t n = 0, got = 0, out, err;
	ssize_t r;

	if (argc != 3 || strlen(argv[1]) >= sizeof at.sun_path)
		return 2;
	while ((r = read(0, frame + HEAD + n, CAP - n)) > 0)
		n += r;
	memcpy(frame, "LGq1\1\1\1\1", 8);
	frame[16] = n >> 24, frame[17] = n >> 16, frame[18] = n >> 8, frame[19] = n;
	memcpy(frame + HEAD + n, ".end", TAIL);

	strcpy(at.sun_path, argv[1]);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (connect(fd, (struct sockaddr *)&at, sizeof at) != 0 ||
	    getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) != 0 ||
	    (peer.uid != 0 && peer.uid != (uid_t)atol(argv[2])) ||
	    write(fd, frame, HEAD + n + TAIL) != (ssize_t)(HEAD + n + TAIL))
		return 2;
	for (;;) {
		if ((r = read(fd, reply + got, sizeof reply - got)) <= 0)
			return 2;
		got += r;
		if (got < HEAD)
			continue;
		out = be32(reply + 12), err = be32(reply + 16);
		if (memcmp(reply, "LGr1\1\3", 6) != 0 || out > CAP || err > CAP)
			return 2;
		if (got >= HEAD + out + err + TAIL)
			break;
	}
	if (memcmp(reply + HEAD + out + err, ".end", TAIL) != 0 ||
	    write(1, reply + HEAD, out) != (ssize_t)out ||
	    write(2, reply + HEAD + out, err) != (ssize_t)err)
		return 2;
	return reply[6];
}
