/* A disk that is written down, and that fails when it is told to.
 *
 * Loaded by LD_PRELOAD. Every call that changes a file below the folder $DISKFAULTS_FOLDER is
 * appended to the file $DISKFAULTS_LOG, with its data, in the order in which the calls returned.
 * `diskfaults_fail` lets calls fail; while the file $DISKFAULTS_FULL exists, the disk is full.
 * `diskfaults_note` puts a line of text into the log, so that the log says what was acknowledged
 * before which call. tests/service/disk.py reads the log.
 *
 * A record: operation (1 byte), error (4), handle (4), offset (8), length of name (4), length of
 * data (4), name, data. All in the byte order of the machine.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { OPEN = 'o', CREATE = 'c', WRITE = 'w', SYNC = 's', CUT = 't', RENAME = 'r', UNLINK = 'u',
       FOLDER = 'm', NOTE = 'n' };
#define HANDLES 65536

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int logged = -1;
static char folder[4096], full[4096];
static int handles[HANDLES]; /* of a file descriptor; 0: not below the folder */
static char *names[HANDLES]; /* of a file descriptor */
static int next_handle = 1;

/* Which calls fail. */
static char failing[16];   /* operations, such as "ws" */
static char ending[256];   /* of the name */
static int skipped, failures, error_number, loses;

/* What a file was before each write since it was last synced, the newest first. */
struct undo { ino_t file; off_t offset; off_t size; size_t length; char *before; struct undo *next; };
static struct undo *undos;

#define REAL(name) \
    static __typeof__(&name) real; \
    if (!real) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

static ssize_t real_write(int file, const void *data, size_t length) {
    REAL(write);
    return real(file, data, length);
}

static ssize_t real_pwrite(int file, const void *data, size_t length, off_t offset) {
    REAL(pwrite64);
    return real(file, data, length, offset);
}

static int real_ftruncate(int file, off_t size) {
    REAL(ftruncate64);
    return real(file, size);
}

static int real_open(const char *path, int flags, mode_t mode) {
    REAL(open64);
    return real(path, flags, mode);
}

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("DISKFAULTS_LOG"), *below = getenv("DISKFAULTS_FOLDER");
    const char *marks_full = getenv("DISKFAULTS_FULL");
    if (path && below) {
        snprintf(folder, sizeof folder, "%s", below);
        snprintf(full, sizeof full, "%s", marks_full ? marks_full : "");
        logged = real_open(path, O_WRONLY | O_CREAT | O_APPEND, 0600);
    }
}

static int is_below(const char *path) {
    return logged >= 0 && path && strncmp(path, folder, strlen(folder)) == 0;
}

static void put(char operation, int error, int handle, off_t offset, const char *name,
                const void *data, size_t length) {
    uint32_t name_length = name ? strlen(name) : 0;
    size_t size = 25 + name_length + length;
    char *record = malloc(size), *at = record;
    int32_t error32 = error, handle32 = handle;
    int64_t offset64 = offset;
    uint32_t length32 = length;
    *at++ = operation;
    memcpy(at, &error32, 4); at += 4;
    memcpy(at, &handle32, 4); at += 4;
    memcpy(at, &offset64, 8); at += 8;
    memcpy(at, &name_length, 4); at += 4;
    memcpy(at, &length32, 4); at += 4;
    if (name_length) memcpy(at, name, name_length);
    if (length) memcpy(at + name_length, data, length);
    for (size_t done = 0; done < size;) {
        ssize_t now = real_write(logged, record + done, size - done);
        if (now < 0) abort();
        done += now;
    }
    free(record);
}

static int fails(char operation, const char *name) {
    size_t length = name ? strlen(name) : 0, end = strlen(ending);
    if (*full && strchr("wcm", operation) && !access(full, F_OK)) return ENOSPC;
    if (!failures || !strchr(failing, operation) || length < end) return 0;
    if (strcmp(name + length - end, ending)) return 0;
    if (skipped > 0) { skipped--; return 0; }
    if (failures > 0) failures--;
    return error_number;
}

/* Let calls fail from now on: those of some operations on names with this ending, after the first
 * few, so many times (-1: until the next rule). lost: a failed sync takes back what was written
 * since the last good one, as if the system had dropped the pages. */
void diskfaults_fail(const char *operations, const char *end, int skip, int count, int error,
                     int lost) {
    pthread_mutex_lock(&lock);
    snprintf(failing, sizeof failing, "%s", operations);
    snprintf(ending, sizeof ending, "%s", end);
    skipped = skip, failures = count, error_number = error, loses = lost;
    pthread_mutex_unlock(&lock);
}

void diskfaults_note(const char *text) {
    if (logged < 0) return;
    pthread_mutex_lock(&lock);
    put(NOTE, 0, 0, 0, NULL, text, strlen(text));
    pthread_mutex_unlock(&lock);
}

static void remember(int file, off_t offset, size_t length) {
    struct stat now;
    if (fstat(file, &now)) abort();
    struct undo *undo = malloc(sizeof *undo);
    undo->file = now.st_ino, undo->offset = offset, undo->size = now.st_size;
    undo->before = malloc(length ? length : 1);
    ssize_t have = pread(file, undo->before, length, offset);
    if (have < 0 && errno == EBADF) { /* the descriptor is for writing only */
        /* Closing another one drops the process's locks on the file, so this is the last resort:
         * SQLite, which has locks, opens its files for reading too. */
        char path[64];
        snprintf(path, sizeof path, "/proc/self/fd/%d", file);
        int reading = real_open(path, O_RDONLY, 0);
        have = reading < 0 ? 0 : pread(reading, undo->before, length, offset);
        if (reading >= 0) { REAL(close); real(reading); }
    }
    undo->length = have < 0 ? 0 : have;
    undo->next = undos;
    undos = undo;
}

/* After a sync: forget what was before; if take_back, put it there again. */
static void settle(int file, int take_back) {
    struct stat now;
    if (fstat(file, &now)) return;
    for (struct undo **at = &undos; *at;) {
        struct undo *undo = *at;
        if (undo->file != now.st_ino) { at = &undo->next; continue; }
        if (take_back) {
            real_pwrite(file, undo->before, undo->length, undo->offset);
            real_ftruncate(file, undo->size);
        }
        *at = undo->next;
        free(undo->before);
        free(undo);
    }
}

static int opened(const char *path, int flags, mode_t mode) {
    if (!is_below(path)) return real_open(path, flags, mode);
    pthread_mutex_lock(&lock);
    int is_new = access(path, F_OK) != 0, result = -1;
    int error = is_new && (flags & O_CREAT) ? fails(CREATE, path) : 0;
    if (error) errno = error;
    else result = real_open(path, flags, mode);
    if (result >= 0 && result < HANDLES) {
        handles[result] = next_handle++;
        free(names[result]);
        names[result] = strdup(path);
        put(is_new ? CREATE : OPEN, 0, handles[result], 0, path, NULL, 0);
        if (flags & O_TRUNC) {
            remember(result, 0, 0);
            put(CUT, 0, handles[result], 0, path, NULL, 0);
        }
    }
    int saved = errno;
    pthread_mutex_unlock(&lock);
    errno = saved;
    return result;
}

#define OPENED \
    mode_t mode = 0; \
    if (flags & (O_CREAT | O_TMPFILE)) { \
        va_list more; \
        va_start(more, flags); \
        mode = va_arg(more, mode_t); \
        va_end(more); \
    }

int open(const char *path, int flags, ...) { OPENED return opened(path, flags, mode); }
int open64(const char *path, int flags, ...) { OPENED return opened(path, flags, mode); }
int creat(const char *path, mode_t mode) { return opened(path, O_CREAT | O_WRONLY | O_TRUNC, mode); }
int openat(int at, const char *path, int flags, ...) {
    OPENED
    if (path[0] == '/' || at == AT_FDCWD) return opened(path, flags, mode);
    REAL(openat);
    return real(at, path, flags, mode);
}
int openat64(int at, const char *path, int flags, ...) {
    OPENED
    if (path[0] == '/' || at == AT_FDCWD) return opened(path, flags, mode);
    REAL(openat64);
    return real(at, path, flags, mode);
}

int close(int file) {
    REAL(close);
    if (file >= 0 && file < HANDLES && handles[file]) {
        pthread_mutex_lock(&lock);
        handles[file] = 0;
        pthread_mutex_unlock(&lock);
    }
    return real(file);
}

static ssize_t written(int file, const void *data, size_t length, off_t offset, int at_offset) {
    pthread_mutex_lock(&lock);
    if (!at_offset) offset = lseek(file, 0, SEEK_CUR);
    int error = fails(WRITE, names[file]);
    ssize_t result = -1;
    if (error) errno = error;
    else {
        remember(file, offset, length);
        result = at_offset ? real_pwrite(file, data, length, offset) : real_write(file, data, length);
        if (result > 0) put(WRITE, 0, handles[file], offset, NULL, data, result);
    }
    int saved = errno;
    pthread_mutex_unlock(&lock);
    errno = saved;
    return result;
}

static int is_known(int file) { return file >= 0 && file < HANDLES && handles[file]; }

ssize_t write(int file, const void *data, size_t length) {
    return is_known(file) ? written(file, data, length, 0, 0) : real_write(file, data, length);
}
ssize_t pwrite(int file, const void *data, size_t length, off_t offset) {
    return is_known(file) ? written(file, data, length, offset, 1)
                          : real_pwrite(file, data, length, offset);
}
ssize_t pwrite64(int file, const void *data, size_t length, off64_t offset) {
    return pwrite(file, data, length, offset);
}

static int synced(int file, int (*real)(int)) {
    if (!is_known(file)) return real(file);
    pthread_mutex_lock(&lock);
    int error = fails(SYNC, names[file]);
    int result = error ? -1 : 0; /* the disk below need not be waited for */
    settle(file, error && loses);
    put(SYNC, error, handles[file], error && loses, NULL, NULL, 0);
    pthread_mutex_unlock(&lock);
    if (error) errno = error;
    return result;
}

int fsync(int file) { REAL(fsync); return synced(file, real); }
int fdatasync(int file) { REAL(fdatasync); return synced(file, real); }

int ftruncate64(int file, off64_t size) {
    if (!is_known(file)) return real_ftruncate(file, size);
    pthread_mutex_lock(&lock);
    int error = fails(CUT, names[file]), result = -1;
    if (error) errno = error;
    else {
        struct stat now;
        if (!fstat(file, &now)) remember(file, size < now.st_size ? size : now.st_size,
                                         size < now.st_size ? now.st_size - size : 0);
        result = real_ftruncate(file, size);
        if (!result) put(CUT, 0, handles[file], size, NULL, NULL, 0);
    }
    int saved = errno;
    pthread_mutex_unlock(&lock);
    errno = saved;
    return result;
}
int ftruncate(int file, off_t size) { return ftruncate64(file, size); }

int rename(const char *from, const char *to) {
    REAL(rename);
    if (!is_below(from)) return real(from, to);
    pthread_mutex_lock(&lock);
    int error = fails(RENAME, to), result = error ? -1 : real(from, to);
    if (error) errno = error;
    if (!result) put(RENAME, 0, 0, 0, from, to, strlen(to));
    int saved = errno;
    pthread_mutex_unlock(&lock);
    errno = saved;
    return result;
}

int unlink(const char *path) {
    REAL(unlink);
    if (!is_below(path)) return real(path);
    pthread_mutex_lock(&lock);
    int error = fails(UNLINK, path), result = error ? -1 : real(path);
    if (error) errno = error;
    if (!result) put(UNLINK, 0, 0, 0, path, NULL, 0);
    int saved = errno;
    pthread_mutex_unlock(&lock);
    errno = saved;
    return result;
}

int mkdir(const char *path, mode_t mode) {
    REAL(mkdir);
    if (!is_below(path)) return real(path, mode);
    pthread_mutex_lock(&lock);
    int result = real(path, mode), saved = errno;
    if (!result) put(FOLDER, 0, 0, 0, path, NULL, 0);
    pthread_mutex_unlock(&lock);
    errno = saved;
    return result;
}
