/* A disk that is full: from the n-th change of a file in one folder on, some changes find no room. Loaded before the C
   library, so that whatever writes there, Python or SQLite, meets what a real full disk would give it. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

static char folder[PATH_MAX];
static long seen, first, many, half, hit, asleep;

void full_disk(const char *where, long from, long count, long partly) {
    snprintf(folder, sizeof folder, "%s", where);
    seen = hit = 0, first = from, many = count, half = partly;
}
void full_disk_sleep(long yes) { asleep = yes; }
long full_disk_seen(void) { return seen; }
long full_disk_hit(void) { return hit; }

static int there(const char *path) { return folder[0] && !asleep && !strncmp(path, folder, strlen(folder)); }
static int inside(int fd) {
    char link[64], path[PATH_MAX];
    if (!folder[0] || asleep) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, sizeof path - 1);
    if (n < 0) return 0;
    path[n] = 0;
    return there(path);
}
static int no_room(void) {
    long now = seen++;
    int full = now >= first && now < first + many;
    hit += full;
    if (full) errno = ENOSPC;
    return full;
}
#define REAL(name) static __typeof__(name) *real; if (!real) real = dlsym(RTLD_NEXT, #name)
/* A write for which there is room for half is short; the next one finds none. */
#define WRITING(call_all, call_half) \
    if (inside(fd) && no_room()) { if (half && hit == 1 && n > 1) return call_half; errno = ENOSPC; return -1; } \
    return call_all

ssize_t write(int fd, const void *b, size_t n) { REAL(write); WRITING(real(fd, b, n), real(fd, b, n / 2)); }
ssize_t pwrite(int fd, const void *b, size_t n, off_t o) {
    REAL(pwrite); WRITING(real(fd, b, n, o), real(fd, b, n / 2, o));
}
ssize_t pwrite64(int fd, const void *b, size_t n, off64_t o) {
    REAL(pwrite64); WRITING(real(fd, b, n, o), real(fd, b, n / 2, o));
}
int ftruncate(int fd, off_t n) { REAL(ftruncate); return inside(fd) && no_room() ? -1 : real(fd, n); }
int ftruncate64(int fd, off64_t n) { REAL(ftruncate64); return inside(fd) && no_room() ? -1 : real(fd, n); }
int fsync(int fd) { REAL(fsync); return inside(fd) && no_room() ? -1 : real(fd); }
int fdatasync(int fd) { REAL(fdatasync); return inside(fd) && no_room() ? -1 : real(fd); }
int rename(const char *a, const char *b) { REAL(rename); return there(b) && no_room() ? -1 : real(a, b); }
int mkdir(const char *p, mode_t m) { REAL(mkdir); return there(p) && no_room() ? -1 : real(p, m); }
#define OPENING(name) \
int name(const char *path, int flags, ...) { \
    REAL(name); va_list rest; va_start(rest, flags); mode_t mode = va_arg(rest, mode_t); va_end(rest); \
    if ((flags & O_CREAT) && there(path) && access(path, F_OK) && no_room()) { errno = ENOSPC; return -1; } \
    return real(path, flags, mode); }
OPENING(open)
OPENING(open64)
