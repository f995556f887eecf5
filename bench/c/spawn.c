// spawn.c - starts two hooks in turn and times each from vfork to its end.
//
//	spawn ROUNDS COMMAND1 ARGS... :: COMMAND2 ARGS...   <payload
//
// One line a round: nanoseconds of the first and of the second. Their order
// changes every round. Each gets the payload by a pipe and has to answer `{}`
// with status 0: what didn't do the work isn't measured.
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static char payload[1 << 15];
static ssize_t size;

static long long now(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static long long start(char **argv, char **env) {
	int in[2], out[2], status;
	char answer[8];

	if (pipe2(in, 0) != 0 || pipe2(out, 0) != 0 || write(in[1], payload, size) != size)
		exit(1);
	close(in[1]);
	long long begin = now();
	pid_t pid = vfork();
	if (pid == 0) {
		dup2(in[0], 0);
		dup2(out[1], 1);
		close(in[0]);
		close(out[0]);
		close(out[1]);
		execve(argv[0], argv, env);
		_exit(127);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		exit(1);
	long long end = now();
	close(out[1]);
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0 || read(out[0], answer, sizeof answer) != 2 || memcmp(answer, "{}", 2) != 0) {
		fprintf(stderr, "%s gave no pass: wait status %#x\n", argv[0], status);
		exit(1);
	}
	close(in[0]);
	close(out[0]);
	return end - begin;
}

int main(int argc, char **argv, char **env) {
	int rounds = argc > 1 ? atoi(argv[1]) : 0;
	char **second = argv + 2;

	while (second < argv + argc && strcmp(*second, "::") != 0)
		second++;
	if (rounds < 1 || second >= argv + argc - 1)
		return 2;
	*second++ = 0;
	size = read(0, payload, sizeof payload);
	for (int i = 0; i < rounds; i++) {
		long long a, b;
		if (i % 2 == 0)
			a = start(argv + 2, env), b = start(second, env);
		else
			b = start(second, env), a = start(argv + 2, env);
		printf("%lld %lld\n", a, b);
	}
	return 0;
}
