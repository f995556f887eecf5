// crowd.c - many clients of a broker, each as small as a process can be.
//
//	crowd sessions SOCKET N    N processes, each the anchor of a session, asleep
//	crowd hang SOCKET N        one anchor with N connections that say no whole word
//
// It writes a line when all is there: how many sessions or connections. One that
// hangs writes a line when it is registered, and waits for one of its stdin before
// it connects. It ends, with all its processes, when its stdin does.
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

enum { HEAD = 20, TAIL = 4, AT_ONCE = 32 };

static struct sockaddr_un at = {.sun_family = AF_UNIX};

static int dial(void) {
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd >= 0 && connect(fd, (struct sockaddr *)&at, sizeof at) != 0) {
		close(fd);
		return -1;
	}
	return fd;
}

// enlist makes this process the anchor of a session: it registers, and closes
// the connection, as an exec does.
static int enlist(void) {
	static const char control[] = "{\"verb\":\"register\",\"register\":{\"runtime\":\"exec\",\"dir\":\"/\",\"command\":\"crowd\"}}";
	enum { SIZE = sizeof control - 1 };
	unsigned char frame[HEAD + SIZE + TAIL] = "LGq1\1\2", reply[4096];
	ssize_t got = 0, n;
	int fd = dial();
	if (fd < 0)
		return -1;
	frame[15] = SIZE;
	memcpy(frame + HEAD, control, SIZE);
	memcpy(frame + HEAD + SIZE, ".end", TAIL);
	if (write(fd, frame, sizeof frame) != sizeof frame)
		return -1;
	while (got < HEAD && (n = read(fd, reply + got, sizeof reply - got)) > 0)
		got += n;
	if (got < HEAD || reply[6] != 0) {
		fprintf(stderr, "crowd: refused: %.*s\n", (int)(got > HEAD ? got - HEAD : 0), reply + HEAD);
		return -1;
	}
	return close(fd);
}

static int sessions(int n) {
	int ready[2], there = 0;
	char done;
	if (pipe(ready) != 0 || setpgid(0, 0) != 0)
		return 1;
	for (int i = 0; i < n; i++) {
		if (i >= AT_ONCE && read(ready[0], &done, 1) == 1 && done == 'y')
			there++;
		pid_t pid = fork();
		if (pid < 0)
			return 1;
		if (pid == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			close(ready[0]);
			done = enlist() == 0 ? 'y' : 'n';
			(void)!write(ready[1], &done, 1);
			close(ready[1]);
			close(0);
			close(1);
			for (;;)
				pause();
		}
	}
	for (int i = 0; i < (n < AT_ONCE ? n : AT_ONCE); i++)
		if (read(ready[0], &done, 1) == 1 && done == 'y')
			there++;
	printf("%d\n", there);
	fflush(stdout);
	while (read(0, &done, 1) > 0)
		;
	signal(SIGTERM, SIG_IGN);
	kill(0, SIGTERM);
	while (wait(0) > 0 || errno == EINTR)
		;
	return 0;
}

// word is the beginning of a request: nothing, half a header, or half a payload.
static void word(int fd, int i) {
	static const unsigned char start[HEAD + 8] = "LGq1\1\1\1\1\0\0\0\0\0\0\0\0\0\0\1\0{\"sessio";
	if (i % 3 > 0)
		(void)!write(fd, start, i % 3 == 1 ? 9 : sizeof start);
}

static int hang(int n) {
	struct pollfd *all = calloc(n + 1, sizeof *all);
	int said = 0;
	char go;
	if (all == 0 || enlist() != 0)
		return 1;
	puts("0");
	fflush(stdout);
	if (read(0, &go, 1) != 1)
		return 0;
	struct sched_param idle = {0};
	sched_setscheduler(0, SCHED_IDLE, &idle); // what is measured is the broker, not who gets the processors
	for (int i = 0; i < n; i++)
		all[i].fd = -1;
	all[n] = (struct pollfd){.fd = 0, .events = POLLIN};
	for (;;) {
		int open = 0;
		for (int i = 0; i < n; i++) {
			if (all[i].fd >= 0 && all[i].revents != 0) { // it was refused, or its time was over
				close(all[i].fd);
				all[i].fd = -1;
			}
			if (all[i].fd < 0 && (all[i].fd = dial()) >= 0)
				word(all[i].fd, i);
			all[i].events = POLLIN;
			open += all[i].fd >= 0;
		}
		if (!said++) {
			printf("%d\n", open);
			fflush(stdout);
		}
		if (poll(all + n, 1, 1000) != 0) // a second later the next ones
			return 0;
		poll(all, n, 0);
	}
}

int main(int argc, char **argv) {
	struct rlimit files;
	int n = argc == 4 ? atoi(argv[3]) : 0;
	if (n < 1 || strlen(argv[2]) >= sizeof at.sun_path)
		return 2;
	getrlimit(RLIMIT_NOFILE, &files);
	files.rlim_cur = files.rlim_max;
	setrlimit(RLIMIT_NOFILE, &files);
	signal(SIGPIPE, SIG_IGN);
	strcpy(at.sun_path, argv[2]);
	return strcmp(argv[1], "sessions") == 0 ? sessions(n) : hang(n);
}
