// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * First process of the guest, from the initramfs to power-off.
 *
 *   1. load the few modules the root needs, mount the root (a read-only
 *      squashfs in persistent memory) with a tmpfs above it, move there,
 *      mount what programs expect;
 *   2. stop: here vm/run saves the machine once, and every run goes on from here;
 *   3. unpack the files of this run from the mailbox, a second persistent
 *      memory, and start the program named on the host;
 *   4. pass its output on, byte for byte, until it ends; if it was only to
 *      prepare the machine, go back to 2;
 *   5. leave /out in the mailbox, hand over the kernel log and the exit status,
 *      stop the machine.
 *
 * Output leaves through QEMU debug ports, one per stream, because a port
 * write completes at once: a serial line or a virtual disk would complete
 * whenever the host gets to it, and no two runs would be alike.  This process
 * runs as SCHED_FIFO so that no scheduler under test can hold output back.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/random.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/io.h>
#include <sys/ioctl.h>
#include <sys/klog.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/reboot.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* vm/run gives QEMU the same numbers. */
enum port {
	PORT_STDOUT = 0xe9,
	PORT_STDERR = 0xea,
	PORT_CONTROL = 0xeb, /* "files N": bytes of /out in the mailbox; "exit N" */
	PORT_LOG = 0xec,     /* the kernel log */
	PORT_EXIT = 0x501,   /* any byte ends the machine */
	PORT_PAUSE = 0x505,  /* any byte halts it until vm/run has saved it */
};

#define MAILBOX  "/dev/pmem1"       /* a tar archive of the run's files; later, of /out */
#define RUN_DIR  "/.run"            /* vm/run's own among those files */
#define PREPARE  RUN_DIR "/prepare" /* is there: more is to come after this program */
#define MAX_ARGS 256

static void port_write(enum port port, const void *data, size_t len)
{
	const char *p = data;

	__asm__ volatile("rep outsb" : "+S"(p), "+c"(len) : "d"(port) : "memory");
}

static void port_printf(enum port port, const char *format, ...)
{
	char text[256];
	va_list args;
	int len;

	va_start(args, format);
	len = vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	if (len > (int)sizeof(text) - 1)
		len = sizeof(text) - 1;
	port_write(port, text, (size_t)len);
}

static void stop_machine(void)
{
	outb(0, PORT_EXIT);
	reboot(RB_POWER_OFF);
	for (;;)
		pause();
}

/* A guest that cannot start is reported like a failed program. */
static void die(const char *what)
{
	port_printf(PORT_STDERR, "guest init: %s: %s\n", what, strerror(errno));
	port_printf(PORT_CONTROL, "exit 125\n");
	stop_machine();
}

static void mount_at(const char *type, const char *source, const char *target, unsigned long flags,
		     const char *options)
{
	mkdir(target, 0755);
	if (mount(source, target, type, flags, options))
		die(target);
}

/* Absent file systems are a matter of the kernel, not a failure. */
static void mount_if_known(const char *type, const char *target, const char *options)
{
	mkdir(target, 0755);
	(void)mount(type, target, type, 0, options);
}

static void write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd < 0)
		return;
	(void)!write(fd, text, strlen(text));
	close(fd);
}

/* /modules holds the modules in the order to load, as 00-name.ko, 01-… */
static void load_modules(void)
{
	struct dirent **names;
	int count = scandir("/modules", &names, NULL, alphasort);

	for (int i = 0; i < count; i++) {
		char path[512];
		int fd;

		if (names[i]->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "/modules/%s", names[i]->d_name);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		if (fd < 0)
			die(path);
		if (syscall(SYS_finit_module, fd, "", 0) && errno != EEXIST)
			die(path);
		close(fd);
	}
}

static void wait_for(const char *path)
{
	for (int i = 0; i < 1000; i++) {
		if (!access(path, F_OK))
			return;
		usleep(1000);
	}
	die(path);
}

static void enter_root(void)
{
	mount_at("devtmpfs", "dev", "/dev", 0, NULL);
	mount_at("proc", "proc", "/proc", 0, NULL);
	mount_at("sysfs", "sys", "/sys", 0, NULL);
	load_modules();
	wait_for("/dev/pmem0");
	mount_at("squashfs", "/dev/pmem0", "/root.ro", MS_RDONLY, NULL);
	mount_at("tmpfs", "rw", "/root.rw", 0, "size=75%,mode=755");
	mkdir("/root.rw/upper", 0755);
	mkdir("/root.rw/work", 0755);
	/* The root serves all kernels; what belongs to this one came with it. */
	mount_at("overlay", "root", "/root.new", 0,
		 "lowerdir=/kernel:/root.ro,upperdir=/root.rw/upper,workdir=/root.rw/work");
	if (mount("/dev", "/root.new/dev", NULL, MS_MOVE, NULL) ||
	    mount("/proc", "/root.new/proc", NULL, MS_MOVE, NULL) ||
	    mount("/sys", "/root.new/sys", NULL, MS_MOVE, NULL))
		die("moving the mounts");
	if (chdir("/root.new") || mount(".", "/", NULL, MS_MOVE, NULL) || chroot(".") || chdir("/"))
		die("entering the root");
}

static void enable_controllers(void)
{
	char names[512] = "", line[1024] = "";
	int fd = open("/sys/fs/cgroup/cgroup.controllers", O_RDONLY | O_CLOEXEC);
	ssize_t len = fd < 0 ? -1 : read(fd, names, sizeof(names) - 1);

	if (fd >= 0)
		close(fd);
	if (len <= 0)
		return;
	for (char *name = strtok(names, " \n"); name; name = strtok(NULL, " \n")) {
		if (strlen(line) + strlen(name) + 3 > sizeof(line))
			break;
		strcat(line, "+");
		strcat(line, name);
		strcat(line, " ");
	}
	write_file("/sys/fs/cgroup/cgroup.subtree_control", line);
}

static void loopback_up(void)
{
	struct ifreq request = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return;
	(void)ioctl(fd, SIOCSIFFLAGS, &request);
	close(fd);
}

/* A distribution keeps a seed from boot to boot. Without one the kernel hashes what entropy there
 * is for each new slab and each program that starts, 8,000 instructions. Here it is always the
 * same: equal runs are equal. */
static void seed_random(void)
{
	struct {
		struct rand_pool_info info;
		unsigned char bytes[32];
	} seed = {.info = {.entropy_count = 256, .buf_size = 32}};
	int fd = open("/dev/random", O_WRONLY | O_CLOEXEC);

	if (fd < 0)
		return;
	(void)ioctl(fd, RNDADDENTROPY, &seed);
	close(fd);
}

static void prepare_root(void)
{
	seed_random();

	mount_if_known("devpts", "/dev/pts", "ptmxmode=666");
	mount_if_known("tmpfs", "/dev/shm", "mode=1777");
	mount_if_known("tmpfs", "/run", "mode=755");
	mount_if_known("tmpfs", "/tmp", "mode=1777");
	mount_if_known("cgroup2", "/sys/fs/cgroup", NULL);
	mount_if_known("bpf", "/sys/fs/bpf", "mode=700");
	mount_if_known("tracefs", "/sys/kernel/tracing", NULL);
	mount_if_known("debugfs", "/sys/kernel/debug", NULL);
	mkdir("/out", 0755);
	enable_controllers();
	loopback_up();
	sethostname("guest", 5);
	(void)symlink("/proc/self/fd", "/dev/fd");
	(void)symlink("/proc/self/fd/0", "/dev/stdin");
	(void)symlink("/proc/self/fd/1", "/dev/stdout");
	(void)symlink("/proc/self/fd/2", "/dev/stderr");
}

static char *read_whole(const char *path, size_t *len)
{
	struct stat st;
	char *data;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0 || fstat(fd, &st))
		die(path);
	data = malloc((size_t)st.st_size + 1);
	if (!data || read(fd, data, (size_t)st.st_size) != st.st_size)
		die(path);
	data[st.st_size] = 0;
	*len = (size_t)st.st_size;
	close(fd);
	return data;
}

/* RUN_DIR/argv: the program and its arguments, each ended by a zero byte. */
static void exec_program(int out, int err)
{
	static char *argv[MAX_ARGS + 1];
	sigset_t none;
	size_t len;
	char *data = read_whole(RUN_DIR "/argv", &len);
	int count = 0;

	for (char *p = data; p < data + len && count < MAX_ARGS; p += strlen(p) + 1)
		argv[count++] = p;
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	setsid();
	int null = open("/dev/null", O_RDONLY);
	if (null < 0 || dup2(null, 0) < 0 || dup2(out, 1) < 0 || dup2(err, 2) < 0)
		_exit(125);
	if (null > 2)
		close(null);
	execvp(argv[0], argv);
	dprintf(2, "guest: cannot run %s: %s\n", argv[0], strerror(errno));
	_exit(errno == ENOENT ? 127 : 126);
}

static pid_t start_program(int *out, int *err)
{
	int out_pipe[2], err_pipe[2];
	pid_t pid;

	if (pipe2(out_pipe, O_CLOEXEC) || pipe2(err_pipe, O_CLOEXEC))
		die("pipe");
	/* Fewer hand-overs for bulk output. */
	(void)fcntl(out_pipe[0], F_SETPIPE_SZ, 1 << 20);
	(void)fcntl(out_pipe[0], F_SETFL, O_NONBLOCK);
	(void)fcntl(err_pipe[0], F_SETFL, O_NONBLOCK);
	pid = fork();
	if (pid < 0)
		die("fork");
	if (!pid)
		exec_program(out_pipe[1], err_pipe[1]);
	close(out_pipe[1]);
	close(err_pipe[1]);
	*out = out_pipe[0];
	*err = err_pipe[0];
	return pid;
}

/* Passes on what is there now; false at the end of the stream. */
static bool drain(int fd, enum port port)
{
	static char buffer[1 << 16];
	ssize_t len;

	while ((len = read(fd, buffer, sizeof(buffer))) > 0)
		port_write(port, buffer, (size_t)len);
	return len < 0 && (errno == EAGAIN || errno == EINTR);
}

/* Returns the status of @program once it has ended; orphans are reaped on the way. */
static int relay(pid_t program, int signals, int out, int err)
{
	struct pollfd fds[3] = {
		{.fd = signals, .events = POLLIN},
		{.fd = out, .events = POLLIN},
		{.fd = err, .events = POLLIN},
	};

	for (;;) {
		struct signalfd_siginfo info;
		int status;
		pid_t pid;

		if (poll(fds, 3, -1) < 0 && errno != EINTR)
			die("poll");
		if (fds[1].revents && !drain(out, PORT_STDOUT))
			fds[1].fd = -1;
		if (fds[2].revents && !drain(err, PORT_STDERR))
			fds[2].fd = -1;
		if (!(fds[0].revents & POLLIN))
			continue;
		(void)!read(signals, &info, sizeof(info));
		while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
			if (pid != program)
				continue;
			drain(out, PORT_STDOUT);
			drain(err, PORT_STDERR);
			return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
		}
	}
}

/* Runs what the mailbox named and returns its status. */
static int run_program(int signals)
{
	int out, err, status;
	pid_t pid = start_program(&out, &err);

	status = relay(pid, signals, out, err);
	close(out);
	close(err);
	return status;
}

static bool has_entries(const char *path)
{
	DIR *dir = opendir(path);
	int count = 0;

	if (!dir)
		return false;
	while (count < 3 && readdir(dir))
		count++;
	closedir(dir);
	return count > 2;
}

/* Runs tar with the mailbox as its standard stream @stream; false when it fails. */
static bool tar_mailbox(int stream, const char *const argv[])
{
	int status, fd = open(MAILBOX, O_RDWR | O_CLOEXEC);
	off_t len;
	pid_t pid;

	/* What the kernel looked at before the machine was saved is no longer there. */
	if (fd < 0 || ioctl(fd, BLKFLSBUF, 0))
		die(MAILBOX);
	pid = fork();
	if (!pid) {
		dup2(fd, stream);
		execvp(argv[0], (char *const *)argv);
		_exit(127);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		die("tar");
	len = lseek(fd, 0, SEEK_CUR);
	if (stream == 1 && !status && !fsync(fd))
		port_printf(PORT_CONTROL, "files %lld\n", (long long)len);
	close(fd);
	return !status;
}

static void receive_files(void)
{
	static const char *const argv[] = {"tar", "-C", "/", "--no-overwrite-dir",
					   "-xf", "-",  NULL};

	if (!tar_mailbox(0, argv))
		die("unpacking the files of this run");
}

static void send_out(void)
{
	static const char *const argv[] = {"tar", "-C", "/out", "-cf", "-", ".", NULL};

	if (has_entries("/out") && !tar_mailbox(1, argv))
		port_printf(PORT_STDERR, "guest: /out could not be handed over\n");
}

static void send_kernel_log(void)
{
	enum { READ_ALL = 3, SIZE_BUFFER = 10 };
	int size = klogctl(SIZE_BUFFER, NULL, 0);
	char *log = size > 0 ? malloc((size_t)size) : NULL;
	int len = log ? klogctl(READ_ALL, log, size) : 0;

	if (len > 0)
		port_write(PORT_LOG, log, (size_t)len);
	free(log);
}

static void set_environment(void)
{
	clearenv();
	setenv("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", 1);
	setenv("HOME", "/root", 1);
	setenv("LANG", "C.UTF-8", 1);
	setenv("TERM", "dumb", 1);
	setenv("QLINUX_GUEST", "1", 1);
}

int main(void)
{
	struct sched_param priority = {.sched_priority = 50};
	int signals, status;
	sigset_t set;
	bool more;

	if (ioperm(PORT_STDOUT, PORT_LOG - PORT_STDOUT + 1, 1) ||
	    ioperm(PORT_EXIT, PORT_PAUSE - PORT_EXIT + 1, 1))
		reboot(RB_POWER_OFF);
	enter_root();
	prepare_root();
	set_environment();
	umask(022);
	wait_for(MAILBOX);
	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	sigprocmask(SIG_BLOCK, &set, NULL);
	/* The program must not inherit the priority: SCHED_RESET_ON_FORK. */
	if (sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &priority))
		die("sched_setscheduler");
	signals = signalfd(-1, &set, SFD_CLOEXEC);
	if (signals < 0)
		die("signalfd");
	do {
		outb(1, PORT_PAUSE);
		receive_files();
		more = !unlink(PREPARE);
		status = run_program(signals);
	} while (more && !status);
	send_out();
	send_kernel_log();
	port_printf(PORT_CONTROL, "exit %d\n", status);
	stop_machine();
}
