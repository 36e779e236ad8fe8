/* Lets the n-th allocation, write, fsync, rename, lock, open or read of a process fail.
 *
 * Preloaded into an interpreter, which arms it around one call. Everything else passes through.
 * Linux with the GNU C library only: its own allocator is reached by the names that it keeps for
 * this, because looking them up with dlsym would allocate.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum { ALLOCATION, WRITE, SHORT_WRITE, FSYNC, RENAME, LOCK, OPEN, READ, KINDS };
enum { FRAMES_MAX = 64 };

extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);

static atomic_int armed_kind = -1;
static atomic_long first, last, seen, failed;
static int armed_errno;
static void *frames[FRAMES_MAX];
static int frame_count;
static __thread int is_inside;

void sslm_fault_arm(int kind, long n, long count, int number) {
    atomic_store(&armed_kind, -1);
    atomic_store(&seen, 0);
    atomic_store(&failed, 0);
    atomic_store(&first, n);
    atomic_store(&last, n + count);
    armed_errno = number;
    frame_count = 0;
    atomic_store(&armed_kind, kind);
}

long sslm_fault_disarm(void) {
    atomic_store(&armed_kind, -1);
    return atomic_load(&seen);
}

long sslm_fault_failed(void) { return atomic_load(&failed); }

/* The functions that the failed call came through, innermost first: "file:function" lines. */
size_t sslm_fault_stack(char *out, size_t size) {
    size_t used = 0;
    for (int i = 0; i < frame_count && used + 1 < size; i++) {
        Dl_info info;
        const char *file = "?", *name = "?";
        if (dladdr(frames[i], &info)) {
            if (info.dli_fname) {
                const char *slash = strrchr(info.dli_fname, '/');
                file = slash ? slash + 1 : info.dli_fname;
            }
            if (info.dli_sname) name = info.dli_sname;
        }
        int written = snprintf(out + used, size - used, "%s:%s\n", file, name);
        if (written < 0 || (size_t)written >= size - used) break;
        used += (size_t)written;
    }
    return used;
}

static int fails(int kind) {
    if (atomic_load_explicit(&armed_kind, memory_order_relaxed) != kind || is_inside) return 0;
    long n = atomic_fetch_add(&seen, 1);
    if (n < atomic_load(&first) || n >= atomic_load(&last)) return 0;
    is_inside = 1;
    if (!frame_count) frame_count = backtrace(frames, FRAMES_MAX);
    is_inside = 0;
    atomic_fetch_add(&failed, 1);
    errno = armed_errno;
    return 1;
}

static void say(const char *text) { (void)!syscall(SYS_write, 2, text, strlen(text)); }

/* Says which libraries a crash and the fault before it came through; a parent reads that. */
static void crashed(int number) {
    static char text[8192];
    atomic_store(&armed_kind, -1);
    is_inside = 1;
    text[sslm_fault_stack(text, sizeof text - 1)] = 0;
    say("\n=fault=\n");
    say(text);
    frame_count = backtrace(frames, FRAMES_MAX);
    text[sslm_fault_stack(text, sizeof text - 1)] = 0;
    say("=crash=\n");
    say(text);
    say("=end=\n");
    signal(number, SIG_DFL);
    raise(number);
}

__attribute__((constructor)) static void begin(void) {
    static char stack[1 << 16];
    void *here[2];
    /* The first call loads a library, which allocates. */
    backtrace(here, 2);
    stack_t other = {.ss_sp = stack, .ss_size = sizeof stack};
    sigaltstack(&other, NULL);
    struct sigaction action = {.sa_handler = crashed, .sa_flags = SA_ONSTACK};
    sigaction(SIGABRT, &action, NULL);
    sigaction(SIGSEGV, &action, NULL);
    sigaction(SIGBUS, &action, NULL);
    sigaction(SIGILL, &action, NULL);
}

void *malloc(size_t size) { return fails(ALLOCATION) ? NULL : __libc_malloc(size); }

void *calloc(size_t count, size_t size) {
    return fails(ALLOCATION) ? NULL : __libc_calloc(count, size);
}

void *realloc(void *block, size_t size) {
    return fails(ALLOCATION) ? NULL : __libc_realloc(block, size);
}

void *memalign(size_t alignment, size_t size) {
    return fails(ALLOCATION) ? NULL : __libc_memalign(alignment, size);
}

void *aligned_alloc(size_t alignment, size_t size) { return memalign(alignment, size); }

int posix_memalign(void **block, size_t alignment, size_t size) {
    void *found = memalign(alignment, size);
    if (!found) return ENOMEM;
    *block = found;
    return 0;
}

void *mmap(void *place, size_t size, int protection, int flags, int file, off_t offset) {
    if (fails(ALLOCATION)) return MAP_FAILED;
    return (void *)syscall(SYS_mmap, place, size, protection, flags, file, offset);
}

void *mmap64(void *place, size_t size, int protection, int flags, int file, off_t offset) {
    return mmap(place, size, protection, flags, file, offset);
}

ssize_t write(int file, const void *bytes, size_t size) {
    static ssize_t (*real)(int, const void *, size_t);
    if (!real) real = (ssize_t(*)(int, const void *, size_t))dlsym(RTLD_NEXT, "write");
    if (fails(WRITE)) return -1;
    if (size > 1 && fails(SHORT_WRITE)) size /= 2;
    return real(file, bytes, size);
}

ssize_t pwrite64(int file, const void *bytes, size_t size, off64_t offset) {
    if (fails(WRITE)) return -1;
    if (size > 1 && fails(SHORT_WRITE)) size /= 2;
    return syscall(SYS_pwrite64, file, bytes, size, offset);
}

ssize_t pwrite(int file, const void *bytes, size_t size, off_t offset) {
    return pwrite64(file, bytes, size, offset);
}

ssize_t writev(int file, const struct iovec *parts, int count) {
    return fails(WRITE) ? -1 : syscall(SYS_writev, file, parts, count);
}

int fsync(int file) { return fails(FSYNC) ? -1 : (int)syscall(SYS_fsync, file); }

int fdatasync(int file) { return fails(FSYNC) ? -1 : (int)syscall(SYS_fdatasync, file); }

int renameat2(int from, const char *old, int to, const char *new, unsigned flags) {
    return fails(RENAME) ? -1 : (int)syscall(SYS_renameat2, from, old, to, new, flags);
}

int renameat(int from, const char *old, int to, const char *new) {
    return renameat2(from, old, to, new, 0);
}

int rename(const char *old, const char *new) {
    return renameat2(AT_FDCWD, old, AT_FDCWD, new, 0);
}

int linkat(int from, const char *old, int to, const char *new, int flags) {
    return fails(RENAME) ? -1 : (int)syscall(SYS_linkat, from, old, to, new, flags);
}

int link(const char *old, const char *new) { return linkat(AT_FDCWD, old, AT_FDCWD, new, 0); }

int flock(int file, int operation) {
    return fails(LOCK) ? -1 : (int)syscall(SYS_flock, file, operation);
}

int fcntl64(int file, int command, ...) {
    static int (*real)(int, int, ...);
    if (!real) real = (int (*)(int, int, ...))dlsym(RTLD_NEXT, "fcntl64");
    va_list rest;
    va_start(rest, command);
    void *argument = va_arg(rest, void *);
    va_end(rest);
    if ((command == F_SETLK || command == F_SETLKW) && fails(LOCK)) return -1;
    return real(file, command, argument);
}

int fcntl(int file, int command, ...) {
    va_list rest;
    va_start(rest, command);
    void *argument = va_arg(rest, void *);
    va_end(rest);
    return fcntl64(file, command, argument);
}

int openat64(int folder, const char *path, int flags, ...) {
    mode_t mode = 0;
    if (flags & (O_CREAT | O_TMPFILE)) {
        va_list rest;
        va_start(rest, flags);
        mode = va_arg(rest, mode_t);
        va_end(rest);
    }
    return fails(OPEN) ? -1 : (int)syscall(SYS_openat, folder, path, flags, mode);
}

int openat(int folder, const char *path, int flags, ...) {
    va_list rest;
    va_start(rest, flags);
    mode_t mode = va_arg(rest, mode_t);
    va_end(rest);
    return openat64(folder, path, flags, mode);
}

int open64(const char *path, int flags, ...) {
    va_list rest;
    va_start(rest, flags);
    mode_t mode = va_arg(rest, mode_t);
    va_end(rest);
    return openat64(AT_FDCWD, path, flags, mode);
}

int open(const char *path, int flags, ...) {
    va_list rest;
    va_start(rest, flags);
    mode_t mode = va_arg(rest, mode_t);
    va_end(rest);
    return openat64(AT_FDCWD, path, flags, mode);
}

ssize_t read(int file, void *bytes, size_t size) {
    static ssize_t (*real)(int, void *, size_t);
    if (!real) real = (ssize_t(*)(int, void *, size_t))dlsym(RTLD_NEXT, "read");
    return fails(READ) ? -1 : real(file, bytes, size);
}

ssize_t pread64(int file, void *bytes, size_t size, off64_t offset) {
    return fails(READ) ? -1 : syscall(SYS_pread64, file, bytes, size, offset);
}

ssize_t pread(int file, void *bytes, size_t size, off_t offset) {
    return pread64(file, bytes, size, offset);
}
